"""Remote storages, which an installed distribution opens by the scheme of their address, such as https.

A distribution adds a scheme by an entry point of the group ``everhold.storage`` that names a `RemoteStorage`, such as a
module with these functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from everhold.errors import ExtensionError
from everhold.extensions import Registry

if TYPE_CHECKING:
    from pathlib import Path

ADDRESS_VARIABLE = "EVERHOLD_URL"
"""Environment variable: the address that is used where none is given."""


class RemoteStorage(Protocol):
    """Protocol of a storage on another machine, which has the holdouts."""

    def connect(self, address: str, name: str) -> Any:
        """Open the `Holdout` with this name. Its operations are performed by the service at the address."""

    def create(self, address: str, name: str, *, holdout: Path, training: Path | None, **settings: Any) -> Any:
        """Seal rows of files at the address, and open the new `Holdout`. Takes the settings of `Holdout.create`."""

    def holdouts(self, address: str) -> list[dict[str, Any]]:
        """List the public facts of each holdout that the caller may see at the address."""


def _check(_: str, storage: Any) -> str:
    """Return a text about the function that an extension's storage lacks, or an empty text."""
    lacking = [name for name in ("connect", "create", "holdouts") if not callable(getattr(storage, name, None))]
    return f"it has no function {lacking[0]}" if lacking else ""


_STORAGES: Registry[RemoteStorage] = Registry("everhold.storage", {}, _check)


def is_address(text: object) -> bool:
    """Return whether a text is the address of a service, and not a storage on this machine.

    Examples:
        >>> is_address("https://holdout.example"), is_address("sqlite:///flights.db")
        (True, False)
    """
    return isinstance(text, str) and text.lower().startswith(("http://", "https://"))


def remote_storage(address: str) -> RemoteStorage:
    """Open the storage at an address.

    Raises:
        ExtensionError: If no installed distribution opens addresses of its scheme. The message says which extra of
            everhold does.
    """
    scheme = address.partition(":")[0].lower()
    try:
        return _STORAGES[scheme]
    except KeyError:
        raise ExtensionError(
            f"Addresses of the kind {scheme}:// cannot be opened here. {_STORAGES.missing(scheme)}"
        ) from None
