"""Shares of the variance of results between cases and between runs, and the smallest step that can be proved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everhold.display import Display
from everhold.guarantees.intervals.claims import MOST_STAKE, most_nats, stakes_for
from everhold.queries.case_results import NEW_RUNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.case_results import CaseSuite

__all__ = ["VarianceShares", "smallest_step", "step_with_power", "variance_shares"]

_POWER_80 = 0.8416  # standard normal quantile of 80 %


@dataclass(frozen=True, slots=True)
class VarianceShares(Display):
    """Where the variance of a challenger's results lies; computed from these results alone.

    Attributes:
        metric: The first metric of the gate.
        between_cases: Share of the variance of a single run that lies between cases, in [0, 1]; None for one run.
        between_runs: The rest, between runs of the same case; None for one run.
        cases: Cases of the suite.
        runs: Runs of each.
        population: The gate's population.
        helps: What would make the smallest step smaller: ``"runs"``, ``"cases"``, or ``"either"``.
    """

    metric: str
    between_cases: float | None
    between_runs: float | None
    cases: int
    runs: int
    population: str
    helps: str

    def __str__(self) -> str:
        if self.between_cases is None:
            return f"{self.metric}: one run of each case, so runs cannot be told from cases; {_ADVICE[self.helps]}"
        return (
            f"{self.metric}: {100 * self.between_cases:.0f} % of the variance of a run lies between cases, "
            f"{100 * (1 - self.between_cases):.0f} % between runs of one case; {_ADVICE[self.helps]}"
        )


_ADVICE = {
    "runs": "more runs help",
    "cases": "more cases help, more runs hardly",
    "either": "more cases or more runs help",
}


def variance_shares(suite: CaseSuite, values: NDArray[np.float64], *, nats: float) -> VarianceShares:
    """Shares of variance in the first metric.

    Args:
        suite: The cases.
        values: Results, shape (cases, runs, metrics).
        nats: ln(1 / level) of the next challenge.
    """
    first, runs = values[:, :, 0], suite.runs
    between: float | None = None
    if runs > 1:
        within = float(first.var(axis=1, ddof=1).mean())
        across = max(float(first.mean(axis=1).var(ddof=1)) - within / runs, 0.0)
        between = across / (across + within) if across + within else 1.0
    bound = len(suite.ids) * math.log1p(MOST_STAKE)
    if suite.population == NEW_RUNS or between is None:
        helps = "either"
    else:
        helps = "runs" if (1.0 - between) / runs > between and nats < bound else "cases"
    return VarianceShares(
        suite.metrics[0].name, between, None if between is None else 1.0 - between, len(suite.ids), runs,
        suite.population, helps,
    )  # fmt: skip


def smallest_step(units: int, floor: float, nats: float) -> float | None:
    """The smallest mean gain that so many units can prove if none spreads; None if not even the gain 1 can be.

    Source: n ln(1 + stake (gain - floor) / (1 + floor)) >= nats.

    Examples:
        >>> round(smallest_step(100, 0.0, 8.4), 4)
        0.0922
        >>> smallest_step(10, 0.0, 8.4) is None
        True
    """
    gain: float = floor + (1.0 + floor) * math.expm1(nats / units) / MOST_STAKE
    return None if gain > 1.0 or most_nats(units, floor) < nats else gain


def step_with_power(
    *, cases: int, runs: int, nats: float, disagreement: float, population: str, between: float = 0.0
) -> float | None:
    """The smallest gain that is promoted with a probability of 80 %, nearly; None if none is.

    Args:
        cases: Independent cases.
        runs: Runs of each.
        nats: ln(1 / level).
        disagreement: Share of runs in which challenger and champion differ.
        population: `NEW_CASES` or `NEW_RUNS`.
        between: Share of the variance of run differences that lies between cases, in [0, 1].

    Examples:
        >>> step_with_power(cases=100, runs=16, nats=8.4, disagreement=0.2, population="new cases")
        0.115
    """
    units = cases * runs if population == NEW_RUNS else cases
    for gain in np.arange(0.005, disagreement + 0.0025, 0.005).tolist():
        spread = max(disagreement - gain * gain, 0.0)
        if population != NEW_RUNS:
            spread *= between + (1.0 - between) / runs
        if _reaches(units, gain, math.sqrt(spread), nats):
            return float(round(gain, 3))
    return None


def _reaches(units: int, gain: float, sd: float, nats: float) -> bool:
    """True if the mixture reaches the level in four cases of five, by the normal law of log capital."""
    stakes = stakes_for(units, nats)
    low, high = max(gain - sd, -1.0), min(gain + sd, 1.0)  # two gains with this mean and spread
    logs = np.log1p(np.outer(stakes, [low, high]))
    growth = units * logs.mean(axis=1) - _POWER_80 * math.sqrt(units) * logs.std(axis=1)
    return bool(np.logaddexp.reduce(growth) - math.log(len(stakes)) >= nats)
