"""The choice of the best of many candidates, with its value and a limit of how much better any other can be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from everhold.arguments import as_whole, brief
from everhold.display import at_least, at_most, rounded
from everhold.errors import QueryRejected
from everhold.guarantees.description_length import ChoiceLevels, largest_upper
from everhold.guarantees.intervals.base import CELLS, Cells, GroupSums, Needs, Procedure
from everhold.guarantees.intervals.betting import Bets, Betting
from everhold.guarantees.intervals.in_order import betting_on
from everhold.mechanisms.labels import WIDENED, Around, order_nats
from everhold.queries.interval_planner import Prepared
from everhold.queries.means.combined import difference_of
from everhold.queries.means.plans import OneMean
from everhold.queries.metrics.query import MetricQuery
from everhold.queries.query import CompileContext, Query, QuerySpec, RowwiseQuery
from everhold.queries.selection import results
from everhold.strict_json import digest
from everhold.values.units import UNITS, MeanUnits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.mechanisms import PublicLevels
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import BoundQuery

_MOST_CANDIDATES = 100_000
_MOST_CHOSEN = 100
_MOST_PAIRS = 200  # of a chosen candidate and another one


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(results.Paid):
    """The candidate that is the best on the sealed rows, its value, and its regret.

    The interval and the regret hold for the population, together with all other answers.

    Attributes:
        index: Position of the best candidate; None if the query was refused.
        candidate: The candidate as people read it; None if refused.
        value: Value of the best candidate, rounded, in the candidates' units; None if refused.
        low: Lower end of the interval of the chosen candidate's value. If several candidates are chosen, it holds for
            each of them.
        high: Upper end of the interval. With ``best="highest"`` no candidate at all has a higher value. With
            ``best="lowest"`` no candidate at all has a value below `low`.
        regret: Upper limit, for each chosen candidate, of how much worse it is than the best of all candidates. None if
            refused.
        indices: Positions of all chosen candidates, the best first.
        candidates: All chosen candidates as people read them, the best first.
    """

    index: int | None
    candidate: str | None
    value: float | None
    low: float | None
    high: float | None
    regret: float | None
    indices: tuple[int, ...] = ()
    candidates: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"index", "candidate", "value", "low", "high", "regret", ...}``, and ``"indices"`` of several."""
        numbers = {name: getattr(self, name) for name in ("index", "candidate", "value", "low", "high", "regret")}
        several = {"indices": list(self.indices)} if len(self.indices) > 1 else {}
        return {**numbers, **several, **self.payment()}

    def _found(self) -> str | None:
        if self.index is None:
            return None
        others = f", then {', '.join(map(str, self.indices[1:]))}" if len(self.indices) > 1 else ""
        return (
            f"candidate {self.index}: {self.candidate}, {rounded(self.value or 0.0)} in [{at_least(self.low or 0.0)}, "
            f"{at_most(self.high or 0.0)}], at most {at_most(self.regret or 0.0)} worse than the best{others}"
        )

    def _meaning(self) -> str:
        chosen = f"each of {', '.join(self.candidates)}" if len(self.indices) > 1 else str(self.candidate)
        return (
            f"the value of {chosen} is from {at_least(self.low or 0.0)} to {at_most(self.high or 0.0)}, and at most "
            f"{at_most(self.regret or 0.0)} worse than that of the best candidate. No surprise is charged. Later "
            "queries are wider, because they pay for what the choice tells: `status()['outlook']` says how wide. "
            "More sealed rows or fewer candidates make it sharper."
        )


