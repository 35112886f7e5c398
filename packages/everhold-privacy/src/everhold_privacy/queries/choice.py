"""Choices paid in privacy credits: the best of several means, a quantile, the first mean above a threshold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from everhold.arguments import as_float, brief, whole
from everhold.display import at_least, at_most, rounded
from everhold.errors import QueryRejected
from everhold.queries.means.mean import MeanQuery
from everhold.queries.query import QuerySpec, RowwiseQuery
from everhold.queries.selection.results import check_same_units, listed
from everhold.strict_json import digest
from everhold.values.base import BoundQuery
from everhold_privacy.guarantees import comparison_exceedance, least_allowance
from everhold_privacy.mechanisms.privacy_budget import CREDITS
from everhold_privacy.mechanisms.selection import PaidSelection, QuantileBins
from everhold_privacy.mechanisms.sparse_vector import SparseVector
from everhold_privacy.queries.priced import (
    MechanismResult,
    Paid,
    Price,
    PricedQuery,
    Purchase,
    Result,
    paying,
    whole_price,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.mechanisms import State
    from everhold.queries.query import CompileContext
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows
    from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget


_MOST_CANDIDATES = 100_000
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BestCandidate(Paid):
    """The chosen candidate, with a bound on its regret against the best candidate.

    Attributes:
        index: Position of the chosen candidate in the list of candidates. None if the query was refused.
        candidate: Text that describes the candidate. None if the query was refused.
        regret: Bound on how much worse it is for the population than the best candidate, in the candidates' units. It
            holds together with all other answers. None if refused.
    """

    index: int | None
    candidate: str | None
    regret: float | None

    def _found(self) -> str | None:
        if self.index is None:
            return None
        return f"candidate {self.index}: {self.candidate}, at most {at_most(self.regret or 0.0)} worse than the best"

    def _meaning(self) -> str:
        return (
            f"{self.candidate} is at most {at_most(self.regret or 0.0)} worse than the best candidate. How good it "
            "is was not revealed (ask for its value). A higher price, more sealed rows, fewer candidates or fewer "
            "planned queries make the regret smaller."
        )


@dataclass(frozen=True, slots=True)
class PricedChoice(Purchase["NDArray[np.int64]", Result]):
    """Base of purchases that compare means on the sealed rows without revealing any of them.

    Attributes:
        bound: The means, in order.
        credits: Credits that the comparison costs.
    """

    bound: tuple[BoundQuery, ...]
    credits: int

    @property
    def means(self) -> tuple[BoundQuery, ...]:
        """The queries whose row values are summed."""
        return self.bound

    @property
    def rises(self) -> bool:
        """True if higher row values mean higher answers."""
        return self.bound[0].at_one > self.bound[0].at_zero

    @property
    def width(self) -> float:
        """Width of the range of the queries in their units."""
        return abs(self.bound[0].at_one - self.bound[0].at_zero)

    def listed(self) -> str:
        """Return a text with the number of candidate queries and the names of the first few."""
        names = "; ".join(query.shown for query in self.bound[:_MOST_SHOWN])
        return f"{len(self.bound):,}: {names}{'; ...' if len(self.bound) > _MOST_SHOWN else ''}"

    def evaluate(self, sealed: StoredRows, unit: int) -> NDArray[np.int64]:
        """Return the sealed sum of each query, shape (queries,)."""
        return sealed.totals(self.bound, unit=unit)[:, 0]


@dataclass(frozen=True, slots=True)
class PrivateChoice(PricedChoice[BestCandidate]):
    """Purchase of a choice among candidates by `private_choose`, for one holdout.

    Attributes:
        best: Whether the "lowest" or the "highest" mean is best.
    """

    best: Literal["lowest", "highest"]

    def __post_init__(self) -> None:
        if not isinstance(self.best, str) or self.best not in ("lowest", "highest"):
            raise QueryRejected(f"best is {brief(self.best)}. Pass 'lowest' or 'highest'.")
        check_same_units(self.bound, "candidates")

    @property
    def description(self) -> dict[str, Any]:
        """Public facts that identify the query, in canonical form."""
        return {
            "kind": "choice",
            "least": "row values" if self._least else "their complements",  # an error is an accuracy turned round
            "price": self.credits,
            "candidates": digest([query.query for query in self.bound]),
        }

    @property
    def shown(self) -> str:
        """The choice as a text for transcripts."""
        return f"the {self.best} of {self.listed()}"

    @property
    def _least(self) -> bool:
        """True if the smallest sum of row values is the best."""
        return self.rises == (self.best == "lowest")

    def price(self, mechanism: PrivacyBudget) -> Price:
        """Return the price in credits, and the regret that the chosen candidate has at most."""
        return Price(self.credits, self.width * PaidSelection(mechanism, self.credits).regret(len(self.bound)))

    def answer(self, mechanism: PrivacyBudget, state: State, seen: NDArray[np.int64], noise: Noise) -> MechanismResult:
        """Choose a candidate by the exponential mechanism, and return the result."""
        return chosen(mechanism, state, seen if self._least else mechanism.steps - seen, noise, price=self.credits)

    def result(self, answer: Mapping[str, Any], **paid: Any) -> BestCandidate:
        """Build the answer: the candidate, and its regret in the candidates' units."""
        index, regret = answer["value"], answer["within"]
        return BestCandidate(
            index=index,
            candidate=None if index is None else self.bound[index].shown,
            regret=None if regret is None else regret * self.width,
            **paid,
        )


