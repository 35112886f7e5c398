"""Every kind of query can be asked over HTTP, with the answers that the library gives; refusals cost nothing."""

import json

import holdout_samples as samples
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import wire_samples
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

import everhold as eh
from everhold.queries import KINDS, Form
from everhold_server.wire.answers import result_from
from everhold_server.wire.queries import written


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("asked")


@pytest.fixture(scope="module")
def http_client(folder):
    seal(folder, ids=True)
    with serving(folder) as found:
        yield found


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """A holdout that is asked over HTTP, and one that is asked here, with the same noise."""
    folder = tmp_path_factory.mktemp("twins")
    wanted = {"queries": 100, "allow_vacuous": True}
    wire_samples.create(folder, "study", **wanted).close()
    with wire_samples.create(folder, "other", **wanted) as here, serving(folder, "wire.db") as found:
        yield found(STEWARD), here


def told(response):
    document = response.json()
    assert response.status_code == 200, document
    document.pop("warnings")
    return result_from(document)


def bare(result):
    """A result without what differs between two holdouts with the same rows."""
    return json.loads(json.dumps(result.to_dict()))


def parquet(table):
    sink = pyarrow.BufferOutputStream()
    columns = {name: np.asarray(values).tolist() for name, values in table.columns.items()}
    pyarrow.parquet.write_table(pyarrow.table(columns), sink)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS if kind.form is not Form.CODE])
def test_every_kind_of_query_has_the_same_answer_here_and_over_http(twins, kind):
    client, here = twins
    asked = wire_samples.queries()[kind]
    assert asked
    for query, again in zip(asked, wire_samples.queries()[kind], strict=True):
        document, tables = written(query)
        files = {name: parquet(table) for name, table in tables.items()}
        body = form({"query": document}, **files) if files else {"json": {"query": document}}
        there = client.post(STUDY + "/ask", **body)
        if there.status_code == 409:  # too sharp for so few rows, there as here
            with pytest.raises(eh.QueryRejected) as refused:
                here.ask(again)
            assert refused.value.told == there.json()["detail"]
        else:
            assert bare(told(there)) == bare(here.ask(again)), document


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS if kind.form is Form.CODE])
def test_code_is_never_taken(http_client, folder, kind):
    before = head(folder)
    response = http_client(STEWARD).post(STUDY + "/ask", json={"query": {"kind": kind, "of": "os.py:system"}})
    assert (response.status_code, head(folder)) == (409, before)
    assert "function" in response.json()["detail"]


def test_an_answer_is_in_the_ledger_and_free_another_time(http_client, folder):
    client = http_client(ADA)
    first = client.post(STUDY + "/ask", json={"query": "delay > 15"}).json()
    again = client.post(STUDY + "/ask", json={"query": " delay>15 "}).json()
    assert (first["repeated"], again["repeated"], again["charged"]) == (False, True, 0)
    assert again["value"] == first["value"]
    with opened(folder) as holdout:
        assert [row["asked"] for row in holdout.transcript().rows].count("mean of delay > 15") == 1


def test_what_one_analyst_asked_is_free_for_another_who_is_not_told_by_whom(http_client):
    http_client(ADA).post(STUDY + "/ask", json={"query": "delay > 20"})
    said = http_client(BOB).post(STUDY + "/ask", json={"query": "delay > 20"})
    assert (said.json()["repeated"], said.json()["charged"]) == (True, 0)
    assert '"ada"' not in said.text


def test_an_analyst_sees_what_was_new_of_theirs_and_a_steward_all(http_client):
    http_client(ADA).post(STUDY + "/ask", json={"query": "delay > 21"})
    http_client(BOB).post(STUDY + "/ask", json={"query": "delay > 22"})
    every = {
        who: {row["asked"] for row in http_client(who).get(STUDY + "/transcript").json()["rows"]}
        for who in (ADA, BOB, STEWARD)
    }
    assert "mean of delay > 21" in every[ADA] - every[BOB]
    assert "mean of delay > 22" in every[BOB] - every[ADA]
    assert every[STEWARD] >= every[ADA] | every[BOB]
    assert http_client(EVE).get(STUDY + "/transcript").status_code == 403


def test_answers_are_listed_the_newest_first_in_their_units_and_for_nobody_else(http_client):
    root, ada = http_client(STEWARD), http_client(ADA)
    first = root.post(STUDY + "/ask", json={"query": {"kind": "mean", "of": "delay", "low": -60, "high": 60}}).json()
    second = ada.post(STUDY + "/ask", json={"query": "delay > 14.5"}).json()
    page = root.get(STUDY + "/answers", params={"limit": 1}).json()
    assert [row["query"] for row in page["answers"]] == [second["query"]]
    (older, *_) = root.get(STUDY + "/answers", params={"before": page["next"]}).json()["answers"]
    assert (older["query"], older["value"], older["low"]) == (first["query"], first["value"], first["low"])
    mine, others = f"{STUDY}/answers/{page['answers'][0]['sequence']}", f"{STUDY}/answers/{older['sequence']}"
    hers = [row["query"] for row in ada.get(STUDY + "/answers").json()["answers"]]
    assert [hers[0] == second["query"], first["query"] in hers] == [True, False]
    assert ada.get(mine).json()["value"] == second["value"]
    assert [ada.get(others).status_code, root.get(others).status_code] == [404, 200]
    assert ada.get(others).json()["detail"] == ada.get(f"{STUDY}/answers/{2**40}").json()["detail"].replace(
        str(2**40), str(older["sequence"])
    )
    assert [http_client(who).get(mine).status_code for who in (BOB, EVE, None)] == [404, 403, 401]


