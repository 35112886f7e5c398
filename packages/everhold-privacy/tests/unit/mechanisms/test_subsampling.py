"""Fresh random rows: their draws, their exact laws against the published curve, their promises and their tuning."""

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from exact_law import hockey_stick
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare

from everhold.dependence import Groups
from everhold.errors import DependenceError
from everhold.mechanisms import State
from everhold.mechanisms.records import Evaluations
from everhold.randomness import SecureNoise, SeededNoise
from everhold.testing import MechanismContract
from everhold_privacy.curves import GaussianCurve, PureCurve
from everhold_privacy.mechanisms.additive import GaussianMechanism
from everhold_privacy.mechanisms.averages import SampleSplitting
from everhold_privacy.mechanisms.subsampling import MOST_DRAWS, RandomRows, SubsampledBitsCurve, Subsampling, ones_among


class TestSubsampling(MechanismContract):
    def make(self, **wanted):
        return Subsampling.tuned(**wanted, draws=2**16)


class TestRandomRows(MechanismContract):
    def make(self, **wanted):
        return RandomRows.tuned(**wanted)


class TestRandomRowsWithoutCoins(MechanismContract):
    def make(self, **wanted):
        return RandomRows.tuned(**wanted, coins=0.0)


# Draws ----------------------------------------------------------------------------------------------------------------


def replayed(patterns, bits):
    """A source of words whose highest bits are the given patterns, in turn."""
    left = iter(patterns)
    return lambda size: np.array([next(left) << (64 - bits) for _ in range(size)], dtype=np.uint64)


@pytest.mark.parametrize("draws", [1, 2, 3])
@pytest.mark.parametrize("eighths", range(9))
def test_the_law_of_the_draws_is_exactly_binomial(draws, eighths):
    """Three digits settle every comparison with a number of eighths: all their values, each as likely as any other."""
    counts = np.zeros(draws + 1)
    for patterns in itertools.product(range(2**draws), repeat=3):
        counts[ones_among(draws, Fraction(eighths, 8), replayed(patterns, draws))] += 1
    np.testing.assert_allclose(counts / counts.sum(), binom.pmf(np.arange(draws + 1), draws, eighths / 8), atol=1e-15)


@pytest.mark.parametrize("noise", [SeededNoise(5), SecureNoise()])
@pytest.mark.parametrize(("draws", "chance"), [(7, Fraction(1, 3)), (130, Fraction(77, 100)), (64, Fraction(1, 2**40))])
def test_the_draws_look_binomial(noise, draws, chance):
    drawn = [ones_among(draws, chance, lambda size: noise.words(size, stream="x")) for _ in range(4000)]
    expected = 4000 * binom.pmf(np.arange(draws + 1), draws, float(chance))
    seen = np.bincount(drawn, minlength=draws + 1)
    common = expected >= 5
    assert seen[~common].sum() <= 60
    if common.sum() > 1:
        seen, expected = (np.append(x[common], x[~common].sum()) for x in (seen, expected))
        assert chisquare(seen[expected > 0], expected[expected > 0]).pvalue > 1e-6


@pytest.mark.parametrize("draws", [1, 63, 64, 65, 10**5])
def test_sure_draws_need_no_luck(draws):
    noise = SeededNoise(1)
    for chance in (Fraction(0), Fraction(1)):
        assert ones_among(draws, chance, lambda size: noise.words(size, stream="x")) == draws * chance


def test_about_two_bits_are_used_for_each_draw():
    noise, used = SeededNoise(2), []

    def words(size):
        used.append(size)
        return noise.words(size, stream="x")

    ones_among(10**6, Fraction(1, 3), words)
    assert 64 * sum(used) <= 2.02e6


def test_answers_are_unbiased_and_spread_as_draws_do():
    mechanism = Subsampling(rows=1000, queries=4000, draws=400, coins=0.5)
    evaluations = Evaluations(np.full((4000, 1), 700 * mechanism.unit), np.full(4000, -1), 1000)
    values = mechanism.answer_many(State(), evaluations, SeededNoise(3))[1].values
    sigma = np.sqrt(0.6 * 0.4 / 400) / 0.5
    assert values.mean() == pytest.approx(0.7, abs=5 * sigma / np.sqrt(4000))
    assert values.std() == pytest.approx(sigma, rel=0.06)


