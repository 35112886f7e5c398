"""Keywords of `Holdout.create` by their former names, those of extensions included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.asking.accessor import accessor_named, accessors
from everhold.errors import warn_former
from everhold.extensions import extra_for
from everhold.ledger.extension import EXTENSIONS
from everhold.sealing.settings import CURRENT, FORMER, divided, place_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.sealing.settings import ExtensionSettings
    from everhold.values.base import Schema

__all__ = ["check_extensions", "extension_settings", "settings_from", "warn_of_former"]


def settings_from(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of `Holdout.create` from settings that may have their former names, as in a request or a file.

    Raises:
        TypeError: If a setting is there by both of its names.
        ValueError: If the settings of an extension contradict each other.
    """
    left = dict(flat)
    for name, accessor in _with_former(left):
        settings, left = accessor.settings_from(left)
        if settings is not None:
            left[name] = settings
    return divided(left)


def warn_of_former(given: Mapping[str, Any]) -> bool:
    """Warn of keywords that have another place or name by now; returns whether there are any.

    Raises:
        TypeError: If there is no such keyword, and never was.
    """
    places = {former: place_of(former) for former in given.keys() & FORMER}
    for name, accessor in _with_former(given):
        kind = "" if accessor.settings is None else accessor.settings.__name__
        places |= {former: f"{name}=eh.{kind}({former}=...)" for former in given.keys() & accessor.former_settings}
    for unknown in sorted(given.keys() - places.keys() - CURRENT):
        if accessor_named(unknown) is None:
            extra = extra_for(EXTENSIONS.group, unknown)
            remedy = f"Install it: pip install 'everhold[{extra}]'." if extra else "See help(Holdout.create)."
            raise TypeError(f"Holdout.create() has no keyword {unknown!r}. {remedy}")
    if places:
        said = ", ".join(f"{former}= is now {place}" for former, place in sorted(places.items()))
        warn_former(f"Keywords of Holdout.create have moved: {said}. The former ones work in this version only.")
    return bool(places)


def extension_settings(given: Mapping[str, Any]) -> dict[str, ExtensionSettings]:
    """The settings of extensions by name; None is the same as none.

    Raises:
        TypeError: If they are not of the extension's own class.
    """
    found = {}
    for name, settings in given.items():
        if settings is None:
            continue
        accessor = accessor_named(name)
        kind = None if accessor is None else accessor.settings
        if kind is None or not isinstance(settings, kind):
            expected = "nothing" if kind is None else f"eh.{kind.__name__}(...)"
            raise TypeError(f"{name} is a {type(settings).__name__}. Pass {expected}.")
        found[name] = settings
    return found


def check_extensions(given: Mapping[str, ExtensionSettings], schema: Schema) -> None:
    """Check that the settings of extensions fit the rows.

    Raises:
        HoldoutRejected: If not. Nothing was created.
    """
    for name, settings in given.items():
        if (accessor := accessor_named(name)) is not None:
            accessor.check_settings(settings, schema)


def _with_former(given: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Accessors whose former settings are among these keywords; without any, no extension is looked up."""
    unknown = given.keys() - CURRENT - FORMER
    return [(name, each) for name, each in accessors() if each.former_settings & unknown] if unknown else []
