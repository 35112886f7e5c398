"""Priors of labels that are always told sum to at most 1, and every told interval contains the sealed one."""

from itertools import permutations, product

import numpy as np
import pytest

from everhold.mechanisms.labels import WIDENED, Around, order_nats, set_nats, steps_nats


@pytest.mark.parametrize("scale", [0.5, 3.0, 40.0])
def test_the_prior_of_steps_is_a_law(scale):
    total = sum(np.exp(-steps_nats(steps, scale=scale)) for steps in range(-20_000, 20_001))
    assert 0.99 < total <= 1.0


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("estimates", [[0.1, 0.3, 0.2, 0.3], [np.nan] * 4, [0.5, np.nan, 0.7, 0.1]])
def test_the_prior_of_orders_is_at_most_a_law(most, estimates):
    every = permutations(range(4), most)
    assert sum(np.exp(-order_nats(order, np.array(estimates))) for order in every) <= 1.0 + 1e-12


def test_the_prior_of_sets_is_a_law():
    chances, sets = np.array([0.1, 0.5, 0.9]), np.array([*product([False, True], repeat=3)])
    assert sum(np.exp(-set_nats(above, chances, first=False)) for above in sets) == pytest.approx(1.0)
    firsts = [np.arange(3) == index for index in range(4)]  # the last one is "none"
    assert sum(np.exp(-set_nats(above, chances, first=True)) for above in firsts) == pytest.approx(1.0)


def test_a_told_interval_contains_the_sealed_one_and_is_little_wider():
    rng, around = np.random.default_rng(1), Around(0.4, 0.01)
    for low, length in zip(rng.random(500), rng.exponential(0.02, 500), strict=True):
        told_low, told_high, nats = around.released(low, low + length)
        assert told_low <= low <= low + length <= told_high
        assert told_high - told_low <= WIDENED * max(length, 2e-6) * (1 + 1e-9)
        assert nats > 0.0


def test_a_told_number_is_no_smaller():
    around = Around(0.0, 0.01)
    for value in (0.0, 1e-4, 0.01, 0.0101, 0.7):
        told, nats = around.released_above(value)
        assert value <= told <= max(1.1 * value, 1e-6) * (1 + 1e-9)
        assert nats > 0.0
