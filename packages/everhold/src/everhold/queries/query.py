"""The protocol of queries: a `Query` is compiled to a `QueryPlan`, which the query executor runs.

An analyst writes a `Query`. Compiled on the public facts of one holdout it is a `QueryPlan`: it knows its entries of
the ledger, their largest price, how it is evaluated on the sealed rows, how the mechanism answers, and how the analyst
reads the entries. The executor (`everhold.asking.query_executor`) runs every plan through the same transaction.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, cast

from everhold.errors import QueryRejected
from everhold.ledger.chain import canonical
from everhold.sealing.configuration import FAMILIES_GROW, LARGEST_GROUP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from everhold.answers import QuotedPrice
    from everhold.guarantees.intervals.base import Procedure
    from everhold.ledger import Committed, Entry, EntryDraft, Outcome
    from everhold.ledger.acts import Accounts
    from everhold.mechanisms import Mechanism, Quote, State
    from everhold.queries.metrics.query import MetricQuery
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import BoundQuery

Result = TypeVar("Result", covariant=True)

Surprises: TypeAlias = "Callable[[], Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]]"
"""Function that returns the latest surprises, newest first, as descriptions and answers."""

IN_ONE_TRANSACTION = 1_000
"""Number of new entries in one transaction, for which other writers wait and which an interruption keeps."""

MOST_SHOWN = 300  # characters of a query that the ledger keeps for people


class Outdated(Exception):
    """Raised when the subject of a prepared query has changed: nothing was answered, so prepare it again."""


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """The kind and arguments of a query as plain fields, from which the query can be built again.

    Attributes:
        kind: Name of its maker.
        of: The maker's first argument; all queries where it is made of several.
        details: The maker's other arguments, by name; None for what was left out.
    """

    kind: str
    of: Any
    details: Mapping[str, Any] = field(default_factory=dict)


def never_declared(bound: BoundQuery) -> None:
    """Return None for every query, as the level in a holdout without declared families."""


def never_answered(query: str) -> bool:
    """Return False for every query: none is known to be answered before."""
    return False


def never_asked(query: str, member: str) -> bool:
    """Return False for every query: none was asked before it was declared."""
    return False


@dataclass(frozen=True, slots=True)
class AskedBefore:
    """Functions that tell what a ledger knows about earlier queries.

    Attributes:
        answered: Whether a query, by its fingerprint, has been answered before; reads the ledger.
        remembered: Whether this process knows that it was; nothing is read.
        surprises: Reads the latest surprises, newest first: descriptions and answers.
    """

    answered: Callable[[str], bool] = never_answered
    remembered: Callable[[str], bool] = never_answered
    surprises: Surprises = tuple


@dataclass(frozen=True, slots=True)
class MemberLevels:
    """Functions that give queries a level by their description (S10), and the numbers of rows they hold for.

    Attributes:
        level_of: ln(1 / level) of a member of a declared family; None for other queries.
        level_if_released: `level_of` where the query were told; of silent ones the tree pays.
        described_of: ln(1 / level) of a text by its description, where it is checked; None for other queries.
        asked_of_tree: Whether a query was asked before as one that is no member, by its fingerprint and the one
            that the member has then.
        first_rows: Rows that were sealed first, where members hold at all numbers of rows at once (S14); else 0.
        largest_group: Rows that no group exceeds then; 0 where rows are in no groups.
    """

    level_of: Callable[[BoundQuery], float | None] = never_declared
    level_if_released: Callable[[BoundQuery], float | None] = never_declared
    described_of: Callable[[BoundQuery], float | None] = never_declared
    asked_of_tree: Callable[[str, str], bool] = never_asked
    first_rows: int = 0
    largest_group: int = 0

    @classmethod
    def recorded(cls, configuration: Mapping[str, Any]) -> MemberLevels:
        """Build levels without any family from the settings of a holdout."""
        first_rows, largest = configuration.get(FAMILIES_GROW, 0), configuration.get(LARGEST_GROUP, 0)
        return cls(first_rows=first_rows, largest_group=largest)


class Query(ABC, Generic[Result]):
    """A query as an analyst writes it, not yet compiled for a holdout."""

    __slots__ = ()

    def as_metric(self) -> MetricQuery | None:
        """Return the same query as a named metric of models, or None if it is no such metric."""
        return None

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again.

        Raises:
            QueryRejected: If it holds Python code, which does not travel. Nothing is charged.
        """
        raise QueryRejected(
            "this query holds a Python function, and none is taken from elsewhere, because it would run beside the "
            "sealed rows; expected an expression as a text, such as mean('delay > 15'), or predictions with row ids; "
            "or ask where the rows are; nothing was charged"
        )

    def check(self, compiler: QueryCompiler) -> None:  # most have nothing to check
        """Check the query against public rows before it is declared.

        Raises:
            QueryRejected: If they do. Nothing is charged.
        """

    @abstractmethod
    def compile(
        self, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Result]:
        """Compile the query for one holdout, from public facts and training rows alone.

        Args:
            compiler: What is known of the holdout.
            guess: The analyst's own guess, in the query's units.
            tolerance: Half-width requested, in the query's units.

        Raises:
            QueryRejected: If it cannot be asked. Nothing is charged.
        """


