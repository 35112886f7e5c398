"""Rows that arrive over HTTP: appended by stewards, listed with widths, asked window by window."""

import json
from io import BytesIO

import pytest
from client_samples import serving as serving_clients
from pyarrow import parquet
from service_samples import ADA, API, EVE, STEWARD, STUDY, as_csv, form, head, left_behind, rows, seal, serving
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.application import app

ARRIVALS = STUDY + "/arrivals"
GROWS = {"mechanism": None, "grows": True}


@pytest.fixture
def http_client(tmp_path):
    seal(tmp_path, **GROWS)
    with serving(tmp_path) as found:
        yield found


def append(client, seed=3, until="2026-02-01", **files):
    files = files or {"rows": as_csv(rows(seed))}
    return client.post(ARRIVALS, **form({"until": until}, part="settings", **files))


def test_a_steward_appends_and_everybody_sees_the_timeline(http_client, tmp_path):
    assert http_client(EVE).get(ARRIVALS).json()["arrivals"] == []
    said = append(http_client(STEWARD))
    assert said.status_code == 201, said.text
    assert (said.json()["arrival"], said.json()["within"] < said.json()["within_before"]) == (1, True)
    first, arrived, now = http_client(EVE).get(ARRIVALS).json()["arrivals"]
    assert (first["moment"], arrived["until"], now["moment"]) == ("at creation", "2026-02-01", "now")
    assert arrived["total"] == now["total"] == 2 * first["total"]
    assert now["within"] == arrived["within"]
    assert left_behind(tmp_path) == []
    acts = http_client(STEWARD).get(f"{API}/audit").json()["acts"]
    assert [act["facts"]["rows"] for act in acts if act["act"] == "append rows"] == [arrived["rows"]]


def test_the_same_request_again_appends_nothing(http_client, tmp_path):
    steward = http_client(STEWARD)
    first, before = append(steward).json(), head(tmp_path)
    again = append(steward)
    assert (again.status_code, again.json(), head(tmp_path)) == (201, first, before)
    assert append(steward, until="2026-03-01").status_code == 409


def test_a_request_whose_act_was_not_noted_before_a_kill_appends_nothing_again(http_client, tmp_path, monkeypatch):
    steward = http_client(STEWARD)
    first, before = append(steward).json(), head(tmp_path)
    monkeypatch.setattr("everhold_server.api.holdouts._arrived", lambda *_: None)
    again = append(steward)
    assert (again.status_code, again.json(), head(tmp_path)) == (201, first, before)


WRONG = {
    "nothing": ({}, {}),
    "other columns": ({}, {"rows": b"x\n1\n"}),
    "packed": ({}, {"rows": b"PK12345678"}),
    "another file": ({}, {"rows": as_csv(rows(5)), "holdout": as_csv(rows(6))}),
    "sealed rows": ({}, {"rows": as_csv(rows(0))}),
    "unknown setting": ({"mechanism": "x"}, {"rows": as_csv(rows(5))}),
}


def test_what_does_not_fit_changes_nothing(http_client, tmp_path):
    before, steward = head(tmp_path), http_client(STEWARD)
    for what, (document, files) in WRONG.items():
        said = steward.post(ARRIVALS, **form(document, part="settings", **files))
        assert (said.status_code in (400, 409, 415, 422), head(tmp_path)) == (True, before), (what, said.text)
    for who in (ADA, EVE):
        assert (append(http_client(who)).status_code, head(tmp_path)) == (403, before)


def test_few_rows_of_a_limited_token_are_no_test_of_guessed_rows(http_client, tmp_path):
    limited, before = http_client("steward:grace:study"), head(tmp_path)
    known = {name: values[:3] for name, values in rows(0).items()}
    new = {name: values[:3] for name, values in rows(8).items()}
    answers = {append(limited, rows=as_csv(table)).json()["detail"] for table in (known, new)}
    assert (len(answers), head(tmp_path)) == (1, before)
    assert "too few" in answers.pop()


