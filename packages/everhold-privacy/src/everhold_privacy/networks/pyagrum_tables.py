"""States and tables of networks of pyAgrum, which reads BIF, UAI and other files (extra ``graph``).

Whether they make sense is checked by the networks themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


NodeTables = dict[str, tuple[int, tuple[str, ...], "NDArray[np.float64]"]]
"""Node to (number of states, parents, table of shape (states of the parents..., states of the node))."""

FactorList = tuple[dict[str, int], list[tuple[tuple[str, ...], "NDArray[np.float64]"]]]
"""Numbers of states by node, and factors as (nodes, table of shape their states)."""

_ROUNDED = 2e-3  # by which sums of probabilities may miss 1, since files round them


def node_tables(network: Any) -> NodeTables:
    """Return the nodes of a ``pyagrum.BayesNet``. Probabilities that sum to 1 up to rounding are normalised."""
    _expect(network, "pyagrum.BayesNet", "names", "cpt")
    nodes: NodeTables = {}
    for name in sorted(network.names()):
        own, *above = network.cpt(name).names
        table = _table(network.cpt(name), (*above, own))
        sums = table.sum(axis=-1, keepdims=True)
        table = np.where(np.abs(sums - 1.0) <= _ROUNDED, table / sums, table)
        nodes[name] = table.shape[-1], tuple(above), table
    return nodes


def factor_list(network: Any) -> FactorList:
    """Return the numbers of states and the factors of a ``pyagrum.MarkovRandomField``."""
    _expect(network, "pyagrum.MarkovRandomField", "names", "variable", "factors", "factor")
    states = {name: network.variable(name).domainSize() for name in sorted(network.names())}
    scopes = [tuple(network.factor(nodes).names) for nodes in network.factors()]
    factors = [(s, _table(network.factor({network.idFromName(n) for n in s}), s)) for s in sorted(scopes)]
    return states, factors


def _expect(given: Any, what: str, *methods: str) -> None:
    """Raise DependenceError unless an object has the methods of a kind of model."""
    if isinstance(given, type) or not all(callable(getattr(given, method, None)) for method in methods):
        kind = f"The class {given.__name__}" if isinstance(given, type) else f"An object of type {type(given).__name__}"
        raise DependenceError(f"{kind} was passed. Pass a {what}.")


def _table(tensor: Any, order: Sequence[str]) -> NDArray[np.float64]:
    """Return a tensor of pyAgrum as an array with axes in the given order of names."""
    names = list(reversed(tensor.names))
    values = np.asarray(tensor.toarray(), dtype=np.float64)
    return values.transpose([names.index(name) for name in order])
