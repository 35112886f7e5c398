import math
import pickle
from dataclasses import fields
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold_lab.published.classical import ApproximateCurve
from everhold_privacy.curves import GaussianCurve, PrivacyCurve, PureCurve, ZeroConcentratedCurve

TARGET = 1e-12
DELTAS = (0.3, 1e-3, 1e-12, 1e-100, 1e-290)

curves = st.one_of(
    st.builds(PureCurve, st.floats(1e-9, 20), st.integers(1, 2000)),
    st.builds(ApproximateCurve, st.floats(1e-9, 20), st.floats(0, 1), st.integers(1, 500)),
    st.builds(GaussianCurve, st.floats(1e-9, 50)),
    st.builds(ZeroConcentratedCurve, st.floats(1e-12, 1000)),
)
EXAMPLES = [PureCurve(0.3), PureCurve(0.1, 50), ApproximateCurve(0.2, 1e-5, 7), GaussianCurve(0.4), GaussianCurve(4.0)]


def exact_pure(level, times, epsilon):
    """The sum of Kairouz, Oh and Viswanath in 60 digits, cut where a term no longer counts."""
    level, epsilon = mp.mpf(level), mp.mpf(epsilon)
    first = int(mp.floor((times + epsilon / level) / 2)) + 1
    weight = mp.binomial(times, first) * mp.exp(first * level) / (1 + mp.exp(level)) ** times
    loss, growth, shrink = mp.exp(epsilon - (2 * first - times) * level), mp.exp(level), mp.exp(-2 * level)
    mode, total = (times + 1) / (1 + 1 / growth), mp.mpf(0)
    for index in range(first, times + 1):
        total += weight * (1 - loss)
        if index > mode and weight * times < total * mp.mpf("1e-25"):
            break
        weight *= growth * (times - index) / (index + 1)
        loss *= shrink
    return total


def exact_gaussian(mu, epsilon):
    mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
    near = epsilon / mu - mu / 2
    return (mp.erfc(near / mp.sqrt(2)) - mp.exp(epsilon) * mp.erfc((near + mu) / mp.sqrt(2))) / 2


def relative_error(value, exact):
    return float(abs(value / exact - 1))


@pytest.mark.parametrize(
    ("level", "times"),
    [
        (1e-9, 1),
        (1e-9, 10**5),
        (1e-3, 10**5),
        (0.01, 10**5),
        (1.0, 10**5),
        (0.5, 1000),
        (2.0, 300),
        (10.0, 50),
        (40.0, 3),
    ],
)
def test_pure_curve_to_twelve_digits(level, times):
    curve = PureCurve(level, times)
    whole_loss = level * times
    points = [0.0, 1e-9, 1e-3, 1.0, whole_loss * 0.5, whole_loss * 0.999, whole_loss * (1 - 1e-12)]
    points += [curve.epsilon(delta) for delta in DELTAS]
    with mp.workdps(60):
        for epsilon in points:
            exact = exact_pure(level, times, epsilon) if epsilon < whole_loss else 0
            if exact > 1e-290:
                assert relative_error(curve.delta(epsilon), exact) < TARGET, epsilon
            elif exact > 0:
                assert curve.log_delta(epsilon) == pytest.approx(float(mp.log(exact)), rel=1e-12)


@pytest.mark.parametrize("mu", [1e-9, 1e-3, 0.1, 0.999, 1.0, 1.001, 5.0, 50.0])
def test_gaussian_curve_to_twelve_digits(mu):
    curve = GaussianCurve(mu)
    points = [0.0, 1e-9, 1e-3, 1.0, 100.0, mu * mu / 2, *(curve.epsilon(delta) for delta in DELTAS)]
    for epsilon in points:
        with mp.workdps(60):
            exact = exact_gaussian(mu, epsilon)
        if exact > 1e-290:
            assert relative_error(curve.delta(epsilon), exact) < TARGET, epsilon


@pytest.mark.parametrize("rho", [1e-9, 1e-3, 1.0, 100.0])
@pytest.mark.parametrize("spread", [0.0, 0.5, 3.0, 10.0])
def test_zero_concentrated_curve_finds_the_best_order(rho, spread):
    epsilon = rho + spread * math.sqrt(rho)

    def log_bound(t):
        return t * ((t + 1) * rho - epsilon) - t * mp.log(1 + 1 / t) - mp.log(1 + t)

    with mp.workdps(30):
        candidates = [mp.exp(mp.mpf(u) / 200) for u in range(-2400, 2400)]
        best = min(map(log_bound, candidates))
        cap = mp.log(min(mp.mpf(rho) / 2, 1 - mp.exp(-rho))) / 2
    value = ZeroConcentratedCurve(rho).log_delta(epsilon)
    assert float(min(best, cap)) - 1e-3 <= value <= float(min(best, cap)) + 1e-12


