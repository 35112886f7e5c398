"""Draws docs/images/house.svg, the rooms of the house and their imports, from the code: ``make house``."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import grimp

DOCS = Path(__file__).parent
PICTURE = DOCS / "images" / "house.svg"
SOURCE = DOCS.parent / "src" / "everhold"

WIDTH, ROW, BOX, GAP, LANE = 860, 76, (118, 40), 26, 20
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title">
<title id="title">The rooms of everhold, by layer, and which imports which</title>
<style>
  rect {{ fill: #e3ebf3; stroke: #5d7c9b }}
  text {{ font: 600 14px system-ui, sans-serif; fill: #17293b; text-anchor: middle }}
  .lines {{ font-weight: 400; font-size: 11px; fill: #40566b }}
  path {{ fill: none; stroke: #7d93a8; stroke-width: 1.1; marker-end: url(#tip) }}
</style>
<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
  <polygon points="0,0.8 8,4 0,7.2" fill="#7d93a8"/>
</marker>
"""
"""The colours are legible on white and on dark pages."""

Arrow = tuple[str, str]
Point = tuple[float, float]
Node = str | tuple[str, str, int]
"""A room, or the place where an arrow passes a row."""


def rows() -> list[list[str]]:
    """The rooms by layer, the highest first, as import-linter holds them."""
    settings = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract.get("containers") == ["everhold"])
    return [re.findall(r"\w+", layer) for layer in layers]


def size(room: str) -> int:
    """Lines of code of a room."""
    files = sorted((SOURCE / room).rglob("*.py")) or [SOURCE / f"{room}.py"]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def imports() -> set[Arrow]:
    """Which room imports which when the program runs; what only type checkers import does not count."""
    graph = grimp.build_graph("everhold", exclude_type_checking_imports=True, cache_dir=None)
    arrows = set()
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            (_, *start), (_, *end) = module.split("."), other.split(".")
            if start and end and start[0] != end[0]:  # the package itself is no room: it lists names and the version
                arrows.add((start[0], end[0]))
    return arrows


def drawn(rows: list[list[str]], arrows: set[Arrow]) -> set[Arrow]:
    """The arrows without those that a way down over other rooms replaces."""
    level = {room: height for height, row in enumerate(rows) for room in row}
    below = {room: {other for start, other in arrows if start == room and level[other] > level[room]} for room in level}
    reached: dict[str, set[str]] = {}
    for room in (room for row in reversed(rows) for room in row):
        reached[room] = below[room].union(*(reached[other] for other in below[room]))
    detours = {(room, far) for room in level for other in below[room] for far in reached[other]}
    return arrows - detours


def arranged(rows: list[list[str]], arrows: set[Arrow]) -> tuple[dict[Node, Point], dict[Arrow, list[Node]]]:
    """Middles of the rooms, and over which points each arrow goes: rows are sorted until few arrows cross."""
    level = {room: height for height, row in enumerate(rows) for room in row}
    line: list[list[Node]] = [list(row) for row in rows]
    ways: dict[Arrow, list[Node]] = {}
    for start, end in sorted(arrows):
        passed: list[Node] = [(start, end, height) for height in range(level[start] + 1, level[end])]
        for node in passed:
            line[level[start] + 1 + passed.index(node)].append(node)
        ways[start, end] = [start, *passed, end]
    beside: dict[Node, list[Node]] = {node: [] for row in line for node in row}
    for (start, end), way in ways.items():
        for upper, lower in pairwise(way if level[start] < level[end] else ()):  # within a row an arrow pulls nothing
            beside[upper].append(lower)
            beside[lower].append(upper)
    across = {node: WIDTH / 2 + 40.0 * place for row in line for place, node in enumerate(row)}
    for _ in range(200):
        for row in [*line, *reversed(line)]:
            wanted = {node: _pulled(node, beside[node], across) for node in row if beside[node]}
            wanted = {node: wanted.get(node, across[node]) for node in row}
            row.sort(key=lambda node: (wanted[node], str(node)))
            across |= _apart(row, wanted)
    middles = {node: (across[node], ROW * (height + 0.5)) for height, row in enumerate(line) for node in row}
    return middles, ways


