"""Ledger extensions: state of a feature that travels with the ledger, under the same seal as the mechanism's.

A distribution adds one by an entry point of the group `everhold.ledger`::

    [project.entry-points."everhold.ledger"]
    notes = "my_package.notes:Notes"

Its state is a field of the sealed state in the ledger's head, and can be computed again from the entries. An extension
reads two kinds of entries: its *acts*, which are not queries, and answers to queries. The kind of an act is in its
description and is also the source of its answer. If a ledger has no state of an extension, the extension is never
imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

from everhold.errors import ExtensionError, IntegrityError
from everhold.extensions import Registry

if TYPE_CHECKING:
    from pathlib import Path

    from everhold.ledger.chain import HoldoutRecord


@runtime_checkable
class LedgerExtension(Protocol):
    """Protocol of a feature's state in the ledger. Inherit from it in a class without required arguments.

    Attributes:
        name: Name of the entry point. It is also the accessor on the holdout, the keyword of `Holdout.create` and the
            field of its settings.
        key: Field of the sealed state.
        acts: Sources of the extension's ledger entries that are not queries.
        answers: Sources of answers that only this extension gives.
        free: Those of `answers` that take nothing from the budget, and are also given after the study was unsealed.
        accessor: Class of `holdout.<name>`, a `HoldoutAccessor`, as ``"module:attribute"``; empty for none.
    """

    name: ClassVar[str]
    key: ClassVar[str]
    acts: ClassVar[frozenset[str]]
    answers: ClassVar[frozenset[str]] = frozenset()
    free: ClassVar[frozenset[str]] = frozenset()
    accessor: ClassVar[str] = ""

    @classmethod
    def read(cls, stored: Any) -> Self:
        """Build the state from the data that `stored` returned.

        Raises:
            ValueError: If `stored` never returns such data. It may be a TypeError or KeyError as well.
        """

    def stored(self) -> Any:
        """Return the state as plain JSON data, or None if it is empty."""

    @property
    def entries(self) -> int:
        """Number of ledger entries that are acts of the extension."""

    def replay(self, description: Mapping[str, Any], source: object) -> None:
        """Apply one of the extension's acts, a ledger entry that is not a query, to the state.

        Raises:
            ValueError: If everhold never writes such an entry.
        """

    def settle(self, description: Mapping[str, Any], source: object, charged: int) -> None:
        """Update the state with the answer to a query. Most answers change nothing.

        Raises:
            ValueError: If everhold never writes such an entry.
        """

    def knows_arrivals(self, configuration: Mapping[str, Any]) -> bool:
        """Return whether a holdout with these settings may use the extension after rows arrive."""
        return False

    def keeps_out(self) -> str:
        """Return a text that says what must end before rows can arrive. Empty if rows can arrive now."""
        return ""

    def file_findings(
        self, record: HoldoutRecord, folder: Path, seal_key: bytes, arrivals: Sequence[Mapping[str, Any]]
    ) -> Iterator[str]:
        """Yield a text for each fault of the files that the extension stores beside the sealed rows.

        Args:
            record: Record of the holdout.
            folder: Private folder of the holdout.
            seal_key: The steward's key.
            arrivals: Descriptions of the arrivals of rows.
        """
        yield from ()

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Read the extension's part of a sealed state.

        Raises:
            IntegrityError: If it is not in the form in which everhold writes it.
        """
        stored = state.get(cls.key)
        if stored is None:
            return cls()
        try:
            found = cls.read(stored)
            sound = bool(found.stored() == stored)
        except (AttributeError, KeyError, TypeError, ValueError):
            sound = False
        if not sound:
            raise IntegrityError(
                f"The ledger's record of {cls.key} was altered or is damaged. Run "
                "'everhold ledger verify' and restore a backup."
            )
        return found

    def into(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return a sealed state with this extension's part included."""
        stored = self.stored()
        return dict(state) if stored is None else {**state, self.key: stored}

    def agree_with(self, state: Mapping[str, Any]) -> bool:
        """Return whether a sealed state contains exactly this extension's state."""
        return bool(state.get(self.key) == self.stored())


_CORE_KEYS = frozenset({"configuration", "mechanism", "allotments"})
_CORE_SOURCES = frozenset(
    ["allotment", "recovery", "unsealing", "training", "guess", "holdout", "refused", "standing", "silent", "chosen"]
)
_MEMBERS = (
    "name", "key", "acts", "answers", "free", "accessor", "read", "stored", "entries", "replay", "settle",
    "knows_arrivals", "keeps_out", "file_findings",
)  # fmt: skip


def broken_contract(name: str, thing: Any) -> str:
    """Return a text about what a class lacks to be a ledger extension, empty if it lacks nothing."""
    missing = [member for member in _MEMBERS if not hasattr(thing, member)]
    if missing:
        return f"it has no {', '.join(missing)}. Inherit from everhold.ledger.extension.LedgerExtension."
    if thing.name != name:
        return f"its name is {thing.name!r}. Name the entry point like it."
    if thing.key in _CORE_KEYS or (thing.acts | thing.answers) & _CORE_SOURCES:
        return "its key or one of its sources is the core's. Choose another one."
    if not thing.free <= thing.answers:
        return "an answer is free that is none of its answers. Name it in both."
    return ""


EXTENSIONS: Registry[type[LedgerExtension]] = Registry(
    "everhold.ledger",
    {
        "gates": "everhold.gates.records:Gates",
        "declared": "everhold.ledger.acts:Declarations",
        "open_challenges": "everhold.gates.records:OpenChallenges",
        "arrivals": "everhold.ledger.acts:Arrivals",
    },
    broken_contract,
)
"""All ledger extensions by name."""


@cache
def extension_of_key(key: str) -> type[LedgerExtension] | None:
    """Return the extension with this key in the sealed state, or None if no installed extension has it."""
    if key in _CORE_KEYS:
        return None
    return next((each for each in _distinct() if each.key == key), None)


@cache
def extension_of_source(source: str) -> type[LedgerExtension] | None:
    """Return the extension whose acts or answers have this source, or None if no installed extension has."""
    if source in _CORE_SOURCES:
        return None
    return next((each for each in _distinct() if source in each.acts | each.answers), None)


def _distinct() -> Iterator[type[LedgerExtension]]:
    """Yield all extensions, after a check that no two use the same state key or source.

    Each extension is imported when it is its turn.

    Raises:
        ExtensionError: If two extensions have the same state key, or the same act or answer.
    """
    before: list[type[LedgerExtension]] = []
    for name in EXTENSIONS:
        extension = EXTENSIONS[name]
        for other in before:
            both = (other.acts | other.answers) & (extension.acts | extension.answers)
            if other.key == extension.key or both:
                raise ExtensionError(
                    f"The ledger extensions {other.name!r} and {name!r} keep the same field or source. Uninstall the "
                    "distribution of one of them."
                )
        before.append(extension)
        yield extension
