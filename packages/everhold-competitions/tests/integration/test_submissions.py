"""Competitions: what is received, what is told, and that every place of the final leaderboard is proved."""

import json
import os
import signal
import stat
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from prepared_processes import prepared_processes
from submission_children import submit_all

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.display import rounded
from everhold.ledger import verify
from everhold.mechanisms.guess_and_check import GuessAccounting
from everhold.mechanisms.public_levels import ToleranceMargin
from everhold.sealing.rows.table import StoredRows
from everhold_competitions.leaderboard import Comparison, Leaderboard, RankingRow, ranked
from everhold_competitions.ranking import _ranks
from everhold_competitions.scoring import MeanScoring
from everhold_competitions.session import CompetitionSession
from everhold_competitions.teams import Submissions

ROWS = 3_000
RNG = np.random.default_rng(11)
TRUTH = RNG.integers(0, 2, ROWS)
IDS = np.array([f"r{number:04d}" for number in RNG.permutation(ROWS)])


def model(right, seed):
    """Predictions of which about this share is right."""
    return np.where(np.random.default_rng(seed).random(ROWS) < right, TRUTH, 1 - TRUTH)


def by_id(predictions, seed=0):
    """The same as a table, in another order."""
    order = np.random.default_rng(seed).permutation(ROWS)
    return {"id": IDS[order], "prediction": np.asarray(predictions)[order]}


def contest(folder, name="contest", **wanted):
    holdout = {"id": IDS, "x": np.arange(ROWS) * 0.5, "y": TRUTH}
    wanted = {
        "label": "y",
        "row_id": "id",
        "features": "public",
        "feedback": "none",
        "teams": 6,
        "submissions": 4,
        **wanted,
    }
    return eh.Holdout.create(
        f"sqlite:///{folder}/{name}.db", name, holdout=wanted.pop("holdout", holdout), **settings_from(wanted)
    )


@pytest.fixture
def silent(tmp_path):
    with contest(tmp_path) as made:
        yield made


def head(holdout):
    return holdout.status()["ledger_head"]


def sound(holdout):
    """Whether ledger and certificate are what they say; returns the certified competition."""
    executor, certificate = holdout._executor, holdout.certificate()
    assert (
        verify(
            executor.store, executor.record.name, seal_key=executor.key.seal_key, head_file=executor.ledger.head_file
        ).findings
        == ()
    )
    path = holdout._folder.parent / "certificate.html"
    certificate.save(path)
    report = eh.verify_certificate(path, public_key=certificate.public_key)
    assert (report.findings, report.unchecked) == ((), ())
    return certificate.to_dict()["account"]["competition"]


def test_from_the_first_submission_to_the_final_leaderboard(silent):
    quality = {"owls": 0.9, "larks": 0.8, "herons": 0.79, "wrens": 0.6}
    for number, (team, right) in enumerate(quality.items()):
        for attempt in (0, 1):
            told = silent.competition.submit(by_id(model(right, 10 * number + attempt)), team=team)
            assert (told.number, told.left, told.final, told.leads, told.answer) == (
                attempt + 1,
                3 - attempt,
                True,
                None,
                None,
            )
    before = silent.competition.leaderboard()
    assert [(line.team, line.score, line.rank) for line in before.standings] == [(team, None, None) for team in quality]
    assert silent.status()["queries_asked"] == 0
    assert sound(silent)["rows"] == []
    assert len(silent.unseal()) == 4 + 6
    board = silent.competition.leaderboard()
    for number, (team, right) in enumerate(quality.items()):
        line = board[team]
        assert line.score == pytest.approx(np.mean(model(right, 10 * number + 1) == TRUTH), abs=1e-12)
        assert line.low < right < line.high
    assert [board[team].rank for team in quality] == [1, 2, 2, 4]
    assert {(each.first, each.second, each.better) for each in board.comparisons} >= {
        ("owls", "wrens", "owls"), ("larks", "herons", None),
    }  # fmt: skip
    certified = sound(silent)
    assert [row["team"] for row in certified["rows"]] == [line.team for line in board.standings]
    assert silent.remaining == {"queries": 0}
    assert silent.competition.leaderboard() == board


