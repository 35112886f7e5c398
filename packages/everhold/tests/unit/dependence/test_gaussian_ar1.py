"""Gaussian series: distances by integration, the leakage of two rows, coverage of the fit."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from series_brute_force import EPSILONS, SumCurve, noisy_sum

from everhold.dependence.base import SeriesFacts
from everhold.dependence.series.coupling import GaussianCoupling, mean_tail
from everhold.dependence.series.fitting import bound_correlation
from everhold.dependence.series.gaussian_ar1 import GaussianAR1
from everhold.errors import DependenceError
from everhold.testing import DependenceContract
from everhold_privacy.curves import GaussianCurve
from everhold_privacy.leakage import leakage, spread

GRID = norm.ppf((np.arange(1200) + 0.5) / 1200)  # 1,200 equally likely values of a standard normal state


class TestGaussianAR1(DependenceContract):
    def make(self):
        return GaussianAR1(-0.6, order_by="day", state="load", gap=30)


class TestFittedGaussianAR1(DependenceContract):
    def make(self):
        return GaussianAR1(0.4, gap=10, miss=0.01, groups="site", lengths=[(200, 4)])


def simulated(rng, correlation, rows):
    noise = rng.normal(size=rows) * math.sqrt(1.0 - correlation**2)
    values = [rng.normal()]
    for shock in noise[1:]:
        values.append(correlation * values[-1] + shock)
    return 3.0 + 2.0 * np.array(values)


@pytest.mark.parametrize("correlation", [0.3, -0.3, 0.9])
def test_tails_are_distances_of_normal_laws(correlation):
    coupling = GaussianCoupling(abs(correlation))
    points = np.linspace(-30, 30, 60_001)
    for steps in (1, 4):
        for kind in (100, 250):
            shift = correlation**steps * coupling.apart[kind]
            scale = math.sqrt(1.0 - correlation ** (2 * steps))
            gap = np.abs(norm.pdf(points, 0.0, scale) - norm.pdf(points, shift, scale)).sum() * 0.001 / 2.0
            assert coupling.forward(steps, 2)[kind, 1] == pytest.approx(gap, abs=1e-4)


def test_apart_is_rounded_up_and_little():
    coupling = GaussianCoupling(0.7)
    apart = np.abs(np.subtract.outer(GRID, GRID)).ravel()
    for steps in (1, 3, 9):
        q = 0.7**steps
        exact = np.mean(2.0 * norm.cdf(q * apart / (2.0 * math.sqrt(1.0 - q * q))) - 1.0)
        said = mean_tail(coupling, 16, backward=True).values[steps]
        assert exact * 0.995 <= said <= 1.03 * exact


@pytest.mark.parametrize("correlation", [0.2, 0.6, 0.95, -0.8])
@pytest.mark.parametrize("level", [0.3, 1.0, 3.0])
def test_two_rows_leak_no_more_than_said(correlation, level):
    exact = two_row_leak(correlation, level)
    said = leakage(GaussianAR1(correlation), SumCurve(2, level), 2).delta(EPSILONS)
    assert np.all(exact <= said + 1e-4)


def test_a_smaller_correlation_would_leak_more_than_said():
    said = leakage(GaussianAR1(0.2), SumCurve(2, 1.0), 2).delta(EPSILONS)
    assert np.max(two_row_leak(0.99, 1.0) - said) > 0.01


def two_row_leak(correlation, level):
    """Two rows, one noisy number of positive states; by symmetry both rows are alike."""
    outputs = noisy_sum(2, 2, level)
    other = norm.cdf(correlation * GRID / math.sqrt(1.0 - correlation**2))
    told = np.where(GRID > 0, 1, 0)
    law = (1.0 - other)[:, None] * outputs[told, 0] + other[:, None] * outputs[told, 1]
    leak = np.zeros(len(EPSILONS))
    for place, epsilon in enumerate(EPSILONS):
        for answer in law.T:
            leak[place] += np.maximum(answer[:, None] - math.exp(epsilon) * answer[None, :], 0.0).mean()
    return leak


def test_everything_weakens_with_the_absolute_correlation():
    models = [GaussianAR1(r, gap=3) for r in (0.0, 0.1, -0.3, 0.6, 0.9, -0.99)]
    curve = GaussianCurve(0.05)
    leaks = [leakage(model, curve, 3_000).delta(EPSILONS) for model in models]
    assert leaks[0] == pytest.approx(curve.delta(EPSILONS))
    for less, more in itertools.pairwise(leaks):
        assert np.all(less <= more * 1.02 + 1e-12)
    for order in ([m.concentration(3_000) for m in models][::-1], [m.training_distance() for m in models]):
        assert np.all(np.diff(order) > 0)


def test_the_distance_of_two_rows_is_bounded():
    points = np.linspace(-8, 8, 401)
    pairs = np.stack(np.meshgrid(points, points), axis=-1)
    alone = np.outer(norm.pdf(points), norm.pdf(points))
    for correlation in (0.05, 0.5, 0.9):
        joint = multivariate_normal.pdf(pairs, cov=[[1.0, correlation], [correlation, 1.0]])
        exact = np.abs(joint - alone).sum() * 0.04**2 / 2.0
        assert exact <= GaussianAR1(correlation, gap=0).training_distance() <= 1.75 * exact


def test_the_law_is_that_of_the_integral_over_both_states():
    """P[H = 1] inside a long series: both couplings meet at once, given |x - x'|."""
    q = 0.5
    apart = np.abs(np.subtract.outer(GRID, GRID)).ravel()
    meet = 2.0 - 2.0 * norm.cdf(q * apart / (2.0 * math.sqrt(1.0 - q * q)))
    bound = spread(GaussianCoupling(q), ((100_000, 1),))
    assert bound.counts[0] == 1
    assert 0.97 * np.mean(meet**2) <= bound.weights[0] <= np.mean(meet**2) * 1.002


