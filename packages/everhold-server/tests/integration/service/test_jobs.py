"""The end of a competition of many teams is a job: the same request is answered when it is done, or says why not."""

import time

import numpy as np
import pytest
import sqlalchemy as sa
from service_samples import STEWARD, opened, serving, storage

import everhold as eh
from everhold.ledger import LedgerStore, schema
from everhold.operations.accounts import Unseal
from everhold.sealing.storage import storage_url
from everhold_server.jobs import _Lease
from everhold_server.tables import Records

UNSEAL, PAGE = "/api/v1/holdouts/contest/unseal", "/holdouts/contest/unseal"
TEAMS = 12


@pytest.fixture
def contest(tmp_path):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 200)
    with eh.Holdout.create(
        storage(tmp_path), "contest", label="y", holdout={"x": rng.normal(size=200), "y": labels},
        rows=eh.Rows(features="public"), competition=eh.Competition(teams=TEAMS, submissions=2),
    ) as made:  # fmt: skip
        for team in range(TEAMS):
            made.competition.submit(rng.integers(0, 2, 200), team=f"team {team}")
    return tmp_path


def until_done(client):
    """The answer to the same request again and again, and what was said meanwhile."""
    said = []
    while (response := client.post(UNSEAL, json={"confirm": "contest"})).status_code == 202:
        said.append(response)
        time.sleep(0.2)
        assert len(said) < 300
    return response, said


def test_the_end_is_told_once_the_job_is_done_and_no_request_waits_for_it(contest):
    with serving(contest) as http_client:
        steward = http_client(STEWARD)
        response, said = until_done(steward)
        assert response.status_code == 200
        assert len(response.json()["rows"]) == TEAMS + TEAMS * (TEAMS - 1) // 2
        assert {each.json()["job"]["id"] for each in said} == {said[0].json()["job"]["id"]}
        assert said[0].headers["Retry-After"] == "1"
        (job,) = http_client.app.state.jobs.of("contest")
        assert (job.what, job.fault, job.ended is None) == ("done", "", False)
        board = steward.get("/api/v1/holdouts/contest/leaderboard").json()
        assert [board["final"], len(board["standings"])] == [True, TEAMS]


def test_why_a_job_failed_is_said_once_and_the_next_request_begins_another(contest):
    lost = next(contest.glob("*.rows/*/submission*"))
    kept = lost.read_bytes()
    lost.unlink()
    with serving(contest) as http_client:
        response, _ = until_done(http_client(STEWARD))
        assert response.status_code == 409
        assert "submission" in response.json()["detail"]
        lost.write_bytes(kept)
        assert until_done(http_client(STEWARD))[0].status_code == 200
    with opened(contest, "contest") as holdout:
        assert holdout.status()["closed"]


def test_a_process_that_ends_again_and_again_without_coming_further_is_given_up(contest, monkeypatch):
    monkeypatch.setattr("everhold_server.jobs._MOST_TRIES", 0)
    with serving(contest) as http_client:
        jobs = http_client.app.state.jobs
        with opened(contest, "contest") as holdout:
            jobs.stop()
            job = jobs.begin(Unseal(confirm="contest"), holdout, by="host")
        assert _Lease(jobs.records, job.id, "one").taken() is None
        assert "0 times" in jobs.of("contest")[0].fault


@pytest.fixture(params=["sqlite", "postgresql"])
def records(request, tmp_path):
    address = storage(tmp_path) if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with LedgerStore.open(storage_url(address)) as store:
        yield Records(store.database)


def test_a_lease_is_had_once_however_far_the_clocks_of_two_servers_differ(records, monkeypatch):
    row = {
        "id": "one", "holdout": "contest", "verb": "unseal", "arguments": "{}", "by": "host", "made": "", "worker": "",
        "until": 0, "tries": 0, "what": "waiting", "done": 0, "total": None, "ended": None, "fault": "",
    }  # fmt: skip
    with records.writing() as connection:
        connection.execute(sa.insert(schema.jobs), row)
    first, second = _Lease(records, "one", "first"), _Lease(records, "one", "second")
    assert first.taken() is not None
    monkeypatch.setattr("time.time", lambda: 4e9)  # of the second server, years ahead
    assert second.taken() is None
    with records.reading() as connection:
        (until,) = connection.scalars(sa.select(schema.jobs.c.until))
    assert 1.7e12 < until < 4e12  # milliseconds
