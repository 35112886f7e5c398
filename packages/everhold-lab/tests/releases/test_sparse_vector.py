"""The sparse vector technique: exact laws against the curve, planted errors, scales, accuracy, speed."""

import itertools
import math
import time
from collections import defaultdict
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from exact_law import UNREAD, DrawNeededError, ReplayNoise, hockey_stick, lumped_law
from hypothesis import given, settings
from hypothesis import strategies as st
from noise_laws import discrete_laplace_pmf
from scipy.optimize import minimize_scalar
from scipy.stats import chisquare

from everhold.randomness import SecureNoise, SeededNoise
from everhold_privacy.mechanisms.sparse_vector import (
    SparseState,
    SparseVector,
    SparseVerdict,
    best_split,
    dwork_roth_scale,
)

TINY = {"threshold": 1, "sensitivity": 1}


class ExactStream:
    """The law of a stream's replies, by driving the real steps with every possible noise.

    Noise is lumped where nothing changes any more: comparisons beyond every threshold. Thresholds beyond ``reach`` are
    lost, with probability ``lost``.
    """

    def __init__(self, stream, *, planted=None, span=4):
        self.stream, self.planted = stream, planted or {}
        scale = stream.threshold_scale * self.planted.get("threshold", 1)
        reach = 14 * stream.threshold_scale
        self.thresholds = lumped_law("laplace", scale, reach) if scale else ((0, 1.0),)
        far = np.arange(reach + 1, reach + 60 * max(math.ceil(scale), 1))
        self.lost = 2 * stream.tops * float(discrete_laplace_pmf(scale, far).sum()) if scale else 0.0
        self.reach = {"comparison": reach + span}
        self.step = cache(self._step)

    def of(self, values):
        law = {((), state): mass for state, mass in self._read(self.stream.start(ReplayNoise()))}
        for value in values:
            following = defaultdict(float)
            for (replies, state), mass in law.items():
                for reply, after, share in self.step(state, value):
                    following[(*replies, reply), after] += mass * share
            law = following
        transcripts = defaultdict(float)
        for (replies, _), mass in law.items():
            transcripts[replies] += mass
        return dict(transcripts)

    def _step(self, state, value):
        outcomes, pending = defaultdict(float), [((), 1.0)]
        while pending:
            draws, mass = pending.pop()
            try:
                after, verdicts = self.stream.ask(state, [value], ReplayNoise(draws, self.planted))
            except DrawNeededError as needed:
                kind, scale, stream = needed.args
                law = lumped_law(kind, scale, self.reach[stream])
                pending += [((*draws, draw), mass * share) for draw, share in law]
                continue
            reply = int(verdicts[0])
            for read, share in self._read(after):
                outcomes[reply, read] += mass * share
        return tuple((reply, after, mass) for (reply, after), mass in outcomes.items())

    def _read(self, state):
        if state.threshold_noise != UNREAD:
            return [(state, 1.0)]
        if state.tops == self.stream.tops:
            return [(SparseState(state.tops), 1.0)]  # halted: it is never read
        return [(SparseState(state.tops, draw), mass) for draw, mass in self.thresholds]


def neighbours(length, levels, moves=(-1, 0, 1)):
    """All pairs of short streams that one row can lead to, with every value moving by one of the moves."""
    for values in itertools.product(range(levels), repeat=length):
        for moved in itertools.product(moves, repeat=length):
            yield values, tuple(value + move for value, move in zip(values, moved, strict=True))


def excess_and_share(stream, pairs, **planted):
    """By how much the curve is exceeded at least, and the largest sure loss as a share of what the curve allows."""
    exact, curve = ExactStream(stream, planted=planted), stream.curve()
    most = curve.epsilon(0.0)
    law = cache(exact.of)
    excess, loss = -1.0, 0.0
    for first, second in pairs:
        for x, y in ((first, second), (second, first)):
            for epsilon in np.linspace(0.0, most, 9):
                allowed = curve.delta(float(epsilon)) + (1 + math.exp(epsilon)) * exact.lost
                excess = max(excess, hockey_stick(law(x), law(y), epsilon) - allowed)
            sure = [(mass - exact.lost, law(y).get(o, 0.0) + exact.lost) for o, mass in law(x).items()]
            loss = max([loss, *(math.log(p / q) if q else math.inf for p, q in sure if p > 0)])
    return excess, loss / most


