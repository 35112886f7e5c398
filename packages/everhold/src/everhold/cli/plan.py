"""The command `plan`: which mechanism, how many rows, how many questions, before there is any data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everhold.cli.arguments import FormatOption, ModelOption, model_from
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list

if TYPE_CHECKING:
    from everhold.dependence import DependenceModel
    from everhold.planning import Plan

__all__ = ["register"]

_USUAL_VALUE = 0.9  # that of the planner, which is imported only when it is needed


def register(app: typer.Typer) -> None:
    """Add the command `plan`."""
    app.command()(plan)


def plan(
    queries: Annotated[
        int | None,
        typer.Option(help="Number of adaptive questions, or of those of a month; not with --cases."),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Number of sealed rows; may be left out with --radius.")] = None,
    surprises: Annotated[
        int | None,
        typer.Option(
            help="Answers that may come from the holdout, for mechanisms that check guesses; by default 10, or one for "
            "each question if fewer."
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Probability that all answers are within the radius.")] = 0.95,
    slack: Annotated[
        float, typer.Option(help="No budget is spent on guesses closer than this share of the radius.")
    ] = 0.0,
    radius: Annotated[
        float | None,
        typer.Option(help="A wished half-width: also print the rows needed and the questions allowed."),
    ] = None,
    training_rows: Annotated[
        int | None,
        typer.Option(help="Rows that guesses are made from; by default as many as are sealed, 0 if there are none."),
    ] = None,
    at: Annotated[
        float, typer.Option(help="True value of a yes-or-no question at which mechanisms are compared.")
    ] = _USUAL_VALUE,
    disagreement: Annotated[
        float | None,
        typer.Option(help="Share of the rows on which two models differ: also print the least step a gate can see."),
    ] = None,
    model: ModelOption = None,
    group_size: Annotated[
        int | None, typer.Option(metavar="INT", help="Rows of one group, which may depend in any way; no --model.")
    ] = None,
    alike: Annotated[
        float | None,
        typer.Option(
            help="Expected correlation of two rows of one group, from 0 to 1; by default 1, the worst case. What is "
            "expected rests on it, and no promise does."
        ),
    ] = None,
    protocol: Annotated[
        Path | None,
        typer.Option(help="A TOML file of declared families: print widths for each, and for all other queries."),
    ] = None,
    cases: Annotated[
        int | None, typer.Option(help="Instead of rows: cases of a suite. Prints the steps that a gate can prove.")
    ] = None,
    runs: Annotated[int, typer.Option(help="With --cases: runs of each case.")] = 1,
    challenges: Annotated[int, typer.Option(help="With --cases: planned challenges.")] = 200,
    rows_per_month: Annotated[
        int | None, typer.Option(help="Sealed rows that arrive each month, with --months: widths over time.")
    ] = None,
    months: Annotated[int | None, typer.Option(help="Months over which rows arrive.")] = None,
    chart: Annotated[
        Path | None,
        typer.Option(help="Also draw the plan to this .svg or .html file; of --rows-per-month widths over time."),
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Compare all mechanisms, each at its best, for a study that you plan.

    Example:
      everhold plan --rows 50000 --queries 1000 --surprises 10 --radius 0.05
      everhold plan --rows 20000 --protocol study.toml
      everhold plan --cases 100 --runs 8 --challenges 200

    A radius is the half-width that holds for all answers at once, whatever
    happens. What is 'expected' is narrower where guesses hold; a second table
    shows half-widths by true value or spread, and by surprises. Lines marked
    'published' are bounds from the literature, for comparison. The line
    'empirical' is for questions that are fixed before the first answer. With
    --model the rows depend on each other as the file says; with --group-size 5
    they come in groups of 5, such as households, that are independent; --alike
    .05 says how alike rows of one group are expected to be. With --cases it
    prints the smallest gain that a gate promotes in four of five nights, about new
    cases and about new runs of these, or 'not provable'.

    A study protocol has widths before there are any data:
      queries = 500                  # not declared, such as models
      \[families."end points"]
      members = 30
      \[families.subgroups]
      members = 200
      \[families.texts]
      texts = 40
    To declare such a family, replace 'members'; see 'everhold declare --help'.

    Exit codes:
      0  done
      1  the chart cannot be written, or a package for it is missing
      2  the wish is not valid, or no number of rows reaches the radius
      9  the file holds no dependence model, or the model does not suit the wish
    """
    if protocol is not None:
        if (radius, slack, disagreement, alike) != (None, 0.0, None, None):
            raise Misuse("--protocol takes no --radius, --slack, --disagreement and --alike; leave them out")
        _plan_study(
            protocol, chart, form, rows=rows, queries=queries, overfits=surprises, confidence=confidence,
            dependence=_dependence(model, group_size), training_rows=training_rows,
        )  # fmt: skip
        return
    from everhold.planning import plan as make_plan

    if cases is not None:
        _plan_cases(
            chart, form, cases=cases, runs=runs, challenges=challenges, confidence=confidence,
            disagreement=0.2 if disagreement is None else disagreement,
        )  # fmt: skip
        return
    if queries is None:
        raise Misuse("the number of questions is missing; expected --queries, --cases for a suite, or --protocol")
    if rows_per_month is not None or months is not None:
        if rows_per_month is None or months is None:
            raise Misuse("--rows-per-month and --months belong together. Give both.")
        _plan_growth(
            chart, form, rows_per_month=rows_per_month, months=months, queries=queries, confidence=confidence, at=at,
            surprises=1.0 if surprises is None else surprises / months, training_rows=training_rows,
        )  # fmt: skip
        return
    if alike is not None and model is None and group_size is None:
        raise Misuse("--alike is for groups; expected --group-size or --model beside it")
    with arguments_checked():
        made = make_plan(
            rows=rows, queries=queries, overfits=surprises, confidence=confidence, slack=slack, radius=radius,
            dependence=_dependence(model, group_size), training_rows=training_rows, at=at, disagreement=disagreement,
            alike=alike,
        )  # fmt: skip
    if chart is not None:
        _draw(made, chart)
    lines = made.to_rows()
    show_list(lines, list(lines[0]), form, document=made.to_dict())
    if form is Format.TABLE:
        for table in (made.widths, made.steps):
            if table is not None:
                more = table.to_rows()
                show_list(more, list(more[0]), form, document=more)
        for sentence in made.explain().splitlines():
            note(sentence)