# The curve ------------------------------------------------------------------------------------------------------------


def transcript_law(total, rows, draws, coins, second):
    """Law of the counts of two answers; the second query is about the row's value itself or about its opposite."""
    law = {}
    for first in range(draws + 1):
        following = rows - total if second[first] else total
        chances = [coins / 2 + (1 - coins) * x / rows for x in (total, following)]
        for last in range(draws + 1):
            law[first, last] = binom.pmf(first, draws, chances[0]) * binom.pmf(last, draws, chances[1])
    return law


def largest_excess(curve, *, rows, draws, coins):
    """By how much the exact divergence of neighbours exceeds the curve, for all adaptive choices of two queries."""
    epsilons = np.linspace(0.0, 3.0, 13)
    excess = -np.inf
    for second in itertools.product((False, True), repeat=draws + 1):
        laws = [transcript_law(total, rows, draws, coins, second) for total in range(rows + 1)]
        for one, other in [(i, i + 1) for i in range(rows)] + [(i + 1, i) for i in range(rows)]:
            exact = [hockey_stick(laws[one], laws[other], epsilon) for epsilon in epsilons]
            excess = max(excess, float((exact - curve.delta(epsilons)).max()))
    return excess


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("draws", [1, 2, 3])
@pytest.mark.parametrize("coins", [0.1, 0.5, 0.9])
def test_transcripts_stay_below_the_curve_whatever_is_asked(rows, draws, coins):
    mechanism = Subsampling(rows=rows, queries=2, draws=draws, coins=coins)
    assert largest_excess(mechanism.curve(), rows=rows, draws=draws, coins=coins) <= 1e-12


PLANTED = {
    "honest": {},
    "one draw too few": {"draws": 3},
    "too many coins": {"coins": 0.42},
    "half a row": {"share": 0.5},
}


@pytest.mark.parametrize("error", PLANTED)
def test_a_single_row_attains_the_curve_and_planted_errors_are_seen(error):
    curve = SubsampledBitsCurve(**{"draws": 4, "coins": 0.4, "share": 1.0, **PLANTED[error]})
    excess = largest_excess(curve, rows=1, draws=2, coins=0.4)
    assert (excess <= 1e-12) == (error == "honest")
    if error == "honest":
        loss = np.log(1.6 / 0.4)  # all four bits are randomised response
        for epsilon in (0.0, 0.5, 2.0, 4.0):
            assert curve.delta(epsilon) == pytest.approx(PureCurve(loss, 4).delta(epsilon), rel=2e-9)


@pytest.mark.parametrize("differing", [1, 2, 3])
def test_groups_of_rows_stay_below_the_curve_for_groups(differing):
    draws, coins, rows = 6, 0.3, 4
    curve = SubsampledBitsCurve(draws, coins, 1 / rows).group(differing)
    for low in range(rows - differing + 1):
        chances = [coins / 2 + (1 - coins) * total / rows for total in (low, low + differing)]
        laws = [dict(enumerate(binom.pmf(np.arange(draws + 1), draws, chance))) for chance in chances]
        for epsilon in np.linspace(0, 3, 7):
            assert max(hockey_stick(*laws, epsilon), hockey_stick(*laws[::-1], epsilon)) <= curve.delta(epsilon) + 1e-12


def told_exactly(draws, coins, share, epsilon):
    """The dominating law, with the number of telling draws averaged over and not bounded."""
    rate = coins + (1 - coins) * share
    loss = np.log1p(2 * (1 - coins) * share / coins)
    told = np.arange(1, draws + 1)
    told = told[binom.pmf(told, draws, rate) > 1e-15]
    deltas = np.array([PureCurve(loss, int(n)).delta(epsilon) for n in told])
    return float(binom.pmf(told, draws, rate) @ deltas)


@pytest.mark.parametrize(("draws", "coins", "share"), [(50, 0.3, 0.1), (2000, 0.5, 0.003), (3000, 0.02, 1e-4)])
def test_counting_telling_draws_costs_little_and_never_gains(draws, coins, share):
    curve = SubsampledBitsCurve(draws, coins, share)
    for epsilon in (0.0, 0.02, 0.2, 1.0):
        exact = told_exactly(draws, coins, share, epsilon)
        assert exact <= curve.delta(epsilon) * (1 + 1e-10)
    assert curve.delta(0.0) <= 3 * told_exactly(draws, coins, share, 0.0)


