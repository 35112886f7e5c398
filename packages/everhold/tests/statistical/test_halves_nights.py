"""Whole nights of an optimiser over a suite with open cases: it climbs on these, and asks about the sealed ones once.

The full study: ``python packages/everhold/tests/statistical/test_halves_nights.py 20``.
"""

import sys
import tempfile
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import everhold as eh

RUNS = 4


def chance(logits):
    return 1.0 / (1.0 + np.exp(-logits))


@dataclass
class World:
    """Versions of an agent: logits of passing on the cases of a suite, and on 5,000 others of the same kind."""

    cases: int
    seed: int

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)
        self.start = 0.6 - self.rng.normal(0.0, 1.5, self.cases + 5_000)

    def proposal(self, logits):
        """A change: one in fifty is a large step up, three in ten make it worse, and all break some cases."""
        drawn = self.rng.random()
        step = self.rng.uniform(0.3, 0.8) if drawn < 0.02 else -self.rng.uniform(0.1, 0.6) if drawn < 0.32 else 0.0
        hit = self.rng.random(len(logits)) < 0.3
        return logits + step + np.where(hit, self.rng.normal(0.0, 0.5, len(logits)), 0.0)

    def results(self, logits):
        """Runs of all cases of the suite, judged wrongly once in twenty."""
        passed = self.rng.random((self.cases, RUNS)) < chance(logits[: self.cases, None])
        judged = passed ^ (self.rng.random((self.cases, RUNS)) < 0.05)
        return {f"case {place}": [float(run) for run in runs] for place, runs in enumerate(judged)}

    def quality(self, logits):
        return float(chance(logits[self.cases :]).mean())


def night(cases, seed, *, challenges=300, share=0.5):
    """True quality at the start, of what the gate ends with, and of what was climbed to; and what was promoted."""
    world = World(cases, seed)
    logits = world.start
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = world.results(logits)
        suite = eh.seal_cases(
            f"{folder}/s.db", results=results, better="passed", units="runs", open=share, challenges=1
        )
        gate = suite.gate(name="main")
        mean = np.mean([results[case] for case in gate.open_cases])
        for _ in range(challenges):
            changed = world.proposal(logits)
            found = world.results(changed)
            if (reached := np.mean([found[case] for case in gate.open_cases])) > mean:
                logits, results, mean = changed, found, reached
        worth = gate.worth_asking(world.results(logits))  # run again: those it was chosen by are too good
        promoted = gate.challenge(world.results(logits), challenger="the last one").promoted
        suite.close()
    start, climbed = world.quality(world.start), world.quality(logits)
    ended = climbed if promoted else start
    return {
        "start": start, "ended": ended, "climbed": climbed, "promoted": promoted,
        "wrong": promoted and climbed <= start, "worth": bool(worth),
    }  # fmt: skip


@pytest.mark.slow
def test_a_night_on_open_cases_ends_higher_and_promotes_nothing_that_is_not_better():
    nights = [night(150, seed) for seed in range(6)]
    assert np.mean([each["ended"] for each in nights]) > 0.75 > np.mean([each["start"] for each in nights]) + 0.1
    assert not any(each["wrong"] for each in nights)


if __name__ == "__main__":
    for cases, share in ((60, 0.5), (150, 0.5), (150, 0.7), (500, 0.5), (500, 0.7)):
        played = [night(cases, seed, share=share) for seed in range(int(sys.argv[1]))]
        means = {name: round(float(np.mean([each[name] for each in played])), 3) for name in played[0]}
        print(cases, share, means)  # noqa: T201
