"""The service: sealed holdouts, asked over HTTP and in a browser by people, pipelines and agents.

The rows, the steward's key and the ledger stay in one process. Only what a `Holdout` answers leaves that process. Needs
the extra ``service``; the client, the PostgreSQL ledger and the MCP server are modules of this package that do not need
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everhold_server.application import make_app
    from everhold_server.settings import Settings

__all__ = ["Settings", "make_app"]


def __getattr__(name: str) -> Any:
    """Import the application on first use, so that the client works without the packages of the server."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from everhold_server.application import make_app
        from everhold_server.settings import Settings
    except ModuleNotFoundError as missing:
        if str(missing.name).startswith("everhold"):
            raise
        raise ModuleNotFoundError(
            f"The service needs the package {missing.name}. Install it: pip install 'everhold[service]'.",
            name=missing.name,
        ) from None
    globals().update(Settings=Settings, make_app=make_app)
    return globals()[name]