@pytest.mark.parametrize("draws", [10**6, 10**9, 10**12])
def test_many_draws_are_nearly_gaussian(draws):
    curve = SubsampledBitsCurve(draws, 0.6, 0.06 / np.sqrt(draws))
    limit = curve.gaussian_limit()
    assert limit == GaussianCurve(limit.mu)
    for epsilon in (0.0, 0.01, 0.05, 0.1):
        assert curve.delta(epsilon) == pytest.approx(limit.delta(epsilon), rel=20 / np.sqrt(draws) * 1e2 + 1e-5)


@given(draws=st.integers(1, 10**8), coins=st.floats(1e-3, 1.0), share=st.floats(1e-8, 1.0))
@settings(max_examples=60, deadline=None)
def test_the_curve_is_a_curve(draws, coins, share):
    curve = SubsampledBitsCurve(draws, coins, share)
    values = curve.delta(np.append(np.geomspace(1e-6, 30, 60), np.inf))
    assert np.all((values >= 0) & (values <= 1))
    assert np.all(np.diff(values) <= 1e-7 * values[:-1])
    assert values[-1] == 0.0
    assert curve.repeat(3) == SubsampledBitsCurve(3 * draws, coins, share)
    for delta in (0.0, 1e-14, 1e-6):
        assert curve.delta(curve.epsilon(delta) * (1 + 1e-9)) <= delta * (1 + 1e-6)
    assert curve.group(2).delta(0.1) >= curve.delta(0.1) * (1 - 1e-7)


@pytest.mark.parametrize("wrong", [{"draws": 0}, {"coins": 0.0}, {"coins": 1.1}, {"share": 0.0}, {"share": np.nan}])
def test_wrong_arguments_of_the_curve_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SubsampledBitsCurve(**{"draws": 3, "coins": 0.5, "share": 0.1, **wrong})


# Promises -------------------------------------------------------------------------------------------------------------

WISHES = [(5_000, 100), (50_000, 1_000), (500_000, 5_000)]


@pytest.mark.parametrize(("rows", "queries"), WISHES)
def test_it_comes_close_to_the_gaussian_mechanism_and_not_below(rows, queries):
    gaussian = GaussianMechanism.tuned(rows=rows, queries=queries).promise().radius
    assert gaussian <= Subsampling.tuned(rows=rows, queries=queries).promise().radius <= 1.02 * gaussian


@pytest.mark.parametrize(("rows", "queries"), WISHES)
@pytest.mark.parametrize("draws", [2**12, 2**20])
def test_no_share_of_coins_on_a_fine_grid_is_better(rows, queries, draws):
    best = Subsampling.tuned(rows=rows, queries=queries, draws=draws)
    kept = np.append(np.geomspace(1e-4, 0.5, 60), (1 - best.coins) * np.linspace(0.8, 1.2, 21))
    kept = np.append(kept[kept < 1], 1 - np.geomspace(1e-3, 0.5, 20))
    radii = [replace(best, coins=1 - x).promise().radius for x in kept.tolist()]
    assert best.promise().radius <= min(radii) * (1 + 1e-4)


@pytest.mark.parametrize(("rows", "queries"), WISHES)
def test_more_draws_are_better(rows, queries):
    radii = [Subsampling.tuned(rows=rows, queries=queries, draws=2**i).promise().radius for i in (10, 14, 18, 22)]
    assert radii == sorted(radii, reverse=True)


@pytest.mark.parametrize(("rows", "queries"), WISHES)
@pytest.mark.parametrize("coins", [0.0, None])
def test_no_number_of_random_rows_on_a_fine_grid_is_better(rows, queries, coins):
    best = RandomRows.tuned(rows=rows, queries=queries, coins=coins)
    factors = np.append(np.geomspace(0.02, 50, 60), np.linspace(0.9, 1.1, 21))
    radii = [replace(best, draws=round(best.draws * x)).promise().radius for x in factors.tolist()]
    assert best.promise().radius <= min(radii) * (1 + 1e-4)