def _plan_study(protocol: Path, chart: Path | None, form: Format, *, rows: int | None, **wish: Any) -> None:
    from everhold.families.study import plan_study

    if rows is None:
        raise Misuse("--rows is missing; a protocol is planned for a number of sealed rows")
    with arguments_checked():
        made = plan_study(protocol, rows=rows, **wish)
    _show(made, chart, form, title="The plan: width of every kind of query", caption=made.explain())


def _plan_cases(chart: Path | None, form: Format, **wish: Any) -> None:
    """Print what a gate about cases can prove."""
    from everhold.planning.case_steps import plan_cases

    with arguments_checked():
        made = plan_cases(**wish)
    caption = "Smallest gain that is promoted in four of five nights; no point where none is."
    _show(made, chart, form, title="The plan: steps that a gate proves", caption=caption)


def _show(made: Any, chart: Path | None, form: Format, *, title: str, caption: str) -> None:
    """Draw the chart of a plan, and print its table and its explanation."""
    if chart is not None:
        from everhold.charts import save_chart

        with arguments_checked():
            save_chart(made.chart(), chart, title=title, caption=caption)
    lines = made.to_rows()
    show_list(lines, list(lines[0]), form, document=made.to_dict())
    if form is Format.TABLE:
        for sentence in made.explain().splitlines():
            note(sentence)


def _plan_growth(chart: Path | None, form: Format, **wish: Any) -> None:
    """Print widths over time of a holdout that grows."""
    from everhold.planning.growing import plan_growth

    with arguments_checked():
        made = plan_growth(**wish)
    _show(made, chart, form, title="The plan: widths over time", caption=made.explain())


def _dependence(model: Path | None, group_size: int | None) -> DependenceModel | None:
    """The declared dependence; None for independent rows."""
    if model is not None and group_size is not None:
        raise Misuse("--model and --group-size are both given; expected one of them")
    if model is not None:
        return model_from(model)
    if group_size is None:
        return None
    if group_size < 1:
        raise Misuse(f"--group-size is {group_size}; expected a whole number of at least 1")
    from everhold.dependence import Groups

    return Groups(group_size)


def _draw(made: Plan, path: Path) -> None:
    from everhold.charts import save_chart

    with arguments_checked():
        save_chart(
            made.chart("rows" if made.rows is None else "queries"),
            path,
            title="The plan: radius of every mechanism",
            caption="Half-width that holds for all answers at once; published bounds are dashed, the wish is a cross.",
        )