def divergence(first, second, epsilon):
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


@pytest.mark.parametrize("level", [0.01, 0.7, 3.0])
@pytest.mark.parametrize("times", [1, 2, 4, 5])
def test_pure_curve_is_the_law_of_repeated_randomised_response(level, times):
    truth = np.array([math.exp(level), 1.0]) / (1 + math.exp(level))
    outcomes = list(product([0, 1], repeat=times))
    first = np.array([math.prod(truth[o] for o in outcome) for outcome in outcomes])
    second = np.array([math.prod(truth[1 - o] for o in outcome) for outcome in outcomes])
    for epsilon in np.linspace(0, level * times * 1.1, 23):
        expected = divergence(first, second, epsilon)
        assert PureCurve(level, times).delta(epsilon) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_approximate_curve_is_the_law_of_a_response_that_sometimes_confesses():
    level, failure = 0.7, 0.1
    kept = (1 - failure) / (1 + math.exp(level))
    first = np.array([failure, kept * math.exp(level), kept, 0.0])
    second = first[::-1]
    pair = [np.outer(law, law).ravel() for law in (first, second)]
    for epsilon in (0.0, 0.3, 0.7, 1.0, 1.4, 3.0):
        assert ApproximateCurve(level, failure).delta(epsilon) == pytest.approx(divergence(first, second, epsilon))
        assert ApproximateCurve(level, failure, 2).delta(epsilon) == pytest.approx(divergence(*pair, epsilon))


@pytest.mark.parametrize("rows", [2, 3])
def test_group_of_an_approximate_mechanism_holds_for_a_path_of_neighbours(rows):
    """Along a path of data sets every step is (e, d)-private; the ends are compared with the group curve."""
    level, failure = 0.4, 0.05
    laws = [np.array([1.0, 0.0])]
    for _ in range(rows):
        low = laws[-1][0]
        laws.append(np.array([max(0.0, (low - failure) * math.exp(-level)), 0.0]))
        laws[-1][1] = 1 - laws[-1][0]
        assert divergence(laws[-2], laws[-1], level) <= failure + 1e-12
    group = ApproximateCurve(level, failure).group(rows)
    ends = divergence(laws[0], laws[-1], rows * level)
    assert ends <= group.delta(rows * level) + 1e-12
    assert ends > ApproximateCurve(level, failure).delta(rows * level)


def test_total_variation_at_zero():
    assert PureCurve(0.3).delta(0.0) == pytest.approx(math.tanh(0.15), rel=1e-14)
    assert GaussianCurve(0.3).delta(0.0) == pytest.approx(math.erf(0.15 / math.sqrt(2)), rel=1e-14)


@given(curve=curves, points=st.lists(st.floats(0, 1e4), min_size=2, max_size=8))
def test_curves_fall_and_stay_in_the_unit_interval(curve, points):
    values = curve.delta(np.sort(points))
    assert np.all((values >= 0) & (values <= 1))
    assert np.all(np.diff(values) <= 1e-13 * values[:-1])


@given(curve=curves, points=st.lists(st.floats(0, 100), max_size=6))
def test_an_array_gives_what_its_numbers_give(curve, points):
    array = np.array(points).reshape(-1, 1)
    values = curve.delta(array)
    assert values.shape == array.shape
    np.testing.assert_allclose(values.ravel(), [curve.delta(point) for point in points], rtol=1e-13)


@given(curve=curves, log_delta=st.floats(-600, -1e-3))
def test_epsilon_is_the_inverse_of_delta(curve, log_delta):
    epsilon = curve.epsilon(math.exp(log_delta))
    if epsilon == 0:
        assert curve.log_delta(0.0) <= log_delta + 1e-12
    elif math.isinf(epsilon):
        assert curve.delta(math.inf) > math.exp(log_delta)
    else:
        assert curve.log_delta(epsilon * (1 + 1e-12)) <= log_delta + 1e-9 * abs(log_delta)
        assert curve.log_delta(epsilon * (1 - 1e-9)) >= log_delta - 1e-12


@pytest.mark.parametrize("mu", [1e154, 1.7e154, 1e155, 1e300])
def test_an_epsilon_beyond_all_floating_point_numbers_is_infinite(mu):
    """It is about half the square of mu, and the search for it ends."""
    expected = (mu / 2.0) * mu
    assert GaussianCurve(mu).epsilon(1e-6) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("curve", EXAMPLES, ids=repr)
