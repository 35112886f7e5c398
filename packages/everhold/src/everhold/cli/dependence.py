"""Commands about rows that depend on each other: fit, describe."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everhold.cli.application import ExtensibleGroup
from everhold.cli.arguments import FormatOption, model_from, with_option_groups
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list, show_record

if TYPE_CHECKING:
    import altair as alt

    from everhold.dependence import DependenceModel

_SIZES = (100, 1_000, 10_000, 100_000)
_ROW_LOSS = 0.01
_DELTA = 1e-6
_MEANING = {
    "effective_rows": "independent rows that an average of these rows is worth",
    "share": "effective rows for each row",
    "leakage": "privacy loss about a row, except with probability delta, of answers that would lose "
    "loss_if_independent if rows were independent. Nothing where it has no bound",
    "given_up": "probability that promises give up: that the fit is wrong, or that training rows tell "
    "about sealed ones. Nothing where the gap or the number of series is not known. Statements that look at the "
    "leakage (S1) count the training rows of a known model there instead",
}

group = typer.Typer(cls=ExtensibleGroup, rich_markup_mode="rich")

ModelArgument = Annotated[
    Path, typer.Option("--model", metavar="FILE.json", help="How the rows depend on each other: a dependence model.")
]
ChartOption = Annotated[Path | None, typer.Option(help="Also draw a picture to this .svg or .html file.")]


def _kind(name: str) -> str:
    """Return the name of a kind of dependence model, after checking that such models can be fitted to rows."""
    from everhold.dependence import MODELS

    fitted = [kind for kind, model in MODELS.items() if hasattr(model, "fit")]
    if name not in fitted:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, fitted))}.")
    return name


def register(app: typer.Typer) -> None:
    """Add the group `dependence`."""
    app.add_typer(
        group, name="dependence", help="Rows that depend on each other: fit a model, describe it, find its quilts."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """Columns to learn from, and confidence of the fit."""

    order_by: Annotated[str, typer.Option(metavar="COLUMN", help="Puts the rows in order, one row per step.")]
    state: Annotated[str, typer.Option(metavar="COLUMN", help="The state: classes, or numbers for gaussian_ar1.")]
    groups: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Equal values make a series. Different series are independent.")
    ] = None
    gap: Annotated[
        int | None,
        "Rows left out between these rows and the sealed rows of the same series, if no analyst has seen them. If "
        "some were seen, the number of unseen rows next to the sealed ones.",
    ] = None
    confidence: Annotated[float, "Probability that the true model is within what is fitted."] = 0.99


@group.command()
@with_option_groups
def fit(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Training rows: a .parquet, .csv or .tsv file.")],
    *,
    kind: Annotated[
        str,
        typer.Option(
            parser=_kind,
            metavar="<markov_chain|gaussian_ar1>",
            help="A chain of states, or numbers that drift back to their mean.",
        ),
    ],
    options: FitOptions,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write the model to this file, for --model.")
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Learn from training rows how rows depend on each other, and print the model.

    Example:
      everhold dependence fit train.parquet --kind markov_chain \
        --order-by day --state weather --gap 7 --output chain.json

    Never fit a model to the rows that will be sealed. Every promise loses
    the probability that the fit is wrong: 0.01 with --confidence 0.99.

    Exit codes:
      0  fitted
      1  a file cannot be read or written
      2  wrong usage
      3  the rows cannot be read
      9  the rows do not suit the model
    """
    from everhold.dependence import MODELS

    if not 0.0 < options.confidence < 1.0:
        raise Misuse(f"--confidence is {options.confidence}. Pass a number between 0 and 1, such as 0.99.")
    with arguments_checked():
        columns = _columns(table, list(filter(None, (options.order_by, options.state, options.groups))))
        model = MODELS[kind].fit(columns, **asdict(options))  # type: ignore[attr-defined]  # `_kind` saw that it has one
    data = model.to_dict()
    if output is not None:
        output.write_text(json.dumps(data, allow_nan=False) + "\n", encoding="utf-8")
    show_record(data, form)
    if form is Format.TABLE:
        note(f"assumed from now on: {model.describe()}")


def _columns(path: Path, wanted: list[str]) -> dict[str, Any]:
    """Return the named columns of a file of training rows."""
    import duckdb

    from everhold.arguments import advice_for
    from everhold.errors import DependenceError
    from everhold.sealing.intake.reading import read_rows, reading_errors_hidden

    connection = duckdb.connect()
    try:
        read_rows(connection, path, name="rows", what="training")
        with reading_errors_hidden("training"):
            view = connection.view("rows")
            absent = [column for column in wanted if column not in view.columns]
            if absent:
                raise DependenceError(f"{path.name} has no column {absent[0]!r}. {advice_for(absent[0], view.columns)}")
            quoted = ", ".join('"' + column.replace('"', '""') + '"' for column in dict.fromkeys(wanted))
            arrays = view.project(quoted).fetchnumpy()
            return {column: _with_none(values) for column, values in arrays.items()}
    finally:
        connection.close()


