"""The end of a competition of many teams is a job: the same request is answered when it is done, or says why not."""

import time

import numpy as np
import pytest
from service_samples import STEWARD, opened, serving, storage

import everhold as eh

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
        from everhold.operations.accounts import Unseal
        from everhold_server.jobs import _Lease

        with opened(contest, "contest") as holdout:
            jobs.stop()
            job = jobs.begin(Unseal(confirm="contest"), holdout, by="host")
        assert _Lease(jobs.records, job.id, "one").taken() is None
        assert "0 times" in jobs.of("contest")[0].fault
