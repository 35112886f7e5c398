"""Commands that ask: ask, quote and compare.

On the command line a query is one option and the options of its details.
"""

from __future__ import annotations

import csv
import inspect
import sys
from dataclasses import dataclass
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from everhold.answers import SILENT, Answer, estimand_in_words
from everhold.arguments import as_numbers
from everhold.cli import arguments
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list, show_record, show_sentence
from everhold.display import left_in_words
from everhold.errors import QueryRejected
from everhold.queries import DETAILS, KINDS, Form, Kind
from everhold.queries.metrics.registry import METRICS
from everhold.strict_json import JsonFault, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from everhold.queries.query import Query
    from everhold.values.base import Schema

_DETAILS, _RESULT = "More about the query", "The result"

GuessOption = Annotated[
    float | None, typer.Option(help="Your own guess, in place of the training estimate.", rich_help_panel=_DETAILS)
]
ToleranceOption = Annotated[
    float | None,
    typer.Option(
        help="Requested half-width. A smaller one costs more credits. Only with --mechanism privacy_budget.",
        rich_help_panel=_DETAILS,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (ask, quote):
        app.command()(arguments.with_option_groups(with_query_options(command)))
    app.command()(arguments.with_option_groups(compare))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRequest:
    """Options for the analyst's own guess and the requested width."""

    guess: GuessOption = None
    tolerance: ToleranceOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions(AnswerRequest):
    """The analyst's guess, the requested width, and the file for a synthetic table."""

    output: Annotated[
        Path | None,
        typer.Option(
            help="With --synthesize or --private-synthesize: the file for the table, .csv or .parquet.",
            rich_help_panel=_RESULT,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingOptions:
    """Options for the way of asking, such as silently."""

    strict: Annotated[bool, "Exit with code 6 if the query is refused."] = False
    silent: Annotated[bool, "Only register it: nothing is told before 'everhold unseal'."] = False
    all_columns: Annotated[
        bool,
        typer.Option(
            "--all-columns",
            help="Ask about each column of the predictions file, all at once.",
            rich_help_panel=_DETAILS,
        ),
    ] = False


def ask(
    *,
    place: arguments.HoldoutPlace,
    spelled: Spelled,
    details: AnswerOptions,
    analyst: arguments.AnalystOption = None,
    ways: AskingOptions,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    r"""Ask one query and print the answer with what holds for the population.

    Examples:
      everhold ask flights.db flights --mean "arr_delay > 15"
      everhold ask flights.db flights --mean arr_delay --low -60 --high 180
      everhold ask flights.db flights --accuracy predictions.csv
      everhold ask flights.db flights --accuracy models.parquet --all-columns
      everhold ask flights.db flights --correlation "late = 1" --with "hour > 17"
      everhold ask flights.db flights --histogram arr_delay --edges -60,0,15,60
      everhold ask flights.db flights --mean "late = 1" --analyst team-a

    A repeated query gets the same answer, free of charge. With --all-columns a
    file has one column for each of thousands of models; it is read once, and
    nothing is charged if one column is wrong.
    With --silent a query is only registered; its answer is told, with all
    others, when the study ends: see 'everhold unseal --help'.
    When the budget is spent, answers are refused: value, low and high are null.
    So are queries that an analyst's allotment may not pay for; refusals cost
    nothing, are not recorded, and anybody may ask again.

    These take no guess, and charge no surprise:
      everhold ask flights.db flights --choose lowest --error a.csv --error b.csv
      everhold ask flights.db flights --quantile arr_delay
      everhold ask flights.db flights --first-above 0.2 --mean "arr_delay > 60" \
        --mean "arr_delay > 30"
      everhold ask flights.db flights --synthesize cells.json --output table.csv
    With --mechanism privacy_budget they are --private-choose and so on, at a --price.
    The file of cells lists what rows may look like, without a look at the sealed
    ones; rows with other values count as "other", or as the value named "rest":
      {"columns": [{"name": "carrier", "values": ["AA", "UA"]},
                   {"name": "arr_delay", "edges": [-60, 0, 15, 60]}]}

    Exit codes:
      0  answered, or refused because the budget is spent
      1  a file cannot be read or written
      2  wrong usage
      4  no such holdout
      5  the query cannot be asked, or there is no such analyst; nothing was charged
      6  refused, under --strict
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    makes_table = spelled.kind is not None and spelled.kind.form is Form.CELLS
    guess, tolerance, output = details.guess, details.tolerance, details.output
    check_output(output, wanted=makes_table)
    with place.opened(analyst) as holdout:
        if ways.all_columns:
            if tolerance is not None or ways.strict or output is not None:
                raise Misuse(
                    "--all-columns cannot be combined with --tolerance, --strict or --output. Leave those out."
                )
            queries = spelled.columns(holdout.schema)
            guesses = None if guess is None else [guess] * len(queries)
            answers = holdout.ask_many(list(queries.values()), guesses=guesses, silent=ways.silent)
            show_columns(dict(zip(queries, answers, strict=True)), form)
            return
        query = spelled.query(holdout.schema)
        assert query is not None
        answer = holdout.ask(query, guess=guess, tolerance=tolerance, strict=ways.strict, silent=ways.silent)
        whole = holdout.promise.budget
    if output is not None and answer.table is not None:
        save_table(answer.table, output)
    show_answer(answer, form, whole=whole, files=spelled.files())


def quote(
    *,
    place: arguments.HoldoutPlace,
    spelled: Spelled | None = None,
    request: AnswerRequest,
    analyst: arguments.AnalystOption = None,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    """Say what a query would cost and how wide its interval would be, for free.

    Examples:
      everhold quote flights.db flights --mean "arr_delay > 15"
      everhold quote flights.db flights --choose lowest --error a.csv --error b.csv

    Without a query it is the price of any new one, for a mean between 0 and 1.
    A query that is made of several costs what its new parts cost. The radius is
    a half-width; of a choice it is the regret, of a quantile the error of its
    level, of a scan how far beyond the threshold a verdict may be wrong.

    Exit codes:
      0  quoted
      2  wrong usage
      4  no such holdout
      5  the query could not be asked, or there is no such analyst
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    assert spelled is not None
    with place.opened(analyst) as holdout:
        price = holdout.quote(spelled.query(holdout.schema), guess=request.guess, tolerance=request.tolerance)
    show_record(price.to_dict(), form)


_RISK = "risk"
_METRICS = (*METRICS.compared, _RISK)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileArguments:
    """Arguments for the holdout and the two files that are compared."""

    storage: arguments.StorageArgument
    name: Annotated[str, typer.Argument(metavar="NAME", help="The holdout's name.")]
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="Predictions: CSV, TSV or Parquet.")]
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="The predictions that are subtracted.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOptions:
    """Options for a comparison row by row, and for its rows."""

    metric: Annotated[str, f"What is compared: {', '.join(_METRICS)}."] = "accuracy"
    loss: Annotated[str | None, "With --metric risk: 'absolute', 'squared' or 'log'."] = None
    low: Annotated[float, "With --metric risk: smaller losses count as this."] = 0.0
    high: Annotated[float | None, "With --metric risk: larger losses count as this."] = None
    where: Annotated[str | None, "Compare on the rows that meet this condition."] = None
    margin: Annotated[
        float | None, "Say whether the first is not worse, worse, or neither is proved, by so much of the metric."
    ] = None

    def asked(self) -> Any:
        """Return the name of the metric, or the loss and the range of a risk."""
        if self.metric != _RISK and (self.metric not in METRICS or METRICS[self.metric].two == "none"):
            raise Misuse(f"--metric is {self.metric!r}. Pass one of {', '.join(_METRICS)}.")
        if (self.metric == _RISK) != (self.loss is not None):
            raise Misuse("--loss and --metric risk are only used together. Pass both or none.")
        if self.metric == _RISK:
            return {"loss": self.loss, "low": self.low, "high": self.high}
        if self.high is not None or self.low:
            raise Misuse("--low and --high are only for --metric risk. Leave them out.")
        return self.metric


def compare(
    *,
    files: FileArguments,
    comparison: ComparisonOptions,
    guess: Annotated[float, "Your guess of the difference."] = 0.0,
    column: Annotated[str | None, "Column of the predictions, where there are several."] = None,
    analyst: arguments.AnalystOption = None,
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    """Ask how much better or larger the score of one file of predictions is than that of another.

    Examples:
      everhold compare study.db study forest.csv linear.csv
      everhold compare study.db study a.csv b.csv --metric risk --loss squared --high 2500
      everhold compare study.db study a.csv b.csv --metric f1 --where "region = 'N'"
      everhold compare study.db study new.csv old.csv --margin 0.02

    One query, row by row. The answer is about labels drawn anew on these rows:
    where both files predict the same, they tie whatever the label is, so only the
    other rows are bet on. The guess is no difference, unless you give another one;
    if the sealed rows contradict it, one surprise is charged.

    Exit codes:
      0  answered, or refused because the budget is spent
      1  a file cannot be read
      2  wrong usage
      4  no such holdout
      5  the files cannot be compared, or there is no such analyst; nothing was charged
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    asked = comparison.asked()
    from everhold.queries.predictions.files import read_predictions

    with arguments.opened(files.storage, files.name, analyst) as holdout, arguments_checked():
        both = [read_predictions(path, holdout.schema, column=column) for path in (files.first, files.second)]
        told = holdout.compare(both[0], both[1], asked, margin=comparison.margin, where=comparison.where, guess=guess)
    if comparison.margin is None:
        show_answer(told, form, whole=None)
    else:
        show_sentence(f"{told.verdict}: {told.answer}", told.to_dict(), form)


_SUBJECT, _MORE = "The query, exactly one of", "More about the query"
_TYPES = {Form.FLAG: bool, Form.NUMBER: float, Form.WHOLE: int, Form.PREDICTIONS: Path, Form.CELLS: Path}
_ROWWISE = tuple(kind for kind in KINDS if kind.rowwise)
_TRAINING = "training_predictions"
_SPELLED = {"called": "name"}  # options that the command's own parameter of that name keeps from having it
_OF_FILES = tuple(kind.name for kind in KINDS if kind.form is Form.PREDICTIONS)


@dataclass(frozen=True, slots=True)
class Spelled:
    """A query as it was typed.

    Attributes:
        given: Options that the user gave, by name.
        kind: Kind of the query. None if there is no query.
        candidates: For a query about several candidates, the kind and the subject of each candidate.
    """

    given: Mapping[str, Any]
    kind: Kind | None
    candidates: tuple[tuple[Kind, Any], ...]

    @classmethod
    def read(cls, options: Mapping[str, Any], *, required: bool) -> Spelled:
        """Check that the options contain exactly one query, and that all details belong to that query.

        Args:
            options: Values of all options by name.
            required: Whether a query is required.

        Raises:
            Misuse: If there is no query where one is required, there are several, or a detail belongs to another
                query.
        """
        given = {name: value for name, value in options.items() if not (value is None or value == [])}
        given = {name: value for name, value in given.items() if name in DETAILS or value is not False}
        wrapping = [kind for kind in KINDS if kind.several and kind.name in given]
        chosen = wrapping or [kind for kind in KINDS if kind.name in given]
        rows = [(kind, subject) for kind in _ROWWISE for subject in given.get(kind.name, ())]
        if wrapping:
            _check_candidates(wrapping, rows, given)
            used = {detail for kind, _ in rows for detail in kind.details} | set(wrapping[0].details)
        else:
            texts = [f"--{_dashed(kind.name)}" for kind in chosen]
            texts += [f"--{kind.name}" for kind in _ROWWISE for _ in given.get(kind.name, ())[1:]]
            if len(texts) > 1 or (required and not chosen):
                listed = ", ".join(f"--{_dashed(kind.name)}" for kind in KINDS)
                raise Misuse(
                    f"One query is needed, and the options have {' and '.join(texts) or 'none'}. Pass exactly one of "
                    f"{listed}, such as --mean 'arr_delay > 15'."
                )
            used = set(chosen[0].details) if chosen else set()
        files = any(kind.name in _OF_FILES for kind in (*chosen, *(kind for kind, _ in rows)))
        for name in given:
            if name in DETAILS and name not in used:
                raise Misuse(f"--{_dashed(name)} is only for {_owners(name)}. Leave it out or ask that query.")
            if (name == "column" and not files) or (name == "queries" and not wrapping):
                owners = _listed(_OF_FILES if name == "column" else [kind.name for kind in KINDS if kind.several])
                raise Misuse(f"--{name} is only for {owners}. Leave it out or ask that query.")
        if chosen and "with_" in chosen[0].details and "with_" not in given:
            raise Misuse(f"--{chosen[0].name} needs a second condition or number. Pass it as --with EXPR.")
        return cls(given, chosen[0] if chosen else None, tuple(rows) if wrapping else ())

    def columns(self, schema: Schema) -> dict[str, Query[Any]]:
        """Return one query for each column of a file of predictions, by the column's name.

        Raises:
            Misuse: If the query is about no file, or about several.
        """
        kind = self.kind
        if kind is None or kind.name not in _OF_FILES or len(self.given[kind.name]) > 1 or "column" in self.given:
            raise Misuse(f"--all-columns needs one file, without --column. Pass it as one of {_listed(_OF_FILES)}.")
        from everhold.queries.predictions.columns import predictions_in

        trained = _TRAINING in self.given
        details = self._details(kind, schema, but=_TRAINING)
        sealed = predictions_in(self.given[kind.name][0], row_id=schema.row_id)
        training = predictions_in(self.given[_TRAINING], row_id=schema.row_id) if trained else {}
        if trained and (lacking := [name for name in sealed if name not in training]):
            raise QueryRejected(
                f"The predictions for the training rows have no column {lacking[0]!r}. "
                "Give both files the same columns."
            )
        return {
            name: self._made(kind, column, {**details, **({"training": training[name]} if trained else {})})
            for name, column in sealed.items()
        }

    def query(self, schema: Schema) -> Query[Any] | None:
        """Return the query that was typed, for rows of this schema, or None. Files are read."""
        if (kind := self.kind) is None:
            return None
        details = self._details(kind, schema)
        if kind.form is Form.CODE:  # the same function of the same file is the same query another time
            details.setdefault("name", self.given[kind.name])
        if not kind.several:
            subject = self.given[kind.name][0] if kind.rowwise else self.given[kind.name]
            return self._made(kind, self._value(kind.form, subject, schema), details)
        each: list[Any] = [
            self._made(one, self._value(one.form, subject, schema), self._details(one, schema))
            for one, subject in self.candidates
        ]
        each += _lines(self.given["queries"]) if "queries" in self.given else []
        if kind.form is Form.FLAG:
            if len(each) != 2:
                raise Misuse(
                    f"--{_dashed(kind.name)} needs two queries, and {len(each)} are given. Pass the same option twice."
                )
            made: Query[Any] = kind.make(*each)
            return made
        return self._made(kind, each, {**details, kind.several: self.given[kind.name]})

    def _made(self, kind: Kind, subject: Any, details: Mapping[str, Any]) -> Query[Any]:
        """Call the function that makes a query of a kind, and report what is missing as options."""
        try:
            made: Query[Any] = kind.make(subject, **details)
        except TypeError as fault:  # the maker misses an argument
            missing = [option for option, argument in kind.details.items() if f"'{argument}'" in str(fault)]
            if not missing:
                raise
            raise Misuse(f"--{_dashed(kind.name)} needs {_listed(missing)}. Pass them.") from None
        except QueryRejected:
            raise
        except ValueError as reason:
            raise QueryRejected(f"{reason}") from None
        return made

    def _details(self, kind: Kind, schema: Schema, *, but: str = "") -> dict[str, Any]:
        """Return the given details of a query, by the names of the arguments of its function."""
        found = {
            argument: self._value(DETAILS[option].form, self.given[option], schema)
            for option, argument in kind.details.items() if option in self.given and option != but
        }  # fmt: skip
        if "pos_label" in found and schema.label_kind != "string" and (number := as_numbers([found["pos_label"]])):
            found["pos_label"] = number[0]
        return found

    def _value(self, form: Form, written: Any, schema: Schema) -> Any:
        """Return the typed text as its value: predictions, a document, a function or a list."""
        if form is Form.PREDICTIONS:
            from everhold.queries.predictions.files import read_predictions

            return read_predictions(Path(written), schema, column=self.given.get("column"))
        if form is Form.CELLS:
            return read_document(Path(written))
        if form is Form.CODE:
            return read_function(written)
        if form is Form.LIST:
            parts = [part.strip() for part in written.split(",")]
            return as_numbers(parts) or parts
        return written

    def files(self) -> list[str]:
        """Return each candidate with the name of its file, or an empty list if the candidates are not all files."""
        named = [f"{kind.name} of {subject}" for kind, subject in self.candidates if kind.name in _OF_FILES]
        return named if len(named) == len(self.candidates) else []


def with_query_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorator that replaces the parameter ``spelled`` by one option for each kind of query and for each detail."""
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in _options().items()
    ]
    required = inspect.signature(command).parameters["spelled"].default is not None
    return arguments.with_options(command, "spelled", options, partial(Spelled.read, required=required))


def _options() -> dict[str, Any]:
    """Return the annotation of each option of a query, by name."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        plain = _TYPES.get(kind.form, str)
        annotation = list[plain] if kind.rowwise else plain  # type: ignore[valid-type]
        found[kind.name] = _annotated(annotation, kind.name, kind.form, kind.help, _SUBJECT)
    wrapping = [kind.name for kind in KINDS if kind.several and kind.form is not Form.FLAG]
    if wrapping:
        help_text = f"With {_listed(wrapping)}: one condition or number a line."
        found["queries"] = _annotated(Path, "queries", Form.PREDICTIONS, help_text, _SUBJECT)
    for name, detail in DETAILS.items():
        help_text = f"{detail.help} [{_owners(name)}]"
        found[name] = _annotated(_TYPES.get(detail.form, str), name, detail.form, help_text, _MORE)
    column = "Column of the predictions file, where it has several."
    found["column"] = _annotated(str, "column", Form.TEXT, column, _MORE)
    return found


def _annotated(plain: Any, name: str, form: Form, help_text: str, panel: str) -> Any:
    """Return the annotation of one option about the query, as Typer reads it."""
    metavar = {Form.NUMBER: None, Form.WHOLE: None, Form.PREDICTIONS: None, Form.FLAG: None}.get(form, form.value)
    spelled = (
        f"--{_dashed(name)}/--no-{_dashed(name)}" if form is Form.FLAG and name in DETAILS else f"--{_dashed(name)}"
    )
    option = typer.Option(spelled, metavar=metavar, help=help_text, rich_help_panel=panel)
    return Annotated[plain | None, option]


def _check_candidates(wrapping: list[Kind], rows: list[tuple[Kind, Any]], given: Mapping[str, Any]) -> None:
    """Raise Misuse if the queries to compare are of different kinds, because their units may differ."""
    if len(wrapping) > 1:
        listed = " and ".join(f"--{_dashed(kind.name)}" for kind in wrapping)
        raise Misuse(f"One query is needed, and the options have {listed}. Pass one of them.")
    found = [*dict.fromkeys(f"--{kind.name}" for kind, _ in rows), *(["--queries"] if "queries" in given else [])]
    others = [f"--{_dashed(kind.name)}" for kind in KINDS if kind.name in given and kind is not wrapping[0]]
    strange = [option for option in others if option not in found]
    if len(found) != 1 or strange:
        kinds = ", ".join([*(f"--{kind.name}" for kind in _ROWWISE), "--queries"])
        listed = " and ".join([*found, *strange]) or "none"
        raise Misuse(
            f"--{_dashed(wrapping[0].name)} compares several queries of one kind, and the options have {listed}. "
            f"Pass a single one of {kinds}, several times."
        )
    if "training_predictions" in given and len(rows) > 1:
        raise Misuse("--training-predictions is for one file of predictions, and several are given. Leave it out.")


def _lines(path: Path) -> list[str]:
    """Return the queries in a file, one from each line that is not empty."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise Misuse(f"{path.name} is not UTF-8 text. Write one condition or number on each line.") from None
    found = [line for line in lines if line.strip()]
    if not found:
        raise Misuse(f"{path.name} has no query. Write one condition or number on each line.")
    return found


def _owners(detail: str) -> str:
    """Return the options to which a detail belongs, as an English list."""
    return _listed([kind.name for kind in KINDS if detail in kind.details])


def _listed(names: Any) -> str:
    """Return options as an English list, such as "--mean, --sum and --share"."""
    *most, last = (f"--{_dashed(name)}" for name in names)
    return f"{', '.join(most)} and {last}" if most else last


def _dashed(name: str) -> str:
    """Return the name of a parameter as the command line spells it, without the two hyphens."""
    return _SPELLED.get(name, name).rstrip("_").replace("_", "-")


_ENDINGS = (".csv", ".parquet")


def show_answer(answer: Any, form: Format, *, whole: Mapping[str, int] | None, files: Sequence[str] = ()) -> None:
    """Print the answer to a query of any kind.

    Args:
        answer: What `Holdout.ask` returned.
        form: Format of the output.
        whole: The budget at the beginning, by name; None if it is unknown.
        files: Names of the candidates' files, which are shown in place of hashes. Empty if candidates are not files.
    """
    document = answer.to_dict()
    if files and document["index"] is not None:
        document["candidate" if "candidate" in document else "asked"] = files[document["index"]]
    listed = {"bins", "groups"} & set(document)
    lines = answer.to_rows() if listed or isinstance(document.get("values"), list) else [document]
    if answer.refused:
        why = f"refused: {answer.explain()}" if "value" in document else f"{answer}. Nothing was charged."
        for what in listed:
            refused = sum(line["source"] == "refused" for line in document[what])
            why = f"refused: {refused} of {len(document[what])} {what}. The others charged {answer.charged:,}."
        note(why)
    elif getattr(answer, "source", None) == SILENT and document.get("sealed") is None:
        note(answer.explain())
    elif document.get("about"):
        note(estimand_in_words(document["about"]))
    columns = [name for name in lines[0] if name != "about"]
    if form is Format.TABLE and lines[0] is document:
        left = left_in_words(document["remaining"], whole)
        lines = [{**document, "remaining": left, "query": answer.shown}]
    show_list(lines, columns, form, document=document)


def show_columns(answers: Mapping[str, Answer], form: Format) -> None:
    """Print the answers about the columns of one file of predictions, by the column's name."""
    refused = sum(answer.refused for answer in answers.values())
    if refused:
        note(f"refused: {refused:,} of {len(answers):,} columns. Nothing was charged for them.")
    if (about := next(iter(answers.values())).about) is not None:
        note(estimand_in_words(about))
    lines = [{"column": name, **answer.to_dict()} for name, answer in answers.items()]
    show_list(lines, ["column", "value", "low", "high", "source", "charged", "query"], form, document=lines)


def check_output(output: Path | None, *, wanted: bool) -> None:
    """Check, before anything is charged, whether a table can be written.

    Args:
        output: File for the table, or None.
        wanted: Whether the command makes a table.

    Raises:
        Misuse: If the table cannot be written, or a file is given for a command that makes no table.
    """
    if not wanted:
        if output is not None:
            raise Misuse("--output is only for --synthesize. Leave it out or ask for a table.")
        return
    if output is None or output.suffix.lower() not in _ENDINGS:
        found = "--output is missing" if output is None else f"--output is {str(output)!r}"
        raise Misuse(
            f"{found}. Pass a file such as table.csv or table.parquet. What the table "
            "would cost is printed by 'everhold quote'."
        )
    if not output.absolute().parent.is_dir():
        raise Misuse(
            f"--output is {str(output)!r}, and its folder does not exist. Pass a file in a folder that exists."
        )


def save_table(table: Any, path: Path) -> None:
    """Save a synthetic table: one line for each cell that has any weight."""
    rows = table.to_rows()
    if path.suffix.lower() == ".parquet":
        from everhold.display import write_parquet

        write_parquet(path, rows)
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


_MOST_BYTES = 10_000_000


def read_document(path: Path) -> dict[str, Any]:
    """Read the object that a JSON file holds.

    Raises:
        QueryRejected: If the file does not hold a JSON object.
    """
    if path.stat().st_size > _MOST_BYTES:
        raise _rejected(f"{path.name} is too large", f"Pass a file of at most {_MOST_BYTES:,} bytes")
    try:
        document = read_json(path.read_bytes())
    except JsonFault as fault:
        raise _rejected(f"{path.name} {fault}", "Write a JSON object with each name once") from None
    if not isinstance(document, dict):
        raise _rejected(f"{path.name} is not a JSON object", 'Write one such as {"columns": [...]}')
    return document


def read_function(place: str) -> Callable[..., Any]:
    """Run a Python file, and return the function with the given name.

    Args:
        place: File and function, such as ``pulls.py:pull``.

    Raises:
        QueryRejected: If there is no such file or function, or the file fails.
    """
    path, _, name = place.rpartition(":")
    if not path.endswith(".py") or not Path(path).is_file():
        raise _rejected(
            f"{place!r} does not name a function", "Pass a Python file and a name in it, such as pulls.py:pull"
        )
    spec = spec_from_file_location(f"everhold_code_{Path(path).stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there for the module of their own
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as fault:
        raise _rejected(f"{Path(path).name} fails with {type(fault).__name__}: {fault}", "Correct the file") from fault
    function = getattr(module, name, None)
    if not callable(function):
        raise _rejected(f"{Path(path).name} has no function {name!r}", "Pass the name of one of its functions")
    called: Callable[..., Any] = function
    return called


def _rejected(problem: str, advice: str) -> QueryRejected:
    """Return the error for a query that cannot be made from a file."""
    return QueryRejected(f"{problem}. {advice}.")