def test_appends_count_as_sealings(tmp_path):
    seal(tmp_path, **GROWS)
    with serving(tmp_path, sealings_an_hour=1) as clients:
        steward = clients(STEWARD)
        assert [append(steward, seed).status_code for seed in (3, 4)] == [201, 429]


def test_the_client_appends_asks_as_of_and_over_time(tmp_path, monkeypatch):
    seal(tmp_path, **GROWS)
    with serving_clients(tmp_path) as service, service.connect(service.root) as remote:
        before = remote.ask("delay > 15")
        (tmp_path / "new.csv").write_bytes(as_csv(rows(3)))
        arrived = remote.append(tmp_path / "new.csv", until="2026-02-01")
        assert (arrived.arrival, remote.schema.rows) == (1, arrived.total)
        assert remote.ask("delay > 15").value is not None
        assert remote.ask("delay > 15", as_of=0).low == before.low
        with pytest.raises(eh.errors.QueryRejected, match="no arrival 7"):
            remote.ask("delay > 15", as_of=7)
        found = remote.over_time("delay > 15", by="month", law="one")
        assert [row["window"] for row in found.rows] == ["at creation", "2026-02"]
        assert found.one_law_is_credible
        (tmp_path / "more.csv").write_bytes(as_csv(rows(4)))
        monkeypatch.setenv("EVERHOLD_TOKEN", service.root)
        appended = CliRunner().invoke(app, ["append", service.address, "study", f"{tmp_path}/more.csv"])
        assert appended.exit_code == 0, appended.output
        assert [row["moment"] for row in remote.arrivals.timeline()] == ["at creation", "arrival 1", "arrival 2", "now"]
        with pytest.raises(eh.errors.HoldoutRejected, match="no rows"):
            remote.append()


def test_an_analyst_asks_over_time_from_the_allotment(http_client):
    append(http_client(STEWARD))
    said = http_client(ADA).post(STUDY + "/over-time", json={"query": "delay > 15"})
    assert [row["window"] for row in said.json()["rows"]] == ["at creation", "arrival 1"]
    left = http_client(ADA).get(STUDY).json()["remaining"]["queries"]
    assert left == 18
    assert http_client(EVE).post(STUDY + "/over-time", json={"query": "delay > 15"}).status_code == 403


def test_drift_is_charged_to_the_analyst_and_proved_over_http(http_client, tmp_path):
    append(http_client(STEWARD))
    ada, before = http_client(ADA), head(tmp_path)
    for wrong in (
        {"arrival": 7},
        {"columns": ["height"]},
        {"also": [{"kind": "histogram", "of": "delay", "bins": [0, 15]}]},
    ):
        said = ada.post(STUDY + "/drift", json=wrong)
        assert (said.status_code, head(tmp_path)) == (409, before), said.text
    assert http_client(EVE).post(STUDY + "/drift", json={}).status_code == 403
    said = ada.post(STUDY + "/drift", json={"columns": ["delay"], "also": ["delay > 40"]})
    assert said.status_code == 200, said.text
    assert [row["changed"] for row in said.json()["rows"]] == [False, False]
    assert ada.get(STUDY).json()["remaining"]["queries"] == 20 - 4
    assert ada.post(STUDY + "/drift", json={"columns": ["delay"], "also": ["delay > 40"]}).json() == said.json()


def test_the_client_and_the_command_line_ask_for_drift(tmp_path, monkeypatch):
    seal(tmp_path, **GROWS)
    with serving_clients(tmp_path) as service, service.connect(service.root) as remote:
        table = rows(3)
        (tmp_path / "new.csv").write_bytes(as_csv({**table, "delay": table["delay"] + 200.0}))
        remote.append(tmp_path / "new.csv")
        with pytest.warns(eh.errors.EverholdWarning, match="population changed with arrival 1"):
            found = remote.drift(columns=["delay"], also=["delay > 150"])
        assert (found.arrival, len(found), len(found.changed)) == (1, 2, 2)
        monkeypatch.setenv("EVERHOLD_TOKEN", service.root)
        said = CliRunner().invoke(app, ["drift", service.address, "study", "--columns", "delay", "--format", "json"])
        assert said.exit_code == 0, said.output
        assert list(found.changed[:1]) == json.loads(said.stdout)["changed"]


