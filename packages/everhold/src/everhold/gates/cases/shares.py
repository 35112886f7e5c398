"""Shares of the variance of results between cases and between runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everhold.display import Display
from everhold.gates.facts import NEW_RUNS
from everhold.guarantees.intervals.pairs.claims import MOST_STAKE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.gates.cases.results import CaseSuite


@dataclass(frozen=True, slots=True)
class VarianceShares(Display):
    """Shares of the variance of a challenger's results; computed from these results alone.

    Attributes:
        metric: The first metric of the gate.
        between_cases: Share of the variance of a single run that lies between cases, in [0, 1]; None for one run.
        between_runs: The rest, between runs of the same case; None for one run.
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


def _first_numbers(suite: CaseSuite, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers of the first success, shape (cases, runs); a ratio by its deviations from the ratio of these results."""
    name = suite.better[0]
    places = {metric.name: place for place, metric in enumerate(suite.metrics)}
    if name not in suite.ratios:
        return values[:, :, places[name]]
    top, bottom = (values[:, :, places[part]] for part in (suite.ratios[name].top, suite.ratios[name].bottom))
    return np.asarray(top - bottom * (top.mean() / max(bottom.mean(), 1e-300)))


def variance_shares(suite: CaseSuite, values: NDArray[np.float64], *, nats: float) -> VarianceShares:
    """Shares of variance in the first metric.

    Args:
        suite: The cases.
        values: Results, shape (cases, runs, metrics).
        nats: ln(1 / level) of the next challenge.
    """
    first, runs = _first_numbers(suite, values), suite.runs
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
        suite.better[0], between, None if between is None else 1.0 - between, len(suite.ids), runs,
        suite.population, helps,
    )  # fmt: skip