@dataclass(frozen=True, slots=True)
class ChoiceQuery(Query[Choice]):
    """A query for the best of several means or metrics, made by `choose`.

    Attributes:
        candidates: Means in the same units; or values of any kind, from which ``loss`` makes the queries.
        best: Which mean is best: ``"lowest"`` or ``"highest"``.
        most: Number of the best candidates that are told, in their order.
        loss: Function from a candidate to its query; None if the candidates are queries.
    """

    candidates: Iterable[Any]
    best: Literal["lowest", "highest"] = "lowest"
    most: int = 1
    loss: Callable[[Any], RowwiseQuery | str] | None = None

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        return QuerySpec("choose", self._queries(), {"best": self.best, "most": self.most if self.most != 1 else None})

    def _queries(self) -> list[RowwiseQuery | MetricQuery]:
        found = results.listed(self.candidates, what="candidates", most=_MOST_CANDIDATES)
        return [results.query_or_metric(candidate, self.loss) for candidate in found]

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> ChoicePlan:
        """Compile the choice for the rows of one holdout."""
        mechanism = results.checks_guesses(compiler, "a choice", guess=guess, tolerance=tolerance)
        if not isinstance(self.best, str) or self.best not in ("lowest", "highest"):
            raise QueryRejected(f"best is {brief(self.best)}. Pass 'lowest' or 'highest'.")
        queries = self._queries()
        allowed = min(len(queries), _MOST_CHOSEN)
        if not 1 <= (as_whole(self.most) or 0) <= allowed:
            raise QueryRejected(
                f"most is {brief(self.most)}. Pass how many of the best candidates to tell, from 1 to {allowed}."
            )
        compared = results.Compared.of(compiler, queries, "candidates")
        few = len(queries) > 1 and len(queries) * int(self.most) <= _MOST_PAIRS
        pairs = CandidatePairs.of(compiler, compared, queries) if few else None
        return ChoicePlan(compiler.schema, mechanism, compared, self.best, int(self.most), pairs)


def _outwards(low: float, high: float, *, turned: bool) -> tuple[float, float]:
    """Convert ends of a value for which larger is better to ends of a mean of row values.

    If `turned` is true, a smaller mean is better, and both ends are exchanged.
    """
    return (1.0 - high, 1.0 - low) if turned else (low, high)


