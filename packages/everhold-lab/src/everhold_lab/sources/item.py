"""One item of a source, with the call that evaluates it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any


@dataclass(frozen=True)
class Call:
    """A function with its arguments. What is shown is made from what is called.

    Attributes:
        read: Attribute of the result that holds the number; None if the result is the number.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    read: str | None = None

    @property
    def shown(self) -> str:
        """The call as Python code."""
        parts = [*map(_shown, self.arguments), *(f"{name}={_shown(value)}" for name, value in self.named.items())]
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return f"{name}({', '.join(parts)})" + (f".{self.read}" if self.read else "")

    def value(self) -> Any:
        """The number, computed now."""
        arguments = [value.value() if isinstance(value, Call) else value for value in self.arguments]
        named = {name: value.value() if isinstance(value, Call) else value for name, value in self.named.items()}
        found = self.function(*arguments, **named)
        return found if self.read is None else attrgetter(self.read)(found)


@dataclass(frozen=True)
class ExperimentOf:
    """An experiment of the laboratory that takes minutes; its record is in docs/experiments.

    Attributes:
        name: As ``everhold lab run`` takes it.
    """

    name: str

    @property
    def shown(self) -> str:
        """The command that plays it."""
        return f"everhold lab run {self.name}"


@dataclass(frozen=True)
class Item:
    """An algorithm, statement, definition, figure or example of a source.

    Attributes:
        place: Where it stands in the source.
        says: What it says, in a few words of our own.
        run: What evaluates it.
    """

    place: str
    says: str
    run: Call | ExperimentOf


def call(function: Callable[..., Any], *arguments: Any, read: str | None = None, **named: Any) -> Call:
    """A `Call`; arguments may be calls themselves."""
    return Call(function, arguments, named, read)


def _shown(value: Any) -> str:
    if isinstance(value, Call):
        return value.shown
    return str(getattr(value, "__qualname__", None) or repr(value))