def test_the_end_needs_no_file_once_it_was_told(silent):
    for team in ("owls", "larks"):
        silent.competition.submit(model(0.8, len(team)), team=team) if False else silent.competition.submit(
            by_id(model(0.8, len(team))), team=team
        )
    silent.unseal()
    board = silent.competition.leaderboard()
    for path in silent._folder.glob("submission-*"):
        path.unlink()
    assert silent.competition.leaderboard() == board


def test_equal_predictions_are_two_entries_and_a_tie(silent):
    silent.competition.submit(by_id(model(0.9, 1)), team="owls")
    silent.competition.submit(by_id(model(0.9, 1), seed=5), team="copycats")
    silent.competition.submit(by_id(model(0.6, 2)), team="wrens")
    assert len(silent.unseal()) == 2 + 1  # two different scores, and one comparison
    board = silent.competition.leaderboard()
    assert [(line.team, line.rank) for line in board.standings] == [("owls", 1), ("copycats", 1), ("wrens", 3)]
    assert board["owls"].score == board["copycats"].score
    assert (board.comparisons[0].difference, board.comparisons[0].better) == (0.0, None)


def test_the_last_one_is_final_and_an_earlier_one_can_be_handed_in_again(silent):
    good, bad = by_id(model(0.9, 1)), by_id(model(0.5, 2))
    first = silent.competition.submit(good, team="owls")
    assert silent.competition.submit(good, team="owls").repeated
    assert silent.competition.submit(by_id(model(0.9, 1), seed=9), team="owls").number == 1  # the same in another order
    silent.competition.submit(bad, team="owls")
    assert silent.competition.submit(good, team="owls").number == 3
    silent.competition.submit(bad, team="larks")
    silent.unseal()
    assert silent.competition.leaderboard()["owls"].score == pytest.approx(np.mean(model(0.9, 1) == TRUTH))
    assert (
        first.to_dict()["predictions"] == silent.competition.submit(good, team="owls").predictions
    )  # free, and told again


def test_with_nothing_told_no_label_is_looked_at(silent, monkeypatch):
    def never(*_, **__):
        raise AssertionError("sealed rows were evaluated")

    for name in ("evaluate", "row_values", "totals", "table", "summary"):
        monkeypatch.setattr(StoredRows, name, never)
    silent.competition.submit(by_id(model(0.9, 1)), team="owls")
    silent.competition.check(by_id(model(0.9, 2)), team="owls")
    assert silent.competition.leaderboard()["owls"].submissions == 1


def test_error_and_losses_rank_the_other_way(tmp_path):
    with contest(tmp_path, metric="error") as errors:
        for seed, (team, right) in enumerate((("owls", 0.9), ("wrens", 0.7))):
            errors.competition.submit(by_id(model(right, seed)), team=team)
        errors.unseal()
        board = errors.competition.leaderboard()
        assert [(line.team, line.rank) for line in board.standings] == [("owls", 1), ("wrens", 2)]
        assert board["owls"].low < 0.1 < board["owls"].high
        assert (board.metric, board.higher_is_better) == ("error", False)
        assert board.comparisons[0].high < 0.0 < 0.2 < -board.comparisons[0].low
        sound(errors)


@pytest.mark.parametrize(
    "metric", ["brier", {"loss": "squared", "high": 1.0}, {"loss": "log", "low": 0.0, "high": 3.0}]
)
def test_probabilities_are_ranked_by_their_losses(tmp_path, metric):
    with contest(tmp_path, metric=metric) as holdout:
        for team, sure in (("owls", 0.9), ("wrens", 0.6)):
            holdout.competition.submit(by_id(np.where(TRUTH == 1, sure, 1.0 - sure)), team=team)
        holdout.unseal()
        board = holdout.competition.leaderboard()
        assert [(line.team, line.rank) for line in board.standings] == [("owls", 1), ("wrens", 2)]
        assert not board.higher_is_better
        for line, sure in zip(board.standings, (0.9, 0.6), strict=True):
            loss = -np.log(sure) if metric != "brier" and metric["loss"] == "log" else (1.0 - sure) ** 2
            assert line.low < loss < line.high
        sound(holdout)


