"""Mechanisms and analysts of the coverage studies on independent rows, and the queries that fit into each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from everhold.mechanisms import GuessAndCheck, Mechanism
from everhold_lab.analysts import Analyst, HillClimbingAnalyst, HonestAnalyst
from everhold_lab.audit.coverage import CoverageStudy, coverage_study, edge_of_checks
from everhold_privacy.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from everhold_privacy.mechanisms.averages import Empirical, SampleSplitting
from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget
from everhold_privacy.mechanisms.subsampling import RandomRows, Subsampling
from everhold_privacy.mechanisms.thresholdout import Thresholdout

ROUNDS = 4
VOTES = ROUNDS + 2  # "always no", one vote a round, and one for a round that is cut short


@dataclass(frozen=True)
class Case:
    """A mechanism whose radius is below the error that unprotected answers have after as many queries."""

    kind: type[Mechanism]
    rows: int
    queries: int
    wanted: tuple[tuple[str, float], ...] = ()

    @property
    def rules(self) -> int:
        return self.queries - VOTES

    @cache  # noqa: B019  a handful of frozen cases
    def mechanism(self) -> Mechanism:
        return self.kind.tuned(rows=self.rows, queries=self.queries, **dict(self.wanted))

    def analysts(self) -> dict[str, Analyst]:
        a_round = -(-self.rules // ROUNDS)
        analysts: dict[str, Analyst] = {"honest": HonestAnalyst(), "climbing": HillClimbingAnalyst(a_round)}
        if self.kind.traits.needs_guess:  # the sign of every sealed score, while the budget lasts
            analysts["probing"] = HillClimbingAnalyst(a_round, guess=edge_of_checks(self.mechanism()))
        return analysts

    def study(self, analyst: str, *, runs: int, seed: int = 0) -> CoverageStudy:
        return coverage_study(self.mechanism(), self.analysts()[analyst], rules=self.rules, runs=runs, seed=seed)

    def unprotected(self, *, runs: int, seed: int = 0) -> CoverageStudy:
        """The bare averages of the same rows, with the same radius claimed for them."""
        bare = Empirical(rows=self.rows, queries=self.queries)
        radius = self.mechanism().promise().radius
        return coverage_study(bare, self.analysts()["climbing"], rules=self.rules, runs=runs, seed=seed, radius=radius)


PLANNED = (("surprises", 3), ("slack", 0.2))
CASES = {
    "guess_and_check": Case(GuessAndCheck, 4_096, 3_600, PLANNED),
    "thresholdout": Case(Thresholdout, 16_384, 15_000, PLANNED),
    "gaussian": Case(GaussianMechanism, 4_096, 3_600),
    "privacy_budget": Case(PrivacyBudget, 4_096, 3_600),
    "laplace": Case(LaplaceMechanism, 32_768, 31_000),
    "subsampling": Case(Subsampling, 4_096, 3_600),
    "random_rows": Case(RandomRows, 8_192, 7_000),
    "sample_splitting": Case(SampleSplitting, 4_096, 20),
}