# Privacy, exactly -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("redraws", [True, False])
@pytest.mark.parametrize("tops", [1, 2])
def test_no_neighbours_exceed_the_curve(tops, redraws):
    stream = SparseVector(**TINY, tops=tops, threshold_scale=1, query_scale=2, redraws=redraws)
    excess, share = excess_and_share(stream, neighbours(3, 3))
    assert excess <= 1e-12
    assert 0.2 < share <= 1


MONOTONE = SparseVector(**TINY, tops=2, threshold_scale=1, query_scale=2, monotone=True)


@pytest.mark.parametrize("redraws", [True, False])
def test_monotone_streams_lose_half_as_much_per_top(redraws):
    excess, share = excess_and_share(replace(MONOTONE, redraws=redraws), neighbours(3, 3, moves=(0, 1)))
    assert excess <= 1e-12
    assert 0.2 < share <= 1


PROVOKING = (1,) * 6 + (0,), (0,) * 6 + (1,)
"""All values move one way and the last one the other: threshold and comparison are pulled apart."""


def test_a_stream_that_is_not_monotone_breaks_the_monotone_curve():
    stream = replace(MONOTONE, threshold=0, tops=1, query_scale=1, threshold_scale=2)
    excess, share = excess_and_share(stream, [PROVOKING])
    assert excess > 1e-3
    assert share > 1.2


@pytest.mark.parametrize(("threshold_scale", "query_scale"), [(2, 1), (1, 2)])
def test_a_provoked_stream_nearly_attains_its_pure_loss(threshold_scale, query_scale):
    scales = {"threshold_scale": threshold_scale, "query_scale": query_scale}
    excess, share = excess_and_share(SparseVector(threshold=0, sensitivity=1, tops=1, **scales), [PROVOKING])
    assert excess <= 1e-12
    assert 0.9 < share <= 1


@pytest.mark.parametrize("planted", [{"comparison": 0.5}, {"threshold": 0}, {"threshold": 0.5}])
def test_noise_that_is_halved_or_left_out_is_caught(planted):
    scales = (1, 1) if "comparison" in planted else (1, 4)
    stream = SparseVector(threshold=0, sensitivity=1, tops=1, threshold_scale=scales[0], query_scale=scales[1])
    values = (1,) * 12 + (0,), (0,) * 12 + (1,)
    excess, share = excess_and_share(stream, [values], **planted)
    assert excess > 1e-4
    assert share > 1.02


class Unscaled(SparseVector):
    """The planted error of another: one threshold for all tops, and noise on values that does not grow with them."""

    __slots__ = ()

    def curve(self):
        return SparseVector.curve(replace(self, tops=1))


def test_noise_on_values_that_does_not_grow_with_the_tops_is_caught():
    wanted = {"tops": 3, "threshold_scale": 2, "query_scale": 1, "redraws": False}
    values = (1, 1, 1, 0, 0, 0), (0, 0, 0, 1, 1, 1)
    assert excess_and_share(SparseVector(**TINY, **wanted), [values])[0] <= 1e-12
    excess, share = excess_and_share(Unscaled(**TINY, **wanted), [values])
    assert excess > 1e-2
    assert share > 1.5


# The law itself -------------------------------------------------------------------------------------------------------


def pattern_by_hand(values, verdicts, stream):
    """P[verdicts] from the definition: a sum over the threshold's noise in every epoch."""
    support = np.arange(-60, 61)
    carried, comparison = (discrete_laplace_pmf(s, support) for s in (stream.threshold_scale, stream.query_scale))
    total, epoch, tops = 1.0, carried.copy(), 0
    for value, verdict in zip(values, verdicts, strict=True):
        if tops == stream.tops:
            return total if verdict == SparseVerdict.HALTED else 0.0
        above = np.array([comparison[value + support >= stream.threshold + rho].sum() for rho in support])
        epoch = epoch * (above if verdict == SparseVerdict.ABOVE else 1 - above)
        if verdict == SparseVerdict.ABOVE and stream.redraws:
            total, epoch = total * epoch.sum(), carried.copy()
        tops += verdict == SparseVerdict.ABOVE
        if tops == stream.tops and not stream.redraws:
            return total * float(epoch.sum())
    return float(total * epoch.sum()) if tops < stream.tops else total


