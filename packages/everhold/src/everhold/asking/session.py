"""Sessions: a holdout that is open on this machine, and sees rows that other processes append."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, cast

from everhold.asking.arrivals.growth import Growth
from everhold.asking.query_executor import QueryExecutor, RowsArrived
from everhold.errors import IntegrityError, QueryRejected
from everhold.ledger.acts import ARRIVALS, Declarations
from everhold.ledger.head_file import HeadFile
from everhold.mechanisms import State
from everhold.private_files import make_private
from everhold.sealing.configuration import mechanism_from, recorded_extensions, schema_from
from everhold.sealing.rows.code_trials import predicted_once
from everhold.sealing.rows.row_store import SealableTable, engine_of, sealed_rows, training_rows
from everhold.sealing.sealed_files import altered_notes
from everhold.sealing.storage import KEY_FILE, StewardKey

if TYPE_CHECKING:
    from pathlib import Path

    from everhold.asking.accessor import HoldoutAccessor
    from everhold.ledger import Entry, Head, HoldoutRecord, LedgerStore
    from everhold.values.base import Schema
    from everhold.values.tracked_models import NamedModel

Method = TypeVar("Method", bound=Callable[..., Any])
Result = TypeVar("Result")

_TRIES = 5
_STEWARD = "steward"  # the role


def growth_of(executor: QueryExecutor) -> Growth | None:
    """Return the trees and executors of an executor's holdout, or None if no rows arrived."""
    return cast("Growth | None", executor.growth)


def with_present_rows(holder: SeesArrivals, act: Callable[[], Result]) -> Result:
    """Call a function and return its result. If another process appended rows meanwhile, call it again with all rows.

    A model predicts the same rows only once, even if the function is called again.
    """
    with predicted_once():
        for _ in range(_TRIES):
            try:
                return act()
            except RowsArrived:
                holder._see_arrivals()
        return act()


def current(method: Method) -> Method:
    """Decorate a method so that it runs on up-to-date rows, by `with_present_rows`."""

    @wraps(method)
    def done(self: SeesArrivals, *args: Any, **named: Any) -> Any:
        return with_present_rows(self, partial(method, self, *args, **named))

    return cast("Method", done)


class SeesArrivals:
    """Mixin for objects that read rows appended by other processes before they answer."""

    _executor: QueryExecutor
    _folder: Path

    @property
    def _first(self) -> QueryExecutor:
        """The executor of the rows with which the holdout was created."""
        growth = growth_of(self._executor)
        return replace(self._executor, analyst=None) if growth is None else growth.first

    def _see_arrivals(self) -> None:
        """Continue with the rows that the ledger lists now."""
        self._see(Growth.of(self._first, self._folder, known=growth_of(self._executor)))

    def _see(self, growth: Growth) -> None:
        if growth.changes:
            self._executor = growth.oldest(self._executor.analyst)


