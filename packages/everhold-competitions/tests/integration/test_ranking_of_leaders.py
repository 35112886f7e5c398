"""Where leaders are told: the board changes when a better file is proved to lead, and no file is final for ever."""

import numpy as np
import pytest
from contest_samples import TRUTH, contest, findings, model


def places(holdout):
    return {line.team: line.rank for line in holdout.competition.leaderboard().standings}


def test_a_file_that_led_once_is_not_final_for_ever(tmp_path):
    """It used to stay a team's final one although the lead was lost and every later file was better."""
    with contest(tmp_path, feedback="leader") as holdout:
        assert holdout.competition.submit(model(0.55, 1), team="owls").leads  # the first one of all
        assert holdout.competition.submit(model(0.9, 2), team="larks").leads
        later = holdout.competition.submit(model(0.88, 3), team="owls")
        assert (later.leads, later.final) == (False, True)
        holdout.unseal()
        board = holdout.competition.leaderboard()
        assert board["owls"].score == pytest.approx(np.mean(model(0.88, 3) == TRUTH))
        assert board["owls"].rank == board["larks"].rank == 1  # these rows cannot tell: a tie
        assert findings(holdout) == []


def test_the_board_changes_with_every_lead_that_is_proved(tmp_path):
    with contest(tmp_path, feedback="leader") as holdout:
        seen = []
        for number, (team, right) in enumerate((("base", 0.5), ("owls", 0.65), ("larks", 0.8), ("owls", 0.95))):
            assert holdout.competition.submit(model(right, number), team=team).leads
            seen.append(places(holdout))
        assert seen == [
            {"base": 1}, {"owls": 1, "base": 2}, {"larks": 1, "owls": 2, "base": 3},
            {"owls": 1, "larks": 2, "base": 3},
        ]  # fmt: skip
        assert findings(holdout) == []


def test_a_file_that_leads_stays_final_while_it_leads(tmp_path):
    with contest(tmp_path, feedback="leader") as holdout:
        holdout.competition.submit(model(0.55, 1), team="base")
        holdout.competition.submit(model(0.9, 2), team="owls")
        kept = holdout.competition.submit(model(0.6, 3), team="owls")
        assert (kept.leads, kept.final, places(holdout)) == (False, False, {"owls": 1, "base": 2})
        again = holdout.competition.submit(model(0.6, 3), team="owls")
        assert (again.repeated, again.final) == (True, False)  # it would change nothing
        assert holdout.competition.submit(model(0.97, 4), team="larks").leads
        moved = holdout.competition.submit(model(0.6, 3), team="owls")  # the lead is lost, so the team may choose it
        assert (moved.repeated, moved.final, moved.number) == (False, True, 3)


def test_the_same_file_as_the_leader_is_a_tie_and_a_file_as_good_as_it_is_none_yet(tmp_path):
    with contest(tmp_path, feedback="leader") as holdout:
        holdout.competition.submit(model(0.5, 0), team="base")
        holdout.competition.submit(model(0.9, 1), team="owls")
        same = holdout.competition.submit(model(0.9, 1), team="copycats")
        assert (same.leads, same.final, holdout.status()["charged"]) == (True, True, 1)
        as_good = holdout.competition.submit(model(0.9, 2), team="larks")
        assert not as_good.leads
        assert "was not proved better" in str(as_good)
        assert places(holdout) == {"owls": 1, "copycats": 1, "base": 3, "larks": None}
        assert "which is a tie" in holdout.competition.leaderboard().explain()
        holdout.unseal()
        assert places(holdout) == {"owls": 1, "copycats": 1, "larks": 1, "base": 4}


def test_a_leader_can_be_overtaken_in_a_competition_of_default_size(tmp_path):
    with contest(tmp_path, feedback="leader", teams=50, submissions=20) as holdout:
        led = [holdout.competition.submit(model(0.5 + 0.1 * n, n), team=f"team {n}").leads for n in range(5)]
        assert led == [True] * 5


def test_a_repeat_after_the_lead_is_lost_is_no_new_try(tmp_path):
    with contest(tmp_path, feedback="leader", submissions=1) as holdout:
        holdout.competition.submit(model(0.7, 1), team="owls")
        holdout.competition.submit(model(0.9, 2), team="larks")
        asked = holdout.status()["queries_asked"]
        again = holdout.competition.submit(model(0.7, 1), team="owls")
        assert (again.repeated, again.leads, holdout.status()["queries_asked"]) == (True, False, asked)


@pytest.mark.parametrize("surprises", [1, 2, 3])
def test_a_lead_that_is_proved_is_told_however_few_surprises_are_planned(tmp_path, surprises):
    """A promotion tells no interval, so no label has to be paid for."""
    with contest(tmp_path, feedback="leader", teams=2, surprises=surprises) as holdout:
        assert holdout.competition.submit(model(0.55, 1), team="owls").leads
        assert holdout.competition.submit(model(0.9, 2), team="larks").leads


def test_the_leader_of_a_disqualified_team_is_not_to_be_beaten_any_more(tmp_path):
    """A file that nobody can beat, such as one made from stolen labels, would otherwise end the competition."""
    with contest(tmp_path, feedback="leader", teams=6) as holdout:
        told = holdout.competition
        told.submit(model(0.5, 1), team="base")
        assert told.submit(model(0.7, 2), team="owls").leads
        assert told.submit(TRUTH, team="thieves").leads
        better = model(0.8, 3)
        assert not told.submit(better, team="larks").leads
        charged = holdout.status()["charged"]
        told.disqualify(team="thieves", reason="stolen labels")
        assert places(holdout) == {"owls": 1, "base": 2, "larks": None}
        assert told.submit(model(0.7, 2), team="owls").leads  # as before: it is told again, and nothing is charged
        assert holdout.status()["charged"] == charged
        assert not told.submit(model(0.6, 4), team="base").leads
        assert told.submit(better, team="larks").leads  # it may be tried again, against the leader of owls
        assert places(holdout) == {"larks": 1, "owls": 2, "base": None}
        same = told.submit(TRUTH, team="wrens")  # a file on the board is to be beaten, whoever else had it
        assert (same.leads, places(holdout)) == (True, {"wrens": 1, "larks": 2, "owls": 3, "base": None})
        holdout.unseal()
        assert findings(holdout) == []


def test_a_file_of_a_former_leader_has_no_place_that_is_not_proved(tmp_path):
    """The team that leads after a disqualification was never compared with what the disqualified team had."""
    with contest(tmp_path, feedback="leader") as holdout:
        told = holdout.competition
        told.submit(model(0.7, 1), team="thieves")
        told.disqualify(team="thieves", reason="stolen labels")
        assert places(holdout) == {}
        assert told.submit(model(0.6, 2), team="owls").leads  # the first one again
        assert told.submit(model(0.8, 3), team="larks").leads
        assert not told.submit(model(0.7, 1), team="wrens").leads
        assert places(holdout) == {"larks": 1, "owls": 2, "wrens": None}
        assert findings(holdout) == []
