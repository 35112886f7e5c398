"""Tiny populations whose transcripts can be written down in full: joint law of binary rows, mechanism, analyst."""

import itertools
from dataclasses import dataclass

import numpy as np
from noise_laws import discrete_laplace_pmf

QUERIES = (np.array([0.0, 1.0]), np.array([1.0, 0.0]), np.array([0.25, 0.75]), np.array([0.0, 0.5]))
"""Queries on a binary row, as the pair (value at 0, value at 1)."""


@dataclass(frozen=True)
class World:
    """Everything that S1 speaks of, in full.

    Attributes:
        data: Shape (data sets, rows), all data sets.
        prior: Shape (data sets,), the joint law of the rows.
        law: Shape (data sets, transcripts), the law of the transcript for each data set.
        queries: Shape (transcripts, queries, 2), the query behind each answer.
        answers: Shape (transcripts, queries).
    """

    data: np.ndarray
    prior: np.ndarray
    law: np.ndarray
    queries: np.ndarray
    answers: np.ndarray

    def sealed_means(self):
        """f_j(X), shape (data sets, transcripts, queries)."""
        return self.queries[:, :, self.data].mean(axis=3).transpose(2, 0, 1)

    def population_means(self):
        """f_j(P), shape (transcripts, queries)."""
        return np.einsum("xtj,x->tj", self.sealed_means(), self.prior)

    def joint(self):
        """P[X = x, pi = t], shape (data sets, transcripts)."""
        return self.prior[:, None] * self.law

    def exceedance(self, alpha):
        """r(alpha), exactly."""
        worst = np.abs(self.answers - self.sealed_means()).max(axis=2)
        return float(np.sum(self.joint() * np.maximum(worst - alpha, 0.0)))

    def delta(self, epsilon):
        """leak(eps), exactly and for any dependence: average over rows and over two independent values of the row."""
        epsilon = np.asarray(epsilon, dtype=np.float64)
        leak = sum(self._row_leak(row, np.exp(epsilon)[..., None]) for row in range(self.data.shape[1]))
        return leak / self.data.shape[1]

    def _row_leak(self, row, factor):
        law_of = [self.joint()[self.data[:, row] == value].sum(axis=0) for value in (0, 1)]
        share = [float(mass.sum()) for mass in law_of]
        if min(share) == 0.0:
            return 0.0
        given = [mass / s for mass, s in zip(law_of, share, strict=True)]
        both = [np.maximum(given[x] - factor * given[1 - x], 0.0).sum(axis=-1) for x in (0, 1)]
        return share[0] * share[1] * (both[0] + both[1])

    def mean_excess(self, margin):
        """E (max_j |a_j - f_j(P)| - margin)_+."""
        worst = np.abs(self.answers - self.population_means()).max(axis=1)
        return float(self.joint().sum(axis=0) @ np.maximum(worst - margin, 0.0))

    def mean_tilted_excess(self, alpha, epsilon):
        """The same in the asymmetric form S2, each answer against its own g."""
        q, v = self.population_means(), np.exp(epsilon)

        def bias(x):
            return x * (1 - x) * (v - 1) / (1 + x * (v - 1))

        worst = np.maximum(self.answers - q - bias(q), q - self.answers - bias(1 - q)).max(axis=1)
        return float(self.joint().sum(axis=0) @ np.maximum(worst - alpha, 0.0))

    def failures(self, low, high):
        """P[some f_j(P) is outside its interval]; ends of shape (transcripts, queries)."""
        q = self.population_means()
        return float(self.joint().sum(axis=0) @ np.any((q < low) | (q > high), axis=1))


def binary_data(rows):
    return np.array(list(itertools.product((0, 1), repeat=rows)))


def independent_law(probabilities):
    """Joint law of independent, not identically distributed bits."""
    data = binary_data(len(probabilities))
    return np.prod(np.where(data == 1, probabilities, 1 - np.asarray(probabilities)), axis=1)


def randomised_response(epsilon):
    """Law of an answer that tells the first row's bit with odds e^eps; answers 0 and 1."""
    truth = 1 / (1 + np.exp(-epsilon))
    return np.array([0.0, 1.0]), lambda query, data: np.where(
        query[data[:, :1]] > query.mean(), [1 - truth, truth], [truth, 1 - truth]
    )


def noisy_mean(scale, reach=30):
    """Law of the mean plus discrete Laplace noise on multiples of 1/(4 n), cut far out and normalised."""
    support = np.arange(-reach, reach + 1)
    masses = discrete_laplace_pmf(scale, support)
    grid = np.arange(-reach, reach + 13)

    def law(query, data):
        totals = np.rint(4 * query[data].sum(axis=1)).astype(int)
        table = np.zeros((len(data), len(grid)))
        for i, total in enumerate(totals):
            table[i, total : total + len(support)] = masses / masses.sum()
        return table

    return grid, law


def two_queries(prior, mechanism, second_query, *, rows, first_query=QUERIES[0], divisor=1.0):
    """The world of an analyst who asks one query and chooses the second by the first answer.

    Args:
        prior: Joint law of the rows, in the order of `binary_data`.
        mechanism: Possible answers and the law of an answer given query and data.
        second_query: Maps the index of the first answer to a query.
        rows: Number of rows.
        first_query: Values of the first query at 0 and 1.
        divisor: Answers are divided by it.
    """
    data = binary_data(rows)
    answers, law = mechanism
    first = law(first_query, data)
    blocks = [first[:, [i]] * law(second_query(i), data) for i in range(len(answers))]
    pairs = list(itertools.product(range(len(answers)), repeat=2))
    return World(
        data=data,
        prior=np.asarray(prior),
        law=np.concatenate(blocks, axis=1),
        queries=np.array([(first_query, second_query(i)) for i, _ in pairs]),
        answers=np.array([(answers[i], answers[k]) for i, k in pairs]) / divisor,
    )