@dataclass(frozen=True, slots=True)
class Pricing:
    """The prices of the ledger entries of one query, from public state alone.

    Attributes:
        most: Most that one of them is charged.
        sure: From a state and a number of them to how many the whole budget surely pays for.
        asks_nothing: Whether they take nothing from the budget, and are answered after the end, too.
        reserved: Whether the analyst's allotment has paid for them already.
    """

    most: int
    sure: Callable[[State, int], int]
    asks_nothing: bool = False
    reserved: bool = False

    @classmethod
    def free(cls) -> Pricing:
        """Return the pricing of members of declared families, which cost nothing (S10)."""
        return cls(0, lambda _, count: count, asks_nothing=True)

    @classmethod
    def planned(
        cls,
        mechanism: Mechanism,
        procedures: Sequence[Procedure] | None,
        *,
        silent: bool = False,
        keeping: int = 0,
        failing: bool = False,
    ) -> Pricing:
        """Return the pricing of means that the mechanism answers as planned.

        Where nothing is told, nothing is charged.

        Args:
            mechanism: The mechanism that answers.
            procedures: Procedures of their intervals; None for challenges, of which no interval is told.
            silent: Whether nothing is told of them.
            keeping: For so many silent queries there has to be room afterwards, whatever is answered.
            failing: Whether shares of failing rows are told with them.
        """
        sure = partial(mechanism.surely_answers, procedures=procedures, silent=silent)
        most = 0 if silent else mechanism.traits.most_charged
        if not keeping:
            return cls(most, sure)

        def with_capacity_left(state: State, count: int) -> int:
            """Return 1 if one is surely paid for and room is left for the queries to come, else 0."""
            room = mechanism.accounts.leaves_capacity(state, keeping, procedures, failing=failing)
            return min(sure(state, count), 1) if room else 0

        return cls(most, with_capacity_left)

    @classmethod
    def fixed(cls, mechanism: SellsTolerances, price: int) -> Pricing:
        """Return the pricing of queries with a fixed price of their own, in credits."""
        return cls(price, lambda state, count: min(count, mechanism.affords(state, price)))


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """The ledger entries of an executed query, with what is left of the budget.

    Attributes:
        entries: One for each of its entries, in order; None where it was refused.
        remaining: What is left of the budget afterwards, by name.
        statement: The statement that the promise rests on.
        analyst: On whose behalf it was asked; None for the steward.
    """

    entries: Sequence[Committed | None]
    remaining: Mapping[str, int]
    statement: str
    analyst: str | None


