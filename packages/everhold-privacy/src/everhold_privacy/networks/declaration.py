"""Declaration of a network: its nodes, their tables and their rows, checked, and as plain data."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from everhold.dependence.base import RowStructure
    from everhold_privacy.networks.base import Network

    Floats = NDArray[np.float64]

WORDS_OF_TRAINING = {("training", "independent"): "independent of all sealed rows"}


class NodeSettings(TypedDict, total=False):
    """Settings of every network about its nodes; see `BayesianNetwork`."""

    row: str | None
    latent: Collection[str]
    training: str | None


@dataclass(frozen=True, slots=True)
class TableRules:
    """Rules for the tables of a kind of network.

    Attributes:
        axes: What the axes of a table are.
        name: From the nodes of a table to its name in messages.
        checked: From its nodes and the numbers to a table of which every number makes sense, read-only.
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
    """Check and fill in everything; each table object is checked once, and kept alive with its check."""
    latent, training = settings.get("latent", ()), settings.get("training")
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
            checked[id(given)] = given, rules.checked(scope, given)
        table = checked[id(given)][1]
        expected = tuple(states[name] for name in scope)
        if table.shape != expected:
            raise DependenceError(f"the {rules.name(scope)} has shape {table.shape}; expected {expected}, {rules.axes}")
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
    """The nodes of each connected component; components are independent of each other."""
    found: dict[int, list[str]] = {}
    for name, label in zip(network.names, network.model.graph.components().tolist(), strict=True):
        found.setdefault(label, []).append(name)
    return tuple(tuple(names) for names in found.values())


def check_column(network: Network, column: str, structure: RowStructure) -> None:
    """Check that a column names nodes, each once among the sealed rows and none among the training rows."""
    sizes = dict(structure.group_sizes(column))
    if sizes != {1: structure.rows}:
        raise DependenceError(
            f"column {column!r} names some node more than once; expected one sealed row for each node; give every "
            "row a node of its own",
            largest=max(sizes, default=0),
        )
    hidden = set(network.latent)
    seen = frozenset(name for node, name in enumerate(network.names) if node not in hidden)
    unknown = structure.unknown_values(column, seen, side="sealed")
    if unknown:
        raise DependenceError(
            f"{unknown} sealed rows have a value in column {column!r} that names no node, or a latent one; "
            "expected each sealed row to name a node of its own; seal only rows that are nodes",
            unknown=unknown,
        )
    strangers = structure.unknown_values(column, frozenset(network.names), side="training")
    if strangers != structure.training_rows:
        raise DependenceError(
            f"{structure.training_rows - strangers} training rows name a node of the network in column {column!r}; "
            "expected none, for a node tells about its neighbours; leave them out",
            shared=structure.training_rows - strangers,
        )


def plain_data(network: Network) -> dict[str, Any]:
    """The plain data that both kinds of networks share."""
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
