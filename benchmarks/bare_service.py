"""The peer of the service: a FastAPI endpoint that inserts one row durably and returns its number."""

from __future__ import annotations

import sqlite3
import sys
import threading
from typing import Annotated, Any

import uvicorn
from fastapi import Body, FastAPI


def make_app(path: str) -> FastAPI:
    """One table in an SQLite file, as durable as everhold's ledger."""
    app, connections = FastAPI(), threading.local()
    with sqlite3.connect(path) as first:
        first.execute("PRAGMA journal_mode = WAL")
        first.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, query TEXT)")

    def connection() -> sqlite3.Connection:
        if not hasattr(connections, "own"):
            connections.own = sqlite3.connect(path, timeout=60, isolation_level=None)
            connections.own.execute("PRAGMA synchronous = FULL")
        own: sqlite3.Connection = connections.own
        return own

    @app.post("/ask")
    def ask(query: Annotated[str, Body(embed=True)]) -> dict[str, Any]:
        return {"number": connection().execute("INSERT INTO rows (query) VALUES (?)", [query]).lastrowid}

    return app


if __name__ == "__main__":
    uvicorn.run(make_app(sys.argv[1]), port=int(sys.argv[2]), log_level="error", access_log=False)
