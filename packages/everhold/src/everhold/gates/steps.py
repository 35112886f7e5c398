"""Gains that cases prove: planned before they are sealed, and forecast from open cases.

`everhold plan --cases` prints a `CasePlan`, and `Gate.worth_asking` returns a `ChallengeWorth`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy

from everhold.display import Display
from everhold.errors import QueryRejected
from everhold.gates.challenge import NEW_RUNS
from everhold.guarantees.intervals.claims import ClaimUnits, GateClaim, least_by_tail, least_gain, sign_nats, stakes_for
from everhold.mechanisms import GuessAndCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import altair as alt
    from numpy.typing import NDArray

    from everhold.gates.units import UnitPlan


_MOST_CASES = 10**7
POWER_80 = 0.8416  # standard normal quantile of 80 %
NOT_PROVABLE = "not provable"


@dataclass(frozen=True, slots=True)
class PolicyPlan(Display):
    """Comparison of policies by simulated nights of an optimiser.

    Attributes:
        nights: Simulated nights of each policy.
        start: Mean true quality at the start.
        recommended: The policy that ends with the best version among those that prove their promotions. None if none
            proved any.
        unproved: Share of the recommended policy's nights that end without a promotion.
        table: One row for each policy: mean true quality at the end of its nights with the standard error, wrong
            promotions a night, and the share of nights without a promotion. This share is None if a policy proves
            nothing.
    """

    rows_in: ClassVar[str] = "table"

    nights: int
    start: float
    recommended: str | None
    unproved: float
    table: Sequence[dict[str, Any]]

    def explain(self) -> str:
        """Explain in words which policy is recommended, and how many nights proved no version better."""
        more = " More cases help." if self.unproved > 0.2 else ""
        advice = "Nothing was proved in any night, so the first version stayed. Use more cases."
        if self.recommended is not None:
            advice = (
                f"Recommended: {self.recommended}. {100 * self.unproved:.0f} % of its nights ended without a "
                f"proof, and then the first version stayed.{more}"
            )
        return (
            f"{advice}\nMean of {self.nights} simulated nights, from a true quality of {self.start:.2f}: one change "
            "in fifty is a large step up, three in ten are steps down, and one run in twenty is judged wrongly."
        )


@dataclass(frozen=True, slots=True)
class CasePlan(Display):
    """Table of the smallest gains that a gate about cases can prove.

    Attributes:
        cases: Cases of the suite.
        runs: Runs of each case.
        challenges: Number of challenges that the gate is planned for.
        disagreement: Share of runs in which challenger and champion differ.
        confidence: Probability with which all promotions hold.
        nats: ln(1 / level) of a challenge before the first promotion.
        after: Smallest gains after one, two and three promotions.
        table: One row for each number of cases and runs: cases, runs, and the smallest gain that is promoted in four of
            five nights, for a promise about new cases and for one about new runs of these cases; or "not provable".
        policies: Comparison of policies by simulated nights, see `everhold.gates.nights.compare_policies`; None
            if none were simulated.
    """

    rows_in: ClassVar[str] = "table"

    cases: int
    runs: int
    challenges: int
    disagreement: float
    confidence: float
    nats: float
    after: Sequence[float]
    table: Sequence[dict[str, Any]]
    policies: PolicyPlan | None = None

    def chart(self) -> alt.LayerChart:
        """Draw the smallest steps against the number of runs. Needs the extra ``[plots]``."""
        return case_plan_chart(self)

    def explain(self) -> str:
        """Explain in words the level and the smallest gain that can be proved at all."""
        later = ", ".join(f"{nats:.1f}" for nats in self.after)
        each = np.ones(self.cases)
        least = least_gain(GateClaim("", 0.0), ClaimUnits(each, each), self.nats)
        bare = "nothing" if least > 1.0 else f"a gain of {least:.3f}"
        return (
            "The columns 'new cases' and 'new runs' have the smallest gain that is promoted in four of five nights.\n"
            f"A challenge has the level exp(-{self.nats:.1f}). After one, two and three "
            f"promotions the exponent is {later}.\nOn {self.cases} new cases {bare} is "
            "provable even without any spread." + ("" if self.policies is None else f"\n{self.policies.explain()}")
        )


def plan_cases(
    *, cases: int, runs: int = 1, challenges: int = 200, disagreement: float = 0.2, confidence: float = 0.95
) -> CasePlan:
    """Plan a gate about cases: return the smallest gains that it can prove.

    Args:
        cases: Number of cases, which are independent of each other.
        runs: Runs of each case.
        challenges: Number of challenges that the gate is planned for.
        disagreement: Share of runs in which challenger and champion differ, all of it within cases.
        confidence: Probability with which all promotions hold.

    Raises:
        ValueError: If an argument is outside its range.

    Examples:
        >>> made = plan_cases(cases=100, runs=16, challenges=100)
        >>> made.to_rows()[-3]
        {'cases': 100, 'runs': 16, 'new cases': 0.115, 'new runs': 0.06}
    """
    if not (1 <= cases <= 10**6 and 1 <= runs <= 10**4 and 1 <= challenges <= 10**6 and 0.0 < disagreement <= 1.0):
        raise ValueError(
            f"cases is {cases}, runs is {runs}, challenges is {challenges} and disagreement is {disagreement}. Pass "
            "at most 10^6 cases, 10^4 runs and 10^6 challenges, each at least 1, and a disagreement above 0 and at "
            "most 1."
        )
    mechanism = GuessAndCheck.tuned(rows=cases, queries=challenges, confidence=confidence)
    middle = (challenges + 1) // 2
    levels = [float(mechanism.nats(max(middle, marks + 1), marks, 0.0)) for marks in range(4)]

    def step(some: int, of: int, *, new_runs: bool) -> float | str:
        found = step_with_power(cases=some, runs=of, nats=levels[0], disagreement=disagreement, new_runs=new_runs)
        return NOT_PROVABLE if found is None else found

    grid = sorted({(cases, of) for of in {1, 2, 4, 8, 16, runs}} | {(many * cases, runs) for many in (2, 4)})
    rows = [
        {"cases": some, "runs": of, "new cases": step(some, of, new_runs=False),
         "new runs": step(some, of, new_runs=True)}
        for some, of in grid
    ]  # fmt: skip
    return CasePlan(cases, runs, challenges, disagreement, confidence, levels[0], levels[1:], rows)


def step_with_power(*, cases: int, runs: int, nats: float, disagreement: float, new_runs: bool) -> float | None:
    """Return about the smallest gain that is promoted with a probability of 80 %, or None if no gain is.

    Args:
        cases: Number of cases, which are independent of each other.
        runs: Runs of each case.
        nats: ln(1 / level), where the level is the error probability of the challenge.
        disagreement: Share of runs in which challenger and champion differ.
        new_runs: True if the promise is about new runs of these cases; False if it is about new cases.

    Examples:
        >>> step_with_power(cases=100, runs=16, nats=8.4, disagreement=0.2, new_runs=False)
        0.115
    """
    units = cases * runs if new_runs else cases
    for gain in np.arange(0.005, disagreement + 0.0025, 0.005).tolist():
        if runs == 1 and not new_runs:
            if sign_power(cases=cases, gain=gain, disagreement=disagreement, nats=nats) >= 0.8:
                return float(round(gain, 3))
            continue
        spread = max(disagreement - gain * gain, 0.0)
        if not new_runs:
            spread /= runs
        if reaches(units, gain, math.sqrt(spread), nats):
            return float(round(gain, 3))
    return None


def sign_power(*, cases: int, gain: float, disagreement: float, nats: float) -> float:
    """Return the probability that the exact sign test proves a gain, for one run of each case.

    Examples:
        >>> round(sign_power(cases=100, gain=0.18, disagreement=0.2, nats=8.4), 2)
        0.79
    """
    differing = np.arange(cases + 1.0)
    wins = differing[:, None]  # of so many that differ, at least so many wins prove it
    proved = (wins <= differing) & (_at_least(wins, differing, 0.5) <= math.exp(-nats))
    least = np.where(proved.any(axis=0), proved.argmax(axis=0), cases + 1.0)
    reached = np.where(
        least <= differing, _at_least(least, differing, min((1.0 + gain / disagreement) / 2.0, 1.0)), 0.0
    )
    chances = _at_least(differing, np.full(cases + 1, float(cases)), disagreement)
    return float(np.diff(-chances, append=0.0) @ reached)


def _at_least(wins: NDArray[np.float64], of: NDArray[np.float64], chance: float) -> NDArray[np.float64]:
    """Return the binomial probability of at least ``wins`` successes in ``of`` trials."""
    inside = scipy.special.betainc(np.maximum(wins, 1.0), np.maximum(of - wins, 0.0) + 1.0, chance)
    return np.where(wins <= 0.0, 1.0, np.where(wins > of, 0.0, inside))


def reaches(units: int, gain: float, sd: float, nats: float) -> bool:
    """Return whether a mixture of bets proves a gain in four of five samples, by a normal approximation.

    Args:
        units: Number of independent units, such as cases.
        gain: Mean gain of a unit.
        sd: Standard deviation of the gain.
        nats: ln(1 / level), where the level is the error probability that is allowed.
    """
    two = np.array([max(gain - sd, -1.0), min(gain + sd, 1.0)])  # with this mean and spread
    return bets_reach(units, two, np.array([0.5, 0.5]), nats, quantile=POWER_80)


def bets_reach(
    units: int, gains: NDArray[np.float64], chances: NDArray[np.float64], nats: float, *, quantile: float = 0.0
) -> bool:
    """Return whether a mixture of bets proves a gain, by a normal approximation of its log capital.

    Args:
        units: Number of independent units, such as cases.
        gains: The gains that a unit may have.
        chances: Probability of each of the gains.
        nats: ln(1 / level), where the level is the error probability that is allowed.
        quantile: Normal quantile of the power; 0 for half of the samples.
    """
    stakes = stakes_for(units, nats)
    logs = np.log1p(np.outer(stakes, gains))
    means = logs @ chances
    spreads = np.sqrt((logs - means[:, None]) ** 2 @ chances)
    growth = units * means - quantile * math.sqrt(units) * spreads
    return bool(np.logaddexp.reduce(growth) - math.log(len(stakes)) >= nats)


def more_cases(enough: Callable[[int], bool], cases: int) -> int | None:
    """Return how many cases to add so that ``enough`` is true, within 5 %, or None if ten million are too few.

    Examples:
        >>> more_cases(lambda cases: cases >= 1_000, 100)
        900
    """
    least, most = cases, cases
    while not enough(most):
        least, most = most, 2 * most
        if most > _MOST_CASES:
            return None
    while most - least > max(most // 20, 1):
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most - cases


# Steps that a gate about cases proves, against runs, as a picture.


def case_plan_chart(plan: CasePlan) -> alt.LayerChart:
    """Draw the smallest provable gains of a plan by runs, for new cases and for new runs of the same cases."""
    import altair as alt

    from everhold.charts import styled

    points = [
        {"runs": row["runs"], "step": row[about], "promise": f"{about}, {row['cases']} cases"}
        for row in plan.to_rows()
        for about in ("new cases", "new runs")
        if isinstance(row[about], float)
    ]
    lines = (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("runs:Q", title="runs of each case", scale=alt.Scale(type="log", base=2)),
            y=alt.Y("step:Q", title="smallest step", scale=alt.Scale(domainMin=0)),
            color=alt.Color("promise:N", title=None),
        )
        .properties(width=460, height=280)
    )
    return styled(alt.layer(lines))  # type: ignore[no-any-return]


_GAINS = np.arange(0.005, 1.0, 0.005).tolist()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChallengeWorth(Display):
    """Forecast, made from the open cases, of whether a challenge is worth one of the planned queries.

    Attributes:
        verdict: ``"yes"`` if the gain is enough, or the version has no fault on the open cases. ``"never"`` if the
            sealed cases could not prove even a version without a fault to be better. ``"no"`` otherwise.
        gain: The gain on the open cases, in the units of the first metric. If the version was chosen by the open cases,
            the gain is too high an estimate.
        needed_gain: The gain that the sealed cases prove in four of five such challenges.
        needed_cases: Number of further sealed cases that would prove the gain, or the gain of a version without a fault
            if the verdict is ``"never"``. 0 with ``"yes"``, None if no number is enough.
        sealed_cases: Sealed cases of the suite.
        left: Number of challenges left; None if the gate's challenges are not limited.
    """

    verdict: str
    gain: float
    needed_gain: float
    needed_cases: int | None
    sealed_cases: int
    left: int | None = None

    def __bool__(self) -> bool:
        return self.verdict == "yes"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the forecast as one row."""
        return [{name: getattr(self, name) for name in
                 ("verdict", "gain", "needed_gain", "needed_cases", "sealed_cases", "left")}]  # fmt: skip

    def explain(self) -> str:
        """Explain in words whether to challenge now or to go on improving."""
        more = "" if not self.needed_cases else f" About {self.needed_cases:,} more sealed cases would do."
        if self.verdict == "yes" and self.gain < self.needed_gain:
            return (
                f"Ask: this version has no fault on the open cases, so no better one is known. {self.sealed_cases} "
                f"sealed cases prove its gain of {self.gain:.3f} in about half of the challenges, and "
                f"{self.needed_gain:.3f} in four of five."
            )
        if self.verdict == "yes":
            return (
                f"Ask: the open cases show a gain of {self.gain:.3f}, and {self.sealed_cases} sealed cases prove "
                f"{self.needed_gain:.3f} in four of five challenges."
            )
        if self.verdict == "never":
            return (
                f"Stop: the champion has so few faults that {self.sealed_cases} sealed cases do not prove even a "
                f"version without any to be better.{more}"
            )
        return (
            f"Climb on: the open cases show a gain of {self.gain:.3f}, and {self.sealed_cases} sealed cases prove "
            f"{self.needed_gain:.3f} in four of five challenges.{more}"
        )


