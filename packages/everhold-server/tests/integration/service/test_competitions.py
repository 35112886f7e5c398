"""Submissions over HTTP: joined by ids, for the team of one's own name, told what the host chose."""

from concurrent.futures import ThreadPoolExecutor

import holdout_samples as samples
import numpy as np
import pytest
from service_samples import (
    ADA,
    API,
    BOB,
    EVE,
    IDS,
    STEWARD,
    STUDY,
    as_csv,
    form,
    head,
    left_behind,
    opened,
    seal,
    serving,
)

from everhold_competitions.teams import Submissions


@pytest.fixture
def http_client(tmp_path):
    seal(
        tmp_path, ids=True, allot=(), feedback="score", features="public", teams=3, submissions=4, mechanism=None,
        allow_vacuous=True, surprises=2,
    )  # fmt: skip
    with serving(tmp_path) as found:
        yield found


def predictions(seed=0, **more):
    labels = np.random.default_rng(seed).integers(0, 2, samples.ROWS)
    return as_csv({"id": IDS[::-1], "late": labels, **more})


def test_a_submission_is_received_and_told_its_score(http_client, tmp_path):
    said = http_client(ADA).post(
        STUDY + "/submissions", data={"guess": "0.5"}, files={"predictions": ("x.csv", predictions())}
    )
    assert said.status_code == 200, said.text
    assert (said.json()["team"], said.json()["number"], said.json()["result"]) == ("ada", 1, "submission")
    assert said.json()["answer"]["low"] < said.json()["answer"]["high"]
    board = http_client(EVE).get(STUDY + "/leaderboard").json()
    assert [line["team"] for line in board["standings"]] == ["ada"]
    assert left_behind(tmp_path) == []


def test_predictions_may_be_written_into_the_document(http_client):
    written = dict(zip(IDS, [1] * samples.ROWS, strict=True))
    said = http_client(ADA).post(STUDY + "/submissions", json={"predictions": written, "guess": 0.5})
    assert (said.status_code, said.json()["number"]) == (200, 1)


def test_a_form_of_a_browser_has_plain_fields(http_client):
    fields = {"csrf": "0" * 64, "team": "bob", "column": "late", "guess": "0.5"}
    files = {"predictions": ("x.csv", predictions(sure=[1] * samples.ROWS))}
    said = http_client(STEWARD).post(STUDY + "/submissions", data=fields, files=files)
    assert (said.status_code, said.json()["team"]) == (200, "bob")


def test_nobody_hands_in_for_another_team(http_client, tmp_path):
    before = head(tmp_path)
    files = {"predictions": ("x.csv", predictions())}
    for where in ("submissions", "submissions/check"):
        said = http_client(BOB).post(f"{STUDY}/{where}", data={"team": "ada"}, files=files)
        assert said.status_code == 403
    assert head(tmp_path) == before
    assert http_client(EVE).post(STUDY + "/submissions", files=files).status_code == 403


def test_a_file_is_tried_before_it_is_handed_in(http_client, tmp_path):
    before = head(tmp_path)
    report = http_client(ADA).post(STUDY + "/submissions/check", files={"predictions": ("x.csv", predictions())})
    assert (report.json()["rows"], report.json()["joined_by"], head(tmp_path)) == (samples.ROWS, "id", before)


