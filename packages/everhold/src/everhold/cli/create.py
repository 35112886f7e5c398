"""The command that seals rows: create, with its options about rows, dependence and plan."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

import typer

from everhold.cli.arguments import ENGINE_VARIABLE, FormatOption, HoldoutPlace, model_from, place_of, with_option_groups
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.output import Format, note, show_list, show_sentence
from everhold.display import at_most
from everhold.extensions import Registry
from everhold.mechanisms import MECHANISMS
from everhold.remote import is_address, remote_storage

if TYPE_CHECKING:
    from everhold.dependence import DependenceModel
    from everhold.holdout import Holdout
    from everhold.sealing.rows.row_store import SealableTable
    from everhold.values.missing import Missing

_ROWS, _PLAN = "The rows", "What is planned"


class Features(StrEnum):
    """Audience of the sealed rows' columns other than the label."""

    SEALED = "sealed"
    PUBLIC = "public"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOptions:
    """The rows to seal, and what is declared of them."""

    panel: ClassVar[str] = _ROWS

    holdout: Annotated[Path | None, "The rows to seal: Parquet, CSV or TSV with named columns."] = None
    engine: Annotated[
        str | None,
        f"Seal rows that stay in the engine at this address, such as scheme://host:port/database ({ENGINE_VARIABLE} by "
        "default). A password in it is not recorded.",
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
    label: Annotated[str | None, "Column of the truth, for --accuracy, --error, --brier."] = None
    classes: Annotated[
        str | None,
        "The classes of the label, as in cat,dog, which are public from now on (by default those of the training "
        "labels). 'open' if labels are free text.",
    ] = None
    row_id: Annotated[
        str | None, "Column with a different value in each row, by which predictions are matched. Public."
    ] = None
    features: Annotated[
        Features,
        "'public' if everybody may see all columns but the label, as in a competition: answers are then about labels "
        "drawn anew on these rows.",
    ] = Features.SEALED
    stratified: Annotated[
        str | None,
        "Column by whose values the table was split: both parts have them in the same shares, and answers are for "
        "rows with these shares.",
    ] = None
    independent: Annotated[
        list[str] | None,
        "Column that neither groups nor orders the rows, although training rows may look so. Repeatable. The "
        "certificate names it as an assumption.",
    ] = None
    categories: Annotated[
        list[str] | None,
        "Column of a CSV file that estimators meet as categories, which are its training values. Repeatable.",
    ] = None
    most_rows: Annotated[int, "The most rows that either file may have."] = 2**26
    equal_rows: Annotated[
        bool, "Equal rows in both files are not copies, but come from a design that repeats its settings."
    ] = False
    missing: Annotated[
        list[str] | None,
        "What counts for rows without a value: refuse, drop, bounds or a value, for all columns or by column, as in "
        "bp=drop. Repeatable. By default queries that lack one are refused.",
    ] = None
    allow_resealing: Annotated[
        bool, "Seal rows even if they are sealed here already. Neither budget accounts for the other."
    ] = False
    exist_ok: Annotated[
        bool,
        typer.Option(
            "--exist-ok",
            help="Open the holdout of that name if it was created with the same rows and settings.",
        ),
    ] = False

    def settings(self) -> dict[str, Any]:
        """Declarations about the rows, by the names of `Holdout.create`."""
        return {
            "label": self.label, "classes": self._classes(), "row_id": self.row_id, "features": self.features.value,
            "stratified": self.stratified, "most_rows": self.most_rows, "equal_rows": self.equal_rows,
            "allow_resealing": self.allow_resealing, "exist_ok": self.exist_ok,
            **({} if self.missing is None else {"missing": self._missing()}), "independent": self.independent or [],
            "categories": self.categories or [],
        }  # fmt: skip

    def _missing(self) -> Missing:
        """The rule for all columns, or those by column."""
        given = self.missing or ["refuse"]
        named = [each.rpartition("=") for each in given]
        if len(given) == 1 and not named[0][0]:
            return _as_value(given[0])
        if not all(name for name, _, _ in named):
            raise Misuse(
                "--missing is given several times, once without a column. Write the column before each rule, as in "
                "bp=drop."
            )
        return {name: _as_value(value) for name, _, value in named}

    def _classes(self) -> list[str] | Literal["open"] | None:
        """Classes that are separated by commas; in quotes where one has a comma of its own."""
        if self.classes is None:
            return None
        return "open" if self.classes == "open" else next(csv.reader([self.classes]), [])

    def sealed(self, storage: str) -> Path | SealableTable:
        """The rows to seal: a file, or a table that stays in its engine."""
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
        """The training rows: a file, or another table of the engine."""
        if self.training_table is None:
            return self.training
        if self.training is not None or self.table is None:
            raise Misuse(
                "The training rows are given twice, or --table is missing. Pass "
                "--training FILE, or --training-table TABLE with --table."
            )
        return self._stays(self.training_table)

    def _stays(self, table: str) -> SealableTable:
        """A table of the engine at the given address, or at that of the environment."""
        from everhold.sealing.rows.row_store import table_at

        url = self.engine or os.environ.get(ENGINE_VARIABLE)
        if not url:
            raise Misuse(f"--table is {table}, and no engine is given. Pass --engine URL, or set {ENGINE_VARIABLE}.")
        return table_at(url, table)


def _as_value(text: str) -> str | float | bool:
    """A number, a truth value or a text, as the option writes it."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        return text


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
        """The dependence model, if anything was said about it.

        Raises:
            Misuse: If more than one option says it.
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
        return None if self.model is None else model_from(self.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Options for the plan."""

    panel: ClassVar[str] = _PLAN

    mechanism: Annotated[
        str | None,
        f"One of {', '.join(MECHANISMS)}. By default the one with the narrowest "
        "promise among those that take adaptive queries about rows of any laws.",
    ] = None
    queries: Annotated[int | None, "Number of queries to plan for. By default what the protocol says, or 1,000."] = None
    surprises: Annotated[
        int | None, "Number of guesses that may turn out wrong. By default 10, or one for each query if fewer."
    ] = None
    confidence: Annotated[
        float | None, "Probability with which all answers hold together. By default what the protocol says, or 0.95."
    ] = None
    slack: Annotated[float, "Spend nothing on guesses closer than this part of the radius."] = 0.0
    allow_vacuous: Annotated[
        bool, "Seal the rows even if the radius is half the range or more: nothing is promised then."
    ] = False

    grows: Annotated[
        bool,
        "Rows will be appended: half of the probability of failure is kept for them, and the budget refills. With "
        "--protocol, members of families are told about all rows in place of that.",
    ] = False
    largest_group: Annotated[
        int | None, "With --grows, --protocol and groups: rows that no group exceeds, also of those that will arrive."
    ] = None
    protocol: Annotated[
        Path | None, "A TOML or YAML file of what is declared, whose queries cost nothing (see 'everhold declare')."
    ] = None

    def settings(self) -> dict[str, Any]:
        """The plan, by the names of `Holdout.create`."""
        said: dict[str, Any] = {}
        if self.protocol is not None:
            from everhold.families.protocol import protocol

            said = protocol(self.protocol).settings()
            if "rows" in said:
                said["missing"] = said.pop("rows").missing
        given = {"queries": self.queries, "surprises": self.surprises, "confidence": self.confidence}
        return {
            "queries": 1_000, "surprises": None, "confidence": 0.95, **said,
            **{name: value for name, value in given.items() if value is not None},
            "mechanism": self.mechanism, "slack": self.slack, "allow_vacuous": self.allow_vacuous,
            **({"grows": True} if self.grows else {}),
            **({} if self.largest_group is None else {"largest_group": self.largest_group}),
        }  # fmt: skip


_MOST_SHOWN = 50  # columns
_LONGEST = 40  # characters of an example


class FurtherOptions(Protocol):
    """Options that a distribution adds to `everhold create`: a dataclass, see `everhold.cli.arguments`.

    Its entry point is of the group ``everhold.create_options``.

    Attributes:
        plans: Options that it adds to `everhold plan`, a dataclass, too; see `everhold.cli.plan.FurtherPlans`.
    """

    plans: ClassVar[type[Any]]

    def settings(self) -> dict[str, Any]:
        """Given options, by the names of `Holdout.create`.

        Raises:
            Misuse: If the options do not fit together.
        """

    def advise(self, created: Holdout) -> None:
        """Say on stderr what people should know of the new holdout."""


def register(app: typer.Typer) -> None:
    """Add the command `create`, with the options that distributions add."""
    app.command()(with_option_groups(create, further_options()))


def further_options() -> dict[str, type[FurtherOptions]]:
    """Return the options that distributions add, by the names of their entry points."""
    return dict(Registry[type[FurtherOptions]]("everhold.create_options", {}, _check))


def _check(_: str, options: Any) -> str:
    """Return what is wrong with the options that an extension adds, or an empty text."""
    lacking = [name for name in ("settings", "advise", "plans", "__dataclass_fields__") if not hasattr(options, name)]
    return f"it has no {lacking[0]}" if lacking else ""


def create(
    *,
    place: HoldoutPlace,
    rows: RowOptions,
    dependence: DependenceOptions,
    plan: PlanOptions,
    extensions: Mapping[str, FurtherOptions],
    form: FormatOption = Format.TABLE,
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
      9  the groups or the model do not match the rows; nothing was created
    """
    storage, name = place_of(place.storage, place.name)
    rest = {} if (stated := dependence.declared()) is None else {"dependence": stated}
    settings = {"dependence": None, "missing": "refuse", **plan.settings(), **rows.settings(), **rest}
    extended = {name: value for further in extensions.values() for name, value in further.settings().items()}
    settings |= extended
    with arguments_checked():
        sealed, training = rows.sealed(storage), rows.open()
        created = _create(storage, name, holdout=sealed, training=training, settings=settings)
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
        own = dict(settings)
        if own.pop("exist_ok"):
            raise Misuse("A service creates a holdout once. Leave --exist-ok out.")
        created: Holdout = remote_storage(storage).create(storage, name, holdout=holdout, training=training, **own)
        return created
    from everhold.asking.creation import settings_from
    from everhold.holdout import Holdout

    return Holdout.create(storage, name, holdout=holdout, training=training, **settings_from(settings))


def _cut(example: str | None) -> str | None:
    """Return an example of a column, cut where it is long."""
    return example if example is None or len(example) <= _LONGEST else f"{example[:_LONGEST]}..."
