"""Accessors: objects such as `holdout.<name>`, by which a ledger extension adds its methods to a `Holdout`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.errors import ExtensionError
from everhold.extensions import extra_for
from everhold.ledger.extension import EXTENSIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from everhold.asking.query_executor import QueryExecutor
    from everhold.ledger import Entry, Head
    from everhold.ledger.acts import EntryCounts
    from everhold.sealing.intake.request import ExtensionSettings
    from everhold.values.base import Schema


class HoldoutAccessor:
    """Base of the object behind `holdout.<name>`. An extension inherits from it and overrides what it needs.

    Attributes:
        settings: Class of the settings that `Holdout.create(<name>=...)` takes; None if the extension has none. The
            extension is in charge of a holdout that was created with such settings.

    Args:
        executor: Executor of the open holdout, for the steward or for an analyst.
        folder: The private folder of its rows.
        recorded: Recorded settings with which the holdout was created. None if the holdout was created without such
            settings.
    """

    settings: ClassVar[type[ExtensionSettings] | None] = None

    def __init__(self, executor: QueryExecutor, folder: Path, recorded: Mapping[str, Any] | None) -> None:
        """Use `holdout.<name>` instead."""
        self._executor, self._folder, self._recorded = executor, folder, recorded

    @classmethod
    def settings_from(cls, flat: dict[str, Any]) -> tuple[ExtensionSettings | None, dict[str, Any]]:
        """Return the extension's settings from flat keyword settings, and the settings that are left."""
        return None, flat

    @classmethod
    def check_settings(cls, settings: Any, schema: Schema) -> None:
        """Check that settings fit the rows.

        Raises:
            HoldoutRejected: If the settings do not fit. Nothing was created.
        """

    def check_query(self) -> None:
        """Raise QueryRejected if queries go through the extension and not through `Holdout.ask`.

        Raises:
            QueryRejected: If `Holdout.ask` answers no queries of this holdout. Nothing was charged.
        """

    def status_facts(self, head: Head) -> dict[str, Any]:
        """Return facts by name that `Holdout.status` adds."""
        return {}

    def certificate_facts(self, head: Head, counts: EntryCounts) -> dict[str, Any]:
        """Return facts by name for the certificate's section ``account``.

        Only names that the certificate's format has may be used.
        """
        return {}

    def as_listed(self, query: dict[str, Any]) -> dict[str, Any]:
        """Return a certificate's line about a query, rewritten in the words and units of the extension."""
        return query

    def model_names(self, entries: Sequence[Entry]) -> dict[str, str]:
        """Return the names of models, by the SHA-256 of their predictions. The base class knows no names."""
        return {}

    def hidden(self, answer: Mapping[str, Any]) -> frozenset[str]:
        """Return the names of the fields of an answer that the transcript leaves empty."""
        return frozenset()

    def last_step_lasts(self) -> bool:
        """Return whether `before_unsealing` may take minutes, so that a caller should not wait for it."""
        return False

    def before_unsealing(self) -> None:
        """Do the extension's last step before the study is unsealed, such as asking silent queries."""


def accessor_named(name: str) -> type[HoldoutAccessor] | None:
    """Return the accessor class of an extension by its name, or None if there is none.

    Raises:
        ExtensionError: If the extension cannot be loaded.
    """
    if name not in EXTENSIONS:
        return None
    place = EXTENSIONS[name].accessor
    module, _, attribute = place.partition(":")
    found: type[HoldoutAccessor] | None = getattr(import_module(module), attribute) if place else None
    return found


def accessors() -> Iterator[tuple[str, type[HoldoutAccessor]]]:
    """Yield the names and the accessor classes of all installed extensions."""
    for name in EXTENSIONS:
        if (accessor := accessor_named(name)) is not None:
            yield name, accessor


def accessors_of(
    executor: QueryExecutor, folder: Path, recorded: Mapping[str, Any], names: Iterable[str]
) -> list[HoldoutAccessor]:
    """Create the accessors of a holdout's extensions. Extensions that the holdout was created with come first.

    Args:
        executor: Executor of the open holdout.
        folder: The private folder of its rows.
        recorded: Recorded settings by the extension's name.
        names: Names of the extensions that have a state in the ledger.

    Raises:
        ExtensionError: If an extension that the holdout was created with is not installed.
    """
    made = []
    for name in dict.fromkeys([*recorded, *names]):
        accessor = accessor_named(name)
        if accessor is not None:
            made.append(accessor(executor, folder, recorded.get(name)))
        elif name in recorded:
            known = extra_for(EXTENSIONS.group, name)
            remedy = f"Install it: pip install 'everhold[{known}]'." if known else "Install its distribution."
            raise ExtensionError(
                f"The holdout was created with {name}=..., an extension that is not installed. {remedy}"
            )
    return made
