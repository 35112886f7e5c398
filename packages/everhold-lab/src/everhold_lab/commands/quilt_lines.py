"""The lines of the command `dependence quilts`: one for each row, made when it is printed, or a short list of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from everhold_lab.releases.markov_quilt import MarkovQuiltMechanism

MOST_LINES = 200
"""Most lines of a table; a table with more rows is a short list."""

_AT_EACH_END = 50


class EveryRow(Sequence[dict[str, Any]]):
    """One line for each row; nothing is kept, so that a million of them need no memory."""

    def __init__(self, mechanism: MarkovQuiltMechanism) -> None:
        self._mechanism = mechanism

    def __len__(self) -> int:
        return self._mechanism.rows

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(place, slice):
            return [self[row] for row in range(*place.indices(len(self)))]
        if not 0 <= place < len(self):
            raise IndexError(place)
        return self._mechanism.row_of(place)


def short_list(mechanism: MarkovQuiltMechanism) -> tuple[list[dict[str, Any]], int]:
    """The rows at both ends, and between them one row for each shape of quilts, with the number of rows that share it.

    Quilts have the same shape if they are the same seen from their rows. Each shape is shown by the first of its rows
    that needs most noise, and a row that needs most of all is always there.

    Returns:
        At most 200 lines in the order of rows, with the key ``alike``, and how many rows between the ends have a shape
        that is not shown.
    """
    rows = mechanism.rows
    if rows <= MOST_LINES:
        return [_line(mechanism, row, alike=1) for row in range(rows)], 0
    middle = range(_AT_EACH_END, rows - _AT_EACH_END)
    shapes: dict[tuple[int, ...], list[int]] = {}  # shape to its worst row and the number of its rows
    scales = mechanism.found.scale.tolist()
    for row in middle:
        line = mechanism.row_of(row)
        known = shapes.setdefault((line["nearby"], *(other - row for other in line["quilt"])), [row, 0])
        known[1] += 1
        if scales[row] > scales[known[0]]:
            known[0] = row
    room = MOST_LINES - 2 * _AT_EACH_END
    kept = _kept(list(shapes.values()), room, worst=max(shapes.values(), key=lambda known: scales[known[0]]))
    ends = [[row, 1] for row in (*range(_AT_EACH_END), *range(rows - _AT_EACH_END, rows))]
    lines = [_line(mechanism, row, alike=alike) for row, alike in sorted([*ends, *kept])]
    return lines, len(middle) - sum(alike for _, alike in kept)


def _kept(shapes: list[list[int]], room: int, *, worst: list[int]) -> list[list[int]]:
    """All shapes if there is room; otherwise the worst, the commonest, and others evenly spread."""
    if len(shapes) <= room:
        return shapes
    commonest = max(shapes, key=lambda known: known[1])
    always = [known for known in shapes if known in (worst, commonest)]
    others = [known for known in shapes if known not in always]
    left = room - len(always)
    return [*always, *(others[place * len(others) // left] for place in range(left))]


def _line(mechanism: MarkovQuiltMechanism, row: int, *, alike: int) -> dict[str, Any]:
    return {**mechanism.row_of(row), "alike": alike}