def chosen(
    mechanism: PrivacyBudget, state: State, losses: NDArray[np.int64], noise: Noise, *, price: int,
    within: float | None = None,
) -> MechanismResult:  # fmt: skip
    """Choose a candidate with nearly the smallest loss, and return the result with its index and regret bound."""
    state, choice = PaidSelection(mechanism, price).choose(state, losses, noise)
    held = choice.regret if within is None else within
    answer = {"value": choice.index, "low": None, "high": None, "source": "holdout", "within": held}
    return MechanismResult(state, answer, choice.charged)


@dataclass(frozen=True, slots=True)
class PrivateChoiceQuery(PricedQuery[BestCandidate]):
    """Query for the candidate with the lowest or highest mean, made by `private_choose`.

    Attributes:
        candidates: Means in the same units; or anything, with a loss.
        best: Whether the lowest or the highest mean is best.
        price: Credits that the choice costs.
        loss: Function from a candidate to its query. None if candidates are queries themselves.
    """

    candidates: Iterable[Any]
    best: Literal["lowest", "highest"] = "lowest"
    price: int = CREDITS
    loss: Callable[[Any], RowwiseQuery | str] | None = None

    def spec(self) -> QuerySpec:
        """Return the kind and arguments of the query, from which it can be built again."""
        return QuerySpec("private_choose", self._queries(), {"best": self.best, "price": self.price})

    def purchase(self, compiler: CompileContext) -> PrivateChoice:
        """Return the choice among the candidates' queries for one holdout."""
        return PrivateChoice(tuple(map(compiler.bind, self._queries())), whole_price(self.price), self.best)

    def _queries(self) -> list[RowwiseQuery | str]:
        if self.loss is not None and not callable(self.loss):
            raise QueryRejected(
                f"loss is a {type(self.loss).__name__}. Pass a function from a candidate "
                "to its query, such as eh.error."
            )
        # all are made before the first is looked at: some may share an array that they fill
        found = listed(self.candidates, what="candidates", most=_MOST_CANDIDATES)
        return found if self.loss is None else [self.loss(candidate) for candidate in found]


def private_choose(
    candidates: Iterable[Any],
    *,
    best: Literal["lowest", "highest"] = "lowest",
    price: int = CREDITS,
    loss: Callable[[Any], RowwiseQuery | str] | None = None,
) -> PrivateChoiceQuery:
    """Build the query that chooses the best of several models, thresholds or queries on the sealed rows, with noise.

    The values of the candidates are not told. It needs a holdout with the mechanism ``"privacy_budget"``.

    Args:
        candidates: Means in the same units, such as ``[error(model) for model in models]``. With ``loss`` they may be
            anything else, such as the models themselves. `BestCandidate.index` is the position of the chosen one.
        best: Whether the lowest or the highest mean is best.
        price: Credits (units of the privacy budget) that the choice costs; a mean costs 100. With a higher price the
            regret is smaller: how much worse the chosen one may be than the best.
        loss: Function from a candidate to the query that is its loss, such as `error`, or
            ``lambda cut: f"delay > {cut} and late = 0"``.

    Examples:
        >>> private_choose([10, 20, 30], loss=lambda cut: f"delay > {cut}").price
        100
    """
    return PrivateChoiceQuery(candidates, best, price, loss)


