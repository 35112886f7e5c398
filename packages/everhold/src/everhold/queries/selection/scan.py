"""Scans of many means against one threshold, for the first mean above it or for all means above it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from everhold.answers import QuotedPrice
from everhold.arguments import as_float, brief
from everhold.display import at_least, at_most
from everhold.errors import QueryRejected
from everhold.estimand import about_of, marked
from everhold.guarantees.intervals.means import OfMeans
from everhold.ledger import Entry, EntryDraft, Outcome
from everhold.mechanisms.labels import Around, in_millionths, set_nats
from everhold.queries.query import MOST_SHOWN, ExecutionResult, Query, QueryPlan, QuerySpec, rows_of
from everhold.queries.selection import results
from everhold.strict_json import digest
from everhold.values.units import UNITS, MeanUnits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms import PublicLevels, State
    from everhold.queries.query import CompileContext, Pricing, RowwiseQuery
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import Schema

_FREE = (
    "No surprise is charged. Each candidate takes one of the planned queries. More sealed rows bring both limits "
    "closer to the threshold."
)
_MOST_QUERIES = 10_000  # of one step
_DOUBT = 2.0  # standard errors of chances are taken to be so many times larger


@dataclass(frozen=True, slots=True, kw_only=True)
class _Above(results.Paid):
    """The common part of the results of scans: the threshold and the limits, which hold for the population.

    Attributes:
        threshold: The threshold, in the candidates' units.
        low: Lower limit of the means of all candidates that were found above the threshold; None if there are none, or
            if the query was refused.
        high: Upper limit of the means of all candidates that were found below the threshold; None if there are none, or
            if the query was refused.
    """

    threshold: float
    low: float | None
    high: float | None

    @property
    def _least(self) -> str:
        return f"at least {at_least(self.low or 0.0)}"

    @property
    def _most(self) -> str:
        return f"at most {at_most(self.high or 0.0)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstAbove(_Above):
    """The first candidate above a threshold on the sealed rows.

    The population value of this candidate is at least `low`. The mean of each candidate before it is at most `high`. If
    no candidate was found, the mean of every candidate is at most `high`.

    Attributes:
        index: Position of the candidate found; None if none was found or the query was refused.
        found: True if a candidate above the threshold was found, False if not; None if the query was refused.
        asked: The candidate that was found, as people read it; None if there is none.
    """

    index: int | None
    found: bool | None
    asked: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"index", "found", "asked", "threshold", "low", "high", "charged", "remaining", "query"}``."""
        names = ("index", "found", "asked", "threshold", "low", "high")
        return {**{name: getattr(self, name) for name in names}, **self.payment()}

    def _found(self) -> str | None:
        if self.found is None:
            return None
        what = f"candidate {self.index}: {self.asked}, the first above" if self.found else "none above"
        sides = [f"it is {self._least}"] if self.found else [f"all are {self._most}"]
        sides += [f"those before it {self._most}"] if self.index else []
        return f"{what} {self.threshold:g}: {', '.join(sides)}"

    def _meaning(self) -> str:
        if not self.found:
            return f"every candidate is {self._most}. {_FREE}"
        before = f" and each candidate before it is {self._most}" if self.index else ""
        return f"{self.asked} is {self._least}{before}. {_FREE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AllAbove(_Above):
    """All candidates above a threshold on the sealed rows.

    The population value of each candidate found is at least `low`, and that of each other candidate at most `high`.

    Attributes:
        indices: Positions of the candidates found; None if the query was refused.
        asked: The candidates found, as people read them.
        of: Number of all candidates of the scan.
    """

    indices: tuple[int, ...] | None
    asked: tuple[str, ...]
    of: int

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"indices", "asked", "of", "threshold", "low", "high", "charged", "remaining", "query"}``."""
        found = None if self.indices is None else list(self.indices)
        numbers = {"of": self.of, "threshold": self.threshold, "low": self.low, "high": self.high}
        return {"indices": found, "asked": list(self.asked), **numbers, **self.payment()}

    def _found(self) -> str | None:
        if self.indices is None:
            return None
        sides = [self._least] if self.indices else []
        sides += [f"the others {self._most}"] if len(self.indices) < self.of else []
        return f"{len(self.indices):,} of {self.of:,} above {self.threshold:g}: {', '.join(sides)}"

    def _meaning(self) -> str:
        found = len(self.indices or ())
        above = f"the {found:,} candidates that were found above {self.threshold:g} are {self._least}"
        sides = [above] if found else []
        sides += [f"all others are {self._most}"] if found < self.of else []
        return f"{', and '.join(sides)}. {_FREE}"


@dataclass(frozen=True, slots=True)
class ScanQuery(Query["FirstAbove | AllAbove"]):
    """A query that finds the means above a threshold, made by `first_above` or `all_above`.

    Attributes:
        candidates: Means in the same units, in the order of the scan.
        first: True if only the first mean above the threshold is told; False if all are.
    """

    candidates: Iterable[Any]
    threshold: float
    first: bool

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        kind = "first_above" if self.first else "all_above"
        return QuerySpec(kind, self._queries(), {"threshold": self.threshold})

    def _queries(self) -> list[RowwiseQuery]:
        return [
            results.query_of(each, None)
            for each in results.listed(self.candidates, what="candidates", most=_MOST_QUERIES)
        ]

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> ScanPlan:
        """Compile the scan for the rows of one holdout."""
        mechanism = results.checks_guesses(compiler, "a scan", guess=guess, tolerance=tolerance)
        compared = results.Compared.of(compiler, self._queries(), "candidates")
        low, high = sorted((compared.bound[0].at_zero, compared.bound[0].at_one))
        if isinstance(self.threshold, (bool, str)) or not low <= as_float(self.threshold) <= high:
            raise QueryRejected(f"threshold is {brief(self.threshold)}. Pass a number from {low:g} to {high:g}.")
        return ScanPlan(compiler.schema, mechanism, compared, float(self.threshold), self.first)


@dataclass(frozen=True)
class ScanPlan(QueryPlan["FirstAbove | AllAbove"]):
    """A plan for one scan of candidates, with a ledger entry for each of them (corollary M2).

    Attributes:
        first: True if only the first mean above the threshold is told; False if all are.
    """

    schema: Schema
    mechanism: PublicLevels
    compared: results.Compared
    threshold: float
    first: bool

    whole = True

    @cached_property
    def _description(self) -> dict[str, Any]:
        return {
            "kind": "scan", "first": self.first, "threshold": self._at,
            "of": "row values" if self.compared.rises else "complements",
            "candidates": digest([query.query for query in self.compared.bound]),
        }  # fmt: skip

    @property
    def _at(self) -> float:
        """The threshold as a mean that grows with the answers."""
        mean = self.compared.bound[0].to_mean(self.threshold)
        return mean if self.compared.rises else 1.0 - mean

    @property
    def shown(self) -> str:
        """The scan as text for people."""
        return f"{'the first' if self.first else 'all'} above {self.threshold:g} of {self.compared.named()}"

    @cached_property
    def asked(self) -> Sequence[EntryDraft]:  # type: ignore[override]  # an attribute that is made when it is needed
        """The drafts of ledger entries, one for each candidate."""
        drafts = []
        for place, bound in enumerate(self.compared.bound):
            one = {**self._description, "place": place}
            shown = f"{bound.shown} against {self.threshold:g}"
            described = {**one, "shown": shown[:MOST_SHOWN], UNITS: MeanUnits.of(bound).to_list()}
            drafts.append(EntryDraft(digest(one), marked(described, by_position=bound.by_position)))
        return drafts

    @cached_property
    def pricing(self) -> Pricing:  # type: ignore[override]
        """The pricing of the entries. Each one uses up a planned query and costs no surprise."""
        return results.released_once(self.mechanism)

    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> results.SealedValues:
        """Evaluate all candidates on the sealed rows. The result is secret."""
        return self.compared.evaluate(sealed)

    def answer(
        self, state: State, seen: results.SealedValues, rows: list[int], noise: Noise
    ) -> tuple[State, list[Outcome]]:
        """Return the new state and one outcome for each candidate: whether it is above, and both limits."""
        nats = self._levels(state)
        procedures = self.compared.procedures(float(nats[-1]))
        lows, highs = self._ends(procedures, seen, nats)
        means = seen.means if self.compared.rises else 1.0 - seen.means
        above = means >= self._at
        label = set_nats(above, self._chances(procedures), first=self.first)
        low, high, cost = self._limits(procedures, nats, above, lows, highs)
        end = int(np.argmax(above)) + 1 if self.first and np.any(above) else len(above)
        outcomes = []
        for place in range(len(above)):
            side = (low, 1.0) if above[place] else (0.0, high)
            told = self.compared.turned(*side) if place < end else (None, None)
            ends = self.compared.turned(float(lows[place]), float(highs[place]))
            answer = {
                "value": None, "low": told[0], "high": told[1], "source": results.CHOSEN,
                "above": bool(above[place]) if place < end else None,
                "node": {"by": procedures[place].name, "nats": float(nats[place])},
            }  # fmt: skip
            outcomes.append(Outcome(answer, 0, (float(seen.means[place]), *ends)))
        return state.after(asked=len(above), charged=0, labels=in_millionths(label + cost)), outcomes

    def _levels(self, state: State) -> NDArray[np.float64]:
        """Return ln(1 / level) of each candidate's entry, shape (candidates,)."""
        places = state.asked + 1 + np.arange(len(self.compared))
        return self.mechanism.nats(places, state.charged, state.labels / 1e6)

    def _ends(
        self, procedures: Sequence[Procedure], seen: results.SealedValues, nats: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Compute both ends of every interval, for means that grow with the answers, shape (candidates,) each."""
        low, high = np.empty(len(nats)), np.empty(len(nats))
        for level in np.unique(nats).tolist():
            some = np.flatnonzero(nats == level).tolist()
            low[some], high[some] = results.ends_of(
                [procedures[one] for one in some], seen.some(some), level, rounding=self.mechanism.rounding
            )
        return self.compared.turned(low, high)

    def _limits(
        self, procedures: Sequence[Procedure], nats: NDArray[np.float64], above: NDArray[np.bool_],
        lows: NDArray[np.float64], highs: NDArray[np.float64],
    ) -> tuple[float, float, float]:  # fmt: skip
        """Return the lower limit of candidates above, the upper limit of others, and ln(1 / prior) of both."""
        low, high = self._expected(procedures, float(np.max(nats)))
        if all(isinstance(procedure, OfMeans) for procedure in procedures):
            return low, high, 0.0  # no sealed interval sticks out: they follow from the threshold alone
        found = above if not self.first else above & (np.cumsum(above) == 1)
        before = ~above if not self.first else np.cumsum(above) == 0
        down, first = _beyond(self._at - low, self._at - np.min(lows[found], initial=1.0))
        up, second = _beyond(high - self._at, np.max(highs[before], initial=0.0) - self._at)
        return max(self._at - down, 0.0), min(self._at + up, 1.0), first + second

    def _expected(self, procedures: Sequence[Procedure], nats: float) -> tuple[float, float]:
        """Return the widest interval that sealed rows exactly at the threshold would have."""
        at, rounding = self._at if self.compared.rises else 1.0 - self._at, self.mechanism.rounding
        distinct = [*dict.fromkeys(each for each in procedures if isinstance(each, OfMeans))] or procedures[:1]
        ends = [self.compared.turned(*each.expected(at, nats)) for each in distinct]
        low, high = min(low for low, _ in ends) - rounding, max(high for _, high in ends) + rounding
        return max(low, 0.0), min(high, 1.0)

    def _chances(self, procedures: Sequence[Procedure]) -> NDArray[np.float64]:
        """Return the probability of each candidate to be above the threshold, from public facts, (candidates,)."""
        chances = np.full(len(procedures), 0.5)
        for place, estimate in enumerate(self.compared.estimates.tolist()):
            if not math.isnan(estimate):
                error = _DOUBT * max(procedures[place].standard_error(estimate), 1e-9)
                mean = estimate if self.compared.rises else 1.0 - estimate
                chances[place] = scipy.special.ndtr((mean - self._at) / error)
        rare = 0.25 / len(procedures)
        return np.asarray(np.clip(chances, rare, 1.0 - rare))

    def present(self, result: ExecutionResult) -> FirstAbove | AllAbove:
        """Return the result with the candidates that were found above the threshold."""
        entries = [entry for entry in result.entries if entry is not None]
        refused = len(entries) < len(result.entries)
        shared: dict[str, Any] = {
            "threshold": self.threshold, "charged": sum(entry.charged for entry in entries), "shown": self.shown,
            "remaining": result.remaining, "query": digest(self._description),
            "confidence": self.mechanism.confidence,
            "repeated": not refused and all(entry.repeated for entry in entries),
            "about": about_of(self.schema, by_position=self.compared.by_position),
            "rows": rows_of(entries[0].answer) if entries else None,
        }  # fmt: skip
        answers = [] if refused else [entry.answer for entry in entries]
        found = tuple(place for place, answer in enumerate(answers) if answer["above"])
        low, high = _in_units(MeanUnits.of(self.compared.bound[0]), answers, row_step=self.mechanism.row_step)
        names = tuple(self.compared.bound[place].shown for place in found)
        if not self.first:
            return AllAbove(
                indices=None if refused else found, asked=names, of=len(self.compared), low=low, high=high, **shared
            )
        return FirstAbove(
            index=found[0] if found else None, found=None if refused else bool(found),
            asked=names[0] if found else None, low=low, high=high, **shared,
        )  # fmt: skip

    def quote(self, state: State, stored: Sequence[Entry | None]) -> QuotedPrice:
        """Return the quote. Its width is the largest distance of a wrongly sorted candidate from the threshold."""
        before = all(entry is not None for entry in stored)
        nats = float(np.max(self._levels(state)))
        procedures = self.compared.procedures(nats)
        within = self.compared.width * results.widest(procedures, nats, self.mechanism)
        return QuotedPrice(digest(self._description), within, within, 0, 0, False, before, {})


def _beyond(expected: float, found: float) -> tuple[float, float]:
    """Return the told distance from the threshold to a limit, which is rounded up, and ln(1 / prior) of its label."""
    expected = max(expected, 2.0**-30)
    return Around(0.0, expected).released_above(max(found, expected))


def _in_units(
    reading: MeanUnits, answers: Sequence[Mapping[str, Any]], *, row_step: float
) -> tuple[float | None, float | None]:
    """Return both limits in the candidates' units, with None for a side without candidates."""
    sides: list[float | None] = []
    for above in (True, False):
        told = [(None, answer["low"], answer["high"]) for answer in answers if answer["above"] is above]
        ends = [reading.in_units(*each, row_step=row_step)[1 if above else 2] for each in told]
        sides.append((min if above else max)([end for end in ends if end is not None], default=None))
    return sides[0], sides[1]


def first_above(candidates: Iterable[Any], threshold: float) -> Any:
    """Build the query that tells the first of several means, in order, that is above a threshold on the sealed rows.

    No surprise is charged (a surprise is an answer that differs from its guess), and no value is told. Each candidate
    takes one of the planned queries.

    Args:
        candidates: Means in the same units, in the order in which they are scanned.
        threshold: The threshold, in the candidates' units. It must not come from the sealed rows.

    Examples:
        >>> first_above([f"delay > {cut}" for cut in (60, 30, 15)], threshold=0.2).threshold
        0.2
    """
    return ScanQuery(candidates, threshold, first=True)


def all_above(candidates: Iterable[Any], threshold: float) -> ScanQuery:
    """Build the query that tells which of several means are above a threshold on the sealed rows.

    No surprise is charged (a surprise is an answer that differs from its guess), and no value is told. Each candidate
    takes one of the planned queries.

    Args:
        candidates: The means that are compared with the threshold, in the same units.
        threshold: The threshold, in the candidates' units. It must not come from the sealed rows.

    Examples:
        >>> all_above(["delay > 60", "delay > 15"], threshold=0.1).first
        False
    """
    return ScanQuery(candidates, threshold, first=False)
