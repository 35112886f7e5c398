"""A service on a small holdout, and principals of every role."""

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
from sealed_copies import copied_into
from starlette.testclient import TestClient

from everhold.holdout import Holdout
from everhold_server import Settings, make_app
from everhold_server.principals import Role

ADDRESS = "http://127.0.0.1:8000"
SECRET = "ZEBRA77"
"""Stands in one cell of the sealed rows, and nowhere else."""


class Clock:
    """A time that tests move on."""

    def __init__(self):
        self.time = datetime(2026, 1, 31, 12, tzinfo=UTC)

    def __call__(self):
        return self.time

    def later(self, **how_much):
        self.time += timedelta(**how_much)


def seal(folder, *names):
    """Holdouts in the storage of a new folder; returns its path."""
    copied_into(folder, lambda template: _seal(template, names), names)
    return folder / "s.db"


def _seal(folder, names):
    for number, name in enumerate(names):
        rng = np.random.default_rng(number)
        kind = rng.choice(np.array(["a", "b"]), 2_000).astype(object)
        kind[17] = SECRET
        rows = {"delay": rng.normal(5.0, 30.0, 2_000), "kind": kind}
        Holdout.create(
            folder / "s.db", name, holdout=rows, queries=100, surprises=5, mechanism="guess_and_check"
        ).close()  # fmt: skip


def make(storage, **wanted):
    """The app of a storage, which answers at once, with a clock that tests move on."""
    settings = Settings(storage=str(storage), address=ADDRESS)
    app = make_app(replace(settings, **{"answers_wait_for": 0.0, **wanted}))
    app.state.token_store.records.clock = Clock()
    return app


def token(app, role=Role.STEWARD, name="grace", **wanted):
    """The text of a new token."""
    return app.state.token_store.make(role, name, by="test", **wanted).secret


def bearing(text):
    """The header of a program with this token."""
    return {"authorization": f"Bearer {text}"}


@contextmanager
def http_client(app, text=None, *, address=ADDRESS):
    """A client at the service's own address: with a token, or as a browser that nobody knows yet."""
    client = TestClient(
        app, base_url=address, headers={} if text is None else bearing(text), follow_redirects=False,
        raise_server_exceptions=True,
    )  # fmt: skip
    with client:
        yield client


def log_in(client, text):
    """Log a browser in by a token; returns the token against forged requests."""
    from everhold_server.sessions import cookie_name, csrf_of

    assert client.post("/login", data={"token": text}).status_code == 303
    return csrf_of(client.cookies[cookie_name(client.app.state.settings)])
