"""The group `lab`: experiments that anyone can repeat, with a report, and statements of papers."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import astuple, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everhold.cli.arguments import FormatOption, ModelOption, model_from, with_option_groups
from everhold.cli.failures import CommandGroup, Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list, show_record
from everhold.display import plain
from everhold.progress import progress
from everhold.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from everhold_lab.running import Results


_ALL = "all"
_LISTED = ("name", "title", "source", "repetitions")
_INTERRUPTED = 130
_MOST_LINES = 40  # of numbers on a screen

group = typer.Typer(cls=CommandGroup, rich_markup_mode="rich")


def register(app: typer.Typer) -> None:
    """Add the group `lab`."""
    app.add_typer(
        group,
        name="lab",
        help="Experiments and statements of papers: run, list, sources, rows, leakage, influence, information.",
    )


class _MissingExtra(Misuse):
    """A package of the extra is not installed."""

    exit_code = 1


@group.command(name="list")
def list_experiments(form: FormatOption = Format.TABLE) -> None:
    r"""List the experiments: name, title, source and usual repetitions.

    Example:
      everhold lab list --format json

    Exit codes:
      0  printed
    """
    from everhold_lab.experiments import EXPERIMENTS

    kinds = [EXPERIMENTS[name] for name in EXPERIMENTS]
    rows = [
        {"name": kind.name, "title": kind.title, "source": kind.source, "repetitions": kind.repetitions}
        for kind in kinds
    ]
    show_list(rows, _LISTED, form, document={"experiments": rows})


@group.command()
@with_option_groups
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As 'everhold lab list' shows it, or all.")],
    *,
    repetitions: Annotated[
        int | None, typer.Option(min=1, help="Of each setting (by default as many as the experiment says).")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes (by default one for each core). Never changes a result.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything. The same seed gives the same rows.")] = 0,
    output: Annotated[Path, "Folder for rows, pictures and the report."] = Path("lab-output"),
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Run an experiment and write its rows, pictures and a report.

    Example:
      everhold lab run figure2 --repetitions 10
      everhold lab run figure2
        first a quick look, then as many repetitions as the experiment says;
        the ten that there are already are not played again

      everhold lab run all --output lab-output
        all experiments into one report

    The folder gets NAME.parquet with every measured row, NAME.json, pictures as
    SVG, and report.html about all experiments that were run into it. What was
    played is kept at once: after Ctrl-C, a crash or a power cut the same
    command continues where it was, and gives the same rows.

    Needs the packages of pip install 'everhold-lab'; without those for
    pictures alone, the report has none.

    Exit codes:
      0  done, and everything was found that the experiments have to show
      1  something was not found; or a package is missing, or the folder
         cannot be written
      2  wrong usage
      130  interrupted; the same command continues
    """
    finished = list(_finished(_chosen(name), repetitions, jobs, seed, output))
    _show(finished, form, many=name == _ALL)
    broken = [(result, finding) for result in finished for finding, kept in result.findings.items() if not kept]
    for result, finding in broken:
        note(f"not kept in {result.experiment}: {finding}{_of_usual(result)}")
    note(f"report: {output / 'report.html'}")
    if broken:
        raise typer.Exit(1)


def _chosen(name: str) -> list[str]:
    from everhold_lab.experiments import EXPERIMENTS

    if name == _ALL:
        return list(EXPERIMENTS)
    if name not in EXPERIMENTS:
        raise Misuse(f"There is no experiment {name!r}. Pass one of {', '.join(EXPERIMENTS)}, or {_ALL}.")
    return [name]


def _finished(
    names: Sequence[str], repetitions: int | None, jobs: int | None, seed: int, output: Path
) -> Iterator[Results]:
    from everhold_lab.experiments import EXPERIMENTS
    from everhold_lab.running import run as run_experiment

    workers = jobs or os.cpu_count() or 1
    for name in names:
        with progress(name) as line:
            try:
                with arguments_checked():
                    result = run_experiment(
                        EXPERIMENTS[name](), output, repetitions=repetitions, jobs=workers, seed=seed, progress=line
                    )
            except ModuleNotFoundError as fault:
                raise _MissingExtra(
                    f"The lab needs the package {fault.name}. Install it: pip install "
                    "'everhold-lab'. Finished games are kept."
                ) from None
            except KeyboardInterrupt:
                note(f"interrupted in {name}. Finished games are kept, and the same command continues there")
                raise typer.Exit(_INTERRUPTED) from None
        yield result


