"""The correlations against direct computation, and their p-values against shuffled rows."""

import numpy as np
import pytest

from everhold.diagnosis.columns import autocorrelation, between_neighbours, scores, within_groups


def ranks(values):
    return np.unique(values, return_inverse=True)[1]


def effects(rng, sizes, correlation):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    shared = rng.normal(size=len(sizes))[groups] * np.sqrt(correlation)
    return groups, shared + rng.normal(size=len(groups)) * np.sqrt(1 - correlation)


def test_pairs_have_the_classical_correlation():
    rng = np.random.default_rng(0)
    groups, values = effects(rng, [2] * 400, 0.3)
    pairs = values.reshape(-1, 2)
    within = np.mean((pairs[:, 0] - pairs[:, 1]) ** 2) / 2
    between = 2 * np.sum((pairs.mean(axis=1) - values.mean()) ** 2) / 399
    assert within_groups(groups, values).correlation == pytest.approx((between - within) / (between + within))


@pytest.mark.parametrize("estimate", [within_groups, between_neighbours])
@pytest.mark.parametrize("truth", [0.0, 0.1, 0.5])
def test_a_planted_correlation_is_found_within_its_error(estimate, truth):
    rng = np.random.default_rng(1)
    found = [estimate(*effects(rng, rng.integers(1, 12, 300), truth)) for _ in range(60)]
    assert np.mean([one.correlation for one in found]) == pytest.approx(truth, abs=0.02)
    claimed = np.mean([one.standard_error for one in found])
    assert np.std([one.correlation for one in found]) == pytest.approx(claimed, rel=0.5)


def test_what_changes_slowly_cancels_between_neighbours():
    rng = np.random.default_rng(2)
    age = rng.integers(0, 100, 3_000)
    values = scores(ranks(age / 30 + rng.normal(size=3_000)))
    groups = ranks(age)
    assert within_groups(groups, values).correlation > 0.3
    assert abs(between_neighbours(groups, values).correlation) < 0.03


@pytest.mark.parametrize("estimate", [within_groups, between_neighbours])
@pytest.mark.parametrize("kind", ["normal", "rare", "uneven groups"])
def test_p_values_are_those_of_shuffled_rows(estimate, kind):
    rng = np.random.default_rng(3)
    groups = ranks(
        (rng.pareto(0.8, 1_000) * 10).astype(int) if kind == "uneven groups" else rng.integers(0, 150, 1_000)
    )
    values = scores(ranks(np.arange(1_000) < 25 if kind == "rare" else rng.normal(size=1_000)))
    p_values = np.array([estimate(groups, rng.permutation(values)).p_value for _ in range(1_000)])
    for level in (0.2, 0.05):
        assert np.mean(p_values < level) == pytest.approx(level, abs=5 * np.sqrt(level / 1_000))
    assert np.mean(p_values < 0.001) < 0.01


def test_neighbours_in_an_order():
    rng = np.random.default_rng(4)
    values = np.zeros(4_000)
    for i in range(1, 4_000):
        values[i] = 0.6 * values[i - 1] + rng.normal()
    found = autocorrelation(scores(ranks(values)))
    assert found.correlation == pytest.approx(0.58, abs=4 * found.standard_error)  # of ranks: 6/pi asin(0.3)
    assert found.p_value < 1e-100
    assert autocorrelation(scores(ranks(rng.permutation(values)))).p_value > 1e-4


def test_nothing_to_compare_gives_nothing():
    values = np.array([1.0, -1.0, 1.0, -1.0])
    assert scores(np.zeros(4, dtype=int)) is None
    assert scores(np.zeros(0, dtype=int)) is None
    assert within_groups(np.zeros(4, dtype=int), values) is None
    assert within_groups(np.arange(4), values) is None
    assert between_neighbours(np.zeros(4, dtype=int), values) is None
    assert autocorrelation(values[:2]) is None


def test_groups_that_are_all_alike_inside():
    found = within_groups(np.repeat(np.arange(50), 4), np.repeat(np.tile([1.0, -1.0], 25), 4))
    assert found.correlation == 1.0
    assert found.p_value < 1e-9
