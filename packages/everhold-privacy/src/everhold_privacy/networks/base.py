"""Base of networks whose nodes are the states of rows."""

from __future__ import annotations

import hashlib
import json
import operator
from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict

import numpy as np

from everhold.dependence.base import DependenceModel, Links, require_rows
from everhold.dependence.leakage import LeakageCurve
from everhold.errors import DependenceError
from everhold_privacy.networks.bounds import NetworkParts, nearby_price, row_classes
from everhold_privacy.networks.changes import dobrushin_changes, forest_changes, proxy_variance
from everhold_privacy.networks.factors import Factor, FactorModel

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from everhold.dependence.base import RowStructure
    from everhold.dependence.leakage import RowClass
    from everhold.privacy.curves import PrivacyCurve
    from everhold_privacy.networks.factors import Graph

    Floats = NDArray[np.float64]
    States = int | Sequence[Any]

__all__ = ["Network", "NodeSettings", "index_of", "settings_of", "tables_of"]


class NodeSettings(TypedDict, total=False):
    """Settings of every network about its nodes; see `BayesianNetwork`."""

    row: str | None
    latent: Collection[str]
    training: str | None


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Network(DependenceModel):
    """Base of both kinds of networks. Each node is the state of one row, or latent.

    A row's record given the state of its node is independent of everything else.

    Attributes:
        names: The nodes.
        states: Number of states of each node.
        scopes: The nodes of each table, in the order of its axes; scope i of a Bayesian network has node i last.
        tables: The different tables.
        table_of: Which table each scope has.
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
    value_words: ClassVar[Mapping[tuple[str, str], str]] = {
        ("training", "independent"): "independent of all sealed rows"
    }

    names: tuple[str, ...]
    states: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    tables: tuple[Floats, ...]
    table_of: tuple[int, ...]
    row: str | None
    latent: tuple[int, ...]
    training: str | None

    _axes: ClassVar[str]

    def _set(
        self,
        states: Mapping[str, int],
        tables: Iterable[tuple[tuple[str, ...], ArrayLike]],
        *,
        row: str | None,
        latent: Collection[str],
        training: str | None,
    ) -> None:
        """Check and fill in everything; each table object is checked once, and kept alive with its check."""
        names = tuple(states)
        place = {name: node for node, name in enumerate(names)}
        unknown = [name for name in latent if name not in place]
        if unknown:
            raise DependenceError(f"the latent node {unknown[0]!r} is no node; expected names of nodes")
        if training not in (None, "independent"):
            raise DependenceError(f"training is {training!r}; expected 'independent' or None")
        hidden = tuple(sorted({place[name] for name in latent}))
        if len(hidden) == len(names):
            raise DependenceError("all nodes are latent or there are none; expected at least one node with a row")
        distinct: dict[Any, int] = {}
        kept: list[Floats] = []
        scopes, table_of = [], []
        checked: dict[int, tuple[Any, Floats]] = {}
        for scope, given in tables:
            if id(given) not in checked:
                checked[id(given)] = given, self._checked(scope, given)
            table = checked[id(given)][1]
            expected = tuple(states[name] for name in scope)
            if table.shape != expected:
                raise DependenceError(
                    f"the {self._table_name(scope)} has shape {table.shape}; expected {expected}, {self._axes}"
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
            "row": row,
            "latent": hidden,
            "training": training,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @staticmethod
    @abstractmethod
    def _table_name(scope: tuple[str, ...]) -> str:
        """Name of a table in messages."""

    @classmethod
    @abstractmethod
    def _checked(cls, scope: tuple[str, ...], given: ArrayLike) -> Floats:
        """A table of which every number makes sense, read-only."""

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
        """SHA-256 of the plain data; equal networks have equal digests."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def rows(self) -> int:
        """Number of nodes that are rows."""
        return len(self.names) - len(self.latent)

    @cached_property
    def model(self) -> FactorModel:
        """The joint law of all nodes."""
        pairs = zip(self.scopes, self.table_of, strict=True)
        return FactorModel(self.states, tuple(Factor(scope, self.tables[table]) for scope, table in pairs))

    @property
    def graph(self) -> Graph:
        """The undirected (moral) graph of the nodes."""
        return self.model.graph

    @cached_property
    def components(self) -> tuple[tuple[str, ...], ...]:
        """The nodes of each connected component; components are independent of each other."""
        found: dict[int, list[str]] = {}
        for name, label in zip(self.names, self.graph.components().tolist(), strict=True):
            found.setdefault(label, []).append(name)
        return tuple(tuple(names) for names in found.values())

    def links(self, most: int) -> Links | None:
        """Nodes and the lines of the moral graph, if they are not too many."""
        if len(self.names) > most:
            return None
        lines = tuple((int(first), int(second)) for first, second in self.graph.edges)
        return Links(len(self.names), lines, frozenset(self.latent))

    def independent_sets(self) -> Mapping[int, int]:
        """Sizes of the connected components, in rows."""
        hidden = {self.names[node] for node in self.latent}
        rows = (sum(name not in hidden for name in component) for component in self.components)
        return Counter(filter(None, rows))

    @cached_property
    def _parts(self) -> NetworkParts:
        counted = np.ones(len(self.names), dtype=bool)
        counted[list(self.latent)] = False
        return NetworkParts(self.model, counted, self.table_of)

    @cached_property
    def _classes(self) -> tuple[RowClass, ...]:
        return row_classes(self._parts)

    @cached_property
    def _proxy(self) -> float:
        """Sum over components of the least of the bounds on their part of ``sum D_i^2`` (S5)."""
        bounds = [*self._changes(), forest_changes(self._parts), dobrushin_changes(self._parts)]
        return proxy_variance(self._parts, bounds)

    @abstractmethod
    def _changes(self) -> list[Floats]:
        """Bounds D_i of the kind of network, for all nodes."""

    @cached_property
    def _prices(self) -> dict[float, float]:
        return {}

    def leakage(self, curve: PrivacyCurve, rows: int) -> PrivacyCurve:
        """Couplings and quilts about each row (S4); for other numbers of rows in proportion."""
        alone = all(bounds.bounds[0].counts == (1,) for bounds in self._classes)
        return curve if alone else LeakageCurve(curve, self._classes)

    def concentration(self, rows: int) -> float:
        """``n^2`` over the sum of the ``D_i^2`` (S5); for other numbers of rows in proportion."""
        require_rows(rows)
        return rows * min(self.rows / self._proxy, 1.0)

    def bayesian_price(self, epsilon: float, rows: int) -> float:
        """Quilts with conditional influences in small components, otherwise the whole component is nearby (P5)."""
        if epsilon not in self._prices:
            self._prices[epsilon] = nearby_price(self._parts, epsilon)
        return self._prices[epsilon]

    def bind(self, structure: RowStructure) -> Self:
        """Every node that is not latent has exactly one sealed row, and every sealed row is such a node.

        Training rows must have been declared independent, and none may bear the name of a node.
        """
        if structure.training_rows and self.training is None:
            raise DependenceError(
                f"there are {structure.training_rows} training rows and the network does not say how they depend on "
                "its nodes; expected none; if they are independent of every node, say training='independent'",
                training_rows=structure.training_rows,
            )
        if structure.rows != self.rows:
            raise DependenceError(
                f"the network has {self.rows} nodes with a row and the holdout has {structure.rows} rows; expected as "
                "many; name the nodes without a row as latent, and seal only rows that are nodes",
                nodes=self.rows,
                rows=structure.rows,
            )
        if self.row is not None:
            self._bind_column(self.row, structure)
        return self

    def _bind_column(self, column: str, structure: RowStructure) -> None:
        sizes = dict(structure.group_sizes(column))
        if sizes != {1: structure.rows}:
            raise DependenceError(
                f"column {column!r} names some node more than once; expected one sealed row for each node; give every "
                "row a node of its own",
                largest=max(sizes, default=0),
            )
        hidden = set(self.latent)
        seen = frozenset(name for node, name in enumerate(self.names) if node not in hidden)
        unknown = structure.unknown_values(column, seen, side="sealed")
        if unknown:
            raise DependenceError(
                f"{unknown} sealed rows have a value in column {column!r} that names no node, or a latent one; "
                "expected each sealed row to name a node of its own; seal only rows that are nodes",
                unknown=unknown,
            )
        strangers = structure.unknown_values(column, frozenset(self.names), side="training")
        if strangers != structure.training_rows:
            raise DependenceError(
                f"{structure.training_rows - strangers} training rows name a node of the network in column {column!r}; "
                "expected none, for a node tells about its neighbours; leave them out",
                shared=structure.training_rows - strangers,
            )

    def describe(self) -> str:
        """The assumption in one plain sentence."""
        sizes = np.bincount(self.graph.components())
        which = "" if self.row is None else f" (named by column {self.row!r})"
        hidden = f", {len(self.latent):,} of them without a row," if self.latent else ""
        training = "; the training rows are independent of all of them" if self.training else ""
        return (
            f"the sealed rows{which} are the nodes of a given {self.title} of {len(self.names):,} nodes{hidden} in "
            f"{len(sizes):,} independent components of at most {int(sizes.max()):,} (digest {self.digest[:12]}); given "
            f"its node's state, a row's record is independent of everything else{training}"
        )

    def _shared_data(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "row": self.row,
            "training": self.training,
            "names": list(self.names),
            "states": list(self.states),
            "latent": list(self.latent),
            "tables": [{"shape": list(table.shape), "values": table.ravel().tolist()} for table in self.tables],
            "table_of": list(self.table_of),
        }


def tables_of(data: Mapping[str, Any]) -> list[Floats]:
    """The tables of a network's plain data."""
    shapes = [(table["values"], tuple(map(int, table["shape"]))) for table in data["tables"]]
    return [np.asarray(values, dtype=np.float64).reshape(shape) for values, shape in shapes]


def settings_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a network's plain data, as arguments."""
    names = data["names"]
    if len(set(names)) != len(names):
        raise DependenceError("two nodes have the same name; expected different names")
    latent = [names[index_of(node, len(names))] for node in data.get("latent", ())]
    return {"row": data.get("row"), "latent": latent, "training": data.get("training")}


def index_of(value: Any, count: int) -> int:
    """A whole number from 0 to below a count."""
    number = operator.index(value)
    if not 0 <= number < count:
        raise DependenceError(f"the number {number} stands for nothing; expected 0 to {count - 1}")
    return number
