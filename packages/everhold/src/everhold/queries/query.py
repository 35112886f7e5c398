"""The protocol of queries: a `Query` is compiled to a `QueryPlan`, which the query executor runs.

An analyst writes a `Query`. Compiled with the public facts of one holdout it becomes a `QueryPlan`. The plan defines
its ledger entries, their largest price, how it is evaluated on the sealed rows, how the mechanism answers, and how the
entries become a result for the analyst. The executor (`everhold.asking.query_executor`) runs every plan through the
same transaction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.queries.interval_planner import IntervalPlanner, MemberLevels, Prepared, never_declared
from everhold.queries.procedures import AskedBefore, SellsTolerances, TrainingEvaluator
from everhold.strict_json import digest

if TYPE_CHECKING:
    from everhold.answers import Answer, QuotedPrice
    from everhold.guarantees.intervals.base import Procedure
    from everhold.ledger import Committed, Entry, EntryDraft, Outcome
    from everhold.ledger.acts import Accounts
    from everhold.mechanisms import Mechanism, State
    from everhold.queries.predictions.arrays import RowSpan
    from everhold.randomness import Noise
    from everhold.sealing.rows.evaluated_rows import RowStore
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import BoundQuery, Clip, Schema, Table

Result = TypeVar("Result", covariant=True)

IN_ONE_TRANSACTION = 1_000
"""Number of new entries in one transaction, for which other writers wait and which an interruption keeps."""

MOST_SHOWN = 300  # characters of a query that the ledger keeps for people


class Outdated(Exception):
    """Raised when the ledger has changed since a query was prepared. Nothing was answered; prepare it again."""


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """The kind and arguments of a query as plain fields, from which the query can be built again.

    Attributes:
        kind: Name of the function that makes the query.
        of: First argument of the query's maker, or all queries if the query is made of several.
        details: The other arguments of the function, by name; None for an argument that was left out.
    """

    kind: str
    of: Any
    details: Mapping[str, Any] = field(default_factory=dict)


NOT_UNSEALABLE = "its queries have no intervals that could be told without the noise or the plan behind the promise"
"""Reason, for messages, why a mechanism cannot be unsealed."""


@dataclass(frozen=True)
class CompileContext(ABC):
    """Facts about a holdout that are used to compile queries: public facts and training rows only.

    Attributes:
        schema: The public facts about the rows.
        mechanism: The mechanism that will answer.
        training: The training rows, if there are any.
        before: Functions that look up earlier queries.
        silent: True if no answer is told before the study is unsealed. No query then needs a guess.
        families: Levels that queries have by their description.
        sealed: The sealed rows, used only for their public ids and for predictions stored beside them.
        span: Position of these rows among all sealed rows, if rows arrived; None if these are all sealed rows.
    """

    schema: Schema
    mechanism: Mechanism
    training: StoredRows | None
    before: AskedBefore = field(default_factory=AskedBefore)
    silent: bool = False
    families: MemberLevels = field(default_factory=MemberLevels)
    sealed: RowStore | None = None
    span: RowSpan | None = None

    @cached_property
    def planner(self) -> IntervalPlanner:
        """The planner that gives bound queries their guesses and interval procedures."""
        evaluator = TrainingEvaluator(self.schema, self.mechanism, self.training, self.before)
        return IntervalPlanner(self.schema, self.mechanism, evaluator, self.families, self.silent)

    def silently(self) -> Self:
        """Return a context that compiles silent queries, whose answers are told only at the unsealing.

        Raises:
            QueryRejected: If the mechanism takes no silent queries. Nothing is charged.
        """
        if not self.mechanism.traits.unsealable:
            raise QueryRejected(
                f"The mechanism {self.mechanism.name} takes no silent queries: {NOT_UNSEALABLE}. Leave silent=True "
                "out, or use a holdout with another mechanism, such as guess_and_check."
            )
        told = self.families.level_if_released if self.silent else self.families.level_of
        families = replace(self.families, level_of=never_declared, level_if_released=told)
        return replace(self, silent=True, families=families)

    def columns_read(self, names: Sequence[str] | None) -> tuple[str, ...]:
        """Return the columns that a function reads: the named ones, or all but the row ids.

        Raises:
            QueryRejected: If a named column does not exist, or no column is left to read. Nothing is charged.
        """
        known = self.schema.asked
        if names is None:
            return tuple(known)
        ordered = hasattr(names, "__len__") and hasattr(names, "__getitem__") and not isinstance(names, str)
        if not ordered or not len(names) or any(name not in known for name in names):
            raise QueryRejected(
                f"columns is {brief(names)}. Pass a list of some of {', '.join(known)}, or None for all."
            )
        return tuple(names)

    def public_rows(self, names: Sequence[str], *, most: int) -> Table:
        """Return columns of the first training rows, or of two artificial rows if there are no training rows."""
        if self.training is not None:
            return {name: column[:most] for name, column in self.training.table(names).items()}
        from everhold.sealing.rows.code_trials import made_up_rows

        made_up = made_up_rows(self.schema.columns)
        return {name: made_up[name] for name in names}

    @abstractmethod
    def compile(self, query: Query[Result] | str, guess: float | None, tolerance: float | None) -> QueryPlan[Result]:
        """Compile a query of any kind. A text is compiled as a `mean`.

        Raises:
            QueryRejected: If the query cannot be asked of this holdout. Nothing is charged.
        """

    def is_declared(self, query: Query[Any]) -> bool:
        """Return whether a declared family has the query as a member. No query is asked."""
        if self.families.level_of is never_declared:
            return False
        try:
            return bool(self.compile(query, None, None).members)
        except QueryRejected:
            return False

    @abstractmethod
    def mean(self, query: RowwiseQuery, guess: float | None, tolerance: float | None) -> QueryPlan[Answer]:
        """Compile one mean of row values that is a query of its own, not a part of another one."""

    @abstractmethod
    def prepare(
        self, queries: Sequence[RowwiseQuery | str], guesses: Sequence[float | None] | None, *, together: bool = False
    ) -> list[Prepared]:
        """Bind means to the rows and give each a guess and an interval procedure.

        ``together`` is True if the means are the parts of one query, and False if each is a query of its own.
        """

    @abstractmethod
    def bind(self, query: RowwiseQuery | str) -> BoundQuery:
        """Return a mean compiled for the holdout's rows and checked. Code is first tried on public rows."""

    @abstractmethod
    def checked(self, bound: BoundQuery, *, part: bool) -> BoundQuery:
        """Return a bound query after a check, as a part of another query or alone. Code is tried on public rows."""

    @abstractmethod
    def left_out(self, columns: Collection[str], within: RowwiseQuery | None = None) -> Clip:
        """Return a note that rows with a missing value in one of ``columns`` are left out."""


