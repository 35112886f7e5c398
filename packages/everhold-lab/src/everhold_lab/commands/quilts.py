"""The command `dependence quilts`: the Markov quilt of every row, and the noise that a release needs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everhold.cli.arguments import FormatOption, model_from
from everhold.cli.dependence import ChartOption, ModelArgument, save_picture
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.option_groups import with_option_groups
from everhold.cli.output import Format, note, show_list
from everhold.progress import progress
from everhold_lab.commands.quilt_lines import EveryRow, short_list

if TYPE_CHECKING:
    from everhold_lab.releases.markov_quilt import MarkovQuiltMechanism

_MOST_JSON_ROWS = 5_000
_COLUMNS = ("row", "nearby", "quilt", "influence", "scale")


class Search(StrEnum):
    """Method that finds quilts."""

    EXACT = "exact"
    APPROXIMATE = "approximate"


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureOptions:
    """The picture of a quilt."""

    row: Annotated[
        int | None, typer.Option(help="The row in the picture; the one that needs most noise by default.")
    ] = None
    chart: ChartOption = None

    def draw(self, mechanism: MarkovQuiltMechanism) -> None:
        """Write the picture, if there is to be one."""
        if self.chart is None:
            return
        from everhold_lab.charts.quilts import quilts_chart

        with arguments_checked():
            drawn = quilts_chart(mechanism, self.row)
            save_picture(drawn, self.chart, "A row and its quilt", "The rows behind the quilt are remote.")


def register(app: typer.Typer) -> None:
    """Add the command `quilts`, to everhold's group `dependence`."""
    app.command()(with_option_groups(quilts))


def quilts(
    model: ModelArgument,
    *,
    rows: Annotated[int, typer.Option(help="Number of rows, at most 1,000,000; for a network, its number of nodes.")],
    epsilon: Annotated[float, typer.Option(help="Privacy loss of the release.")],
    search: Annotated[
        Search, typer.Option(help="Every quilt within 2,048 rows, or those that the spectral gap allows (chains).")
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
    from everhold_lab.releases.chain_quilts import REACH
    from everhold_lab.releases.markov_quilt import MarkovQuiltMechanism

    if form is Format.JSON and rows > _MOST_JSON_ROWS:
        raise Misuse(
            f"--rows is {rows}; expected at most {_MOST_JSON_ROWS} with --format json, which names every row of every "
            "quilt; use --format csv"
        )
    given = model_from(model)
    with arguments_checked(), progress("looking for quilts"):
        mechanism = MarkovQuiltMechanism(given, rows=rows, epsilon=epsilon, search=search.value)
        scale = mechanism.scale
        shown, hidden = short_list(mechanism) if form is Format.TABLE else ([], 0)
    picture.draw(mechanism)
    if rows > 2 * REACH and scale >= (1.0 - 1e-9) * rows / epsilon:
        note(
            f"some row is best served by all others nearby; quilts more than {REACH:,} rows away were not looked at, "
            "and might need less noise"
        )
    if form is Format.CSV:
        show_list(EveryRow(mechanism), _COLUMNS, form, document={})
    elif form is Format.JSON:
        show_list([], _COLUMNS, form, document=mechanism.to_dict())
    else:
        _show_short_list(shown, hidden, rows)
        note(f"noise scale {scale:.6g} for a query that changes by 1 at most when a row changes")


def _show_short_list(lines: list[dict[str, Any]], hidden: int, rows: int) -> None:
    short = len(lines) < rows
    show_list(lines, (*_COLUMNS, "alike") if short else _COLUMNS, Format.TABLE, document={})
    if short:
        left_out = f"; {hidden:,} rows have other shapes, with no more noise, and are left out" if hidden else ""
        note(
            f"{len(lines)} of {rows:,} rows are shown: both ends, and between them one for each shape of quilts, with "
            f"the number of rows alike{left_out}; --format csv has every row"
        )
