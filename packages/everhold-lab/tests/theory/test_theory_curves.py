import math
from itertools import combinations, product

import numpy as np
import pytest

from everhold.privacy import ComposedCurve, GaussianCurve, PureCurve
from everhold_lab.theory.curves import (
    AdvancedCompositionCurve,
    ApproximateCurve,
    SubsampledCurve,
    basic_composition,
)


def divergence(first, second, epsilon):
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def test_basic_and_advanced_composition_cover_the_exact_curve():
    exact, advanced = ApproximateCurve(0.1, 1e-6, 100), AdvancedCompositionCurve(0.1, 1e-6, 100)
    basic = basic_composition([(0.1, 1e-6)] * 100)
    points = np.linspace(0, 12, 200)
    assert np.all(advanced.delta(points) >= exact.delta(points))
    assert np.all(basic.delta(points) >= exact.delta(points))
    assert advanced.delta(9.0) < basic.delta(9.0)


def test_advanced_composition_has_the_books_constants():
    slack = 1e-5
    epsilon = math.sqrt(2 * 30 * math.log(1 / slack)) * 0.02 + 30 * 0.02 * math.expm1(0.02)
    assert AdvancedCompositionCurve(0.02, 1e-9, 30).delta(epsilon) == pytest.approx(30e-9 + slack, rel=1e-9)
    assert AdvancedCompositionCurve(0.02, 0.0, 30).epsilon(slack) == pytest.approx(epsilon, rel=1e-9)
    assert AdvancedCompositionCurve(0.02, 0.0, 30).group(2) == AdvancedCompositionCurve(0.04, 0.0, 30)


def rows_law(values, level):
    """A sum of bits through truncated geometric noise: a pure mechanism about one replaced, added or removed bit."""
    outputs = np.arange(-3, 7)
    law = np.exp(-level * np.abs(outputs - sum(values)))
    law[0] /= -math.expm1(-level)
    law[-1] /= -math.expm1(-level)
    return law / law.sum()


def sampled_law(values, scheme, count_or_rate, level):
    n = len(values)
    if scheme == "without replacement":
        samples = list(combinations(range(n), count_or_rate))
        weights = np.full(len(samples), 1 / len(samples))
    else:
        samples = [tuple(np.flatnonzero(mask)) for mask in product([0, 1], repeat=n)]
        weights = np.array([count_or_rate ** len(s) * (1 - count_or_rate) ** (n - len(s)) for s in samples])
    return sum(w * rows_law([values[i] for i in s], level) for w, s in zip(weights, samples, strict=True))


@pytest.mark.parametrize("differing", [1, 2])
@pytest.mark.parametrize(("scheme", "how"), [("without replacement", 2), ("poisson", 0.4)])
def test_subsampled_curve_covers_every_tiny_data_set(scheme, how, differing):
    level, n = 0.9, 4
    rate = how / n if scheme == "without replacement" else how
    curve = SubsampledCurve(PureCurve(level), rate, scheme).group(differing)
    tightest = 0.0
    for values in product([0, 1], repeat=n):
        for other in product([0, 1], repeat=differing):
            laws = [sampled_law(v, scheme, how, level) for v in (values, (*other, *values[differing:]))]
            for epsilon in (0.0, 0.1, 0.25, 0.5, 0.8):
                exact, bound = divergence(*laws, epsilon), curve.delta(epsilon)
                assert exact <= bound + 1e-12
                tightest = max(tightest, exact / bound if bound else 0.0)
    assert tightest > 0.3


def test_subsampled_curve_is_attained_by_randomised_response_of_one_row():
    """Without replacement, one of two rows through randomised response: exactly the theorem's curve at zero."""
    level = 1.2
    truth = np.array([1.0, math.exp(level)]) / (1 + math.exp(level))
    first, second = (0.5 * truth + 0.5 * law for law in (truth, truth[::-1]))
    curve = SubsampledCurve(PureCurve(level), 0.5)
    assert curve.delta(0.0) == pytest.approx(divergence(first, second, 0.0), rel=1e-12)


def test_subsampling_nothing_out_changes_nothing():
    for scheme in ("without replacement", "poisson"):
        assert SubsampledCurve(GaussianCurve(1.0), 1.0, scheme).delta(2.5) == pytest.approx(
            GaussianCurve(1.0).delta(2.5)
        )
        assert SubsampledCurve(GaussianCurve(1.0), 1.0, scheme).delta(0.5) == pytest.approx(
            GaussianCurve(1.0).delta(0.5)
        )


def test_subsampled_curve_ends_and_inverts():
    curve = SubsampledCurve(PureCurve(3.0), 0.1)
    assert curve.epsilon(0.0) == pytest.approx(math.log1p(0.1 * math.expm1(3.0)), rel=1e-14)
    assert curve.epsilon(curve.delta(0.7)) == pytest.approx(0.7, rel=1e-10)
    approximate = SubsampledCurve(ApproximateCurve(0.5, 0.01), 0.1)
    assert approximate.delta(math.inf) == pytest.approx(0.001)
    assert approximate.epsilon(0.0005) == math.inf


def test_subsampled_curves_compose():
    single = SubsampledCurve(GaussianCurve(1.0), 0.05)
    repeated = single.repeat(20)
    assert isinstance(repeated, ComposedCurve)
    assert single.delta(0.3) < repeated.delta(0.3) < GaussianCurve(1.0).repeat(20).delta(0.3)
    assert repeated.compose(single) == single.repeat(21)


@pytest.mark.parametrize(
    ("rate", "scheme", "word"), [(0.0, "poisson", "rate"), (1.1, "poisson", "rate"), (0.5, "x", "scheme")]
)
def test_bad_subsampling_is_refused(rate, scheme, word):
    with pytest.raises(ValueError, match=word):
        SubsampledCurve(PureCurve(1.0), rate, scheme)
