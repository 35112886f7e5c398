import multiprocessing
import pickle

import numpy as np
import pytest
from noise_laws import discrete_gaussian_pmf, discrete_laplace_pmf
from scipy import stats

from everhold.randomness import KeyedNoise, Noise, SecureNoise, SeededNoise, bernoulli_exp, uniform_below

PMF = {"laplace": discrete_laplace_pmf, "gaussian": discrete_gaussian_pmf}
SOURCES = {"secure": SecureNoise(), "keyed": KeyedNoise(bytes(range(32))), "seeded": SeededNoise(20)}
REPEATABLE = {"keyed": lambda: KeyedNoise(bytes(32)), "seeded": lambda: SeededNoise(5)}


def chi_square(draws, probabilities, reach):
    """p-value of the counts on [-reach, reach], both tails pooled, against probabilities on the same cells."""
    counts = np.bincount(np.clip(draws, -reach, reach) + reach, minlength=2 * reach + 1)
    return stats.chisquare(counts, len(draws) * probabilities).pvalue


def pooled(pmf, scale, reach):
    cells = pmf(scale, np.arange(-reach, reach + 1))
    cells[[0, -1]] += (1 - cells.sum()) / 2
    return cells


@pytest.mark.parametrize("scale", [1, 2, 7])
@pytest.mark.parametrize("law", PMF)
@pytest.mark.parametrize("source", SOURCES)
def test_small_scales_follow_the_exact_law(source, law, scale):
    draws = getattr(SOURCES[source], law)(scale, 20_000, stream=f"{law}{scale}")
    assert chi_square(draws, pooled(PMF[law], scale, 3 * scale), 3 * scale) > 1e-6


def test_the_chi_square_test_sees_a_wrong_scale():
    draws = SeededNoise(1).laplace(7, 20_000, stream="a")
    assert chi_square(draws, pooled(discrete_laplace_pmf, 8, 21), 21) < 1e-6


@pytest.mark.parametrize(("law", "cdf"), [("laplace", stats.laplace.cdf), ("gaussian", stats.norm.cdf)])
@pytest.mark.parametrize("source", SOURCES)
def test_large_scales_follow_the_continuous_law(source, law, cdf):
    scale = 10**11
    draws = getattr(SOURCES[source], law)(scale, 10_000, stream="large")
    assert stats.kstest(draws / scale, cdf).pvalue > 1e-6


@pytest.mark.parametrize("law", PMF)
def test_secure_noise_agrees_with_opendp(law):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    make = dp.m.make_laplace if law == "laplace" else dp.m.make_gaussian
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    metric = dp.l1_distance(T="i64") if law == "laplace" else dp.l2_distance(T=float)
    other = np.array(make(domain, metric, scale=5.0)([0] * 4000))
    mine = getattr(SecureNoise(), law)(5, 4000, stream="")
    cells = [np.bincount(np.clip(draws, -12, 12) + 12, minlength=25) for draws in (mine, other)]
    assert stats.chi2_contingency(cells).pvalue > 1e-6


@pytest.mark.parametrize("scale", [1, 3, 1024, 1025, 10**11])
@pytest.mark.parametrize("law", PMF)
@pytest.mark.parametrize("source", REPEATABLE)
def test_one_call_for_many_equals_many_calls_for_one(source, law, scale):
    at_once = getattr(REPEATABLE[source](), law)(scale, 50, stream="answers")
    noise = REPEATABLE[source]()
    singly = [getattr(noise, law)(scale, 1, stream="answers").item() for _ in range(50)]
    assert at_once.tolist() == singly


@pytest.mark.parametrize("source", REPEATABLE)
def test_a_stream_does_not_depend_on_what_others_drew(source):
    alone, busy = REPEATABLE[source](), REPEATABLE[source]()
    busy.laplace(100, 17, stream="threshold")
    assert alone.laplace(100, 9, stream="answer").tolist() == busy.laplace(100, 9, stream="answer").tolist()


def test_streams_and_seeds_differ_and_do_not_correlate():
    first = SeededNoise(5).gaussian(10**9, 5000, stream="a")
    for other in (SeededNoise(5).gaussian(10**9, 5000, stream="b"), SeededNoise(6).gaussian(10**9, 5000, stream="a")):
        assert abs(stats.pearsonr(first, other).statistic) < 0.08


