"""Ledger extensions: state of a feature that travels with the ledger, under the same seal as the mechanism's.

A distribution adds one by an entry point of the group `everhold.ledger`::

    [project.entry-points."everhold.ledger"]
    notes = "my_package.notes:Notes"

Its state is a field of the sealed state in the ledger's head, and follows from the entries alone. There are two kinds
of entries that an extension takes: its *acts*, which are no queries, and answers to queries that it counts. An act has
its kind in the description and the same word as the source of its answer. A ledger without such a state never imports
the extension.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

from everhold.errors import ExtensionError, IntegrityError
from everhold.extensions import Registry

if TYPE_CHECKING:
    from pathlib import Path

    from everhold.ledger.records import HoldoutRecord


@runtime_checkable
class LedgerExtension(Protocol):
    """State of one feature at one moment; a class without required arguments that is inherited from this one.

    Attributes:
        name: That of the entry point: accessor on the holdout, keyword of `Holdout.create` and field of its settings.
        key: Field of the sealed state.
        acts: Sources of its entries that are no queries.
        answers: Sources of answers to queries that only it gives.
        free: Those of them that take nothing from the budget, and are given after the study was unsealed, too.
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
        """The inverse of `stored`.

        Raises:
            ValueError: Or TypeError or KeyError, if `stored` never returns such a thing.
        """

    def stored(self) -> Any:
        """The state as plain JSON data; None if there is nothing to keep."""

    @property
    def entries(self) -> int:
        """Number of entries of the ledger that are its acts."""

    def replay(self, description: Mapping[str, Any], source: object) -> None:
        """Take one of its acts.

        Raises:
            ValueError: If no such entry is ever written here, in words.
        """

    def settle(self, description: Mapping[str, Any], source: object, charged: int) -> None:
        """Take the answer to a query; most are none of its matters.

        Raises:
            ValueError: If no such entry is ever written here, in words.
        """

    def knows_arrivals(self, configuration: Mapping[str, Any]) -> bool:
        """True if it goes on where rows arrive, in a holdout with these settings."""
        return False

    def keeps_out(self) -> str:
        """Why no rows can arrive now, with what has to end first; empty where they can."""
        return ""

    def file_findings(
        self, record: HoldoutRecord, folder: Path, seal_key: bytes, arrivals: Sequence[Mapping[str, Any]]
    ) -> Iterator[str]:
        """What is wrong with files that it keeps beside the sealed rows, in words.

        Args:
            record: The holdout.
            folder: Its private folder.
            seal_key: The steward's key.
            arrivals: Descriptions of the arrivals of rows.
        """
        yield from ()

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The state that a sealed state carries.

        Raises:
            IntegrityError: If it is not what everhold writes.
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
                f"the {cls.key} in the ledger's head are not what everhold wrote; expected an unaltered ledger; "
                "nothing was charged; verify the ledger"
            )
        return found

    def into(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """A sealed state with this one in it; unchanged if there is nothing to keep."""
        stored = self.stored()
        return dict(state) if stored is None else {**state, self.key: stored}

    def agree_with(self, state: Mapping[str, Any]) -> bool:
        """True if a sealed state carries exactly this one."""
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
    """Faults of an extension of that name; empty if there are none."""
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
    """Extension that keeps a field of the sealed state; None if none of those installed does."""
    if key in _CORE_KEYS:
        return None
    return next((each for each in _distinct() if each.key == key), None)


@cache
def extension_of_source(source: str) -> type[LedgerExtension] | None:
    """Extension of whose entries this is the source; None if it is that of none of those installed."""
    if source in _CORE_SOURCES:
        return None
    return next((each for each in _distinct() if source in each.acts | each.answers), None)


def _distinct() -> Iterator[type[LedgerExtension]]:
    """All extensions, the core's first; no other one is imported before it is needed.

    Raises:
        ExtensionError: If two of them keep the same field or have the same act.
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