VALUES = (2, 0, 3, 1)
STREAM = SparseVector(**TINY, tops=2, threshold_scale=2, query_scale=2)


@cache
def patterns(stream):
    return ExactStream(stream).of(VALUES)


@pytest.mark.parametrize("redraws", [True, False])
def test_the_law_is_that_of_the_definition(redraws):
    stream = replace(STREAM, redraws=redraws)
    law = patterns(stream)
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
    for verdicts, mass in law.items():
        assert mass == pytest.approx(pattern_by_hand(VALUES, verdicts, stream), rel=1e-4)


def test_a_threshold_that_is_not_drawn_anew_is_caught():
    kept = patterns(replace(STREAM, redraws=False))
    largest = max(abs(mass - pattern_by_hand(VALUES, verdicts, STREAM)) for verdicts, mass in kept.items())
    assert largest > 0.02


def draws(stream, noise, count):
    return [tuple(stream.ask(stream.start(noise), VALUES, noise)[1].tolist()) for _ in range(count)]


def chi_square(drawn, law):
    counts = np.array([drawn.count(verdicts) for verdicts in law])
    assert counts.sum() == len(drawn)
    expected = np.array(list(law.values()))
    return chisquare(counts, expected / expected.sum() * len(drawn)).pvalue


@pytest.mark.parametrize("noise", [SeededNoise(3), SecureNoise()], ids=["seeded", "secure"])
@pytest.mark.parametrize("redraws", [True, False])
def test_batches_follow_the_law(noise, redraws):
    stream = replace(STREAM, redraws=redraws)
    law = patterns(stream)
    assert chi_square(draws(stream, noise, 4000), law) > 1e-5


def test_the_chi_square_sees_a_threshold_that_is_not_drawn_anew():
    law = patterns(STREAM)
    assert chi_square(draws(replace(STREAM, redraws=False), SeededNoise(3), 4000), law) < 1e-9


@given(
    values=st.lists(st.integers(-30, 30), max_size=60),
    sizes=st.lists(st.integers(1, 9), min_size=60, max_size=60),
    tops=st.integers(1, 6),
    redraws=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=60)
def test_a_batch_equals_the_loop(values, sizes, tops, redraws, seed):
    stream = SparseVector(threshold=10, sensitivity=1, tops=tops, threshold_scale=5, query_scale=5, redraws=redraws)
    runs = []
    for parts in ([len(values)], sizes, [1] * len(values)):
        noise = SeededNoise(seed)
        state, done, replies = stream.start(noise), 0, []
        for size in parts:
            state, some = stream.ask(state, np.array(values[done : done + size], dtype=np.int64), noise)
            replies += some.tolist()
            done += size
        runs.append((state, replies))
    assert runs[0] == runs[1] == runs[2]
    assert runs[0][1].count(SparseVerdict.ABOVE) == runs[0][0].tops <= tops


def test_a_top_behind_many_windows_is_found():
    stream = SparseVector(threshold=10**6, sensitivity=1, tops=2, threshold_scale=1, query_scale=1)
    values = np.zeros(300_000, dtype=np.int64)
    values[[4095, 299_999]] = 2 * 10**6
    noise = SeededNoise(1)
    _, verdicts = stream.ask(stream.start(noise), values, noise)
    assert np.flatnonzero(verdicts).tolist() == [4095, 299_999]


@pytest.mark.parametrize("tops", [1, 1000])
def test_a_million_values_take_less_than_a_second(tops):
    stream = SparseVector.sparse(epsilon=1.0, tops=tops, threshold=2**40, sensitivity=2**20)
    values, noise = np.random.default_rng(0).integers(0, 2**39, 10**6), SeededNoise(1)
    state = stream.start(noise)
    start = time.process_time()
    _, verdicts = stream.ask(state, values, noise)
    assert time.process_time() - start < 1.0
    assert len(verdicts) == 10**6


# Constants of the books -----------------------------------------------------------------------------------------------


def test_lecture_23_by_hand():
    stream = SparseVector.sparse(epsilon=0.5, tops=1, threshold=7, sensitivity=10)
    assert (stream.tops, stream.threshold_scale, stream.query_scale) == (1, 40, 80)  # 2 Delta/eps, 4 Delta/eps
    assert stream.curve().epsilon(0.0) == pytest.approx(0.5)


