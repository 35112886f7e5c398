"""Commands about a holdout: create, ask, quote, status, transcript, list."""

from __future__ import annotations

import csv
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from everhold.answers import UNSEALED
from everhold.cli.answers import check_output, save_table, show_answer, show_columns
from everhold.cli.arguments import (
    ENGINE_VARIABLE,
    STORAGE_VARIABLE,
    AnalystOption,
    FormatOption,
    NameArgument,
    StorageArgument,
    address_of,
    model_from,
    opened,
    place_of,
    storage_of,
)
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list, show_record, show_sentence
from everhold.cli.questions import Spelled, with_question_options
from everhold.display import at_most
from everhold.wire.addresses import is_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.client import RemoteHoldout
    from everhold.dependence import DependenceModel
    from everhold.holdout import Holdout
    from everhold.sealing.engines.base import Engine

__all__ = ["ALLOTTED", "register", "show_transcript"]

_TRANSCRIPT = ("sequence", "asked_at", "question", "asked", "value", "low", "high", "source", "charged")
ALLOTTED = ("analyst", "asked", "questions", "charged", "charges")
"""Columns of a table of allotments."""
_LISTED = ("name", "rows", "training_rows", "mechanism", "queries", "confidence", "asked", "charged", "created")
_WISH, _ROWS, _DETAILS, _RESULT = "What is planned", "The rows", "More about the question", "The result"
_COMPETITION = "A competition"

GuessOption = Annotated[
    float | None, typer.Option(help="Your own guess, in place of the training estimate.", rich_help_panel=_DETAILS)
]
ToleranceOption = Annotated[
    float | None,
    typer.Option(
        help="Half-width wished for; sharper costs more credits. Only with --mechanism privacy_budget.",
        rich_help_panel=_DETAILS,
    ),
]


class Features(StrEnum):
    """Who may see the columns of the sealed rows but the label."""

    SEALED = "sealed"
    PUBLIC = "public"


class Feedback(StrEnum):
    """What a submission is told before the end."""

    NONE = "none"
    LEADER = "leader"
    SCORE = "score"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (create, ask, quote, status, transcript):
        app.command()(command)
    app.command("list")(list_holdouts)


