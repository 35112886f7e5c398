"""Populations whose rows depend on each other, and mechanisms that are told so or not, for the coverage studies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from coverage_studies.families import CopiedInFamilies

from everhold.dependence import Independent
from everhold.mechanisms import MECHANISMS, Mechanism
from everhold_lab.analysts import (
    Analyst,
    FingerprintingAnalyst,
    GreedySelectionAnalyst,
    HillClimbingAnalyst,
    HonestAnalyst,
)
from everhold_lab.audit.boards import CopiedInGroups, CopiedInOrder, Population
from everhold_lab.audit.coverage import CoverageStudy, coverage_study, edge_of_checks

ROUNDS = 4
VOTES = 40  # queries kept for votes: the tracer asks 37, all others fewer
TRIES = 32
SLACK = 0.2
ANALYSTS = ("honest", "climbing", "greedy", "fingerprinting", "probing")


@dataclass(frozen=True)
class DependentCase:
    """A population and a mechanism whose radius is below one half where the population's model is declared."""

    population: Population
    mechanism: str
    rows: int
    queries: int
    surprises: int = 3
    beta: float = 0.05

    @property
    def rules(self) -> int:
        return min(self.queries - VOTES, self.population.points - 1)

    @cache  # noqa: B019  a handful of frozen cases
    def tuned(self, *, independent: bool) -> Mechanism:
        """Tuned for the right model, or for independent rows."""
        kind = MECHANISMS[self.mechanism]
        wanted = {"surprises": self.surprises, "slack": SLACK} if kind.traits.needs_guess else {}
        return kind.tuned(
            rows=self.rows, queries=self.queries, confidence=1.0 - self.beta, **wanted,
            dependence=Independent() if independent else self.population.dependence(),
        )  # fmt: skip

    def analysts(self) -> tuple[str, ...]:
        """Names of those to whom the mechanism promises something."""
        if not MECHANISMS[self.mechanism].traits.adaptive:
            return ANALYSTS[:1]
        return ANALYSTS if MECHANISMS[self.mechanism].traits.needs_guess else ANALYSTS[:-1]

    def analyst(self, name: str, mechanism: Mechanism) -> Analyst:
        a_round = -(-self.rules // ROUNDS)
        if name == "probing":  # the sign of every sealed score, while the budget lasts
            return HillClimbingAnalyst(a_round, guess=edge_of_checks(mechanism))
        return {
            "honest": HonestAnalyst(),
            "climbing": HillClimbingAnalyst(a_round),
            "greedy": GreedySelectionAnalyst(TRIES),
            "fingerprinting": FingerprintingAnalyst(ROUNDS),
        }[name]

    def study(self, analyst: str, *, runs: int, independent: bool = False, seed: int = 0) -> CoverageStudy:
        mechanism = self.tuned(independent=independent)
        played = self.analyst(analyst, mechanism)
        return coverage_study(mechanism, played, rules=self.rules, runs=runs, seed=seed, population=self.population)


MANY, FEW = 16_384, 64  # points of a cube: more than there are different records; few enough for a matrix of all states
POPULATIONS: dict[str, Population] = {
    "groups of 5": CopiedInGroups(points=MANY, size=5),
    "groups of 50": CopiedInGroups(points=MANY, size=50),
    "groups of 50, loose": CopiedInGroups(points=MANY, size=50, share=0.8),
    "families of 6": CopiedInFamilies(points=MANY, children=4),
    "chain, correlation 0.5": CopiedInOrder(points=FEW, correlation=0.5),
    "chain, correlation 0.9": CopiedInOrder(points=FEW, correlation=0.9),
}
SIZES = {  # rows and queries; thresholdout needs more rows on chains
    "groups of 5": (20_480, 3_600),
    "groups of 50": (204_800, 3_600),
    "groups of 50, loose": (204_800, 3_600),
    "families of 6": (24_576, 3_600),
    "chain, correlation 0.5": (16_384, 100),
    "chain, correlation 0.9": (65_536, 100),
}
MORE_ROWS = {"chain, correlation 0.5": 32_768, "chain, correlation 0.9": 262_144}


def case_of(population: str, mechanism: str) -> DependentCase:
    rows, queries = SIZES[population]
    if mechanism == "thresholdout":
        rows = MORE_ROWS.get(population, rows)
    return DependentCase(POPULATIONS[population], mechanism, rows, queries)


NAMES = ("guess_and_check", "thresholdout", "gaussian", "empirical")
CASES = {(population, mechanism): case_of(population, mechanism) for population in POPULATIONS for mechanism in NAMES}
