"""Ask from elsewhere: a holdout behind a service, with the methods and results of one on this machine.

    >>> import everhold as eh
    >>> with eh.connect("https://holdout.example", "flights", token="eh_...") as holdout:  # doctest: +SKIP
    ...     print(holdout.ask("arr_delay > 15"))

Queries travel as text and numbers, never as code (`everhold_server.wire`); predictions travel as tables. Errors are
those that the same call raises on this machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold_server.client_gates import RemoteCaseGate, RemoteGate, RemoteOpenChallenge
from everhold_server.client_parts import RemoteCompetition, RemoteFamilies, plain_families
from everhold_server.remote_holdout import RemoteHoldout
from everhold_server.wire.connection import Connection
from everhold_server.wire.row_files import row_files

if TYPE_CHECKING:
    import httpx

    from everhold.sealing.intake.reading import RowSource

__all__ = [
    "RemoteCaseGate", "RemoteCompetition", "RemoteFamilies", "RemoteGate", "RemoteHoldout", "RemoteOpenChallenge",
    "connect", "create", "holdouts",
]  # fmt: skip


def connect(
    address: str | None = None, name: str = "holdout", *, token: str | None = None, insecure: bool = False,
    timeout: float = 300.0, transport: httpx.BaseTransport | None = None,
) -> RemoteHoldout:  # fmt: skip
    """A holdout of a service elsewhere, with ``everhold serve``.

    Args:
        address: Such as ``"https://holdout.example"``; by default the environment variable ``EVERHOLD_URL``.
        name: Of the holdout.
        token: Such as ``"eh_..."``, from the steward; by default the environment variable ``EVERHOLD_TOKEN``, which is
            sent to the service of ``EVERHOLD_URL`` only, if that is set. It says on whose behalf is asked, and is sent
            to this address alone, never shown and never pickled.
        insecure: Send the token without TLS to another machine than this one; also ``EVERHOLD_INSECURE=1``.
        timeout: Seconds to wait for a response. A query that got none is asked again, which is free.
        transport: How httpx sends requests; for tests.

    Raises:
        HoldoutNotFound: If there is no such holdout for this token.
        AuthError: If the token is not valid, or would travel in the clear.
        EverholdError: If the service cannot be reached.
        ValueError: If it is no address.
        ModuleNotFoundError: If the extra ``client`` is not installed.
    """
    connection = Connection(address, token=token, insecure=insecure, timeout=timeout, transport=transport)
    try:
        return RemoteHoldout(connection, name)
    except BaseException:
        connection.close()
        raise


def holdouts(connection: Connection) -> list[dict[str, Any]]:
    """The holdouts of a service that a token may see, each in public facts."""
    found: list[dict[str, Any]] = connection.get("/holdouts")["holdouts"]
    return found


def create(
    connection: Connection, name: str, *, holdout: RowSource, training: RowSource | None = None, **settings: Any
) -> RemoteHoldout:
    """Seal rows in a service; for stewards.

    Args:
        connection: To the service.
        name: Of the holdout.
        holdout: The rows to seal, as for `Holdout.create`. A file stays where it is: put it away.
        training: Open rows.
        settings: As for `Holdout.create`; those that are None are left out. An API knows them by their flat names.

    Raises:
        HoldoutRejected: If the rows cannot be sealed. Nothing was created.
    """
    from everhold.sealing.intake.settings import flat_settings

    document = {key: value for key, value in flat_settings(settings).items() if value is not None}
    if hasattr(document.get("dependence"), "to_dict"):
        document["dependence"] = document["dependence"].to_dict()
    if document.get("declared") is not None:
        document["declared"] = plain_families(document["declared"])
    with row_files(holdout=holdout, training=training) as files:
        connection.send("POST", "/holdouts", {"name": name, **document}, files, named="settings")
    return RemoteHoldout(connection, name)