def _pulled(node: Node, others: list[Node], across: dict[Node, float]) -> float:
    """Where its neighbours want a node; long arrows are stiff."""
    stiff = {other: 1.0 if isinstance(node, str) or isinstance(other, str) else 6.0 for other in others}
    return sum(across[other] * stiff[other] for other in others) / sum(stiff.values())


def _apart(row: list[Node], wanted: dict[Node, float]) -> dict[Node, float]:
    """Places near the wanted ones, in order, without overlaps: neighbours that are too close become one block."""
    blocks: list[tuple[list[Node], list[float], float]] = []  # nodes, distances from the first, the first's place
    for node in row:
        nodes, offsets, place = [node], [0.0], wanted[node]
        while blocks and blocks[-1][2] + blocks[-1][1][-1] + _distance(blocks[-1][0][-1], nodes[0]) > place:
            before, distances, _ = blocks.pop()
            step = distances[-1] + _distance(before[-1], nodes[0])
            nodes, offsets = before + nodes, distances + [step + offset for offset in offsets]
            place = sum(wanted[one] - offset for one, offset in zip(nodes, offsets, strict=True)) / len(nodes)
        blocks.append((nodes, offsets, place))
    return {
        node: place + offset for nodes, offsets, place in blocks for node, offset in zip(nodes, offsets, strict=True)
    }


def _distance(left: Node, right: Node) -> float:
    """Between the middles of two neighbours in a row, at least."""
    return sum(BOX[0] / 2 + GAP / 2 if isinstance(node, str) else LANE / 2 for node in (left, right))


def picture() -> str:
    """The picture as SVG: boxes ``room-NAME``, arrows ``from-NAME to-NAME``."""
    layers = rows()
    arrows = drawn(layers, imports())
    middles, ways = arranged(layers, arrows)
    left = min(x for x, _ in middles.values()) - BOX[0] / 2 - GAP
    width = max(x for x, _ in middles.values()) + BOX[0] / 2 + GAP - left
    middles = {node: (x - left, y) for node, (x, y) in middles.items()}
    parts = [HEAD.format(width=round(width), height=ROW * len(layers))]
    for (start, end), way in sorted(ways.items()):
        parts.append(f'<path class="from-{start} to-{end}" d="{_curve([middles[node] for node in way])}"/>\n')
    for room in (room for row in layers for room in row):
        x, y = middles[room]
        parts.append(
            f'<g id="room-{room}"><rect x="{x - BOX[0] / 2:.1f}" y="{y - BOX[1] / 2:.1f}" width="{BOX[0]}" '
            f'height="{BOX[1]}" rx="5"/><text x="{x:.1f}" y="{y - 2:.1f}">{room}</text>'
            f'<text class="lines" x="{x:.1f}" y="{y + 13:.1f}">{size(room):,} lines</text></g>\n'
        )
    return "".join([*parts, "</svg>\n"])


def _curve(points: list[Point]) -> str:
    """From the lower edge of one box to the upper edge of another; from side to side within a row."""
    (x, y), (far, deep) = points[0], points[-1]
    if y == deep:
        edge = BOX[0] / 2 if far > x else -BOX[0] / 2
        return f"M{x + edge:.1f},{y:.1f} L{far - edge:.1f},{y:.1f}"
    half = BOX[1] / 2
    lanes = [point for middle, depth in points[1:-1] for point in ((middle, depth - half), (middle, depth + half))]
    stops = [(x, y + half), *lanes, (far, deep - half)]
    curve = f"M{x:.1f},{y + half:.1f}"
    for place, ((x, y), (far, deep)) in enumerate(pairwise(stops)):
        bend = (y + deep) / 2
        bent = f"C{x:.1f},{bend:.1f} {far:.1f},{bend:.1f} {far:.1f},{deep:.1f}"
        curve += f" L{far:.1f},{deep:.1f}" if place % 2 else f" {bent}"
    return curve


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