_MOST_BINS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateQuantileAnswer(Paid):
    """The bin that contains a quantile, with a bound on the error of the quantile's level.

    The first and last bin have no outer end: they hold all values beyond the range. The last also holds missing values.

    Attributes:
        low: Lower end of the bin, minus infinity for the first one; None if the query was refused.
        high: Upper end of the bin, infinity for the last one; None if refused.
        quantile: Level q of the quantile that was asked.
        error: e. Of the population at most ``q + e`` lies below ``low`` and at least ``q - e`` below ``high``; holds
            together with all other answers. None if refused.
    """

    low: float | None
    high: float | None
    quantile: float
    error: float | None

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
            f"{' and '.join(sides) or 'nothing, because there is one bin only'}. A higher "
            "price, more sealed rows or fewer planned queries make the error of the level "
            "smaller. More bins, or closer ends, make the bin narrower."
        )


@dataclass(frozen=True, slots=True)
class PrivateQuantileQuery(PricedQuery[PrivateQuantileAnswer]):
    """Query for the bin that contains a quantile, made by `private_quantile`, which explains the attributes."""

    text: str
    quantile: float
    low: float
    high: float
    bins: int = 100
    price: int = CREDITS

    def spec(self) -> QuerySpec:
        """Return the kind and arguments of the query, from which it can be built again."""
        given = {name: getattr(self, name) for name in ("quantile", "low", "high", "bins", "price")}
        return QuerySpec("private_quantile", self.text, given)

    def purchase(self, compiler: CompileContext) -> QuantilePurchase:
        """Return the query for one holdout."""
        mechanism, price = paying(compiler.mechanism), whole_price(self.price)
        for name in ("quantile", "low", "high"):
            if not math.isfinite(as_float(getattr(self, name))):
                raise QueryRejected(f"{name} is {brief(getattr(self, name))}. Pass a finite number.")
        try:
            search = QuantileBins(
                quantile=self.quantile, low=self.low, high=self.high, bins=whole(self.bins, "bins", most=_MOST_BINS),
                rows=mechanism.rows, unit=mechanism.unit,
            )  # fmt: skip
        except (ValueError, TypeError, OverflowError) as reason:
            raise QueryRejected(f"{reason}") from None
        number = compiler.bind(MeanQuery(self.text, self.low, self.high))  # the text is one expression, and a number
        below = [compiler.bind(f"({self.text}) < {float(edge)!r}") for edge in search.edges[1:-1]]
        return QuantilePurchase(self, search, number.query, tuple(below), price)


@dataclass(frozen=True, slots=True)
class QuantilePurchase(Purchase["NDArray[np.int64]", PrivateQuantileAnswer]):
    """Purchase of a quantile search, for one holdout.

    Attributes:
        below: For each inner edge of the bins, the query about the share of rows below the edge.
    """

    asked: PrivateQuantileQuery
    search: QuantileBins
    number: str
    below: tuple[BoundQuery, ...]
    credits: int

    @property
    def description(self) -> dict[str, Any]:
        """Public facts that identify the query, in canonical form."""
        query = self.asked
        return {
            "kind": "quantile", "quantile": float(query.quantile), "low": float(query.low), "high": float(query.high),
            "bins": self.search.bins, "price": self.credits, "of": self.number,
            "edges": digest([query.query for query in self.below]),
        }  # fmt: skip

    @property
    def means(self) -> tuple[BoundQuery, ...]:
        """The queries for the share of rows below each inner edge of the bins."""
        return self.below

    @property
    def shown(self) -> str:
        """The query as a text for transcripts."""
        query = self.asked
        ends = f"{query.bins:,} bins from {query.low:g} to {query.high:g}"
        return f"quantile {query.quantile:g} of {query.text} in {ends}"

    def price(self, mechanism: PrivacyBudget) -> Price:
        """Return the price in credits, and the largest error of the quantile's level at this price."""
        return Price(self.credits, PaidSelection(mechanism, self.credits).level_error(self.asked.bins))

    def evaluate(self, sealed: StoredRows, unit: int) -> NDArray[np.int64]:
        """Return the number of rows below each inner edge in grid units, shape (bins - 1,)."""
        return sealed.totals(self.below, unit=unit)[:, 0] if self.below else np.zeros(0, dtype=np.int64)

    def answer(self, mechanism: PrivacyBudget, state: State, seen: NDArray[np.int64], noise: Noise) -> MechanismResult:
        """Choose a bin that misses the level by about the least, and return the result."""
        losses, error = self.search.losses(seen), self.price(mechanism).within
        return chosen(mechanism, state, losses, noise, price=self.credits, within=error)

    def result(self, answer: Mapping[str, Any], **paid: Any) -> PrivateQuantileAnswer:
        """Build the answer with both ends of the bin."""
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
    """Build the query for the bin that contains a quantile of a number on the sealed rows, chosen with noise.

    It needs a holdout with the mechanism ``"privacy_budget"``.

    Args:
        text: A column or an expression that is a number; missing values count as above every bin.
        quantile: Level of the quantile, in [0, 1]. 0.5 is the median.
        low: Lower end of the first bin. It must not come from the sealed rows. Values below it count in the first bin.
        high: Upper end of the last bin. It must not come from the sealed rows. Values above it, and missing values,
            count in the last bin.
        bins: Number of bins, all equally wide.
        price: Credits (units of the privacy budget) that the query costs; a mean costs 100. With a higher price the
            error of the level is smaller.

    Examples:
        >>> private_quantile("delay", 0.5, low=-60, high=180, bins=80).price
        100
    """
    return PrivateQuantileQuery(text, quantile, low, high, bins, price)


