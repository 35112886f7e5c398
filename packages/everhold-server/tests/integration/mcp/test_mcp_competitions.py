"""Tools of a competition: its board for everybody, and the host's acts for stewards alone."""

import numpy as np
import pytest
from app_samples import bearing, http_client, make, token
from mcp_samples import asked, call, calling

from everhold import Competition, Holdout, Rows
from everhold.sealing.intake.request import Planning
from everhold_server.principals import Role

IDS = np.arange(400)
TRUTH = np.random.default_rng(3).integers(0, 2, 400)
DEADLINE = "2036-12-08T12:00:00+00:00"


@pytest.fixture
def contest(tmp_path):
    """A competition by accuracy in which two teams submitted."""
    with Holdout.create(
        tmp_path / "s.db", "cup", holdout={"id": IDS, "y": TRUTH}, label="y", rows=Rows(row_id="id", features="public"),
        competition=Competition(teams=4, submissions=3), planning=Planning(allow_vacuous=True),
    ) as held:  # fmt: skip
        for team in ("owls", "larks"):
            held.competition.submit({"id": IDS, "prediction": TRUTH}, team=team)
        held.allot("owls", queries=2, charges=0)
        yield held


def tools(client):
    """The tools that a client is told of, by name."""
    return {tool["name"]: tool for tool in asked(client, "cup").json()["result"]["tools"]}


def told(client, name, *, headers=(), **arguments):
    """The result of a call that is answered."""
    result = asked(client, "cup", calling(name, **arguments), **dict(headers)).json()["result"]
    assert not result.get("isError"), result
    return result["structuredContent"]


@pytest.mark.usefixtures("contest")
def test_a_steward_registers_disqualifies_moves_the_deadline_and_sees_all_teams(tmp_path):
    app = make(tmp_path / "s.db")
    hugo = bearing(token(app, name="hugo"))
    with http_client(app, token(app, name="grace")) as client:
        hints = {name: tool["annotations"] for name, tool in tools(client).items()}
        assert [*hints] == [
            "status", "certificate", "leaderboard", "teams", "disqualify", "move_deadline", "register_teams",
        ]  # fmt: skip
        assert [name for name in hints if hints[name]["readOnlyHint"]] == [*hints][:4]
        assert [name for name in hints if hints[name]["destructiveHint"]] == [*hints][4:]
        (made,) = told(client, "register_teams", teams=["wrens"])["result"]["teams"]
        assert "everybody may read" in tools(client)["disqualify"]["inputSchema"]["properties"]["reason"]["description"]
        rows = told(client, "disqualify", team="larks", reason="two accounts", headers=hugo)["result"]["rows"]
        assert [row["disqualified"] for row in rows] == [None, "two accounts"]
        told(client, "move_deadline", deadline=DEADLINE, headers=hugo)
        assert told(client, "leaderboard")["result"]["disqualified"] == {"larks": "two accounts"}
        assert told(client, "status")["facts"]["competition"]["deadline"] == DEADLINE
        acts = [(each["act"], each["name"], each["facts"]) for each in client.get("/api/v1/audit").json()["acts"]]
    assert ("register teams", "grace", {"of": [made["id"]], "teams": 1}) in acts
    assert ("disqualify a team", "hugo", {"team": "larks"}) in acts
    assert ("move the deadline", "hugo", {"deadline": DEADLINE}) in acts
    assert made["token"] not in str(acts)
    with http_client(app, made["token"]) as wrens:
        listed = wrens.get("/api/v1/holdouts/cup/submissions")
    assert (listed.status_code, listed.json()["submissions"]) == (200, [])


def test_a_team_has_the_board_and_none_of_the_hosts_tools(contest, tmp_path):
    app = make(tmp_path / "s.db")
    with http_client(app, token(app, Role.ANALYST, "owls")) as client:
        assert [*tools(client)] == ["status", "certificate", "leaderboard"]
        for name in ("teams", "disqualify", "move_deadline", "register_teams", "ask"):
            refused = asked(client, "cup", calling(name)).json()["result"]
            assert refused["isError"]
            assert f"There is no tool '{name}'" in refused["content"][0]["text"]
    assert contest.competition.teams().rows[1]["disqualified"] is None


def test_a_refused_act_says_why_and_changes_nothing(contest):
    wrong = [
        ("disqualify", {"team": "gulls", "reason": "none"}, "No team named 'gulls' has submitted."),
        ("disqualify", {"team": "owls", "reason": " "}, "Give one line of at most 1,000 characters."),
        ("move_deadline", {"deadline": "2020-01-01T00:00:00+00:00"}, "has passed. Pass a later time."),
        ("move_deadline", {"deadline": "tomorrow"}, "Pass a time with its offset from UTC"),
        ("register_teams", {"teams": ["wrens"]}, "There is no tool 'register_teams'"),  # a service has tokens
    ]
    before = contest.status()
    for (_, _, said), result in zip(wrong, call(contest, *((name, given) for name, given, _ in wrong)), strict=True):
        assert result.is_error
        assert said in result.content[0].text
    assert contest.status() == before
