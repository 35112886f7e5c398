"""Public and final rows: scores before the end are about rows that the final board is not about."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from contest_samples import ROWS, TRUTH, address, findings, model

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.errors import HoldoutRejected, QueryRejected
from everhold_competitions.public_scores import _OPENED, PublicScores

IDS = np.random.default_rng(2).permutation(ROWS) + 100
TABLE = {"id": IDS, "day": np.arange(ROWS) // 100, "group": np.arange(ROWS) // 5, "y": TRUTH}

FEW = {name: column[:40] for name, column in TABLE.items()}


def contest(folder, name="contest", **wanted):
    wanted = {
        "label": "y", "features": "public", "row_id": "id", "feedback": "score", "public": 0.3, "teams": 4,
        "submissions": 6, "holdout": TABLE, **wanted,
    }  # fmt: skip
    holdout = wanted.pop("holdout")
    return eh.Holdout.create(address(folder, name), name, holdout=holdout, **settings_from(wanted))


def public_of(holdout):
    return holdout.competition._session().public


def table_of(predictions, seed=0):
    order = np.random.default_rng(seed).permutation(ROWS)
    return {"id": IDS[order], "prediction": predictions[order]}


def test_every_file_gets_its_public_score_and_the_final_board_is_about_the_other_rows(tmp_path):
    with contest(tmp_path) as holdout:
        is_public = public_of(holdout).is_public
        assert (is_public.sum(), holdout.schema.rows) == (900, 2_100)
        step, best = 1 / public_of(holdout).ladder.grid, {}
        for team in ("owls", "larks"):
            for seed, right in enumerate((0.7, 0.9, 0.89, 0.6)):
                told = holdout.competition.submit(table_of(made := model(right, seed)), team=team)
                true = np.mean((made == TRUTH)[is_public])
                assert told.refused is False
                assert told.answer.low <= true <= told.answer.high
                assert told.answer.value == pytest.approx(max(best.get(team, 0.0), true), abs=1.01 * step)
                best[team] = told.answer.value
        board = holdout.competition.leaderboard()
        assert {row.team: row.score for row in board.standings} == best
        assert [row.rank for row in board.standings] == [1, 1]
        assert "900 public rows" in board.explain()
        with pytest.raises(QueryRejected, match="needs no guess"):
            holdout.competition.submit(table_of(model(0.9, 1)), team="owls", guess=0.9)
        holdout.unseal()
        board = holdout.competition.leaderboard()
        for row in board.standings:
            assert row.score == pytest.approx(np.mean((model(0.6, 3) == TRUTH)[~is_public]), abs=1e-6)
        assert findings(holdout) == []
        facts = holdout.certificate().to_dict()
        assert facts["account"]["competition"]["public"]["rows"] == 900
        assert [part[:2] for part in facts["rows"]["dealt"]["all"]] == [["contest", 2_100], ["contest.public", 900]]
    with eh.Holdout.open(address(tmp_path), "contest.public") as public:
        assert findings(public) == []
        for refused in (lambda: public.ask("day > 3"), public.competition.leaderboard):
            with pytest.raises(QueryRejected, match="public rows of 'contest'"):
                refused()


def test_the_final_board_is_as_sharp_as_without_feedback(tmp_path):
    with contest(tmp_path) as told, contest(tmp_path, "none", feedback="none", public=None) as silent:
        spent, free = told.mechanism, silent.mechanism
        assert (spent.name, spent.queries, spent.first) == (free.name, free.queries, free.first)
        for at in (0.5, 0.9):
            assert told.status()["competition"]["final_width"][f"{at:g}"] == spent.expected_radius(at)


def test_arrays_in_the_order_of_the_rows_are_split_by_it(tmp_path):
    table = {"x": np.arange(ROWS) * 0.5, "y": TRUTH}
    with contest(tmp_path, row_id=None, holdout=table) as holdout:
        is_public = public_of(holdout).is_public
        made = model(0.8, 1)
        for predictions in (made, made.tolist()):
            told = holdout.competition.submit(predictions, team="owls")
            assert told.answer.value == pytest.approx(np.mean((made == TRUTH)[is_public]), abs=0.02)
        assert told.repeated
        assert holdout.competition.check(made, team="owls").rows == ROWS
        for wrong in (made[:-1], made[~is_public], "y", 5):
            with pytest.raises(QueryRejected):
                holdout.competition.submit(wrong, team="owls")
        with pytest.raises(QueryRejected, match="3,000 rows are scored"):
            holdout.competition.submit(made[:-1], team="owls")


def test_a_file_that_differs_on_public_rows_alone_is_a_submission(tmp_path):
    with contest(tmp_path) as holdout:
        is_public = public_of(holdout).is_public
        first, other = model(0.8, 1), model(0.8, 1)
        other[np.flatnonzero(is_public)[:10]] ^= 1
        for number, predictions in enumerate((first, other, other, first), 1):
            told = holdout.competition.submit(table_of(predictions), team="owls")
            assert (told.number, told.repeated) == (number - (number > 2), number == 3)
        assert holdout.competition.submit(table_of(first), team="larks").number == 1
        scores = public_of(holdout).scores()
        assert scores["owls"][0] == scores["larks"][0]


def test_a_repeated_file_is_told_the_best_of_now(tmp_path):
    with contest(tmp_path) as holdout:
        low, high = model(0.6, 1), model(0.9, 2)
        told = [holdout.competition.submit(table_of(each), team="owls").answer.value for each in (low, high, low)]
        assert told[0] < told[1] == told[2]


def test_a_file_that_was_received_and_not_told_is_told_when_it_comes_again(tmp_path, monkeypatch):
    with contest(tmp_path) as holdout:
        with monkeypatch.context() as broken:
            broken.setattr(PublicScores, "tell", lambda *_: (_ for _ in ()).throw(QueryRejected("the power went off")))
            with pytest.raises(QueryRejected, match="again"):
                holdout.competition.submit(table_of(model(0.9, 1)), team="owls")
        assert holdout.competition.leaderboard()["owls"].score is None
        again = holdout.competition.submit(table_of(model(0.9, 1)), team="owls")
        assert (again.number, again.repeated) == (1, True)
        assert again.answer.value == holdout.competition.leaderboard()["owls"].score


def test_nothing_is_kept_open_of_the_public_rows_of_a_competition_that_is_over(tmp_path):
    with contest(tmp_path) as holdout:
        holdout.competition.submit(table_of(model(0.9, 1)), team="owls")
        assert holdout._executor.sealed in _OPENED
        holdout.unseal()
        assert holdout._executor.sealed not in _OPENED
        assert holdout.competition.leaderboard().public["rows"] == 900


@pytest.mark.parametrize("by", ["group", "strata", "day"])
def test_public_rows_are_dealt_by_groups_strata_or_time(by, tmp_path):
    wanted = {
        "group": {"dependence": eh.Groups("group")},
        "strata": {"stratified": "day"},
        "day": {"public_by": "day"},
    }[by]
    with contest(tmp_path, **wanted) as holdout:
        is_public = public_of(holdout).is_public
        assert is_public.sum() == 900
        if by == "group":
            assert all(len(set(rows)) == 1 for rows in is_public.reshape(-1, 5).tolist())
        elif by == "strata":
            assert (is_public.reshape(-1, 100).sum(axis=1) == 30).all()
        else:
            assert is_public[:900].all()
        told = holdout.competition.submit(table_of(model(0.9, 1)), team="owls")
        assert told.answer.low < 0.9 < told.answer.high


OF_CLASSES = ("accuracy", "error", "f1", "precision", "f1_macro", "balanced_accuracy", "matthews_corrcoef")
OF_NUMBERS = (
    "brier", "neg_log_loss", "roc_auc", "recall_at_fpr", "expected_calibration_error",
    {"loss": "absolute", "high": 2.0}, {"score": "r2", "low": 0, "high": 1},
    {"score": "neg_root_mean_squared_error", "low": 0, "high": 1},
)  # fmt: skip


@pytest.mark.parametrize("metric", OF_CLASSES + OF_NUMBERS, ids=str)
def test_every_metric_has_public_scores_that_only_improve(metric, tmp_path):
    with contest(tmp_path, metric=metric, teams=2, submissions=4) as holdout:
        session = holdout.competition._session()
        assert session.competition.rises == session.scoring.rises
        sign = 1 if session.scoring.higher_is_better else -1
        told = []
        for right in (0.6, 0.9, 0.7):
            made = model(right, 5)
            if metric in OF_NUMBERS:
                made = np.clip((made + np.random.default_rng(1).normal(size=ROWS) / 5 + 1) / 3, 0.02, 0.98)  # no ties
            told.append(sign * holdout.competition.submit(table_of(made), team="owls").answer.value)
        assert told == sorted(told)
        if metric != "expected_calibration_error":
            assert told[0] < told[1] == told[2]


def test_no_radius_is_promised_of_scores_that_are_no_shares(tmp_path):
    rare = np.zeros(ROWS, dtype=int)
    rare[:6] = 1
    radii = {}
    for metric in ("accuracy", "f1", "brier"):
        with contest(tmp_path, metric, metric=metric, holdout={**TABLE, "y": rare}) as holdout:
            radii[metric] = public_of(holdout).ladder.promise().radius
    assert radii["accuracy"] < 0.5
    assert radii["f1"] == radii["brier"] == 1.0


def test_what_cannot_be_is_refused_and_nothing_is_created(tmp_path):
    past = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    for wanted, message in (
        ({"public": 0.5, "holdout": FEW}, "leaves 20 rows for the final board"),
        ({"public": 0.6}, "at most 0.5"),
        ({"public": 0}, "above 0"),
        ({"public": "half"}, "at most 0.5"),
        ({"feedback": "none"}, "is only for feedback='score'"),
        ({"feedback": "leader"}, "is only for feedback='score'"),
        ({"public": None, "public_by": "day"}, "public_by"),
        ({"public_by": "month"}, "no column 'month'"),
        ({"public_by": "y"}, "by the order of their labels"),
        ({"surprises_per_team": 2}, "public scores cost none"),
        ({"mechanism": "guess_and_check"}, "cannot be chosen"),
        ({"deadline": past}, "has passed"),
        ({"grows": True}, "Leave grows= out"),
        ({"dependence": eh.Groups("day"), "public": 0.001}, "cannot be dealt into 2 parts"),
    ):
        with pytest.raises((HoldoutRejected, ValueError), match=message):
            contest(tmp_path, **wanted)
    assert not (tmp_path / "contest.db").exists()


def test_no_more_is_told_of_public_rows_after_the_end_and_terms_are_plain_data(tmp_path):
    with contest(tmp_path) as holdout:
        holdout.competition.submit(table_of(model(0.8, 1)), team="owls")
        holdout.unseal()
        with pytest.raises(QueryRejected, match="over"):
            holdout.competition.submit(table_of(model(0.9, 1)), team="owls")
        terms = json.loads(json.dumps(holdout.status()["competition"]))
        assert terms["public_rows"] == 900
        assert "900 public rows" in terms["told"]


def test_without_public_rows_the_worst_width_is_said_beforehand(tmp_path):
    widths = {}
    for feedback in ("none", "leader", "score"):
        given = {"public": None, "feedback": feedback, "surprises": 4 if feedback != "none" else None}
        with contest(tmp_path, feedback, **given) as holdout:
            widths[feedback] = holdout.status()["competition"]["final_width"]["0.5"]
            if feedback == "score":
                for team in range(4):  # each with a wrong guess, and then with as many more as its share allows
                    for number in range(6):
                        told = holdout.competition.submit(
                            table_of(model(0.5, 7 * team + number)), team=f"team {team}", guess=0.9
                        )
                assert told.surprises_left == 0
                holdout.unseal()
                row = holdout.competition.leaderboard().standings[0]
                assert (row.high - row.low) / 2 <= widths[feedback] * 1.02
    assert widths["none"] < min(widths["leader"], widths["score"])


@pytest.mark.parametrize("public", [None, 0.3])
def test_a_refused_file_is_told_the_row_and_the_cell_as_it_was_handed_in(tmp_path, public):
    mixed = np.random.default_rng(9).permutation(400)
    truth = np.random.default_rng(10).integers(0, 2, 400)
    terms = {"feedback": "none"} if public is None else {"feedback": "score", "public": public}
    with eh.Holdout.create(
        tmp_path / "s.db", "cup", holdout={"id": np.arange(400), "y": truth}, label="y",
        rows=eh.Rows(row_id="id", features="public"), planning=eh.Planning(allow_vacuous=True),
        competition=eh.Competition(teams=3, submissions=3, **terms),
    ) as held:  # fmt: skip
        for value, said in ((np.nan, "nan"), (7, "7")):
            wrong = np.where(np.arange(400) == 250, value, truth)
            line = int(np.argmax(mixed == 250)) + 1
            for file, row in (({"id": mixed, "p": wrong[mixed]}, line), (wrong, 251)):
                with pytest.raises(eh.QueryRejected, match=f": row {row} has {said}\\."):
                    held.competition.submit(file, team="owls")
        assert held.competition.submissions() == []
