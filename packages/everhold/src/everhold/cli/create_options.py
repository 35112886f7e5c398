"""Options of `everhold create`, in groups: the rows, how they depend on each other, and what is planned."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from everhold.cli.arguments import ENGINE_VARIABLE, model_from
from everhold.cli.failures import Misuse
from everhold.mechanisms import MECHANISMS
from everhold.remote import is_address

if TYPE_CHECKING:
    from everhold.dependence import DependenceModel
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

    holdout: Annotated[
        Path | None,
        typer.Option(help="The rows to seal: Parquet, CSV or TSV with named columns.", rich_help_panel=_ROWS),
    ] = None
    engine: Annotated[
        str | None,
        typer.Option(
            help="Seal rows that stay in the engine at this address, such as scheme://host:port/database; "
            f"{ENGINE_VARIABLE} by default. A password in it is not recorded.",
            rich_help_panel=_ROWS,
        ),
    ] = None
    table: Annotated[str | None, typer.Option(help="The table there whose rows are sealed.", rich_help_panel=_ROWS)] = (
        None
    )
    arrived: Annotated[
        str | None,
        typer.Option(
            help="Column of the table that says when a row arrived; rows before --until are sealed, and 'everhold "
            "append --until' takes later ones.",
            rich_help_panel=_ROWS,
        ),
    ] = None
    until: Annotated[str | None, typer.Option(help="Of --arrived: such as 2026-12-01.", rich_help_panel=_ROWS)] = None
    training: Annotated[
        Path | None,
        typer.Option(help="Open rows with the same columns; they make the guesses.", rich_help_panel=_ROWS),
    ] = None
    training_table: Annotated[
        str | None,
        typer.Option(
            help="Open rows as another table in the engine: expressions are guessed from all of its rows, and about "
            "100,000 are copied for models and checks.",
            rich_help_panel=_ROWS,
        ),
    ] = None
    label: Annotated[
        str | None,
        typer.Option(help="Column of the truth, for --accuracy, --error, --brier.", rich_help_panel=_ROWS),
    ] = None
    classes: Annotated[
        str | None,
        typer.Option(
            help="The classes of the label, as in cat,dog, which are public from now on; by default those of the "
            "training labels. 'open' if labels are free texts.",
            rich_help_panel=_ROWS,
        ),
    ] = None
    row_id: Annotated[
        str | None,
        typer.Option(
            help="Column that names rows, each once; predictions are joined by it. Public.", rich_help_panel=_ROWS
        ),
    ] = None
    features: Annotated[
        Features,
        typer.Option(
            help="'public' if everybody may see all columns but the label, as in a competition: answers are then about "
            "labels drawn anew on these rows.",
            rich_help_panel=_ROWS,
        ),
    ] = Features.SEALED
    stratified: Annotated[
        str | None,
        typer.Option(
            help="Column by whose values the table was split: both parts have them in the same shares, and answers are "
            "for rows with these shares.",
            rich_help_panel=_ROWS,
        ),
    ] = None
    most_rows: Annotated[int, typer.Option(help="The most rows that either file may have.", rich_help_panel=_ROWS)] = (
        2**26
    )
    equal_rows: Annotated[
        bool,
        typer.Option(
            "--equal-rows",
            help="Equal rows in both files are not copies, but come from a design that repeats its settings.",
            rich_help_panel=_ROWS,
        ),
    ] = False
    missing: Annotated[
        list[str] | None,
        typer.Option(
            help="What counts for rows without a value: refuse, drop or a value, for all columns or by column, as in "
            "bp=drop; repeatable. By default queries that lack one are refused.",
            rich_help_panel=_ROWS,
        ),
    ] = None
    allow_resealing: Annotated[
        bool,
        typer.Option(
            "--allow-resealing",
            help="Seal rows even if they are sealed here already; neither budget accounts for the other.",
            rich_help_panel=_ROWS,
        ),
    ] = False

    def settings(self) -> dict[str, Any]:
        """Declarations about the rows, by the names of `Holdout.create`."""
        return {
            "label": self.label, "classes": self._classes(), "row_id": self.row_id, "features": self.features.value,
            "stratified": self.stratified, "most_rows": self.most_rows, "equal_rows": self.equal_rows,
            "allow_resealing": self.allow_resealing, **({} if self.missing is None else {"missing": self._missing()}),
        }  # fmt: skip

    def _missing(self) -> Missing:
        """The rule for all columns, or those by column."""
        given = self.missing or ["refuse"]
        named = [each.rpartition("=") for each in given]
        if len(given) == 1 and not named[0][0]:
            return _as_value(given[0])
        if not all(name for name, _, _ in named):
            raise Misuse("--missing has a rule for all columns beside others; expected one for each, as in bp=drop")
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
                "expected the rows to seal either as --holdout FILE, or as --engine URL and --table TABLE; nothing was "
                "created"
            )
        if self.holdout is not None:
            return self.holdout
        if is_address(storage):
            raise Misuse(
                "a service does not take the address of an engine over HTTP, because connections are its operator's "
                "business; run this command where the service runs, with its storage; nothing was created"
            )
        assert self.table is not None
        table = self._stays(self.table)
        if self.arrived is None and self.until is None:
            return table
        if self.arrived is None or not hasattr(table, "arriving_by"):
            raise Misuse("--until needs --arrived, and an engine that knows it; nothing was created")
        arriving: SealableTable = table.arriving_by(self.arrived, self.until)
        return arriving

    def open(self) -> Path | SealableTable | None:
        """The training rows: a file, or another table of the engine."""
        if self.training_table is None:
            return self.training
        if self.training is not None or self.table is None:
            raise Misuse(
                "expected training rows either as --training FILE, or as --training-table TABLE beside --table; "
                "nothing was created"
            )
        return self._stays(self.training_table)

    def _stays(self, table: str) -> SealableTable:
        """A table of the engine at the given address, or at that of the environment."""
        from everhold.sealing.rows.row_store import table_at

        url = self.engine or os.environ.get(ENGINE_VARIABLE)
        if not url:
            raise Misuse(f"--table {table} is in no engine; give --engine URL, or set {ENGINE_VARIABLE}")
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

    groups: Annotated[
        str | None,
        typer.Option(help="Rows with equal values of this column belong together.", rich_help_panel=_ROWS),
    ] = None
    in_order: Annotated[
        str | None,
        typer.Option(
            help="Column that puts the rows in order of time, such as a day; they may depend on each other in any way. "
            "Answers are about the sealed days, given what came before each.",
            rich_help_panel=_ROWS,
        ),
    ] = None
    model: Annotated[
        Path | None, typer.Option(help="How the rows depend on each other: a JSON file.", rich_help_panel=_ROWS)
    ] = None
    independent: Annotated[
        bool,
        typer.Option(
            "--independent", help="Rows were drawn independently; this is the default.", rich_help_panel=_ROWS
        ),
    ] = False

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
            "--independent": self.independent,
        }
        if len(options := [option for option, is_given in given.items() if is_given]) > 1:
            raise Misuse(f"{' and '.join(options)} are given together; expected one of them; leave the others out")
        if self.independent:
            return Independent()
        if self.groups is not None:
            return Groups(self.groups)
        if self.in_order is not None:
            return InOrder(self.in_order)
        return None if self.model is None else model_from(self.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Options for the plan."""

    mechanism: Annotated[
        str | None,
        typer.Option(
            help=f"One of {', '.join(MECHANISMS)}; by default the one with the narrowest promise among those that take "
            "adaptive queries about rows of any laws.",
            rich_help_panel=_PLAN,
        ),
    ] = None
    queries: Annotated[
        int | None,
        typer.Option(
            help="Number of queries to plan for; by default what the protocol says, or 1,000.", rich_help_panel=_PLAN
        ),
    ] = None
    surprises: Annotated[
        int | None,
        typer.Option(
            help="Number of guesses that may turn out wrong; by default 10, or one for each query if fewer.",
            rich_help_panel=_PLAN,
        ),
    ] = None
    confidence: Annotated[
        float | None,
        typer.Option(
            help="Probability with which all answers hold together; by default what the protocol says, or 0.95.",
            rich_help_panel=_PLAN,
        ),
    ] = None
    slack: Annotated[
        float,
        typer.Option(help="Spend nothing on guesses closer than this part of the radius.", rich_help_panel=_PLAN),
    ] = 0.0
    allow_vacuous: Annotated[
        bool,
        typer.Option(
            "--allow-vacuous",
            help="Seal the rows even if the radius is half the range or more: nothing is promised then.",
            rich_help_panel=_PLAN,
        ),
    ] = False

    grows: Annotated[
        bool,
        typer.Option(
            "--grows",
            help="Rows will be appended: half of the probability of failure is kept for them; the budget refills. "
            "With --protocol, members of families are told about all rows in place of that.",
            rich_help_panel=_PLAN,
        ),
    ] = False
    largest_group: Annotated[
        int | None,
        typer.Option(
            help="With --grows, --protocol and groups: rows that no group exceeds, also of those that will arrive.",
            rich_help_panel=_PLAN,
        ),
    ] = None
    protocol: Annotated[
        Path | None,
        typer.Option(
            help="A TOML or YAML file of what is declared, whose queries cost nothing; see 'everhold declare'.",
            rich_help_panel=_PLAN,
        ),
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
