"""A service on small holdouts in this process, with a token for every principal."""

import csv
import io
import json
from contextlib import contextmanager

import holdout_samples as samples
import numpy as np
from app_samples import ADDRESS, bearing
from fastapi.testclient import TestClient
from sealed_copies import copied_into

from everhold import Holdout
from everhold.errors import warnings_collected
from everhold.ledger import LedgerStore
from everhold_server import Settings, make_app
from everhold_server.principals import Role

STEWARD, ADA, BOB, EVE = "steward:root", "analyst:ada", "analyst:bob", "viewer:eve"
API = "/api/v1"
STUDY = f"{API}/holdouts/study"
IDS = [f"r{number:04d}" for number in range(samples.ROWS)]


def rows(seed=0, *, ids=False):
    """Rows of the samples, on request with ids, which no training row shares."""
    named = {"id": [f"{'r' if seed == 0 else 't'}{number:04d}" for number in range(samples.ROWS)]} if ids else {}
    return {**named, **samples.rows(seed)}


def storage(folder, database="study.db"):
    return f"sqlite:///{folder}/{database}"


def seal(folder, name="study", **wanted):
    """A holdout with parts for two analysts; the first of a folder is a copy of what other tests have."""
    if any(folder.iterdir()):
        _seal(folder, name, **wanted)
    else:
        copied_into(folder, lambda template: _seal(template, name, **wanted), name, wanted)


def _seal(folder, name, *, ids=False, allot=("ada", "bob"), **wanted):
    own = {"holdout": rows(0, ids=ids), "training": rows(1, ids=ids), "row_id": "id" if ids else None}
    with samples.create(folder, name, **{**own, **wanted}) as made, warnings_collected():
        for analyst in allot:
            made.allot(analyst, queries=20, charges=1)


def opened(folder, name="study"):
    return Holdout.open(storage(folder), name)


@contextmanager
def serving(folder, database="study.db", **settings):
    """A function from a principal, such as `ADA` or ``"analyst:ada:study"``, to their client.

    All clients share the event loop of the service, as requests of one process do: locks of two loops wait for ever.
    """
    app = make_app(Settings(storage(folder, database), address=ADDRESS, answers_wait_for=0.0, **settings))
    with TestClient(app, ADDRESS, raise_server_exceptions=False) as running:

        def http_client(who=None):
            client = TestClient(app, ADDRESS, raise_server_exceptions=False)
            client.portal = running.portal
            if who is not None:
                role, name, *scope = who.split(":")
                made = app.state.token_store.make(Role(role), name, holdouts=scope or None, by="test")
                client.headers.update(bearing(made.secret))
            return client

        http_client.app = app
        yield http_client


def head(folder, name="study"):
    """Where the ledger stands: what costs nothing leaves it alone."""
    with LedgerStore.open(storage(folder)) as store:
        return store.head(store.record(name).id).entry_hash


def left_behind(folder):
    """What uploads left on the disk."""
    return list(folder.glob("*.uploads/*"))


def as_csv(columns):
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(np.asarray(values, dtype=object).tolist() for values in columns.values()), strict=True))
    return written.getvalue().encode()


def form(document, *, part="request", **files):
    """A multipart form with a JSON document and files, whose names want to be somewhere else."""
    parts = {name: ("../../etc/passwd", content) for name, content in files.items()}
    return {"data": {part: json.dumps(document)}, "files": parts}
