"""Queries with a price of their own: each is answered by one draw, and paid for from a privacy budget."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from everhold.answers import QuotedPrice
from everhold.arguments import as_float, brief, is_text
from everhold.display import Display
from everhold.errors import QueryRejected
from everhold.estimand import about_of, marked
from everhold.ledger import EntryDraft, Outcome
from everhold.queries import procedures
from everhold.queries.query import MOST_SHOWN, ExecutionResult, Pricing, Query, QueryPlan
from everhold.queries.selection.results import Paid
from everhold.strict_json import digest
from everhold.values.base import Clip, noted_clips
from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget, largest_scale

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everhold.ledger import Entry
    from everhold.mechanisms import Mechanism, State
    from everhold.queries.query import CompileContext
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import BoundQuery, Schema

__all__ = [
    "Bought", "MechanismResult", "NoisyPurchase", "Paid", "Price", "PricedQuery", "Purchase", "checked_function_name",
    "paying", "whole_price",
]  # fmt: skip

Seen = TypeVar("Seen")
Result = TypeVar("Result", bound=Display, covariant=True)

_MOST_PRICE = 10**15
_LONGEST_NAME = 1_000


REFUSED: Mapping[str, Any] = {"value": None, "low": None, "high": None, "source": "refused", "within": None}
"""Fields of a refused query; the ledger knows nothing of it."""


@dataclass(frozen=True, slots=True)
class MechanismResult:
    """Result of a mechanism for one query with a price: the new state, the answer and the charge.

    Attributes:
        state: State of the mechanism after the query.
        answer: Plain JSON data for the ledger: value, low, high and source, with ``within`` for queries that have an
            error bound.
    """

    state: State
    answer: dict[str, Any]
    charged: int


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a query in credits, and the half-width of the answer at this price.

    Attributes:
        within: Bound on the regret or error of the answer, in the query's units.
    """

    charged: int
    within: float


class Purchase(ABC, Generic[Seen, Result]):
    """A query prepared for one holdout, with its price. Only `evaluate` looks at the sealed rows.

    Attributes:
        clips: Ranges to which values are clipped, as answers state them.
    """

    clips: Sequence[Clip] = ()

    @property
    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Public facts that identify the query, by the SHA-256 of their canonical JSON."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """The query as a text for transcripts."""

    @property
    def query(self) -> str:
        """SHA-256 of the description in hex."""
        return digest(self.description)

    @property
    def means(self) -> tuple[BoundQuery, ...]:
        """The means over rows that the query reads, empty if it reads other statistics."""
        return ()

    @property
    def by_position(self) -> bool:
        """True if the query uses predictions given as arrays, in the order of the rows."""
        return any(query.by_position for query in self.means)

    @abstractmethod
    def price(self, mechanism: PrivacyBudget) -> Price:
        """Return the price of the query in credits, and the half-width of the answer at this price."""

    def within(self, mechanism: PrivacyBudget, tolerance: float) -> Self:
        """Return the same query at the price of a requested half-width. Raise QueryRejected if it takes none."""
        raise QueryRejected(
            "This query has a price of its own, so tolerance= cannot be used. Leave it out, and make the answer "
            "sharper by the price."
        )

    @abstractmethod
    def evaluate(self, sealed: StoredRows, unit: int) -> Seen:
        """Return exact integers from the sealed rows, ``unit`` grid steps for a row value of 1. They are secret."""

    @abstractmethod
    def answer(self, mechanism: PrivacyBudget, state: State, seen: Seen, noise: Noise) -> MechanismResult:
        """Return the mechanism's answer and charge. It is only called if the budget can pay for the query."""

    @abstractmethod
    def result(self, answer: Mapping[str, Any], **paid: Any) -> Result:
        """Build the answer in the analyst's units from the ledger's data. ``paid`` has the attributes of `Paid`."""


class NoisyPurchase(Purchase[Seen, Result]):
    """Base of purchases that are answered with noise, whose scale decides the price.

    Attributes:
        scale: Noise scale, in the units of a mean.
        tolerance: Half-width requested, in the query's units; None for the planned noise.
    """

    scale: float
    tolerance: float | None

    @abstractmethod
    def width_at(self, mechanism: PrivacyBudget, scale: float) -> float:
        """Return the half-width of the answer with noise of this scale, in the query's units."""

    def price(self, mechanism: PrivacyBudget) -> Price:
        """Return the price of the noise in credits, and the half-width of the answer."""
        return Price(mechanism.credits_for(self.scale), self.width_at(mechanism, self.scale))

    def within(self, mechanism: PrivacyBudget, tolerance: float) -> Self:
        """Return the same query with the largest noise whose half-width is within the tolerance."""
        number = as_float(tolerance)
        if not 0.0 < number < math.inf:
            raise QueryRejected(f"tolerance is {brief(tolerance)}. Pass a positive finite number.")
        try:
            scale = largest_scale(mechanism, number, partial(self.width_at, mechanism))
        except ValueError as reason:
            raise QueryRejected(f"{reason}") from None
        return replace(self, scale=scale, tolerance=number)  # type: ignore[type-var]  # subclasses are dataclasses

    @property
    def requested(self) -> tuple[dict[str, float], str]:
        """The requested half-width as a part of the description, and as words; both empty without one."""
        return ({}, "") if self.tolerance is None else ({"tolerance": self.tolerance}, f", within {self.tolerance:g}")


