"""Eight clients ask two servers against a cap while servers are killed and PostgreSQL is restarted: nothing is lost.

`EVERHOLD_ASKS` says how often each client asks: 40 times in the suite, 500 in the study that docs/guides/operate.md
tells of.
"""

import os
import random
from functools import partial

import anyio
import numpy as np
import pytest
from postgres_cluster import running_cluster
from scipy.stats import norm
from server_processes import discrepancies, serving
from service_processes import Asker, play

from everhold import Holdout
from everhold.ledger import LedgerStore
from everhold_server.principals import Role
from everhold_server.tables import Records
from everhold_server.token_store import TokenStore

CLIENTS, SURPRISES = 8, 6
ASKS = int(os.environ.get("EVERHOLD_ASKS", "40"))
EVERY = 1.0  # seconds
PART = ASKS * 2 // 5
"""New queries that a client may ask: fewer than it does."""


def asked(column, above, guess=None):
    """A share of a normal law, with a guess that holds unless another one is given."""
    return {"query": f"{column} > {above}", "guess": float(norm.sf(above)) if guess is None else guess}


def queries(client):
    """Some that nobody else asks and some that all do, a few with a wrong guess, in an order of its own."""
    half = ASKS // 2
    own = [asked("x", client / 4 + k / 10_000) for k in range(half)]
    shared = [asked("z", k / (2 * ASKS), 0.99 if k < SURPRISES else None) for k in range(half)]
    return random.Random(client).sample(own + shared, 2 * half)


@pytest.fixture
def sqlite_storage(tmp_path):
    return f"sqlite:///{tmp_path}/s.db", []


@pytest.fixture
def postgres_storage(tmp_path, postgres_installed):
    with running_cluster(durable=True) as cluster:
        yield cluster.url(cluster.new_database(), rows=tmp_path / "rows"), [cluster.restart, cluster.restart]


def sealed(storage):
    """A holdout with an allotment that ends before the queries do, and a token, for each client."""
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(size=4_000), "z": rng.normal(size=4_000)}
    with Holdout.create(
        storage, "flights", holdout=rows, queries=CLIENTS * ASKS, surprises=SURPRISES + 2, mechanism="guess_and_check",
    ) as holdout:  # fmt: skip
        for client in range(CLIENTS):
            holdout.allot(f"client {client}", queries=PART, charges=SURPRISES)
    with LedgerStore.open(storage, create=False) as store:
        token_store = TokenStore(Records(store.database))
        return [token_store.make(Role.ANALYST, f"client {client}", by="test").secret for client in range(CLIENTS)]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["sqlite_storage", "postgres_storage"])
@pytest.mark.filterwarnings("ignore::everhold.EverholdWarning")  # charges add up to more than there are
def test_nothing_is_lost_or_charged_twice_and_the_cap_holds(where, tmp_path, request):
    storage, faults = request.getfixturevalue(where)
    tokens = sealed(storage)
    with serving(tmp_path, ["serve", "--storage", storage, "--requests-a-minute", "0"], 2) as servers:
        urls = [server.url for server in servers]
        askers = [
            Asker(urls[client % 2 :] + urls[: client % 2], tokens[client], queries(client))
            for client in range(CLIENTS)
        ]  # fmt: skip
        kills = anyio.run(partial(play, servers, askers, every=EVERY, also=faults, within=30 + 2 * CLIENTS * ASKS))
        assert all("Traceback" not in server.log for server in servers)
    with Holdout.open(storage, "flights") as holdout:
        holdout.certificate()  # raises if the chain of entries was broken
        entries, status, parts = holdout.transcript().to_rows(), holdout.status(), holdout.allotments().to_rows()
    assert kills >= 2
    assert not faults  # PostgreSQL was restarted
    assert [len(asker.heard) for asker in askers] == [len(asker.queries) for asker in askers]
    refused = {answer["query"] for asker in askers for answer in asker.heard if answer["source"] == "refused"}
    assert refused  # the cap was reached
    for asker in askers:
        asker.heard = [answer for answer in asker.heard if answer["source"] != "refused"]
    assert [fault for fault in discrepancies(askers, entries) if "first answer never arrived" not in fault] == []
    assert len(entries) == status["queries_asked"] == sum(part["asked"] for part in parts)
    assert [part["asked"] for part in parts] == [PART] * CLIENTS
    assert status["charged"] == sum(entry["charged"] for entry in entries) <= SURPRISES
    assert {status for asker in askers for status in asker.failures} <= {500, 503}
