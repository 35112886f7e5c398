"""Bayesian and Markov networks whose nodes are the states of rows: their declaration, base and both kinds."""

from __future__ import annotations

import hashlib
import json
import math
import operator
from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict

import numpy as np

from everhold.dependence.base import DependenceModel, Links, require_rows
from everhold.errors import DependenceError
from everhold_privacy.leakage import LeakageCurve
from everhold_privacy.networks.bounds import NetworkBounds, NetworkParts, bayesian_changes
from everhold_privacy.networks.factors import Factor, FactorModel

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Unpack

    from numpy.typing import ArrayLike, NDArray

    from everhold.dependence.base import RowStructure
    from everhold_privacy.curves import PrivacyCurve

    Floats = NDArray[np.float64]
    States = int | Sequence[Any]


WORDS_OF_TRAINING = {("training", "independent"): "independent of all sealed rows"}


class NodeSettings(TypedDict, total=False):
    """Options about nodes that all networks take, explained in `BayesianNetwork`."""

    row: str | None
    latent: Collection[str]
    training: str | None


@dataclass(frozen=True, slots=True)
class TableRules:
    """How one kind of network names and checks its tables.

    Attributes:
        axes: Meaning of the axes of a table, in words.
        name: Function from the nodes of a table to its name in messages.
        checked: Function from the nodes and the numbers to a checked, read-only table.
    """

    axes: str
    name: Callable[[tuple[str, ...]], str]
    checked: Callable[[tuple[str, ...], ArrayLike], Floats]


def declare(
    network: Network,
    rules: TableRules,
    states: Mapping[str, int],
    tables: Iterable[tuple[tuple[str, ...], ArrayLike]],
    settings: NodeSettings,
) -> None:
    """Check the arguments of a network, and set them as attributes of the frozen instance."""
    latent, training = settings.get("latent", ()), settings.get("training")
    names = tuple(states)
    place = {name: node for node, name in enumerate(names)}
    unknown = [name for name in latent if name not in place]
    if unknown:
        raise DependenceError(f"The latent node {unknown[0]!r} is not a node. Pass names of nodes in latent=.")
    if training not in (None, "independent"):
        raise DependenceError(f"training is {training!r}. Pass 'independent' or None.")
    hidden = tuple(sorted({place[name] for name in latent}))
    if len(hidden) == len(names):
        raise DependenceError("All nodes are latent, or there are none. At least one node needs a row.")
    distinct: dict[Any, int] = {}
    kept: list[Floats] = []
    scopes, table_of = [], []
    checked: dict[int, tuple[Any, Floats]] = {}
    for scope, given in tables:
        if id(given) not in checked:
            checked[id(given)] = given, rules.checked(scope, given)
        table = checked[id(given)][1]
        expected = tuple(states[name] for name in scope)
        if table.shape != expected:
            raise DependenceError(
                f"The {rules.name(scope)} has shape {table.shape}. Pass shape {expected}, {rules.axes}."
            )
        key = (table.shape, table.tobytes())
        if key not in distinct:
            distinct[key] = len(kept)
            kept.append(table)
        scopes.append(tuple(place[name] for name in scope))
        table_of.append(distinct[key])
    values = {
        "names": names,
        "states": tuple(states.values()),
        "scopes": tuple(scopes),
        "tables": tuple(kept),
        "table_of": tuple(table_of),
        "row": settings.get("row"),
        "latent": hidden,
        "training": training,
    }
    for name, value in values.items():
        object.__setattr__(network, name, value)


def components_of(network: Network) -> tuple[tuple[str, ...], ...]:
    """Names of the nodes in each connected component of the network. Rows of different components are independent."""
    found: dict[int, list[str]] = {}
    for name, label in zip(network.names, network.model.graph.components().tolist(), strict=True):
        found.setdefault(label, []).append(name)
    return tuple(tuple(names) for names in found.values())


def check_column(network: Network, column: str, structure: RowStructure) -> None:
    """Check that a column names each node in at most one sealed row and in no training row."""
    sizes = dict(structure.group_sizes(column))
    if sizes != {1: structure.rows}:
        raise DependenceError(
            f"Column {column!r} names some node more than once. Seal one row for each node.",
            largest=max(sizes, default=0),
        )
    hidden = set(network.latent)
    seen = frozenset(name for node, name in enumerate(network.names) if node not in hidden)
    unknown = structure.unknown_values(column, seen, side="sealed")
    if unknown:
        raise DependenceError(
            f"{unknown} sealed rows have a value in column {column!r} that is not a node "
            "of the network, or is a latent node. Seal only rows that are nodes.",
            unknown=unknown,
        )
    strangers = structure.unknown_values(column, frozenset(network.names), side="training")
    if strangers != structure.training_rows:
        raise DependenceError(
            f"{structure.training_rows - strangers} training rows name a node of the network in column {column!r}, "
            "and depend on its neighbours. Leave these rows out.",
            shared=structure.training_rows - strangers,
        )