@pytest.mark.parametrize("epsilon", [0.05, 0.15])
def test_round_trip_to_twelve_digits(curve, epsilon):
    assert curve.epsilon(curve.delta(epsilon)) == pytest.approx(epsilon, rel=1e-12)


@given(curve=curves, rows=st.integers(1, 4), times=st.integers(1, 4), epsilon=st.floats(0, 50))
def test_more_rows_and_more_repetitions_reveal_more(curve, rows, times, epsilon):
    alone = curve.log_delta(epsilon)
    assert curve.group(rows).log_delta(epsilon) >= alone - 1e-11 * max(1.0, abs(alone))
    assert curve.repeat(times).log_delta(epsilon) >= alone - 1e-11 * max(1.0, abs(alone))


@pytest.mark.parametrize(
    ("curve", "group", "repeated"),
    [
        (PureCurve(0.1, 3), PureCurve(0.2, 3), PureCurve(0.1, 12)),
        (GaussianCurve(0.5), GaussianCurve(1.0), GaussianCurve(1.0)),
        (ZeroConcentratedCurve(0.5), ZeroConcentratedCurve(2.0), ZeroConcentratedCurve(2.0)),
        (ApproximateCurve(0.1, 0.0, 3), ApproximateCurve(0.2, 0.0, 3), ApproximateCurve(0.1, 0.0, 12)),
    ],
    ids=lambda curve: curve.kind,
)
def test_closed_forms_of_group_and_repeat(curve, group, repeated):
    assert curve.group(2) == group
    assert curve.repeat(4) == repeated


def test_zero_concentrated_curve_covers_the_gaussian_with_that_rho():
    epsilon = np.linspace(0, 12, 200)
    for mu in (0.01, 0.5, 2.0, 6.0):
        assert np.all(
            ZeroConcentratedCurve(mu * mu / 2).delta(epsilon) >= GaussianCurve(mu).delta(epsilon) * (1 - 1e-12)
        )


def test_pure_loss_ends_where_it_must():
    assert PureCurve(0.1, 20).epsilon(0.0) == 2.0
    assert PureCurve(0.1, 20).log_delta(2.0) == -math.inf
    assert PureCurve(0.0, 20).delta(0.0) == 0.0
    assert ApproximateCurve(0.5, 0.01).epsilon(0.01) == 0.5
    assert ApproximateCurve(0.5, 0.01).epsilon(0.009) == math.inf
    assert GaussianCurve(1.0).epsilon(0.0) == math.inf
    assert ApproximateCurve(0.5, 1.0).delta(3.0) == 1.0


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e30, 1e300])
@pytest.mark.parametrize("family", [PureCurve, GaussianCurve, ZeroConcentratedCurve])
def test_absurd_parameters_stay_in_the_unit_interval(family, size):
    values = family(size).delta(np.array([0.0, 1e-9, 1.0, 1e9, 1e300]))
    assert np.all((values >= 0) & (values <= 1))
    assert np.all(np.diff(values) <= 0)


@pytest.mark.parametrize(
    ("build", "word"),
    [
        (lambda: PureCurve(-0.1), "epsilon"),
        (lambda: PureCurve(math.inf), "epsilon"),
        (lambda: PureCurve(0.1, 0), "times"),
        (lambda: ApproximateCurve(0.1, 1.5), "delta"),
        (lambda: GaussianCurve(math.nan), "mu"),
        (lambda: ZeroConcentratedCurve(-1.0), "rho"),
        (lambda: PureCurve(0.1).delta(-1e-9), "epsilon"),
        (lambda: PureCurve(0.1).delta(np.array([0.1, math.nan])), "epsilon"),
        (lambda: PureCurve(0.1).epsilon(1.1), "delta"),
        (lambda: PureCurve(0.1).group(0), "rows"),
        (lambda: GaussianCurve(0.1).repeat(0), "times"),
    ],
)
def test_bad_arguments_are_refused_by_name(build, word):
    with pytest.raises(ValueError, match=word):
        build()


@pytest.mark.parametrize("curve", [*EXAMPLES, ZeroConcentratedCurve(0.1)], ids=repr)
def test_curves_are_values(curve):
    assert isinstance(curve, PrivacyCurve)
    assert eval(repr(curve)) == curve
    assert hash(pickle.loads(pickle.dumps(curve))) == hash(curve)
    arguments = curve.to_dict()
    assert arguments.pop("kind") == curve.kind
    assert type(curve)(**arguments) == curve
    with pytest.raises(AttributeError):
        setattr(curve, fields(curve)[0].name, 1.0)
