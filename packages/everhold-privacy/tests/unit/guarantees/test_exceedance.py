"""Exceedances: against high-precision integrals, against sums over the discrete laws, and by playing Thresholdout."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from noise_laws import discrete_laplace_pmf
from scipy.optimize import minimize_scalar

from everhold_privacy.guarantees import (
    comparison_exceedance,
    gaussian_exceedance,
    laplace_exceedance,
    laplace_pair_tail,
    wrong_side_exceedance,
)

SCALES = st.floats(0.01, 3.0)


def integral(function, start):
    with mp.workdps(25):
        return float(mp.quad(function, [start, start + 1, start + 4, start + 16, mp.inf]))


def over_the_second(function, s3, x):
    """E function(L3) by quadrature, split where the integrand has kinks."""
    with mp.workdps(25):
        nodes = [-mp.inf, -1, 0, x, x + 1, mp.inf] if x else [-mp.inf, -1, 0, 1, mp.inf]
        return float(mp.quad(lambda u: function(x - u) * mp.exp(-abs(u) / s3) / (2 * s3), nodes))


@pytest.mark.parametrize(("alpha", "scale"), [(0.0, 1.0), (0.7, 0.3), (2.0, 1.5)])
def test_one_answer_against_the_integral(alpha, scale):
    laplace = integral(lambda z: 2 * (z - alpha) * mp.exp(-z / scale) / (2 * scale), alpha)
    gaussian = integral(lambda z: 2 * (z - alpha) * mp.npdf(z, 0, scale), alpha)
    assert laplace_exceedance(alpha=alpha, scale=scale, answers=7) == pytest.approx(7 * laplace, rel=1e-10)
    assert gaussian_exceedance(alpha=alpha, scale=scale, answers=7) == pytest.approx(7 * gaussian, rel=1e-10)


@pytest.mark.parametrize(("s1", "s3"), [(1.0, 0.4), (0.4, 1.0), (0.7, 0.7), (0.7, 0.7 * (1 + 1e-7)), (0.7, 0.70002)])
@pytest.mark.parametrize("x", [0.0, 0.5, 2.0])
def test_a_pair_of_laplaces_against_the_convolution(s1, s3, x):
    def tail_of_first(y):
        return mp.exp(-y / s1) / 2 if y >= 0 else 1 - mp.exp(y / s1) / 2

    mean = over_the_second(lambda y: s1 * mp.exp(-abs(y) / s1) / 2 + max(-y, 0), s3, x)
    tail = over_the_second(tail_of_first, s3, x)
    computed = comparison_exceedance(excess=x, threshold_scale=s1, comparison_scale=s3, queries=1, surprises=1)
    assert computed == pytest.approx(mean, rel=1e-5)
    assert computed >= mean * (1 - 1e-9)
    assert laplace_pair_tail(excess=x, threshold_scale=s1, comparison_scale=s3) == pytest.approx(tail, rel=1e-5)


@given(scale=SCALES, x=st.floats(0, 20), sign=st.sampled_from([-1, 1]))
def test_no_jump_where_the_two_scales_meet(scale, x, sign):
    x *= scale
    near, far = (scale * (1 + sign * step) for step in (0.9e-6, 1.1e-6))
    for function in (laplace_pair_tail, comparison_exceedance):
        shared = {} if function is laplace_pair_tail else {"queries": 1, "surprises": 1}
        values = [function(excess=x, threshold_scale=scale, comparison_scale=s, **shared) for s in (near, far)]
        assert values[0] == pytest.approx(values[1], rel=1e-4, abs=1e-300)


def discrete_pair(first, second, reach=400):
    support = np.arange(-reach, reach + 1)
    law = np.convolve(discrete_laplace_pmf(first, support), discrete_laplace_pmf(second, support))
    return np.arange(-2 * reach, 2 * reach + 1), law


@pytest.mark.parametrize(("s1", "s3"), [(1, 1), (2, 5), (5, 2), (7, 7)])
def test_discrete_pairs_stay_below_the_formulas(s1, s3):
    """The mean excess at every real x, the tail once x is moved down to the grid."""
    points, law = discrete_pair(s1, s3)
    for x in np.arange(0, 40, 0.25):
        scales = {"threshold_scale": float(s1), "comparison_scale": float(s3)}
        mean = comparison_exceedance(excess=x, queries=1, surprises=1, **scales)
        assert np.sum(np.maximum(points - x, 0) * law) <= mean * (1 + 1e-9) + 1e-15
        assert law[points > x].sum() <= laplace_pair_tail(excess=math.floor(x), **scales) + 1e-15


def test_the_discrete_tail_is_not_below_the_continuous_one_between_the_steps():
    """A tail is not convex, so the order of the laws does not carry over: the caller has to move x by one step."""
    points, law = discrete_pair(2, 2)
    assert law[points > 0.99].sum() > laplace_pair_tail(excess=0.99, threshold_scale=2.0, comparison_scale=2.0)


@given(s1=SCALES, s3=SCALES, x=st.floats(0, 20), queries=st.integers(1, 10**5), surprises=st.integers(1, 50))
def test_the_split_is_at_its_best(s1, s3, x, queries, surprises):
    surprises = min(surprises, queries)
    value = comparison_exceedance(
        excess=x, threshold_scale=s1, comparison_scale=s3, queries=queries, surprises=surprises
    )
    x1 = np.linspace(0, x, 400)
    split = surprises * s1 / 2 * np.exp(-x1 / s1) + queries * s3 / 2 * np.exp(-(x - x1) / s3)
    assert value <= split.min() * (1 + 1e-12)


# Thresholdout by play: the formulas bound what really happens ---------------------------------------------------------


def play(generator, *, distances, threshold, scales, surprises, games):
    """Quiet excess, release deficit and wrong-side error of Thresholdout, for fixed distances |f(X) - g|.

    Returns:
        Arrays over games: max over quiet answers of ``distance - threshold``, max over releases of
        ``threshold - distance``, and over releases the error of the released side.
    """
    s1, s3, s2 = scales
    quiet, early, side = (np.full(games, -np.inf) for _ in range(3))
    carried = generator.laplace(0, s1, games)
    spent = np.zeros(games, dtype=int)
    for distance in distances:
        active = spent < surprises
        top = active & (distance + generator.laplace(0, s3, games) > threshold + carried)
        quiet = np.where(active & ~top, np.maximum(quiet, distance - threshold), quiet)
        early = np.where(top, np.maximum(early, threshold - distance), early)
        wrong = top & (distance + generator.laplace(0, s2, games) < 0)
        side = np.where(wrong, np.maximum(side, threshold + distance), side)
        spent += top
        carried = np.where(top, generator.laplace(0, s1, games), carried)
    return quiet, early, side


@pytest.mark.parametrize("scales", [(0.3, 0.3, 0.2), (0.1, 0.4, 0.3), (0.5, 0.2, 0.2)])
@pytest.mark.parametrize("spread", ["at the threshold", "worst", "wide"])
def test_joint_exceedance_bounds_what_happens_in_play(scales, spread):
    """E max over quiet excess, early release and wrong side together is at most ``2 passed + side`` (Thresholdout)."""
    threshold, queries, surprises, games = 1.5, 30, 3, 20_000
    distances = {
        "at the threshold": np.full(queries, threshold),
        "worst": np.where(np.arange(queries) % 2 == 0, threshold + 0.6, threshold - 0.6),
        "wide": np.linspace(0, 2 * threshold, queries),
    }[spread]
    generator = np.random.default_rng(5)
    quiet, early, side = play(
        generator, distances=distances, threshold=threshold, scales=scales, surprises=surprises, games=games
    )
    noise = {"threshold_scale": scales[0], "comparison_scale": scales[1]}
    asked = {"queries": queries, "surprises": surprises}
    for x in (0.3, 0.7, 1.0):
        happened = np.maximum(np.maximum(np.maximum(quiet, early), side) - x, 0.0)
        passed = comparison_exceedance(excess=x, **noise, **asked)
        tail = laplace_pair_tail(excess=x, **noise)
        wrong = wrong_side_exceedance(distance=threshold - x, tail=tail, answer_scale=scales[2], **asked)
        assert happened.mean() + 4 * happened.std() / math.sqrt(games) <= 2 * passed + wrong


def test_the_worst_quiet_error_is_above_one_fresh_pair_and_below_the_union():
    """A long epoch selects a large threshold noise; the union over B m pairs covers it (S1)."""
    queries, surprises, games, s1, s3, x = 400, 60, 4000, 1.0, 0.02, 3.0
    threshold = 2.0
    quiet, _, _ = play(
        np.random.default_rng(3),
        distances=np.full(queries, threshold + x + 0.5),  # every quiet answer is an error beyond x
        threshold=threshold, scales=(s1, s3, 0.1), surprises=surprises, games=games,
    )  # fmt: skip
    happened = np.maximum(quiet - x, 0.0).mean()
    one_fresh_pair = comparison_exceedance(excess=x, threshold_scale=s1, comparison_scale=s3, queries=1, surprises=1)
    assert happened > 4 * one_fresh_pair
    bound = comparison_exceedance(
        excess=x, threshold_scale=s1, comparison_scale=s3, queries=queries, surprises=surprises
    )
    assert happened <= bound


@given(distance=st.floats(0, 10), threshold=st.floats(0.3, 5), share=st.floats(0, 1), answer_scale=st.floats(0.01, 1.0))
def test_one_wrong_side_is_bounded_in_both_cases(distance, threshold, share, answer_scale):
    """Far from the guess: (T-x+d) P[wrong side]; near it, the excess over the early release: 2 d P[wrong side]."""
    gap = max(share * threshold, answer_scale)  # T - x
    wrong = 0.5 * math.exp(-distance / answer_scale)
    if distance >= gap:
        assert (gap + distance) * wrong <= gap * math.exp(-gap / answer_scale) * (1 + 1e-12)
    else:
        assert 2 * distance * wrong <= answer_scale / math.e * (1 + 1e-12)


def test_wrong_side_is_its_formula_and_refuses_a_threshold_too_near():
    tail = laplace_pair_tail(excess=0.5, threshold_scale=0.3, comparison_scale=0.2)
    asked = {"tail": tail, "answer_scale": 0.1, "queries": 50, "surprises": 4}
    value = wrong_side_exceedance(distance=1.0, **asked)
    assert value == pytest.approx(4 * 1.0 * math.exp(-10) + 0.1 / math.e * 4 * 50 * tail)
    with pytest.raises(ValueError, match="threshold"):
        wrong_side_exceedance(distance=0.05, **asked)


def test_alpha_of_the_gaussian_and_laplace_mechanisms_is_the_best_one():
    for exceedance in (laplace_exceedance, gaussian_exceedance):
        best = minimize_scalar(
            lambda alpha, r=exceedance: alpha + r(alpha=alpha, scale=0.01, answers=100) / 0.05,
            bounds=(0, 1), method="bounded", options={"xatol": 1e-9},
        )  # fmt: skip
        assert 0.0 < best.x < 0.2