@pytest.mark.parametrize("correlation", [0.0, 0.5, -0.7])
@pytest.mark.parametrize("narrow", [False, True])
def test_the_true_correlation_is_in_the_set_as_often_as_promised(correlation, narrow):
    rng, runs, missed = np.random.default_rng(13), 200, 0
    for _ in range(runs):
        bound = bound_correlation([simulated(rng, correlation, 200), simulated(rng, correlation, 100)], miss=0.1)
        middle, half = bound.estimate, (bound.largest - bound.least) / 2.0 * (0.25 if narrow else 1.0)
        missed += abs(middle - correlation) > half
    assert (missed > 0.1 * runs) == narrow


def test_the_set_does_not_depend_on_units():
    rows = simulated(np.random.default_rng(1), 0.5, 400)
    first, second = bound_correlation([rows], miss=0.01), bound_correlation([1e6 + 1e3 * rows], miss=0.01)
    assert (first.least, first.largest) == pytest.approx((second.least, second.largest), rel=1e-4)


def test_fit_keeps_the_largest_correlation_of_the_set():
    rows = {"t": range(2_000), "x": simulated(np.random.default_rng(2), 0.5, 2_000)}
    model = GaussianAR1.fit(rows, order_by="t", state="x", gap=20)
    assert 0.5 < model.correlation < 0.7
    assert 0.01 <= model.miss < 0.0101
    assert model.training_distance() == 0.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.arange(5.0), "Pass at least 6"),
        (np.zeros(50), "use MarkovChain for classes"),
        (np.arange(500) // 3 % 2, "2 different ones in 500 training rows, the most common in 50%"),
        (np.maximum(np.random.default_rng(3).normal(size=500), 0.0), "Pass a continuous column"),
        (np.arange(190) % 19, "19 different ones"),
        ([math.inf, *np.random.default_rng(3).normal(size=50)], "1 training rows have an infinite value in column 'x'"),
        (list("ab") * 20, "does not hold numbers"),
        (np.random.default_rng(3).normal(size=12), "too few|less than 1"),
        (np.cumsum(np.random.default_rng(4).normal(size=300)), "less than 1"),
    ],
)
def test_rows_that_say_too_little_are_refused(values, message):
    with pytest.raises(DependenceError, match=message):
        GaussianAR1.fit({"t": range(len(values)), "x": values}, order_by="t", state="x")


def test_pairs_across_missing_rows_do_not_count():
    rng = np.random.default_rng(8)
    values, kept = simulated(rng, 0.9, 40_000), np.flatnonzero(np.arange(40_000) % 5 < 3)
    with_cut = GaussianAR1.fit({"t": kept, "x": values[kept]}, "t", "x").correlation
    without = GaussianAR1.fit({"t": np.arange(len(kept)), "x": values[kept]}, "t", "x").correlation
    assert without < 0.9 < with_cut < 0.93


def test_a_state_that_is_no_number_is_refused_when_rows_are_sealed():
    rows = SimpleNamespace(
        series=lambda order_by, within: SeriesFacts({9: 1}, False, "none"),
        unknown_values=lambda column, known: 9,
        is_number=lambda column: column == "load",
    )
    assert GaussianAR1(0.5, order_by="t", state="load").bind(rows).lengths == ((9, 1),)
    assert GaussianAR1(0.5, order_by="t").bind(rows).lengths == ((9, 1),)
    with pytest.raises(DependenceError, match=r"'mode' of the state holds no numbers.*MarkovChain"):
        GaussianAR1(0.5, order_by="t", state="mode").bind(rows)


def test_confidence_is_a_probability():
    with pytest.raises(ValueError, match="strictly between 0 and 1") as caught:
        GaussianAR1.fit({"t": range(9), "x": range(9)}, "t", "x", confidence=2.0)
    assert not isinstance(caught.value, DependenceError)


@pytest.mark.parametrize("wrong", [1.0, -1.0, math.nan, 2.0])
def test_correlations_of_one_are_refused(wrong):
    with pytest.raises(DependenceError, match="strictly between"):
        GaussianAR1(wrong)


@pytest.mark.parametrize("correlation", ["a", None, True, float("nan")])
def test_correlations_that_are_no_numbers(correlation):
    with pytest.raises(DependenceError, match="correlation is"):
        GaussianAR1(correlation)
