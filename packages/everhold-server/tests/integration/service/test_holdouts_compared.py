"""Sealing over HTTP tells a steward of some holdouts nothing about the rows of the others."""

import json
import stat

import numpy as np
import pytest
from service_samples import API, STEWARD, as_csv, form, rows, seal, serving

from everhold import Holdout
from everhold.asking.creation import settings_from
from everhold.sealing.intake.request import Planning
from everhold.sealing.resealing import COMPARED_FILE, Sealer, sealing_for, untold_matches
from everhold.sealing.storage import rows_folder

HOLDOUTS = f"{API}/holdouts"
PROBER = "steward:prober:probe:second"
KNOWN, TRIED = 15, 40
NONE: dict[str, list[str]] = {"same_rows": [], "open_rows": [], "sealed_training": []}
LABEL = "late"


@pytest.fixture
def http_client(tmp_path):
    seal(tmp_path)  # 1,000 rows
    with serving(tmp_path, sealings_an_hour=0) as found:
        yield found


def sealing(name, table, **settings):
    wanted = {"name": name, "label": LABEL, "queries": 20, "mechanism": "gaussian", "allow_vacuous": True, **settings}
    return form(wanted, part="settings", holdout=as_csv(table))


def first(count, table):
    return {name: np.asarray(column)[:count] for name, column in table.items()}


def probe(table, row, label):
    """Known rows with both labels each, and one row with a guess: most of them are sealed if the guess is right."""
    known = first(KNOWN, table)
    twice = {name: np.repeat(column, 2) for name, column in known.items()}
    twice[LABEL] = np.tile([0, 1], KNOWN)
    guess = {name: label if name == LABEL else np.asarray(column)[row] for name, column in table.items()}
    return {name: [*column, guess[name]] for name, column in twice.items()}


def told(response):
    """All of a response that could tell something: whatever differs from one request to the next left out."""
    document = response.json()
    document.pop("request_id", None)
    return response.status_code, json.dumps(document, sort_keys=True)


UNUSABLE = {"feedback": "leader", "metric": {"loss": "absolute", "high": -1}, "teams": 2, "submissions": 2}


def test_a_limited_steward_reads_no_label_of_another_holdout(http_client):
    table, prober = rows(0), http_client(PROBER)
    wanted = {"mechanism": None, **UNUSABLE}  # misses fail afterwards, so that the name stays free
    for row in range(100, 100 + TRIED):
        heard = {
            told(prober.post(HOLDOUTS, **sealing("probe", probe(table, row, label), **wanted))) for label in (0, 1)
        }
        assert len(heard) == 1, f"the label of row {row} was told"


@pytest.mark.parametrize("again", [False, True])
def test_a_limited_steward_hears_the_same_of_a_hit_and_a_miss(http_client, again):
    table = rows(0)
    right = int(table[LABEL][100])
    heard = []
    for name, label in (("probe", right), ("second", 1 - right)):
        prober = http_client(f"steward:prober:{name}")
        made = prober.post(HOLDOUTS, **sealing(name, probe(table, 100, label), allow_resealing=again))
        assert made.status_code == 201, made.text
        facts = [prober.get(f"{HOLDOUTS}/{name}{part}").text for part in ("", "/certificate", "/unseal")]
        assert not any("study" in text or "not for you" in text or "also_sealed_as" in text for text in facts)
        heard.append(sorted(made.json()))
    assert heard[0] == heard[1]


def test_full_stewards_find_matches_that_were_not_told_in_the_audit_log(http_client):
    table, prober = rows(0), http_client(PROBER)
    assert prober.post(HOLDOUTS, **sealing("probe", table)).status_code == 201
    assert prober.post(HOLDOUTS, **sealing("second", rows(7))).status_code == 201
    acts = [act for act in http_client(STEWARD).get(f"{API}/audit").json()["acts"] if act["act"] == "compare rows"]
    assert [act["facts"] for act in acts] == [
        {**NONE, "sealed": "second", "status": 200}, {**NONE, "same_rows": ["study"], "sealed": "probe", "status": 200},
    ]  # fmt: skip
    seen = prober.get(f"{API}/audit").text
    assert "compare rows" not in seen
    assert "same_rows" not in seen


def test_a_limited_steward_is_told_about_rows_that_the_same_token_sealed(http_client):
    prober, few = http_client(PROBER), first(60, rows(7))
    assert prober.post(HOLDOUTS, **sealing("probe", few)).status_code == 201
    refused = prober.post(HOLDOUTS, **sealing("second", few))
    assert refused.status_code == 409
    assert "already sealed in this storage, as 'probe'" in refused.json()["detail"]
    assert prober.post(HOLDOUTS, **sealing("second", few, allow_resealing=True)).status_code == 201
    assert prober.get(f"{HOLDOUTS}/second/certificate").json()["rows"]["also_sealed_as"] == ["probe"]


