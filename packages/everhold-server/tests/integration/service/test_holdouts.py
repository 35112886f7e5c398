"""Holdouts are created over HTTP as in Python, told as far as a principal may know them, and otherwise not there."""

import json
import stat

import pandas as pd
import pytest
from pond_samples import PASSWORD, poured, served, tried_before
from service_samples import ADA, API, BOB, EVE, STEWARD, STUDY, as_csv, form, left_behind, opened, rows, seal, serving

from everhold.asking.creation import settings_from
from everhold.holdout import Holdout
from everhold_engines import ENGINE_VARIABLE
from everhold_server.open_holdouts import OpenHoldouts
from everhold_server.principals import Principal, Role

__all__ = ["tried_before"]

HOLDOUTS = f"{API}/holdouts"


@pytest.fixture
def http_client(tmp_path):
    seal(tmp_path)
    with serving(tmp_path) as found:
        yield found


def sealing(name="second", holdout=None, training=None, **settings):
    files = {"holdout": as_csv(rows(5)) if holdout is None else holdout}
    files |= {} if training is None else {"training": training}
    wanted = {"name": name, "label": "late", "queries": 20, "mechanism": "gaussian", "allow_vacuous": True, **settings}
    return form(wanted, part="settings", **files)


def test_rows_are_sealed_as_in_python(http_client, tmp_path):
    made = http_client(STEWARD).post(HOLDOUTS, **sealing(training=as_csv(rows(6))))
    assert made.status_code == 201, made.text
    assert made.json()["schema"]["rows"] == 1_000
    with opened(tmp_path, "second") as holdout:
        assert (holdout.schema.training_rows, holdout.schema.label) == (1_000, "late")
    assert left_behind(tmp_path) == []


def test_what_is_weak_about_the_promise_is_said(http_client):
    made = http_client(STEWARD).post(HOLDOUTS, **sealing(holdout=as_csv({"late": [0, 1] * 10}))).json()
    assert made["warnings"]


