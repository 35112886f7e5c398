"""Sessions of two adaptive queries on the tiny models, in full: everything that S1 and S4 speak of."""

import functools
import math
from dataclasses import dataclass

import numpy as np
from tiny_models import data_sets, models, noisy_total, privacy_loss


@dataclass(frozen=True, eq=False)
class Session:
    """Two adaptive queries, answered with discrete Laplace noise, in full.

    Attributes:
        model: The rows.
        sealed: f_j(X), shape (data sets, transcripts, 2).
        answers: Shape (transcripts, 2).
        law: Law of the transcript, shape (data sets, transcripts).
        loss: Pure privacy loss of one answer.
    """

    model: object
    sealed: np.ndarray
    answers: np.ndarray
    law: np.ndarray
    loss: float

    @functools.cached_property
    def prior(self):
        return self.model.joint().ravel()

    def given(self, row):
        """Law of the transcript for each possible state of a row, and the states' probabilities."""
        states = data_sets(self.model.states)[:, row]
        shares = np.bincount(states, weights=self.prior, minlength=self.model.states[row])
        sums = [(self.prior * (states == x)) @ self.law for x in range(len(shares)) if shares[x] > 0]
        shares = shares[shares > 0]
        return np.array(sums) / shares[:, None], shares

    def group_curve(self, epsilon):
        """delta_h(eps) for h = 0, 1, ..., n: data sets that differ in at most h rows, by comparing all pairs."""
        rows = data_sets(self.model.states)
        by_count = np.zeros(self.model.rows + 1)
        for x, law in zip(rows, self.law, strict=True):
            told = np.maximum(law - math.exp(epsilon) * self.law, 0.0).sum(axis=1)
            np.maximum.at(by_count, (rows != x).sum(axis=1), told)
        return np.maximum.accumulate(by_count)

    def leak(self, epsilon):
        """leak(eps), exactly."""
        rows = [self.given(row) for row in range(self.model.rows)]
        return sum(shares @ hockey_stick(laws, epsilon) @ shares for laws, shares in rows) / self.model.rows

    def mean_excess(self, truths, margin):
        """E (max_j |a_j - truth_j| - margin)_+ for truths of shape (data sets or 1, transcripts, 2)."""
        worst = np.abs(self.answers - truths).max(axis=2)
        return float(np.sum(self.prior[:, None] * self.law * np.maximum(worst - margin, 0.0)))


def hockey_stick(laws, epsilon):
    """E_{e^eps}(law_x || law_x') for all pairs, shape (states, states)."""
    return np.maximum(laws[:, None] - math.exp(epsilon) * laws[None, :], 0.0).sum(axis=2)


def session(seed, model):
    generator = np.random.default_rng([3, seed])
    rows = data_sets(model.states)
    scale = float(generator.uniform(1.0, 10.0))
    values = generator.integers(0, 3, size=(4, max(model.states)))  # f in halves
    totals = values[:, rows].sum(axis=2)
    first = noisy_total(totals[0], scale)
    blocks, sealed, answers = [], [], []
    for output, mass in enumerate(first.T):
        chosen = int(generator.integers(4))
        second = noisy_total(totals[chosen], scale)
        blocks.append(mass[:, None] * second)
        for other in range(second.shape[1]):
            answers.append((totals[0].min() + output, totals[chosen].min() + other))
            sealed.append((totals[0], totals[chosen]))
    unit = 2.0 * model.rows
    losses = [privacy_loss(noisy_total(total, scale).reshape(*model.states, -1)) for total in totals]
    return Session(
        model,
        np.array(sealed).transpose(2, 0, 1) / unit,
        np.array(answers) / unit,
        np.concatenate(blocks, axis=1),
        max(losses),
    )


@functools.cache
def sessions():
    return [session(seed, model) for seed, model in enumerate(models())]
