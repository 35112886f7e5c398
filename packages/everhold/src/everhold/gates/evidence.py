"""The protocol of a gate's evidence: what its versions are compared on, rows or cases.

A gate, its challenges, verdicts and history are written once. Evidence says what a version hands in, how it is compared
with the stored champion, what is stored of a champion, and what a promotion replaces.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from everhold.asking.query_executor import QueryExecutor
    from everhold.gates.challenge import Challenge
    from everhold.gates.records import GateAccount
    from everhold.ledger import Head

__all__ = ["Evidence", "Opening", "Version"]


@dataclass(frozen=True, slots=True)
class Version:
    """A version that was handed in and checked.

    Attributes:
        digest: By which the ledger knows it.
        shown: As people read it.
        about: What a promise about it is about, in words; None for the population.
        name: Its name, such as a commit; None where it is known by what it is.
    """

    digest: str
    shown: str
    about: str | None
    name: str | None


Handed = TypeVar("Handed", bound=Version)


@dataclass(frozen=True, slots=True)
class Opening:
    """A gate that is to be opened.

    Attributes:
        account: The gate.
        shown: Its first champion, as people read it.
        look: Evaluates the champion where that is needed; returns the call that writes what is kept of it.
    """

    account: GateAccount
    shown: str
    look: Callable[[], Callable[[], None]]


@dataclass(frozen=True)
class Evidence(ABC, Generic[Handed]):
    """What the versions of one gate are compared on.

    Attributes:
        name: Name of the gate.
        executor: That of all sealed rows, for the steward or an analyst.
        folder: Their private folder.
    """

    name: str
    executor: QueryExecutor
    folder: Path

    about_cases: ClassVar[bool] = False

    @abstractmethod
    def over(self, executor: QueryExecutor) -> Self:
        """The same about the rows that are there now."""

    @property
    def size(self) -> str:
        """How much there is of it, in words; empty where the holdout says it."""
        return ""

    @abstractmethod
    def version(self, *given: Any, **more: Any) -> Handed:
        """A challenger as it is handed in to `Gate.challenge`.

        Raises:
            QueryRejected: If it cannot be compared. Nothing is charged.
        """

    def answering(self, head: Head) -> QueryExecutor:
        """The executor that answers a challenge, which public facts choose.

        Raises:
            QueryRejected: If none can. Nothing is charged.
        """
        return self.executor

    @abstractmethod
    def challenge(self, gate: GateAccount, version: Handed, head: Head, executor: QueryExecutor) -> Challenge:
        """The challenge of the champion that the gate has now.

        Args:
            gate: The gate.
            version: The challenger.
            head: The ledger as it was then.
            executor: That of `answering`.

        Raises:
            QueryRejected: If the champion is not complete, or the gate answers none now. Nothing is charged.
        """

    @abstractmethod
    def complete(self, *given: Any, **more: Any) -> None:
        """Add to the champion of a gate what it lacks; see `Gate.complete`."""

    @abstractmethod
    def facts(self, gate: GateAccount, head: Head) -> dict[str, Any]:
        """What `Gate.status` says besides the gate and what is left."""

    def discard(self) -> None:
        """Remove what was written of a challenger that is not the champion."""
