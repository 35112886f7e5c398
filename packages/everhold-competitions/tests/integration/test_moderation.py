"""What the host does while a competition runs: moves the deadline, disqualifies a team, and sees who used what."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import everhold as eh
from everhold.errors import HoldoutRejected, QueryRejected

ROWS = 300
LATER = (datetime.now(UTC) + timedelta(days=9)).isoformat(timespec="seconds")
PAST = "2020-01-01T00:00:00+00:00"


def predictions(seed):
    return np.random.default_rng(seed).integers(0, 2, ROWS)


@pytest.fixture
def contest(tmp_path):
    rng = np.random.default_rng(0)
    with eh.Holdout.create(
        f"sqlite:///{tmp_path}/contest.db", "contest", label="y", rows=eh.Rows(features="public"),
        holdout={"x": rng.normal(size=ROWS), "y": rng.integers(0, 2, ROWS)},
        competition=eh.Competition(teams=4, submissions=3, deadline=LATER),
    ) as holdout:  # fmt: skip
        for team in ("owls", "larks", "wrens"):
            holdout.competition.submit(predictions(len(team)), team=team)
        yield holdout


def test_a_disqualified_team_submits_nothing_more_and_the_board_says_why(contest, tmp_path):
    competition = contest.competition
    competition.disqualify(team="owls", reason="two accounts of one person")
    competition.disqualify(team="owls", reason="again")  # changes nothing
    with pytest.raises(QueryRejected, match="two accounts"):
        competition.submit(predictions(9), team="owls")
    with pytest.raises(QueryRejected, match="disqualified"):
        competition.choose(team="owls", number=1)
    contest.unseal()
    board = competition.leaderboard()
    assert board.disqualified == {"owls": "two accounts of one person"}
    assert {row.team for row in board.standings} == {"larks", "wrens"}
    assert len(board.comparisons) == 1
    assert "two accounts" in board.to_html()
    assert "two accounts" in str(board)
    with pytest.raises(QueryRejected, match="over"):
        competition.disqualify(team="larks", reason="too late")
    contest.certificate().save(tmp_path / "certificate.html")
    assert eh.verify_certificate(tmp_path / "certificate.html").ok


def test_acts_of_the_host_are_in_the_chain_and_follow_from_it(contest, tmp_path, everhold):
    competition = contest.competition
    competition.disqualify(team="owls", reason="two accounts of one person")
    competition.move_deadline("2031-01-01T12:00:00+01:00")
    assert (
        competition.leaderboard().deadline == contest.status()["competition"]["deadline"] == "2031-01-01T11:00:00+00:00"
    )
    assert everhold("ledger", "verify", f"{tmp_path}/contest.db", "contest").exit_code == 0
    with eh.Holdout.open(f"sqlite:///{tmp_path}/contest.db", "contest") as again:
        assert again.competition.leaderboard().deadline == "2031-01-01T11:00:00+00:00"
        (owls,) = [row for row in again.competition.teams().to_rows() if row["disqualified"]]
        assert (owls["team"], owls["submissions"], owls["left"]) == ("owls", 1, 2)


def test_a_deadline_is_never_past(contest, tmp_path):
    with pytest.raises(QueryRejected, match="Pass a later time"):
        contest.competition.move_deadline(PAST)
    with pytest.raises(ValueError, match="offset"):
        contest.competition.move_deadline("2031-01-01")
    assert contest.competition.leaderboard().deadline == contest.competition._competition.deadline
    with pytest.raises(HoldoutRejected, match="Pass a later time"):
        eh.Holdout.create(
            f"sqlite:///{tmp_path}/other.db", "other", label="y", rows=eh.Rows(features="public"),
            holdout={"x": np.arange(9.0), "y": np.arange(9) % 2}, competition=eh.Competition(deadline=PAST),
        )  # fmt: skip


def test_an_analyst_and_a_team_that_is_not_there(contest):
    contest.allot("larks", queries=2)
    own = contest.analyst("larks").competition
    for act in (lambda: own.disqualify(team="owls", reason="rivals"), lambda: own.move_deadline(LATER)):
        with pytest.raises(QueryRejected, match="Only the steward"):
            act()
    with pytest.raises(QueryRejected, match="No team named"):
        contest.competition.disqualify(team="crows", reason="never seen")
    with pytest.raises(ValueError, match="one line"):
        contest.competition.disqualify(team="owls", reason="")
    assert [row["disqualified"] for row in contest.competition.teams().to_rows()] == [None] * 3


def test_the_command_line_has_the_same_acts(contest, tmp_path, everhold):
    place = [f"{tmp_path}/contest.db", "contest"]
    told = [
        everhold("disqualify", *place, "owls", "--reason", "two accounts of one person"),
        everhold("move-deadline", *place, "2031-01-01T12:00:00+00:00"), everhold("teams", *place, "--format", "json"),
    ]  # fmt: skip
    assert [said.exit_code for said in told] == [0, 0, 0]
    assert all("two accounts" in said.stdout for said in told)
