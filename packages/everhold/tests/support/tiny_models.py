"""Random tiny models of dependent rows in full: factors, joint law, graph, quilts; and mechanisms with exact laws."""

import functools
import itertools
from dataclasses import dataclass

import numpy as np
from noise_laws import discrete_laplace_pmf

KINDS = ("independent", "chain", "tree", "network", "loop")


@dataclass(frozen=True, eq=False)
class TinyModel:
    """Rows whose joint law is the normalised product of factors.

    Attributes:
        kind: One of `KINDS`.
        states: Number of states of each row.
        factors: Pairs (rows, table); the axes of a table are its rows in that order.
    """

    kind: str
    states: tuple[int, ...]
    factors: tuple[tuple[tuple[int, ...], np.ndarray], ...]

    @property
    def rows(self):
        return len(self.states)

    def joint(self, *, without=None):
        """The joint law; ``without`` is the number of a factor that is left out."""
        kept = [factor for number, factor in enumerate(self.factors) if number != without]
        operands = [np.ones(self.states), range(self.rows)]
        for rows, table in kept:
            operands += [table, rows]
        product = np.einsum(*operands, range(self.rows))
        return product / product.sum()

    def edges(self, *, without=None):
        """Pairs of rows that share a factor: the moral graph of a network."""
        kept = (rows for number, (rows, _) in enumerate(self.factors) if number != without)
        return {frozenset(pair) for rows in kept for pair in itertools.combinations(rows, 2)}

    @functools.cached_property
    def linking(self):
        """Numbers of the factors that join two rows."""
        return [number for number, (rows, _) in enumerate(self.factors) if len(rows) > 1]


def component(edges, row, *, removed=()):
    """All rows that a path reaches from a row, the row itself included, without touching the removed ones."""
    reached, frontier = {row}, [row]
    while frontier:
        here = frontier.pop()
        ahead = {other for edge in edges if here in edge for other in edge} - reached - set(removed)
        reached |= ahead
        frontier += ahead
    return reached


def quilts(edges, row, rows):
    """Every Markov quilt of a row, as (nearby rows, quilt): nearby is what paths reach around the quilt."""
    others = [other for other in range(rows) if other != row]
    for size in range(rows):
        for quilt in itertools.combinations(others, size):
            yield tuple(sorted(component(edges, row, removed=quilt) - {row})), quilt


def blanket(edges, row):
    """The neighbours of a row."""
    return tuple(sorted({other for edge in edges if row in edge for other in edge} - {row}))


# Random models --------------------------------------------------------------------------------------------------------


@functools.cache
def models(number=500):
    """The random models, always the same ones."""
    return [random_model(np.random.default_rng([2017, seed]), KINDS[seed % len(KINDS)]) for seed in range(number)]


def random_model(generator, kind, *, rows=None, most_states=3):
    """A model of 2 to 5 rows of 2 or 3 states; now and then with impossible combinations."""
    rows = rows or int(generator.integers(2, 6))
    states = tuple(int(k) for k in generator.integers(2, most_states + 1, size=rows))
    if kind == "chain":
        states = states[:1] * rows
    spread = float(generator.choice([0.3, 1.0, 5.0]))
    forbids = generator.random() < 0.2

    def conditional(scope):
        """``P[last | others]``; some outcomes are impossible, but never all."""
        table = generator.dirichlet(np.full(states[scope[-1]], spread), size=[states[i] for i in scope[:-1]]) + 1e-3
        if forbids:
            table = table * (table >= generator.choice([0.0, 0.2]))
        return tuple(scope), table / table.sum(axis=-1, keepdims=True)

    scopes = _SCOPES[kind](generator, rows)
    factors = [conditional(scope) for scope in scopes]
    if kind == "chain":  # homogeneous
        factors[2:] = [(scope, factors[1][1]) for scope in scopes[2:]]
    return TinyModel(kind, states, tuple(factors))


def _chain(generator, rows):
    return [(0,)] + [(i - 1, i) for i in range(1, rows)]


def _tree(generator, rows):
    return [(0,)] + [(int(generator.integers(i)), i) for i in range(1, rows)]


def _network(generator, rows):
    """A directed graph with at most two parents for each row, renumbered at random."""
    names = generator.permutation(rows).tolist()
    parents = [generator.choice(i, size=min(i, int(generator.integers(0, 3))), replace=False) for i in range(rows)]
    return [(*(names[p] for p in parents[i]), names[i]) for i in range(rows)]


def _loop(generator, rows):
    """A cycle of pair factors and, now and then, a chord: a Markov network."""
    pairs = [(i, (i + 1) % rows) for i in range(rows)] if rows > 2 else [(0, 1)]
    return pairs + ([(0, 2)] if rows > 3 and generator.random() < 0.3 else [])


_SCOPES = {
    "independent": lambda generator, rows: [(i,) for i in range(rows)],
    "chain": _chain,
    "tree": _tree,
    "network": _network,
    "loop": _loop,
}


# Mechanisms -----------------------------------------------------------------------------------------------------------


def data_sets(states):
    """All data sets, shape (data sets, rows), in the order of a joint table."""
    return np.array(list(itertools.product(*map(range, states))))


def randomised_response(states, epsilon):
    """Every row is told with odds e^eps against each other state; the output is the table of all that is told."""
    law = np.ones((*states, 1))
    for row, k in enumerate(states):
        told = np.where(np.eye(k) > 0, np.exp(epsilon), 1.0) / (np.exp(epsilon) + k - 1)
        shape = [1] * len(states)
        shape[row] = k
        law = (law[..., None] * told.reshape(*shape, 1, k)).reshape(*states, -1)
    return law


def noisy_total(totals, scale):
    """Discrete Laplace noise on whole totals, outputs beyond the range of the totals set to its ends: pure privacy.

    Args:
        totals: Shape (data sets,), integers.
        scale: Of the noise.
    """
    low, high = int(totals.min()), int(totals.max())
    outputs = np.arange(low, high + 1)
    law = discrete_laplace_pmf(scale, outputs[None, :] - totals[:, None])
    tail = np.exp(-np.abs(outputs[[0, -1]] - totals[:, None]) / scale) / (1 + np.exp(-1 / scale))
    law[:, [0, -1]] = tail  # P[noise >= x] = e^{-x/t} / (1 + e^{-1/t}) for x >= 0
    if low == high:
        return np.ones((len(totals), 1))
    return law


def random_mechanism(generator, states):
    """The law of randomised response, or of the noisy sum of the states."""
    if generator.random() < 0.5 and np.prod(states) <= 100:
        return randomised_response(states, float(generator.uniform(0.05, 1.5)))
    totals = data_sets(states).sum(axis=1)
    return noisy_total(totals, float(generator.uniform(0.7, 8.0))).reshape(*states, -1)


def privacy_loss(law):
    """Pure privacy loss about one row, by comparing all neighbours."""
    axes = range(law.ndim - 1)
    with np.errstate(divide="ignore"):
        logs = np.log(law)
    return max(float((logs.max(axis=axis) - logs.min(axis=axis)).max()) for axis in axes)
