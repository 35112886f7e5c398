"""True if there is room for a submission is decided once, before anything is told; what was told is on the board."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from contest_samples import ROWS, TRUTH, address, contest, findings, model, teams_of
from prepared_processes import prepared_processes
from submission_children import submit_some, submit_until_killed

import everhold as eh
from everhold.errors import Unavailable
from everhold_competitions.session import TeamFeedback


def told(holdout, predictions, team, **more):
    try:
        return holdout.competition.submit(predictions, team=team, **more)
    except eh.QueryRejected as refusal:
        return refusal.message


@pytest.mark.parametrize("feedback", ["leader", "score"])
def test_the_last_submission_that_an_allotment_pays_for_is_told_and_received(tmp_path, feedback):
    """The telling spends the allotment, and used to leave no room for the submission that was told."""
    guess = {"guess": 0.9} if feedback == "score" else {}
    with contest(tmp_path, feedback=feedback) as holdout:
        holdout.competition.submit(model(0.55, 1), team="base", **({"guess": 0.55} if guess else {}))
        holdout.allot("owls", queries=1, charges=1)
        winner = holdout.competition.submit(model(0.9, 3), team="owls", **guess)
        assert (winner.number, winner.refused, winner.final) == (1, False, True)
        assert winner.leads or feedback == "score"
        before = holdout.remaining
        refused = told(holdout, model(0.95, 4), "owls", **guess)
        assert "Nothing was received" in refused
        assert holdout.remaining == before
        assert holdout.competition.submit(model(0.9, 3), team="owls", **guess).repeated
        assert findings(holdout) == []
        holdout.unseal()
        board = holdout.competition.leaderboard()
        assert [line.team for line in board.standings] == ["owls", "base"]
        assert board["owls"].score == pytest.approx(np.mean(model(0.9, 3) == TRUTH))
        assert findings(holdout) == []


@pytest.mark.parametrize("feedback", ["leader", "score"])
@pytest.mark.parametrize("limit", ["submissions", "allotment"])
def test_threads_at_the_limit_are_told_exactly_what_is_received(tmp_path, feedback, limit):
    wanted = {"submissions": 3} if limit == "submissions" else {"submissions": 20}
    holdout = contest(tmp_path, feedback=feedback, teams=3, surprises=6, **wanted)
    guess = {"guess": 0.6} if feedback == "score" else {}
    holdout.competition.submit(model(0.55, 99), team="base", **guess)
    if limit == "allotment":
        holdout.allot("owls", queries=3, charges=3)
    handles = [eh.Holdout.open(address(tmp_path), "contest") for _ in range(8)]
    with ThreadPoolExecutor(8) as at_once:
        said = list(at_once.map(lambda n: told(handles[n], model(0.55 + 0.05 * n, n), "owls", **guess), range(8)))
    received = [each for each in said if not isinstance(each, str)]
    assert sorted(each.number for each in received) == [1, 2, 3]
    assert all("Nothing was received" in each for each in said if isinstance(each, str))
    known = {each.predictions for each in received}
    queries = {holdout.competition._session().scoring.score_digest(predictions) for predictions in known}
    leaders = set(holdout.competition._session().leaders())
    assert leaders <= queries | {holdout.competition._session().scoring.score_digest(teams_of(holdout)["base"].final)}
    final = teams_of(holdout)["owls"].final
    assert final in known
    if feedback == "leader" and (leading := [each for each in received if each.leads]):
        assert final in {each.predictions for each in leading}
    assert findings(holdout) == []
    for each in (holdout, *handles):
        each.close()


@pytest.mark.parametrize("feedback", ["none", "leader"])
def test_processes_at_the_limit_are_told_exactly_what_is_received(tmp_path, feedback):
    holdout = contest(tmp_path, feedback=feedback, teams=2, submissions=5)
    queue, start = prepared_processes.Queue(), prepared_processes.Event()
    children = [
        prepared_processes.Process(
            target=submit_some,
            args=(address(tmp_path), "contest", team, range(4 * number, 4 * number + 4), queue, start),
        )
        for number, team in enumerate(("owls", "owls", "larks", "wrens"))
    ]
    for child in children:
        child.start()
    start.set()
    said = [queue.get(timeout=120) for _ in range(16)]
    for child in children:
        child.join()
    received = {team: [each for each in said if each[0] == team and each[1]] for team in ("owls", "larks", "wrens")}
    kept = teams_of(holdout)
    assert {team: len(each) for team, each in received.items() if each} == {
        team: account.received for team, account in kept.items()
    }
    assert len(kept) == 2  # the third team found no room
    reasons = {reason for _, predictions, reason in said if not predictions}
    assert all("has used all of its 5 submissions" in each or "planned for 2 teams" in each for each in reasons)
    queries = {
        holdout.competition._session().scoring.score_digest(predictions) for _, predictions, _ in said if predictions
    }
    assert set(holdout.competition._session().leaders()) <= queries
    assert findings(holdout) == []
    holdout.close()


@pytest.mark.parametrize("feedback", ["leader", "score"])
@pytest.mark.parametrize("told_too", [False, True])
def test_a_process_that_is_killed_between_receiving_and_telling_leaves_no_ghost(tmp_path, feedback, told_too):
    guess = {"guess": 0.9} if feedback == "score" else {}
    with contest(tmp_path, feedback=feedback) as holdout:
        holdout.competition.submit(model(0.55, 1), team="base", **({"guess": 0.55} if guess else {}))
        child = prepared_processes.Process(
            target=submit_until_killed, args=(address(tmp_path), "contest", "owls", 3, told_too)
        )
        child.start()
        child.join(120)
        assert child.exitcode == -9
        assert teams_of(holdout)["owls"].received == 1
        charged = holdout.status()["charged"]
        assert charged == (told_too and feedback == "leader")
        again = holdout.competition.submit(
            model(0.9, 3), team="owls", **guess
        )  # idempotent: told what the first one was not
        assert (again.repeated, again.number, again.final) == (True, 1, True)
        assert again.leads or feedback == "score"
        asked = holdout.status()["queries_asked"]
        assert holdout.competition.submit(model(0.9, 3), team="owls", **guess).repeated
        assert holdout.status()["queries_asked"] == asked
        assert findings(holdout) == []
        holdout.unseal()
        assert holdout.competition.leaderboard().standings[0].team == "owls"


def test_a_fault_while_telling_says_that_the_submission_was_received(tmp_path, monkeypatch):
    with contest(tmp_path, feedback="leader") as holdout:
        holdout.competition.submit(model(0.55, 1), team="base")

        def fail(*_):
            raise Unavailable("The engine is busy. Try again.")

        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(TeamFeedback, "_challenge_leader", fail)
            with pytest.raises(Unavailable, match="The submission was received"):
                holdout.competition.submit(model(0.9, 3), team="owls")
        again = holdout.competition.submit(model(0.9, 3), team="owls")
        assert (again.repeated, again.leads, again.number) == (True, True, 1)


def test_what_cannot_be_told_is_refused_before_it_is_received(tmp_path):
    with contest(tmp_path, feedback="score") as holdout:
        with pytest.raises(eh.QueryRejected, match="needs a guess"):
            holdout.competition.submit(model(0.8, 1), team="owls")
        assert teams_of(holdout) == {}
    with contest(tmp_path, "led", feedback="leader") as holdout:
        holdout.competition.submit(model(0.55, 1), team="base")
        for path in holdout._folder.glob("champion-*"):
            path.unlink()
        with (
            eh.Holdout.open(address(tmp_path, "led"), "led") as anew,
            pytest.raises(eh.IntegrityError, match="champion"),
        ):
            anew.competition.submit(model(0.9, 1), team="owls")
        assert list(teams_of(holdout)) == ["base"]


def test_room_for_rows_of_another_number_is_none(tmp_path):
    with contest(tmp_path, feedback="leader") as holdout:
        with pytest.raises(eh.QueryRejected, match="shape"):
            holdout.competition.submit(np.zeros(ROWS - 1), team="owls")
        assert teams_of(holdout) == {}
