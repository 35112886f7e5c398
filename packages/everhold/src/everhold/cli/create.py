"""The command that seals rows: create, with its options about rows, dependence and plan."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

import typer

from everhold.cli import arguments
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list, show_sentence
from everhold.display import at_most
from everhold.extensions import Registry
from everhold.mechanisms import MECHANISMS
from everhold.operations.operation import Param
from everhold.operations.settings import settings_of
from everhold.remote import is_address, remote_storage

if TYPE_CHECKING:
    import inspect

    from everhold.dependence import DependenceModel
    from everhold.holdout import Holdout
    from everhold.sealing.rows.row_store import SealableTable
    from everhold.values.missing import Missing

_ROWS, _PLAN = "The rows", "What is planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The rows to seal and the open rows, as files or as tables of an engine."""

    panel: ClassVar[str] = _ROWS

    holdout: Annotated[Path | None, "The rows to seal: Parquet, CSV or TSV with named columns."] = None
    engine: Annotated[
        str | None,
        "Seal rows that stay in the engine at this address, such as scheme://host:port/database "
        f"({arguments.ENGINE_VARIABLE} by default). A password in it is not recorded.",
    ] = None
    table: Annotated[str | None, "The table there whose rows are sealed."] = None
    arrived: Annotated[
        str | None,
        "Column of the table that says when a row arrived. Rows before --until are sealed, and 'everhold append "
        "--until' takes later ones.",
    ] = None
    until: Annotated[str | None, "Of --arrived: such as 2026-12-01."] = None
    training: Annotated[Path | None, "Open rows with the same columns, from which guesses are made."] = None
    training_table: Annotated[
        str | None,
        "Open rows as another table in the engine: expressions are guessed from all of its rows, and about 100,000 "
        "are copied for models and checks.",
    ] = None

    def sealed(self, storage: str) -> Path | SealableTable:
        """Return the rows to seal: a file, or a table that stays in its engine."""
        if (self.holdout is None) == (self.table is None) or (self.holdout is not None and self.engine is not None):
            raise Misuse(
                "The rows to seal are missing or given twice. Pass --holdout FILE, or --engine URL and --table TABLE."
            )
        if self.holdout is not None:
            return self.holdout
        if is_address(storage):
            raise Misuse(
                "A service does not take the address of an engine over HTTP. Run this "
                "command where the service runs, with its storage."
            )
        assert self.table is not None
        table = self._stays(self.table)
        if self.arrived is None and self.until is None:
            return table
        if self.arrived is None or not hasattr(table, "arriving_by"):
            raise Misuse("--until needs --arrived and an engine that supports it. Pass both, or leave --until out.")
        arriving: SealableTable = table.arriving_by(self.arrived, self.until)
        return arriving

    def open(self) -> Path | SealableTable | None:
        """Return the training rows: a file, another table of the engine, or None if there are none."""
        if self.training_table is None:
            return self.training
        if self.training is not None or self.table is None:
            raise Misuse(
                "The training rows are given twice, or --table is missing. Pass "
                "--training FILE, or --training-table TABLE with --table."
            )
        return self._stays(self.training_table)

    def _stays(self, table: str) -> SealableTable:
        """Return a table of the engine at the address that was given, or that the environment names."""
        from everhold.sealing.rows.row_store import table_at

        url = self.engine or os.environ.get(arguments.ENGINE_VARIABLE)
        if not url:
            raise Misuse(
                f"--table is {table}, and no engine is given. Pass --engine URL, or set {arguments.ENGINE_VARIABLE}."
            )
        return table_at(url, table)


@dataclass(frozen=True, slots=True, kw_only=True)
class DependenceOptions:
    """Options for the dependence of the rows."""

    panel: ClassVar[str] = _ROWS

    groups: Annotated[str | None, "Rows with equal values of this column belong together."] = None
    in_order: Annotated[
        str | None,
        "Column that puts the rows in order of time, such as a day. Rows may depend on each other in any way. Answers"
        " are about the sealed days, given what came before each.",
    ] = None
    model: Annotated[Path | None, "How the rows depend on each other: a JSON file."] = None
    independent_rows: Annotated[bool, "Rows were drawn independently (the default)."] = False

    def declared(self) -> DependenceModel | None:
        """Return the declared dependence model, or None if no option declares one.

        Raises:
            Misuse: If more than one option declares a dependence.
        """
        from everhold.dependence import Groups, Independent, InOrder

        given = {
            "--groups": self.groups is not None,
            "--in-order": self.in_order is not None,
            "--model": self.model is not None,
            "--independent-rows": self.independent_rows,
        }
        if len(options := [option for option, is_given in given.items() if is_given]) > 1:
            raise Misuse(f"{' and '.join(options)} are given together. Pass only one of them.")
        if self.independent_rows:
            return Independent()
        if self.groups is not None:
            return Groups(self.groups)
        if self.in_order is not None:
            return InOrder(self.in_order)
        return None if self.model is None else arguments.model_from(self.model)