def plain_data(network: Network) -> dict[str, Any]:
    """Return the plain data that both kinds of networks have in common."""
    return {
        "kind": network.kind,
        "row": network.row,
        "training": network.training,
        "names": list(network.names),
        "states": list(network.states),
        "latent": list(network.latent),
        "tables": [{"shape": list(table.shape), "values": table.ravel().tolist()} for table in network.tables],
        "table_of": list(network.table_of),
    }


def tables_of(data: Mapping[str, Any]) -> list[Floats]:
    """Return the tables in a network's plain data as arrays."""
    shapes = [(table["values"], tuple(map(int, table["shape"]))) for table in data["tables"]]
    return [np.asarray(values, dtype=np.float64).reshape(shape) for values, shape in shapes]


def settings_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the node settings in a network's plain data as keyword arguments."""
    names = data["names"]
    if len(set(names)) != len(names):
        raise DependenceError("Two nodes have the same name. Give each node a different name.")
    latent = [names[index_of(node, len(names))] for node in data.get("latent", ())]
    return {"row": data.get("row"), "latent": latent, "training": data.get("training")}


def index_of(value: Any, count: int) -> int:
    """Return a value as an integer from 0 to ``count - 1``. Raise DependenceError for an integer out of this range."""
    number = operator.index(value)
    if not 0 <= number < count:
        raise DependenceError(f"The number {number} stands for nothing. Pass a number from 0 to {count - 1}.")
    return number


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Network(DependenceModel):
    """Base of Bayesian and Markov networks. Each node is the state of one row, or latent.

    A row's record given the state of its node is independent of everything else.

    Attributes:
        states: Number of states of each node.
        scopes: The nodes of each table, in the order of its axes; scope i of a Bayesian network has node i last.
        table_of: For each scope, the position of its table.
        row: The column whose values are names of nodes; None if rows need not be told apart.
        latent: The nodes without a row, increasing.
        training: "independent" if training rows are declared independent of all nodes; None if there are none.
    """

    entries: ClassVar[Mapping[str, str]] = {
        "row": "column that names the node of a row",
        "training": "training rows",
        "names": "nodes",
        "states": "number of states of each node",
        "latent": "nodes without a row, by number from 0",
        "tables": "tables of numbers",
        "table_of": "which table each node or factor has, by number from 0",
    }
    names: tuple[str, ...]
    states: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    tables: tuple[Floats, ...]
    table_of: tuple[int, ...]
    row: str | None
    latent: tuple[int, ...]
    training: str | None

    @property
    @abstractmethod
    def bounds(self) -> NetworkBounds:
        """Bounds on leakage, prices and concentration of the network, computed on first use."""

    def _parts(self) -> NetworkParts:
        counted = np.ones(len(self.names), dtype=bool)
        counted[list(self.latent)] = False
        return NetworkParts(self.model, counted, self.table_of)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Network):
            return NotImplemented
        return self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<{len(self.names)} nodes, digest {self.digest[:12]}>)"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the plain data, the same for equal networks."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def rows(self) -> int:
        """Number of nodes that are rows."""
        return len(self.names) - len(self.latent)

    @cached_property
    def model(self) -> FactorModel:
        """The joint distribution of all nodes."""
        pairs = zip(self.scopes, self.table_of, strict=True)
        return FactorModel(self.states, tuple(Factor(scope, self.tables[table]) for scope, table in pairs))

    def links(self, most: int) -> Links | None:
        """Return the nodes and edges of the graph for a drawing, or None if the graph has more nodes than ``most``."""
        if len(self.names) > most:
            return None
        lines = tuple((int(first), int(second)) for first, second in self.model.graph.edges)
        return Links(len(self.names), lines, frozenset(self.latent))

    def independent_sets(self) -> Mapping[int, int]:
        """Number of components of each size in rows."""
        hidden = {self.names[node] for node in self.latent}
        rows = (sum(name not in hidden for name in component) for component in components_of(self))
        return Counter(filter(None, rows))

    def leakage(self, curve: PrivacyCurve, rows: int) -> PrivacyCurve:
        """Return the leakage about each row by couplings and quilts (S4).

        Another number of rows scales it in proportion.
        """
        alone = all(bounds.bounds[0].counts == (1,) for bounds in self.bounds.classes)
        return curve if alone else LeakageCurve(curve, self.bounds.classes)

    def concentration(self, rows: int) -> float:
        """Return ``n^2`` over the sum of the ``D_i^2`` (S5), in proportion for other numbers of rows."""
        require_rows(rows)
        return rows * min(self.rows / self.bounds.proxy, 1.0)

    def bayesian_price(self, epsilon: float, rows: int) -> float:
        """Return the price by quilts in small components, and elsewhere with the whole component nearby (P5)."""
        return self.bounds.price(epsilon)

    def bind(self, structure: RowStructure) -> Self:
        """Check that the sealed rows are exactly the nodes that are not latent, and return the network.

        Training rows must have been declared independent, and none may bear the name of a node.
        """
        if structure.training_rows and self.training is None:
            raise DependenceError(
                f"There are {structure.training_rows} training rows, and the network does "
                "not say how they depend on its nodes. If they are independent of every "
                "node, pass training='independent'. Otherwise leave them out.",
                training_rows=structure.training_rows,
            )
        if structure.rows != self.rows:
            raise DependenceError(
                f"The network has {self.rows} nodes with a row, and the holdout has {structure.rows} rows. Name the "
                "nodes without a row in latent=, and seal only rows that are nodes.",
                nodes=self.rows,
                rows=structure.rows,
            )
        if self.row is not None:
            check_column(self, self.row, structure)
        return self

    def describe(self) -> str:
        """Return the assumption in one sentence."""
        sizes = np.bincount(self.model.graph.components())
        which = "" if self.row is None else f" (named by column {self.row!r})"
        hidden = f", {len(self.latent):,} of them without a row," if self.latent else ""
        training = ", and the training rows are independent of all of them" if self.training else ""
        return (
            f"the sealed rows{which} are the nodes of a given {self.title} of {len(self.names):,} nodes{hidden} in "
            f"{len(sizes):,} independent components of at most {int(sizes.max()):,} (digest {self.digest[:12]}), and "
            f"given its node's state, a row's record is independent of everything else{training}"
        )