def _with_none(values: Any) -> Any:
    """Return a masked array as a plain array, with None for each missing value."""
    import numpy as np

    missing = np.ma.getmaskarray(values)
    plain = np.ma.getdata(values)
    if missing.any():
        plain = plain.astype(object)
        plain[missing] = None
    return plain


@group.command()
def describe(
    model: ModelArgument,
    *,
    rows: Annotated[int | None, typer.Option(help="For this many rows (for some sizes by default).")] = None,
    queries: Annotated[
        int | None,
        typer.Option(help="With --chart and --rows: radius of so many queries against correlation."),
    ] = None,
    surprises: Annotated[int, typer.Option(help="With --queries: answers that may come from the holdout.")] = 10,
    chart: ChartOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Say what a model assumes and what dependence costs.

    Examples:
      everhold dependence describe --model chain.json --rows 20000
      everhold dependence describe --model chain.json --rows 20000 \
        --queries 1000 --chart radius.svg

    effective_rows is the number of independent rows that an average of these
    rows is worth, and share the same for each row. leakage is the privacy loss
    about a row, except with probability delta, of answers that would lose
    loss_if_independent if rows were independent.

    The picture shows how far rows reach in a series, which belong together in
    groups, and which tell about each other in a network; with --queries it
    shows the radius against the correlation of neighbouring rows.

    Exit codes:
      0  described
      1  a file cannot be read or written, or a package is missing
      2  wrong usage
      9  the file holds no model, or the model says too little
    """
    given = model_from(model)
    with arguments_checked():
        lines = [_line(given, size) for size in _sizes(given, rows)]
        if chart is not None:
            _draw_description(given, chart, rows=rows, queries=queries, surprises=surprises)
    spectral_gap = getattr(given, "spectral_gap", None)
    meaning = {name: said for name, said in _MEANING.items() if name in lines[0]}
    document = {
        "kind": given.kind,
        "assumption": given.describe(),
        "spectral_gap": spectral_gap,
        "sizes": lines,
        "meaning": meaning,
    }
    show_list(lines, list(lines[0]), form, document=document)
    if form is Format.TABLE:
        note(f"{given.kind.replace('_', ' ')}: {given.describe()}")
        if spectral_gap is not None:
            note(f"spectral gap of the matrix: {spectral_gap:.4g}")
        for name, said in meaning.items():
            note(f"{name}: {said}")


def _sizes(model: DependenceModel, rows: int | None) -> tuple[int, ...]:
    """Return the numbers of rows for which a model is described."""
    if rows is not None:
        if rows < 1:
            raise Misuse(f"--rows is {rows}. Pass a whole number of at least 1.")
        return (rows,)
    own = getattr(model, "rows", None)
    return (own,) if isinstance(own, int) else _SIZES


def _line(model: DependenceModel, rows: int) -> dict[str, Any]:
    """Return the line of the table for one number of rows, with the leakage if a mechanism with noise is installed.

    ``given_up`` is the part of beta that the model may miss. It is None if the model does not say enough yet.
    """
    from everhold.errors import DependenceError
    from everhold.extensions import imported
    from everhold.mechanisms import MECHANISMS

    effective = model.concentration(rows)
    line: dict[str, Any] = {"rows": rows, "effective_rows": effective, "share": effective / rows}
    place = next((kind.traits.leakage for kind in MECHANISMS.values() if kind.traits.leakage), None)
    if place is not None:
        leaked = imported(place)(model, loss=_ROW_LOSS, delta=_DELTA, rows=rows)
        told = leaked if leaked < math.inf else None
        line |= {"loss_if_independent": _ROW_LOSS, "delta": _DELTA, "leakage": told}
    try:
        return {**line, "given_up": model.miss + model.training_distance()}
    except DependenceError:
        return {**line, "given_up": None}


def _draw_description(
    model: DependenceModel, path: Path, *, rows: int | None, queries: int | None, surprises: int
) -> None:
    """Write the picture of a model to a file: radius by correlation, influence by distance, or rows."""
    from everhold.charts.dependence import correlation_chart, influence_chart, portrait_of

    if queries is not None:
        if rows is None:
            raise Misuse("--queries is given without --rows. Pass both for this picture.")
        radii = correlation_chart(rows=rows, queries=queries, surprises=surprises, model=model)
        save_picture(
            radii, path, "Radius against correlation", "Half-width for all answers at once, for chains of two states."
        )
        return
    reach = influence_chart(model)
    if reach is not None:
        caption = f"What one row says of another, by the distance between them: {model.influence_in}."
        save_picture(reach, path, "Influence against distance", caption)
        return
    portrait = portrait_of(model)
    drawn = None if portrait is None else portrait.draw()
    if portrait is None or drawn is None:
        raise Misuse(
            f"There is no picture of this model of kind {model.kind!r}. Pass groups with sizes, a series or a network, "
            "or pass --rows and --queries for the picture of the radius."
        )
    save_picture(drawn, path, portrait.title, portrait.caption)


def save_picture(drawn: alt.TopLevelMixin, path: Path, title: str, caption: str) -> None:
    """Write a picture to the file that the option `--chart` names."""
    from everhold.charts import save_chart

    save_chart(drawn, path, title=title, caption=caption)
