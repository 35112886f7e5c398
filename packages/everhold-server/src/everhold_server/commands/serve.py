"""The command that runs the service: serve."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from everhold.cli.arguments import STORAGE_VARIABLE, address_of, storage_of, with_option_groups
from everhold.cli.failures import arguments_checked
from everhold.cli.output import note

if TYPE_CHECKING:
    from types import ModuleType


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachOptions:
    """Addresses to listen at, and hosts and proxies that are allowed."""

    panel: ClassVar[str] = "Who reaches it"

    host: Annotated[str, "Address to listen at."] = "127.0.0.1"
    port: Annotated[int, "Port to listen at."] = 8000
    address: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="What it is called from outside, such as https://holdout.example (by default http://HOST:PORT).",
        ),
    ] = None
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME:PORT", help="Another name that it is called by.")
    ] = None
    trust_proxy: Annotated[
        list[str] | None, typer.Option(metavar="ADDRESS", help="A proxy that says where a request came from.")
    ] = None
    plain_http: Annotated[bool, "Let tokens and answers travel in the open, to other machines."] = False
    open_metrics: Annotated[bool, "Tell /metrics to this machine without a token."] = False
    sign_in: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False,
            help="TOML: how people sign in with an account, and what each group may do."
        ),
    ] = None  # fmt: skip

    def url(self) -> str:
        """Return the address at which clients reach the service."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return (self.address or f"http://{shown}:{self.port}").rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """Options for the limits of requests."""

    panel: ClassVar[str] = "Limits"

    most_megabytes: Annotated[int, typer.Option(min=1, help="Of an upload.")] = 1_024
    requests_a_minute: Annotated[int, typer.Option(min=0, help="Of one token (0 for as many as it likes).")] = 6_000


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(with_option_groups(serve))


def serve(
    *,
    storage: Annotated[
        str | None, typer.Option(metavar="STORAGE", help=f"A path or URL ({STORAGE_VARIABLE} by default).")
    ] = None,
    root: Annotated[bool, "Print a link that logs a steward in: once, within 15 minutes."] = False,
    reach: ReachOptions,
    limits: LimitOptions,
) -> None:
    r"""Serve a storage to people, programs and agents, over HTTP.

    Examples:
      everhold serve --storage flights.db --root
      everhold serve --storage flights.db --address https://holdout.example

    The rows, the key and the ledger stay in this process; what leaves it is what
    a holdout answers. Every visitor needs a token or a login:

      everhold token create flights.db reports --holdout flights --days 90

    prints a token, which programs send as 'Authorization: Bearer eh_...' and
    people paste at http://127.0.0.1:8000/login. With --root a link is printed
    that logs a steward in. The same storage may be served by several processes,
    and the other commands work beside it.

    It listens to this machine only. To let others in, put a proxy with TLS in
    front and say what it is called: --address https://...; cookies are then for
    TLS alone, and requests meant for another name are refused. A proxy on this
    machine is believed about client addresses with --trust-proxy 127.0.0.1.

    With --sign-in FILE people come with an account of their organisation instead
    of a token: by OpenID Connect, or by a proxy that has authenticated them. The
    file says what the members of each group may do:

      [oidc]
      issuer = "https://id.example"
      client_id = "everhold"
      client_secret_file = "/run/secrets/oidc"

      [[allow]]
      group = "data-science"
      role = "analyst"
      holdouts = ["flights"]

    Agents find their tools at /mcp/HOLDOUT, with the same tokens. /healthz and
    /readyz say how it is; /metrics needs a steward's token. Logs are lines of
    JSON on stderr, without anything that was sent or told. Ctrl+C and SIGTERM
    let it finish what is under way.

    Exit codes:
      0  it was stopped
      1  the packages of everhold\[service] are missing
      2  wrong usage, the port is taken, or others could listen in
      7  the ledger was altered
    """
    service = service_package()
    with arguments_checked():
        sign_in = None if reach.sign_in is None else service.read_sign_in(reach.sign_in)
    settings = service.Settings(
        storage=address_of(storage_of(storage)), address=reach.url(), other_hosts=tuple(reach.allow_host or ()),
        most_bytes=limits.most_megabytes * 2**20, requests_a_minute=limits.requests_a_minute,
        open_metrics=reach.open_metrics, sign_in=sign_in,
    )  # fmt: skip
    listening = service.Listening(reach.host, reach.port, tuple(reach.trust_proxy or ()))
    with arguments_checked():
        service.check_reachable(settings, listening, plain=reach.plain_http)

        def started(where: str) -> None:
            note(f"serving at {where} (stop with Ctrl+C)")
            if root:
                link = service.root_link(settings, service.token_store_of(settings.storage))
                sys.stdout.write(f"log in within 15 minutes: {link}\n")
                sys.stdout.flush()

        service.listen(settings, listening, started=started)


def service_package() -> ModuleType:
    """Import and return the server's package, which takes a while to load."""
    import everhold_server.serving

    return everhold_server.serving
