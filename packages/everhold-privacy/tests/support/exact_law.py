"""Exact laws of transcripts, by driving the real mechanisms with every possible noise."""

from collections import defaultdict
from functools import cache

import numpy as np
from noise_laws import discrete_gaussian_pmf, discrete_laplace_pmf

from everhold.mechanisms import Source
from everhold.mechanisms.records import Evaluations

UNREAD = 10**12  # stands for a fresh threshold until its value is needed
PMFS = {"laplace": discrete_laplace_pmf, "gaussian": discrete_gaussian_pmf}


class DrawNeededError(Exception):
    """The replayed draws are used up."""


class ReplayNoise:
    """A source that replays chosen draws and asks for the next one by raising.

    Args:
        draws: The draws to replay.
        planted: Factor on the scale of a stream, by name; 1 where it is honest.
    """

    simulated = True

    def __init__(self, draws=(), planted=None):
        self.draws = list(draws)
        self.planted = planted or {}

    def laplace(self, scale, size, *, stream):
        return self._take("laplace", scale, size, stream)

    def gaussian(self, scale, size, *, stream):
        return self._take("gaussian", scale, size, stream)

    def _take(self, kind, scale, size, stream):
        return np.array([self._one(kind, scale, stream) for _ in range(size)], dtype=np.int64)

    def _one(self, kind, scale, stream):
        if stream == "threshold":
            return UNREAD
        if not self.draws:
            raise DrawNeededError(kind, scale * self.planted.get(stream, 1), stream)
        return self.draws.pop(0)


@cache
def lumped_law(kind, scale, reach):
    """Integers in ±reach with their probabilities; all mass beyond lies on the two ends."""
    far = np.arange(-reach - 60 * int(np.ceil(scale)), reach + 60 * int(np.ceil(scale)) + 1)
    masses = PMFS[kind](scale, far)
    support = np.arange(-reach, reach + 1)
    lumped = np.bincount(np.clip(far, -reach, reach) + reach, weights=masses)
    return tuple(zip(support.tolist(), lumped.tolist(), strict=True))


class ExactLaw:
    """The law of a mechanism's transcript for integer noise scales.

    Draws are cut where nothing changes any more: an answer beyond [0, 1], a comparison beyond every threshold. Only
    thresholds beyond ``threshold_reach`` are really lost; ``lost`` bounds their probability.
    """

    def __init__(self, mechanism, *, threshold_reach=10, planted=None):
        self.mechanism = mechanism
        self.planted = planted or {}
        self.threshold_reach = threshold_reach
        self.reach = {"answer": mechanism.steps, "comparison": threshold_reach + 3 * mechanism.steps + 1}
        self.lost = 0.0
        if hasattr(mechanism, "threshold_scale"):
            self.threshold_factor = self.planted.get("threshold", 1)
            scale = mechanism.scale_on_grid(mechanism.threshold_scale) * self.threshold_factor
            self.thresholds = lumped_law("laplace", scale, threshold_reach)
            far = np.arange(threshold_reach + 1, threshold_reach + 60 * int(np.ceil(scale)))
            self.lost = 2.0 * mechanism.surprises * float(discrete_laplace_pmf(scale, far).sum())
        self._step = cache(self._uncached_step)

    def of(self, data, analyst, queries):
        """Probability of each transcript.

        Args:
            data: Rows, each a tuple of bits; bit q of a row is its value under query q.
            analyst: Maps the transcript so far to the next ``(query, guess in grid units)``.
            queries: Number of queries asked.
        """
        law = {((), state): mass for state, mass in self._read(self.mechanism.start(ReplayNoise()))}
        for _ in range(queries):
            following = defaultdict(float)
            for (transcript, state), mass in law.items():
                query, guess = analyst(transcript)
                total = sum(row[query] for row in data) * self.mechanism.unit
                for reply, after, share in self._step(state, total, guess):
                    following[(*transcript, reply), after] += mass * share
            law = following
        transcripts = defaultdict(float)
        for (transcript, _), mass in law.items():
            transcripts[transcript] += mass
        return dict(transcripts)

    def _uncached_step(self, state, total, guess):
        evaluation = Evaluations(np.array([[total]]), np.array([guess]), self.mechanism.rows, self.mechanism.unit)
        outcomes = defaultdict(float)
        pending = [((), 1.0)]
        while pending:
            draws, mass = pending.pop()
            try:
                after, replies = self.mechanism.answer(state, evaluation, ReplayNoise(draws, self.planted))
            except DrawNeededError as needed:
                kind, scale, stream = needed.args
                pending += [((*draws, x), mass * share) for x, share in lumped_law(kind, scale, self.reach[stream])]
                continue
            reply = (float(replies.values[0]), Source(int(replies.sources[0])))
            reply = ("refused", Source.REFUSED) if reply[1] == Source.REFUSED else reply
            for read, share in self._read(after):
                outcomes[reply, read] += mass * share
        return tuple((reply, after, mass) for (reply, after), mass in outcomes.items())

    def _read(self, state):
        """The state, with every value that an unread threshold can have."""
        if state.carried_noise != UNREAD:
            return [(state, 1.0)]
        return [(type(state)(state.asked, state.charged, x), mass) for x, mass in self.thresholds]


def hockey_stick(first, second, epsilon):
    """``E_{e^eps}(first || second)`` of two laws given as dictionaries."""
    return sum(max(mass - np.exp(epsilon) * second.get(outcome, 0.0), 0.0) for outcome, mass in first.items())


def largest_excess(laws, neighbours, curve, epsilons, *, lost=0.0):
    """The most by which a hockey-stick divergence exceeds the curve, beyond what was cut off."""
    return max(
        hockey_stick(laws[x], laws[y], epsilon) - curve.delta(epsilon) - (1 + np.exp(epsilon)) * lost
        for x, y in neighbours
        for epsilon in epsilons
    )
