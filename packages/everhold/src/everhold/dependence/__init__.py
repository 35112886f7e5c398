"""Dependence models of the sealed rows, with a file for each, and the registry `MODELS` that finds them by kind."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from everhold.dependence.base import DependenceModel, Independent, RowStructure, SeriesFacts
from everhold.errors import DependenceError
from everhold.extensions import Registry

if TYPE_CHECKING:
    from everhold.dependence.series.gaussian_ar1 import GaussianAR1
    from everhold.dependence.series.markov_chain import MarkovChain
    from everhold.dependence.units import Groups, InOrder

__all__ = [
    "MODELS",
    "DependenceModel",
    "GaussianAR1",
    "Groups",
    "InOrder",
    "Independent",
    "MarkovChain",
    "RowStructure",
    "SeriesFacts",
    "dependence_from_dict",
    "require_listed",
    "require_model",
]


def _wrong_with(kind: str, model: Any) -> str:
    """Return in words what is wrong with an extension's model class, or an empty text if nothing is."""
    if not (isinstance(model, type) and issubclass(model, DependenceModel)):
        return "it is no subclass of everhold.dependence.DependenceModel."
    if inspect.isabstract(model):
        return f"it does not define {', '.join(sorted(model.__abstractmethods__))}."
    called = getattr(model, "kind", None)
    return "" if called == kind else f"its kind is {called!r}. Give it the name of its entry point."


MODELS: Final[Registry[type[DependenceModel]]] = Registry(
    "everhold.dependence",
    {
        "independent": "everhold.dependence.base:Independent",
        "groups": "everhold.dependence.units:Groups",
        "in_order": "everhold.dependence.units:InOrder",
        "markov_chain": "everhold.dependence.series.markov_chain:MarkovChain",
        "gaussian_ar1": "everhold.dependence.series.gaussian_ar1:GaussianAR1",
    },
    _wrong_with,
)
"""All models by kind: those of the core, then those of extensions in alphabetical order."""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        home = next((home for home in MODELS.own.values() if home.endswith(f":{name}")), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(home.partition(":")[0]), name)


def require_model(given: Any) -> DependenceModel:
    """Return the given value if it is a dependence model. Otherwise raise DependenceError.

    Raises:
        DependenceError: If the value is not a dependence model.
    """
    if not isinstance(given, DependenceModel):
        raise DependenceError(
            f"The dependence is a {type(given).__name__}. Pass a model such as eh.Groups('patient') or "
            "eh.Independent()."
        )
    return given


def require_listed(model: DependenceModel) -> None:
    """Check that a model is registered, so that its ledger can be opened again."""
    if MODELS.get(getattr(model, "kind", "")) is not type(model):
        raise DependenceError(
            f"The dependence model {type(model).__name__} is not registered, so its ledger could not be opened again. "
            "Declare it as an entry point of everhold.dependence under its kind."
        )


def dependence_from_dict(data: Mapping[str, Any]) -> DependenceModel:
    """Build a dependence model from the plain data that `DependenceModel.to_dict` returns.

    Raises:
        DependenceError: If the kind is unknown or the data do not describe a model. An entry that the kind does not
            know is refused, because a misspelt entry would silently be another model.
    """
    if not isinstance(data, Mapping):
        raise DependenceError(
            f'The dependence is of type {type(data).__name__}. Pass plain data such as {{"kind": "groups", '
            '"column": "household"}.'
        )
    kind = data.get("kind")
    model = MODELS.get(kind) if isinstance(kind, str) else None
    if model is None:
        if kind is None:
            raise DependenceError(f"The dependence has no kind. Add a kind, one of {', '.join(MODELS)}.")
        raise DependenceError(f"The dependence model {kind!r} is unknown here. {MODELS.missing(str(kind))}")
    unknown = [repr(entry) for entry in data if entry != "kind" and entry not in model.entries]
    if unknown:
        known = ", ".join(map(repr, sorted({*model.entries, "kind"})))
        raise DependenceError(
            f"The dependence of kind {kind!r} has the unknown {'entry' if len(unknown) == 1 else 'entries'} "
            f"{', '.join(unknown)}. Use only {known}."
        )
    try:
        return model.from_dict(data)
    except DependenceError:
        raise
    except KeyError as fault:
        raise DependenceError(f"The dependence of kind {kind!r} lacks the entry {fault.args[0]!r}. Add it.") from None
    except (TypeError, ValueError, AttributeError, OverflowError) as fault:
        raise DependenceError(
            f"The dependence of kind {kind!r} cannot be used: {fault}. Write it as in docs/reference/models.md."
        ) from None