def test_a_transcript_is_a_file_of_a_spreadsheet_or_of_parquet(http_client):
    client = http_client(STEWARD)
    client.post(STUDY + "/ask", json={"query": "-delay > 21", "guess": 0.2})
    rows = client.get(STUDY + "/transcript").json()["rows"]
    text = client.get(STUDY + "/transcript?format=csv")
    assert text.headers["content-type"].startswith("text/csv")
    assert len(text.text.splitlines()) == len(rows) + 1
    table = pyarrow.parquet.read_table(pyarrow.BufferReader(client.get(STUDY + "/transcript?format=parquet").content))
    assert table.num_rows == len(rows)


def test_a_quote_costs_nothing(http_client, folder):
    before = head(folder)
    price = told(http_client(ADA).post(STUDY + "/quote", json={"query": "delay > 44"}))
    any_price = told(http_client(ADA).post(STUDY + "/quote", json={}))
    assert (price.answered_before, any_price.query, head(folder)) == (False, None, before)


def test_several_queries_are_answered_in_order(http_client):
    asked = {"queries": ["delay > 1", "delay > 2"], "guesses": [0.5, None]}
    answers = http_client(STEWARD).post(STUDY + "/ask-many", json=asked).json()["answers"]
    assert [answer["shown"] for answer in answers] == ["mean of delay > 1", "mean of delay > 2"]
    assert [answer["source"] for answer in answers] == ["guess", "training"]


def test_everything_of_a_batch_is_told_where_that_was_asked_for(http_client):
    asked = {"queries": ["delay > 3", "delay > 4"], "guesses": [0.01, None], "reveal": "all"}
    answers = http_client(STEWARD).post(STUDY + "/ask-many", json=asked).json()["answers"]
    assert [(answer["source"], answer["charged"]) for answer in answers] == [("chosen", 0), ("chosen", 0)]
    assert http_client(STEWARD).post(STUDY + "/ask-many", json={**asked, "silent": True}).status_code == 409
    for wrong, said in (
        ({"reveal": "most"}, "body.reveal: Input should be 'checked' or 'all'"),
        ({"gess": 0.1}, "body.gess: There is no such field."),
    ):
        refused = http_client(STEWARD).post(STUDY + "/ask-many", json={**asked, **wrong})
        assert refused.status_code == 422
        assert said in refused.json()["detail"]


def test_an_answer_that_cannot_be_paid_for_is_refused_and_costs_nothing(http_client, folder):
    with opened(folder) as holdout:
        holdout.allot("carl", queries=0, charges=0)
    before = head(folder)
    said = http_client("analyst:carl").post(STUDY + "/ask", json={"query": "delay > 77"}).json()
    assert (said["source"], said["value"], said["charged"], head(folder)) == ("refused", None, 0, before)


def test_what_was_warned_of_comes_with_the_answer(http_client, folder, monkeypatch):
    from everhold.errors import DependenceWarning, warn_caller
    from everhold.operations.asking import Ask

    asked = Ask.perform

    def warning(self, session):
        warn_caller(DependenceWarning("these rows look alike"))
        return asked(self, session)

    monkeypatch.setattr(Ask, "perform", warning)
    said = http_client(ADA).post(STUDY + "/ask", json={"query": "delay > 15"}).json()
    assert said["warnings"] == ["these rows look alike"]


REFUSED = {
    "no column": {"query": "dely > 15"},
    "no query": {},
    "another key": {"query": "delay > 15", "seed": 1},
    "an infinite number": {"query": {"kind": "mean", "of": "delay", "low": -1e999, "high": 3}},
    "no kind": {"query": {"kind": "nonsense", "of": "delay"}},
    "a zero character": {"query": "delay > 1\0"},
    "half a character": {"query": "carrier = '\ud800'"},
    "a list": {"query": ["delay > 15"]},
    "a guess that is text": {"query": "delay > 15", "guess": "much"},
    "a guess beyond the range": {"query": "delay > 15", "guess": 7},
    "very deep": {"query": json.loads("[" * 60 + "]" * 60)},
    "a file that is not there": {"query": {"kind": "accuracy", "of": {"file": "lost"}}},
}


MALFORMED = ("no query", "another key", "a guess that is text")
UNREADABLE = ("an infinite number", "half a character")


@pytest.mark.parametrize("what", REFUSED)
def test_a_query_that_cannot_be_asked_costs_nothing(http_client, folder, what):
    before = head(folder)
    body = json.dumps(REFUSED[what])
    response = http_client(STEWARD).post(STUDY + "/ask", content=body, headers={"content-type": "application/json"})
    status = {**dict.fromkeys(UNREADABLE, 400), **dict.fromkeys(MALFORMED, 422)}.get(what, 409)
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    assert head(folder) == before