def worth_asking(
    plan: UnitPlan, own: NDArray[np.float64], champion: NDArray[np.float64], *, nats: float, left: int | None
) -> ChallengeWorth:
    """Compare the gain on open cases with the least gain that sealed cases prove with a power of 80 %.

    Args:
        plan: The plan of units of the sealed cases.
        own: The challenger's results on open cases, shape (cases, runs, metrics).
        champion: The champion's results on open cases, of the same shape.
        nats: ln(1 / level) of the next challenge.
        left: Number of challenges left; None if the gate's challenges are not limited.

    Raises:
        QueryRejected: If the first success is about a ratio.
    """
    suite, metric = plan.suite, plan.suite.first
    if metric is None:
        raise QueryRejected(
            "The first metric of the gate is a ratio, and the gain that a ratio needs is not known beforehand. "
            "Challenge without a forecast."
        )
    claim = suite.claims[0]
    place, floor = suite.metrics.index(metric), claim.floor
    scaled, others = (metric.scaled(values[:, :, place]) for values in (own, champion))
    if suite.population != NEW_RUNS:  # then a unit is a case with the mean of its runs
        scaled, others = (values.mean(axis=1, keepdims=True) for values in (scaled, others))
    gains, best = scaled - others, 1.0 - others
    gain, most = float(gains.mean()), float(best.mean())
    sealed, level = len(suite.ids), nats + math.log(len(suite.better))
    units_of_a_case, by_tail = plan.all_at_once / sealed, plan.by_tail(claim)
    by_signs = plan.by_signs(claim) and floor == 0.0

    def law(wanted: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return possible gains of a case, and the chance of each, for a version whose mean gain is ``wanted``.

        If ``wanted`` is less than the challenger's gain, some of the challenger's cases are replaced by the champion's.
        If it is more, some are replaced by cases without a fault.
        """
        none = np.zeros_like(best)
        low, high = (none, best) if gain <= 0.0 else (none, gains) if wanted <= gain else (gains, best)
        share = min((wanted - low.mean()) / max(high.mean() - low.mean(), 1e-12), 1.0)
        return np.concatenate([low.ravel(), high.ravel()]), np.repeat([1.0 - share, share], low.size) / low.size

    def proves(cases: int, wanted: float) -> bool:
        units = max(round(cases * units_of_a_case), 1)
        if by_tail:
            return wanted >= least_by_tail(units, floor, level)
        values, chances = law(wanted)
        if by_signs:
            wins, losses = (units * float(chances @ differ) for differ in (values > 0.0, values < 0.0))
            if sign_nats(wins, losses) >= level:
                return True
        return bets_reach(units, values - floor, chances, level)

    def needed(cases: int) -> float:
        """Return the gain that is proved in four of five challenges with this number of cases."""
        least = next((each for each in [*_GAINS[: int(most / _GAINS[0])], most] if proves(cases, each)), math.inf)
        return float(least + POWER_80 * gains.mean(axis=1).std() / math.sqrt(cases))

    def enough(cases: int) -> bool:
        return proves(cases, most) if never else needed(cases) <= gain

    never = not proves(sealed, most)
    now = needed(sealed)
    faultless = gain >= most  # nothing is left to climb to
    verdict = "never" if never else "yes" if gain >= now or faultless else "no"
    return ChallengeWorth(
        verdict=verdict, gain=gain * metric.width, needed_gain=now * metric.width,
        needed_cases=0 if verdict == "yes" else more_cases(enough, sealed), sealed_cases=sealed, left=left,
    )  # fmt: skip