def test_dependence_is_declared_as_plain_data(http_client, tmp_path):
    columns = {**rows(5), "household": [number // 2 for number in range(1_000)]}
    made = http_client(STEWARD).post(
        HOLDOUTS, **sealing(holdout=as_csv(columns), dependence={"kind": "groups", "column": "household"})
    )
    assert made.status_code == 201, made.text
    with opened(tmp_path, "second") as holdout:
        assert holdout.mechanism.dependence.to_dict()["kind"] == "groups"


def test_a_column_is_declared_independent_and_one_that_is_not_there_is_refused(http_client, tmp_path):
    columns = {**rows(5), "clinic": [number % 40 for number in range(1_000)]}
    refused = http_client(STEWARD).post(HOLDOUTS, **sealing(holdout=as_csv(columns), independent=["klinik"]))
    assert refused.status_code == 409, refused.text
    assert "'klinik' cannot be declared independent" in refused.text
    made = http_client(STEWARD).post(HOLDOUTS, **sealing(holdout=as_csv(columns), independent=["clinic"]))
    assert made.status_code == 201, made.text
    assert "values of 'clinic' are taken to be independent" in made.json()["promise"]["sentence"]
    with opened(tmp_path, "second") as holdout:
        assert holdout.schema.independent == ("clinic",)


def test_an_upload_lies_in_a_private_folder_beside_the_rows(http_client, tmp_path, monkeypatch):
    from everhold_server.api import holdouts as module

    seen = {}

    def looking(path, what):
        seen[path.name] = [stat.S_IMODE(place.stat().st_mode) for place in (path, path.parent, path.parent.parent)]
        assert path.parent.parent.parent == tmp_path
        return named(path, what)

    named = module._named_by_content
    monkeypatch.setattr(module, "_named_by_content", looking)
    http_client(STEWARD).post(HOLDOUTS, **sealing())
    assert seen == {"0": [0o600, 0o700, 0o700]}


def test_rows_that_stay_in_an_engine_are_sealed_where_the_service_runs(http_client):
    refused = http_client(STEWARD).post(HOLDOUTS, **sealing(engine="postgresql://u:swordfish@db/x", table="t"))
    assert refused.status_code == 400
    assert "where the service runs" in refused.text
    assert "swordfish" not in refused.text


def test_a_holdout_whose_rows_stay_in_an_engine_is_found_by_the_environment(tmp_path, monkeypatch):
    served(monkeypatch)
    table = poured(tmp_path / "pond.db", "sealed", pd.DataFrame(rows(5)))
    wanted = {"label": "late", "queries": 20, "mechanism": "gaussian", "allow_vacuous": True}
    Holdout.create(tmp_path / "s.db", "study", holdout=table, **settings_from(wanted)).close()
    monkeypatch.setenv(ENGINE_VARIABLE, f"pond://steward:{PASSWORD}@{table.file}")
    holdouts = OpenHoldouts(f"sqlite:///{tmp_path / 's.db'}")
    steward = Principal(name="steward", role=Role.STEWARD, holdouts=None)
    assert holdouts.whole("study", steward).status()["engine"]["table"] == "sealed"
    holdouts.close()


REFUSED = {
    "a name that is taken": (409, sealing("study")),
    "a name that is a path": (422, sealing("../study")),
    "no rows": (400, {"data": {"settings": json.dumps({"name": "second"})}, "files": {"training": ("a", b"x\n1\n")}}),
    "another file": (400, form({"name": "second"}, part="settings", holdout=b"x\n1\n", key=b"1")),
    "a setting that nobody knows": (422, sealing(seed=1)),
    "an unknown column": (409, sealing(label="lost")),
    "a rule for missing values that is none": (409, sealing(missing="worst")),
    "a rule for a column that is not there": (409, sealing(missing={"lost": "drop"})),
    "no model": (409, sealing(dependence={"kind": "nonsense"})),
    "no table": (409, sealing(holdout=b"\xff\xfe\x00garbage\x00")),
    "packed": (409, sealing(holdout=b"\x1f\x8b\x08\x00" + b"\0" * 100)),
    "a broken Parquet file": (409, sealing(holdout=b"PAR1" + b"\xff" * 100 + b"PAR1")),
    "nothing at all": (409, sealing(holdout=b"")),
    "rows without end": (409, sealing(most_rows=10)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_sealed_leaves_nothing_behind(http_client, tmp_path, what):
    status, body = REFUSED[what]
    before = sorted(tmp_path.glob("study.rows/*"))
    response = http_client(STEWARD).post(HOLDOUTS, **body)
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json"), (
        response.text
    )
    assert sorted(tmp_path.glob("study.rows/*")) == before
    assert [line["name"] for line in http_client(STEWARD).get(HOLDOUTS).json()["holdouts"]] == ["study"]
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(("who", "status"), [(None, 401), (EVE, 403), (ADA, 403), ("steward:root:study", 403)])
def test_only_a_steward_of_that_name_seals(http_client, tmp_path, who, status):
    assert http_client(who).post(HOLDOUTS, **sealing()).status_code == status
    assert left_behind(tmp_path) == []


def test_everybody_sees_the_holdouts_that_are_theirs(http_client):
    http_client(STEWARD).post(HOLDOUTS, **sealing())
    names = {
        who: [line["name"] for line in http_client(who).get(HOLDOUTS).json()["holdouts"]]
        for who in (EVE, "analyst:ada:second", "viewer:eve:lost")
    }
    assert list(names.values()) == [["second", "study"], ["second"], []]
    assert http_client("analyst:ada:second").get(STUDY).status_code == 404


def test_a_storage_without_holdouts_lists_none(tmp_path):
    with serving(tmp_path) as http_client:
        assert http_client(EVE).get(HOLDOUTS).json()["holdouts"] == []


@pytest.mark.parametrize("who", [ADA, BOB, EVE, STEWARD])
def test_nobody_but_the_steward_sees_what_others_may_spend(http_client, who):
    said = http_client(who).get(STUDY)
    facts = said.json()["status"]["facts"]
    named = {name for name in ("ada", "bob") if name in {part["analyst"] for part in facts.get("allotments", [])}}
    assert named == {ADA: {"ada"}, BOB: {"bob"}, EVE: set(), STEWARD: {"ada", "bob"}}[who]
    others = {"ada", "bob"} - named
    assert not any(f'"{other}"' in said.text for other in others)


def test_an_analyst_sees_what_is_left_to_them(http_client, tmp_path):
    with opened(tmp_path) as holdout:
        mine = holdout.analyst("ada").remaining
    assert http_client(ADA).get(STUDY).json()["remaining"] == mine
    assert set(http_client("analyst:zoe").get(STUDY).json()["remaining"].values()) == {0}
    assert http_client(EVE).get(STUDY).json()["remaining"]["queries"] == 60


def test_examples_can_be_asked(http_client):
    said = http_client(ADA).get(STUDY).json()
    assert said["examples"]
    for example in said["examples"]:
        query = {"kind": "mean", "of": example.pop("query"), **{k: v for k, v in example.items() if k != "guess"}}
        assert http_client(ADA).post(STUDY + "/quote", json={"query": query}).status_code == 200
