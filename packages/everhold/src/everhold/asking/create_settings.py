"""Keywords of `Holdout.create` from flat settings, those of extensions included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.asking.accessor import accessor_named, accessors
from everhold.extensions import extra_for
from everhold.ledger.extension import EXTENSIONS
from everhold.sealing.intake.request import CURRENT, FLAT, divided, place_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.sealing.intake.request import ExtensionSettings
    from everhold.values.base import Schema

__all__ = ["check_extensions", "extension_settings", "settings_from"]


def settings_from(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of `Holdout.create` from flat settings, as in a request, a file or a command.

    Raises:
        TypeError: If a setting is there both flat and in its object.
        ValueError: If the settings of an extension contradict each other.
    """
    left = dict(flat)
    if left.keys() - CURRENT - FLAT:
        for name, accessor in accessors():
            settings, left = accessor.settings_from(left)
            if settings is not None:
                left[name] = settings
    return divided(left)


def extension_settings(given: Mapping[str, Any]) -> dict[str, ExtensionSettings]:
    """The settings of extensions by name; None is the same as none.

    Raises:
        TypeError: If there is no such extension, or the settings are not of its class.
    """
    found = {}
    for name, settings in given.items():
        if accessor_named(name) is None:
            extra = extra_for(EXTENSIONS.group, name)
            remedy = f"Install it: pip install 'everhold[{extra}]'." if extra else "See help(Holdout.create)."
            remedy = f"Write {place_of(name)}." if name in FLAT else remedy
            raise TypeError(f"Holdout.create() has no keyword {name!r}. {remedy}")
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
