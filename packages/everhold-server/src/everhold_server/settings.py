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
        address: URL under which the service is reached from outside, without a path, such as
            ``"https://holdout.example"``.
        other_hosts: Additional host names that requests may be addressed to, with a port if there is one.
        most_bytes: Largest size, in bytes, of a body in parts, which is written to disk. A larger body is refused
            while it is read.
        most_bytes_in_memory: Largest size, in bytes, of any other body.
        patience: Seconds for which the client may send nothing. After these seconds the body must also have come at
            `slowest` on average.
        slowest: Least average rate of a body, in bytes per second.
        requests_a_minute: Largest number of requests of one token per minute, all of which may come at once. 0 means
            no limit.
        strangers_a_minute: Largest number of requests per minute from one client address without a token or session. 0
            means no limit.
        failures_a_minute: Number of wrong tokens from one client address per minute. Further ones are told to come
            later.
        sealings_an_hour: Largest number of sealings that one token may try per hour, whether or not they succeed. 0
            means no limit.
        answers_wait_for: Step in seconds. An answer of an unsafe method leaves at a multiple of this step, counted
            from its request, so that the time which it took tells less. 0 sends answers at once.
        open_metrics: Whether this machine may read `/metrics` without a token. Leave it False behind a proxy on this
            machine, because all requests then seem to come from this machine.
        sign_in: How people sign in with an account of their organisation. None permits tokens and links alone.
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
        """Whether the service is reached by TLS, so that its cookies are sent over TLS alone."""
        return self.address.startswith("https://")

    @property
    def hosts(self) -> frozenset[str]:
        """Allowed values of the header Host. If the service's address is local, they include all loopback names."""
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
