"""The first of many queries whose mean is above a threshold: the sparse vector technique as one purchase."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from everhold.arguments import brief
from everhold.display import at_least, at_most
from everhold.errors import QueryRejected
from everhold.queries.means.batch import RowwiseQuery
from everhold.queries.query import QuerySpec, digest
from everhold.queries.selection.candidates import check_same_units, listed
from everhold.randomness import LARGEST_SCALE
from everhold.values.base import BoundQuery
from everhold_privacy.guarantees.exceedance import comparison_exceedance
from everhold_privacy.mechanisms.privacy_budget import CREDITS
from everhold_privacy.mechanisms.selection import AboveThreshold
from everhold_privacy.queries.choice import PricedChoice
from everhold_privacy.queries.priced import MechanismResult, Paid, Price, PricedQuery, paying, whole_price

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.mechanisms import State
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.randomness import Noise
    from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget

_MOST_QUERIES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateFirstAbove(Paid):
    """First query found above the threshold, with its promise for the population.

    With the confidence of all answers together, the population's value of the query that was found is at least
    ``threshold - within``, and that of every query before it (of every query, if none was found) at most
    ``threshold + within``.

    Attributes:
        index: Its position among the queries; None if none was found or the purchase was refused.
        found: Whether one was found; None if refused.
        asked: The query that was found, as people read it; None if there is none.
        threshold: What it was compared with, in the queries' units.
        within: See above, in the queries' units; None if refused.
    """

    index: int | None
    found: bool | None
    asked: str | None
    threshold: float
    within: float | None

    def to_dict(self) -> dict[str, Any]:
        """``{"index", "found", "asked", "threshold", "within", "charged", "remaining", "query"}``."""
        return {
            "index": self.index, "found": self.found, "asked": self.asked, "threshold": self.threshold,
            "within": self.within, **self.payment(),
        }  # fmt: skip

    def _found(self) -> str | None:
        if self.found is None:
            return None
        what = f"query {self.index}: {self.asked}, the first above" if self.found else "none above"
        return f"{what} {self.threshold:g}, within {at_most(self.within or 0.0)}"

    def _meaning(self) -> str:
        within = self.within or 0.0
        least, most = self.threshold - within, self.threshold + within
        before = f"each query before it is at most {at_most(most)}" if self.index else ""
        found = f"{self.asked} is at least {at_least(least)}{' and ' * bool(before)}{before}"
        none = f"every query is at most {at_most(most)}"
        return (
            f"{found if self.found else none}. A higher price, more sealed rows, fewer queries in the scan or fewer "
            "planned queries bring the bounds closer to the threshold."
        )


@dataclass(frozen=True, slots=True)
class AboveQuery(PricedQuery[PrivateFirstAbove]):
    """Search for the first query whose mean is above a threshold; made by `private_first_above`."""

    queries: Sequence[RowwiseQuery | str]
    threshold: float
    price: int = CREDITS

    def spec(self) -> QuerySpec:
        """See `Query.made`."""
        return QuerySpec("private_first_above", self.queries, {"threshold": self.threshold, "price": self.price})

    def purchase(self, compiler: QueryCompiler) -> AbovePurchase:
        """The scan of one holdout's rows."""
        mechanism, price = paying(compiler.mechanism), whole_price(self.price)
        if isinstance(self.queries, Iterator):
            raise QueryRejected("the queries are an iterator, which is empty when it is asked again; expected a list")
        queries = listed(self.queries, what="queries", most=_MOST_QUERIES)
        bound = tuple(map(compiler.bind, queries))
        prepared = AbovePurchase(bound, price, _checked_threshold(bound, self.threshold))
        if max(prepared.stream(mechanism).query_scale, prepared.stream(mechanism).threshold_scale) > LARGEST_SCALE:
            raise QueryRejected(f"price is {price}; it buys nothing here; expected a higher one")
        return prepared


