"""Boards that are ranked by scores of scikit-learn: scores, comparisons and refusals."""

import numpy as np
import pytest
from contest_samples import ROWS, TRUTH, address, contest, findings, model
from sklearn.metrics import balanced_accuracy_score, f1_score, matthews_corrcoef, r2_score, roc_auc_score

import everhold as eh

LABELLED = {
    "balanced_accuracy": balanced_accuracy_score,
    "f1": f1_score,
    "f1_macro": lambda labels, predictions: f1_score(labels, predictions, average="macro"),
    "matthews_corrcoef": matthews_corrcoef,
}


@pytest.mark.parametrize("metric", LABELLED)
def test_a_final_board_is_that_of_scikit_learn(metric, tmp_path):
    teams = {"owls": model(0.9, 1), "larks": model(0.88, 2), "wrens": model(0.6, 3)}
    with contest(tmp_path, feedback="none", metric=metric) as holdout:
        for team, predictions in teams.items():
            told = holdout.competition.submit(predictions, team=team)
            assert told.answer is None
        holdout.unseal()
        board = holdout.competition.leaderboard()
        assert (board.metric, board.higher_is_better) == (metric, True)
        for team, predictions in teams.items():
            assert board[team].score == pytest.approx(LABELLED[metric](TRUTH, predictions), abs=1e-6)
            assert board[team].low < board[team].score < board[team].high
        assert [board[team].rank for team in teams] == [1, 1, 3]
        for each in board.comparisons:
            apart = LABELLED[metric](TRUTH, teams[each.first]) - LABELLED[metric](TRUTH, teams[each.second])
            assert each.low <= apart <= each.high
        assert findings(holdout) == []


def test_a_board_by_area_under_the_curve(tmp_path):
    rng = np.random.default_rng(5)
    teams = {"owls": TRUTH + rng.normal(0, 0.6, ROWS), "wrens": TRUTH + rng.normal(0, 2.0, ROWS)}
    with contest(tmp_path, feedback="none", metric="roc_auc") as holdout:
        for team, scores in teams.items():
            holdout.competition.submit(scores, team=team)
        holdout.unseal()
        board = holdout.competition.leaderboard()
        for team, scores in teams.items():
            assert board[team].score == pytest.approx(roc_auc_score(TRUTH, scores), abs=1e-6)
        ((each),) = board.comparisons
        assert each.better == "owls"


@pytest.mark.parametrize("feedback", ["none", "score"])
@pytest.mark.parametrize("metric", ["accuracy", "roc_auc", "f1_macro"])
def test_the_promise_is_about_the_metric_of_the_board(tmp_path, metric, feedback):
    with contest(tmp_path, feedback=feedback, metric=metric) as holdout:
        promised = holdout.promise.sentence
        assert ("Every interval on the board contains the true score" in promised) == (metric != "accuracy")
        assert holdout.certificate().promise == promised
        holdout.certificate().save(tmp_path / "c.json")
    assert eh.verify_certificate(tmp_path / "c.json").ok


def test_a_score_of_numbers_needs_their_range(tmp_path):
    labels = np.random.default_rng(3).normal(0, 1, ROWS)
    rows = {"x": np.arange(ROWS) * 0.5, "y": labels}
    with pytest.raises(eh.HoldoutRejected, match="the range of the labels"):
        contest(tmp_path, "open", feedback="none", metric="r2", holdout=rows)
    metric = {"score": "r2", "low": -4, "high": 4}
    with contest(tmp_path, feedback="none", metric=metric, holdout=rows) as holdout:
        holdout.competition.submit(labels * 0.9, team="owls")
        holdout.competition.submit(labels * 0.0, team="wrens")
        holdout.unseal()
        board = holdout.competition.leaderboard()
        assert board["owls"].score == pytest.approx(r2_score(labels, labels * 0.9), abs=0.02)
        assert board["owls"].rank == 1


def test_scores_are_told_with_a_guess(tmp_path):
    with contest(tmp_path, feedback="score", metric="f1_macro", surprises_per_team=2, surprises=8) as holdout:
        told = holdout.competition.submit(model(0.9, 1), team="owls", guess=0.9)
        assert told.answer.low <= 0.9 <= told.answer.high
        board = holdout.competition.leaderboard()
        assert board["owls"].score is None  # a confirmed guess is no score
        holdout.unseal()
        assert holdout.competition.leaderboard()["owls"].score == pytest.approx(
            f1_score(TRUTH, model(0.9, 1), average="macro"), abs=1e-6
        )


def test_what_is_not_promised_is_refused_at_creation(tmp_path):
    with pytest.raises(ValueError, match=r"not a mean over rows"):
        eh.Competition(feedback="leader", metric="f1_macro")
    with pytest.raises(ValueError, match="low"):
        eh.Competition(metric={"score": "f1_macro", "low": 1})
    with pytest.raises(ValueError, match="has no guarantee"):
        eh.Competition(metric="average_precision")
    groups = {"x": np.arange(ROWS) * 0.5, "y": TRUTH, "who": np.repeat(np.arange(ROWS // 10), 10)}
    with pytest.raises(eh.HoldoutRejected):
        eh.Holdout.create(
            address(tmp_path), "contest", holdout=groups, label="y", dependence=eh.Groups("who"),
            rows=eh.Rows(features="public"), competition=eh.Competition(metric="recall_at_fpr"),
        )  # fmt: skip


@pytest.mark.parametrize("score", ["r2", "neg_root_mean_squared_error"])
def test_no_loss_inside_the_range_is_clipped_so_the_order_is_that_of_scikit_learn(tmp_path, score):
    rng = np.random.default_rng(0)
    labels = rng.choice([0.0, 60.0], 2_000)
    wild = np.where(rng.random(2_000) < 0.1, 60.0 - labels, labels)  # one row in ten is wrong by 60
    near = np.where(labels > 30.0, labels - 15.0, labels + 15.0)  # each row is wrong by 15
    metric = {"score": score, "low": np.int64(0), "high": np.int64(60)}
    with eh.Holdout.create(
        f"sqlite:///{tmp_path}/b.db", "board", holdout={"x": np.arange(2_000) / 2, "y": labels}, label="y",
        rows=eh.Rows(features="public"), competition=eh.Competition(metric=metric, teams=2, submissions=2),
    ) as holdout:  # fmt: skip
        for team, predictions in (("wild", wild), ("near", near)):
            holdout.competition.submit(predictions, team=team)
        holdout.unseal()
        board = holdout.competition.leaderboard()
    assert [row.team for row in board.standings] == ["near", "wild"]
    truths = {
        team: (r2_score if score == "r2" else neg_rmse)(labels, each) for team, each in (("wild", wild), ("near", near))
    }
    assert all(each.low < truths[each.team] < each.high for each in board.standings)
    assert board.metric == f"{score} of labels from 0 to 60"


def neg_rmse(labels, predictions):
    return -float(np.sqrt(np.mean((labels - predictions) ** 2)))
