"""Quantile of sealed rows, to the width of a bin, with an interval for the population."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float, brief
from everhold.display import at_least, at_most, rounded
from everhold.errors import QueryRejected
from everhold.queries.means.mean import MeanQuery
from everhold.queries.query import QuerySpec, digest
from everhold.values.base import BoundQuery
from everhold_privacy.mechanisms.paid_selection import PaidSelection
from everhold_privacy.mechanisms.privacy_budget import CREDITS
from everhold_privacy.mechanisms.selection import QuantileBins
from everhold_privacy.queries.choice import chosen
from everhold_privacy.queries.priced import MechanismResult, Paid, Price, PricedQuery, Purchase, paying, whole_price

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.mechanisms import State
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows
    from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget

_MOST_BINS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateQuantileAnswer(Paid):
    """The bin that a quantile was found in, and what holds for the population.

    Values beyond the range belong to the first and the last bin, which have no other end; missing ones to the last.

    Attributes:
        low: Lower end of the bin, minus infinity for the first one; None if the query was refused.
        high: Upper end of the bin, infinity for the last one; None if refused.
        quantile: q, the quantile that was asked for.
        error: e. Of the population at most ``q + e`` lies below ``low`` and at least ``q - e`` below ``high``; holds
            together with all other answers. None if refused.
    """

    low: float | None
    high: float | None
    quantile: float
    error: float | None

    def to_dict(self) -> dict[str, Any]:
        """``{"low", "high", "quantile", "error", "charged", "remaining", "query"}``; an infinite end is None."""
        low, high = (None if end is None or not math.isfinite(end) else end for end in (self.low, self.high))
        return {"low": low, "high": high, "quantile": self.quantile, "error": self.error, **self.payment()}

    def _found(self) -> str | None:
        if self.low is None or self.high is None:
            return None
        error = at_most(self.error or 0.0)
        return f"quantile {self.quantile:g} in [{at_least(self.low)}, {at_most(self.high)}), its level within {error}"

    def _meaning(self) -> str:
        low, high, error = self.low or 0.0, self.high or 0.0, self.error or 0.0
        most, least = min(self.quantile + error, 1.0), max(self.quantile - error, 0.0)
        sides = [
            *([f"a share of at most {at_most(most)} lies below {rounded(low)}"] if math.isfinite(low) else []),
            *([f"a share of at least {at_least(least)} lies below {rounded(high)}"] if math.isfinite(high) else []),
        ]
        return (
            f"{' and '.join(sides) or 'nothing, because there is one bin only'}. A higher price, more sealed rows or "
            "fewer planned queries make the error of the level smaller; more bins, or closer ends, make the bin "
            "narrower."
        )


@dataclass(frozen=True, slots=True)
class PrivateQuantileQuery(PricedQuery[PrivateQuantileAnswer]):
    """In which bin does a quantile of a number lie? Made by `private_quantile`, which says what the attributes are."""

    text: str
    quantile: float
    low: float
    high: float
    bins: int = 100
    price: int = CREDITS

    def spec(self) -> QuerySpec:
        """See `Query.made`."""
        given = {name: getattr(self, name) for name in ("quantile", "low", "high", "bins", "price")}
        return QuerySpec("private_quantile", self.text, given)

    def purchase(self, compiler: QueryCompiler) -> QuantilePurchase:
        """The query for one holdout."""
        mechanism, price = paying(compiler.mechanism), whole_price(self.price)
        search = self._search(mechanism, price)
        number = compiler.bind(MeanQuery(self.text, self.low, self.high))  # the text is one expression, and a number
        below = [compiler.bind(f"({self.text}) < {float(edge)!r}") for edge in search.edges[1:-1]]
        return QuantilePurchase(self, search, number.query, tuple(below), price)

    def _search(self, mechanism: PrivacyBudget, price: int) -> QuantileBins:
        bins = self.bins
        if not isinstance(bins, int) or isinstance(bins, bool) or not 1 <= bins <= _MOST_BINS:
            raise QueryRejected(f"bins is {brief(bins)}; expected a whole number from 1 to {_MOST_BINS:,}")
        for name in ("quantile", "low", "high"):
            if not math.isfinite(as_float(getattr(self, name))):
                raise QueryRejected(f"{name} is {brief(getattr(self, name))}; expected a finite number")
        try:
            return QuantileBins(
                quantile=self.quantile, low=self.low, high=self.high, bins=bins, rows=mechanism.rows,
                unit=mechanism.unit,
            )  # fmt: skip
        except (ValueError, TypeError, OverflowError) as reason:
            raise QueryRejected(f"{reason}") from None


@dataclass(frozen=True, slots=True)
class QuantilePurchase(Purchase["NDArray[np.int64]", PrivateQuantileAnswer]):
    """A quantile that is ready to be searched for.

    Attributes:
        below: Which share of rows lies below each inner edge, as queries.
    """

    asked: PrivateQuantileQuery
    search: QuantileBins
    number: str
    below: tuple[BoundQuery, ...]
    credits: int

    @property
    def description(self) -> dict[str, Any]:
        """Public and canonical."""
        query = self.asked
        return {
            "kind": "quantile", "quantile": float(query.quantile), "low": float(query.low), "high": float(query.high),
            "bins": query.bins, "price": self.credits, "of": self.number,
            "edges": digest([query.query for query in self.below]),
        }  # fmt: skip

    @property
    def means(self) -> tuple[BoundQuery, ...]:
        """The queries whose row values are summed."""
        return self.below

    @property
    def shown(self) -> str:
        """The query as people read it."""
        query = self.asked
        ends = f"{query.bins:,} bins from {query.low:g} to {query.high:g}"
        return f"quantile {query.quantile:g} of {query.text} in {ends}"

    def price(self, mechanism: PrivacyBudget) -> Price:
        """Its credits, and the error of the level that they buy."""
        return Price(self.credits, PaidSelection(mechanism, self.credits).level_error(self.asked.bins))

    def evaluate(self, sealed: StoredRows, unit: int) -> NDArray[np.int64]:
        """Number of rows below each inner edge, in grid units, shape (bins - 1,)."""
        return sealed.totals(self.below, unit=unit)[:, 0] if self.below else np.zeros(0, dtype=np.int64)

    def answer(self, mechanism: PrivacyBudget, state: State, seen: NDArray[np.int64], noise: Noise) -> MechanismResult:
        """The bin that misses the level least, about."""
        losses, error = self.search.losses(seen), self.price(mechanism).within
        return chosen(mechanism, state, losses, noise, price=self.credits, within=error)

    def result(self, answer: Mapping[str, Any], **paid: Any) -> PrivateQuantileAnswer:
        """The bin's ends."""
        found = None if answer["value"] is None else self.search.bin(answer["value"])
        return PrivateQuantileAnswer(
            low=None if found is None else found[0],
            high=None if found is None else found[1],
            quantile=float(self.asked.quantile),
            error=answer["within"],
            **paid,
        )


def private_quantile(
    text: str, quantile: float = 0.5, *, low: float, high: float, bins: int = 100, price: int = CREDITS
) -> PrivateQuantileQuery:
    """In which bin does a quantile of a number lie?

    Args:
        text: A column or an expression that is a number; missing values count as above every bin.
        quantile: Which one, in [0, 1]; 0.5 is the median.
        low: Where the bins begin; must not come from the sealed rows. Values below belong to the first bin.
        high: Where they end. Values above, and missing ones, belong to the last bin.
        bins: Number of bins, all equally wide.
        price: Credits that it costs; with more of them it comes closer. A mean costs 100.

    Examples:
        >>> private_quantile("delay", 0.5, low=-60, high=180, bins=80).price
        100
    """
    return PrivateQuantileQuery(text, quantile, low, high, bins, price)
