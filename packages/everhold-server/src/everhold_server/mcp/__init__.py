"""A Model Context Protocol server: an agent asks a sealed holdout, and can neither read it nor overfit to it.

`make_server` makes the server for an open holdout, on the official SDK; the command ``everhold mcp`` runs it. Needs the
extra ``everhold[mcp]``.
"""

from __future__ import annotations

try:
    import mcp as _sdk
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "The server for agents needs the package mcp. Install it: pip install 'everhold[mcp]'.", name="mcp"
    ) from None

from everhold_server.mcp.candidates import PredictionsFolder
from everhold_server.mcp.server import make_server, serve_http, serve_stdio

del _sdk

__all__ = ["PredictionsFolder", "make_server", "serve_http", "serve_stdio"]