@pytest.mark.parametrize("where", ["quote", "ask", "ask-many", "transcript"])
def test_nobody_asks_without_a_token_or_for_another_holdout(http_client, folder, where):
    def call(client):
        verb, body = ("GET", {}) if where == "transcript" else ("POST", {"json": {"query": "delay > 15"}})
        return client.request(verb, f"{STUDY}/{where}", **body)

    before = head(folder)
    assert call(http_client()).status_code == 401
    assert call(http_client(EVE)).status_code == 403
    hidden = call(http_client("analyst:ada:other"))
    lost = http_client(ADA).get(f"{API}/holdouts/lost/transcript")
    if where != "ask-many":  # whose body is another one
        assert (hidden.status_code, lost.status_code) == (404, 404)
        assert hidden.json()["detail"].replace("study", "") == lost.json()["detail"].replace("lost", "")
    assert head(folder) == before


def test_an_analyst_without_an_allotment_is_told_to_ask_for_one(http_client):
    said = http_client("analyst:zoe").post(STUDY + "/ask", json={"query": "delay > 15"})
    assert said.status_code == 409
    assert "ada" not in said.text


def predictions(order=slice(None)):
    labels = (samples.rows(0)["delay"] > 5).astype(int)
    return as_csv({"id": np.array(IDS)[order], "late": labels[order]})


def test_predictions_are_joined_by_their_ids_in_any_order(http_client, folder):
    asked = {"query": {"kind": "accuracy", "of": {"file": "model"}}, "guess": 0.5}
    client = http_client(STEWARD)
    first = client.post(STUDY + "/ask", **form(asked, model=predictions())).json()
    turned = client.post(STUDY + "/ask", **form(asked, model=predictions(slice(None, None, -1)))).json()
    assert (turned["repeated"], turned["query"]) == (True, first["query"])
    assert left_behind(folder) == []


def test_an_upload_without_a_guess_asks_for_one_and_spends_nothing(http_client, folder):
    before = head(folder)
    asked = {"query": {"kind": "accuracy", "of": {"file": "model"}}}
    model = as_csv({"id": IDS, "late": (samples.rows(0)["delay"] > 11).astype(int)})
    for body in (form(asked, model=model), {"json": {"query": {"kind": "accuracy", "of": [1] * 1000}}}):
        said = http_client(STEWARD).post(STUDY + "/ask", **body)
        assert (said.status_code, head(folder), left_behind(folder)) == (409, before, [])
        assert "guess=0.8" in said.json()["detail"]


WRONG_IDS = {
    "missing": as_csv({"id": IDS[1:], "late": [1] * 999}),
    "twice": as_csv({"id": [*IDS, IDS[0]], "late": [1] * 1001}),
    "unknown": as_csv({"id": [*IDS[1:], "x"], "late": [1] * 1000}),
    "empty": as_csv({"id": ["", *IDS[1:]], "late": [1] * 1000}),
    "no column of ids": as_csv({"name": IDS, "late": [1] * 1000}),
}


@pytest.mark.parametrize("what", WRONG_IDS)
def test_wrong_ids_are_told_and_cost_nothing(http_client, folder, what):
    before = head(folder)
    asked = {"query": {"kind": "accuracy", "of": {"file": "model"}}, "guess": 0.5}
    response = http_client(STEWARD).post(STUDY + "/ask", **form(asked, model=WRONG_IDS[what]))
    assert (response.status_code, head(folder), left_behind(folder)) == (409, before, [])
    assert "id" in response.json()["detail"]


def test_an_analyst_who_has_predictions_for_sealed_features_has_seen_too_much(http_client, folder):
    before = head(folder)
    asked = {"kind": "difference", "queries": [{"kind": "error", "of": {"file": "model"}}, "delay > 3"]}
    for body in (
        form({"query": asked}, model=predictions()),
        {"json": {"query": {**asked["queries"][0], "of": [1] * 1000}}},
    ):
        response = http_client(ADA).post(STUDY + "/ask", **body)
        assert response.status_code == 409
        assert "sealed" in response.json()["detail"]
    rule = http_client(ADA).post(STUDY + "/quote", json={"query": {"kind": "accuracy", "of": "delay > 3"}})
    assert (rule.status_code, head(folder)) == (200, before)


def test_a_body_is_read_only_of_somebody_who_may_ask(http_client, monkeypatch):
    def unread(_):
        raise AssertionError("the body was read")

    with monkeypatch.context() as patch:
        patch.setattr("everhold_server.api.operations.content_of", unread)
        for who, status in ((EVE, 403), (None, 401)):
            assert http_client(who).post(f"{STUDY}/ask", json={"query": "delay > 3"}).status_code == status
    wrong = http_client(STEWARD).post(f"{API}/holdouts/no%2Astar/ask", json={"query": "delay > 3"})
    assert (wrong.status_code, "path.name" in wrong.json()["detail"]) == (422, True)
