"""The units of a gate about cases, their secret order, and the looks at which claims are tested (S11, S12)."""

from __future__ import annotations

import hashlib
import hmac
import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from everhold.arguments import as_whole, brief
from everhold.errors import QueryRejected
from everhold.gates.challenge import NEW_RUNS
from everhold.guarantees.intervals.claims import (
    MOST_STAKE,
    ClaimUnits,
    RatioUnits,
    extra_nats,
    first_proof,
    least_gain,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from everhold.gates.records import Opened
    from everhold.gates.results import CaseMetric, CaseSuite
    from everhold.guarantees.intervals.claims import GateClaim, UnitValues
    from everhold.ledger.chain import Numbers

EARLY_PART = 0.75
"""Part of the level of an open challenge that draws with replacement; the rest is for all runs at the end."""

_OF_GAIN = 0.1
"""Part of the level of a challenge with guards, for the gain that unsealing tells (S11). The claims have the rest."""

_HALVINGS = 12
_USUAL_LOOKS = 20
_FEWEST_RUNS = 4  # with fewer, a case has no runs left when it is drawn again


def run_chunks(runs: int) -> list[slice]:
    """Return slices of a case's runs, one for each time it is drawn, each with half of the remaining runs.

    Examples:
        >>> [chunk.stop - chunk.start for chunk in run_chunks(8)]
        [4, 2, 1, 1]
    """
    found, start = [], 0
    while start < runs:
        stop = start + math.ceil((runs - start) / 2)
        found.append(slice(start, stop))
        start = stop
    return found


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """The units of a suite: cases or groups of cases. The plan computes what results on the units can prove.

    Attributes:
        groups: Shape (cases,): unit of each case, from 0.
    """

    suite: CaseSuite
    groups: NDArray[np.int64] = field(repr=False)

    @property
    def sizes(self) -> NDArray[np.float64]:
        """Number of cases in each unit, shape (units,)."""
        return np.bincount(self.groups).astype(np.float64)

    @property
    def count(self) -> int:
        """Number of units that are handed out in an open challenge."""
        return len(self.sizes)

    @property
    def all_at_once(self) -> int:
        """Number of units when all results are reported. With new runs of the same cases, each run is a unit."""
        return len(self.suite.ids) * self.suite.runs if self.suite.population == NEW_RUNS else self.count

    def by_signs(self, claim: GateClaim) -> bool:
        """Return whether the exact sign test proves a claim with a floor of 0, if all results are tested at once."""
        return self.yes_no and not claim.ratio and self.suite.metric(claim.metric).yes_no

    @property
    def yes_no(self) -> bool:
        """Whether each unit is a single run of one independent case of a population."""
        return self.suite.population != NEW_RUNS and self.suite.runs == 1 and self.count == len(self.suite.ids)

    @property
    def redraws(self) -> bool:
        """Whether open challenges draw cases with replacement. Each draw of a case uses runs of its own."""
        return self.suite.population == NEW_RUNS and self.suite.runs >= _FEWEST_RUNS

    def looks(self, batch: Any = None) -> int:
        """Return the number of looks that batches of this size lead to; by default 20, or as many as there are units.

        Raises:
            QueryRejected: If ``batch`` is not from 1 to the number of cases.
        """
        wanted = max(math.ceil(self.count / _USUAL_LOOKS), 1) if batch is None else as_whole(batch)
        cases = len(self.suite.ids)
        if wanted is None or not 1 <= wanted <= cases:
            raise QueryRejected(f"The batch is {brief(batch)}. Pass a whole number from 1 to the {cases} cases.")
        return max(math.ceil(self.count / wanted), 1)

    def last_nats(self, nats: float, looks: int) -> float:
        """Return ln(1 / level) of the last of ``looks`` looks at an open challenge, when all results are reported.

        ``nats`` is ln(1 / level) of the whole challenge.
        """
        if self.suite.population != NEW_RUNS:
            return nats
        return nats - math.log(1.0 - EARLY_PART) if self.redraws else nats + math.log(looks)

    def can_prove_early(self, nats: float, looks: int) -> bool:
        """Return whether the best possible results would prove an open challenge with this number of looks."""
        return self.can_prove(self.last_nats(nats, looks), looks=True)

    def for_claims(self, nats: float) -> float:
        """Return ln(1 / level) of the claims together.

        If there are guards, a part of the level is for the interval of the gain.
        """
        return nats - math.log(1.0 - _OF_GAIN) if any(claim.guard for claim in self.suite.claims) else nats

    def can_prove(self, nats: float, *, looks: bool = False) -> bool:
        """Return whether the best possible results would prove the claims at a level of ``exp(-nats)``.

        Args:
            nats: ln(1 / level), where the level is the error probability of the challenge.
            looks: True for the end of an open challenge, whose results are tested at several looks; False if all
                results are tested once.
        """
        claims, needed = self.suite.claims, self.for_claims(nats)

        def provable(claim: GateClaim) -> bool:
            level = needed + extra_nats(claims, claim)
            if claim.ratio:
                return self.all_at_once * math.log1p(MOST_STAKE) >= level
            return self._best(claim, looks=looks).proves(claim, level)

        found = list(map(provable, claims))
        first = len(self.suite.better)
        return any(found[:first]) and all(found[first:])

    def by_tail(self, claim: GateClaim) -> bool:
        """Return whether a claim is proved by the binomial tail of yes-or-no runs and not by a bet (Lemma Y)."""
        return self.suite.tail and not (claim.guard or claim.ratio) and self.suite.metric(claim.metric).yes_no

    def _best(self, claim: GateClaim, *, looks: bool = False) -> ClaimUnits:
        """Return the values of a claim if the challenger is always right and the other version never.

        `looks` is true if the claim is tested at several looks, and false if it is tested once with all results.
        """
        sizes = np.ones(self.all_at_once) if self.suite.population == NEW_RUNS else self.sizes
        signs, tail = not looks and self.by_signs(claim), self.by_tail(claim)
        return ClaimUnits(sizes, sizes, float(sizes.max()), signs=signs, tail=tail)

    def smallest_step(self, nats: float, *, looks: bool = False) -> float | None:
        """Return the smallest gain in the first metric with which any results prove the claims, in its units, or None.

        The result is None for a ratio, or if no gain can be proved.

        Args:
            nats: ln(1 / level), where the level is the error probability of the challenge.
            looks: True for the end of an open challenge, whose results are tested at several looks; False if all
                results are tested once.
        """
        claims, first = self.suite.claims, self.suite.first
        if first is None or not self.can_prove(nats, looks=looks):
            return None
        level = self.for_claims(nats) + extra_nats(claims, claims[0])
        runs = 1 if self.suite.population == NEW_RUNS else self.suite.runs
        step = 0.5 / runs if first.yes_no else 0.0
        gain = least_gain(claims[0], self._best(claims[0], looks=looks), level, step=step)
        return gain * first.width if gain <= 1.0 else None

    def equal_proves(self, claim: GateClaim, nats: float) -> bool:
        """Return whether results that equal those of the other version prove a claim about a difference."""
        best = self._best(claim)
        return replace(best, sums=best.sizes / 2.0).proves(claim, nats)

    def least_slacks(self, nats: float) -> dict[str, float]:
        """Return the slack that each guard needs to be provable, for guards that even an equal version cannot prove."""
        level, found = self.for_claims(nats), {}
        for claim in self.suite.claims:
            if not claim.guard or claim.fixed or claim.ratio:
                continue
            low, high = 0.0, 1.0
            for _ in range(_HALVINGS):
                middle = (low + high) / 2.0
                proved = self.equal_proves(replace(claim, floor=-middle), level)
                low, high = (low, middle) if proved else (middle, high)
            if high > -claim.floor:
                found[claim.metric] = high * self.suite.metric(claim.metric).width
        return found


@dataclass(frozen=True, slots=True)
class PairedResults:
    """Results of a challenger, of the champion and of the baseline on the same cases. Secret.

    Attributes:
        plan: The units into which the cases are divided.
        challenger: Results of the challenger, shape (cases, runs, metrics).
        champion: Results of the champion, in the same shape.
        baseline: Results of the baseline, in the same shape.
    """

    plan: UnitPlan
    challenger: NDArray[np.float64] = field(repr=False)
    champion: NDArray[np.float64] = field(repr=False)
    baseline: NDArray[np.float64] = field(repr=False)

    def proves(self, nats: float) -> bool:
        """Return whether all results, tested once, prove the claims at the level ``exp(-nats)``."""
        planned = self.plan.all_at_once
        return self._proof(self._whole(), planned, self.plan.for_claims(nats), [planned]) is not None

    def unsealed(
        self, nats: float, proves: Callable[[PairedResults, float], bool] | None = None,
        reported: NDArray[np.bool_] | slice = slice(None),
    ) -> Numbers | None:  # fmt: skip
        """Return mean, lower and upper end of the first success as means of ``(1 + gain) / 2``, for an unsealing.

        The lower end is the largest floor that the test of the promotion proves, within 1/2,048, and at most the mean.
        If the gate has guards, the lower end has a level of its own. The result is None if the success is a ratio,
        which has no range.

        Args:
            nats: ln(1 / level) of the challenge.
            proves: The test of the promotion; by default all results are tested once.
            reported: The cases that the mean is about, by default all.
        """
        plan, suite = self.plan, self.plan.suite
        claim, first = suite.claims[0], suite.first
        if first is None:
            return None
        guarded = any(each.guard for each in suite.claims)
        nats += -math.log(_OF_GAIN) if guarded else math.log(len(suite.better))
        # below 0 more is proved of all runs than of those left
        of_all = plan.by_tail(claim) and suite.missing == "drop-case"

        def proved(floor: float) -> bool:
            floor = floor if floor == claim.floor else floor or 2.0**-40  # the sign test is about one floor alone
            alone = replace(suite, better=suite.better[:1], margin=floor * first.width, not_worse={}, limits={})
            made = replace(self, plan=replace(plan, suite=alone))
            found = made.proves(nats) if proves is None else proves(made, nats)
            return found and not (of_all and floor < 0.0)

        low, high = (claim.floor, 1.0) if proved(claim.floor) else (-1.0, claim.floor)
        by_signs = proves is None and plan.by_signs(claim) and claim.floor == 0.0
        for _ in range(0 if by_signs else _HALVINGS):
            middle = (low + high) / 2.0
            low, high = (middle, high) if proved(middle) else (low, middle)
        values, kept = self._columns(claim)[0][reported], self._kept(claim)
        counts = np.ones_like(values) if kept is None else kept[reported]
        mean = float((values * counts).sum() / counts.sum()) if counts.any() else 0.5
        return mean, min((1.0 + low) / 2.0, mean), 1.0

    def proves_early(self, nats: float, order: Sequence[int], looks: Sequence[int], *, planned_looks: int) -> bool:
        """Return whether the claims are proved at the latest look, or were proved at an earlier look.

        If the promise is about new cases, the capital is a fair game in the shuffled order, so one level covers all
        looks (Ville). If it is about new runs of these cases, each look is at a fixed number of cases, and the looks
        share the level. A unit is then a case until all cases have results.

        Args:
            nats: ln(1 / level) of the whole challenge.
            order: Units in the order in which they were handed out, so far.
            looks: Numbers of units at the looks so far, rising.
            planned_looks: Largest number of looks.
        """
        plan = self.plan
        level = plan.for_claims(nats)
        if plan.suite.population != NEW_RUNS:
            return self._proof(self._handed_out(order), plan.count, level, looks) is not None
        nats, level = nats + math.log(planned_looks), level + math.log(planned_looks)
        partial = [look for look in looks if look < plan.count]
        if partial and self._proof(self._handed_out(order), plan.count, level, partial) is not None:
            return True
        return looks[-1] == plan.count and self.proves(nats)

    def proves_drawn(self, nats: float, draws: Sequence[int], *, whole: bool) -> bool:
        """Return whether the claims are proved after any draw with replacement, or by all runs at the end.

        Each draw of a unit looks at runs that no earlier draw has looked at, so that its mean given the past is that of
        all units: the capital is a fair game. When a unit has no runs left, its value is the worst one.

        Args:
            nats: ln(1 / level) of the whole challenge.
            draws: Units as they were drawn, all of them reported.
            whole: True if no result is missing.
        """
        plan, chunks = self.plan, run_chunks(self.plan.suite.runs)
        units, sizes = np.asarray(draws, dtype=np.intp), plan.sizes
        counts = np.zeros(plan.count, dtype=np.intp)
        used = np.empty(len(draws), dtype=np.intp)
        for place, unit in enumerate(draws):
            used[place] = counts[unit]
            counts[unit] += 1
        last = np.minimum(used, len(chunks) - 1)

        def drawn(values: NDArray[np.float64]) -> NDArray[np.float64]:
            by_chunk = [np.bincount(plan.groups, weights=values[:, chunk].mean(axis=1)) for chunk in chunks]
            return np.asarray(np.stack(by_chunk)[last, units])

        values = self._units(drawn, sizes[units], largest=float(sizes.max()), spent=used == len(chunks))
        early, planned = plan.for_claims(nats) - math.log(EARLY_PART), max(plan.count // 2, 1)
        if len(draws) and self._proof(values, planned, early, range(1, len(draws) + 1)) is not None:
            return True
        return whole and self.proves(nats - math.log(1.0 - EARLY_PART))

    def hopeless(self, nats: float, seen: NDArray[np.bool_]) -> bool:
        """Return whether even a gain two standard errors above the observed one would prove nothing.

        Any rule would be valid, because an early end costs a surprise (S12). At least a quarter of the cases must be
        reported.

        Args:
            nats: ln(1 / level) of the verdict at the end.
            seen: Shape (cases,): True for cases that were reported.
        """
        plan = self.plan
        if 4 * seen.sum() < len(seen):
            return False
        lost: dict[bool, list[bool]] = {True: [], False: []}
        for claim in plan.suite.claims:
            if claim.ratio:  # how far it could still come is not estimated
                lost[claim.guard].append(False)
                continue
            (values,) = self._columns(claim)
            gains = 2.0 * values[seen] - 1.0
            means = gains.mean(axis=1)
            best = means.mean() + 2.0 * means.std() / math.sqrt(len(means))
            spread = gains.var() if plan.suite.population == NEW_RUNS else means.var()
            level = nats + (0.0 if claim.guard else math.log(len(plan.suite.better)))
            needed = claim.floor + math.sqrt(2.0 * level * spread / plan.all_at_once)
            lost[claim.guard].append(best < max(needed, least_gain(claim, plan._best(claim, looks=True), level)))
        return any(lost[True]) or all(lost[False])

    def _proof(self, units: Sequence[UnitValues], planned: int, nats: float, looks: Sequence[int]) -> int | None:
        return first_proof(self.plan.suite.claims, units, planned=planned, nats=nats, looks=looks)

    def _columns(self, claim: GateClaim) -> list[NDArray[np.float64]]:
        """Return the numbers of a claim, each (cases, runs): ``(1 + gain) / 2``, or the four columns of a ratio."""
        suite = self.plan.suite
        other = self.baseline if claim.guard else self.champion
        if claim.ratio:
            ratio = suite.ratios[claim.metric]
            columns = [suite.metric(name) for name in (ratio.top, ratio.bottom)]
            return [of[:, :, self._place(column)] for column in columns for of in (self.challenger, other)]
        metric = suite.metric(claim.metric)
        own = metric.scaled(self.challenger[:, :, self._place(metric)])
        return [own if claim.fixed else (1.0 + own - metric.scaled(other[:, :, self._place(metric)])) / 2.0]

    def _kept(self, claim: GateClaim) -> NDArray[np.float64] | None:
        """Return 1 for runs that count and 0 for runs that lack a result in both versions, or None (Lemma N).

        The result is None if all runs count.
        """
        if self.plan.suite.missing != "drop-case" or claim.fixed:
            return None
        place = self._place(self.plan.suite.metric(claim.metric))
        own, beside = (of[:, :, place] for of in (self.challenger, self.baseline if claim.guard else self.champion))
        return np.asarray(1.0 - (np.isinf(own) & np.isinf(beside)))

    def _place(self, metric: CaseMetric) -> int:
        return self.plan.suite.metrics.index(metric)

    def _units(
        self, summed: Callable[[NDArray[np.float64]], NDArray[np.float64]], sizes: NDArray[np.float64], *,
        largest: float = 1.0, signs: bool = False, whole: bool = False, spent: NDArray[np.bool_] | None = None,
    ) -> list[UnitValues]:  # fmt: skip
        """Return the values of each claim, unit by unit.

        Args:
            summed: Function from numbers of shape (cases, runs) to sums of shape (units,).
            sizes: Shape (units,): cases in each unit.
            largest: The largest size of all units.
            signs: True if all results are tested at once, so that the exact sign test can be used.
            whole: True if the units are all runs of all cases.
            spent: Shape (units,): True for draws of a case that has no unused run left. Such draws count with the worst
                value.
        """
        suite, gone = self.plan.suite, np.zeros(len(sizes), dtype=bool) if spent is None else spent
        found: list[UnitValues] = []
        whole_sizes = sizes
        for claim in suite.claims:
            kept = self._kept(claim)
            sums = np.stack([summed(each if kept is None else each * kept) for each in self._columns(claim)])
            sizes = whole_sizes if kept is None else np.where(gone, whole_sizes, summed(kept))
            if claim.ratio:
                ratio = suite.ratios[claim.metric]
                top, bottom = ((m.low, m.high) for m in map(suite.metric, (ratio.top, ratio.bottom)))
                found.append(RatioUnits(sums, sizes, top, bottom, ratio.lower, largest, gone))
            else:
                exact = signs and self.plan.by_signs(claim)
                tail = whole and self.plan.by_tail(claim)
                found.append(ClaimUnits(np.where(gone, 0.0, sums[0]), sizes, largest, signs=exact, tail=tail))
        return found

    def against_baseline(self) -> list[ClaimUnits]:
        """Return the values of all claims by unit, as if the baseline were the champion. No claim is a ratio."""
        return cast("list[ClaimUnits]", replace(self, champion=self.baseline)._whole())

    def _whole(self) -> list[UnitValues]:
        if self.plan.suite.population == NEW_RUNS:
            return self._units(np.ravel, np.ones(self.plan.all_at_once), whole=True)
        return self._handed_out(range(self.plan.count), signs=True)

    def _handed_out(self, order: Sequence[int], *, signs: bool = False) -> list[UnitValues]:
        plan, places = self.plan, np.asarray(order, dtype=np.intp)

        def summed(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(np.bincount(plan.groups, weights=values.mean(axis=1))[places])

        return self._units(summed, plan.sizes[places], largest=float(plan.sizes.max()), signs=signs)


# Secret orders of a gate about cases: of those that an open challenge hands out, and of the runs of each case.

_BYTES = 8  # of a secret number of a run


def boundaries(units: int, looks: int) -> list[int]:
    """Return the number of evaluated units after each look, spaced as evenly as possible.

    Examples:
        >>> boundaries(10, 4)
        [3, 5, 8, 10]
    """
    return [math.ceil(units * look / looks) for look in range(1, looks + 1)]


def order_of_units(order_key: bytes, opened: Opened, units: int) -> list[int]:
    """Return all units in a random order, which is secret and another one for each challenge."""
    return sorted(range(units), key=partial(_secret_number, order_key, opened))


def draws_of_units(order_key: bytes, opened: Opened, units: int) -> list[int]:
    """Return secret independent draws of units with replacement, until each unit was drawn."""
    draws: list[int] = []
    missing = set(range(units))
    while missing:
        draws.append(_secret_number(order_key, opened, len(draws)) % units)
        missing.discard(draws[-1])
    return draws


def _secret_number(order_key: bytes, opened: Opened, number: int) -> int:
    name = f"everhold order of cases\n{opened.gate}\n{opened.entry}\n{opened.challenger}\n{number}"
    return int.from_bytes(hmac.digest(order_key, name.encode(), "sha256"), "big")


def with_runs_shuffled(
    order_key: bytes, challenger: str, results: Sequence[NDArray[np.float64]]
) -> list[NDArray[np.float64]]:
    """Return results of challenger, champion and baseline with the runs of every case in a secret order.

    Results may come sorted by outcome. Then first runs would be better than later ones, and the best runs of both
    versions would be compared with each other. In an order that does not depend on the results, all runs have one
    distribution again.

    Args:
        order_key: Key of the steward by which runs are shuffled.
        challenger: Digest of the challenger's name at its gate.
        results: Shape (cases, runs, metrics) each.
    """
    shuffled = []
    for place, values in enumerate(results):
        cases, runs, _ = values.shape
        name = f"everhold order of runs\n{challenger}\n{place}"
        secret = hashlib.shake_256(hmac.digest(order_key, name.encode(), "sha256")).digest(_BYTES * cases * runs)
        order = np.argsort(np.frombuffer(secret, "<u8").reshape(cases, runs), axis=1, kind="stable")
        shuffled.append(np.take_along_axis(values, order[:, :, None], axis=1))
    return shuffled
