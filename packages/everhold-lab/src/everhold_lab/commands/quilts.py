"""The command `dependence quilts`: the Markov quilt of every row, and the noise that a release needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, overload

import typer

from everhold.cli.arguments import FormatOption, model_from, with_option_groups
from everhold.cli.dependence import ChartOption, ModelArgument, save_picture
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list
from everhold.progress import progress

if TYPE_CHECKING:
    from everhold_lab.releases.markov_quilt import MarkovQuiltMechanism


MOST_LINES = 200
"""Most lines of a table; a table with more rows is a short list."""

_AT_EACH_END = 50


class EveryRow(Sequence[dict[str, Any]]):
    """Sequence with a line of facts for each row. Lines are computed on access, so a million rows need no memory."""

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
    """Return the rows at both ends and one row for each shape of quilt between, with how many rows share it.

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
    """Return all quilt shapes if there is room, else the worst, the most common, and some evenly spaced others."""
    if len(shapes) <= room:
        return shapes
    commonest = max(shapes, key=lambda known: known[1])
    always = [known for known in shapes if known in (worst, commonest)]
    others = [known for known in shapes if known not in always]
    left = room - len(always)
    return [*always, *(others[place * len(others) // left] for place in range(left))]


def _line(mechanism: MarkovQuiltMechanism, row: int, *, alike: int) -> dict[str, Any]:
    return {**mechanism.row_of(row), "alike": alike}


_MOST_JSON_ROWS = 5_000
_COLUMNS = ("row", "nearby", "quilt", "influence", "scale")


class Search(StrEnum):
    """Method that finds quilts."""

    EXACT = "exact"
    APPROXIMATE = "approximate"


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureOptions:
    """The picture of a quilt."""

    row: Annotated[int | None, "The row in the picture (by default the one that needs most noise)."] = None
    chart: ChartOption = None

    def draw(self, mechanism: MarkovQuiltMechanism) -> None:
        """Write the picture if one is requested."""
        if self.chart is None:
            return
        from everhold_lab.charts import quilts_chart

        with arguments_checked():
            drawn = quilts_chart(mechanism, self.row)
            save_picture(drawn, self.chart, "A row and its quilt", "The rows behind the quilt are remote.")


def register(app: typer.Typer) -> None:
    """Add the command `quilts`, to everhold's group `dependence`."""
    app.command()(with_option_groups(quilts))


def quilts(
    model: ModelArgument,
    *,
    rows: Annotated[int, "Number of rows, at most 1,000,000. For a network, its number of nodes."],
    epsilon: Annotated[float, "Privacy loss of the release."],
    search: Annotated[
        Search, "Every quilt within 2,048 rows, or those that the spectral gap allows (chains)."
    ] = Search.EXACT,
    picture: PictureOptions,
    form: FormatOption = Format.TABLE,
) -> None:
    """Find the Markov quilt of every row, and the noise that a release needs.

    Example:
      everhold dependence quilts --model chain.json --rows 100 --epsilon 1

    The scale is that of the Markov Quilt Mechanism (Song, Wang, Chaudhuri 2017)
    for a query that changes by 1 at most when a row changes. Rows are numbered
    from 0. A row's scale is (nearby rows + 1) / (epsilon - influence); the
    release needs the largest.

    A table has at most 200 lines: of more rows it shows both ends, and between
    them one row for each shape of quilts, with the number of rows alike. CSV
    has every row; JSON also names the rows nearby, for at most 5,000 rows.

    Exit codes:
      0  found
      1  a file cannot be read or written, or a package is missing
      2  wrong usage
      9  the file holds no model, or it is neither a chain nor a network
    """
    from everhold_lab.releases.markov_quilt import REACH, MarkovQuiltMechanism

    if form is Format.JSON and rows > _MOST_JSON_ROWS:
        raise Misuse(
            f"--rows is {rows}, and --format json names every row of every quilt. Pass at "
            f"most {_MOST_JSON_ROWS} rows, or --format csv."
        )
    given = model_from(model)
    with arguments_checked(), progress("looking for quilts"):
        mechanism = MarkovQuiltMechanism(given, rows=rows, epsilon=epsilon, search=search.value)
        scale = mechanism.scale
        shown, hidden = short_list(mechanism) if form is Format.TABLE else ([], 0)
    picture.draw(mechanism)
    if rows > 2 * REACH and scale >= (1.0 - 1e-9) * rows / epsilon:
        note(
            f"some row is best served by all others nearby. Quilts more than {REACH:,} "
            "rows away were not looked at, and might need less noise"
        )
    if form is Format.CSV:
        show_list(EveryRow(mechanism), _COLUMNS, form, document={})
    elif form is Format.JSON:
        show_list([], _COLUMNS, form, document=mechanism.to_dict())
    else:
        short = len(shown) < rows
        show_list(shown, (*_COLUMNS, "alike") if short else _COLUMNS, Format.TABLE, document={})
        if short:
            left_out = f". {hidden:,} rows have other shapes, with no more noise, and are left out" if hidden else ""
            note(
                f"{len(shown)} of {rows:,} rows are shown: both ends, and between them one for each shape of quilts, "
                f"with the number of rows alike{left_out}. --format csv has every row"
            )
        note(f"noise scale {scale:.6g} for a query that changes by 1 at most when a row changes")
