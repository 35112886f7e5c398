"""A team's wrong guesses, and its changes of leader, spend its own share of the surprises and no other team's."""

import numpy as np
import pytest
from contest_samples import TRUTH, contest, findings, model, teams_of

import everhold as eh
from everhold.ledger.acts import Accounts
from everhold.mechanisms.guess_and_check import GuessAccounting
from everhold.sealing.rows.table import StoredRows
from everhold_competitions.competition import Competition
from everhold_competitions.teams import SUBMISSION, TOLD_OF, Submissions, TeamLimited

A = "a" * 64


def hostile(holdout, *, team="wrong", count=20, first=100):
    """A team whose every guess is far off."""
    return [holdout.competition.submit(model(0.5, first + seed), team=team, guess=0.99) for seed in range(count)]


def test_a_team_of_wrong_guesses_silences_itself_alone(tmp_path):
    with contest(tmp_path, feedback="score", surprises=8) as holdout:
        told = hostile(holdout)
        assert [each.refused for each in told] == [False, False] + [True] * 18  # 8 surprises, 4 teams
        assert [each.surprises_left for each in told[:3]] == [1, 0, 0]
        assert "what is left to this team" in str(told[-1])
        for number, team in enumerate(("owls", "larks", "wrens")):
            answer = holdout.competition.submit(model(0.8, number), team=team, guess=0.8).answer
            assert answer.low < 0.8 < answer.high
            assert hostile(holdout, team=team, count=1, first=200 + number)[0].answer.source == "holdout"
        assert (holdout.status()["charged"], teams_of(holdout)["wrong"].charged) == (5, 2)
        assert findings(holdout) == []
        holdout.unseal()
        for team, seed in (("wrong", 119), ("owls", 200), ("larks", 201), ("wrens", 202)):
            line = holdout.competition.leaderboard()[team]
            assert line.score == pytest.approx(np.mean(model(0.5, seed) == TRUTH))
            assert line.low < 0.5 < line.high


def test_without_the_share_one_team_widens_the_intervals_of_all(tmp_path, monkeypatch):
    """The protection removed."""
    widths = []
    for protected in (True, False):
        if not protected:
            monkeypatch.setattr(
                TeamLimited,
                "capacity",
                lambda self, state, accounts, count: self.ready.capacity(state, accounts, count),
            )
        (folder := tmp_path / str(protected)).mkdir()
        with contest(folder, feedback="score", surprises=8) as holdout:
            hostile(holdout)
            answer = holdout.competition.submit(model(0.8, 1), team="owls", guess=0.8).answer
            widths.append(answer.high - answer.low)
    assert widths[1] > 1.25 * widths[0]


def test_a_team_that_climbs_in_small_steps_leaves_half_of_the_leads_to_others(tmp_path):
    with contest(tmp_path, feedback="leader", surprises=4) as holdout:
        holdout.competition.submit(model(0.5, 0), team="base")
        steps = [holdout.competition.submit(model(right, 7), team="climbers") for right in (0.6, 0.68, 0.76, 0.84)]
        assert [(each.leads, each.refused) for each in steps[:2]] == [(True, False)] * 2
        assert all(each.refused and not each.leads for each in steps[2:])
        assert holdout.competition.submit(model(0.9, 8), team="owls").leads
        assert findings(holdout) == []


def test_a_spent_share_is_refused_before_anybody_looks_and_costs_nothing(tmp_path, monkeypatch):
    with contest(tmp_path, feedback="score", surprises_per_team=1) as holdout:
        hostile(holdout, count=1)
        before = holdout.remaining
        for name in ("evaluate", "row_values", "totals", "table", "summary"):
            monkeypatch.setattr(StoredRows, name, lambda *_, **__: pytest.fail("sealed rows were evaluated"))
        assert hostile(holdout, count=3)[-1].refused
        assert holdout.remaining == before


