"""What an operator decides about a service."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator decides about a service.

    Attributes:
        storage: URL of the storage.
        address: Under which it is reached from outside, without a path, such as ``"https://holdout.example"``.
        most_bytes: Of the body of a request; more is refused before it is read.
        internal_webhooks: Whether webhooks may go to addresses of the inner network, and by http to this machine.
    """

    storage: str
    address: str = "http://127.0.0.1:8000"
    most_bytes: int = 2**30
    internal_webhooks: bool = False

    @property
    def secure(self) -> bool:
        """Whether it is reached by TLS, so that cookies are for TLS alone."""
        return self.address.startswith("https://")