def test_a_measured_label_is_ranked_by_a_declared_range(tmp_path):
    truth = np.random.default_rng(3).gamma(2.0, 10.0, ROWS)
    wanted = {
        "holdout": {"id": IDS, "x": np.arange(ROWS), "y": truth},
        "metric": {"loss": "absolute", "low": 0, "high": 60},
    }
    with contest(tmp_path, **wanted) as holdout:
        for team, off in (("owls", 2.0), ("wrens", 9.0)):
            holdout.competition.submit(by_id(truth + off), team=team)
        holdout.unseal()
        board = holdout.competition.leaderboard()
        assert [(line.team, line.rank) for line in board.standings] == [("owls", 1), ("wrens", 2)]
        assert board["owls"].low < 2.0 < board["owls"].high
        assert board["wrens"].score == pytest.approx(9.0)
        sound(holdout)


def test_classes_are_ranked_by_their_paired_differences(tmp_path):
    truth = RNG.choice(np.array(["a", "b", "c"]), ROWS)
    rows = {"id": IDS, "x": np.arange(ROWS), "y": truth}
    with contest(tmp_path, holdout=rows, classes=["a", "b", "c"]) as holdout:
        rng, teams = np.random.default_rng(2), {"owls": 0.9, "larks": 0.89, "wrens": 0.7}
        easy = rng.random(ROWS)
        for team, right in teams.items():
            holdout.competition.submit(by_id(np.where(easy < right, truth, "a")), team=team)
        holdout.unseal()
        board = holdout.competition.leaderboard()
        assert [board[team].rank for team in teams][-1] == 3
        assert all(line.low < line.score < line.high for line in board.standings)
        sound(holdout)