def test_the_client_and_the_command_line_retire_rows(tmp_path, monkeypatch):
    seal(tmp_path, **GROWS)
    with serving_clients(tmp_path) as service, service.connect(service.root) as remote:
        for late in (10, 20):  # surprises, so that a tree opens
            remote.ask(f"delay > {late}", guess=0.97)
        (tmp_path / "new.csv").write_bytes(as_csv(rows(3)))
        remote.append(tmp_path / "new.csv")
        with pytest.raises(eh.QueryRejected):
            remote.retire(5)
        with service.connect(service.ada) as analyst, pytest.raises(eh.AuthError):
            analyst.retire(1)
        opened = remote.retire(1)
        assert opened.num_rows == len(rows(0)["delay"])
        monkeypatch.setenv("EVERHOLD_TOKEN", service.root)
        to = tmp_path / "old.parquet"
        said = CliRunner().invoke(app, ["retire", service.address, "study", "1", "--to", str(to)])
        assert said.exit_code == 0, said.output
        assert parquet.read_table(to).equals(opened)


def test_stewards_open_old_rows_and_hear_the_same_again(http_client, tmp_path):
    steward = http_client(STEWARD)
    for late in (10, 20):  # surprises, so that a tree opens
        steward.post(STUDY + "/ask", json={"query": f"delay > {late}", "guess": 0.97})
    append(steward)
    before = head(tmp_path)
    for who, wanted, status in ((ADA, 1, 403), (EVE, 1, 403), (STEWARD, 5, 409), (STEWARD, 0, 422)):
        assert http_client(who).post(STUDY + "/retire", json={"before": wanted}).status_code == status
        assert head(tmp_path) == before
    opened = steward.post(STUDY + "/retire", json={"before": 1})
    assert opened.status_code == 200, opened.text
    assert parquet.read_table(BytesIO(opened.content)).num_rows == len(rows(0)["delay"])
    after = head(tmp_path)
    assert after != before
    again = steward.post(STUDY + "/retire", json={"before": 1})
    assert (again.content, head(tmp_path)) == (opened.content, after)


def test_a_champion_is_completed_over_http_and_by_the_client(http_client, tmp_path):
    gates, steward = STUDY + "/gates", http_client(STEWARD)
    steward.post(gates, json={"champion": "delay > 1000", "name": "rules"})
    append(steward)
    before = head(tmp_path)
    refused = http_client(ADA).post(gates + "/rules/challenges", json={"candidate": "delay > 15"})
    assert (refused.status_code, "no values" in refused.text) == (409, True)
    assert http_client(ADA).post(gates + "/rules/champion", json={"champion": "delay > 1000"}).status_code == 403
    assert steward.post(gates + "/rules/champion", json={"champion": "delay > 999"}).status_code == 409
    assert head(tmp_path) == before
    completed = steward.post(gates + "/rules/champion", json={"champion": "delay > 1000"})
    assert (completed.status_code, completed.json()["facts"]["rows_left"]) == (200, 0)
    verdict = http_client(ADA).post(gates + "/rules/challenges", json={"candidate": "delay > 15"}).json()
    assert verdict["challenges"] == 1


def test_the_client_completes_a_champion(tmp_path):
    seal(tmp_path, **GROWS)
    with serving_clients(tmp_path) as service, service.connect(service.root) as remote:
        gate = remote.gate("accuracy", champion=rows(0)["late"])
        remote.append(rows(3))
        assert gate.status()["rows_left"] == len(rows(3)["late"])
        gate.complete(rows(3)["late"])
        assert gate.status()["rows_left"] == 0
