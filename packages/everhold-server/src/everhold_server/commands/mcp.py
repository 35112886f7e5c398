"""The command that serves agents: mcp."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from everhold.cli.arguments import STORAGE_VARIABLE, AnalystOption, opened_here, storage_of, with_option_groups
from everhold.cli.failures import Misuse, arguments_checked
from everhold.cli.output import note
from everhold.errors import EverholdError

if TYPE_CHECKING:
    from everhold.queries.predictions.arrays import PredictionTable
    from everhold.values.base import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Options for serving over HTTP."""

    panel: ClassVar[str] = "Over HTTP"

    http: Annotated[bool, "Serve many clients at once, at http://HOST:PORT/mcp."] = False
    host: Annotated[str, "Address to listen at."] = "127.0.0.1"
    port: Annotated[int, "Port to listen at."] = 8000
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:PORT",
            help="What clients call this machine. Needed if it listens at another address than its own.",
        ),
    ] = None


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(with_option_groups(mcp))


def mcp(
    *,
    storage: Annotated[
        str | None, typer.Option(metavar="STORAGE", help=f"A path or URL ({STORAGE_VARIABLE} by default).")
    ] = None,
    holdout: Annotated[str, typer.Option(metavar="NAME", help="The holdout's name.")],
    analyst: AnalystOption = None,
    predictions_folder: Annotated[
        Path | None,
        "Agents may have files of predictions read from this folder, and from no other.",
    ] = None,
    over_http: HttpOptions,
) -> None:
    r"""Serve a holdout to agents, by the Model Context Protocol.

    Examples:
      everhold mcp --storage flights.db --holdout flights --analyst night-agent
      everhold mcp --storage flights.db --holdout flights --http --port 8000

    Tools: describe, quote, ask, challenge, status, certificate. By default one
    client is served on stdin and stdout; that is what clients start by themselves:
      {"mcpServers": {"everhold": {"command": "everhold", "args": ["mcp",
        "--storage", "/data/flights.db", "--holdout", "flights"]}}}

    With --analyst, the agent spends no more than was allotted: 'everhold allot'.
    A server may be stopped at any moment: an answer is in the ledger before it
    is told, and the same query again is free. Who reaches the server may ask;
    over HTTP it asks for no password, so it listens to this machine only.
    An agent that can read the files of the storage can read the rows: let the
    server run as another user.

    Exit codes:
      0  the client left, or the server was stopped
      1  the package mcp is missing
      2  wrong usage, or the port is taken
      4  no such holdout
      5  there is no such analyst
      7  the rows or the ledger were altered
      8  the steward's key is missing or wrong
    """
    try:
        import everhold_server.mcp as serving
    except ModuleNotFoundError as missing:
        raise EverholdError(str(missing)) from None
    predictions = None if predictions_folder is None else serving.PredictionsFolder(_folder(predictions_folder), _read)
    with opened_here(storage_of(storage), holdout, analyst) as found:
        server = serving.make_server(found, predictions=predictions)
        if not over_http.http:
            serving.serve_stdio(server)
            return
        with arguments_checked():
            host, port = over_http.host, over_http.port
            said = f"serving {holdout!r} at http://{host}:{port}/mcp (stop with Ctrl+C)"
            serving.serve_http(
                server, host=host, port=port, allowed_hosts=over_http.allow_host or (), started=partial(note, said)
            )


def _folder(path: Path) -> Path:
    if not path.is_dir() or not os.access(path, os.R_OK | os.X_OK):
        raise Misuse(f"There is no folder {str(path)!r} that can be read. Pass a folder for files of predictions.")
    return path.resolve()


def _read(path: Path, schema: Schema) -> PredictionTable:
    from everhold_server.untrusted.files import read_untrusted

    return read_untrusted(path, schema, name=path.name)  # an agent's file, and this process has the key