def test_dwork_and_roth_by_hand():
    assert dwork_roth_scale(0.5, tops=3) == 12.0
    assert dwork_roth_scale(0.5, tops=3, delta=1e-3) == pytest.approx(math.sqrt(96 * math.log(1000)) / 0.5)


@pytest.mark.parametrize("tops", [1, 10, 1000])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
def test_the_exact_curve_is_no_worse_than_the_theorem_and_with_delta_far_better(tops, epsilon):
    pure = SparseVector.sparse(epsilon=epsilon, tops=tops, threshold=0, sensitivity=2**30)
    assert pure.curve().epsilon(0.0) == pytest.approx(epsilon, rel=1e-6)
    approximate = SparseVector.sparse(epsilon=epsilon, tops=tops, threshold=0, sensitivity=2**30, delta=1e-6)
    assert approximate.curve().epsilon(1e-6) < 0.5 * epsilon


@pytest.mark.parametrize("delta", [1e-6, 0.1, 0.9])
@pytest.mark.parametrize("tops", [1, 5, 10_000])
def test_the_theorem_with_delta_holds_up_to_eight_times_the_logarithm(tops, delta):
    epsilon = 8.0 * math.log(1.0 / delta)
    stream = SparseVector.sparse(epsilon=epsilon, tops=tops, threshold=0, sensitivity=2**30, delta=delta)
    assert stream.curve().epsilon(delta) <= epsilon