@dataclass(frozen=True)
class ChoicePlan(results.OneEntry[Choice]):
    """A plan for one choice among candidates, with one ledger entry (corollary M1).

    Attributes:
        best: Which mean is best: ``"lowest"`` or ``"highest"``.
        pairs: Differences between the chosen candidate and all others; None if they are not computed.
    """

    compared: results.Compared
    best: Literal["lowest", "highest"]
    most: int
    pairs: CandidatePairs | None = field(repr=False)

    @property
    def description(self) -> dict[str, Any]:
        """The public, canonical description of the choice."""
        return {
            "kind": "best of",
            "best": "complements" if self._turned else "row values",  # an error is an accuracy turned round
            "most": self.most,
            "candidates": digest([query.query for query in self.compared.bound]),
        }

    @property
    def shown(self) -> str:
        """The choice as text for people."""
        several = f"{self.most} " if self.most > 1 else ""
        return f"the {several}{self.best} of {self.compared.named()}"

    @property
    def beside(self) -> dict[str, Any]:
        """Fields of the ledger entry with the units of the value."""
        return {UNITS: MeanUnits.of(self.compared.bound[0]).to_list()}

    @property
    def by_position(self) -> bool:
        """Whether a candidate reads predictions by the position of rows."""
        return self.compared.by_position

    @property
    def _turned(self) -> bool:
        """Whether the least mean of row values is the best."""
        return self.compared.rises == (self.best == "lowest")

    def evaluate(self, sealed: StoredRows, places: Any) -> tuple[list[int], results.SealedValues, list[Any]]:
        """Return positions of the best candidates, all sealed values, and pairs of each best one. Secret."""
        bound = self.compared.evaluate(sealed)
        totals = bound.totals if self._turned else -bound.totals
        chosen = np.argsort(totals, kind="stable")[: self.most].tolist()
        pairs = [] if self.pairs is None else [self.pairs.evaluate(sealed, one) for one in chosen]
        return chosen, bound, pairs

    def release(self, nats: float, seen: tuple[list[int], results.SealedValues, list[Any]]) -> results.Released:
        """Return the answer: positions of the best, an interval that holds the best value, and the regret."""
        chosen, bound, pairs = seen
        levels = ChoiceLevels.of(nats, candidates=len(self.compared), paired=bool(pairs))
        procedures = self.compared.procedures(levels.lower)
        rounding = self.mechanism.rounding
        low, high = results.ends_of(procedures, bound, levels.upper, rounding=rounding)
        top = largest_upper(1.0 - low if self._turned else high)
        low, high = results.ends_of(
            [procedures[one] for one in chosen], bound.some(chosen), levels.lower, rounding=rounding
        )
        lowers = 1.0 - high if self._turned else low
        least, label = float(np.min(lowers)), order_nats(chosen, self._goodness)
        around = self._around(chosen[0], levels)
        least_told, top_told, cost = around.released(min(least, top), top)
        ends = max(least_told, 0.0), min(top_told, 1.0)
        label += cost
        low_told, high_told = _outwards(*ends, turned=self._turned)
        # public rows show how far the middle of such an interval is from the value that it is about
        guess = float(self.compared.estimates[chosen[0]])
        aside = 0.0 if math.isnan(guess) else (guess if not self._turned else 1.0 - guess) - around.place
        middle = (low_told + high_told) / 2.0 + (-aside if self._turned else aside)
        value = min(max(middle, low_told), high_told)
        told = {"chosen": chosen, "value": value, "low": low_told, "high": high_told}
        whole = ends[1] - ends[0]
        told["regret"], cost = whole, 0.0
        if self.pairs is not None and pairs:
            lowest = self.best == "lowest"
            found = max(self.pairs.largest(each, levels.paired, lowest=lowest) for each in pairs)
            expected = self.pairs.expected(pairs[0], self._goodness, levels.paired, lowest=lowest)
            regret, cost = Around(0.0, min(expected, whole)).released_above(max(found, LEAST_REGRET))
            told["regret"] = min(regret, whole)
        sealed = (float(bound.means[chosen[0]]), *_outwards(float(lowers[0]), top, turned=self._turned))
        return told, label + cost, sealed

    @property
    def _goodness(self) -> Any:
        """Training estimates of all candidates, mirrored if lower is better, so that larger is better."""
        return 1.0 - self.compared.estimates if self._turned else self.compared.estimates

    def _around(self, winner: int, levels: ChoiceLevels) -> Around:
        """Return the expected interval of the best value, from public facts, around which its label is coded."""
        guess = float(self.compared.estimates[winner])
        guess = 0.5 if math.isnan(guess) else guess
        procedure = self.compared.procedures(levels.lower)[winner]
        narrow, wide = procedure.expected(guess, levels.upper), procedure.expected(guess, levels.lower)
        low, high = (wide[0], narrow[1]) if not self._turned else (1.0 - wide[1], 1.0 - narrow[0])
        return Around((low + high) / 2.0, max((high - low) / 2.0, 2.0**-30) * math.sqrt(WIDENED))

    def bound(self, nats: float) -> float:
        """Return the largest regret that the answer can have, in the candidates' units.

        If several of the best are told, it is the whole range.
        """
        if self.most > 1:
            return self.compared.width
        levels = ChoiceLevels.of(nats, candidates=len(self.compared), paired=self.pairs is not None)
        procedures = self.compared.procedures(levels.lower)
        reach = sum(results.widest(procedures, each, self.mechanism) for each in (levels.lower, levels.upper))
        return self.compared.width * min(WIDENED * reach, 1.0)

    def released_width(self, answer: Mapping[str, Any]) -> float:
        """Return the regret of a stored answer, in the candidates' units."""
        return self.compared.width * float(answer["regret"])

    def result(self, answer: Mapping[str, Any] | None, **paid: Any) -> Choice:
        """Return the result with the chosen candidates and the regret in the candidates' units."""
        if answer is None:
            return Choice(index=None, candidate=None, value=None, low=None, high=None, regret=None, **paid)
        value, low, high = MeanUnits.of(self.compared.bound[0]).in_units(
            answer["value"], answer["low"], answer["high"], row_step=self.mechanism.row_step
        )
        chosen = tuple(answer["chosen"])
        names = tuple(self.compared.bound[one].shown for one in chosen)
        regret = self.released_width(answer)
        return Choice(
            index=chosen[0], candidate=names[0], value=value, low=low, high=high, regret=regret, indices=chosen,
            candidates=names, **paid,
        )  # fmt: skip


