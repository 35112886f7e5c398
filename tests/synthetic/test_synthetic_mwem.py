"""MWEM: an independent run, the inequality path by path, what one row changes, error against the bounds."""

import math

import numpy as np
import pytest
from synthetic_samples import all_histograms, matrix_of, neighbours, plain_universe, random_family

from everhold.guarantees.exceedance import exponential_exceedance
from everhold.guarantees.transfer import leakage_bound
from everhold.mechanisms.selection import ExponentialMechanism
from everhold.privacy import PureCurve, SecureNoise, SeededNoise, ZeroConcentratedCurve
from everhold.synthetic import MWEM
from everhold.synthetic.mwem import published_error
from everhold.values.evaluation import UNIT

HISTOGRAM = np.array([500, 20, 0, 300, 100, 0, 0, 80])


def maker(*, rounds=30, choice_epsilon=0.5, scale=0.01, measurement="gaussian", rows=1000, **others):
    shared = {"universe": plain_universe(8), "queries": random_family(20, 8, seed=1, binary=True), **others}
    return MWEM(rounds=rounds, choice_epsilon=choice_epsilon, scale=scale, measurement=measurement, rows=rows, **shared)


def run_by_hand(mwem, histogram, noise):
    """The algorithm written down once more, with what its analysis needs: weights, measurement errors, regrets."""
    questions, steps = matrix_of(mwem.queries), mwem.rows * UNIT
    totals = mwem.queries.totals(histogram)
    weights, average, errors, regrets = np.full(8, 1 / 8), np.zeros(8), [], []
    for _ in range(mwem.rounds):
        average += weights / mwem.rounds
        gaps = np.abs(totals - np.rint(questions @ weights * steps).astype(np.int64))
        choice = ExponentialMechanism(mwem.choice_epsilon).choose(steps - gaps, noise, stream="choice")
        draw = getattr(noise, mwem.measurement)(math.ceil(mwem.scale * steps), 1, stream="measurement")[0]
        measured = min(max((totals[choice] + draw) / steps, 0.0), 1.0)
        weights = weights * np.exp(4 * (measured - questions[choice] @ weights) * questions[choice])
        weights /= weights.sum()
        errors.append(measured - totals[choice] / steps)
        regrets.append((gaps.max() - gaps[choice]) / steps)
    return average, np.array(errors), np.array(regrets)


def largest_error(mwem, weights, histogram):
    return np.abs(matrix_of(mwem.queries) @ (weights - histogram / histogram.sum())).max()


@pytest.mark.parametrize("measurement", ["gaussian", "laplace"])
@pytest.mark.parametrize("scale", [1e-6, 0.02, 0.2])
def test_every_run_obeys_the_inequality_of_its_analysis(measurement, scale):
    mwem = maker(measurement=measurement, scale=scale)
    for seed in range(15):
        weights, errors, regrets = run_by_hand(mwem, HISTOGRAM, SeededNoise(seed))
        np.testing.assert_allclose(mwem.weights(HISTOGRAM, SeededNoise(seed)), weights, rtol=1e-6, atol=1e-12)
        bound = math.sqrt(math.log(8) / (2 * mwem.rounds) + np.mean(errors**2)) + regrets.mean()
        assert largest_error(mwem, weights, HISTOGRAM) <= bound + 1e-9


@pytest.mark.parametrize("measurement", ["gaussian", "laplace"])
def test_the_expected_excess_of_the_noise_is_below_its_bound(measurement):
    mwem = maker(measurement=measurement, scale=0.2, rounds=4)
    draws = np.random.default_rng(1).standard_normal((4, 10**5)) if measurement == "gaussian" else None
    if draws is None:
        draws = np.random.default_rng(1).laplace(size=(4, 10**5))
    for beta in (0.01, 0.1, 0.5):
        alpha, exceedance = mwem._learning(beta)
        norms = np.sqrt(math.log(8) / 8 + 0.04 * (draws**2).mean(axis=0))
        assert 0 < np.maximum(norms - alpha, 0).mean() <= exceedance