def test_groups_of_rows_are_wider_and_hold(tmp_path):
    household = np.repeat(np.arange(ROWS // 2), 2)
    rows = {"id": IDS, "household": household, "y": TRUTH}
    with (
        contest(tmp_path, holdout=rows, dependence=eh.Groups("household")) as grouped,
        contest(tmp_path, "alone") as alone,
    ):
        for holdout in (grouped, alone):
            for team, right in (("owls", 0.9), ("wrens", 0.6)):
                holdout.competition.submit(by_id(model(right, 1)), team=team)
            holdout.unseal()
        assert [line.rank for line in grouped.competition.leaderboard().standings] == [1, 2]
        widths = [
            board["owls"].high - board["owls"].low
            for board in (grouped.competition.leaderboard(), alone.competition.leaderboard())
        ]
        assert widths[0] > 1.3 * widths[1]


HOSTILE = [
    ({"id": IDS, "prediction": np.where(TRUTH == 1, np.nan, 0.0)}, "nan or infinite"),
    ({"id": IDS, "prediction": TRUTH * 0.3}, "are no labels"),
    ({"id": IDS, "prediction": np.array(["yes", "no"])[TRUTH]}, "in row 1 of the column 'prediction'"),
    ({"id": np.array([], dtype=object), "prediction": np.array([], dtype=object)}, "ids not at all"),
    ({"id": IDS[:-1], "prediction": TRUTH[:-1]}, "not at all"),
    ({"id": np.append(IDS[:-1], IDS[0]), "prediction": TRUTH}, "more than once"),
    ({"id": np.append(IDS[:-1], "zebra"), "prediction": TRUTH}, "no sealed row has"),
    ({"id": np.arange(ROWS), "prediction": TRUTH}, "are text"),
    ({"prediction": TRUTH}, "no 'id'"),
    ({"id": IDS, "a": TRUTH, "b": TRUTH}, "one column of predictions"),
    ({"id": IDS, **{f"c{number}": TRUTH for number in range(300)}}, "one column of predictions"),
    ({"id": IDS, "prediction": TRUTH[:, None]}, "shape"),
    (None, "shape|kind"),
    (TRUTH[:7], "shape"),
]


@pytest.mark.parametrize("feedback", ["none", "leader", "score"])
def test_hostile_predictions_cost_nothing_before_anybody_looks(tmp_path, monkeypatch, feedback):
    with contest(tmp_path, feedback=feedback) as holdout:
        monkeypatch.setattr(StoredRows, "evaluate", lambda *_, **__: pytest.fail("sealed rows were evaluated"))
        monkeypatch.setattr(StoredRows, "row_values", lambda *_, **__: pytest.fail("sealed rows were evaluated"))
        before, files = head(holdout), sorted(holdout._folder.iterdir())
        for predictions, said in HOSTILE:
            for refused in (holdout.competition.submit, holdout.competition.check):
                with pytest.raises(eh.QueryRejected, match=said):
                    refused(predictions, team="owls")
            assert (head(holdout), sorted(holdout._folder.iterdir())) == (before, files)


def test_teams_and_submissions_are_as_many_as_were_planned(tmp_path):
    with contest(tmp_path, teams=2, submissions=2) as holdout:
        for seed in (1, 2):
            holdout.competition.submit(by_id(model(0.6, seed)), team="owls")
        with pytest.raises(eh.QueryRejected, match="all of its 2 submissions"):
            holdout.competition.submit(by_id(model(0.6, 3)), team="owls")
        holdout.competition.submit(by_id(model(0.7, 4)), team="larks")
        with pytest.raises(eh.QueryRejected, match="planned for 2 teams"):
            holdout.competition.submit(by_id(model(0.6, 5)), team="wrens")
        assert holdout.competition.leaderboard()["owls"].submissions == 2


@pytest.mark.parametrize("team", ["", " owls", "o" * 101, "ow\nls", "=cmd|'/C calc'!A0", "+1", "-1", "@A1", 7, None])
def test_a_team_needs_a_plain_name(silent, team):
    with pytest.raises(ValueError, match="The team's name"):
        silent.competition.submit(by_id(TRUTH), team=team)


def test_a_name_that_looks_like_another_is_refused(silent):
    silent.competition.submit(by_id(model(0.6, 1)), team="owls")
    with pytest.raises(eh.QueryRejected, match="looks like that of the team 'owls'"):
        silent.competition.submit(by_id(model(0.7, 1)), team="OWLS")


def test_a_model_and_a_needless_guess_are_refused(silent):
    class Model:
        def predict(self, rows):
            return rows

    with pytest.raises(eh.QueryRejected, match="a model was passed"):
        silent.competition.submit(Model(), team="owls")
    with pytest.raises(eh.QueryRejected, match="a rule was passed"):
        silent.competition.submit("x > 0", team="owls")
    with pytest.raises(eh.QueryRejected, match="guess= is only for"):
        silent.competition.submit(by_id(TRUTH), team="owls", guess=0.9)


def test_no_other_query_is_taken_and_others_take_no_submissions(silent, tmp_path):
    asks = (
        lambda: silent.ask("y = 1"), lambda: silent.ask_many(["y = 1"]),
        lambda: silent.gate("accuracy", champion=TRUTH),
        lambda: silent.quote("y = 1"), lambda: silent.ask("y = 1", silent=True),
        lambda: silent.over_time("y = 1"), silent.drift, lambda: silent.declare("texts", eh.texts(40)),
        lambda: silent.analyst("owls"),
    )  # fmt: skip
    for ask in asks:
        with pytest.raises(eh.QueryRejected, match="takes submissions and no other queries"):
            ask()
    rows = {"x": np.arange(ROWS), "y": TRUTH}
    with eh.Holdout.create(
        tmp_path / "plain.db", holdout=rows, label="y", mechanism="guess_and_check", queries=9
    ) as plain:
        for refused in (lambda: plain.competition.submit(TRUTH, team="owls"), plain.competition.leaderboard):
            with pytest.raises(eh.QueryRejected, match="takes no submissions"):
                refused()
    assert head(silent)["sequence"] == 0


def test_an_allotment_pays_for_a_submission_of_its_team(silent):
    silent.allot("owls", queries=1)
    silent.competition.submit(by_id(model(0.6, 1)), team="owls")
    with pytest.raises(eh.QueryRejected, match="allotment"):
        silent.competition.submit(by_id(model(0.6, 2)), team="owls")
    silent.competition.submit(by_id(model(0.6, 2)), team="larks")  # a team without one has the plan alone
    silent.competition.submit(by_id(model(0.6, 3)), team="larks")
    assert silent.allotments()["owls"].asked == 1
    sound(silent)
    silent.unseal()
    sound(silent)


def test_what_is_kept_is_for_the_owner_alone_and_never_shown(silent):
    silent.competition.submit(by_id(model(0.9, 1)), team="owls")
    (path,) = silent._folder.glob("submission-*")
    assert stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO) == 0
    assert str(TRUTH[:5].tolist()) not in repr(silent.competition._session())
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(eh.IntegrityError, match="of a submission beside the sealed rows was altered"):
        silent.unseal()
    path.unlink()
    with pytest.raises(eh.IntegrityError, match="is missing"):
        silent.unseal()
    assert silent.competition.leaderboard()["owls"].score is None
    assert silent.competition.submit(by_id(model(0.9, 1)), team="owls").repeated  # and kept anew
    silent.unseal()
    assert silent.competition.leaderboard()["owls"].score is not None


def test_an_interrupted_end_goes_on_and_takes_nothing_meanwhile(silent, monkeypatch):
    for number in range(5):
        silent.competition.submit(by_id(model(0.6 + 0.05 * number, number)), team=f"team {number}")

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(MeanScoring, "_compared", stop)  # the scores are asked about, and no pair is
        with pytest.raises(KeyboardInterrupt):
            silent.unseal()
    assert silent.status()["queries_asked"] == 5
    with pytest.raises(eh.QueryRejected, match="competition is over"):
        silent.competition.submit(by_id(TRUTH), team="late")
    assert silent.competition.leaderboard()["team 0"].score is None
    silent.unseal()
    assert silent.status()["queries_asked"] == 15
    sound(silent)


def test_a_competition_without_submissions_cannot_be_unsealed(silent):
    with pytest.raises(eh.QueryRejected, match="Ask queries first"):
        silent.unseal()
    silent.competition.submit(by_id(TRUTH), team="owls")  # so it is not over


def test_the_leader_is_proved_and_stays_final(tmp_path):
    with contest(tmp_path, feedback="leader") as holdout:
        assert holdout.competition.submit(by_id(model(0.6, 1)), team="baseline").leads  # the first one
        told = holdout.competition.submit(by_id(model(0.9, 2)), team="owls")
        assert (told.leads, told.final, str(told).endswith(". It leads.")) == (True, True, True)
        worse = holdout.competition.submit(by_id(model(0.6, 3)), team="owls")
        assert (worse.leads, worse.final, worse.number) == (False, False, 2)
        assert not holdout.competition.submit(by_id(model(0.89, 4)), team="larks").leads
        assert holdout.competition.submit(
            by_id(model(0.9, 2)), team="copycats"
        ).leads  # as good as the leader, being the same
        board = holdout.competition.leaderboard()
        assert [(line.team, line.rank) for line in board.standings][:3] == [
            ("owls", 1),
            ("copycats", 1),
            ("baseline", 3),
        ]
        assert board["larks"].rank is None
        assert (holdout.status()["charged"], all(line.score is None for line in board.standings)) == (1, True)
        sound(holdout)
        holdout.unseal()
        final = holdout.competition.leaderboard()
        assert final["owls"].rank == 1
        assert final["owls"].score == pytest.approx(np.mean(model(0.9, 2) == TRUTH))
        assert final["baseline"].rank == 4
        sound(holdout)


@pytest.mark.parametrize("feedback", ["none", "leader", "score"])
def test_whoever_submits_at_once_is_told_no_more_than_is_received(tmp_path, feedback):
    training = {"id": [f"t{number}" for number in range(500)], "x": np.zeros(500), "y": TRUTH[:500]}
    holdout = contest(tmp_path, feedback=feedback, teams=2, submissions=2, training=training)
    handles = [eh.Holdout.open(f"sqlite:///{tmp_path}/contest.db", "contest") for _ in range(6)]

    def submitted(number):
        try:
            return handles[number].competition.submit(by_id(model(0.7, number)), team="owls", **guess)
        except eh.QueryRejected as refusal:
            return refusal.message

    guess = {"guess": 0.7} if feedback == "score" else {}
    with ThreadPoolExecutor(6) as at_once:
        told = list(at_once.map(submitted, range(6)))
    refusals = [each for each in told if isinstance(each, str)]
    assert sorted(each.number for each in told if not isinstance(each, str)) == [1, 2]
    assert len(refusals) == 4
    assert all("Nothing was received" in refusal for refusal in refusals)
    expected = {"none": 0, "leader": 1, "score": 2}  # the first leader meets nobody
    assert holdout.status()["queries_asked"] == expected[feedback]
    for each in (holdout, *handles):
        each.close()


def test_the_latest_submission_again_is_no_new_try_against_a_new_leader(tmp_path):
    with contest(tmp_path, feedback="leader", submissions=1) as holdout:
        first = by_id(model(0.7, 1))
        assert holdout.competition.submit(first, team="owls").leads
        assert holdout.competition.submit(by_id(model(0.9, 2)), team="larks").leads
        before = holdout.remaining
        again = holdout.competition.submit(first, team="owls")
        assert (again.repeated, again.leads, holdout.remaining) == (True, False, before)
        assert holdout.competition.submit(by_id(model(0.9, 2)), team="larks").leads


def test_scores_are_answers_as_usual(tmp_path):
    with contest(tmp_path, feedback="score") as holdout:
        with pytest.raises(eh.QueryRejected, match="needs a guess"):
            holdout.competition.submit(by_id(model(0.8, 1)), team="owls")
        told = holdout.competition.submit(by_id(model(0.8, 1)), team="owls", guess=0.8)
        assert (told.answer.source, told.answer.charged) == ("guess", 0)
        assert told.to_dict()["low"] < 0.8 < told.to_dict()["high"]
        again = holdout.competition.submit(by_id(model(0.8, 2)), team="owls")  # what it was told is the guess
        assert again.answer.source == "guess"
        assert again.answer.low < 0.8 < again.answer.high
        corrected = holdout.competition.submit(by_id(model(0.55, 3)), team="wrens", guess=0.99)
        board = holdout.competition.leaderboard()
        assert (board["owls"].score, board["owls"].low) == (None, again.answer.low)  # a guess is no score
        assert (board["wrens"].score, board["wrens"].low) == (corrected.answer.value, corrected.answer.low)
        assert (board["owls"].rank, board["wrens"].rank, holdout.status()["charged"]) == (1, 2, 1)
        sound(holdout)
        holdout.unseal()
        assert [line.rank for line in holdout.competition.leaderboard().standings] == [1, 2]
        sound(holdout)


def test_a_guess_is_never_shown_as_a_score(tmp_path):
    """Two guesses of one quality that are both confirmed used to stand on the board as two scores."""
    with contest(tmp_path, feedback="score") as holdout:
        guesses = {"owls": 0.8017, "larks": 0.7893}
        for seed, (team, guess) in enumerate(guesses.items()):
            told = holdout.competition.submit(by_id(model(0.8, seed)), team=team, guess=guess)
            assert (told.answer.source, told.answer.value, told.to_dict()["value"]) == ("guess", None, None)
            assert "confirmed within [" in str(told)
            assert "within [" in str(told.answer)
        released = holdout.competition.submit(by_id(model(0.55, 3)), team="wrens", guess=0.99)
        assert f"The score is {rounded(released.answer.value)} in [" in str(released)
        board, shown = holdout.competition.leaderboard(), []
        assert [board[team].score for team in guesses] == [None, None]
        assert board["wrens"].score == released.answer.value
        assert all(board[team].low < 0.8 < board[team].high for team in guesses)
        assert "no score" in board.explain()
        rows = holdout.transcript().to_rows()
        assert [row["value"] for row in rows] == [None, None, rows[2]["value"]]
        assert rows[0]["low"] == pytest.approx(board["owls"].low)
        for each in (holdout.transcript(), board, board.to_rows(), holdout.status()):
            shown.append(json.dumps(each.to_dict() if hasattr(each, "to_dict") else each, default=str))
        page = board.to_html()
        assert page.count('class="span"') == 3
        assert page.count('class="score"') == 1
        for guess in guesses.values():
            assert all(str(guess) not in each for each in [*shown, page, str(board), board.to_html()])
        sound(holdout)


@pytest.mark.parametrize("feedback", ["leader", "score"])
def test_whatever_is_told_there_is_room_for_the_end(tmp_path, feedback):
    """Surprise after surprise: telling stops, receiving does not, and every pair is compared at the end."""
    with contest(tmp_path, feedback=feedback, teams=4, submissions=12, surprises=3) as holdout:
        told = []
        for number in range(40):
            guess = {"guess": 1.0} if feedback == "score" else {}
            told.append(
                holdout.competition.submit(
                    by_id(model(0.5 + 0.012 * number, number)), team=f"team {number % 4}", **guess
                )
            )
        assert any(each.refused for each in told)
        assert sum(not each.refused for each in told) >= 3
        holdout.unseal()
        board = holdout.competition.leaderboard()
        assert all(line.score is not None and line.rank is not None for line in board.standings)
        contest_, teams = holdout.competition._session(), holdout._executor.ledger.head().accounts.of(Submissions).teams
        finals = [team.final for team in teams.values()]
        asked = {entry["query"] for entry in holdout.transcript().to_rows()}
        assert {contest_.scoring.comparison(finals[0], other)[0] for other in finals[1:]} <= asked
        sound(holdout)


def test_without_the_room_that_is_kept_the_end_would_have_none(tmp_path, monkeypatch):
    """The protection removed, where a holdout ends: the last surprises take what comparisons would have needed."""
    monkeypatch.setattr(GuessAccounting, "leaves_capacity", lambda *_, **__: True)
    monkeypatch.setattr(ToleranceMargin, "answers", ToleranceMargin.within_plan)  # as holdouts of earlier versions
    with contest(tmp_path, feedback="score", teams=4, submissions=12, surprises=3) as holdout:
        for number in range(40):
            holdout.competition.submit(by_id(model(0.5 + 0.012 * number, number)), team=f"team {number % 4}", guess=1.0)
        holdout.unseal()
        told = holdout.unseal()
        assert sum("minus" in row["asked"] for row in told.to_rows()) < 6
        board = holdout.competition.leaderboard()  # the fallback: separate intervals, where there are some
        for line in board.standings:
            assert (line.rank is None) == (line.score is None)
        sound(holdout)


def test_who_is_better_than_a_better_one_is_better_too():
    pairs = [Comparison("c", "a", 0.1, 0.05, 0.2, "c"), Comparison("a", "b", 0.1, 0.05, 0.2, "a")]
    tie = Comparison("b", "c", -0.1, -0.2, 0.01, None)
    lines = [RankingRow(team, 0.8, 0.0, 1.0, None, 1) for team in ("c", "a", "b")]
    assert _ranks(lines, [*pairs, tie]) == {"c": (1, 1), "a": (2, 2), "b": (3, 3)}


def test_a_better_place_alone_is_no_proof():
    """Owls beat larks and nobody else; herons beat nobody and are beaten by nobody."""
    pairs = [Comparison("owls", "larks", 0.1, 0.05, 0.2, "owls"), Comparison("herons", "larks", 0.0, -0.1, 0.1, None)]
    lines = [RankingRow(team, 0.8, 0.0, 1.0, None, 1) for team in ("owls", "larks", "herons")]
    board = Leaderboard(
        holdout="birds", metric="accuracy", higher_is_better=True, feedback="none", final=True, confidence=0.95,
        statement="S8", comparisons=pairs, standings=ranked(lines, _ranks(lines, pairs), higher_is_better=True),
    )  # fmt: skip
    assert {row.team: row.place for row in board.standings} == {"owls": "1-2", "herons": "1-3", "larks": "2-3"}
    assert "Not everyone on a place above is proved to be better" in board.explain()


def test_places_by_separate_intervals_are_true_as_well(silent):
    for team, right in (("owls", 0.9), ("larks", 0.89), ("wrens", 0.6)):
        silent.competition.submit(by_id(model(right, 1)), team=team)
    contest_ = silent.competition._session()
    contest_.end()
    finals = {
        team.final: contest_.files.find(team.final) for team in contest_.accounts().of(Submissions).teams.values()
    }
    scores, _ = next(contest_.scoring.finals(finals))
    contest_.executor.ask(scores)
    assert contest_ == CompetitionSession(contest_.executor, contest_.competition, contest_.files, contest_.champions)
    from everhold.asking.unsealing import unseal

    unseal(silent._executor)  # of which the pairs were lost
    board = silent.competition.leaderboard()
    assert [(line.team, line.rank) for line in board.standings] == [("owls", 1), ("larks", 1), ("wrens", 3)]


@pytest.mark.parametrize("feedback", ["none", "leader"])
def test_killed_processes_lose_nothing_and_count_nothing_twice(tmp_path, feedback):
    contest(
        tmp_path, row_id=None, holdout={"x": np.arange(ROWS), "y": TRUTH}, teams=4, submissions=500, feedback=feedback
    ).close()
    storage, children = f"sqlite:///{tmp_path}/contest.db", []
    for worker in range(2):
        ready = prepared_processes.Event()
        child = prepared_processes.Process(target=submit_all, args=(storage, "contest", worker, ready))
        child.start()
        children.append((child, ready))
    for child, ready in children:
        assert ready.wait(60)
        os.kill(child.pid, signal.SIGKILL)
        child.join()
    with eh.Holdout.open(storage, "contest") as holdout:
        board = holdout.competition.leaderboard()
        assert [line.submissions >= 2 for line in board.standings] == [True] * 4
        sound(holdout)
        files = {path.name for path in holdout._folder.glob("submission-*")}
        teams = holdout._executor.ledger.head().accounts.of(Submissions).teams.values()
        assert {f"submission-{digest}" for team in teams for digest in (team.final, team.latest)} <= files
        holdout.unseal()
        assert all(line.score is not None for line in holdout.competition.leaderboard().standings)
        sound(holdout)


def test_the_values_convert_like_all_others(silent, tmp_path):
    assert "No team has submitted" in str(silent.competition.leaderboard())
    silent.competition.submit(by_id(model(0.9, 1)), team="<b>owls</b>")
    silent.competition.submit(by_id(model(0.6, 1)), team="wrens")
    report = silent.competition.check(by_id(model(0.6, 2)), team="wrens")
    assert (report.rows, report.joined_by, report.left) == (ROWS, "id", 3)
    assert sum(report.values.values()) == ROWS
    assert "Nothing was received" in str(report)
    silent.unseal()
    board = silent.competition.leaderboard()
    plain = json.loads(json.dumps(board.to_dict()))
    assert all(set(row) == {"team", "score", "low", "high", "rank"} for row in plain["rows"])
    assert list(board.to_pandas()["rank"]) == [1, 2]
    board.save(tmp_path / "board.html")
    page = (tmp_path / "board.html").read_text()
    assert "&lt;b&gt;owls" in page
    assert "<b>owls" not in page
    assert "<script" not in page
    assert isinstance(board, Leaderboard)
    with pytest.raises(ValueError, match=r"ends in \.html"):
        board.save(tmp_path / "board.pdf")
