"""The worth of blocks of rows: chance alone is rarely taken for dependence, and long memory is found in noise."""

import warnings

import numpy as np
import pytest
from scipy.signal import lfilter

from everhold.dependence import GaussianAR1, MarkovChain
from everhold.dependence.blocks import block_of_rows, block_variance_of_means, block_variance_of_values
from everhold.errors import DependenceWarning


def sums_of(tables):
    """Sums over blocks of many tables of row values, shape (tables, rows)."""
    starts = np.flatnonzero(np.diff(block_of_rows(tables.shape[1]), prepend=-1))
    return np.add.reduceat(tables, starts, axis=1), np.diff(starts, append=tables.shape[1])


def regime(rng, rows, flip=0.001, clear=0.75):
    state = np.bitwise_xor.accumulate(np.r_[rng.integers(0, 2), rng.random(rows - 1) < flip])
    return (rng.random(rows) < np.where(state == 1, clear, 1.0 - clear)).astype(int)


def autoregression(rng, rows, correlation):
    shocks = rng.normal(size=rows) * np.sqrt(1.0 - correlation**2)
    shocks[0] = rng.normal()
    return lfilter([1.0], [1.0, -correlation], shocks)


@pytest.mark.parametrize("rows", [300, 3_000])
@pytest.mark.parametrize("share", [0.5, 0.1, 0.02])
def test_p_values_are_no_smaller_than_they_should_be(rows, share):
    rng = np.random.default_rng(0)
    p_values = np.concatenate(
        [block_variance_of_means(*sums_of(rng.random((1_000, rows)) < share)).p_values for _ in range(10)]
    )
    for level in (0.05, 0.01, 0.001):
        assert np.mean(p_values <= level) <= level + 3.0 * np.sqrt(level / len(p_values))


def test_the_p_value_is_that_of_what_is_promised():
    rng = np.random.default_rng(1)
    pairs = np.repeat(rng.random((4_000, 1_000)) < 0.5, 2, axis=1)
    told = block_variance_of_means(*sums_of(pairs), promised=2.0)
    assert np.mean(told.p_values <= 0.01) <= 0.02
    assert np.mean(block_variance_of_means(*sums_of(pairs)).p_values <= 0.01) > 0.99
    assert np.median(told.design_effects) == pytest.approx(2.0, rel=0.2)


@pytest.mark.parametrize(("signal", "correlation"), [(0.5, 0.9), (0.3, 0.98)])
def test_noise_does_not_hide_the_design_effect(signal, correlation):
    rng = np.random.default_rng(5)
    found = []
    for _ in range(20):
        slow = autoregression(rng, 20_000, correlation)
        noisy = np.sqrt(signal) * slow + np.sqrt(1.0 - signal) * rng.normal(size=20_000)
        found.append(float(block_variance_of_values((noisy - noisy.mean()) / noisy.std()).design_effects[0]))
    truth = 1.0 + 2.0 * signal * correlation / (1.0 - correlation)
    assert np.median(found) == pytest.approx(truth, rel=0.3)


def test_the_longest_block_is_seldom_below_the_design_effect():
    rng, truth = np.random.default_rng(6), 1.0 + 2.0 * 0.25 * 50.0
    at_most = [
        block_variance_of_means(*sums_of(regime(rng, 6_000, flip=0.01)[None, :])).at_most[0] for _ in range(100)
    ]  # fmt: skip
    assert np.mean(np.array(at_most) < truth) < 0.1


def test_a_rare_or_constant_value_says_nothing():
    rows = np.zeros((2, 2_000))
    rows[1, 5] = 1.0
    assert block_variance_of_means(*sums_of(rows)).p_values.tolist() == [1.0, 1.0]
    assert block_variance_of_means([[1.0, 2.0]], [4, 4]).p_values.tolist() == [1.0]


def fitted(fit, values):
    """How often a fit warns."""
    warned = 0
    for seed in range(20):
        table = {"t": np.arange(6_000), "y": values(np.random.default_rng(seed))}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit(table, order_by="t", state="y", gap=4_000)
        warned += any(issubclass(one.category, DependenceWarning) for one in caught)
    return warned


def test_a_chain_fitted_to_a_noisy_label_of_a_slow_regime_is_warned_of():
    assert fitted(MarkovChain.fit, lambda rng: regime(rng, 6_000)) >= 19
    assert fitted(MarkovChain.fit, lambda rng: regime(rng, 6_000, flip=0.05, clear=1.0)) == 0


def test_an_autoregression_fitted_to_a_noisy_record_is_warned_of():
    assert fitted(GaussianAR1.fit, lambda rng: autoregression(rng, 6_000, 0.998) + 1.7 * rng.normal(size=6_000)) >= 19
    assert fitted(GaussianAR1.fit, lambda rng: autoregression(rng, 6_000, 0.9)) == 0


def test_the_warning_of_a_fit_says_what_to_declare():
    table = {"t": np.arange(6_000), "y": regime(np.random.default_rng(0), 6_000)}
    with pytest.warns(DependenceWarning, match=r"'y'.*Do not declare this model.*Groups\('block'\)") as caught:
        MarkovChain.fit(table, order_by="t", state="y", gap=4_000)
    assert caught[0].filename == __file__
    assert "--groups block" in caught[0].message.for_shell