def test_the_theorem_with_delta_is_false_for_an_enormous_epsilon():
    """In each epoch many values are below, then one is above. So what is promised is the curve."""
    epsilon, tops, delta, unit, many = 100.0, 5, 0.9, 1000, 1000
    stream = SparseVector.sparse(epsilon=epsilon, tops=tops, threshold=0, sensitivity=unit, delta=delta)
    reach = 40 * stream.threshold_scale
    levels = np.arange(-reach, reach + 1)
    law = np.exp(-np.abs(levels) / stream.threshold_scale)
    law /= law.sum()

    def above(value):  # P[value + noise >= level] for every level
        distance, q = levels - value, math.exp(-1.0 / stream.query_scale)
        return np.where(distance >= 1, q ** np.maximum(distance, 1) / (1 + q),
                        1 - q ** (1 - np.minimum(distance, 0)) / (1 + q))  # fmt: skip

    def epochs(below, top):
        return float(law @ ((1.0 - above(below)) ** many * above(top))) ** tops

    x, neighbour = epochs(-unit, unit // 2), epochs(0, -unit // 2)
    assert x - math.exp(epsilon) * neighbour > 0.95 > delta
    assert stream.curve().delta(epsilon) >= x - math.exp(epsilon) * neighbour


def comparison_variance(share, tops, factor):
    first = 1.0 / (1.0 + share)
    return 2 * (1 / first) ** 2 + 2 * (factor * tops / (1 - first)) ** 2


@pytest.mark.parametrize("tops", [1, 7, 300])
@pytest.mark.parametrize("monotone", [False, True])
def test_the_split_has_the_least_variance(tops, monotone):
    factor = 1 if monotone else 2
    best = minimize_scalar(
        lambda log_share: comparison_variance(math.exp(log_share), tops, factor), bounds=(-9, 12), method="bounded"
    )
    assert math.log(best_split(tops, monotone=monotone)) == pytest.approx(best.x, abs=1e-4)
    stream = SparseVector.lyu_su_li(epsilon=0.7, tops=tops, threshold=0, sensitivity=2**40, monotone=monotone)
    assert stream.curve().epsilon(0.0) == pytest.approx(0.7, rel=1e-9)
    variance = 2 * (stream.threshold_scale**2 + stream.query_scale**2) / 2**80
    assert variance * 0.7**2 == pytest.approx(best.fun, rel=1e-6)


@pytest.mark.parametrize("tops", [1, 10, 1000])
def test_one_threshold_for_all_needs_less_noise_for_the_same_pure_loss(tops):
    wanted = {"epsilon": 1.0, "tops": tops, "threshold": 0, "sensitivity": 2**30}
    sparse, split = SparseVector.sparse(**wanted), SparseVector.lyu_su_li(**wanted)
    spread = [math.hypot(stream.threshold_scale, stream.query_scale) for stream in (sparse, split)]
    assert spread[1] < spread[0]


# Accuracy -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tops", [1, 20])
@pytest.mark.parametrize("queries", [1, 1000])
def test_the_accuracy_is_better_than_the_books(tops, queries):
    stream = SparseVector.sparse(epsilon=1.0, tops=tops, threshold=0, sensitivity=2**20)
    book = 8 * tops * (math.log(queries) + math.log(2 * tops / 0.05)) * 2**20
    assert stream.accuracy(queries, failure=0.05) <= book + 2


def wrong_verdicts(stream, noise, queries, alpha):
    values = np.where(np.arange(queries) % 10 == 9, stream.threshold + alpha + 1, stream.threshold - alpha - 1)
    _, verdicts = stream.ask(stream.start(noise), values, noise)
    called = verdicts[verdicts != SparseVerdict.HALTED]
    return np.any((called == SparseVerdict.ABOVE) != (values[: len(called)] > stream.threshold))


@pytest.mark.parametrize("redraws", [True, False])
@pytest.mark.parametrize(("share", "kept"), [(1.0, True), (0.4, False)])
def test_verdicts_are_right_beyond_the_accuracy_and_only_there(redraws, share, kept):
    stream = SparseVector(threshold=0, sensitivity=1, tops=3, threshold_scale=20, query_scale=30, redraws=redraws)
    alpha = int(share * stream.accuracy(30, failure=0.2))
    noise = SeededNoise(4)
    failures = sum(wrong_verdicts(stream, noise, 30, alpha) for _ in range(1500))
    assert (failures <= 0.2 * 1500) == kept


# Wiring and refusals --------------------------------------------------------------------------------------------------


def test_the_noise_is_not_shown():
    assert "987654321" not in repr(SparseState(1, 987654321))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dwork_roth_scale(0.0, tops=1), "epsilon"),
        (lambda: dwork_roth_scale(1.0, tops=0), "tops"),
        (lambda: dwork_roth_scale(1.0, tops=1, delta=1.0), "delta"),
        (lambda: best_split(0), "tops"),
        (lambda: SparseVector(**TINY, tops=1, threshold_scale=1, query_scale=0), "query_scale"),
        (lambda: STREAM.accuracy(5, failure=1.0), "failure"),
        (lambda: replace(STREAM, threshold=math.nan), "threshold"),
        (lambda: replace(STREAM, threshold=1.5), "threshold"),
        (lambda: replace(STREAM, query_scale=2**57), "query_scale"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("values", [[0.5], [True], [[1, 2]], 3])
def test_values_that_are_not_integers_are_refused(values):
    with pytest.raises(ValueError, match="grid units"):
        STREAM.ask(SparseState(), values, SeededNoise(1))


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1, 2**64 - 1])
def test_values_whose_noisy_sums_would_wrap_are_refused(value):
    """Least of all 64-bit numbers, less one, is the largest: far below the threshold would be found above."""
    with pytest.raises(ValueError, match="coarser grid"):
        STREAM.ask(SparseState(), np.array([value]), SeededNoise(1))


def test_large_values_keep_every_digit():
    """Unsigned numbers plus noise would be rounded to floating point."""
    stream = SparseVector(threshold=2**62, sensitivity=1, tops=5, threshold_scale=1, query_scale=1)
    for seed in range(50):
        values = np.array([2**62 - 1, 2**62], dtype=np.uint64)
        told = [stream.ask(stream.start(SeededNoise(seed)), array, SeededNoise(seed))[1].tolist()
                for array in (values, values.astype(np.int64))]  # fmt: skip
        assert told[0] == told[1]
    assert stream.ask(SparseState(), [], SeededNoise(1))[1].tolist() == []


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 50.0])
def test_a_scan_takes_the_first_top(epsilon):
    stream = SparseVector.lyu_su_li(epsilon=epsilon, threshold=500, sensitivity=16, tops=1)
    for seed in range(200):
        values = np.random.default_rng(seed).integers(0, 700, 20)
        noise = SeededNoise(seed)
        level = 500 + int(noise.laplace(stream.threshold_scale, 1, stream="threshold")[0])
        above = np.flatnonzero(values + noise.laplace(stream.query_scale, 20, stream="comparison") >= level)
        assert stream.first(values, SeededNoise(seed)) == (above[0] if len(above) else None)
