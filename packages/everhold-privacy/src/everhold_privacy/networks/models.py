"""Rows as the nodes of a Bayesian or a Markov network."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from everhold.errors import DependenceError
from everhold_privacy.networks import adapters
from everhold_privacy.networks import files as network_files
from everhold_privacy.networks.base import Network
from everhold_privacy.networks.changes import bayesian_changes
from everhold_privacy.networks.declaration import (
    WORDS_OF_TRAINING,
    NodeSettings,
    TableRules,
    components_of,
    declare,
    index_of,
    plain_data,
    settings_of,
    tables_of,
)
from everhold_privacy.networks.proven import NetworkBounds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Unpack

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    States = int | Sequence[Any]

_SUM_TOLERANCE = 1e-6
_SUM_ROUNDING = 1e-12  # smaller deviations from 1 are left alone, so that plain data come back as they were


def _as_table(name: str, given: ArrayLike, *, expected: str) -> Floats:
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise DependenceError(f"the {name} is no table of numbers; expected {expected}") from None


def _node_table(scope: tuple[str, ...]) -> str:
    return f"table of node {scope[-1]!r}"


def _probabilities(scope: tuple[str, ...], given: ArrayLike) -> Floats:
    name = _node_table(scope)
    table = _as_table(name, given, expected="probabilities")
    if table.ndim < 1 or not table.size or not np.all((table >= 0.0) & (table <= 1.0 + _SUM_TOLERANCE)):
        raise DependenceError(f"the {name} is empty or not within [0, 1]; expected probabilities")
    sums = table.sum(axis=-1, keepdims=True)
    worst = float(sums.ravel()[np.argmax(np.abs(sums - 1.0))])
    if abs(worst - 1.0) > _SUM_TOLERANCE:
        raise DependenceError(
            f"the probabilities of node {scope[-1]!r} sum to {worst:.9g} for some parents' states; expected 1; its "
            "own states are the last axis of the table",
            node=scope[-1],
        )
    table = np.where(np.abs(sums - 1.0) > _SUM_ROUNDING, table / sums, table)
    table.setflags(write=False)
    return table


def _factor_table(scope: tuple[str, ...]) -> str:
    return f"factor over {scope}"


def _numbers(scope: tuple[str, ...], given: ArrayLike) -> Floats:
    name = _factor_table(scope)
    table = _as_table(name, given, expected="numbers")
    if not table.size or not table.min() >= 0.0 or not 0.0 < table.max() < math.inf:
        raise DependenceError(
            f"the {name} has negative or infinite values or only zeros; expected finite values "
            "of at least 0, one of them positive"
        )
    table.setflags(write=False)
    return table


_OF_NODES = TableRules("the states of its parents and then its own", _node_table, _probabilities)
_OF_FACTORS = TableRules("its nodes' states", _factor_table, _numbers)


def _state_count(name: str, states: States) -> int:
    count = states if isinstance(states, (int, np.integer)) and not isinstance(states, bool) else None
    if count is None and not isinstance(states, (str, bool)):
        labels = list(states)  # type: ignore[arg-type]
        count = len(labels) if len(set(labels)) == len(labels) else 0
    if count is None or count < 1:
        raise DependenceError(
            f"the states of node {name!r} make no sense; expected their number or a list of different names"
        )
    return int(count)


@dataclass(frozen=True, eq=False, repr=False, init=False)
class BayesianNetwork(Network):
    """Rows whose states are drawn one after the other, each given the states of its parents.

    Args:
        nodes: Name of each node to (number or names of its states, names of its parents, table of probabilities with
            shape (states of the parents..., own states)).
        row: The column whose values are the names of nodes.
        latent: Names of nodes that have no row.
        training: "independent" if training rows are independent of all nodes; otherwise there may be none.

    Raises:
        DependenceError: If the tables are no conditional probabilities of a network without cycles.

    Examples:
        >>> flu = BayesianNetwork({
        ...     "mother": (2, (), [0.8, 0.2]),
        ...     "child": (2, ("mother",), [[0.9, 0.1], [0.4, 0.6]]),
        ...     "neighbour": (2, (), [0.8, 0.2]),
        ... })
        >>> flu.components
        (('mother', 'child'), ('neighbour',))
        >>> round(flu.concentration(3), 3)
        2.118
    """

    kind: ClassVar[str] = "bayesian_network"
    title: ClassVar[str] = "Bayesian network"
    rows_are: ClassVar[str] = "rows in a Bayesian network"
    how_to_tell: ClassVar[tuple[str, ...]] = (
        "The assumption is wrong if rows influence each other along lines that the network does not have, or more "
        "strongly than its tables say.",
        "To check, compare the tables with what is known from elsewhere, and ask what rows share besides their parents "
        "in the network.",
        "If it is wrong, the intervals may be too narrow. Add the missing lines, or declare whole families as groups.",
    )
    entries: ClassVar[Mapping[str, str]] = {
        **Network.entries,
        "parents": "parents of each node, by number from 0",
    }
    value_words: ClassVar[Mapping[tuple[str, str], str]] = WORDS_OF_TRAINING
    components = property(components_of)

    def __init__(
        self,
        nodes: Mapping[str, tuple[States, Sequence[str], ArrayLike]],
        *,
        row: str | None = None,
        latent: Collection[str] = (),
        training: str | None = None,
    ) -> None:
        counts = {name: _state_count(name, node[0]) for name, node in nodes.items()}
        tables = []
        for name, (_, parents, table) in nodes.items():
            scope = (*parents, name)
            unknown = [parent for parent in parents if parent not in counts]
            if unknown or len(set(scope)) != len(scope):
                wrong = unknown[0] if unknown else name
                raise DependenceError(
                    f"node {name!r} has the parents {tuple(parents)}, of which {wrong!r} is no node, is twice there or "
                    "is the node itself; expected names of other nodes, each once"
                )
            tables.append((scope, table))
        declare(self, _OF_NODES, counts, tables, {"row": row, "latent": latent, "training": training})
        _ = self.topological_order

    @cached_property
    def topological_order(self) -> tuple[int, ...]:
        """The nodes, parents before children."""
        try:
            return tuple(TopologicalSorter({scope[-1]: scope[:-1] for scope in self.scopes}).static_order())
        except CycleError as fault:
            node = self.names[min(fault.args[1])]
            raise DependenceError(
                f"the arrows above node {node!r} lead in a circle; expected no node above itself", node=node
            ) from None

    @cached_property
    def bounds(self) -> NetworkBounds:
        """Bounds on leakage, prices and concentration."""
        return NetworkBounds(self, lambda parts: [bayesian_changes(parts, self.topological_order)])

    @classmethod
    def from_file(cls, path: str | Path, *, tolerance: float = 2e-3, **settings: Unpack[NodeSettings]) -> Self:
        """A network from a BIF or UAI file, by the ending of its name.

        Args:
            path: The file; a name that ends in ``.bif`` or ``.uai``.
            tolerance: By how much sums of probabilities may differ from 1; files round. They are then scaled to 1.
            **settings: ``row``, ``latent`` and ``training`` as in the constructor; nodes of UAI files are named "0",
                "1", ....

        Raises:
            DependenceError: With the number of the line, if the file does not hold such a network.
        """
        reader = {".bif": network_files.read_bif, ".uai": network_files.read_uai_bayes}.get(Path(path).suffix.lower())
        if reader is None:
            raise DependenceError(f"the file {Path(path).name!r} has another ending; expected .bif or .uai")
        return cls(network_files.scaled(reader(network_files.text_of(path)), tolerance=tolerance), **settings)

    @classmethod
    def from_pyagrum(cls, network: Any, **settings: Unpack[NodeSettings]) -> Self:
        """A network from a ``pyagrum.BayesNet``; its variables are the nodes."""
        return cls(adapters.pyagrum_nodes(network), **settings)

    @classmethod
    def from_pgmpy(cls, model: Any, **settings: Unpack[NodeSettings]) -> Self:
        """A network from a discrete Bayesian network of pgmpy (``get_cpds()`` gives TabularCPDs)."""
        return cls(adapters.pgmpy_nodes(model), **settings)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: names, states, parents as numbers, different tables once and which one each node has."""
        return {**plain_data(self), "parents": [list(scope[:-1]) for scope in self.scopes]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        names, tables = list(map(str, data["names"])), tables_of(data)
        nodes: dict[str, tuple[States, Sequence[str], ArrayLike]] = {
            name: (
                operator.index(states),
                tuple(names[index_of(parent, len(names))] for parent in parents),
                tables[index_of(table, len(tables))],
            )
            for name, states, parents, table in zip(
                names, data["states"], data["parents"], data["table_of"], strict=True
            )
        }
        return cls(nodes, **settings_of(data))


@dataclass(frozen=True, eq=False, repr=False, init=False)
class MarkovNetwork(Network):
    """Rows whose joint law is proportional to a product of tables over a few rows each.

    Args:
        states: Name of each node to the number or the names of its states.
        factors: Pairs of the names of nodes and a table of nonnegative numbers, shape their states.
        row: The column whose values are the names of nodes.
        latent: Names of nodes that have no row.
        training: "independent" if training rows are independent of all nodes; otherwise there may be none.

    Raises:
        DependenceError: If a factor does not fit the nodes.

    Examples:
        >>> like = [[3.0, 1.0], [1.0, 3.0]]
        >>> ring = MarkovNetwork(dict.fromkeys("abcd", 2), [(pair, like) for pair in ("ab", "bc", "cd", "da")])
        >>> ring.concentration(4)
        1.0
    """

    kind: ClassVar[str] = "markov_network"
    title: ClassVar[str] = "Markov network"
    rows_are: ClassVar[str] = "rows in a Markov network"
    how_to_tell: ClassVar[tuple[str, ...]] = (
        "The assumption is wrong if rows influence each other along lines that the network does not have, or more "
        "strongly than its factors say.",
        "To check, compare the factors with what is known from elsewhere, and ask what rows share besides their "
        "neighbours in the network.",
        "If it is wrong, the intervals may be too narrow. Add the missing lines, or declare components as groups.",
    )
    entries: ClassVar[Mapping[str, str]] = {**Network.entries, "factors": "nodes of each factor, by number from 0"}
    value_words: ClassVar[Mapping[tuple[str, str], str]] = WORDS_OF_TRAINING
    components = property(components_of)

    def __init__(
        self,
        states: Mapping[str, States],
        factors: Iterable[tuple[Sequence[str], ArrayLike]],
        *,
        row: str | None = None,
        latent: Collection[str] = (),
        training: str | None = None,
    ) -> None:
        counts = {name: _state_count(name, given) for name, given in states.items()}
        tables = []
        for scope, table in factors:
            unknown = [name for name in scope if name not in counts]
            if unknown or not scope or len(set(scope)) != len(scope):
                raise DependenceError(
                    f"a factor is over {tuple(scope)}; expected names of nodes, at least one and each once"
                )
            tables.append((tuple(scope), table))
        declare(self, _OF_FACTORS, counts, tables, {"row": row, "latent": latent, "training": training})

    @cached_property
    def bounds(self) -> NetworkBounds:
        """Bounds on leakage, prices and concentration."""
        return NetworkBounds(self)

    @classmethod
    def from_file(cls, path: str | Path, **settings: Unpack[NodeSettings]) -> Self:
        """A network from a UAI file with the preamble MARKOV; nodes are named "0", "1", ....

        Raises:
            DependenceError: With the number of the line, if the file does not hold such a network.
        """
        if Path(path).suffix.lower() != ".uai":
            raise DependenceError(f"the file {Path(path).name!r} has another ending; expected .uai")
        return cls(*network_files.read_uai_markov(network_files.text_of(path)), **settings)

    @classmethod
    def from_pyagrum(cls, network: Any, **settings: Unpack[NodeSettings]) -> Self:
        """A network from a ``pyagrum.MarkovRandomField``; its variables are the nodes."""
        return cls(*adapters.pyagrum_factors(network), **settings)

    @classmethod
    def from_pgmpy(cls, model: Any, **settings: Unpack[NodeSettings]) -> Self:
        """A network from a discrete Markov network of pgmpy (``get_factors()`` gives DiscreteFactors)."""
        return cls(*adapters.pgmpy_factors(model), **settings)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: names, states, nodes of the factors as numbers, different tables once and which each has."""
        return {**plain_data(self), "factors": [list(scope) for scope in self.scopes]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        names, tables = list(map(str, data["names"])), tables_of(data)
        factors = [
            (tuple(names[index_of(node, len(names))] for node in scope), tables[index_of(table, len(tables))])
            for scope, table in zip(data["factors"], data["table_of"], strict=True)
        ]
        states = dict(zip(names, map(operator.index, data["states"]), strict=True))
        return cls(states, factors, **settings_of(data))