FILE = ("x.csv", predictions())
REFUSED = {
    "nothing": ({"json": {}}, "There are no predictions"),
    "too few": ({"json": {"predictions": {"r0000": 1}}}, "999 of the sealed rows"),
    "a guess in words": (
        {"data": {"guess": "much"}, "files": {"predictions": FILE}},
        "guess is 'much'. Send a number",
    ),
    "no finite guess": (
        {"data": {"guess": "1e999"}, "files": {"predictions": FILE}},
        "guess is '1e999'. Send a",
    ),
    "a field of no submission": ({"data": {"gues": "0.5"}, "files": {"predictions": FILE}}, "Did you mean 'guess'"),
    "a field like none": ({"data": {"x": "0.5"}, "files": {"predictions": FILE}}, "Send only column, guess, team"),
    "a file of no submission": ({"files": {"predictions": FILE, "trainings": FILE}}, "Did you mean 'training'"),
    "a column that is not there": ({"data": {"column": "no"}, "files": {"predictions": FILE}}, "'no'"),
    "no labels": ({"files": {"predictions": ("x.csv", as_csv({"id": IDS, "late": [0.5] * samples.ROWS}))}}, "0.5"),
    "a rule": ({"json": {"predictions": "delay > 3"}}, "a rule was passed"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_received_costs_nothing(http_client, tmp_path, what):
    (sent, why), before = REFUSED[what], head(tmp_path)
    for where in ("submissions/check", "submissions"):
        said = http_client(ADA).post(f"{STUDY}/{where}", **sent)
        assert (said.status_code, said.headers["content-type"]) == (409, "application/problem+json"), said.text
        assert why in said.json()["detail"]
    assert head(tmp_path) == before


def test_a_holdout_that_takes_queries_takes_no_submissions(tmp_path):
    seal(tmp_path)
    with serving(tmp_path) as http_client:
        assert http_client(EVE).get(STUDY + "/leaderboard").status_code == 404
        asked = form({"predictions": [1] * samples.ROWS})
        assert http_client(ADA).post(STUDY + "/submissions", **asked).status_code in (409, 415, 422)


def test_a_guess_that_was_confirmed_is_no_score_on_any_address(http_client):
    truth = np.asarray(samples.rows(0)["late"])
    predicted = np.where(np.random.default_rng(3).random(samples.ROWS) < 0.9, truth, 1 - truth)
    guess = float(f"{np.mean(predicted == truth):.4f}") + 0.00037
    said = http_client(ADA).post(
        STUDY + "/submissions", data={"guess": f"{guess}"},
        files={"predictions": ("x.csv", as_csv({"id": IDS, "late": predicted}))},
    ).json()  # fmt: skip
    assert (said["answer"]["source"], said["answer"]["value"], said["surprises_left"]) == ("guess", None, 1)
    assert said["answer"]["low"] < guess < said["answer"]["high"]
    board = http_client(EVE).get(STUDY + "/leaderboard").json()
    (line,) = board["standings"]
    assert (line["score"], line["low"], line["high"]) == (None, said["answer"]["low"], said["answer"]["high"])
    for where in ("/leaderboard", "/transcript", "/answers", "/answers/2", "/transcript?format=csv"):
        shown = http_client(STEWARD).get(STUDY + where)
        assert shown.status_code == 200, shown.text
        assert f"{guess}" not in shown.text


@pytest.mark.parametrize("limit", ["submissions", "allotment"])
def test_requests_at_the_limit_are_told_exactly_what_is_received(tmp_path, limit):
    wanted = {"feedback": "leader", "features": "public", "teams": 2, "mechanism": None, "allow_vacuous": True}
    seal(tmp_path, ids=True, allot=(), surprises=2, submissions=2 if limit == "submissions" else 9, **wanted)
    if limit == "allotment":
        with opened(tmp_path) as holdout:
            holdout.allot("ada", queries=2, charges=2)
    truth = np.asarray(samples.rows(0)["late"])

    def file(seed, right):
        predicted = np.where(np.random.default_rng(seed).random(samples.ROWS) < right, truth, 1 - truth)
        return {"predictions": ("x.csv", as_csv({"id": IDS, "late": predicted}))}

    with serving(tmp_path) as http_client:
        assert http_client(BOB).post(STUDY + "/submissions", files=file(0, 0.5)).json()["leads"]
        clients = [http_client(ADA) for _ in range(6)]
        with ThreadPoolExecutor(6) as at_once:
            said = list(at_once.map(
                lambda n: clients[n].post(STUDY + "/submissions", files=file(n + 1, 0.6 + 0.07 * n)), range(6)
            ))  # fmt: skip
        received = [each.json() for each in said if each.status_code == 200]
        assert sorted(each["number"] for each in received) == [1, 2]
        refused = [each for each in said if each.status_code != 200]
        assert {each.status_code for each in refused} == {409}
        assert all("Nothing was received" in each.json()["detail"] for each in refused)
        board = http_client(EVE).get(STUDY + "/leaderboard").json()["standings"]
        assert {line["team"]: line["submissions"] for line in board} == {"ada": 2, "bob": 1}
        leads = [each["predictions"] for each in received if each["leads"]]
        with opened(tmp_path) as holdout:
            final = holdout._executor.ledger.head().accounts.of(Submissions).teams["ada"].final
            assert (final in leads) if leads else (final in {each["predictions"] for each in received})
            contest = holdout.competition._session()
            assert set(contest.leaders()[1:]) <= {
                contest.scoring.score_digest(each["predictions"]) for each in received
            }


RULES = "Any model.\n<b>No</b> labels."


@pytest.fixture
def board(tmp_path):
    seal(
        tmp_path, ids=True, allot=(), feedback="none", features="public", teams=3, submissions=3, mechanism=None,
        deadline="2999-12-01T12:00:00+02:00", rules=RULES,
    )  # fmt: skip
    with serving(tmp_path) as found:
        yield found


def submit(client, seed, **more):
    files = {"predictions": ("x.csv", predictions(seed))}
    return client.post(STUDY + "/submissions", files=files, **more).json()


def test_a_team_lists_its_submissions_and_chooses_its_final_one(board, tmp_path):
    ada, bob = board(ADA), board(BOB)
    for seed in (0, 1):
        submit(ada, seed)
    submit(bob, 2)
    assert [row["final"] for row in ada.get(STUDY + "/submissions").json()["submissions"]] == [False, True]
    assert {row["team"] for row in bob.get(STUDY + "/submissions").json()["submissions"]} == {"bob"}
    assert len(board(STEWARD).get(STUDY + "/submissions").json()["submissions"]) == 3
    before = head(tmp_path)
    for who, wanted, status in (
        (BOB, {"number": 1, "team": "ada"}, 403), (EVE, {"number": 1}, 403), (ADA, {"number": 3}, 409),
        (ADA, {"number": 0}, 422), (ADA, {"number": "1; DROP"}, 422), (STEWARD, {"number": 1}, 409),
    ):  # fmt: skip
        assert board(who).post(STUDY + "/submissions/final", json=wanted).status_code == status
        assert head(tmp_path) == before
    said = ada.post(STUDY + "/submissions/final", json={"number": 1})
    assert [row["final"] for row in said.json()["submissions"]] == [True, False]
    again, after = ada.post(STUDY + "/submissions/final", json={"number": 1}), head(tmp_path)
    assert (again.json(), after) == (said.json(), head(tmp_path))
    assert board(EVE).get(STUDY + "/submissions").status_code == 403


def test_deadline_and_rules_are_set_and_told_over_http(board):
    told = board(EVE).get(STUDY + "/leaderboard").json()
    assert (told["rules"], told["deadline"]) == (RULES, "2999-12-01T10:00:00+00:00")


@pytest.mark.parametrize("wanted", [{"deadline": "tomorrow"}, {"deadline": "2026-12-01"}, {"rules": ""}, {"rules": 3}])
def test_a_deadline_or_rules_that_cannot_be_meant_create_nothing(board, wanted):
    settings = {"name": "other", "label": "late", "row_id": "id", "features": "public", "feedback": "none", **wanted}
    table = {"id": IDS, "late": np.random.default_rng(5).integers(0, 2, samples.ROWS)}
    said = board(STEWARD).post(f"{API}/holdouts", **form(settings, part="settings", holdout=as_csv(table)))
    assert said.status_code == (422 if wanted == {"rules": 3} else 409), said.text
    assert board(STEWARD).get(f"{API}/holdouts/other").status_code == 404


def test_scores_rank_and_what_is_not_promised_is_refused_by_name(board):
    for seed, (name, status) in enumerate((("average_precision", 409), ("f1_macro", 201), ("neg_log_loss", 201))):
        rows = seed * samples.ROWS + np.arange(samples.ROWS)  # of another table, for no rows are sealed twice
        table = {"id": rows, "late": np.random.default_rng(seed).integers(0, 2, samples.ROWS)}
        settings = {
            "name": name, "label": "late", "row_id": "id", "features": "public", "feedback": "none", "metric": name,
        }  # fmt: skip
        said = board(STEWARD).post(f"{API}/holdouts", **form(settings, part="settings", holdout=as_csv(table)))
        assert said.status_code == status, said.text
        assert status == 201 or f"{name!r}" in said.json()["detail"]
    for name, said in (("neg_log_loss", "log loss, from 0 to 6.90776 for a row"), ("f1_macro", "f1_macro")):
        assert board(STEWARD).get(f"{API}/holdouts/{name}/leaderboard").json()["metric"] == said


def test_public_rows_are_scored_over_http_and_the_final_board_is_about_the_others(tmp_path):
    seal(
        tmp_path, ids=True, allot=(), feedback="score", public=0.5, features="public", teams=3, submissions=4,
        mechanism=None, surprises=None,
    )  # fmt: skip
    with serving(tmp_path) as client:
        told = [
            client(who).post(STUDY + "/submissions", files={"predictions": ("x.csv", predictions(seed))}).json()
            for who, seed in ((ADA, 0), (BOB, 1), (ADA, 2))
        ]
        assert [each["public_rows"] for each in told] == [samples.ROWS // 2] * 3
        assert told[2]["answer"]["value"] >= told[0]["answer"]["value"]
        refused = client(ADA).post(
            STUDY + "/submissions", data={"guess": "0.5"}, files={"predictions": ("x.csv", predictions(3))}
        )
        assert (refused.status_code, "needs no guess" in refused.text) == (409, True)
        board = client(EVE).get(STUDY + "/leaderboard").json()
        assert {row["team"] for row in board["standings"]} == {"ada", "bob"}
        assert board["public"]["rows"] == samples.ROWS // 2
        terms = client(EVE).get(STUDY).json()["status"]["facts"]["competition"]
        assert (terms["public"], terms["public_rows"]) == (0.5, samples.ROWS // 2)
        written = {"predictions": dict(zip(IDS, [1] * samples.ROWS, strict=True))}
        assert client(BOB).post(STUDY + "/submissions", json=written).json()["number"] == 2
        asked = client(STEWARD).post(API + "/holdouts/study.public/ask", json={"query": "delay > 15"})
        assert (asked.status_code, "public rows of 'study'" in asked.text) == (409, True)