class Query(ABC, Generic[Result]):
    """Base of queries as analysts write them, before they are compiled for a holdout."""

    __slots__ = ()

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again.

        Raises:
            QueryRejected: If the query holds Python code, which cannot be written as plain data. Nothing is charged.
        """
        raise QueryRejected(
            "The query holds a Python function, and functions are not accepted from another machine. Write it as a "
            "text such as mean('delay > 15'), pass predictions with row ids, or ask on the machine that holds the "
            "sealed rows."
        )

    def check(self, compiler: CompileContext) -> None:  # most have nothing to check
        """Raise QueryRejected if public rows show that the query cannot be declared. By default no query is refused.

        Raises:
            QueryRejected: If public rows show that the query cannot be declared. Nothing is charged.
        """

    @abstractmethod
    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Result]:
        """Compile the query for one holdout, from public facts and training rows alone.

        Args:
            compiler: The compiler of the holdout.
            guess: The analyst's own guess, in the query's units.
            tolerance: Half-width requested, in the query's units.

        Raises:
            QueryRejected: If the query cannot be asked of this holdout. Nothing is charged.
        """


class RowwiseQuery(Query["Answer"]):
    """Base of queries for the mean over rows of one value per row."""

    __slots__ = ()

    @abstractmethod
    def bind(self, schema: Schema) -> BoundQuery:
        """Return the bound query about rows of this schema.

        Raises:
            QueryRejected: If the query cannot be asked about rows of this schema. Nothing is charged.
        """

    def bound_to(self, compiler: CompileContext, *, part: bool = False) -> BoundQuery:
        """Return the bound query about the holdout's rows, tried on public rows if it is code.

        Args:
            compiler: The compiler of the holdout.
            part: True if the query is a part of another one, so that the mechanism need not be able to answer it alone.

        Raises:
            QueryRejected: If the query cannot be asked of this holdout. Nothing is charged.
        """
        return compiler.checked(self.bind(compiler.schema), part=part)

    def placed(self, compiler: CompileContext) -> Self:
        """Return the query with its predictions, if it has any, in the order of the rows.

        Raises:
            QueryRejected: If the row ids of the predictions are not those of the rows. Nothing is charged.
        """
        return self

    def needed(self, schema: Schema) -> frozenset[str]:
        """Return the columns in which a row must have a value to count, by the steward's rules.

        Raises:
            QueryRejected: If the query cannot be asked about rows of this schema. Nothing is charged.
        """
        return frozenset()

    def tested(self, schema: Schema) -> frozenset[str]:
        """Return the columns that the query itself tests for missing values."""
        return frozenset()

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """Compile the mean with its guess, over the rows with a value if the steward's rules leave others out."""
        return compiler.mean(self, guess, tolerance)


