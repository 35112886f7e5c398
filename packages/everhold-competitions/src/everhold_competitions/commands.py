"""Commands of a competition: submit, leaderboard, teams, disqualify, move-deadline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from everhold.cli import operations
from everhold.cli.arguments import FormatOption, NameArgument, StorageArgument, opened, place_of, with_option_groups
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list, show_sentence
from everhold_competitions.operations import Disqualify, ListTeams, MoveDeadline

if TYPE_CHECKING:
    from everhold.queries.predictions.arrays import PredictionTable
    from everhold.values.base import Schema


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(with_option_groups(submit))
    app.command()(with_option_groups(leaderboard))
    operations.register(app, ListTeams, Disqualify, MoveDeadline)


def submit(
    storage: StorageArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The holdout's name.")],
    predictions: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Predictions for the sealed rows: CSV, TSV or Parquet.")
    ] = None,
    *,
    team: Annotated[str, "Who hands it in. An allotment of this name pays."],
    column: Annotated[str | None, "Column of the predictions, where there are several."] = None,
    guess: Annotated[
        float | None,
        "Where scores are told: your own guess. A team's first submission needs it, "
        "or --training-predictions. Later the default is what the team was told last.",
    ] = None,
    training_predictions: Annotated[
        Path | None, "The same model's predictions for the training rows, if there are some."
    ] = None,
    choose: Annotated[
        int | None, "Make this earlier submission of the team final, by its number. Without a file."
    ] = None,
    dry_run: Annotated[bool, "Only check the format. Nothing is received, and no label is looked at."] = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Hand in a team's predictions, and print what the host chose to tell.

    Examples:
      everhold submit contest.db contest team.csv --team owls --dry-run
      everhold submit contest.db contest team.csv --team owls
      everhold submit contest.db contest --team owls --choose 2

    A file has one column of predictions and, where rows have ids, their column;
    it is joined by it, in any order. Its format is checked before anything is
    received or charged. Depending on how the competition was created, it is told
    that it was received (--feedback none), whether it is proved to be better than
    the leader (leader), or a score with an interval (score).
    A team's last submission is the final one; where leaders are told, one that
    led stays final until the team leads again.

    Exit codes:
      0  received, now or right before; or the format is right, with --dry-run
      1  a file cannot be read
      2  wrong usage
      4  no such holdout
      5  it cannot be received; nothing was received or charged
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    if choose is not None:
        if predictions is not None:
            raise Misuse(
                "--choose and a file are given together. Pass --choose for an earlier submission, or a file for a "
                "new one."
            )
        with opened(storage, name) as holdout, arguments_checked():
            holdout.competition.choose(team=team, number=choose)
        chosen = f"submission {choose:,} of team {team!r} is final"
        show_sentence(chosen, {"team": team, "number": choose, "final": True}, form)
        return
    # of two arguments the second is the file, and the storage comes from the environment
    place = place_of(storage, None) if predictions is None else (storage, name)
    with opened(*place) as holdout, arguments_checked():
        table = _read(predictions or Path(name), holdout.schema, column)
        if dry_run:
            report = holdout.competition.check(table, team=team)
            show_sentence(str(report), report.to_dict(), form)
            return
        training = None if training_predictions is None else _read(training_predictions, holdout.schema, column)
        received = holdout.competition.submit(table, team=team, guess=guess, training=training)
    show_sentence(str(received), received.to_dict(), form)


def _read(path: Path, schema: Schema, column: str | None) -> PredictionTable:
    from everhold.queries.predictions.files import read_predictions

    return read_predictions(path, schema, column=column)


def leaderboard(
    storage: StorageArgument,
    name: NameArgument = None,
    *,
    output: Annotated[Path | None, "Also write one HTML file that needs nothing else."] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Print where the teams of a competition stand; free.

    Examples:
      everhold leaderboard contest.db contest
      everhold leaderboard contest.db contest --output board.html

    A team's rank is one more than the number of teams that are proved to be
    better; a place such as 2-14 is a tie of ranks. People are shown the metric by
    its common name, with positive numbers of a loss. Before the end
    the board holds what submissions were told; after 'everhold unseal' it is
    final, by paired differences of final submissions. --format json has
      {"rows": [{"team", "score", "low", "high", "rank"}], "final": ...}

    Exit codes:
      0  printed
      2  wrong usage
      4  no such holdout
      5  the holdout takes no submissions
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    from everhold_competitions.leaderboard import COLUMNS, SHOWN_COLUMNS

    if output is not None and output.suffix.lower() != ".html":
        raise Misuse(f"--output is {str(output)!r}. Pass a name that ends in .html.")
    with opened(storage, name) as holdout:
        board = holdout.competition.leaderboard()
    if output is not None:
        board.save(output)
    people = form is Format.TABLE
    rows, columns = (board.lines(), SHOWN_COLUMNS) if people else (board.to_rows(), COLUMNS)
    show_list(rows, columns, form, document=board.to_dict())
    note(" ".join(filter(None, (board.by if people else "", board.summary(), board.explain()))))
    if terms := board.terms():
        note(terms)