_MOST_QUERIES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateFirstAbove(Paid):
    """The first query found above a threshold, with how far the verdicts can be wrong in the population.

    With the confidence of all answers together, the population's value of the query that was found is at least
    ``threshold - within``, and that of every query before it (of every query, if none was found) at most
    ``threshold + within``.

    Attributes:
        index: Position of the found query in the list of queries. None if none was found or the purchase was refused.
        found: Whether one was found; None if refused.
        asked: Text of the query that was found. None if none was found or the purchase was refused.
        threshold: Number that each query was compared with, in the queries' units.
        within: Largest error of the verdicts, as said above, in the queries' units. None if the purchase was refused.
    """

    index: int | None
    found: bool | None
    asked: str | None
    threshold: float
    within: float | None

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
    """Query for the first mean above a threshold, made by `private_first_above`."""

    queries: Sequence[RowwiseQuery | str]
    threshold: float
    price: int = CREDITS

    def spec(self) -> QuerySpec:
        """Return the kind and arguments of the query, from which it can be built again."""
        return QuerySpec("private_first_above", self.queries, {"threshold": self.threshold, "price": self.price})

    def purchase(self, compiler: CompileContext) -> AbovePurchase:
        """Return the scan for one holdout."""
        mechanism, price = paying(compiler.mechanism), whole_price(self.price)
        if isinstance(self.queries, Iterator):
            raise QueryRejected("queries is an iterator, which can be read only once. Pass a list.")
        queries = listed(self.queries, what="queries", most=_MOST_QUERIES)
        bound = tuple(map(compiler.bind, queries))
        check_same_units(bound, "queries")
        low, high = sorted((bound[0].at_zero, bound[0].at_one))
        if not low <= as_float(self.threshold) <= high:
            raise QueryRejected(f"threshold is {brief(self.threshold)}. Pass a number from {low:g} to {high:g}.")
        prepared = AbovePurchase(bound, price, float(self.threshold))
        try:
            prepared.stream(mechanism)
        except ValueError:  # noise of this scale cannot be drawn
            raise QueryRejected(f"price is {price}, which is too low for this query. Pass a higher price.") from None
        return prepared


