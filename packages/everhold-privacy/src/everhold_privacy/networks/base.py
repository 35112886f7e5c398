"""Base of networks whose nodes are the states of rows."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from everhold.dependence.base import DependenceModel, Links, require_rows
from everhold.dependence.leakage import LeakageCurve
from everhold.errors import DependenceError
from everhold_privacy.networks.declaration import check_column, components_of
from everhold_privacy.networks.factors import Factor, FactorModel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from everhold.dependence.base import RowStructure
    from everhold.privacy.curves import PrivacyCurve
    from everhold_privacy.networks.proven import NetworkBounds

    Floats = NDArray[np.float64]
    States = int | Sequence[Any]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Network(DependenceModel):
    """Base of both kinds of networks. Each node is the state of one row, or latent.

    A row's record given the state of its node is independent of everything else.

    Attributes:
        states: Number of states of each node.
        scopes: The nodes of each table, in the order of its axes; scope i of a Bayesian network has node i last.
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
        """Bounds on leakage, prices and concentration."""

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

    def links(self, most: int) -> Links | None:
        """Nodes and the lines of the moral graph, if they are not too many."""
        if len(self.names) > most:
            return None
        lines = tuple((int(first), int(second)) for first, second in self.model.graph.edges)
        return Links(len(self.names), lines, frozenset(self.latent))

    def independent_sets(self) -> Mapping[int, int]:
        """Sizes of the connected components, in rows."""
        hidden = {self.names[node] for node in self.latent}
        rows = (sum(name not in hidden for name in component) for component in components_of(self))
        return Counter(filter(None, rows))

    def leakage(self, curve: PrivacyCurve, rows: int) -> PrivacyCurve:
        """Couplings and quilts about each row (S4); for other numbers of rows in proportion."""
        alone = all(bounds.bounds[0].counts == (1,) for bounds in self.bounds.classes)
        return curve if alone else LeakageCurve(curve, self.bounds.classes)

    def concentration(self, rows: int) -> float:
        """``n^2`` over the sum of the ``D_i^2`` (S5); for other numbers of rows in proportion."""
        require_rows(rows)
        return rows * min(self.rows / self.bounds.proxy, 1.0)

    def bayesian_price(self, epsilon: float, rows: int) -> float:
        """Quilts with conditional influences in small components, otherwise the whole component is nearby (P5)."""
        return self.bounds.price(epsilon)

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
            check_column(self, self.row, structure)
        return self

    def describe(self) -> str:
        """The assumption in one plain sentence."""
        sizes = np.bincount(self.model.graph.components())
        which = "" if self.row is None else f" (named by column {self.row!r})"
        hidden = f", {len(self.latent):,} of them without a row," if self.latent else ""
        training = "; the training rows are independent of all of them" if self.training else ""
        return (
            f"the sealed rows{which} are the nodes of a given {self.title} of {len(self.names):,} nodes{hidden} in "
            f"{len(sizes):,} independent components of at most {int(sizes.max()):,} (digest {self.digest[:12]}); given "
            f"its node's state, a row's record is independent of everything else{training}"
        )