class HoldoutSession(SeesArrivals):
    """An open holdout with its ledger, its rows and the extensions in use.

    Args:
        store: Database of the ledger.
        record: The record of the holdout, with settings that were checked.
        folder: The private folder of its rows.
        engine: The engine's table with the sealed rows, if it was passed. None if it was not, or if the rows are in
            files.
        checked: True if the rows were just sealed, so that they need not be compared with their fingerprint.
    """

    def __init__(
        self, store: LedgerStore, record: HoldoutRecord, folder: Path, engine: SealableTable | None = None, *,
        checked: bool = False,
    ) -> None:  # fmt: skip
        configuration = record.configuration
        for path in (folder.parent, folder, *(file for file in folder.glob("*") if file.name != KEY_FILE)):
            make_private(path)
        key = StewardKey.load(folder / KEY_FILE, public_key=configuration["public_key"])
        for altered in altered_notes(folder, key=key.notes_key):
            raise IntegrityError(altered)
        head_file = HeadFile.of(folder, holdout=record.id, seal_key=key.seal_key)
        ledger = store.of(record, key.seal_key, head_file)
        head = ledger.head()
        State.of(head.state, record.settings)
        self._folder = folder
        self.silent = False  # whether queries are silent unless they say otherwise, as in a study
        self.recorded: Mapping[str, Any] = recorded_extensions(configuration)  # it was created with them
        self.engine = engine_of(configuration, key, given=engine, checked=checked)
        self._executor = QueryExecutor(
            store=store, record=record, mechanism=mechanism_from(configuration), schema=schema_from(configuration),
            key=key, ledger=ledger, sealed=sealed_rows(folder, configuration, key, self.engine),
            training=training_rows(folder, configuration, self.engine),
        )  # fmt: skip
        if head.state.keys() & {Declarations.key, ARRIVALS}:
            if Declarations.key in head.state:
                self.know_families()
            self._see_arrivals()
        self.in_charge()

    def __repr__(self) -> str:
        asking = "" if self._executor.analyst is None else f", analyst={self._executor.analyst!r}"
        return f"{self.name!r}, rows={self.schema.rows}, mechanism={self._executor.mechanism.name!r}{asking}"

    @property
    def session(self) -> Self:
        """The session itself, because operations are performed on this machine."""
        return self

    @property
    def name(self) -> str:
        """The holdout's name."""
        return self._executor.record.name

    @property
    def schema(self) -> Schema:
        """Public facts about the rows."""
        return self._executor.schema

    def perform(self, operation: Any) -> Any:
        """Perform a `everhold.operations.operation.HoldoutOperation`, as the steward or on behalf of an analyst.

        Raises:
            QueryRejected: If it is an act of the steward, and an analyst asks for it.
        """
        if operation.role == _STEWARD and operation.act:
            self._executor.check_steward(operation.act)
            return operation.perform(self)
        return with_present_rows(self, partial(operation.perform, self))

    @current
    def gate(self, name: str, metric: Any = None, **terms: Any) -> Any:
        """Return a gate that is there, or a new one; see `everhold.Holdout.gate`.

        Raises:
            QueryRejected: If the holdout is a study, because nothing is told in a study before its end.
        """
        self.check_queries()
        if self.silent:
            raise QueryRejected(
                "A study is silent to its end, and a gate tells its verdict at once. Keep the gate in a holdout "
                "without studies."
            )
        gates: Any = self.accessor("gates")
        return gates.named(name, metric, **terms)

    def close(self) -> None:
        """Close the database and the engine."""
        self._executor.close()

    @property
    def executor(self) -> QueryExecutor:
        """The executor of queries about all sealed rows that are known at this moment."""
        return self._executor

    @property
    def folder(self) -> Path:
        """The private folder of the rows."""
        return self._folder

    @property
    def first(self) -> QueryExecutor:
        """The executor of the rows with which the holdout was created."""
        return self._first

    def see_arrivals(self, growth: Growth | None = None) -> None:
        """Switch to the rows that the ledger lists now, because another process may have appended some."""
        if growth is None:
            self._see_arrivals()
        else:
            self._see(growth)

    def of_analyst(self, name: str) -> Self:
        """Return a copy of the session that asks in the name of an analyst.

        Raises:
            QueryRejected: If there is no allotment of that name, or `Holdout.ask` answers no queries of this holdout.
        """
        view = copy.copy(self)
        try:
            view._executor = self._executor.on_behalf_of(name)
        except QueryRejected:
            self.check_queries()
            raise
        return view

    def know_families(self) -> None:
        """Replace the executor by one that gives members of declared families their levels."""
        from everhold.asking.declared import FamilyLevels

        self._executor = replace(self._executor, level_of=FamilyLevels(self._executor.schema))

    def asked_of(self) -> QueryExecutor:
        """Return the executor that answers the next query.

        If rows arrived, it is that of the tree with the narrowest answer.
        """
        growth = cast("Growth | None", self._executor.growth)
        return self._executor if growth is None else growth.best(self._executor.analyst)

    def asked_as_of(self, arrival: int) -> list[QueryExecutor]:
        """Return the executors that find the answers given as of an arrival, as `Growth.as_of` does."""
        if (growth := cast("Growth | None", self._executor.growth)) is not None:
            return growth.as_of(arrival, self._executor.analyst)
        if arrival != 0:
            raise QueryRejected(f"There was no arrival {arrival!r}, because no rows have arrived yet. Leave out as_of.")
        return [self._executor]

    def check_static(self, what: str) -> None:
        """Refuse an operation that does not support rows that arrive.

        Raises:
            QueryRejected: If rows arrived. Nothing was changed.
        """
        if self._executor.growth is not None:
            raise QueryRejected(
                f"Rows arrived in this holdout, and {what} does not support arrivals. Use a holdout without arrivals."
            )

    def check_queries(self) -> None:
        """Raise QueryRejected if queries go through an extension and not through `Holdout.ask`.

        Raises:
            QueryRejected: If `Holdout.ask` answers no queries of this holdout. Nothing was charged.
        """
        if self.recorded:
            for accessor in self.in_charge():
                accessor.check_query()

    def in_charge(self) -> Sequence[HoldoutAccessor]:
        """Return the accessors of all extensions that are recorded in the settings of the holdout."""
        return self._accessors_of(()) if self.recorded else ()

    def accessors(self, head: Head) -> Sequence[HoldoutAccessor]:
        """Return the accessors of all extensions that the ledger or the settings name."""
        used = [extension.name for extension in head.accounts.extensions.values()]
        return self._accessors_of(used) if used or self.recorded else ()

    def accessor(self, name: str) -> HoldoutAccessor | None:
        """Return the accessor of an extension for this holdout, or None if there is no such extension."""
        from everhold.asking.accessor import accessor_named

        kind = accessor_named(name)
        return None if kind is None else kind(self._executor, self._folder, self.recorded.get(name))

    def model_names(self, entries: Sequence[Entry]) -> Mapping[str, str]:
        """Return the names of models by the SHA-256 of their predictions."""
        accessors = self.accessors(self._executor.ledger.head())
        if not accessors:
            return {}
        from everhold.asking.reports.holdout_ledger import model_names

        known: dict[str, str] = {}
        for accessor in accessors:
            known |= accessor.model_names(entries)
        return model_names(entries, known)

    def _accessors_of(self, names: Sequence[str]) -> Sequence[HoldoutAccessor]:
        from everhold.asking.accessor import accessors_of

        return accessors_of(self._executor, self._folder, self.recorded, names)


