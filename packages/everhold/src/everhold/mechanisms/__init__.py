"""Mechanisms: pure steps from evaluations to replies, one file each. `MECHANISMS` finds them by name."""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any

from everhold.errors import ExtensionError
from everhold.extensions import Registry
from everhold.mechanisms.accounting import Accounting
from everhold.mechanisms.base import Mechanism, Promise, Quote, Replies, Source, State, Traits
from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.mechanisms.public_levels import PublicLevels, has_public_levels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.dependence import DependenceModel
    from everhold.mechanisms.silent import Silent

__all__ = [
    "MECHANISMS",
    "GuessAndCheck",
    "Mechanism",
    "Promise",
    "PublicLevels",
    "Quote",
    "Replies",
    "Silent",
    "Source",
    "State",
    "Traits",
    "answering",
    "has_public_levels",
    "mechanism_from_dict",
    "those_with",
]


_TRAITS = frozenset(trait.name for trait in dataclasses.fields(Traits))


def _wrong_with(name: str, kind: Any) -> str:
    """Return what makes an extension's mechanism class unusable, in words, or an empty text if it is usable."""
    if not (isinstance(kind, type) and issubclass(kind, Mechanism)):
        return "it is no subclass of everhold.mechanisms.Mechanism."
    if inspect.isabstract(kind):
        return f"it does not define {', '.join(sorted(kind.__abstractmethods__))}."
    if loose := sorted(trait for trait in _TRAITS if hasattr(kind, trait)):
        return f"it has the attributes {', '.join(loose)}. Put them in traits = Traits({loose[0]}=..., ...)."
    if moved := sorted(rule for rule in vars(Accounting) if not rule.startswith("_") and hasattr(kind, rule)):
        return f"it has {', '.join(moved)}. Put them in the class that is its attribute accounting."
    if kind.traits.public_levels and not issubclass(kind, PublicLevels):
        return "it declares public_levels and is no subclass of everhold.mechanisms.public_levels.PublicLevels."
    called = getattr(kind, "name", None)
    return "" if called == name else f"its name is {called!r}. Give it the name of its entry point."


MECHANISMS: Registry[type[Mechanism]] = Registry(
    "everhold.mechanisms",
    {
        "guess_and_check": "everhold.mechanisms.guess_and_check:GuessAndCheck",
        "silent": "everhold.mechanisms.silent:Silent",
    },
    _wrong_with,
)
"""All mechanisms by name: those of the core, then those of extensions in alphabetical order."""


def answering() -> dict[str, type[Mechanism]]:
    """Return by name the mechanisms that answer before a study is unsealed, among which a plan chooses."""
    return {name: kind for name, kind in MECHANISMS.items() if not kind.traits.only_silent}


def those_with(trait: str) -> str:
    """Return the names of the mechanisms with a trait, for messages."""
    return " or ".join(name for name, kind in MECHANISMS.items() if getattr(kind.traits, trait))


def mechanism_from_dict(described: Mapping[str, Any], dependence: DependenceModel) -> Mechanism:
    """Rebuild a mechanism from the plain data that `Mechanism.to_dict` returned.

    Raises:
        ExtensionError: If there is no mechanism of that name; says which extra installs it.
        KeyError: If something is missing.
        ValueError: If its parameters make no sense, or are those of another version of it.
    """
    shared = {name: described[name] for name in ("rows", "queries", "confidence", "unit")}
    kind = MECHANISMS.get(name := described["mechanism"])
    if kind is None:
        raise ExtensionError(f"The mechanism {name!r} is not installed. {MECHANISMS.missing(name)}")
    made = kind(**shared, **described["parameters"], dependence=dependence)
    if made.parameters().keys() != described["parameters"].keys():
        raise ValueError(
            f"The mechanism {made.name} has the parameters {', '.join(made.parameters())}, and the ledger has "
            f"{', '.join(described['parameters'])}. Open the holdout with the version of everhold that created it."
        )
    return made


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "Silent":
            return MECHANISMS["silent"]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