_SUM_TOLERANCE = 1e-6
_SUM_ROUNDING = 1e-12  # smaller deviations from 1 are left alone, so that plain data come back as they were


def _as_table(name: str, given: ArrayLike, *, expected: str) -> Floats:
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise DependenceError(f"The {name} is not a table of numbers. Pass {expected}.") from None


def _node_table(scope: tuple[str, ...]) -> str:
    return f"table of node {scope[-1]!r}"


def _probabilities(scope: tuple[str, ...], given: ArrayLike) -> Floats:
    name = _node_table(scope)
    table = _as_table(name, given, expected="probabilities")
    if table.ndim < 1 or not table.size or not np.all((table >= 0.0) & (table <= 1.0 + _SUM_TOLERANCE)):
        raise DependenceError(f"The {name} is empty, or has values outside 0 to 1. Pass probabilities.")
    sums = table.sum(axis=-1, keepdims=True)
    worst = float(sums.ravel()[np.argmax(np.abs(sums - 1.0))])
    if abs(worst - 1.0) > _SUM_TOLERANCE:
        raise DependenceError(
            f"The probabilities of node {scope[-1]!r} sum to {worst:.9g} for some states of its parents. Make them "
            "sum to 1 over the last axis, which has the node's own states.",
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
            f"The {name} has negative or infinite values or only zeros. Pass finite values "
            "of at least 0, of which one is positive."
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
            f"The states of node {name!r} cannot be used. Pass their number or a list of different names."
        )
    return int(count)