def create(
    storage: StorageArgument,
    name: NameArgument = None,
    *,
    holdout: Annotated[
        Path | None,
        typer.Option(help="The rows to seal: Parquet, CSV or TSV with named columns.", rich_help_panel=_ROWS),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Seal rows that stay in this engine, such as sc://host:15002, clickhouse://host:8123/db or "
            f"postgresql://host/db; {ENGINE_VARIABLE} by default. A password in it is not recorded.",
            rich_help_panel=_ROWS,
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="The table there whose rows are sealed.", rich_help_panel=_ROWS)
    ] = None,
    training: Annotated[
        Path | None,
        typer.Option(help="Open rows with the same columns; they make the guesses.", rich_help_panel=_ROWS),
    ] = None,
    training_table: Annotated[
        str | None,
        typer.Option(
            help="Open rows as another table in the engine: expressions are guessed from all of its rows, and about "
            "100,000 are copied for models and checks.",
            rich_help_panel=_ROWS,
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Column of the truth, for --accuracy, --error, --brier.", rich_help_panel=_ROWS),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            help="The classes of the label, as in cat,dog, which are public from now on; by default those of the "
            "training labels. 'open' if labels are free texts.",
            rich_help_panel=_ROWS,
        ),
    ] = None,
    row_id: Annotated[
        str | None,
        typer.Option(
            help="Column that names rows, each once; predictions are joined by it. Public.", rich_help_panel=_ROWS
        ),
    ] = None,
    features: Annotated[
        Features,
        typer.Option(
            help="'public' if everybody may see all columns but the label, as in a competition: answers are then about "
            "labels drawn anew on these rows.",
            rich_help_panel=_ROWS,
        ),
    ] = Features.SEALED,
    stratified: Annotated[
        str | None,
        typer.Option(
            help="Column by whose values the table was split: both parts have them in the same shares, and answers are "
            "for rows with these shares.",
            rich_help_panel=_ROWS,
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="Rows with equal values of this column belong together.", rich_help_panel=_ROWS),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="How the rows depend on each other: a JSON file.", rich_help_panel=_ROWS)
    ] = None,
    independent: Annotated[
        bool,
        typer.Option(
            "--independent", help="Rows were drawn independently; this is the default.", rich_help_panel=_ROWS
        ),
    ] = False,
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="thresholdout, guess_and_check, gaussian, privacy_budget, ladder, laplace, subsampling, "
            "random_rows, silent (nothing is told before the end), empirical or sample_splitting (rows of one law); "
            "by default the one with the narrowest promise, but for the last three.",
            rich_help_panel=_WISH,
        ),
    ] = None,
    queries: Annotated[int, typer.Option(help="Number of questions to plan for.", rich_help_panel=_WISH)] = 1_000,
    overfits: Annotated[
        int | None,
        typer.Option(
            help="Number of guesses that may turn out wrong; by default 10, or one for each question if fewer.",
            rich_help_panel=_WISH,
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Probability with which all answers hold together.", rich_help_panel=_WISH)
    ] = 0.95,
    slack: Annotated[
        float,
        typer.Option(help="Spend nothing on guesses closer than this part of the radius.", rich_help_panel=_WISH),
    ] = 0.0,
    most_rows: Annotated[int, typer.Option(help="The most rows that either file may have.", rich_help_panel=_ROWS)] = 2
    ** 26,
    equal_rows: Annotated[
        bool,
        typer.Option(
            "--equal-rows",
            help="Equal rows in both files are not copies, but come from a design that repeats its settings.",
            rich_help_panel=_ROWS,
        ),
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Seal rows even if they are sealed here already; neither budget accounts for the other.",
            rich_help_panel=_ROWS,
        ),
    ] = False,
    feedback: Annotated[
        Feedback | None,
        typer.Option(
            help="Take submissions, and tell of each before the end: nothing, whether it leads (by proof), or its "
            "score. Mechanism and number of questions follow from the teams.",
            rich_help_panel=_COMPETITION,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Submissions are ranked by this: accuracy, error, brier, risk; accuracy by default.",
            rich_help_panel=_COMPETITION,
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(help="With --metric risk: 'absolute', 'squared' or 'log'.", rich_help_panel=_COMPETITION),
    ] = None,
    low: Annotated[
        float | None,
        typer.Option(help="With --metric risk: smaller losses count as this.", rich_help_panel=_COMPETITION),
    ] = None,
    high: Annotated[
        float | None,
        typer.Option(help="With --metric risk: larger losses count as this.", rich_help_panel=_COMPETITION),
    ] = None,
    teams: Annotated[int | None, typer.Option(help="Most teams; 50 by default.", rich_help_panel=_COMPETITION)] = None,
    submissions: Annotated[
        int | None, typer.Option(help="Most submissions of a team; 20 by default.", rich_help_panel=_COMPETITION)
    ] = None,
    surprises: Annotated[
        int | None,
        typer.Option(
            help="Most surprises that telling one team may cost; by default its equal part of --overfits, at least 1, "
            "with --feedback score, and half of them with leader.",
            rich_help_panel=_COMPETITION,
        ),
    ] = None,
    allow_vacuous: Annotated[
        bool,
        typer.Option(
            "--allow-vacuous",
            help="Seal the rows even if the radius is half the range or more: nothing is promised then.",
            rich_help_panel=_WISH,
        ),
    ] = False,
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Seal rows and print what is promised about all answers.

    Example:
      everhold create flights.db flights --holdout sealed.parquet \
        --training train.parquet --label late

    The rows are copied beside the database; put the originals away.
    Rows that outgrow one machine stay in their engine, and whoever administers
    it can read them:
      everhold create flights.db flights --engine sc://spark:15002 \
        --table flights_sealed --training-table flights_open --label late
    Every other command finds the table again by what the ledger says of it, and
    by EVERHOLD_ENGINE, the address with user and password.
    Rows of one household, patient or day: --groups COLUMN. A time series:
    --model FILE.json, made by 'everhold dependence fit'. --independent declares
    that there is no such dependence, and silences what training rows suggest.
    If you publish the features of the rows, for submissions, say so with
    --features public; questions are then asked with files of predictions.
    A prediction of a class that the label does not have is refused. The classes
    are those of the training labels, or --classes.
    Rows that are already sealed in this storage are refused without --again:
    neither holdout accounts for what the other has told, so the promise of each
    holds only for questions chosen without any answer from the other.
    A competition: --feedback none, leader or score, with --metric, --teams and
    --submissions; then 'everhold submit', 'leaderboard' and, at the end, 'unseal'.
    With --format json or csv, 'everhold status' comes along with the promise.

    Exit codes:
      0  created
      2  the wish is not valid; nothing was created
      3  the rows or the name cannot be used; nothing was created
      9  the groups or the model do not match the rows; nothing was created
    """
    place = place_of(storage, name)
    declared = [
        option for option, given in
        (("--groups", groups is not None), ("--model", model is not None), ("--independent", independent)) if given
    ]  # fmt: skip
    if len(declared) > 1:
        raise Misuse(f"{' and '.join(declared)} are given together; expected one of them; leave the others out")
    competition = _competition(
        feedback, {"metric": metric, "teams": teams, "submissions": submissions, "surprises": surprises},
        {"loss": loss, "low": low, "high": high},
    )  # fmt: skip
    settings: dict[str, Any] = dict(
        label=label, classes=_classes(classes), row_id=row_id, features=features.value, stratified=stratified,
        mechanism=mechanism, queries=queries, overfits=overfits, confidence=confidence, slack=slack,
        dependence=_declared(groups=groups, model=model, independent=independent),
        again=again, allow_vacuous=allow_vacuous, most_rows=most_rows, equal_rows=equal_rows, **competition,
    )  # fmt: skip
    with arguments_checked():
        rows = _rows(place[0], holdout, engine, table)
        open_rows = _open_rows(rows, training, engine, training_table)
        created = _create(*place, holdout=rows, training=open_rows, settings=settings)
    with created:
        promise = created.certificate().promise
        show_sentence(promise, {"promise": promise, **created.status()}, form)
        status = created.status()
        if status["dependence"]["kind"] == "groups" and status.get("expected") is not None:
            note(
                f"The half-width of {at_most(status['radius'])} is guaranteed. Answers around 0.9 are expected within "
                f"{at_most(status['expected'])}, as rows of one training group are alike; each has its own interval."
            )
        expected = getattr(created, "mechanism", None)  # a service tells no more than its status
        if feedback is Feedback.NONE and expected is not None:
            near = " and ".join(f"{at_most(expected.expected_radius(at))} near {at}" for at in (0.5, 0.9))
            note(f"on the final leaderboard a share of rows, such as an accuracy, is within {near}")


def _rows(storage: str, holdout: Path | None, engine: str | None, table: str | None) -> Path | Engine:
    """The rows to seal: a file, or a table that stays where it is."""
    if (holdout is None) == (table is None) or (holdout is not None and engine is not None):
        raise Misuse(
            "expected the rows to seal either as --holdout FILE, or as --engine URL and --table TABLE; nothing was "
            "created"
        )
    if holdout is not None:
        return holdout
    if is_address(storage):
        raise Misuse(
            "a service does not take the address of an engine over HTTP, because connections are its operator's "
            "business; run this command where the service runs, with its storage; nothing was created"
        )
    assert table is not None
    return _stays(engine, table)


def _stays(engine: str | None, table: str) -> Engine:
    """A table of the engine at an address, or of that of the environment."""
    from everhold.engines import engine_at

    url = engine or os.environ.get(ENGINE_VARIABLE)
    if not url:
        raise Misuse(f"--table {table} is in no engine; give --engine URL, or set {ENGINE_VARIABLE}")
    return engine_at(url, table)


def _open_rows(
    sealed: Path | Engine, training: Path | None, engine: str | None, table: str | None
) -> Path | Engine | None:
    """The training rows: a file, or another table of the engine."""
    if table is None:
        return training
    if training is not None or isinstance(sealed, Path):
        raise Misuse(
            "expected training rows either as --training FILE, or as --training-table TABLE beside --table; nothing "
            "was created"
        )
    return _stays(engine, table)


def _create(
    storage: str, name: str, *, holdout: Path | Engine, training: Path | Engine | None, settings: Mapping[str, Any]
) -> Holdout | RemoteHoldout:
    """Seal the rows here, or in a service."""
    if is_address(storage) and isinstance(holdout, Path) and (training is None or isinstance(training, Path)):
        from everhold.client import create
        from everhold.wire.connection import Connection

        return create(Connection(storage), name, holdout=holdout, training=training, **settings)
    from everhold.holdout import Holdout

    return Holdout.create(storage, name, holdout=holdout, training=training, **settings)


def _classes(given: str | None) -> list[str] | Literal["open"] | None:
    """Classes that are separated by commas; in quotes where one has a comma of its own."""
    if given is None:
        return None
    return "open" if given == "open" else next(csv.reader([given]), [])


def _competition(
    feedback: Feedback | None, wish: dict[str, Any], of_risk: dict[str, Any]
) -> dict[str, Any]:  # fmt: skip
    """What is fixed of a competition, as `Holdout.create` takes it; nothing if it is none."""
    given = {name: value for name, value in wish.items() if value is not None}
    losses = {name: value for name, value in of_risk.items() if value is not None}
    if feedback is None:
        if given or losses:
            raise Misuse(
                f"--{next(iter({**given, **losses}))} belongs to a competition; give --feedback none, leader or score, "
                "or leave it out"
            )
        return {}
    if wish["metric"] == "risk":
        given["metric"] = losses
    elif losses:
        raise Misuse(f"--{next(iter(losses))} belongs to --metric risk; leave it out or rank by a risk")
    return {"feedback": feedback.value, **given}


def _declared(*, groups: str | None, model: Path | None, independent: bool) -> DependenceModel | None:
    """How the rows depend on each other, if anything was said about it."""
    from everhold.dependence import Groups, Independent

    if independent:
        return Independent()
    if groups is not None:
        return Groups(groups)
    return None if model is None else model_from(model)


@with_question_options
def ask(
    storage: StorageArgument,
    name: NameArgument = None,
    *,
    spelled: Spelled,
    guess: GuessOption = None,
    tolerance: ToleranceOption = None,
    output: Annotated[
        Path | None,
        typer.Option(help="With --synthesize: the file for the table, .csv or .parquet.", rich_help_panel=_RESULT),
    ] = None,
    analyst: AnalystOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 6 if the question is refused.")] = False,
    silent: Annotated[
        bool, typer.Option("--silent", help="Only register it: nothing is told before 'everhold unseal'.")
    ] = False,
    all_columns: Annotated[
        bool,
        typer.Option(
            "--all-columns",
            help="Ask about each column of the predictions file, all at once.",
            rich_help_panel=_DETAILS,
        ),
    ] = False,
    form: FormatOption = Format.TABLE,
) -> None:
    r"""Ask one question and print the answer with what holds for the population.

    Examples:
      everhold ask flights.db flights --mean "arr_delay > 15"
      everhold ask flights.db flights --mean arr_delay --low -60 --high 180
      everhold ask flights.db flights --accuracy predictions.csv
      everhold ask flights.db flights --accuracy models.parquet --all-columns
      everhold ask flights.db flights --correlation "late = 1" --with "hour > 17"
      everhold ask flights.db flights --histogram arr_delay --edges -60,0,15,60
      everhold ask flights.db flights --mean "late = 1" --analyst team-a

    A repeated question gets the same answer, free of charge. With --all-columns a
    file has one column for each of thousands of models; it is read once, and
    nothing is charged if one column is wrong.
    With --silent a question is only registered; its answer is told, with all
    others, when the study ends: see 'everhold unseal --help'.
    When the budget is spent, answers are refused: value, low and high are null.
    So are questions that an analyst's allotment may not pay for; refusals cost
    nothing, are not recorded, and anybody may ask again.

    With --mechanism privacy_budget, one budget also pays for these:
      everhold ask flights.db flights --choose lowest --error a.csv --error b.csv
      everhold ask flights.db flights --quantile arr_delay --low -60 --high 180
      everhold ask flights.db flights --first-above 0.2 --mean "arr_delay > 60" \
        --mean "arr_delay > 30" --price 1000
      everhold ask flights.db flights --synthesize cells.json --output table.csv
    The file of cells lists what rows may look like, without a look at the sealed
    ones; rows with other values count as "other", or as the value named "rest":
      {"columns": [{"name": "carrier", "values": ["AA", "UA"]},
                   {"name": "arr_delay", "edges": [-60, 0, 15, 60]}]}

    Exit codes:
      0  answered, or refused because the budget is spent
      1  a file cannot be read or written
      2  wrong usage
      4  no such holdout
      5  the question cannot be asked, or there is no such analyst; nothing was charged
      6  refused, under --strict
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    makes_table = spelled.kind is not None and spelled.kind.name == "synthesize"
    check_output(output, wanted=makes_table)
    with opened(storage, name, analyst) as holdout:
        if all_columns:
            if tolerance is not None or strict or output is not None:
                raise Misuse("--all-columns takes no --tolerance, --strict or --output; leave them out")
            questions = spelled.columns(holdout.schema)
            guesses = None if guess is None else [guess] * len(questions)
            answers = holdout.ask_many(list(questions.values()), guesses=guesses, silent=silent)  # type: ignore[arg-type]
            show_columns(dict(zip(questions, answers, strict=True)), form)
            return
        question, tolerance = spelled.question(holdout.schema, tolerance)
        assert question is not None
        answer = holdout.ask(question, guess=guess, tolerance=tolerance, strict=strict, silent=silent)
        whole = _whole(holdout, analyst)
    if output is not None and answer.table is not None:
        save_table(answer.table, output)
    show_answer(answer, form, whole=whole, files=spelled.files())


def _whole(holdout: Holdout | RemoteHoldout, analyst: str | None) -> dict[str, int] | None:
    """What could be spent before the first question, by name; None where a service does not say so."""
    if (mechanism := getattr(holdout, "mechanism", None)) is None:
        return None
    from everhold.mechanisms import State

    whole: dict[str, int] = mechanism.remaining(State())
    if analyst is None:
        return whole
    part = holdout.allotments()[analyst]
    return {name: part.questions if name == "questions" else part.charges for name in whole}


@with_question_options
def quote(
    storage: StorageArgument,
    name: NameArgument = None,
    *,
    spelled: Spelled | None = None,
    guess: GuessOption = None,
    tolerance: ToleranceOption = None,
    analyst: AnalystOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Say what a question would cost and how wide its interval would be; free.

    Examples:
      everhold quote flights.db flights --mean "arr_delay > 15"
      everhold quote flights.db flights --choose lowest --error a.csv --error b.csv

    Without a question it is the price of any new one, for a mean between 0 and 1.
    A question that is made of several costs what its new parts cost. The radius is
    a half-width; of a choice it is the regret, of a quantile the error of its
    level, of a scan how far beyond the threshold a verdict may be wrong.

    Exit codes:
      0  quoted
      2  wrong usage
      4  no such holdout
      5  the question could not be asked, or there is no such analyst
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    assert spelled is not None
    with opened(storage, name, analyst) as holdout:
        question, tolerance = spelled.question(holdout.schema, tolerance)
        price = holdout.quote(question, guess=guess, tolerance=tolerance)
    show_record(price.to_dict(), form)


def status(storage: StorageArgument, name: NameArgument = None, form: FormatOption = Format.TABLE) -> None:
    """Print rows, mechanism, promise, what was asked and what is left.

    Example:
      everhold status flights.db flights --format json

    Where parts of the budget are allotted, a table of analysts follows: what
    each has asked and been charged, with the limits of each.

    Exit codes:
      0  printed
      4  no such holdout
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    with opened(storage, name) as holdout:
        found = holdout.status()
    if form is not Format.TABLE or "allotments" not in found:
        show_record(found, form)
        return
    show_record({name: value for name, value in found.items() if name != "allotments"}, form)
    sys.stdout.write("\n")
    show_list(found["allotments"], ALLOTTED, form, document=found)


def transcript(storage: StorageArgument, name: NameArgument = None, form: FormatOption = Format.TABLE) -> None:
    """Print every question with its answer, in order; the same as 'everhold ledger show'.

    Example:
      everhold transcript flights.db flights --format csv

    Values are means of row values between 0 and 1, as the ledger holds them. Of a
    choice, a quantile or a scan the value is the number of the candidate, bin or
    question, from 0, and 'within' says how sharp it is: the regret, the error of
    the level, or the distance beyond the threshold.
    Of an unsealed study there is also what the sealed rows say of each question,
    with an interval for the population.

    Exit codes:
      0  printed
      4  no such holdout
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    show_transcript(storage, name, form)


def show_transcript(storage: str, name: str | None, form: Format) -> None:
    """Print the transcript of the holdout at a place."""
    with opened(storage, name) as holdout:
        entries = holdout.transcript()
    rows = entries.to_rows()
    columns = [*_TRANSCRIPT, *(name for name in (*UNSEALED, "analyst", "about") if rows and name in rows[0])]
    if any(row.get("within") is not None for row in rows):  # a choice says nothing without its regret
        columns.insert(columns.index("source"), "within")
    show_list(rows, columns, form, document=entries.to_dict())


def list_holdouts(
    storage: Annotated[
        str | None,
        typer.Argument(metavar="STORAGE", help=f"Where the holdouts are; {STORAGE_VARIABLE} by default."),
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Print all holdouts of a storage.

    Example:
      everhold list flights.db

    Exit codes:
      0  printed
      2  no storage is given
      4  no such storage
      8  the token of a service is missing or wrong
    """
    place = storage_of(storage)
    rows = _of_service(place) if is_address(place) else _of_storage(place)
    show_list(rows, _LISTED, form, document={"holdouts": rows})


def _of_service(address: str) -> list[dict[str, Any]]:
    from everhold.client import holdouts
    from everhold.wire.connection import Connection

    with arguments_checked(), Connection(address) as service:
        return holdouts(service)


def _of_storage(place: str) -> list[dict[str, Any]]:
    from everhold.ledger import LedgerStore
    from everhold.sealing.configuration import listed_facts

    with LedgerStore.open(address_of(place), create=False) as store:
        records = [store.record(name) for name in store.names()]
        return [listed_facts(record, store.head(record.id)) for record in records]