def test_seeded_noise_is_the_same_on_every_machine():
    assert SeededNoise(7).laplace(1000, 4, stream="answer").tolist() == [831, 372, -17, -1520]


def draw_into(queue):
    queue.put(SecureNoise().laplace(2**50, 4, stream="a").tolist())


def test_forked_processes_draw_different_noise():
    SecureNoise().laplace(2**50, 4, stream="a")
    fork = multiprocessing.get_context("fork")
    queue = fork.Queue()
    children = [fork.Process(target=draw_into, args=(queue,)) for _ in range(2)]
    for child in children:
        child.start()
    first, second = queue.get(timeout=30), queue.get(timeout=30)
    for child in children:
        child.join()
    assert first != second


@pytest.mark.parametrize("noise", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("law", PMF)
def test_both_sources_keep_the_protocol(noise, law):
    draw = getattr(noise, law)
    assert isinstance(noise, Noise)
    assert draw(3, 0, stream="a").shape == (0,)
    assert draw(2**56, 100, stream="a").dtype == np.int64
    assert draw(np.int64(3), np.int32(2), stream="a").shape == (2,)
    for scale in (0, -1, 2**56 + 1):
        with pytest.raises(ValueError, match="scale"):
            draw(scale, 1, stream="a")
    with pytest.raises(ValueError, match="size"):
        draw(1, -1, stream="a")
    with pytest.raises(TypeError):
        draw(1.5, 1, stream="a")


def test_secure_noise_has_no_state_and_says_so():
    assert SecureNoise().simulated is False
    assert SeededNoise(1).simulated is True
    assert repr(SecureNoise()) == "SecureNoise()"
    assert not hasattr(SecureNoise(), "__dict__")


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="seed"):
        SeededNoise(-1)


def words_of(*fixed):
    yield from fixed
    while True:
        yield 2**63


def test_bernoulli_exp_compares_every_digit_of_the_fraction():
    third = 2**64 // 3  # first digit of 1/3 in base 2**64, and every digit after it
    far = 2**64 - 1  # not below 1/2, 1/6 or less
    assert not bernoulli_exp(1, 3, words_of(third, third, third - 1, far))  # the second real is not below: even
    assert bernoulli_exp(1, 3, words_of(third, third, third + 1))
    assert not bernoulli_exp(1, 1, words_of(2**64 - 1, far))
    assert bernoulli_exp(0, 1, words_of(0, 0, 1))


def test_bernoulli_exp_counts_its_series_and_splits_large_exponents():
    noise_words = iter(np.random.default_rng(3).integers(0, 2**64, 400_000, dtype=np.uint64).tolist())
    for numerator, denominator in ((1, 2), (1, 1), (5, 2)):
        hits = sum(bernoulli_exp(numerator, denominator, noise_words) for _ in range(20_000))
        assert stats.binomtest(hits, 20_000, np.exp(-numerator / denominator)).pvalue > 1e-6


def test_uniform_below_rejects_what_does_not_fit():
    assert uniform_below(5, words_of(7 << 61, 5 << 61, 3 << 61)) == 3
    assert uniform_below(1, words_of(0)) == 0


def test_keyed_words_are_the_same_however_many_are_taken_at_once():
    at_once = KeyedNoise(bytes(32)).words(1_000, stream="a")
    noise = KeyedNoise(bytes(32))
    singly = [noise.words(size, stream="a") for size in (1, 0, 200, 127, 1, 671)]
    assert at_once.dtype == np.uint64
    assert np.concatenate(singly).tolist() == at_once.tolist()
    mixed = KeyedNoise(bytes(32))
    mixed.laplace(10, 1, stream="a")  # takes words of its own, in order
    assert mixed.words(1, stream="a")[0] in at_once


def test_keys_and_streams_have_noise_of_their_own():
    keys = [bytes(32), bytes(31) + b"1"]
    drawn = {tuple(KeyedNoise(key).words(2, stream=stream).tolist()) for key in keys for stream in ("a", "b")}
    assert len(drawn) == 4
    with pytest.raises(ValueError, match="Pass 32 bytes"):
        KeyedNoise(b"short")


def test_a_key_never_shows_and_is_not_copied():
    noise = KeyedNoise(bytes(range(32)))
    assert repr(noise) == "KeyedNoise()"
    assert not noise.simulated
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(noise)