def rows_of(answer: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the first and last sealed row that a stored answer is about, or None if no rows arrived."""
    rows = answer.get("rows")
    return (int(rows[0]), int(rows[1])) if isinstance(rows, (list, tuple)) and len(rows) == 2 else None


class QueryPlan(ABC, Generic[Result]):
    """A query compiled for a holdout and ready to be asked, which knows public facts only until `evaluate`."""

    asked: Sequence[EntryDraft]
    """Drafts of the plan's ledger entries, in order."""

    pricing: Pricing
    """Prices of the plan's entries."""

    whole: bool = False
    """Whether the plan is refused unless all of its entries are surely paid for."""

    at_once: int = 64
    """Number of entries that are evaluated on the sealed rows in one pass, as memory allows."""

    members: Sequence[BoundQuery] = ()
    """Parts of the plan if all are members of declared families, each answered at its own level (S10), else none."""

    @property
    def query(self) -> str:
        """SHA-256 of the whole query, in hex."""
        return self.asked[0].fingerprint if len(self.asked) == 1 else digest([each.fingerprint for each in self.asked])

    def declared_by(self, families: MemberLevels) -> Self:
        """Return the plan as a member of a declared family if its one entry is a member, else unchanged.

        Means know their levels already.
        """
        return self

    def is_short(self, rows: int) -> bool:
        """Return whether evaluating the plan on so many rows takes almost no time, judged by public facts.

        Then it is evaluated while the ledger is locked. What runs an analyst's code never is.
        """
        return False

    def silently(self) -> Self:
        """Return the same plan as a silent one, of which nothing is told before the study is unsealed.

        Raises:
            QueryRejected: If it cannot be asked so. Nothing is charged.
        """
        raise QueryRejected(
            "a query with a price of its own cannot be asked silently; expected means, or what is made of them; "
            "nothing was charged"
        )

    def capacity(self, accounts: Accounts, count: int) -> int:
        """Return for how many of `count` new entries the plan's own rules leave room, by default for all.

        It is asked before the sealed rows are looked at, and again inside the transaction.

        Raises:
            Outdated: If it was prepared for something that is no longer so.
        """
        return count

    def check_worth(self, state: State) -> None:
        """Check, from public state, that the answer would tell something. By default nothing is refused.

        Raises:
            QueryRejected: If its interval would be its whole range. Nothing is charged.
        """
        return

    @abstractmethod
    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> Any:
        """Evaluate the entries at these places on the sealed rows. The result is secret."""

    @abstractmethod
    def answer(self, state: State, seen: Any, rows: list[int], noise: Noise) -> tuple[State, list[Outcome]]:
        """Return the new state and one outcome for each entry that the mechanism answers.

        Args:
            state: The mechanism's state before the answers.
            seen: What `evaluate` returned.
            rows: Which of the places that were looked at are to be answered now, in order.
            noise: Noise of this step alone.
        """

    @abstractmethod
    def present(self, result: ExecutionResult) -> Result:
        """Return the result in the form that the analyst reads. Its ``refused`` says whether an entry is missing."""

    @abstractmethod
    def quote(self, state: State, stored: Sequence[Entry | None]) -> QuotedPrice:
        """Return the price and the width of the query if it is asked and not refused.

        Args:
            state: The mechanism's public state.
            stored: The entries that are in the ledger already, in order.
        """


class SellsTolerances(Protocol):
    """A mechanism that sells answers of any requested half-width, marked by `Traits.sells_tolerances`."""

    def scale_for(self, tolerance: float) -> float:
        """Return the largest noise scale whose half-width is within the tolerance.

        Raises:
            ValueError: If the budget cannot pay for it.
        """

    def credits_for(self, scale: float) -> int:
        """Return the price in credits of a mean with noise of this scale."""

    def affords(self, state: State, price: int) -> int:
        """Return how many further queries of this price the budget pays for."""

    def quote_at(self, state: State, tolerance: float) -> Quote:
        """Return the quote of a mean with a requested half-width."""


def paying(mechanism: Mechanism) -> SellsTolerances:
    """Return the mechanism, after checking that it sells answers by tolerance.

    Raises:
        QueryRejected: If it is another one.
    """
    if not mechanism.traits.sells_tolerances:
        raise QueryRejected(
            f"{mechanism.name} answers every query alike; expected a holdout that was created with "
            "mechanism='privacy_budget' for tolerances and for whatever has a price of its own; nothing was charged"
        )
    return cast(SellsTolerances, mechanism)


def digest(description: Mapping[str, Any] | Sequence[str]) -> str:
    """Return the SHA-256 of a description, in hex."""
    return hashlib.sha256(canonical(description).encode()).hexdigest()