@dataclass(frozen=True, slots=True)
class AbovePurchase(PricedChoice[PrivateFirstAbove]):
    """Purchase of a scan for the first mean above a threshold, for one holdout.

    Attributes:
        threshold: Threshold in the queries' units.
    """

    threshold: float

    @property
    def description(self) -> dict[str, Any]:
        """Public facts that identify the query, in canonical form."""
        return {
            "kind": "above",
            "of": "row values" if self.rises else "their complements",  # an error is an accuracy turned round
            "threshold": self._mean_threshold,
            "price": self.credits,
            "queries": digest([query.query for query in self.bound]),
        }

    @property
    def shown(self) -> str:
        """The query as a text for transcripts."""
        return f"the first above {self.threshold:g} of {self.listed()}"

    @property
    def _mean_threshold(self) -> float:
        """The threshold for means over [0, 1] that grow with the answers."""
        mean = self.bound[0].to_mean(self.threshold)
        return mean if self.rises else 1.0 - mean

    def stream(self, mechanism: PrivacyBudget) -> SparseVector:
        """Return AboveThreshold with the pure loss eps that the credits cover, ``eps^2/2``-zero-concentrated."""
        rho = self.credits / mechanism.credits * mechanism.curve().rho
        return SparseVector.lyu_su_li(
            epsilon=math.sqrt(2.0 * rho) * (1.0 - 1e-12), tops=1, sensitivity=mechanism.unit,
            threshold=round(self._mean_threshold * mechanism.steps),
        )  # fmt: skip

    def price(self, mechanism: PrivacyBudget) -> Price:
        """Return the price in credits, and the distance from the threshold within which a verdict may be wrong."""
        return Price(self.credits, self.width * self._within(mechanism))

    def _within(self, mechanism: PrivacyBudget) -> float:
        stream, steps = self.stream(mechanism), mechanism.steps
        alpha = _allowance(
            len(self.bound), stream.threshold_scale / steps, stream.query_scale / steps, mechanism.own_exceedance
        )
        return min(mechanism.reach(alpha + 1.0 / steps), 1.0)  # a step, because the threshold is rounded to the grid

    def answer(self, mechanism: PrivacyBudget, state: State, seen: NDArray[np.int64], noise: Noise) -> MechanismResult:
        """Find the first query whose noisy sum reaches the noisy threshold, and return the result."""
        after, stream = mechanism.charge(state, self.credits), self.stream(mechanism)
        found = stream.first(seen if self.rises else mechanism.steps - seen, noise)
        answer = {
            "value": found, "low": None, "high": None, "source": "holdout",
            "within": self._within(mechanism),
        }  # fmt: skip
        return MechanismResult(after, answer, self.credits)

    def result(self, answer: Mapping[str, Any], **paid: Any) -> PrivateFirstAbove:
        """Build the answer with the query that was found, in the queries' units."""
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
    """Build the query for the first of several means that is above a threshold on the sealed rows, with noise.

    Noise is added to the means and to the threshold, and no mean is told (AboveThreshold of the sparse vector
    technique). It needs a holdout with the mechanism ``"privacy_budget"``. However many queries there are, it is one
    query of the plan and has one price.

    Args:
        queries: Means in the same units, in the order in which they are scanned.
        threshold: Threshold in the queries' units. It must not come from the sealed rows.
        price: Credits (units of the privacy budget) that the scan costs; a mean costs 100. With a higher price a
            verdict can be wrong only for means that are nearer to the threshold.

    Examples:
        >>> private_first_above([f"delay > {cut}" for cut in (60, 30, 15)], threshold=0.2).price
        100
    """
    return AboveQuery(queries, threshold, price)


def first_above_exceedance(alpha: float, *, queries: int, threshold_scale: float, query_scale: float) -> float:
    """Return the expected error beyond alpha of AboveThreshold's worst verdict on the sealed rows (r of S1).

    The verdict about a query above the threshold can only be wrong by saying "below", and that about another query only
    by saying "above". So each query has an error in one direction, which is at most the sum of its own Laplace noise
    and that of the threshold. The result is the smaller of two bounds: one adds up k such sums, the other bounds the
    threshold's noise separately, in both directions.

    Args:
        alpha: Allowance alpha in the units of a mean, as the scales are.
        queries: k, scanned at most.
        threshold_scale: Scale of the Laplace noise on the threshold.
        query_scale: Scale of the Laplace noise on each query.

    Source: docs/theory, budget.
    """
    scales = {"excess": alpha, "threshold_scale": threshold_scale, "comparison_scale": query_scale}
    return min(
        queries * comparison_exceedance(**scales, queries=1, surprises=1),
        comparison_exceedance(**scales, queries=queries, surprises=2),  # 2: the threshold's noise in both directions
    )


@lru_cache(maxsize=256)
def _allowance(queries: int, threshold_scale: float, query_scale: float, exceedance: float) -> float:
    """Return the least alpha for which the scan's error exceeds alpha by at most the exceedance in expectation."""

    def missing(alpha: float) -> float:
        scales = {"threshold_scale": threshold_scale, "query_scale": query_scale}
        return first_above_exceedance(alpha, queries=queries, **scales) - exceedance

    return least_allowance(missing)