# Keywords that methods of a holdout share, as types, and the values of those that are left out.


class AskTerms(TypedDict, total=False):
    """Keyword arguments of a query, as `Holdout.ask` takes them."""

    strict: bool
    silent: bool


class FitTerms(AskTerms, total=False):
    """Keyword arguments for a model to fit and evaluate, as `Holdout.evaluate` takes them."""

    cv: Any
    features: Sequence[str] | None
    fit: Mapping[str, Any] | None
    where: str | None
    guess: float | None
    models: Sequence[NamedModel] | None


class CaseClaims(TypedDict, total=False):
    """Keyword arguments for the claims of a gate about cases, as `Holdout.gate` takes them."""

    better: str | None
    any_of: Sequence[str] | None
    not_worse: Mapping[str, float] | None
    baseline: Any
    at_most: Mapping[str, float] | None
    at_least: Mapping[str, float] | None
    units: str
    ranges: Mapping[str, tuple[float, float]] | None
    lower: Iterable[str] | None
    missing: str


class GateTerms(CaseClaims, total=False):
    """Keyword arguments of a gate, as `Holdout.gate` takes them."""

    margin: float
    challenges: int | None
    training: Any


class SuiteTerms(CaseClaims, total=False):
    """Keyword arguments of a suite of cases with its gate, as `everhold.seal_cases` takes them."""

    margin: float
    challenges: int
    surprises: int | None
    confidence: float
    allow_resealing: bool
    open: float | None
    strata: Mapping[Any, Any] | None


USUAL_FIT = FitTerms(
    cv=5, features=None, fit=None, where=None, guess=None, models=None, strict=False, silent=False
)  # fmt: skip
USUAL_GATE = GateTerms(units="cases", margin=0.0, missing="refuse")
USUAL_SUITE = {
    **USUAL_GATE, "challenges": 200, "surprises": None, "confidence": 0.95, "allow_resealing": False
}  # fmt: skip