@pytest.mark.parametrize(("count", "status"), [(1_000, 409), (400, 201)])
def test_small_tables_are_not_compared_aloud_with_holdouts_of_others(http_client, count, status):
    both = http_client("steward:prober:study:second")
    made = both.post(HOLDOUTS, **sealing("second", first(count, rows(0))))
    assert made.status_code == status, made.text
    assert ("as 'study'" in made.text) == (status == 409)


def test_full_stewards_are_told_of_all_matches(http_client):
    refused = http_client(STEWARD).post(HOLDOUTS, **sealing("second", first(60, rows(0))))
    assert refused.status_code == 409
    assert refused.json()["names"] == ["study"]


def test_a_failing_request_is_refused_before_rows_are_compared(http_client):
    wanted = {"mechanism": None, **UNUSABLE}
    refused = http_client(STEWARD).post(HOLDOUTS, **sealing("second", rows(0), **wanted))
    assert refused.status_code == 409
    assert "the smaller one as low" in refused.json()["detail"]
    assert "sealed" not in refused.json()["detail"]


def test_sealings_of_a_token_are_limited(tmp_path):
    seal(tmp_path)
    with serving(tmp_path, sealings_an_hour=2) as http_client:
        root = http_client(STEWARD)
        statuses = [root.post(HOLDOUTS, **sealing("study", rows(3))).status_code for _ in range(2)]
        refused = root.post(HOLDOUTS, **sealing("study", rows(3)))
        assert (statuses, refused.status_code) == ([409, 409], 429)
        assert 1 < int(refused.headers["retry-after"]) <= 1_800
        assert refused.json()["title"] == "too many"
        assert http_client("steward:other").post(HOLDOUTS, **sealing("study", rows(3))).status_code == 409


def test_what_was_not_told_is_kept_in_a_private_file(tmp_path):
    seal(tmp_path)
    wanted = {"mechanism": "gaussian", "queries": 20, "allow_vacuous": True}
    for name, seed, opened, found in (
        ("third", 1, 8, {"open_rows": ["study"]}), ("second", 7, None, {}),
        ("fourth", 9, 0, {"sealed_training": ["study"]}),
        ("probe", 0, None, {"same_rows": ["study"], "open_rows": ["fourth"]}),
    ):  # fmt: skip
        training = None if opened is None else rows(opened)
        with (
            sealing_for(Sealer("token", frozenset({name}))),
            Holdout.create(
                tmp_path / "study.db", name, holdout=rows(seed), training=training, **settings_from(wanted)
            ) as made,
        ):
            record = made._executor.record
        kept = rows_folder(tmp_path / "study.db") / record.configuration["folder"] / COMPARED_FILE
        assert stat.S_IMODE(kept.stat().st_mode) == 0o400
        assert untold_matches(kept.parent.parent, record) == {**NONE, **found}
        assert record.configuration["sealed_before"] == []


def test_the_page_that_seals_tells_a_limited_steward_as_little(http_client):
    prober = http_client("steward:prober:probe")
    fields = {"name": "probe", "label": LABEL, "mechanism": "gaussian", "queries": "20", "confidence": "95"}
    files = {"holdout": ("rows.csv", as_csv(rows(0)))}
    made = prober.post("/seal", data=fields, files=files, follow_redirects=False)
    assert made.status_code == 303, made.text
    acts = http_client(STEWARD).get(f"{API}/audit").json()["acts"]
    assert [act["facts"]["same_rows"] for act in acts if act["act"] == "compare rows"] == [["study"]]


def test_the_doctor_names_matches_that_were_not_told(tmp_path):
    from typer.testing import CliRunner

    from everhold.cli.application import app

    seal(tmp_path)
    with (
        sealing_for(Sealer("token", frozenset({"probe"}))),
        Holdout.create(
            tmp_path / "study.db",
            "probe",
            holdout=rows(0),
            mechanism="gaussian",
            queries=20,
            planning=Planning(allow_vacuous=True),
        ) as made,
    ):
        folder = rows_folder(tmp_path / "study.db") / made._executor.record.configuration["folder"]

    def checks():
        said = json.loads(CliRunner().invoke(app, ["doctor", str(tmp_path / "study.db"), "--format", "json"]).stdout)
        return {check["holdout"]: check for check in said["checks"] if check["check"] == "rows sealed once"}

    found = checks()
    assert set(found) == {"probe"}
    assert not found["probe"]["ok"]
    assert "'study'" in found["probe"]["found"]
    (folder / COMPARED_FILE).unlink()
    assert checks() == {}