@dataclass(frozen=True, slots=True)
class AbovePurchase(PricedChoice[PrivateFirstAbove]):
    """A scan that is ready to be made.

    Attributes:
        threshold: In the queries' units.
    """

    threshold: float

    @property
    def description(self) -> dict[str, Any]:
        """Public and canonical."""
        return {
            "kind": "above",
            "of": "row values" if self.rises else "their complements",  # an error is an accuracy turned round
            "threshold": self._mean_threshold,
            "price": self.credits,
            "queries": digest([query.query for query in self.bound]),
        }

    @property
    def shown(self) -> str:
        """The scan as people read it."""
        return f"the first above {self.threshold:g} of {self.listed()}"

    @property
    def _mean_threshold(self) -> float:
        """The threshold for means over [0, 1] that grow with the answers."""
        mean = self.bound[0].to_mean(self.threshold)
        return mean if self.rises else 1.0 - mean

    def stream(self, mechanism: PrivacyBudget) -> AboveThreshold:
        """AboveThreshold with the pure loss eps that the credits pay: ``eps^2/2``-zero-concentrated."""
        rho = self.credits / mechanism.credits * mechanism.curve().rho
        return AboveThreshold.tuned(
            epsilon=math.sqrt(2.0 * rho) * (1.0 - 1e-12), sensitivity=mechanism.unit,
            threshold=round(self._mean_threshold * mechanism.steps),
        )  # fmt: skip

    def price(self, mechanism: PrivacyBudget) -> Price:
        """Its credits, and how far beyond the threshold a verdict may be wrong."""
        return Price(self.credits, self.width * self._within(mechanism))

    def _within(self, mechanism: PrivacyBudget) -> float:
        stream, steps = self.stream(mechanism), mechanism.steps
        alpha = _allowance(
            len(self.bound), stream.threshold_scale / steps, stream.query_scale / steps, mechanism.own_exceedance
        )
        return min(mechanism.reach(alpha + 1.0 / steps), 1.0)  # a step, because the threshold is rounded to the grid

    def answer(self, mechanism: PrivacyBudget, state: State, seen: NDArray[np.int64], noise: Noise) -> MechanismResult:
        """The first whose noisy sum reaches the noisy threshold."""
        stream = self.stream(mechanism)
        found = stream.first(seen if self.rises else mechanism.steps - seen, noise)
        answer = {
            "value": found, "low": None, "high": None, "source": "holdout",
            "within": self._within(mechanism),
        }  # fmt: skip
        state = state.after(charged=self.credits)
        return MechanismResult(state, answer, self.credits)

    def result(self, answer: Mapping[str, Any], **paid: Any) -> PrivateFirstAbove:
        """The query that was found, in the queries' units."""
        index, within = answer["value"], answer["within"]
        return PrivateFirstAbove(
            index=index,
            found=None if answer["source"] == "refused" else index is not None,
            asked=None if index is None else self.bound[index].shown,
            threshold=self.threshold,
            within=None if within is None else within * self.width,
            **paid,
        )


def private_first_above(queries: Sequence[RowwiseQuery | str], threshold: float, *, price: int = CREDITS) -> AboveQuery:
    """Find the first of these queries, taken in order, whose mean is above a threshold.

    The means are compared on the sealed rows with noise on both sides, and none is told: AboveThreshold of the sparse
    vector technique. However many queries there are, it is one query of the plan and has one price.

    Args:
        queries: Means in the same units, in the order in which they are scanned.
        threshold: In their units; must not come from the sealed rows.
        price: Credits that the scan costs; with more of them it comes closer. A mean costs 100.

    Examples:
        >>> private_first_above([f"delay > {cut}" for cut in (60, 30, 15)], threshold=0.2).price
        100
    """
    return AboveQuery(queries, threshold, price)


def first_above_exceedance(alpha: float, *, queries: int, threshold_scale: float, query_scale: float) -> float:
    """Expected error beyond alpha of the worst verdict of AboveThreshold on the sealed rows (r of S1).

    A query above the threshold can only be wronged by "below", one that is not only by "above"; so each has one
    direction, and the error there is at most the sum of its own Laplace noise and of the threshold's. Either k such
    sums are united, or the threshold's noise, in both directions, is taken apart: the smaller of the two.

    Args:
        alpha: In the units of a mean, as the scales are.
        queries: k, scanned at most.
        threshold_scale: Of the Laplace noise on the threshold.
        query_scale: Of the Laplace noise on each query.

    Source: docs/theory, budget.
    """
    scales = {"excess": alpha, "threshold_scale": threshold_scale, "comparison_scale": query_scale}
    return min(
        queries * comparison_exceedance(**scales, queries=1, surprises=1),
        comparison_exceedance(**scales, queries=queries, surprises=2),  # 2: the threshold's noise in both directions
    )


@lru_cache(maxsize=256)
def _allowance(queries: int, threshold_scale: float, query_scale: float, exceedance: float) -> float:
    """The alpha with which a scan adds no more than this exceedance."""

    def missing(alpha: float) -> float:
        scales = {"threshold_scale": threshold_scale, "query_scale": query_scale}
        return first_above_exceedance(alpha, queries=queries, **scales) - exceedance

    if missing(0.0) <= 0.0:
        return 0.0
    return 1.0 if missing(1.0) > 0.0 else float(scipy.optimize.brentq(missing, 0.0, 1.0)) + 1e-9


def _checked_threshold(bound: Sequence[BoundQuery], threshold: float) -> float:
    """A threshold that the queries can be compared with."""
    check_same_units(bound, "queries")
    low, high = sorted((bound[0].at_zero, bound[0].at_one))
    number = isinstance(threshold, (int, float, np.integer, np.floating)) and not isinstance(threshold, bool)
    if not number or not low <= threshold <= high:
        raise QueryRejected(f"the threshold is {brief(threshold)}; expected a number from {low:g} to {high:g}")
    return float(threshold)
