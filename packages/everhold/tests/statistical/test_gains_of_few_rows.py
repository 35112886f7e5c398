"""A difference of two models in recall on few of the sealed rows, with the protection and without it."""

import numpy as np
import pytest

from everhold.guarantees.intervals.gains import GainDifference, OutcomeGain
from everhold.mechanisms import GuessAndCheck, State

GAIN, COUNTING = 0.3, 30
OF_TRUTH = (1.0 + GAIN) / 2.0


@pytest.fixture(scope="module")
def mechanism():
    return GuessAndCheck.tuned(rows=1_500, queries=100, surprises=5)


def misses(mechanism, draws):
    """How often the interval of the first query misses the truth."""
    rng, nats = np.random.default_rng(0), float(mechanism.next_nats(State())[0])
    asked = GainDifference("recall", COUNTING)
    taken, missed = mechanism.procedure_at(asked, OF_TRUTH, nats), 0
    for _ in range(draws):
        late = rng.random(COUNTING) < 0.3
        found = [np.where(late, np.where(rng.random(COUNTING) < recall, 4, 3), 1) for recall in (0.6, 0.6 - GAIN)]
        seen = asked.cells(*found)
        low, high = taken.interval(seen if taken is asked else (1.0 + asked.gain(seen)) / 2.0, nats)
        missed += not low <= OF_TRUTH <= high
    return taken, missed / draws


def test_the_interval_of_a_difference_of_ratios_holds_on_few_rows(mechanism):
    taken, missed = misses(mechanism, 15)
    assert (taken.name, missed) == ("ratio_difference", 0.0)


def test_an_interval_of_a_mean_of_all_rows_in_its_place_misses(mechanism, monkeypatch):
    monkeypatch.setattr(OutcomeGain, "of_all_rows", True)
    taken, missed = misses(mechanism, 200)
    assert taken.name == "chernoff"
    assert missed > 0.5


@pytest.mark.parametrize("slack", [0.0, 0.5])
def test_no_score_gives_way_to_an_interval_of_means(slack):
    mechanism = GuessAndCheck.tuned(rows=1_500, queries=100, surprises=5, slack=slack)
    for name in ("f1", "precision", "recall", "balanced", "macro"):
        asked = GainDifference(name, 5)
        assert mechanism.procedure_at(asked, 0.5, 8.0) is asked