def _show(results: Sequence[Results], form: Format, *, many: bool) -> None:
    if form is Format.JSON:
        documents = [result.printed() for result in results]
        show_list([], [], form, document=documents if many else documents[0])
    elif form is Format.CSV:
        rows = [_named(result, row) for result in results for row in result.to_rows()] if many else results[0].to_rows()
        columns = list(dict.fromkeys(name for row in rows for name in row))
        show_list([{name: row.get(name) for name in columns} for row in rows], columns, form, document={})
    else:
        for result in results:
            _show_table(result)


def _named(result: Results, row: Mapping[str, Any]) -> dict[str, Any]:
    return {"experiment": result.experiment, **row}


def _of_usual(result: Results) -> str:
    """Return a warning that fewer repetitions than usual were played, or an empty text."""
    from everhold_lab.experiments import EXPERIMENTS

    usual = EXPERIMENTS[result.experiment].repetitions
    return (
        "" if result.repetitions >= usual else f" (a quick look: {result.repetitions} of the usual {usual} repetitions)"
    )


def _show_table(result: Results) -> None:
    """Print the findings of an experiment, and the summary table if it has few lines."""
    sys.stdout.write(f"{result.title}\n{result.source}\n\n")
    rows = result.to_rows()
    if len(rows) <= _MOST_LINES:
        show_list(rows, list(rows[0]) if rows else [], Format.TABLE, document={})
    else:
        note(f"{len(rows):,} lines of numbers are in the report (--format csv prints them)")
    findings = [{"kept": kept, "finding": finding} for finding, kept in result.findings.items()]
    show_list(findings, ("kept", "finding"), Format.TABLE, document={})


TableArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE.json", help='A JSON object in which "joint" is the joint law of the rows, one axis for each row.'
    ),
]
_UNPROVED = (
    "for rows that depend on each other the published proof has an open gap (erratum 5), and no promise rests on it"
)


class SourceName(StrEnum):
    """Names of the sources that can be listed."""

    ZHAO = "zhao-2017"
    LECTURE = "lecture-23"
    TECHNIQUES = "more-dp-techniques"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdOptions:
    """Options for the parameters of Thresholdout."""

    surprises: Annotated[int, "B, answers that may come from the holdout."]
    scale: Annotated[float, "sigma, the noise of the threshold, in units of the query."]
    tolerance: Annotated[float, "tau, in units of the query."]
    failure: Annotated[float, "beta, the probability of failure for one query."]


@dataclass(frozen=True, slots=True, kw_only=True)
class InfluenceOptions:
    """Options for the influences of rows on each other."""

    influence: Annotated[float, "a, the largest influence of a row on its Markov blanket."] = 0.0
    nearby: Annotated[int, "|N|, rows between a row and its Markov quilt."] = 0
    quilt_influence: Annotated[float, "b, the influence of a row on its quilt."] = 0.0
    model: ModelOption = None
    model_rows: Annotated[int | None, "With --model: rows that the model describes."] = None