def test_a_team_that_spent_its_share_needs_no_guess_and_one_that_gets_more_has_its_last_feedback(tmp_path):
    with contest(tmp_path, feedback="score", surprises_per_team=1) as holdout:
        submit = holdout.competition.submit
        assert submit(model(0.8, 1), team="wrong", guess=0.5).answer.source == "holdout"
        assert all(submit(model(0.8, seed), team="wrong").refused for seed in (2, 3, 4))
        again = submit(model(0.8, 1), team="wrong")  # a repeat is still told
        assert (again.number, again.refused, again.answer.source) == (5, False, "holdout")
        assert submit(model(0.8, 5), team="wrong").refused
        holdout.allot("wrong", queries=20, charges=3)
        told = submit(model(0.8, 6), team="wrong")
        assert (told.refused, told.answer.source) == (False, "guess")
        holdout.allot("owls", queries=20, charges=0)
        assert submit(model(0.8, 7), team="owls").refused  # it was told nothing, and never will be
        with pytest.raises(eh.QueryRejected, match="needs a guess"):
            submit(model(0.8, 8), team="larks")
        assert findings(holdout) == []


def test_a_team_that_was_never_told_anything_needs_no_guess_once_the_budget_of_all_is_spent(tmp_path, monkeypatch):
    with contest(tmp_path, feedback="score") as holdout:
        with pytest.raises(eh.QueryRejected, match="needs a guess"):
            holdout.competition.submit(model(0.8, 1), team="larks")
        monkeypatch.setattr(GuessAccounting, "leaves_capacity", lambda *_, **__: False)
        assert holdout.competition.submit(model(0.5, 2), team="owls", guess=0.5).refused
        received = holdout.competition.submit(model(0.8, 1), team="larks")
        assert (received.refused, received.number, received.answer) == (True, 1, None)


def test_the_steward_sets_the_share_and_an_allotment_replaces_it(tmp_path):
    with contest(tmp_path, feedback="score", surprises_per_team=1) as holdout:
        assert holdout.status()["competition"]["surprises_per_team"] == 1
        hostile(holdout, count=1)
        holdout.allot("wrong", queries=20, charges=3)
        assert not holdout.competition.submit(model(0.5, 300), team="wrong", guess=0.99).refused
        assert holdout.competition.check(model(0.5, 301), team="wrong").surprises_left == 2
        assert findings(holdout) == []


@pytest.mark.parametrize(
    ("wanted", "fault"),
    [
        ({"feedback": "none", "surprises_per_team": 1}, "feedback='none' tells them nothing"),
        ({"feedback": "score", "surprises_per_team": 0}, "surprises_per_team is 0"),
        ({"feedback": "score", "surprises_per_team": 1.5}, "surprises_per_team is 1.5"),
        ({"feedback": "score", "surprises_per_team": True}, "surprises_per_team is True"),
    ],
)
def test_a_share_that_is_none_is_refused(wanted, fault):
    with pytest.raises(ValueError, match=fault):
        Competition(**wanted)


def test_what_a_team_was_told_is_replayed_and_anything_else_is_found_out():
    accounts = Accounts()
    described = {"team": "owls", "predictions": A, "final": True}
    assert accounts.replay(described, {"source": SUBMISSION}, 0) is None
    told_of = {TOLD_OF: {"team": "owls", "predictions": A}}
    assert accounts.replay(told_of, {"source": "holdout"}, 1) is None
    assert accounts.of(Submissions).teams["owls"].charged == 1
    state = accounts.into({})
    assert Submissions.from_state(state) == accounts.of(Submissions)
    assert accounts.agree_with(state)
    forged = {TOLD_OF: {"team": "larks", "predictions": A}}
    assert "without a receipt" in accounts.replay(forged, {"source": "holdout"}, 1)
    for wrong in ("owls", {"team": "owls"}, {"team": "owls", "predictions": "a"}, {"team": [], "predictions": A}):
        assert "without a receipt" in accounts.replay({TOLD_OF: wrong}, {"source": "guess"}, 0)
    for team in (["owls", A, A, 1], ["owls", A, A, 1, 0], ["owls", A, A, 1, -1, 0]):
        with pytest.raises(eh.IntegrityError):
            Submissions.from_state({"submissions": {"teams": [team], "closed": False}})
