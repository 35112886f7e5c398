"""How sealed rows hang together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.dependence.base import DependenceModel, RowStructure, SeriesFacts
from everhold.dependence.gaussian_ar1 import GaussianAR1
from everhold.dependence.groups import Groups
from everhold.dependence.independent import Independent
from everhold.dependence.markov_chain import MarkovChain
from everhold.dependence.networks import BayesianNetwork, MarkovNetwork
from everhold.dependence.pedigree import pedigree
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "BayesianNetwork",
    "DependenceModel",
    "GaussianAR1",
    "Groups",
    "Independent",
    "MarkovChain",
    "MarkovNetwork",
    "RowStructure",
    "SeriesFacts",
    "dependence_from_dict",
    "pedigree",
]

_MODELS: dict[str, type[DependenceModel]] = {
    model.kind: model for model in (Independent, Groups, MarkovChain, GaussianAR1, BayesianNetwork, MarkovNetwork)
}


def dependence_from_dict(data: Mapping[str, Any]) -> DependenceModel:
    """The inverse of `DependenceModel.to_dict`.

    Raises:
        DependenceError: If the kind is unknown or the data do not describe a model.
    """
    kind = str(data.get("kind"))
    if kind not in _MODELS:
        raise DependenceError(f"the dependence model {kind!r} is unknown; expected one of {', '.join(_MODELS)}")
    try:
        return _MODELS[kind].from_dict(data)
    except DependenceError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as fault:
        raise DependenceError(
            f"the data do not describe a {kind.replace('_', ' ')}: {fault!r}; see docs/reference"
        ) from None
