"""Runs the service as a process: where it listens, what it logs, and how it ends.

At SIGTERM or SIGINT the process takes no new connections, ends plans, finishes its other requests, and closes the
holdouts. Work that takes longer ends with the process, and nothing is lost: an answer is committed before it is sent.
Several processes may serve the same storage, because the database orders their writes.
"""

from __future__ import annotations

import gc
import ipaddress
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from everhold.arguments import brief
from everhold.ledger import LedgerStore
from everhold.sealing.storage import storage_url
from everhold_server.application import make_app
from everhold_server.audit import AuditLog
from everhold_server.logs import write_logs
from everhold_server.mcp.server import LOOPBACK, uvicorn_server
from everhold_server.mcp.server import listening as socket_at
from everhold_server.principals import Role
from everhold_server.registration import HERE
from everhold_server.settings import Settings
from everhold_server.sign_in import read_sign_in
from everhold_server.tables import Records
from everhold_server.token_store import TokenStore, said_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import uvicorn

    from everhold_server.planners import Planners

__all__ = [
    "HERE",
    "AuditLog",
    "Listening",
    "Role",
    "Settings",
    "check_reachable",
    "listen",
    "read_sign_in",
    "root_link",
    "said_of",
    "token_store_of",
]

_ROOT_DAYS = 0.5
_FINISH = 30  # seconds for requests that are under way
_POLL = 0.1
_LEAVE = 3.0  # seconds for threads that work for a client that is no longer there
_COLLECTED = 10_000, 20, 100  # objects until the youngest are looked through, and such times until older ones are
_MOST_AT_ONCE = 1_000  # connections; more are told to come again


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a process listens, and the proxies that it trusts.

    Attributes:
        port: Port to listen at. 0 chooses a free one.
        proxies: Addresses of the trusted proxies, which report a client's address.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    proxies: tuple[str, ...] = field(default=())


def check_reachable(settings: Settings, listening: Listening, *, plain: bool) -> None:
    """Check the service's address, and reject plain HTTP where tokens would travel unencrypted.

    Args:
        settings: Settings of the service, which include its public address.
        listening: Address on which the service is going to listen.
        plain: Whether the operator permits plain HTTP.

    Raises:
        ValueError: If other machines can reach the service without TLS, if the address is not a URL, or if a proxy is
            not an IP address.
    """
    parts = urlsplit(settings.address)
    if "@" in parts.netloc or parts.fragment:
        raise ValueError("The address has a user or a fragment. Pass a URL such as https://holdout.example.")
    for proxy in listening.proxies:
        try:
            ipaddress.ip_network(proxy, strict=False)
        except ValueError:
            raise ValueError(
                f"The trusted proxy {brief(proxy)} is no IP address. Pass one such as 127.0.0.1, or a network such as "
                "10.0.0.0/8."
            ) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError(
            f"The address {brief(settings.address)} cannot be used. Pass a URL without a "
            "path, such as https://holdout.example."
        )
    if plain or settings.secure or (listening.host in LOOPBACK and parts.hostname in LOOPBACK):
        return
    raise ValueError(
        f"{brief(listening.host)}, as {brief(settings.address)}, can be reached from other machines, and tokens and "
        "answers would travel unencrypted. Put a proxy with TLS in front and pass --address https://..., or pass "
        "--plain-http in a network where nobody listens."
    )


def listen(
    settings: Settings, listening: Listening, *, started: Callable[[str], None] = lambda _: None
) -> None:  # fmt: skip
    """Serve until the process receives a signal to stop.

    Raises:
        ValueError: If the address cannot be listened at.
    """
    with socket_at(listening.host, listening.port) as taken:
        app = make_app(settings)
        write_logs()
        gc.collect()
        gc.freeze()  # what lasts as long as the process is not looked through again and again
        gc.set_threshold(*_COLLECTED)
        server = uvicorn_server(
            app, lifespan="on", timeout_graceful_shutdown=_FINISH, limit_concurrency=_MOST_AT_ONCE,
            proxy_headers=bool(listening.proxies), forwarded_allow_ips=list(listening.proxies), ws="none",
        )  # fmt: skip
        started(settings.address)
        before = [signal.signal(number, _ended) for number in (signal.SIGTERM, signal.SIGINT)]
        others = {*threading.enumerate()}
        ending = threading.Thread(target=_end_plans, args=(server, app.state.planners), daemon=True)
        ending.start()
        try:
            server.run(sockets=[taken])
        finally:
            gc.unfreeze()
            server.should_exit = True
            for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
                signal.signal(number, handler)
        _leave(others)


def token_store_of(storage: str, *, create: bool = True) -> TokenStore:
    """Return the token store of a storage.

    Args:
        storage: Path or URL.
        create: Whether to create the store if it does not exist.

    Raises:
        HoldoutNotFound: If there is no store and ``create`` is False.
    """
    return TokenStore(Records(LedgerStore.open(storage_url(storage), create=create).database))


def root_link(settings: Settings, token_store: TokenStore) -> str:
    """Return a login link with the rights of a steward of all holdouts.

    Nobody is told the token's secret, so the link is the only way in. Its token is listed like any other, and can be
    revoked.
    """
    made = token_store.make(Role.STEWARD, "root", days=_ROOT_DAYS, by="everhold serve --root")
    return f"{settings.address.rstrip('/')}/login/{token_store.link(made.token.id)}"


def _end_plans(server: uvicorn.Server, planners: Planners) -> None:
    """Wait for the signal to stop, then stop all plans, which would delay the end of the server."""
    while not server.should_exit:
        time.sleep(_POLL)
    planners.stop()


def _leave(others: set[threading.Thread]) -> None:
    """End the process if threads, other than `others`, do not stop in time."""
    until = time.monotonic() + _LEAVE
    for thread in {*threading.enumerate()} - others:
        if not thread.daemon:
            thread.join(max(0.0, until - time.monotonic()))
    if any(thread.is_alive() and not thread.daemon for thread in {*threading.enumerate()} - others):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _ended(*_: object) -> None:
    """Ignore the signal that uvicorn raises again after its shutdown."""