class PricedQuery(Query[Result]):
    """Base of queries, as analysts write them, that a privacy budget pays for at a price of their own."""

    __slots__ = ()

    @abstractmethod
    def purchase(self, compiler: CompileContext) -> Purchase[Any, Result]:
        """Return the query prepared for one holdout."""

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Result]:
        """Return the plan that pays for the query from the holdout's privacy budget and asks it."""
        mechanism = paying(compiler.mechanism)
        if guess is not None:
            raise QueryRejected("This query is paid from a privacy budget and checks no guess. Leave guess= out.")
        purchase = self.purchase(compiler)
        if tolerance is not None:
            purchase = purchase.within(mechanism, tolerance)
        if not compiler.before.answered(purchase.query):
            compiler.planner.evaluator.training_totals(
                purchase.means, plan=mechanism.queries * max(len(purchase.means), 1)
            )
        return Bought(purchase, compiler.schema, mechanism)


@dataclass(frozen=True)
class Bought(QueryPlan[Result]):
    """Plan of one query with a price, which becomes one entry of the ledger.

    Attributes:
        purchase: The query with its price.
        mechanism: Privacy budget from which the price is taken.
    """

    purchase: Purchase[Any, Result]
    schema: Schema
    mechanism: PrivacyBudget

    @cached_property
    def asked(self) -> Sequence[EntryDraft]:  # type: ignore[override]  # an attribute that is made when it is needed
        """The one ledger entry of the purchase."""
        purchase = self.purchase
        described = {**purchase.description, "shown": purchase.shown[:MOST_SHOWN], **noted_clips(purchase.clips)}
        return [EntryDraft(purchase.query, marked(described, by_position=purchase.by_position))]

    @cached_property
    def _price(self) -> Price:
        return self.purchase.price(self.mechanism)

    @cached_property
    def pricing(self) -> Pricing:  # type: ignore[override]
        """The fixed price of the purchase."""
        return Pricing.fixed(self.mechanism, self._price.charged)

    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> Any:
        """Return exact integers from the sealed rows. They are secret."""
        return self.purchase.evaluate(sealed, self.mechanism.unit)

    def answer(self, state: State, seen: Any, rows: list[int], noise: Noise) -> tuple[State, list[Outcome]]:
        """Return the new state, and the outcome of the purchase's one draw."""
        drawn = self.purchase.answer(self.mechanism, state, seen, noise)
        return drawn.state, [Outcome(drawn.answer, drawn.charged)]

    def present(self, result: ExecutionResult) -> Result:
        """Return the answer in the analyst's units from the executed entry."""
        (entry,) = result.entries
        return self.purchase.result(
            REFUSED if entry is None else entry.answer,
            charged=0 if entry is None else entry.charged,
            remaining=result.remaining,
            query=self.asked[0].fingerprint,
            repeated=entry is not None and entry.repeated,
            confidence=self.mechanism.confidence,
            about=about_of(self.schema, by_position=self.purchase.by_position),
            shown=self.purchase.shown,
        )

    def quote(self, state: State, stored: Sequence[Entry | None]) -> QuotedPrice:
        """Return the price, with the regret or error as the half-width."""
        before = stored[0] is not None
        charged, within = 0 if before else self._price.charged, self._price.within
        return QuotedPrice(self.asked[0].fingerprint, within, within, charged, charged, False, before, {})


def paying(mechanism: Mechanism) -> PrivacyBudget:
    """Return the mechanism if it is a privacy budget that can pay for a query. Otherwise raise QueryRejected."""
    if not isinstance(mechanism, PrivacyBudget):
        procedures.paying(mechanism)
        raise QueryRejected(
            f"The mechanism {mechanism.name} of this holdout does not answer queries with price=. Create a holdout "
            "with mechanism='privacy_budget'."
        )
    return mechanism


def whole_price(price: int) -> int:
    """Return a price as a Python integer, or reject what is not a whole number of credits."""
    try:
        number = 0 if isinstance(price, bool) else operator.index(price)
    except TypeError:
        number = 0
    if not 1 <= number <= _MOST_PRICE:
        raise QueryRejected(f"price is {brief(price)}. Pass a whole number of credits, at least 1.")
    return number


def checked_function_name(name: object) -> None:
    """Check the name of a function. A function that is asked again under the same name counts as the same query.

    Raises:
        ValueError: If the name is not a text that the ledger can store.
    """
    if name is not None and not is_text(name, longest=_LONGEST_NAME):
        raise ValueError(f"name is {brief(name)}. Pass a text of at most {_LONGEST_NAME:,} characters, or None.")