@dataclass(frozen=True, eq=False, repr=False, init=False)
class BayesianNetwork(Network):
    """Dependence model in which each row's state depends on the states of its parents, which are other rows.

    A node of the network is a row, or a latent variable without a row.

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
                    f"Node {name!r} has the parents {tuple(parents)}, of which {wrong!r} is not a node, is repeated, "
                    "or is the node itself. Pass names of other nodes, each once."
                )
            tables.append((scope, table))
        declare(self, _OF_NODES, counts, tables, {"row": row, "latent": latent, "training": training})
        _ = self.topological_order

    @cached_property
    def topological_order(self) -> tuple[int, ...]:
        """The nodes in an order in which parents come before children."""
        try:
            return tuple(TopologicalSorter({scope[-1]: scope[:-1] for scope in self.scopes}).static_order())
        except CycleError as fault:
            node = self.names[min(fault.args[1])]
            raise DependenceError(f"The arrows above node {node!r} form a cycle. Remove an arrow.", node=node) from None

    @cached_property
    def bounds(self) -> NetworkBounds:
        """Bounds on leakage, prices and concentration."""
        return NetworkBounds(self._parts(), lambda parts: [bayesian_changes(parts, self.topological_order)])

    @classmethod
    def from_pyagrum(cls, network: Any, **settings: Unpack[NodeSettings]) -> Self:
        """Convert a ``pyagrum.BayesNet``, whose variables become the nodes.

        ``BayesianNetwork.from_pyagrum(pyagrum.loadBN("network.bif"))`` reads a file.
        """
        _expect_methods(network, "pyagrum.BayesNet", "names", "cpt")
        nodes: dict[str, tuple[States, Sequence[str], ArrayLike]] = {}
        for name in sorted(network.names()):
            own, *parents = network.cpt(name).names
            table = _tensor_table(network.cpt(name), (*parents, own))
            sums = table.sum(axis=-1, keepdims=True)
            table = np.where(np.abs(sums - 1.0) <= _ROUNDED, table / sums, table)
            nodes[name] = table.shape[-1], parents, table
        return cls(nodes, **settings)

    def to_dict(self) -> dict[str, Any]:
        """Return the network as plain JSON data: nodes, their states, the numbers of their parents, and tables."""
        return {**plain_data(self), "parents": [list(scope[:-1]) for scope in self.scopes]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a network from plain data that `to_dict` returned."""
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
    """Dependence model in which the joint probability of all rows' states is proportional to a product of factors.

    A factor is a table of numbers for the states of a few nodes. A node is a row, or a latent variable without a row.

    Args:
        states: Name of each node to the number or the names of its states.
        factors: Pairs (names of nodes, table of nonnegative numbers). The shape of a table is (states of the first
            node, states of the second node, ...).
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
                    f"A factor is over {tuple(scope)}. Pass names of nodes, at least one and each once."
                )
            tables.append((tuple(scope), table))
        declare(self, _OF_FACTORS, counts, tables, {"row": row, "latent": latent, "training": training})

    @cached_property
    def bounds(self) -> NetworkBounds:
        """Bounds on leakage, prices and concentration."""
        return NetworkBounds(self._parts())

    @classmethod
    def from_pyagrum(cls, network: Any, **settings: Unpack[NodeSettings]) -> Self:
        """Convert a ``pyagrum.MarkovRandomField``, whose variables become the nodes."""
        _expect_methods(network, "pyagrum.MarkovRandomField", "names", "variable", "factors", "factor")
        states = {name: network.variable(name).domainSize() for name in sorted(network.names())}
        scopes = [tuple(network.factor(nodes).names) for nodes in network.factors()]
        factors = [(s, _tensor_table(network.factor({network.idFromName(n) for n in s}), s)) for s in sorted(scopes)]
        return cls(states, factors, **settings)

    def to_dict(self) -> dict[str, Any]:
        """Return the network as plain JSON data: nodes, their states, and factors with the numbers of their nodes."""
        return {**plain_data(self), "factors": [list(scope) for scope in self.scopes]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a network from plain data that `to_dict` returned."""
        names, tables = list(map(str, data["names"])), tables_of(data)
        factors = [
            (tuple(names[index_of(node, len(names))] for node in scope), tables[index_of(table, len(tables))])
            for scope, table in zip(data["factors"], data["table_of"], strict=True)
        ]
        states = dict(zip(names, map(operator.index, data["states"]), strict=True))
        return cls(states, factors, **settings_of(data))


_ROUNDED = 2e-3  # by which sums of probabilities may miss 1, because files round them


def _expect_methods(given: Any, what: str, *methods: str) -> None:
    """Raise DependenceError unless an object has the methods of a kind of model."""
    if isinstance(given, type) or not all(callable(getattr(given, method, None)) for method in methods):
        kind = f"The class {given.__name__}" if isinstance(given, type) else f"An object of type {type(given).__name__}"
        raise DependenceError(f"{kind} was passed. Pass a {what}.")


def _tensor_table(tensor: Any, order: Sequence[str]) -> NDArray[np.float64]:
    """Return a tensor of pyAgrum as an array with axes in the given order of names."""
    names = list(reversed(tensor.names))
    values = np.asarray(tensor.toarray(), dtype=np.float64)
    return values.transpose([names.index(name) for name in order])
