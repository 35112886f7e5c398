"""Joint laws of discrete rows as products of small tables: Bayesian and Markov networks alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from everhold.dependence.networks.graph import Graph
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["MOST_CELLS", "Factor", "FactorModel"]

MOST_CELLS = 2**22
"""Cells of the largest table that is ever built."""

_MOST_AXES = 60  # NumPy's arrays have at most 64


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """A nonnegative table over a few nodes: a conditional law, or the potential of a clique.

    Attributes:
        variables: The nodes, each once, in the order of the table's axes.
        table: Its values, any scale; shape = numbers of states of the nodes.

    Raises:
        DependenceError: If the table has the wrong number of axes, negative or infinite values, or only zeros.
    """

    variables: tuple[int, ...]
    table: NDArray[np.float64]

    def __post_init__(self) -> None:
        variables = tuple(map(int, self.variables))
        table = np.array(self.table, dtype=np.float64)
        table.setflags(write=False)
        if not variables or len(set(variables)) != len(variables) or table.ndim != len(variables):
            raise DependenceError(
                f"a factor of the nodes {variables} has a table of {table.ndim} axes; expected one axis for each of "
                "at least one node, no node twice"
            )
        if not table.size or not table.min() >= 0.0 or not 0.0 < table.max() < math.inf:
            raise DependenceError(
                f"the factor of the nodes {variables} has negative or infinite values or only zeros; expected finite "
                "values of at least 0, one of them positive"
            )
        object.__setattr__(self, "variables", variables)
        object.__setattr__(self, "table", table)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Factor):
            return NotImplemented
        return self.variables == other.variables and np.array_equal(self.table, other.table)

    def __hash__(self) -> int:
        return hash((self.variables, self.table.tobytes()))


@dataclass(frozen=True, repr=False)
class FactorModel:
    """The law whose probabilities are proportional to the product of the factors.

    For a Bayesian network the factors are the conditional laws; the graph is then the moral graph.

    Attributes:
        states: Number of states of each node, at least 1.
        factors: The factors; a node without one is uniform.

    Raises:
        DependenceError: If a factor names a node that does not exist, or its table does not match the states.

    Examples:
        >>> copy = Factor((0, 1), [[0.9, 0.1], [0.1, 0.9]])
        >>> FactorModel((2, 2), (copy,)).joint().round(12).tolist()
        [[0.45, 0.05], [0.05, 0.45]]
    """

    states: tuple[int, ...]
    factors: tuple[Factor, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", tuple(map(int, self.states)))
        object.__setattr__(self, "factors", tuple(self.factors))
        if not self.states or min(self.states) < 1:
            raise DependenceError("a model has no nodes or a node without states; expected at least one of each")
        for factor in self.factors:
            if not 0 <= min(factor.variables) <= max(factor.variables) < self.nodes:
                raise DependenceError(
                    f"a factor names the nodes {factor.variables}; expected nodes from 0 to {self.nodes - 1}"
                )
            expected = tuple(self.states[node] for node in factor.variables)
            if factor.table.shape != expected:
                raise DependenceError(
                    f"the factor of the nodes {factor.variables} has a table of shape {factor.table.shape}; expected "
                    f"{expected}, the numbers of states of the nodes"
                )

    @cached_property
    def _hash(self) -> int:
        return hash((self.states, self.factors))

    def __hash__(self) -> int:
        return self._hash  # computed once, for derived laws are looked up by the model

    def __repr__(self) -> str:
        return f"FactorModel(nodes={self.nodes}, factors={len(self.factors)})"

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.states)

    @cached_property
    def graph(self) -> Graph:
        """The Markov graph: nodes that share a factor are joined."""
        pairs = {pair for factor in self.factors for pair in combinations(sorted(factor.variables), 2)}
        return Graph(self.nodes, np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2))

    def joint(self) -> NDArray[np.float64]:
        """The probabilities of all combinations of states; shape = states, sum 1.

        Raises:
            DependenceError: If there are more than 2**22 of them, or all of them are impossible.
        """
        return np.exp(self.log_joint())

    def log_joint(self) -> NDArray[np.float64]:
        """The natural logarithms of `joint`, which keep tiny probabilities apart from zero."""
        cells = math.prod(self.states)
        if cells > MOST_CELLS or self.nodes > _MOST_AXES:
            raise DependenceError(
                f"the joint law of {self.nodes} nodes has {cells} probabilities; expected at most {MOST_CELLS} of at "
                f"most {_MOST_AXES} nodes; use an influence, which needs only parts of it",
                cells=cells,
            )
        total = sum_of_logs([(f.variables, log_of(f.table)) for f in self.factors], range(self.nodes), self.states)
        scale = float(np.logaddexp.reduce(total, axis=None))
        if scale == -math.inf:
            raise DependenceError("the factors contradict each other: every combination of states has probability 0")
        return np.asarray(total - scale)

    @cached_property
    def _parts(self) -> dict[int, list[Factor]]:
        labels = self.graph.components().tolist()
        parts: dict[int, list[Factor]] = {}
        for factor in self.factors:
            parts.setdefault(labels[factor.variables[0]], []).append(factor)
        return parts

    def component(self, row: int) -> tuple[Factor, ...]:
        """The factors of the connected component of ``row``; nodes of other components are independent of it."""
        return tuple(self._parts.get(int(self.graph.components()[row]), ()))


def log_of(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Natural logarithms, -infinity for 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(table))


def sum_of_logs(
    tables: Sequence[tuple[tuple[int, ...], NDArray[np.float64]]], variables: Sequence[int], states: Sequence[int]
) -> NDArray[np.float64]:
    """The logarithms of a product of tables, over the given variables in the given order.

    Args:
        tables: Pairs of variables, all among the given ones, and logarithms of shape their states.
        variables: The axes of the answer.
        states: Number of states of every node of the model.
    """
    place = {node: axis for axis, node in enumerate(variables)}
    total = np.zeros([states[node] for node in variables])
    for nodes, logs in tables:
        axes = [place[node] for node in nodes]
        order = np.argsort(axes)
        shape = np.ones(len(place), dtype=np.int64)
        shape[axes] = logs.shape
        total += logs.transpose(order).reshape(shape.tolist())
    return total


def log_sum(logs: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Logarithms of sums along an axis, of logarithms; -infinity (zero) is allowed."""
    top = logs.max(axis=axis, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        total = np.log(np.exp(logs - top).sum(axis=axis)) + np.squeeze(top, axis=axis)
    return np.where(np.squeeze(top, axis=axis) == -math.inf, -math.inf, total)
