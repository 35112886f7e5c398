"""A team chooses its final file; a deadline and rules; disjoint intervals are never tied; names in place of hashes."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from contest_samples import ROWS, TRUTH, address, findings, model, teams_of

import everhold as eh
from everhold.errors import QueryRejected
from everhold_competitions.leaderboard import Comparison
from everhold_competitions.ranking import _both


def contest(folder, label=TRUTH, **wanted):
    rows = {"x": np.arange(ROWS) * 0.5, "y": label}
    competition = eh.Competition(**{"teams": 4, "submissions": 3, **wanted})
    return eh.Holdout.create(
        address(folder), "contest", holdout=rows, label="y", rows=eh.Rows(features="public"), competition=competition
    )


def test_a_team_chooses_an_earlier_submission(tmp_path):
    with contest(tmp_path) as holdout:
        files = [model(right, seed) for seed, right in enumerate((0.9, 0.6, 0.5))]
        for file in files:
            holdout.competition.submit(file, team="owls")
        holdout.competition.submit(model(0.75, 9), team="larks")
        holdout.competition.choose(team="owls", number=1)
        holdout.competition.choose(team="owls", number=1)  # it is final already
        owls = teams_of(holdout)["owls"]
        assert (owls.received, owls.chosen, owls.final) == (3, 1, holdout.competition.submissions()[0]["predictions"])
        finals = [(row["team"], row["number"]) for row in holdout.competition.submissions() if row["final"]]
        assert finals == [("owls", 1), ("larks", 1)]
        with pytest.raises(QueryRejected, match="all of its 3 submissions"):
            holdout.competition.submit(model(0.9, 5), team="owls")
        holdout.unseal()
        board = holdout.competition.leaderboard()
        assert board["owls"].score == pytest.approx(np.mean(files[0] == TRUTH))
        assert (board["owls"].rank, board["larks"].rank) == (1, 2)
        assert findings(holdout) == []
        with pytest.raises(QueryRejected, match="over"):
            holdout.competition.choose(team="owls", number=2)
        asked = [row["asked"] for row in holdout.transcript().rows]
        assert "accuracy of submission 1 of owls" in asked


@pytest.mark.parametrize("number", [0, 2, None, "1", 1.5])
def test_a_number_that_names_no_submission_changes_nothing(tmp_path, number):
    with contest(tmp_path) as holdout:
        holdout.competition.submit(model(0.9, 1), team="owls")
        for team in ("owls", "wrens"):
            with pytest.raises(QueryRejected, match="has no submission"):
                holdout.competition.choose(team=team, number=number)
        assert teams_of(holdout)["owls"].chosen == 0


class Later(datetime):
    """The clock of two hours later."""

    @classmethod
    def now(cls, zone=None):
        return datetime.now(zone) + timedelta(hours=2)


def test_nothing_is_received_after_the_deadline_and_rules_are_shown(tmp_path, monkeypatch):
    rules, end = "Any model.\n<b>No</b> labels.", (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    with contest(tmp_path, deadline=end, rules=rules) as holdout:
        monkeypatch.setattr("everhold_competitions.session.datetime", Later)
        with pytest.raises(QueryRejected, match="deadline"):
            holdout.competition.submit(model(0.9, 1), team="owls")
        board = holdout.competition.leaderboard()
        assert board.to_dict()["rules"] == rules
        assert "&lt;b&gt;No&lt;/b&gt;" in board.to_html()
        assert json.loads(json.dumps(holdout.status()["competition"]))["deadline"] == board.deadline
    with eh.Holdout.open(address(tmp_path), "contest") as again:
        assert again.competition.leaderboard().rules == rules


@pytest.mark.parametrize(
    "wanted", [{"deadline": "tomorrow"}, {"deadline": "2026-12-01"}, {"deadline": 5}, {"rules": ""}]
)
def test_deadlines_and_rules_that_cannot_be_meant(wanted):
    with pytest.raises(ValueError, match=r"deadline is|rules is"):
        eh.Competition(**wanted)


def test_squared_losses_are_told_apart_without_training_rows(tmp_path):
    rng = np.random.default_rng(3)
    label, shared = rng.normal(50, 20, (2, ROWS))
    with contest(tmp_path, label, metric={"loss": "squared", "high": 2_500}) as holdout:
        for team, error in (("owls", 8.0), ("larks", 9.5), ("wrens", 9.6)):
            noise = 0.7 * shared / 20 + 0.7 * rng.normal(size=ROWS)
            holdout.competition.submit(label + error * noise, team=team)
        holdout.unseal()
        board = holdout.competition.leaderboard()
        assert (board["owls"].rank, board["larks"].rank, board["wrens"].rank) == (1, 2, 2)
        assert findings(holdout) == []


def test_teams_whose_intervals_do_not_meet_are_never_tied():
    paired, apart = Comparison("a", "b", -4.0, -9.0, 1.0, None), Comparison("a", "b", -4.0, -6.0, -2.0, "a")
    both = _both(paired, apart)
    assert (both.better, both.low, both.high) == ("a", -6.0, -2.0)
    contradicting = Comparison("a", "b", 4.0, 2.0, 6.0, "b")
    assert _both(contradicting, apart) is contradicting