@dataclass(frozen=True, slots=True)
class Pricing:
    """The prices of a query's ledger entries, computed from public state alone.

    Attributes:
        most: Largest charge of one entry.
        sure: Function from a state and a number of entries to how many the budget is certain to pay for.
        asks_nothing: True if the entries are free, and are answered even after the unsealing.
        reserved: True if the analyst's allotment has already paid for the entries.
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

        Silent queries are not charged.

        Args:
            mechanism: The mechanism that answers.
            procedures: Interval procedures of the means; None for challenges, whose intervals are not told.
            silent: True if no answer is told before the study is unsealed.
            keeping: Number of silent queries that the budget must still cover afterwards, for all possible answers.
            failing: True if the shares of rows on which models fail are told with the answers.
        """
        sure = partial(mechanism.surely_answers, procedures=procedures, silent=silent)
        most = 0 if silent else mechanism.traits.most_charged
        if not keeping:
            return cls(most, sure)

        def with_capacity_left(state: State, count: int) -> int:
            """Return 1 if the budget pays for one more query and the reserved silent ones still fit, else 0."""
            room = mechanism.accounts.leaves_capacity(state, keeping, procedures, failing=failing)
            return min(sure(state, count), 1) if room else 0

        return cls(most, with_capacity_left)

    @classmethod
    def fixed(cls, mechanism: SellsTolerances, price: int) -> Pricing:
        """Return the pricing of entries that each cost ``price`` credits."""
        return cls(price, lambda state, count: min(count, mechanism.affords(state, price)))


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """The ledger entries of an executed query, and the budget left after it.

    Attributes:
        entries: The query's ledger entries in order. None for a refused entry.
        remaining: The budget that is left afterwards, by name.
        statement: The proved statement in docs/theory on which the promise rests.
        analyst: Name of the analyst who asked; None for the steward.
        accounts: The accounts of the holdout afterwards. None if the query does not need them.
    """

    entries: Sequence[Committed | None]
    remaining: Mapping[str, int]
    statement: str
    analyst: str | None
    accounts: Accounts | None = None


def rows_of(answer: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the first and last sealed row that a stored answer is about, or None if no rows arrived."""
    rows = answer.get("rows")
    return (int(rows[0]), int(rows[1])) if isinstance(rows, (list, tuple)) and len(rows) == 2 else None


class QueryPlan(ABC, Generic[Result]):
    """A query compiled for one holdout. It reads no sealed row until `evaluate` is called."""

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
        """Return the plan at the level of a declared family if its one entry is a member, else unchanged.

        Plans for means look up their levels by themselves.
        """
        return self

    def is_short(self, rows: int) -> bool:
        """Return whether evaluating the plan on ``rows`` rows takes almost no time, judged by public facts.

        A short plan is evaluated while the ledger is locked. A plan that runs an analyst's code is never short.
        """
        return False

    def silently(self) -> Self:
        """Return the plan as a silent one, whose answers are told only at the unsealing.

        Raises:
            QueryRejected: If a query of this kind cannot be silent. Nothing is charged.
        """
        raise QueryRejected(
            "A query with its own price cannot be asked silently. Ask about means, or about ratios and differences of "
            "means."
        )

    def capacity(self, state: State, accounts: Accounts, count: int) -> int:
        """Return how many of ``count`` new entries the plan's own rules allow. By default it is all of them.

        The executor calls this before sealed rows are read, and again inside the transaction.

        Raises:
            Outdated: If the plan was prepared for a state that has changed, such as a gate's former champion.
            QueryRejected: If the interval would be the query's whole range. Nothing is charged.
        """
        return count

    def limit_reached(self, accounts: Accounts) -> str:
        """Return a message if the plan's own rules allow no new entry, else an empty text."""
        return ""

    @abstractmethod
    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> Any:
        """Evaluate entries, given by their positions in the plan, on the sealed rows. The result is secret."""

    @abstractmethod
    def answer(self, state: State, seen: Any, rows: list[int], noise: Noise) -> tuple[State, list[Outcome]]:
        """Return the new state and one outcome for each entry that the mechanism answers.

        Args:
            state: The mechanism's state before the answers.
            seen: The secret result of `evaluate`.
            rows: Indices, in that result, of the entries to answer now, in order.
            noise: Noise of this step alone.
        """

    @abstractmethod
    def present(self, result: ExecutionResult) -> Result:
        """Return the result for the analyst. Its ``refused`` is true if an entry is missing."""

    @abstractmethod
    def quote(self, state: State, stored: Sequence[Entry | None]) -> QuotedPrice:
        """Return the price of the query and the width of its answer, from public state.

        Args:
            state: The mechanism's public state.
            stored: The ledger's entry for each entry of the plan; None for an entry that is new.
        """
