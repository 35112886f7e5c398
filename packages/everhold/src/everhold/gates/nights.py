"""Simulates nights of an optimiser over a suite, to compare how well policies of asking a gate end.

An optimiser makes changes one after another. Most change little, some are steps down, few are large steps up. A policy
decides which changes it takes, by results on which cases, and what it asks the gate. The versions, their runs and the
judge's errors are simulated, and the gate decides by the tests and levels of `everhold.Gate.challenge`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from everhold.gates.challenge import next_nats
from everhold.gates.opening import often_disagrees, suite_of, with_champion
from everhold.gates.steps import PolicyPlan
from everhold.gates.units import PairedResults, UnitPlan
from everhold.mechanisms import GuessAndCheck
from everhold.progress import progress
from everhold.randomness import SeededNoise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_T_LEVEL = 0.05


@dataclass(slots=True)
class World:
    """A simulation of an agent's versions: for each, the log odds of passing each case of a suite.

    Attributes:
        cases: Cases of the suite.
        runs: Runs of each case.
        rng: The only source of randomness.
        others: Number of cases outside the suite, on which the true quality is measured.
        start: Log odds of the first version.
    """

    cases: int
    runs: int
    rng: np.random.Generator
    others: int = 5_000
    start: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.start = 0.6 - self.rng.normal(0.0, 1.5, self.cases + self.others)

    def proposal(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a random change of a version: 2 % are better, 30 % are worse, and all change some cases at random."""
        drawn = self.rng.random()
        step = self.rng.uniform(0.3, 0.8) if drawn < 0.02 else -self.rng.uniform(0.1, 0.6) if drawn < 0.32 else 0.0
        hit = self.rng.random(len(logits)) < 0.3
        return logits + step + np.where(hit, self.rng.normal(0.0, 0.5, len(logits)), 0.0)

    def results(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return random results of all cases of the suite, shape (cases, runs), of which 5 % are judged wrongly."""
        passed = self.rng.random((self.cases, self.runs)) < _chance(logits[: self.cases, None])
        return np.asarray(passed ^ (self.rng.random((self.cases, self.runs)) < 0.05), dtype=np.float64)

    def quality(self, logits: NDArray[np.float64]) -> float:
        """Return the share of the other cases that a version passes."""
        return float(_chance(logits[self.cases :]).mean())


def _chance(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(scipy.special.expit(logits))


class SimulatedGate:
    """Gate about the sealed cases of a world, without a ledger.

    Args:
        cases: Number of sealed cases.
        champion: Results of the first champion on the sealed cases, shape (cases, runs).
        opened: Results of the first champion on open cases, if there are any.
        challenges: Number of challenges that the gate is planned for.
        confidence: Probability with which all promotions hold.
    """

    def __init__(
        self, champion: NDArray[np.float64], opened: NDArray[np.float64], *, challenges: int, confidence: float = 0.95
    ) -> None:
        cases = len(champion)
        results = {case: runs.tolist() for case, runs in enumerate(champion)}
        suite = with_champion(suite_of(range(cases), better="passed", units="runs"), results)
        if len(opened) and often_disagrees(suite, opened[:, :, None]):
            suite = replace(suite, tail=True)
        self._plan = UnitPlan(suite, np.arange(cases))
        self._mechanism = GuessAndCheck.tuned(rows=cases, queries=challenges, confidence=confidence)
        self._state = self._mechanism.start(SeededNoise(0))

    def promotes(self, challenger: NDArray[np.float64], champion: NDArray[np.float64]) -> bool:
        """Return whether a version is proved to be better than the champion, at the level of the next challenge."""
        own, other = challenger[:, :, None], champion[:, :, None]
        proved = PairedResults(self._plan, own, other, other).proves(next_nats(self._mechanism, self._state))
        self._state = self._state.after(charged=int(proved), labels=0)
        return proved


@dataclass(frozen=True, slots=True)
class Policy:
    """A rule by which a simulated optimiser accepts changes during a night and asks a gate.

    Attributes:
        takes: Rule for changes: the better ``"score"``, better by a ``"t-test"``, or promoted by the ``"gate"``.
        open: Share of the cases on which the optimiser improves its version. The gate is asked once about the other
            cases. 0 if the gate is asked nothing more.
    """

    takes: str
    open: float = 0.0

    @property
    def proves(self) -> bool:
        """Whether a gate decides which version the night ends with."""
        return self.takes == "gate" or self.open > 0.0


POLICIES = {
    "every change through the gate": Policy("gate"),
    "climb on half of the cases, ask once": Policy("score", 0.5),
    "climb on 70 % of the cases, ask once": Policy("score", 0.7),
    "t-test at .05, for comparison": Policy("t-test"),
    "bare score, for comparison": Policy("score"),
}


@dataclass(frozen=True, slots=True)
class SimulatedNight:
    """End of a simulated night.

    Attributes:
        start: True quality of the first version, which only the simulation knows.
        end: True quality of the version with which the policy ends the night.
        wrong: Number of versions that were taken over or promoted, and that were not better than the one before.
        promoted: True if a gate promoted at least one version.
    """

    start: float
    end: float
    wrong: int
    promoted: bool


def play(policy: Policy, world: World, *, challenges: int, confidence: float = 0.95) -> SimulatedNight:
    """Simulate one night of a policy. If the policy has open cases, only the promotion at its end can be wrong."""
    count = round(policy.open * world.cases)
    seen = slice(0, count or world.cases)  # all cases are alike, so the first may be the open ones
    first = results = world.results(world.start)
    logits, wrong, promoted = world.start, 0, False
    planned = 1 if policy.open else challenges
    gate = SimulatedGate(first[count:], first[:count], challenges=planned, confidence=confidence)
    for _ in range(challenges):
        changed = world.proposal(logits)
        found = world.results(changed)
        gains = (found[seen] - results[seen]).mean(axis=1)
        if policy.takes == "gate":
            promoted |= (taken := gate.promotes(found, results))
        else:
            taken = bool(gains.mean() > 0.0)
            if taken and policy.takes == "t-test":  # one-sided; of equal gains nothing is proved
                spread = float(gains.std(ddof=1)) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
                taken = spread > 0.0 and scipy.special.stdtr(len(gains) - 1, -gains.mean() / spread) < _T_LEVEL
        if taken:
            wrong += world.quality(changed) <= world.quality(logits) and not policy.open
            logits, results = changed, found
    if policy.open:
        promoted = gate.promotes(world.results(logits)[count:], first[count:])
        wrong = int(promoted and world.quality(logits) <= world.quality(world.start))
        logits = logits if promoted else world.start
    return SimulatedNight(world.quality(world.start), world.quality(logits), int(wrong), promoted)


def compare_policies(
    *, cases: int, runs: int = 1, challenges: int = 200, confidence: float = 0.95, nights: int = 20, seed: int = 0
) -> PolicyPlan:
    """Compare policies of asking a gate by simulated nights, in which every policy meets the same first versions.

    Args:
        cases: Cases of the suite.
        runs: Runs of each case.
        challenges: Changes that the optimiser tries in a night.
        confidence: Probability with which all promotions hold.
        nights: Simulated nights of each policy.
        seed: Seed of the random numbers. The same seed repeats the same comparison.

    Raises:
        ValueError: If an argument is outside its range.

    Examples:
        >>> [row["wrong steps a night"] for row in compare_policies(cases=20, challenges=20, nights=2).to_rows()][:3]
        [0.0, 0.0, 0.0]
    """
    if not (_FEWEST_CASES <= cases <= _MOST_RUNS and runs >= 1 and cases * runs <= _MOST_RUNS):
        raise ValueError(
            f"Nights of {cases:,} cases with {runs:,} runs are not simulated. Pass at least {_FEWEST_CASES} cases and "
            f"at most {_MOST_RUNS:,} runs in all, or leave the nights out."
        )
    if not (1 <= challenges <= _MOST_CHALLENGES and 1 <= nights <= _MOST_CHALLENGES):
        raise ValueError(
            f"challenges is {challenges} and nights is {nights}. Pass whole numbers from 1 to {_MOST_CHALLENGES:,}."
        )
    played: dict[str, list[SimulatedNight]] = {name: [] for name in POLICIES}
    with progress("simulating nights", nights * len(POLICIES)) as line, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small suites and copies are what is simulated
        for night in range(nights):
            for place, (name, policy) in enumerate(POLICIES.items()):
                world = World(cases, runs, np.random.default_rng((seed, night)), others=_OTHERS)
                played[name].append(play(policy, world, challenges=challenges, confidence=confidence))
                line(night * len(POLICIES) + place + 1)
    rows: list[dict[str, Any]] = [
        {
            "policy": name, "ends at": round(_mean([each.end for each in told]), 3),
            "standard error": round(float(np.std([each.end for each in told])) / math.sqrt(max(nights - 1, 1)), 3),
            "wrong steps a night": round(_mean([each.wrong for each in told]), 2),
            "nights without a proof": round(_mean([not each.promoted for each in told]), 2)
            if POLICIES[name].proves else None,
        }
        for name, told in played.items()
    ]  # fmt: skip
    proving = [row for row in rows if POLICIES[row["policy"]].proves]
    best = max(proving, key=lambda row: (row["nights without a proof"] < 1.0, row["ends at"]))
    unproved = best["nights without a proof"]
    start = _mean([each.start for told in played.values() for each in told])
    return PolicyPlan(nights, round(start, 3), best["policy"] if unproved < 1.0 else None, unproved, rows)


_FEWEST_CASES, _MOST_RUNS, _MOST_CHALLENGES = 8, 10_000, 5_000
_OTHERS = 2_000  # cases in which the true quality is measured


def _mean(numbers: Sequence[float]) -> float:
    return float(np.mean(numbers))
