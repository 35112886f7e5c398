"""A service in this process, and visitors of every role: a header says who they are."""

import csv
import io
import json
from contextlib import contextmanager

import holdout_samples as samples
import numpy as np
from fastapi.testclient import TestClient

from everhold import Groups, Holdout
from everhold.errors import AuthError, warnings_collected
from everhold.service import Settings, make_app, visitors
from everhold.service.visitors import Role, Visitor

ADDRESS = "http://127.0.0.1:8000"
STEWARD, ADA, BOB, EVE = "steward:root", "analyst:ada", "analyst:bob", "viewer:eve"
IDS = [f"r{number:04d}" for number in range(samples.ROWS)]


def rows(seed=0, *, ids=False):
    """Rows of the samples, on request with ids, which no training row shares."""
    named = {"id": [f"{'r' if seed == 0 else 't'}{number:04d}" for number in range(samples.ROWS)]} if ids else {}
    return {**named, **samples.rows(seed)}


def storage(folder):
    return f"sqlite:///{folder}/study.db"


def seal(folder, name="study", *, ids=False, allot=("ada", "bob"), **wish):
    """A holdout with parts for two analysts."""
    wish = {"row_id": "id" if ids else None, **wish}
    own = {"holdout": rows(0, ids=ids), "training": rows(1, ids=ids)}
    with samples.create(folder, name, **{**own, **wish}) as made, warnings_collected():
        for analyst in allot:
            made.allot(analyst, questions=20, charges=1)


def opened(folder, name="study"):
    return Holdout.open(storage(folder), name)


def known(request):
    """Who the header says it is; in place of tokens, which have tests of their own."""
    said = request.headers.get("x-visitor")
    if said is None:
        raise AuthError("nobody is logged in; nothing was charged")
    role, name, *scope = said.split(":")
    return Visitor(Role(role), name, frozenset(scope) if scope else None)


@contextmanager
def serving(folder, monkeypatch, **settings):
    """A function from a visitor to their client, for the service of the storage in a folder."""
    monkeypatch.setattr(visitors, "known_visitor", known)
    app = make_app(Settings(storage(folder), address=ADDRESS, **settings))
    with TestClient(app, ADDRESS, raise_server_exceptions=False) as client:

        def visiting(who):
            client.headers["x-visitor"] = who
            return client

        yield visiting


def head(folder, name="study"):
    """Where the ledger stands: what costs nothing leaves it alone."""
    with opened(folder, name) as holdout:
        return holdout.status()["ledger_head"]


def as_csv(columns):
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(np.asarray(values, dtype=object).tolist() for values in columns.values()), strict=True))
    return written.getvalue().encode()


def form(document, **files):
    """A multipart form with a JSON document and files."""
    parts = {name: (f"../{name}\0.csv", content) for name, content in files.items()}
    return {"data": {"request": json.dumps(document)}, "files": parts}


def grouped():
    return Groups("household")
