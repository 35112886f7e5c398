"""The service: one sealed holdout or many, asked over HTTP and in a browser by people, pipelines and agents.

The rows, the steward's key and the ledger stay in one process that nobody reaches into; what leaves it is what a
`Holdout` answers, and nothing else. Needs the extra ``service``.
"""

from __future__ import annotations

try:
    import fastapi  # noqa: F401
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "the service needs the package FastAPI; expected it to be installed; pip install 'everhold[service]'"
    ) from missing

from everhold.service.application import make_app
from everhold.service.settings import Settings

__all__ = ["Settings", "make_app"]