def choose(
    candidates: Iterable[Any],
    *,
    best: Literal["lowest", "highest"] = "lowest",
    most: int = 1,
    loss: Callable[[Any], RowwiseQuery | str] | None = None,
) -> Any:
    """Build the query that tells which of several models, thresholds or queries is best on the sealed rows.

    The answer bounds the regret: how much worse the chosen one may be than the best in the population. No surprise is
    charged. Because the position of the best is told, later queries get wider intervals.

    Args:
        candidates: Means in the same units, such as ``[error(model) for model in models]``, or one metric of several
            models, such as ``[metric("roc_auc", model) for model in models]`` or `at_thresholds`. With ``loss`` they
            may be anything else, such as the models themselves. `Choice.index` is the position of the best one.
        best: Which mean is best: ``"lowest"`` or ``"highest"``.
        most: Number of the best candidates that are told, the best first.
        loss: Function from a candidate to the query that is its loss, such as `error`, or ``lambda cut: f"delay > {cut}
            and late = 0"``.

    Examples:
        >>> choose([10, 20, 30], loss=lambda cut: f"delay > {cut}").most
        1
    """
    return ChoiceQuery(candidates, best, most, loss)


# The chosen candidate against every other one, pair by pair: only rows on which both differ spread.

LEAST_REGRET = 1e-6
"""Smallest regret that is expected or told, as a clear choice would be dear to tell to the last digit."""


@dataclass(frozen=True, eq=False)
class CandidatePairs:
    """The differences between pairs of candidates. Only those with a chosen candidate are evaluated.

    Public facts alone decide the interval procedure of each pair, for every choice.

    Attributes:
        compiler: The compiler of the holdout.
        prepare: Function from a candidate's position to the differences between each other one and it, in order.
    """

    compiler: CompileContext
    prepare: Callable[[int], list[Prepared]]

    @classmethod
    def of(
        cls, compiler: CompileContext, compared: results.Compared, queries: Sequence[Query[Any]]
    ) -> CandidatePairs | None:
        """Return the pairs of a choice, or None if differences of candidates have no narrow interval."""
        dependence = compiler.mechanism.dependence
        if all(isinstance(query, RowwiseQuery) for query in queries):
            known = dependence.independent or dependence.unit_column is not None
            means = partial(_differences_of_means, compiler, compared)
            return cls(compiler, means) if known and compiler.mechanism.bets else None
        metrics = [query for query in queries if isinstance(query, MetricQuery)]
        if len(metrics) < len(queries):
            return None
        silent = compiler.silently()
        try:
            is_number = bool(_differences_of_metrics(silent, metrics[:2], 0))
        except QueryRejected:
            return None
        return cls(compiler, partial(_differences_of_metrics, silent, metrics)) if is_number else None

    @property
    def mechanism(self) -> PublicLevels:
        """The mechanism that answers."""
        return self.compiler.mechanism  # type: ignore[return-value]  # checked by `checks_guesses`

    def evaluate(self, sealed: StoredRows, one: int) -> PairsOfOne:
        """Evaluate the differences between all others and one candidate on the sealed rows. Secret."""
        prepared = self.prepare(one)
        return PairsOfOne(
            one, prepared, results.evaluate_sealed(prepared, sealed, self.compiler.schema, self.mechanism)
        )

    def largest(self, pairs: PairsOfOne, nats: float, *, lowest: bool) -> float:
        """Return an upper limit of how much better any other candidate is, in units of a mean (Lemma M).

        Only the largest limit is told. So if a test shows that the limit of a pair is smaller, it is not computed
        exactly.

        Args:
            pairs: The result of `evaluate` for the candidate.
            nats: ln(1 / level) of a two-sided procedure.
            lowest: True if lower values are better; False if higher ones are.
        """
        middles = [
            _better(each.bound, mean, mean, lowest=lowest)
            for each, mean in zip(pairs.prepared, pairs.sealed.means.tolist(), strict=True)
        ]
        best = -math.inf
        for place in np.argsort(middles)[::-1].tolist():  # mostly one of the first has the largest limit
            bound, procedure, seen = pairs.prepared[place].bound, pairs.procedures[place], pairs.sealed.seen[place]
            if pairs.prepared[place].number is not None:
                (low, high), rounding = procedure.interval(seen, nats), 1.0 / self.mechanism.steps
                found = _better(bound, max(low - rounding, 0.0), min(high + rounding, 1.0), lowest=lowest)
                best = max(best, found)
                continue
            assert isinstance(procedure, Bets)
            upper = (bound.at_one > bound.at_zero) != lowest
            outwards = self.mechanism.rounding if upper else -self.mechanism.rounding
            known = None
            if not math.isinf(best):  # the end, as a mean, at which this candidate is better by the best so far
                value = best * abs(bound.at_one - bound.at_zero) / 2.0
                known = bound.to_mean(-value if lowest else value) - outwards
            end = procedure.farthest_end(seen, nats, upper=upper, known=known)
            if end is not None:  # beyond all before it
                end = min(max(end + outwards, 0.0), 1.0)
                best = max(best, _better(bound, end, end, lowest=lowest))
        return best

    def expected(self, pairs: PairsOfOne, goodness: NDArray[np.float64], nats: float, *, lowest: bool) -> float:
        """Return the expected value of `largest`, judged by the best other candidate on training rows.

        ``lowest`` is True if lower values are better.
        """
        others = np.delete(goodness, pairs.one)
        if np.all(np.isnan(others)):
            return math.inf
        place = int(np.nanargmax(others))
        rival, procedure = pairs.prepared[place], pairs.procedures[place]
        if rival.number is None:
            middle = procedure.prediction.mean  # type: ignore[attr-defined]  # of bets
        else:
            middle = 0.5 if rival.guess < 0 else rival.guess / self.mechanism.steps
        return max(_better(rival.bound, *procedure.expected(middle, nats), lowest=lowest), LEAST_REGRET)


