"""Extension points: mechanisms, queries and other things that installed distributions add to everhold.

A distribution adds something by an entry point::

    [project.entry-points."everhold.mechanisms"]
    my_mechanism = "my_package.my_mechanism:MyMechanism"

Each group has one `Registry`. It knows the names of everhold's own members without importing them, and reads the
metadata of installed distributions only for other names. For a name that is not installed, `catalog.json` says which
extra of everhold installs it. ``make catalog`` writes this file from the distributions of the workspace.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar

from everhold.errors import ExtensionError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Thing = TypeVar("Thing")

NAMES = "everhold.names"
"""Group of the names that a distribution adds to the module `everhold` itself."""


class Registry(Mapping[str, Thing]):
    """The members of one extension group by name, each imported when it is first looked up.

    Args:
        group: Group of the entry points, such as ``"everhold.mechanisms"``.
        own: Members that everhold itself provides: the place of each, as ``"module:attribute"``.
        check: Function from the name of a loaded member and the member to a text about what is wrong with it, empty if
            nothing is.
    """

    def __init__(self, group: str, own: Mapping[str, str], check: Callable[[str, Any], str] = lambda _, __: "") -> None:
        self.group, self.own, self._check = group, dict(own), check
        self._loaded: dict[str, Thing] = {}

    def __getitem__(self, name: str) -> Thing:
        """Return the member of that name, and import it if needed.

        Raises:
            KeyError: If there is no member of this name.
            ExtensionError: If the extension cannot be loaded or breaks its contract, or two extensions have this name.
        """
        if name not in self._loaded:
            if name in self.own:
                self._loaded[name] = imported(self.own[name])
            else:
                points = installed(self.group)
                if name not in points:
                    raise KeyError(name)
                self._loaded[name] = loaded(self.group, points[name], self._check)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from self.added()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def added(self) -> dict[str, EntryPoint]:
        """Return the entry points of installed extensions by name, in alphabetical order.

        Raises:
            ExtensionError: If two extensions have the same name, or one has the name of one of everhold's own members.
        """
        points = installed(self.group)
        if taken := sorted(points.keys() & self.own.keys()):
            raise ExtensionError(
                f"The extension {taken[0]!r} of {self.group} ({points[taken[0]].value}) has the name of one of "
                "everhold's own. Uninstall its distribution, or rename its entry point."
            )
        return points

    def missing(self, name: str) -> str:
        """Return a sentence about an unknown name: which extra installs it, or which names exist."""
        extra = extra_for(self.group, name)
        return f"Install it: pip install 'everhold[{extra}]'." if extra else f"Expected one of {', '.join(self)}."


@cache
def installed(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, in alphabetical order.

    Raises:
        ExtensionError: If two distributions add the same name.
    """
    from importlib.metadata import entry_points  # imports a mail parser, which most commands do not need

    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise ExtensionError(
                f"Two extensions of {group} are named {point.name!r}: {other.value} and {point.value}. "
                "Uninstall one of their distributions."
            )
    return found


def loaded(group: str, point: EntryPoint, check: Callable[[str, Any], str] = lambda _, __: "") -> Any:
    """Import the object of an entry point, and check it.

    Raises:
        ExtensionError: If it cannot be imported, or breaks the contract of its group.
    """
    try:
        thing = point.load()
    except Exception as fault:
        raise ExtensionError(
            f"The extension {point.name!r} of {group} cannot be loaded from {point.value} ({type(fault).__name__}). "
            "Install its distribution again, or uninstall it."
        ) from fault
    if wrong := check(point.name, thing):
        raise ExtensionError(f"The extension {point.name!r} of {group} ({point.value}) was refused: {wrong}")
    return thing


def extra_for(group: str, name: str) -> str | None:
    """Return the extra of everhold that installs a name of a group, or None."""
    extra: str | None = _catalog().get(group, {}).get(name)
    return extra


def added_name(name: str) -> Any:
    """Return a public name that an extension adds to the module `everhold`.

    Raises:
        AttributeError: If no installed extension adds it. The message says which extra of everhold would.
    """
    points = installed(NAMES)
    if name.startswith("_") or name not in points:
        extra = extra_for(NAMES, name)
        remedy = f". Install it: pip install 'everhold[{extra}]'" if extra else ""
        raise AttributeError(f"module 'everhold' has no attribute {name!r}{remedy}")
    return loaded(NAMES, points[name])


def required(name: str) -> Any:
    """Return an object that an extension adds to everhold, or say which extra to install.

    Raises:
        ExtensionError: If it is not installed. The message says which extra of everhold installs it.
    """
    points = installed(NAMES)
    if name not in points:
        extra = extra_for(NAMES, name)
        raise ExtensionError(
            f"{name} is not installed. " + (f"Install it: pip install 'everhold[{extra}]'." if extra else "Install it.")
        )
    return loaded(NAMES, points[name])


@cache
def _catalog() -> dict[str, dict[str, str]]:
    catalog: dict[str, dict[str, str]] = json.loads(files("everhold").joinpath("catalog.json").read_text("utf-8"))
    return catalog


def imported(place: str) -> Any:
    """Import and return the object at ``"package.module:attribute"``."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute) if attribute else import_module(module)
