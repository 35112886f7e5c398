"""The group `lab`: experiments that anyone can repeat, with a report. Its statements are in `statements`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everhold.cli.arguments import FormatOption
from everhold.cli.failures import CommandGroup, Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list
from everhold.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from everhold_lab.running.results import Results

_ALL = "all"
_LISTED = ("name", "title", "source", "repetitions")
_INTERRUPTED = 130
_MOST_LINES = 40  # of numbers on a screen

group = typer.Typer(cls=CommandGroup, rich_markup_mode="rich")


def register(app: typer.Typer) -> None:
    """Add the group `lab`."""
    from everhold_lab.commands import statements as statements  # joins the group when it is imported

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
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As 'everhold lab list' shows it, or all.")],
    *,
    repetitions: Annotated[
        int | None, typer.Option(min=1, help="Of each setting; by default as many as the experiment says.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; by default one for each core. Never changes a result.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything; the same seed gives the same rows.")] = 0,
    output: Annotated[Path, typer.Option(help="Folder for rows, pictures and the report.")] = Path("lab-output"),
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
        raise Misuse(f"there is no experiment {name!r}; expected one of {', '.join(EXPERIMENTS)}, or {_ALL}")
    return [name]


def _finished(
    names: Sequence[str], repetitions: int | None, jobs: int | None, seed: int, output: Path
) -> Iterator[Results]:
    from everhold_lab.experiments import EXPERIMENTS
    from everhold_lab.running.runner import run as run_experiment

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
                    f"the lab needs the package {fault.name}; install it with pip install 'everhold-lab'; what was "
                    "played is kept"
                ) from None
            except KeyboardInterrupt:
                note(f"interrupted in {name}; what was played is kept, and the same command continues there")
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
    """That there are fewer repetitions than the findings were made for, so that chance may have decided."""
    from everhold_lab.experiments import EXPERIMENTS

    usual = EXPERIMENTS[result.experiment].repetitions
    return (
        "" if result.repetitions >= usual else f" (a quick look: {result.repetitions} of the usual {usual} repetitions)"
    )


def _show_table(result: Results) -> None:
    """Print the findings, and the numbers while they are few."""
    sys.stdout.write(f"{result.title}\n{result.source}\n\n")
    rows = result.to_rows()
    if len(rows) <= _MOST_LINES:
        show_list(rows, list(rows[0]) if rows else [], Format.TABLE, document={})
    else:
        note(f"{len(rows):,} lines of numbers are in the report; --format csv prints them")
    findings = [{"kept": kept, "finding": finding} for finding, kept in result.findings.items()]
    show_list(findings, ("kept", "finding"), Format.TABLE, document={})
