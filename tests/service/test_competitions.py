"""Submissions over HTTP: joined by ids, for the team of one's own name, told what the host chose."""

import holdout_samples as samples
import numpy as np
import pytest
from service_samples import ADA, BOB, EVE, IDS, STEWARD, STUDY, as_csv, form, head, left_behind, seal, serving


@pytest.fixture
def visiting(tmp_path):
    seal(
        tmp_path, ids=True, allot=(), feedback="score", features="public", teams=3, submissions=4, mechanism=None,
        allow_vacuous=True, overfits=2,
    )  # fmt: skip
    with serving(tmp_path) as found:
        yield found


def predictions(seed=0, **more):
    labels = np.random.default_rng(seed).integers(0, 2, samples.ROWS)
    return as_csv({"id": IDS[::-1], "late": labels, **more})


def test_a_submission_is_received_and_told_its_score(visiting, tmp_path):
    said = visiting(ADA).post(
        STUDY + "/submissions", data={"guess": "0.5"}, files={"predictions": ("x.csv", predictions())}
    )
    assert said.status_code == 200, said.text
    assert (said.json()["team"], said.json()["number"], said.json()["result"]) == ("ada", 1, "submission")
    assert said.json()["answer"]["low"] < said.json()["answer"]["high"]
    board = visiting(EVE).get(STUDY + "/leaderboard").json()
    assert [line["team"] for line in board["standings"]] == ["ada"]
    assert left_behind(tmp_path) == []


def test_predictions_may_be_written_into_the_document(visiting):
    written = dict(zip(IDS, [1] * samples.ROWS, strict=True))
    said = visiting(ADA).post(STUDY + "/submissions", json={"predictions": written, "guess": 0.5})
    assert (said.status_code, said.json()["number"]) == (200, 1)


def test_a_form_of_a_browser_has_plain_fields(visiting):
    fields = {"csrf": "0" * 64, "team": "bob", "column": "late", "guess": "0.5"}
    files = {"predictions": ("x.csv", predictions(sure=[1] * samples.ROWS))}
    said = visiting(STEWARD).post(STUDY + "/submissions", data=fields, files=files)
    assert (said.status_code, said.json()["team"]) == (200, "bob")


def test_nobody_hands_in_for_another_team(visiting, tmp_path):
    before = head(tmp_path)
    files = {"predictions": ("x.csv", predictions())}
    for where in ("submissions", "submissions/check"):
        said = visiting(BOB).post(f"{STUDY}/{where}", data={"team": "ada"}, files=files)
        assert said.status_code == 403
    assert head(tmp_path) == before
    assert visiting(EVE).post(STUDY + "/submissions", files=files).status_code == 403


def test_a_file_is_tried_before_it_is_handed_in(visiting, tmp_path):
    before = head(tmp_path)
    report = visiting(ADA).post(STUDY + "/submissions/check", files={"predictions": ("x.csv", predictions())})
    assert (report.json()["rows"], report.json()["joined_by"], head(tmp_path)) == (samples.ROWS, "id", before)


REFUSED = {
    "nothing": {"json": {}},
    "too few": {"json": {"predictions": {"r0000": 1}}},
    "a guess that is none": {"data": {"guess": "much"}, "files": {"predictions": ("x.csv", predictions())}},
    "a column that is not there": {"data": {"column": "no"}, "files": {"predictions": ("x.csv", predictions())}},
    "no labels": {"files": {"predictions": ("x.csv", as_csv({"id": IDS, "late": [0.5] * samples.ROWS}))}},
    "a rule": {"json": {"predictions": "delay > 3 and"}},
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_received_costs_nothing(visiting, tmp_path, what):
    before = head(tmp_path)
    said = visiting(ADA).post(STUDY + "/submissions", **REFUSED[what])
    assert (said.status_code, said.headers["content-type"]) == (422, "application/problem+json"), said.text
    assert head(tmp_path) == before


def test_a_holdout_that_takes_questions_takes_no_submissions(tmp_path):
    seal(tmp_path)
    with serving(tmp_path) as visiting:
        assert visiting(EVE).get(STUDY + "/leaderboard").status_code == 422
        asked = form({"predictions": [1] * samples.ROWS})
        assert visiting(ADA).post(STUDY + "/submissions", **asked).status_code in (415, 422)
