"""Geometry of the small pictures on pages: numbers in, coordinates out; the templates draw them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

_WIDE, _LEFT, _RIGHT = 360.0, 40.0, 350.0
_TOP, _BOTTOM, _BARS = 12.0, 112.0, 160.0  # of the line, and the foot of the bars
_LABELS = 4


def sawtooth(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Half-widths before and after each arrival, above the queries and surprises between two of them.

    Returns:
        Coordinates; None where there is nothing to draw.
    """
    widths = [value for row in rows for value in (row["within_before"], row["within"]) if value is not None]
    if len(rows) < 2 or not widths:
        return None
    most, across = max(widths), _across(len(rows))
    corners: list[tuple[float, float]] = []
    for at, row in zip(across, rows, strict=True):
        for value in (row["within_before"], row["within"]):
            if value is not None and (at, (height := _height(value, 0.0, most))) not in corners:
                corners.append((at, height))
    asked = [(new["queries"] - old["queries"], new["surprises"] - old["surprises"])
             for old, new in itertools.pairwise(rows)]  # fmt: skip
    tallest = max([queries for queries, _ in asked] + [1])
    step, scale = across[1] - across[0], (_BARS - _BOTTOM - 12.0) / tallest
    bars = [
        {"x": _number(at + 0.15 * step), "width": _number(0.7 * step), "queries": queries, "surprises": surprises,
         **_bar("all", queries * scale), **_bar("told", surprises * scale)}
        for at, (queries, surprises) in zip(across, asked, strict=False)
    ]  # fmt: skip
    return {
        "points": " ".join(f"{_number(x)},{_number(y)}" for x, y in corners), "bars": bars,
        "marks": [_number(at) for at, row in zip(across, rows, strict=True) if row["arrival"]],
        "trees": [_number(at) for at, row in zip(across, rows, strict=True) if row["tree"]],
        "labels": _labels([row["until"] or row["moment"] for row in rows], across),
        "ticks": [(_number(_height(value, 0.0, most)), f"{value:.3g}") for value in (0.0, most / 2, most)],
        "tallest": tallest,
    }  # fmt: skip


def intervals(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """One interval for each window.

    Returns:
        Coordinates; None where there is nothing to draw.
    """
    told = [row for row in rows if row["low"] is not None]
    if not told:
        return None
    least, most = min(row["low"] for row in told), max(row["high"] for row in told)
    across = _across(len(told))
    lines = [
        {"x": _number(at), "value": _number(_height(row["value"], least, most)), "source": row["source"],
         "low": _number(_height(row["low"], least, most)), "high": _number(_height(row["high"], least, most))}
        for at, row in zip(across, told, strict=True)
    ]  # fmt: skip
    ticks = [(_number(_height(value, least, most)), f"{value:.3g}") for value in (least, (least + most) / 2, most)]
    return {"lines": lines, "labels": _labels([str(row["window"]) for row in told], across), "ticks": ticks}


def _across(count: int) -> list[float]:
    if count == 1:
        return [(_LEFT + _RIGHT) / 2]
    inner = 14.0
    return [_LEFT + inner + (_RIGHT - _LEFT - 2 * inner) * place / (count - 1) for place in range(count)]


def _height(value: float, least: float, most: float) -> float:
    share = (value - least) / (most - least) if most > least else 0.5
    return _BOTTOM - (_BOTTOM - _TOP) * share


def _bar(name: str, height: float) -> dict[str, str]:
    return {f"{name}_y": _number(_BARS - height), f"{name}_height": _number(height)}


def _labels(texts: Sequence[str], across: Sequence[float]) -> list[tuple[str, str, str]]:
    """Place, anchor and text of a few labels: the first, the last, and some between them."""
    every = max(1, -(-(len(texts) - 1) // (_LABELS - 1)))
    chosen = sorted({*range(0, len(texts) - 1, every), len(texts) - 1})
    if len(chosen) > 1 and chosen[-1] - chosen[-2] < every:
        chosen.pop(-2)
    return [(_number(across[place]), _anchor(place, len(texts)), texts[place]) for place in chosen]


def _anchor(place: int, count: int) -> str:
    if count == 1:
        return "middle"
    return "start" if place == 0 else "end" if place == count - 1 else "middle"


def _number(value: float) -> str:
    return f"{value:.1f}"
