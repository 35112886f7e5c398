"""Nights at a gate about cases, against an agent who knows the population: with each protection, and without it.

`docs/theory/gates.md` has whole nights of 2,000 challenges; these are shorter.
"""

import pytest
from case_nights import Night

PROTECTED = [
    ("cases", 1), ("groups", 1), ("runs", 4), ("early cases", 8), ("early groups", 1), ("early runs", 8),
    ("redraws", 8), ("guards", 1), ("ratios", 1),
]  # fmt: skip
REMOVED = [
    ("cases", "adaptivity"), ("groups", "groups"), ("early cases", "order"), ("early cases", "peeking stakes"),
    ("early runs", "case units"), ("early runs", "fresh order"), ("guards", "guard level"),
    ("early groups", "groups"), ("redraws", "fresh runs"), ("redraws", "fresh order"),
    ("ratios", "ratio"),
]  # fmt: skip


@pytest.mark.parametrize(("world", "runs"), PROTECTED)
def test_no_night_has_a_wrong_promotion(world, runs):
    wrong = [Night(world, cases=60, runs=runs, challenges=150).wrong(seed) for seed in range(3)]
    assert sum(map(bool, wrong)) == 0


@pytest.mark.parametrize(("world", "removed"), REMOVED)
def test_without_the_protection_nights_go_wrong(world, removed):
    cases = 200 if world.startswith("early") else 60
    wrong = [Night(world, removed, cases=cases, runs=8, challenges=300).wrong(seed) for seed in range(2)]
    assert sum(map(bool, wrong)) >= 1
