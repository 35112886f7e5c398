"""Networks of pyAgrum and pgmpy, read as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import DependenceError
from everhold_privacy.networks.files import FactorList, NodeTables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


def _expect(given: Any, what: str, *methods: str) -> None:
    if isinstance(given, type) or not all(callable(getattr(given, method, None)) for method in methods):
        kind = f"the class {given.__name__}" if isinstance(given, type) else f"something of type {type(given).__name__}"
        raise DependenceError(f"{kind} was given; expected a {what}; build the network with that library, or from_file")


def pyagrum_nodes(network: Any) -> NodeTables:
    """The nodes of a ``pyagrum.BayesNet``."""
    _expect(network, "pyagrum.BayesNet", "names", "cpt")
    nodes: NodeTables = {}
    for name in sorted(network.names()):
        own, *above = network.cpt(name).names
        table = _pyagrum_table(network.cpt(name), (*above, own))
        nodes[name] = table.shape[-1], tuple(above), table
    return nodes


def pyagrum_factors(network: Any) -> FactorList:
    """The states and factors of a ``pyagrum.MarkovRandomField``."""
    _expect(network, "pyagrum.MarkovRandomField", "names", "variable", "factors", "factor")
    states = {name: network.variable(name).domainSize() for name in sorted(network.names())}
    scopes = [tuple(network.factor(nodes).names) for nodes in network.factors()]
    factors = [(s, _pyagrum_table(network.factor({network.idFromName(n) for n in s}), s)) for s in sorted(scopes)]
    return states, factors


def _pyagrum_table(tensor: Any, order: Sequence[str]) -> NDArray[np.float64]:
    """The library's arrays have the axes of a tensor in the reverse order of its names."""
    names = list(reversed(tensor.names))
    values = np.asarray(tensor.toarray(), dtype=np.float64)
    return values.transpose([names.index(name) for name in order])


def pgmpy_nodes(model: Any) -> NodeTables:
    """The nodes of a discrete Bayesian network of pgmpy, whose tables have the own states first."""
    _expect(model, "discrete Bayesian network of pgmpy", "get_cpds")
    cpds = {cpd.variables[0]: cpd for cpd in model.get_cpds()}
    own = {name: cpd.state_names[name] for name, cpd in cpds.items()}
    nodes: NodeTables = {}
    for name, cpd in cpds.items():
        table = _pgmpy_table(cpd, own)
        nodes[str(name)] = table.shape[0], tuple(map(str, cpd.variables[1:])), np.moveaxis(table, 0, -1)
    return nodes


def pgmpy_factors(model: Any) -> FactorList:
    """The states and factors of a discrete Markov network of pgmpy."""
    _expect(model, "discrete Markov network of pgmpy", "get_factors")
    factors = model.get_factors()
    first: dict[Any, Sequence[Any]] = {}
    for factor in factors:
        for name in factor.variables:
            first.setdefault(name, factor.state_names[name])
    tables = [(tuple(map(str, factor.variables)), _pgmpy_table(factor, first)) for factor in factors]
    return {str(name): len(labels) for name, labels in first.items()}, tables


def _pgmpy_table(factor: Any, order: Mapping[Any, Sequence[Any]]) -> NDArray[np.float64]:
    table = np.asarray(factor.values, dtype=np.float64)
    for axis, name in enumerate(factor.variables):
        if name not in order or set(order[name]) != set(factor.state_names[name]):
            raise DependenceError(
                f"the tables of the model do not agree on the states of {name!r}; expected one table for each node and "
                "the same state names in all of them; check the model"
            )
        places = {label: place for place, label in enumerate(factor.state_names[name])}
        table = np.take(table, [places[label] for label in order[name]], axis=axis)
    return table