@pytest.mark.parametrize("beta", [0.05, 0.5])
def test_the_choice_of_questions_adds_the_excess_of_the_exponential_mechanism(beta):
    mwem = maker()
    learning, total = mwem._learning(beta), mwem.sampling(beta)
    extra = min(
        alpha + exponential_exceedance(alpha=alpha, scale=2 / (0.5 * 1000), candidates=20) / beta
        for alpha in np.linspace(0, 0.1, 20_001)
    )
    assert total[0] + total[1] / beta == pytest.approx(learning[0] + learning[1] / beta + extra, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_the_error_on_the_rows_stays_below_the_bound(confidence):
    mwem = maker(confidence=confidence, rounds=40, scale=0.02)
    errors = [largest_error(mwem, mwem.weights(HISTOGRAM, SeededNoise(seed)), HISTOGRAM) for seed in range(100)]
    assert np.mean(np.array(errors) > mwem.bound().on_rows) <= 1 - confidence
    too_noisy = maker(confidence=confidence, rounds=2, scale=2.0, choice_epsilon=1e-3)
    errors = [largest_error(mwem, too_noisy.weights(HISTOGRAM, SeededNoise(seed)), HISTOGRAM) for seed in range(100)]
    assert np.mean(np.array(errors) > mwem.bound().on_rows) > 1 - confidence  # the check can fail


@pytest.mark.parametrize(("rows", "rounds"), [(10**6, 200), (10**7, 300)])
def test_the_bound_is_below_the_published_one_and_the_error_below_both(rows, rounds):
    mwem = MWEM.hardt2012(
        epsilon=1.0, rounds=rounds, rows=rows, universe=plain_universe(8), queries=random_family(1000, 8, binary=True),
        confidence=0.6,
    )  # fmt: skip
    published, failure = published_error(rows=rows, cells=8, queries=1000, rounds=rounds, epsilon=1.0)
    assert failure == pytest.approx(1 - mwem.confidence, abs=0.2)
    histogram = np.random.default_rng(0).multinomial(rows, np.arange(8) / 28)
    error = largest_error(mwem, mwem.weights(histogram, SeededNoise(1)), histogram)
    assert error < mwem.bound().on_rows < published


# Privacy --------------------------------------------------------------------------------------------------------------


def test_one_row_moves_losses_and_measured_sums_by_one_unit_at_most():
    family, rows = random_family(6, 3, seed=2), 3
    worst = 0
    for histogram in all_histograms(rows, 3):
        totals = family.totals(histogram)
        for other in neighbours(histogram):
            moved = family.totals(other)
            for public in np.random.default_rng(3).integers(0, rows * UNIT, (5, 6)):
                worst = max(worst, *np.abs(np.abs(totals - public) - np.abs(moved - public)), *np.abs(totals - moved))
    assert 0.5 * UNIT < worst <= UNIT


class Spying:
    """Counts what is drawn."""

    simulated = True

    def __init__(self):
        self.source, self.drawn = SeededNoise(1), []

    def __getattr__(self, kind):
        def draw(*args, stream):
            self.drawn.append((kind, stream, args[0]))
            return getattr(self.source, kind)(*args, stream=stream)

        return draw


@pytest.mark.parametrize("measurement", ["gaussian", "laplace"])
def test_exactly_what_the_curve_counts_is_drawn(measurement):
    mwem, noise = maker(measurement=measurement, rounds=7), Spying()
    mwem.weights(HISTOGRAM, noise)
    assert {stream for _, stream, _ in noise.drawn} == {"choice", "measurement"}
    measured = [(kind, scale) for kind, stream, scale in noise.drawn if stream == "measurement"]
    assert measured == [(measurement, math.ceil(0.01 * 1000 * UNIT))] * 7


def test_curves_in_closed_form_and_tight_ones():
    pytest.importorskip("dp_accounting")
    points = np.array([0.1, 0.5, 1.0])
    few = maker(measurement="laplace", rounds=2, scale=0.02, choice_epsilon=0.05)
    assert few.curve() == PureCurve(0.05, times=4)
    for mwem in (few, maker(rounds=5, scale=0.02), maker(rounds=5, scale=0.02, measurement="laplace")):
        assert np.all(mwem.tight_curve().delta(points) <= mwem.curve().delta(points) + 1e-9)
    assert few.privacy() == (pytest.approx(2 * (0.05 + 1 / 20)), 0.0)
    epsilon, delta = maker().privacy()
    assert maker().curve().delta(epsilon) <= delta * (1 + 1e-9)


def test_the_smaller_closed_curve_is_chosen():
    shared = {"universe": plain_universe(8), "queries": random_family(20, 8, binary=True), "rows": 10**6}
    for rounds, kind in ((1, PureCurve), (200, ZeroConcentratedCurve)):
        mwem = MWEM.hardt2012(epsilon=0.5, rounds=rounds, **shared)
        assert isinstance(mwem.curve(), kind)
        pure = PureCurve(0.5 / (2 * rounds), times=2 * rounds)
        assert leakage_bound(mwem.curve(), confidence=0.95).total <= leakage_bound(pure, confidence=0.95).total


# Parameters -----------------------------------------------------------------------------------------------------------


def test_calibrations_spend_what_they_are_given():
    shared = {"universe": plain_universe(8), "queries": random_family(20, 8, binary=True), "rows": 1000, "rounds": 10}
    assert MWEM.hardt2012(epsilon=0.7, **shared).privacy() == (pytest.approx(0.7), 0.0)
    assert MWEM.concentrated(rho=0.2, **shared).curve().rho == pytest.approx(0.2)


def test_tuned_is_as_good_as_anything_near():
    shared = {"universe": plain_universe(8), "queries": random_family(20, 8, binary=True), "rows": 10**6}
    best = MWEM.tuned(most_rounds=300, **shared)
    for rho in (1e-4, 1e-3, 1e-2):
        for rounds in (10, 100, 300):
            assert best.bound().radius <= MWEM.concentrated(rho=rho, rounds=rounds, **shared).bound().radius * 1.01
    assert MWEM.tuned(rho=0.01, most_rounds=50, **shared).curve().rho == pytest.approx(0.01)


WRONG = [{"rounds": 0}, {"rounds": 1.5}, {"choice_epsilon": 0.0}, {"choice_epsilon": math.inf}, {"scale": 0.0}]


@pytest.mark.parametrize("wrong", [*WRONG, {"scale": math.nan}, {"scale": 1e9}, {"measurement": "none"}], ids=str)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        maker(**wrong)


def test_wrong_budgets_are_refused():
    for make in (MWEM.hardt2012, MWEM.concentrated):
        for budget in (0.0, -1.0, math.inf, math.nan):
            name = "epsilon" if make == MWEM.hardt2012 else "rho"
            with pytest.raises(ValueError, match=name):
                make(**{name: budget}, rounds=3, rows=10, universe=plain_universe(8), queries=random_family(2, 8))


def test_it_runs_with_secure_noise():
    table = maker(rounds=3).draw(HISTOGRAM, SecureNoise())
    assert not table.simulated
    assert table.weights.sum() == pytest.approx(1)