def _setting_options() -> list[inspect.Parameter]:
    """Return an option for each setting of `Holdout.create` that is plain data."""
    from everhold.holdout import Holdout
    from everhold.sealing.intake.request import Planning, Rows

    plain = settings_of(Holdout.create)
    del plain["share"]  # which is in a protocol, beside the families
    rows = {name: plain.pop(name) for name in ("label", "allow_resealing", "exist_ok")} | settings_of(Rows)
    rows["classes"] = replace(rows["classes"], type=str)
    for every, name, more in (
        (plain, "mechanism", f"One of {', '.join(MECHANISMS)}."), (rows, "classes", "Separate them by commas."),
        (rows, "missing", "By column it is written bp=drop."),
    ):  # fmt: skip
        every[name] = replace(every[name], about=Param(f"{every[name].about.help} {more}"))
    return [
        arguments.option_for(each, panel=panel, unset=True)
        for panel, every in ((_ROWS, rows), (_PLAN, plain | settings_of(Planning)))
        for each in every.values()
    ]


def _given_settings(typed: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that were given on the command line, by their flat names."""
    given = {name: value for name, value in typed.items() if value is not None and value is not False and value != []}
    if "missing" in given:
        given["missing"] = _missing(given["missing"])
    if (classes := given.get("classes", "open")) != "open":
        given["classes"] = next(csv.reader([classes]), [])  # in quotes where a class has a comma of its own
    return given


def _missing(given: Sequence[str]) -> Missing:
    """Return the rule for missing values of all columns, or the rules by column."""
    named = [each.rpartition("=") for each in given]
    if len(given) == 1 and not named[0][0]:
        return _as_value(given[0])
    if not all(name for name, _, _ in named):
        raise Misuse(
            "--missing is given several times, once without a column. Write the column before each rule, as in bp=drop."
        )
    return {name: _as_value(value) for name, _, value in named}


def _as_value(text: str) -> str | float | bool:
    """Return the number, the truth value or the text that an option spells."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        return text


_MOST_SHOWN = 50  # columns
_LONGEST = 40  # characters of an example


class FurtherOptions(Protocol):
    """Options that a distribution adds to `everhold create`, a dataclass as `everhold.cli.arguments` reads it.

    Its entry point is of the group ``everhold.create_options``.

    Attributes:
        plans: Options that it adds to `everhold plan`, a dataclass, too; see `everhold.cli.plan.FurtherPlans`.
    """

    plans: ClassVar[type[Any]]

    def settings(self) -> dict[str, Any]:
        """Return the options that were given, by the names of `Holdout.create`.

        Raises:
            Misuse: If the options do not fit together.
        """

    def advise(self, created: Holdout) -> None:
        """Print on stderr what users should know about the new holdout."""


def register(app: typer.Typer) -> None:
    """Add the command `create`, with the options that distributions add."""
    made = arguments.with_options(create, "settings", _setting_options(), _given_settings)
    app.command()(arguments.with_option_groups(made, further_options()))


def further_options() -> dict[str, type[FurtherOptions]]:
    """Return the options that distributions add, by the names of their entry points."""
    return dict(Registry[type[FurtherOptions]]("everhold.create_options", {}, _check))


def _check(_: str, options: Any) -> str:
    """Return what is wrong with the options that an extension adds, or an empty text."""
    lacking = [name for name in ("settings", "advise", "plans", "__dataclass_fields__") if not hasattr(options, name)]
    return f"it has no {lacking[0]}" if lacking else ""


def create(
    *,
    place: arguments.HoldoutPlace,
    rows: SourceOptions,
    settings: Mapping[str, Any],
    dependence: DependenceOptions,
    protocol: Annotated[
        Path | None,
        typer.Option(
            help="A TOML or YAML file of declared families, whose queries cost nothing (see 'everhold declare'). Its "
            "other settings hold where no option is given.",
            rich_help_panel=_PLAN,
        ),
    ] = None,
    extensions: Mapping[str, FurtherOptions],
    form: arguments.FormatOption = Format.TABLE,
) -> None:
    r"""Seal rows and print what is promised about all answers.

    Example:
      everhold create flights.db flights --holdout sealed.parquet \
        --training train.parquet --label late

    The rows are copied beside the database; put the originals away.
    Rows that outgrow one machine stay in their engine, and its administrators
    can read them:
      everhold create flights.db flights --engine sc://spark:15002 \
        --table flights_sealed --training-table flights_open --label late
    Every other command finds the table again by what the ledger says of it, and
    by EVERHOLD_ENGINE, the address with user and password.
    Rows of one household, patient or day: --groups COLUMN. A time series:
    --model FILE.json, made by 'everhold dependence fit'. --independent-rows
    declares that there is no such dependence, and --independent COLUMN that this
    column shows none: then no warning suggests it, and the certificate says so.
    If you publish the features of the rows, for submissions, say so with
    --features public; queries are then asked with files of predictions.
    A prediction of a class that the label does not have is refused. The classes
    are those of the training labels, or --classes.
    Rows that are already sealed in this storage are refused, unless you give
    --allow-resealing: neither holdout accounts for what the other has told, so the
    promise of each holds only for queries chosen without any answer from the
    other.
    A competition: --feedback none, leader or score, with --metric, --teams and
    --submissions; then 'everhold submit', 'leaderboard' and, at the end, 'unseal'.
    Each column is printed as it was read, with an example from the training rows.
    Dates and numbers with two readings, such as 03/04/2025, are refused.
    With --format json or csv, 'everhold status' comes along with the promise.

    Exit codes:
      0  created
      2  the settings are not valid; nothing was created
      3  the rows or the name cannot be used; nothing was created
      5  the protocol or a declared query cannot be used; nothing was created
      9  the groups or the model do not match the rows; nothing was created
    """
    storage, name = arguments.place_of(place.storage, place.name)
    said: dict[str, Any] = {}
    if protocol is not None:
        from everhold.families.protocol import protocol as read_protocol
        from everhold.sealing.intake.request import flat_settings

        said = flat_settings(read_protocol(protocol).settings())
    stated = dependence.declared()
    extended = {name: value for further in extensions.values() for name, value in further.settings().items()}
    with arguments_checked():
        sealed, training = rows.sealed(storage), rows.open()
        created = _create(
            storage, name, holdout=sealed, training=training,
            settings={**said, **settings, **({} if stated is None else {"dependence": stated}), **extended},
        )  # fmt: skip
    with created:
        ways = None if extended or created.is_served else created.ways
        promise, status = created.certificate().promise, created.status()
        columns = created.columns()
        compared = {} if ways is None else {"ways": ways.to_dict()}
        if form is Format.TABLE and ways is not None:
            show_list(ways.to_rows(), ("way", "when", "within"), form, document=[])
            note(ways.explain())
        show_sentence(promise, {"promise": promise, **status, "columns": columns, **compared}, form)
        if form is Format.TABLE and columns:
            shown = [{**column, "example": _cut(column["example"])} for column in columns[:_MOST_SHOWN]]
            show_list(shown, ("column", "kind", "example"), form, document=columns)
            if len(columns) > _MOST_SHOWN:
                note(f"{len(columns) - _MOST_SHOWN:,} more columns are in the output of --format json.")
        if status["dependence"]["kind"] == "groups" and status.get("expected") is not None:
            note(
                f"The half-width of {at_most(status['radius'])} is guaranteed. Answers around 0.9 are expected within "
                f"{at_most(status['expected'])}, as rows of one training group are alike. Each has its own interval."
            )
        for further in extensions.values():
            further.advise(created)


def _create(
    storage: str,
    name: str,
    *,
    holdout: Path | SealableTable,
    training: Path | SealableTable | None,
    settings: Mapping[str, Any],
) -> Holdout:
    """Seal the rows here, or in a service."""
    if is_address(storage) and isinstance(holdout, Path) and (training is None or isinstance(training, Path)):
        if "exist_ok" in settings:
            raise Misuse("A service creates a holdout once. Leave --exist-ok out.")
        created: Holdout = remote_storage(storage).create(storage, name, holdout=holdout, training=training, **settings)
        return created
    from everhold.asking.creation import settings_from
    from everhold.holdout import Holdout

    return Holdout.create(storage, name, holdout=holdout, training=training, **settings_from(settings))


def _cut(example: str | None) -> str | None:
    """Return an example of a column, shortened if it is long."""
    return example if example is None or len(example) <= _LONGEST else f"{example[:_LONGEST]}..."
