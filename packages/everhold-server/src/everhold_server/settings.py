"""Settings of a service, decided by its operator."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from everhold_server.mcp.server import LOOPBACK
from everhold_server.sign_in import OpenIDSignIn, ProxySignIn


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a service, decided by its operator.

    Attributes:
        storage: URL of the storage; it may hold a password, and is not shown.
        address: Under which it is reached from outside, without a path, such as ``"https://holdout.example"``.
        other_hosts: Further names, with a port if there is one, that requests may be meant for.
        most_bytes: Of a body in parts, which goes to disk; more is refused while it is read.
        most_bytes_in_memory: Of any other body.
        patience: Seconds for which a body may stand still, and after which it has to have come at `slowest` on average.
        slowest: Bytes a second.
        requests_a_minute: Of one token; 0 for as many as it likes. So many may come at once.
        strangers_a_minute: The same for each client address that comes without a token or session.
        failures_a_minute: Wrong tokens from one client address, until the sender is told to come later.
        sealings_an_hour: Of one token, whether or not they succeed; 0 for as many as it likes.
        answers_wait_for: Seconds; answers of unsafe methods leave at a multiple of this, counted from their request, so
            that the time which they took tells less. 0 for at once.
        open_metrics: Whether `/metrics` is told to this machine without a token. Not behind a proxy on this machine,
            through which everybody comes from here.
        sign_in: How people come in with an account of their organisation; None for tokens and links alone.
    """

    storage: str = field(repr=False)
    address: str = "http://127.0.0.1:8000"
    other_hosts: tuple[str, ...] = ()
    most_bytes: int = 2**30
    most_bytes_in_memory: int = 2**22
    patience: float = 30.0
    slowest: int = 10_000
    requests_a_minute: int = 6_000
    strangers_a_minute: int = 600
    failures_a_minute: int = 20
    sealings_an_hour: int = 20
    answers_wait_for: float = 0.01
    open_metrics: bool = False
    sign_in: OpenIDSignIn | ProxySignIn | None = None

    @property
    def secure(self) -> bool:
        """True if the service is reached by TLS, so that its cookies are sent over TLS alone."""
        return self.address.startswith("https://")

    @property
    def hosts(self) -> frozenset[str]:
        """Allowed values of the header Host, including all loopback names if the address is local."""
        parts = urlsplit(self.address)
        port = f":{parts.port}" if parts.port else ""
        own = [f"[{name}]{port}" if ":" in name else f"{name}{port}" for name in LOOPBACK]
        here = parts.hostname in LOOPBACK
        return frozenset(name.lower() for name in (parts.netloc, *self.other_hosts, *(own if here else ())))

    @property
    def host_names(self) -> frozenset[str]:
        """Names in `hosts` without ports, IPv6 addresses in brackets."""
        return frozenset(re.sub(r":\d+$", "", host) for host in self.hosts)

    @property
    def origins(self) -> frozenset[str]:
        """Allowed values of the header Origin, for the service's own pages."""
        scheme = urlsplit(self.address).scheme
        return frozenset(f"{scheme}://{host}" for host in self.hosts)
