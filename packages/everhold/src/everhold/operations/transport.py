"""Transports: where a `Holdout` performs its operations, on this machine or in a service elsewhere."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from everhold.asking.session import HoldoutSession, current, with_present_rows
from everhold.operations.operation import HoldoutOperation, Role

if TYPE_CHECKING:
    from everhold.values.base import Schema

Result = TypeVar("Result")


class Transport(Protocol):
    """A way to perform operations on a holdout, on this machine or in a service."""

    @property
    def session(self) -> HoldoutSession | None:
        """Session of the open holdout, or None if a service has the rows."""

    @property
    def name(self) -> str:
        """The holdout's name."""

    @property
    def schema(self) -> Schema:
        """Public facts about the rows."""

    def perform(self, operation: HoldoutOperation[Result]) -> Result:
        """Perform an operation."""

    def gate(self, metric: Any, *, champion: Any, name: str, **terms: Any) -> Any:
        """Open a gate, see `everhold.Holdout.gate`."""

    def accessor(self, name: str) -> Any:
        """What an extension adds to a holdout under its name; None if nothing does."""

    def close(self) -> None:
        """Close the connections that are open."""


class LocalTransport:
    """Performs operations on a session of this machine.

    Args:
        session: The open session.
    """

    def __init__(self, session: HoldoutSession) -> None:
        self.session: HoldoutSession = session

    def __repr__(self) -> str:
        executor = self.session.executor
        asking = "" if executor.analyst is None else f", analyst={executor.analyst!r}"
        return f"{self.name!r}, rows={self.schema.rows}, mechanism={executor.mechanism.name!r}{asking}"

    @property
    def name(self) -> str:
        """The holdout's name."""
        return self.session.executor.record.name

    @property
    def schema(self) -> Schema:
        """Public facts about the rows."""
        return self.session.executor.schema

    def perform(self, operation: HoldoutOperation[Result]) -> Result:
        """Perform an operation, as the steward or on behalf of an analyst.

        Raises:
            QueryRejected: If it is an act of the steward, and an analyst asks for it.
        """
        if operation.role is not Role.STEWARD or not operation.act:
            return with_present_rows(self.session, partial(operation.perform, self.session))
        self.session.executor.check_steward(operation.act)
        return operation.perform(self.session)

    def gate(self, metric: Any, *, champion: Any, name: str, **terms: Any) -> Any:
        """Open a gate, see `everhold.Holdout.gate`."""
        from everhold.operations.gates import open_gate

        return current(open_gate)(self.session, name, metric, champion=champion, **terms)

    def accessor(self, name: str) -> Any:
        """What an extension adds to a holdout under its name; None if nothing does."""
        return self.session.accessor(name)

    def close(self) -> None:
        """Close the database and the engine."""
        self.session.executor.close()