def test_what_is_known_about_random_rows():
    """Radii for (rows, queries): without coins, with a few, and of rows that are split among the queries."""
    for (rows, queries), bare, coins, split in zip(
        WISHES, (0.346, 0.223, 0.116), (0.186, 0.112, 0.055), (0.287, 0.325, 0.247), strict=True
    ):
        assert RandomRows.tuned(rows=rows, queries=queries, coins=0.0).promise().radius <= bare
        assert RandomRows.tuned(rows=rows, queries=queries).promise().radius <= coins
        assert SampleSplitting(rows=rows, queries=queries).promise().radius >= split


def test_a_plain_secret_sample_of_the_rows_never_helps_gaussian_noise():
    """Gaussian noise on a secret sample: the amplified curve of one answer, and the sample's own error in r."""
    rows, sigma = 10_000, 0.02
    plain = GaussianCurve(1 / (rows * sigma)).delta(0.0)
    for rate in (0.5, 0.1, 0.01):
        own = 0.5 * np.sqrt((1 - rate) / (rate * rows))  # standard error of the sample at its worst
        noise = np.sqrt(max(sigma**2 - own**2, 1e-12))
        assert rate * GaussianCurve(1 / (rate * rows * noise)).delta(0.0) > plain  # amplification at epsilon 0


def test_dependent_rows():
    groups = Groups({1: 4_000, 2: 500})
    wanted = {"rows": 5_000, "queries": 100}
    apart, together = Subsampling.tuned(**wanted), Subsampling.tuned(**wanted, dependence=groups)
    assert together.promise().radius > apart.promise().radius
    assert together.promise().statement == "S1"
    with pytest.raises(DependenceError, match="needs independent rows"):
        RandomRows.tuned(**wanted, dependence=groups)


@pytest.mark.parametrize("kind", [Subsampling, RandomRows])
@pytest.mark.parametrize(
    "wrong", [{"draws": 0}, {"draws": 1.5}, {"draws": MOST_DRAWS + 1}, {"coins": 1.0}, {"coins": -0.1}]
)
def test_wrong_parameters_are_refused(kind, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        kind(**{"rows": 100, "queries": 3, "draws": 10, "coins": 0.5, **wrong})


def test_noise_free_answers_are_not_called_private():
    assert RandomRows.tuned(rows=5_000, queries=100).promise().privacy is None
    epsilon, delta = Subsampling.tuned(rows=5_000, queries=100).promise().privacy
    assert (0.1 < epsilon < 1.0, delta) == (True, 1e-6)


# An attack ------------------------------------------------------------------------------------------------------------

ATTACKED, RULES, AT_ONCE = 8_000, 16_000, 2_000


def answers(mechanism, state, means, noise):
    """Answers to queries with the given sealed means; these themselves without a mechanism."""
    if mechanism is None:
        return state, means
    totals = np.rint(means * mechanism.rows).astype(np.int64)[:, None] * mechanism.unit
    state, replies = mechanism.answer_many(state, Evaluations(totals, np.full(len(means), -1), mechanism.rows), noise)
    return state, replies.values


@cache
def overfitted(mechanism):
    """Error of the last answer to an analyst who lets all rules vote by what was answered; each rule is a fair coin."""
    generator, noise, state = np.random.default_rng(7), SeededNoise(8), State()
    votes = np.zeros(ATTACKED, dtype=np.float32)
    for _ in range(RULES // AT_ONCE):
        bits = np.unpackbits(np.frombuffer(generator.bytes(ATTACKED * AT_ONCE // 8), dtype=np.uint8))
        rules = bits.reshape(ATTACKED, AT_ONCE)
        state, values = answers(mechanism, state, rules.mean(axis=0), noise)
        votes += (rules.astype(np.float32) - 0.5) @ np.sign(values - 0.5).astype(np.float32)
    return abs(float(answers(mechanism, state, np.array([(votes > 0).mean()]), noise)[1][0]) - 0.5)


@pytest.mark.parametrize("kind", [Subsampling, RandomRows])
def test_a_vote_of_all_rules_breaks_bare_averages_and_no_promise(kind):
    extra = {"draws": 2**14} if kind is Subsampling else {}
    mechanism = kind.tuned(rows=ATTACKED, queries=RULES + 1, confidence=0.5, **extra)
    radius = mechanism.promise().radius
    assert overfitted(None) > radius
    assert overfitted(mechanism) <= radius