@group.command()
@with_option_groups
def rows(
    *,
    threshold: ThresholdOptions,
    dependence: InfluenceOptions,
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Compute the rows that Theorem 1 of Zhao 2017 asks for, n_* and n_#.

    Examples:
      everhold lab rows --surprises 10 --scale .01 --tolerance .1 --failure .05
      everhold lab rows --surprises 10 --scale .01 --tolerance .1 --failure .05 \
        --influence .004 --nearby 4 --quilt-influence .001
      everhold lab rows --surprises 10 --scale .01 --tolerance .1 --failure .05 \
        --model chain.json --model-rows 100000

    With so many rows the average of each query is within the tolerance of
    the population, except with the given probability. n_star uses Markov
    blankets and n_sharp Markov quilts. With --model the best quilts of all rows
    are used for n_sharp. A dash (null in JSON) means that no number of rows
    is enough. For a whole session (Theorem 2) see 'everhold plan'.

    Exit codes:
      0  computed
      1  a file cannot be read
      2  wrong usage
      9  the file holds no dependence model, or the model does not suit the rows
    """
    from everhold_lab.published.thresholdout import zhao_n_sharp, zhao_n_star, zhao_theorem_1_rows

    if (dependence.model is None) != (dependence.model_rows is None):
        raise Misuse("--model and --model-rows belong together. Pass both or neither.")
    asked, influence = astuple(threshold), dependence.influence
    nearby, quilt_influence = dependence.nearby, dependence.quilt_influence
    with arguments_checked():
        star = zhao_n_star(*asked, blanket_influence=influence)
        if dependence.model is not None and dependence.model_rows is not None:
            price = model_from(dependence.model).bayesian_price(threshold.tolerance / 3.0, dependence.model_rows)
            sharp = zhao_theorem_1_rows(*asked, price=price)
        else:
            sharp = zhao_n_sharp(*asked, nearby=nearby, quilt_influence=quilt_influence)
    independent = dependence.model is None and influence == quilt_influence == nearby == 0
    show_record({"n_star": _whole(star), "n_sharp": _whole(sharp), "proof_complete": independent}, form)
    if form is Format.TABLE and not independent:
        note(_UNPROVED)


@group.command()
@with_option_groups
def leakage(
    table: TableArgument,
    *,
    row: Annotated[int | None, "The row that is attacked, from 0 on (the worst by default)."] = None,
    known: Annotated[str, typer.Option(metavar="ROW,ROW", help="With --row: rows that the adversary knows.")] = "",
    form: FormatOption = Format.TABLE,
) -> None:
    """Compute the Bayesian privacy loss of an output, by enumeration of a small model.

    Example:
      everhold lab leakage pair.json
    where pair.json describes two bits that are equal in nine of ten cases, and
    an output that tells the first one with odds 3:
      {"joint": [[0.45, 0.05], [0.05, 0.45]],
       "law": [[[0.75, 0.25], [0.75, 0.25]], [[0.25, 0.75], [0.25, 0.75]]]}

    "law" has the axes of "joint" and one more, for the output: its law for each
    data set. Without --row all adversaries are compared, and the worst is
    printed with what it knows. The loss is in nats; a dash (null in JSON) means
    that something is told for certain.

    Exit codes:
      0  computed
      1  the file cannot be read
      2  wrong usage, or the file holds no such laws
    """
    from everhold_lab.published.bayesian_privacy import bayesian_leakage, bayesian_privacy

    given = _tables(table, "joint", "law")
    if row is None and known:
        raise Misuse("--known needs --row. Pass the row that is attacked.")
    with arguments_checked():
        if row is None:
            worst = bayesian_privacy(given["joint"], given["law"])
            loss, attacked, others = worst.leakage, worst.row, list(worst.known)
        else:
            attacked, others = row, _places(known)
            loss = bayesian_leakage(given["joint"], given["law"], row=attacked, known=others)
    show_record({"leakage": plain(loss), "row": attacked, "known": others}, form)


@group.command()
@with_option_groups
def influence(
    table: TableArgument,
    *,
    row: Annotated[int, "The row i, from 0 on."],
    targets: Annotated[str, typer.Option(metavar="ROW,ROW", help="The rows that are influenced, such as a quilt.")],
    given: Annotated[str, typer.Option(metavar="ROW,ROW", help="Rows that are known.")] = "",
    form: FormatOption = Format.TABLE,
) -> None:
    """Compute the max-influence of a row on others, by enumeration of a small model.

    Example:
      everhold lab influence pair.json --row 0 --targets 1
    with {"joint": [[0.45, 0.05], [0.05, 0.45]]} in pair.json prints ln 9.

    With the rows of the Markov blanket as targets it is a_i of Theorem 1. It is
    0 if and only if the rows are independent, given the known ones. In nats; a
    dash (null in JSON) means that it is infinite. For the quilts of large
    models see 'everhold dependence quilts'.

    Exit codes:
      0  computed
      1  the file cannot be read
      2  wrong usage, or the file holds no joint law
    """
    from everhold_lab.published.bayesian_privacy import enumerated_influence

    joint = _tables(table, "joint")["joint"]
    aims, facts = _places(targets), _places(given)
    with arguments_checked():
        found = enumerated_influence(joint, targets=aims, row=row, given=facts)
    show_record({"influence": plain(found), "row": row, "targets": aims, "given": facts}, form)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """Options for the session that bounds are about, and for levels."""

    failure: Annotated[float, "beta (0 for max-information itself, with a file only)."] = 0.05
    rows: Annotated[int | None, "For bounds: number of rows."] = None
    epsilon: Annotated[float | None, "For bounds: privacy loss of the session, in nats."] = None
    delta: Annotated[float, "For bounds: delta of approximate privacy."] = 0.0
    level: Annotated[float, "Level of a test that is chosen after the session."] = 0.05


@group.command()
@with_option_groups
def information(
    table: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE.json]",
            help='For the exact number: a JSON object in which "joint" is the law of data set '
            "(row) and transcript (column).",
        ),
    ] = None,
    *,
    session: SessionOptions,
    form: FormatOption = Format.TABLE,
) -> None:
    """Compute the approximate max-information of a session: exactly, or its published bounds.

    Examples:
      everhold lab information coin.json --failure .01
        exactly, for {"joint": [[0.375, 0.125], [0.125, 0.375]]} in coin.json
      everhold lab information --rows 10000 --epsilon .02 --failure .01
      everhold lab information --rows 10000 --epsilon .02 --delta 1e-12

    Every event is at most 2^bits times as likely as if rows and transcript were
    independent, plus the failure. p_value is the threshold for a p-value that
    keeps the level, whichever test is chosen after the session; 0 where the
    failure is not below the level. Bounds are for independent rows, but for
    Theorem 19 of Dwork et al. 2015, which holds for any law. A dash (null in
    JSON) means that nothing is bounded.

    Exit codes:
      0  computed
      1  the file cannot be read
      2  wrong usage, or the file holds no joint law
    """
    from everhold_lab.published import post_selection
    from everhold_lab.published.post_selection import rogers_2016

    sealed, epsilon, delta, failure = session.rows, session.epsilon, session.delta, session.failure
    with arguments_checked():
        if table is not None and sealed is None and epsilon is None:
            exact = post_selection.exact_max_information(_tables(table, "joint")["joint"], failure=failure)
            found = [("exact", exact, failure)]
        elif table is not None or sealed is None or epsilon is None:
            raise Misuse(
                "Nothing to compute, or too much. Pass a file with a joint law, or --rows and --epsilon, but not both."
            )
        else:
            approximate = rogers_2016(sealed, epsilon=epsilon, delta=delta, failure=failure).bits
            found = [("after Rogers et al. 2016, Theorem 3.1", approximate, failure)]
            if delta == 0.0:
                pure = {"epsilon": epsilon, "failure": failure}
                found += [
                    ("Dwork et al. 2015, Theorem 19", post_selection.dwork_theorem_19(sealed, epsilon=epsilon), 0.0),
                    ("Dwork et al. 2015, Theorem 20", post_selection.dwork_theorem_20(sealed, **pure), failure),
                    (
                        "Zhao 2017, Theorem 3",
                        post_selection.zhao_theorem_3(sealed, leakage=epsilon, failure=failure),
                        failure,
                    ),
                ]
        lines = [_information(*line, session.level) for line in found]
    show_list(lines, list(lines[0]), form, document={"max_information": lines})


@group.command()
def sources(
    source: Annotated[SourceName | None, typer.Argument(help="One source (all by default).")] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """List every item of the paper and the lecture notes with the number that it gives, computed now.

    Example:
      everhold lab sources zhao-2017
      everhold lab sources --format csv

    Each line names an item, the call that evaluates it, and its number. Figures
    are experiments: their line names the command that plays them. The same
    table is the page docs/theory/sources.md.

    Exit codes:
      0  printed
      1  a package is missing
    """
    from everhold_lab.sources import SOURCES, number, written

    lines = []
    for name in SOURCES if source is None else (source.value,):
        for item in SOURCES[name][1]:
            found = number(item)
            lines.append({
                "source": name, "item": item.place, "says": item.says,
                "call": item.run.shown,
                "number": None if found is None else written(found),
            })  # fmt: skip
    show_list(lines, list(lines[0]), form, document={"items": lines})


def _information(statement: str, bits: float, failure: float, level: float) -> dict[str, Any]:
    from everhold_lab.published.post_selection import p_value_threshold

    kept = p_value_threshold(level, bits=max(0.0, bits), failure=failure) if failure < level else 0.0
    return {"statement": statement, "bits": plain(bits), "failure": failure, "p_value": kept}


def _tables(path: Path, *names: str) -> dict[str, NDArray[np.float64]]:
    """Read the named tables from a JSON file."""
    import numpy as np

    try:
        data = read_json(path.read_bytes())
        return {name: np.asarray(data[name], dtype=np.float64) for name in names}
    except (ValueError, TypeError, KeyError, RecursionError):
        wanted = " and ".join(f'"{name}"' for name in names)
        raise Misuse(
            f"{path.name!r} is not a JSON object with a table of numbers as {wanted}. Write it like the example in "
            "--help."
        ) from None


def _places(listed: str) -> list[int]:
    try:
        return [int(one) for one in listed.split(",") if one.strip()]
    except ValueError:
        raise Misuse(f"{listed!r} is no list of rows. Pass whole numbers with commas, such as 1,2.") from None


def _whole(value: float) -> int | None:
    return math.ceil(value) if math.isfinite(value) else None
