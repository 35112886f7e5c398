"""Nights at a gate about cases through the public interface: an agent who knows the population, and no one better.

Each protection is removed once, inside the package, and nights go wrong. `docs/theory/gates.md` has longer runs.
"""

import pytest
from ledger_nights import LedgerNight


@pytest.mark.parametrize("world", ["cases", "groups", "runs", "guards", "ratios", "crashes", "arrivals"])
def test_a_night_through_the_ledger_has_no_wrong_promotion(tmp_path, world):
    assert LedgerNight(world, challenges=5).wrong(tmp_path, seed=0) == 0


@pytest.mark.parametrize(
    ("world", "removed", "seed"),
    [
        ("cases", "levels", 2),
        ("groups", "order", 3),
        ("guards", "guard", 0),
        ("ratios", "ratio", 0),
        ("crashes", "crashes", 5),
        ("arrivals", "arrivals", 0),
    ],
)
def test_without_the_protection_a_night_goes_wrong(tmp_path, monkeypatch, world, removed, seed):
    night = LedgerNight(world, challenges=40)
    night.remove(monkeypatch, removed)
    assert night.wrong(tmp_path, seed=seed) >= 1