@dataclass(frozen=True, slots=True, eq=False)
class PairsOfOne:
    """The differences between all other candidates and one of them, with secret sealed values.

    Attributes:
        one: Position of the candidate.
        prepared: The differences, in the order of the other candidates.
    """

    one: int
    prepared: Sequence[Prepared]
    sealed: results.SealedValues

    @property
    def procedures(self) -> list[Procedure]:
        """The interval procedures of the differences."""
        return [each.procedure for each in self.prepared if each.procedure is not None]


def _differences_of_means(compiler: CompileContext, compared: results.Compared, one: int) -> list[Prepared]:
    """Return the differences between all other means and one, with bets on them planned from training rows."""
    mechanism, training, bound = compiler.mechanism, compiler.training, compared.bound
    differences = [difference_of(bound[other], bound[one]) for other in range(len(bound)) if other != one]
    units, none = mechanism.dependence, np.zeros(0, dtype=np.int64)
    needs: Needs = "cells" if units.independent else "groups"
    if training is not None and all(each.trained for each in differences):
        rows, group_by = training.counting(differences[0]), units.unit_column
        _, seen = rows.evaluate(differences, [needs] * len(differences), group_by=group_by, unit=mechanism.unit)
    elif units.independent:
        zeros = np.zeros(CELLS, dtype=np.int64)
        seen = [Cells(zeros, zeros, mechanism.unit)] * len(differences)
    else:
        seen = [GroupSums(none, none, none, mechanism.unit)] * len(differences)
    bets: Callable[..., Procedure] = partial(Betting, rows=mechanism.rows)
    if not units.independent:
        bets = partial(betting_on(in_order=units.assumes_no_law), sizes=units.unit_counts)
    return [
        Prepared(each, -1, from_training=False, procedure=bets(training=spread))
        for each, spread in zip(differences, seen, strict=True)
    ]


def _differences_of_metrics(compiler: CompileContext, queries: Sequence[MetricQuery], one: int) -> list[Prepared]:
    """Return the differences between all other metrics and one that are single numbers of all rows."""
    plans = [query.minus(queries[one]).compile(compiler) for place, query in enumerate(queries) if place != one]
    return [plan.prepared[0] for plan in plans if isinstance(plan, OneMean) and plan.is_number]


def _better(bound: BoundQuery, low: float, high: float, *, lowest: bool) -> float:
    """Return the most by which the other candidate is better, as a share of the candidates' range.

    `lowest` is true if the lowest mean is the best.
    """
    ends = [bound.at_zero + (bound.at_one - bound.at_zero) * end for end in (low, high)]
    width = abs(bound.at_one - bound.at_zero) / 2.0
    return (-min(ends) if lowest else max(ends)) / width
