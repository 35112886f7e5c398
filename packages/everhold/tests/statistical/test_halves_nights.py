"""Whole nights of an optimiser over a suite with open cases: it climbs on these, and asks about the sealed ones once.

The full study: ``python packages/everhold/tests/statistical/test_halves_nights.py 100``.
"""

import sys
import tempfile
import warnings
from itertools import product

import numpy as np
import pytest

import everhold as eh
from everhold.gates.nights import World

RUNS = 4


def named(results):
    return {f"case {place}": runs.tolist() for place, runs in enumerate(results)}


def night(cases, seed, *, challenges=300, share=0.5):
    """True quality at the start, of what the gate ends with, and of what was climbed to; and what was promoted."""
    world = World(cases, RUNS, np.random.default_rng(seed))
    logits = world.start
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = named(world.results(logits))
        suite = eh.seal_cases(
            f"{folder}/s.db", results=results, better="passed", units="runs", open=share, challenges=1
        )
        gate = suite.gate(name="main")
        mean = np.mean([results[case] for case in gate.open_cases])
        for _ in range(challenges):
            changed = world.proposal(logits)
            found = named(world.results(changed))
            if (reached := np.mean([found[case] for case in gate.open_cases])) > mean:
                logits, results, mean = changed, found, reached
        worth = gate.worth_asking(named(world.results(logits)))  # run again: those it was chosen by are too good
        promoted = gate.challenge(named(world.results(logits)), challenger="the last one").promoted
        suite.close()
    start, climbed = world.quality(world.start), world.quality(logits)
    ended = climbed if promoted else start
    return {
        "start": start, "ended": ended, "climbed": climbed, "promoted": promoted,
        "wrong": promoted and climbed <= start, "worth": bool(worth),
    }  # fmt: skip


@pytest.mark.slow
def test_a_night_on_open_cases_ends_higher_and_promotes_nothing_that_is_not_better():
    nights = [night(150, seed) for seed in range(18)]
    assert np.mean([each["ended"] for each in nights]) > 0.75 > np.mean([each["start"] for each in nights]) + 0.1
    assert not any(each["wrong"] for each in nights)


if __name__ == "__main__":
    for cases, share in product((60, 150, 500), (0.5, 0.7)):
        played = [night(cases, seed, share=share) for seed in range(int(sys.argv[1]))]
        means = {name: round(float(np.mean([each[name] for each in played])), 3) for name in played[0]}
        error = round(float(np.std([each["ended"] for each in played])) / len(played) ** 0.5, 3)
        print(cases, share, means, "standard error", error, flush=True)  # noqa: T201
