"""How sealed rows depend on each other. A new model is a file of its own and one name in `MODELS`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from everhold.dependence.base import DependenceModel, RowStructure, SeriesFacts
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from everhold.dependence.groups import Groups
    from everhold.dependence.independent import Independent
    from everhold.dependence.networks.models import BayesianNetwork, MarkovNetwork
    from everhold.dependence.networks.pedigree import pedigree
    from everhold.dependence.series.gaussian_ar1 import GaussianAR1
    from everhold.dependence.series.markov_chain import MarkovChain

__all__ = [
    "MODELS",
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
    "require_listed",
]


class _Models(Mapping[str, type[DependenceModel]]):
    """Models by kind, each imported when it is first looked at: most holdouts need one of them."""

    def __init__(self, **homes: str) -> None:
        self.homes = homes

    def __getitem__(self, kind: str) -> type[DependenceModel]:
        home, _, name = self.homes[kind].partition(":")
        model: type[DependenceModel] = getattr(import_module(f"everhold.dependence.{home}"), name)
        return model

    def __iter__(self) -> Iterator[str]:
        return iter(self.homes)

    def __len__(self) -> int:
        return len(self.homes)


MODELS: Final = _Models(
    independent="independent:Independent",
    groups="groups:Groups",
    markov_chain="series.markov_chain:MarkovChain",
    gaussian_ar1="series.gaussian_ar1:GaussianAR1",
    bayesian_network="networks.models:BayesianNetwork",
    markov_network="networks.models:MarkovNetwork",
)
"""All models by kind, for everyone who reads a model, speaks of one or offers them."""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        homes = [*MODELS.homes.values(), "networks.pedigree:pedigree"]
        home = next((home for home in homes if home.endswith(f":{name}")), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{home.partition(':')[0]}"), name)


def require_listed(model: DependenceModel) -> None:
    """Refuse a model that nobody could read again.

    Raises:
        DependenceError: If `MODELS` does not list it.
    """
    if MODELS.get(getattr(model, "kind", "")) is not type(model):
        raise DependenceError(
            f"the model {type(model).__name__} is not listed in everhold.dependence.MODELS, so that nobody could read "
            "it again; expected one of these; add it there under its kind"
        )


def dependence_from_dict(data: Mapping[str, Any]) -> DependenceModel:
    """The inverse of `DependenceModel.to_dict`.

    Raises:
        DependenceError: If the kind is unknown or the data do not describe a model; an entry that the kind does not
            know is refused, for a misspelt one would silently be another model.
    """
    if not isinstance(data, Mapping):
        raise DependenceError(
            f"a dependence model is not of type {type(data).__name__}; expected plain data such as "
            '{"kind": "groups", "column": "household"}; see docs/reference/models.md'
        )
    kind = data.get("kind")
    model = MODELS.get(kind) if isinstance(kind, str) else None
    if model is None:
        wrong = "the data name no kind of dependence model" if kind is None else f"the kind {kind!r} is unknown"
        raise DependenceError(f"{wrong}; expected one of {', '.join(MODELS)}")
    unknown = [repr(entry) for entry in data if entry != "kind" and entry not in model.entries]
    if unknown:
        known = ", ".join(map(repr, sorted({*model.entries, "kind"})))
        raise DependenceError(
            f"the data of kind {kind!r} have the unknown {'entry' if len(unknown) == 1 else 'entries'} "
            f"{', '.join(unknown)}; expected only {known}; check its spelling, or leave it out"
        )
    try:
        return model.from_dict(data)
    except DependenceError:
        raise
    except KeyError as fault:
        raise DependenceError(
            f"the data of kind {kind!r} lack the entry {fault.args[0]!r}; expected it; see docs/reference/models.md"
        ) from None
    except (TypeError, ValueError, AttributeError, OverflowError) as fault:
        raise DependenceError(
            f"the data do not describe a model of kind {kind!r}: {fault}; expected what docs/reference/models.md shows"
        ) from None
