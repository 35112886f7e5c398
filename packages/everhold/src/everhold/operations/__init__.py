"""Operations: each thing that can be done with a holdout, written once, as a frozen dataclass.

Its fields with their help are the arguments, its docstring is the help, its result is a dataclass or a table. The
methods of `everhold.holdout.Holdout`, the commands, the routes of the HTTP API, the tools of agents and the client are
derived from it. Read `operation`, then one of the others.

A distribution adds an operation by an entry point of the group ``everhold.operations`` with the operation's name.
"""

from __future__ import annotations

from typing import Any

from everhold.extensions import Registry
from everhold.operations import accounts, arrivals, asking, gates, reports
from everhold.operations.operation import HoldoutOperation

__all__ = ["OPERATIONS"]


def _check(name: str, kind: Any) -> str:
    if not (isinstance(kind, type) and issubclass(kind, HoldoutOperation)):
        return "expected a subclass of everhold.operations.operation.HoldoutOperation"
    return "" if kind.verb == name else f"it calls itself {kind.verb!r}"


OPERATIONS: Registry[type[HoldoutOperation[Any]]] = Registry(
    "everhold.operations",
    {each.verb: f"{each.__module__}:{each.__name__}"
     for module in (accounts, arrivals, asking, gates, reports) for each in vars(module).values()
     if isinstance(each, type) and issubclass(each, HoldoutOperation) and each.__module__ == module.__name__},
    _check,
)  # fmt: skip
"""All operations by name, everhold's own and those of installed distributions."""
