"""A holdout behind a service answers as the same holdout does on this machine, and the way to it is safe."""

import contextlib
import copy
import json
import pickle
import re
from dataclasses import asdict, replace

import holdout_samples as samples
import httpx
import numpy as np
import pandas as pd
import pytest
from client_samples import Answering, serving

import everhold as eh
from everhold.errors import (
    AuthError,
    BudgetExhausted,
    EverholdError,
    EverholdWarning,
    HoldoutNotFound,
    QueryRejected,
    warnings_collected,
)
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind
from everhold_server import client
from everhold_server.wire import connection
from everhold_server.wire.answers import told
from everhold_server.wire.connection import Connection

IDS = np.arange(samples.ROWS)
LABELS = samples.rows(0)["late"]
GUESSED = np.random.default_rng(7).integers(0, 2, samples.ROWS)
TRAINED = np.random.default_rng(8).integers(0, 2, samples.ROWS)
BY_ID = {"id": IDS[::-1], "said": GUESSED[::-1]}
TRAINED_BY_ID = {"said": TRAINED, "id": IDS + samples.ROWS}


def sealed(folder, name="study", **wanted):
    """The same rows and the same noise each time, so that two of them answer the same."""
    own = {"holdout": {"id": IDS, **samples.rows(0)}, "training": {"id": IDS + samples.ROWS, **samples.rows(1)}}
    return samples.create(folder, name, **{**own, "row_id": "id", "seed": 3, **wanted})


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch):
    for name in ("EVERHOLD_URL", "EVERHOLD_TOKEN", "EVERHOLD_INSECURE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(connection.time, "sleep", lambda seconds: None)


QUERIES = [
    "delay > 15",
    eh.mean("delay", low=-60, high=180),
    eh.mean("delay", low=-60, high=180, given="carrier = 'UA'"),
    eh.accuracy(GUESSED, training=TRAINED),
    eh.error(BY_ID, training=TRAINED_BY_ID),
    eh.accuracy("delay > 10"),
    eh.difference(eh.accuracy(BY_ID, training=TRAINED), eh.accuracy("delay > 10")),
    eh.histogram("carrier", ["AA", "UA"]),
    eh.risk_difference("late = 1", arm="carrier", treated="AA", control="UA"),
    eh.risk_ratio("late = 1", arm="carrier", treated="AA", control="UA", by="late", groups=[0]),
    eh.variance("delay", low=-60, high=180),
    eh.mean("delay", low=0, high=1),
]


def scenario(holdout):
    """Everything that can be asked and told, in order, here or elsewhere."""
    yield holdout.quote("delay > 15")
    yield holdout.quote()
    for query in QUERIES:
        yield holdout.ask(query)
    yield holdout.ask("delay > 15")
    yield from holdout.ask_many(["delay > 20", eh.accuracy(GUESSED, training=TRAINED)], guesses=[0.5, None])
    yield from holdout.ask_many(["delay > 19", eh.metric("f1_macro", GUESSED, training=TRAINED, where="delay > 2")])
    yield from holdout.ask_many(["delay > 21", "delay > 22"], reveal="all")
    yield holdout.compare(GUESSED, BY_ID["said"], guess=0.0)
    yield holdout.compare(GUESSED, 1 - np.asarray(GUESSED), "f1", guess=0.0)
    for metric in ("accuracy", "f1", "balanced_accuracy"):
        yield holdout.compare(GUESSED, BY_ID["said"], metric, guess=0.0, where="delay > 15")
    yield holdout.ask(eh.metric("f1_macro", GUESSED, training=TRAINED, where="delay > 15"))
    yield holdout.ask("delay > 33", silent=True)
    yield holdout.allot("mia", queries=4)
    yield holdout.allotments()
    gate = holdout.gate(eh.accuracy, champion="delay > 1000")
    yield gate.challenge(LABELS, training=samples.rows(1)["late"])
    yield gate.challenge("delay > 999")
    yield holdout.gate().champion
    yield holdout.gate().status()
    yield holdout.transcript()
    yield holdout.status()
    yield holdout.remaining
    yield holdout.affected_holdouts()
    yield holdout.unseal()
    yield holdout.ask("delay > 33")


_MOMENT = re.compile(r"20\d\d-\S+")
_MOMENTS = ("asked_at", "unsealed_at", "ledger_head", "name", "holdout")


def timeless(result):
    """A result as plain data, without what differs between two holdouts of the same rows: times and hashes."""
    plain = told(result) if not isinstance(result, (str, dict, list)) or hasattr(result, "to_dict") else result

    def bare(value):
        if isinstance(value, dict):
            return {name: bare(each) for name, each in value.items() if name not in _MOMENTS}
        return [bare(each) for each in value] if isinstance(value, (list, tuple)) else value

    return bare(plain)


def test_the_same_is_answered_here_and_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    sealed(tmp_path / "there").close()
    with sealed(tmp_path / "here") as here, serving(tmp_path / "there") as service:  # noqa: SIM117
        with warnings_collected(), service.connect(service.root) as there:
            assert there.schema == here.schema
            count = 0
            for local, remote in zip(scenario(here), scenario(there), strict=True):
                assert type(remote) is type(local)
                assert timeless(remote) == timeless(local)
                if hasattr(local, "explain"):
                    assert _MOMENT.sub("", remote.explain()) == _MOMENT.sub("", local.explain())
                count += 1
    assert count > 25


def test_two_different_queries_are_told_apart(tmp_path):
    """Otherwise the comparison above would hold of anything."""
    with sealed(tmp_path) as holdout:
        assert timeless(holdout.ask("delay > 15")) != timeless(holdout.ask("delay > 30"))


def test_certificates_and_competitions_arrive(tmp_path, monkeypatch):
    sealed(tmp_path).close()
    wanted = {"feedback": "score", "mechanism": None, "teams": 3, "submissions": 2, "allow_vacuous": True}
    with warnings_collected():
        sealed(tmp_path, "contest", **wanted).close()
    with serving(tmp_path) as service, warnings_collected():
        with service.connect(service.root) as holdout:
            answer = holdout.ask("delay > 15")
            certificate = holdout.certificate({"late flights": answer})
            certificate.save(tmp_path / "study.json")
            assert eh.verify_certificate(tmp_path / "study.json").ok
            assert "late flights" in str(certificate)
            assert "probability" in (holdout.promise.sentence or "")
        with service.connect(service.ada, "contest") as contest:
            assert contest.competition.check(BY_ID).team == "ada"
            received = contest.competition.submit(BY_ID, team="ada", guess=0.5)
            assert (received.team, received.number) == ("ada", 1)
            assert contest.competition.leaderboard()["ada"].submissions == 1
            with pytest.raises(AuthError, match="not for another team"):
                contest.competition.submit(BY_ID, team="owls")


def test_rows_are_sealed_from_files(tmp_path, monkeypatch):
    for name, seed in (("sealed", 0), ("open", 1)):
        rows = samples.rows(seed)
        lines = ["delay,late", *(f"{delay},{late}" for delay, late in zip(rows["delay"], rows["late"], strict=True))]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    with serving(tmp_path) as service, Connection(service.address, token=service.root) as way:
        files = {"holdout": tmp_path / "sealed.csv", "training": str(tmp_path / "open.csv")}
        made = client.create(way, "new", **files, label="late", queries=20, mechanism="guess_and_check", surprises=1)
        assert (made.schema.rows, made.schema.label) == (samples.ROWS, "late")
        assert [line["name"] for line in client.holdouts(way)] == ["new"]
        with pytest.raises(eh.HoldoutRejected, match=r"A holdout named .* exists"):
            client.create(way, "new", **files)


def test_tables_in_memory_are_sealed_and_appended(tmp_path):
    with serving(tmp_path) as service, Connection(service.address, token=service.root) as way:
        wanted = {"label": "late", "queries": 20, "mechanism": "guess_and_check"}
        made = client.create(way, "new", holdout=samples.rows(0), training=pd.DataFrame(samples.rows(1)), **wanted)
        arrived = made.append(pd.DataFrame(samples.rows(2)))
        assert (arrived.rows, made.status()["rows"]) == (samples.ROWS, 2 * samples.ROWS)
        with pytest.raises(eh.HoldoutRejected, match=r"rows are of type int\. Pass a path"):
            made.append(3)
        with pytest.raises(eh.HoldoutRejected, match="no rows to append"):
            made.append()
        assert made.status()["rows"] == 2 * samples.ROWS


def test_errors_are_those_of_this_machine(tmp_path, monkeypatch):
    sealed(tmp_path).close()
    with serving(tmp_path) as service:
        with pytest.raises(HoldoutNotFound, match="no holdout named 'others'"):
            service.connect(service.root, "others")
        with pytest.raises(HoldoutNotFound, match="no holdout named 'study'"):
            service.connect(service.other)
        with pytest.raises(AuthError, match="invalid, expired or revoked"):
            service.connect("eh_forged")
        with service.connect(service.root) as holdout:
            before = holdout.remaining
            with pytest.raises(QueryRejected, match="dely"):
                holdout.ask("dely > 15")
            with pytest.raises(QueryRejected, match="no gate 'gate'"):
                holdout.gate()
            with pytest.raises(QueryRejected, match="once"):
                holdout.ask(eh.accuracy({"id": IDS * 0, "said": GUESSED}))
            with pytest.raises(QueryRejected, match="Python function"):
                holdout.ask(eh.mean(lambda table: table["delay"] > 0))
            with pytest.raises(QueryRejected, match="trusted time"):
                holdout.certificate(timestamp="https://time.example")
            assert holdout.remaining == before
        with service.connect(service.eve) as holdout, pytest.raises(AuthError, match="needs the role"):
            holdout.ask("delay > 15")


def test_a_refused_answer_is_an_error_where_that_was_requested(tmp_path, monkeypatch):
    sealed(tmp_path).close()
    with serving(tmp_path) as service, warnings_collected():
        with service.connect(service.root) as holdout:
            holdout.allot("ada", queries=1, charges=1)
        with service.connect(service.ada) as holdout:
            holdout.ask("delay > 15")
            assert holdout.ask("delay > 30").refused
            with pytest.raises(BudgetExhausted, match="allotment"):
                holdout.ask("delay > 30", strict=True)


def test_large_arrays_travel_as_files_in_the_order_of_the_rows(tmp_path, monkeypatch):
    sealed(tmp_path).close()
    monkeypatch.setattr("everhold_server.wire.queries._MOST_INLINE", 10)
    with serving(tmp_path) as service, service.connect(service.root) as holdout:
        by_place = holdout.quote(eh.accuracy(GUESSED), guess=0.5)
        assert by_place.query == holdout.quote(eh.accuracy(BY_ID), guess=0.5).query


ANSWER = eh.Answer(0.5, 0.4, 0.6, "holdout", 1, {"queries": 3}, "ab", False, "S1", 0.95)
SCHEMA = told(Schema(9, 0, {"x": ColumnKind.NUMBER}))
DESCRIBED = httpx.Response(200, json={"schema": SCHEMA, "remaining": {"queries": 3}})
SAID = httpx.Response(200, json={**told(ANSWER), "warnings": []})


def remote(*responses, address="https://holdout.example", token="eh_secret", **wanted):
    service = Answering(DESCRIBED, *responses)
    return eh.connect(address, "study", token=token, transport=httpx.MockTransport(service), **wanted), service


def test_what_got_no_response_is_sent_again():
    lost = [httpx.ConnectError("no"), httpx.ReadTimeout("no"), httpx.Response(503, headers={"Retry-After": "1"})]
    holdout, service = remote(*lost, httpx.Response(429), SAID)
    assert holdout.ask("x > 0") == ANSWER
    assert len(service.requests) == 6
    assert len({request.content for request in service.requests[1:]}) == 1


def test_it_waits_as_long_as_it_was_asked_to(monkeypatch):
    waits = []
    monkeypatch.setattr(connection.time, "sleep", waits.append)
    asked = ("7", "99999", "0", "nan", "Wed, 21 Oct 2026 07:28:00 GMT")
    holdout, _ = remote(*(httpx.Response(503, headers={"Retry-After": said}) for said in asked), SAID)
    holdout.ask("x > 0")
    assert waits[:3] == [7.0, 60.0, 0.0]
    assert all(0.0 <= wait <= 10.0 for wait in waits[3:])


def test_patience_ends():
    holdout, service = remote(httpx.ConnectError("secret words"))
    with pytest.raises(EverholdError, match=r"cannot be reached \(ConnectError\)") as lost:
        holdout.ask("x > 0")
    assert len(service.requests) == 7
    assert "secret" not in str(lost.value)
    holdout, service = remote(httpx.Response(429, json={"title": "too many requests", "detail": "wait a minute"}))
    with pytest.raises(EverholdError, match="wait a minute"):
        holdout.ask("x > 0")


def test_an_act_is_sent_again_after_a_lost_response():
    part = {"result": "allotment", "analyst": "ada", "queries": 1, "charges": 1, "asked": 0, "charged": 0}
    holdout, service = remote(httpx.ReadError("no"), httpx.Response(200, json=part))
    assert holdout.allot("ada/../x", queries=1).queries == 1
    assert len(service.requests) == 3
    assert service.requests[1].url.raw_path == b"/api/v1/holdouts/study/allotments/ada%2F..%2Fx"


def test_a_token_is_created_once():
    """A second one would be another token: the request is repeated only if it cannot have arrived."""
    for lost, requests in ((httpx.ReadError("no"), 1), (httpx.ConnectError("no"), 2)):
        service = Answering(lost, httpx.Response(201, json={}))
        way = Connection("https://holdout.example", token="eh_secret", transport=httpx.MockTransport(service))
        with way, contextlib.suppress(EverholdError):
            way.send("POST", "/tokens", {"name": "ada"}, repeatable=False)
        assert len(service.requests) == requests


def test_a_form_is_the_same_bytes_each_time(tmp_path):
    (tmp_path / "rows.csv").write_text("x\n1\n")
    service = Answering(httpx.ReadError("no"), httpx.Response(201, json={}), DESCRIBED)
    with Connection("https://holdout.example", token="eh_secret", transport=httpx.MockTransport(service)) as way:
        client.create(way, "study", holdout=tmp_path / "rows.csv", training=None, dependence=eh.Groups("x"), label=None)
    first, second, _ = service.requests
    assert first.headers["Content-Type"] == second.headers["Content-Type"]
    assert first.content == second.content
    assert b"x\n1\n" in first.content
    assert b'{"name": "study", "dependence": {"kind": "groups", "column": "x"' in first.content


def test_a_lost_file_is_asked_for_again_and_another_content_is_no_file():
    lost, page = httpx.ReadError("no"), httpx.Response(200, html="<p>Sign in</p>")
    file = httpx.Response(200, content=b"PAR1", headers={"Content-Type": "application/vnd.apache.parquet"})
    service = Answering(lost, file, page)
    with Connection("https://holdout.example", token="eh_secret", transport=httpx.MockTransport(service)) as way:
        wanted = {"media_type": "application/vnd.apache.parquet"}
        assert way.download("/holdouts/study/retire", {"before": 1}, **wanted) == b"PAR1"
        with pytest.raises(EverholdError, match="status 200"):
            way.download("/holdouts/study/retire", {"before": 1}, **wanted)
    first, second, _ = service.requests
    assert (first.url, first.content) == (second.url, second.content)


def test_the_token_goes_to_its_own_service_alone(monkeypatch):
    holdout, service = remote(httpx.Response(307, headers={"Location": "https://elsewhere.example/"}))
    with pytest.raises(EverholdError, match="status 307"):
        holdout.ask("x > 0")
    assert {request.url.host for request in service.requests} == {"holdout.example"}
    assert service.requests[0].headers["Authorization"] == "Bearer eh_secret"
    monkeypatch.setenv("EVERHOLD_TOKEN", "eh_of_the_environment")
    monkeypatch.setenv("EVERHOLD_URL", "https://holdout.example")
    assert "Authorization" in remote(token=None)[1].requests[0].headers
    assert "Authorization" in remote(token=None, address=None)[1].requests[0].headers
    assert "Authorization" not in remote(token=None, address="https://other.example")[1].requests[0].headers
    assert "Authorization" not in remote(token=None, address="https://holdout.example:444")[1].requests[0].headers
    monkeypatch.delenv("EVERHOLD_URL")
    assert "Authorization" in remote(token=None, address="https://other.example")[1].requests[0].headers


def test_a_token_does_not_travel_in_the_clear(monkeypatch):
    with pytest.raises(AuthError, match="unencrypted") as refusal:
        remote(address="http://holdout.example")
    assert "eh_secret" not in str(refusal.value)
    for address in ("http://localhost:8000", "http://127.0.0.1", "http://[::1]:80"):
        remote(address=address)
    remote(address="http://holdout.example", token=None)
    remote(address="http://holdout.example", insecure=True)
    monkeypatch.setenv("EVERHOLD_INSECURE", "1")
    remote(address="http://holdout.example")


@pytest.mark.parametrize("address", ["a.db", "ftp://host", "https://", "https://me:word@host", "https://h?x=1", None])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ValueError, match="address") as refusal:
        remote(address=address)
    assert "word" not in str(refusal.value)


@pytest.mark.parametrize("token", ["eh_a\nX: y", "eh_ä", "eh a"])
def test_what_cannot_be_a_token_is_refused_and_not_shown(token):
    with pytest.raises(AuthError, match="cannot be sent") as refusal:
        remote(token=token)
    assert token not in str(refusal.value)


def test_nothing_shows_or_keeps_the_token():
    holdout, _ = remote(httpx.Response(200, text="<html>"))
    assert "eh_secret" not in f"{holdout!r} {holdout._transport.connection!r} {vars(holdout)}"
    assert copy.deepcopy(holdout) is holdout
    assert b"eh_secret" not in pickle.dumps(holdout._transport.connection)
    with pytest.raises(EverholdError, match="without a reason") as fault:
        holdout.ask("x > 0")
    assert "eh_secret" not in f"{fault.value!r} {fault.value.data}"


def test_a_connection_is_pickled_as_its_address():
    made = pickle.loads(pickle.dumps(Connection("https://holdout.example/below/", token="eh_secret")))
    assert repr(made) == "Connection('https://holdout.example/below')"
    assert "Authorization" not in made._client.headers


def test_warnings_of_the_service_are_warnings_here():
    holdout, _ = remote(httpx.Response(200, json={**told(ANSWER), "warnings": ["rows depend on each other"]}))
    with pytest.warns(EverholdWarning, match="depend on each other") as caught:
        assert holdout.ask("x > 0") == ANSWER
    assert caught[0].filename == __file__


def test_what_is_no_result_is_refused():
    holdout, _ = remote(httpx.Response(200, json={"result": "answer"}))
    with pytest.raises(ValueError, match="Update everhold"):
        holdout.ask("x > 0")


def test_numbers_of_numpy_are_sent_as_numbers():
    holdout, service = remote(SAID)
    holdout.ask("x > 0", guess=np.float32(0.5), tolerance=np.int64(1))
    assert json.loads(service.requests[-1].content) == {
        "query": "x > 0", "guess": 0.5, "tolerance": 1
    }  # fmt: skip


def test_numbers_that_are_none_and_closed_connections_are_refused_in_words():
    holdout, service = remote(SAID)
    for unsaid in ({"query": "x > 0", "guess": float("nan")}, {"query": "g = '\ud800'"}):
        with pytest.raises(QueryRejected, match="not finite, or a text with half a character"):
            holdout.ask(**unsaid)
    assert [request.method for request in service.requests] == ["GET"]  # the schema
    holdout.close()
    with pytest.raises(EverholdError, match="connection to the service was closed"):
        holdout.ask("x > 0")


def test_strict_raises_what_the_answer_says():
    refused = replace(ANSWER, value=None, low=None, high=None, source="refused")
    holdout, _ = remote(httpx.Response(200, json=told(refused)))
    with pytest.raises(BudgetExhausted) as fault:
        holdout.ask("x > 0", strict=True)
    assert fault.value.data["source"] == "refused"
    assert asdict(refused)["value"] is None


def test_without_the_package_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "httpx", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'everhold\[client\]'"):
        eh.connect("https://holdout.example")


def test_families_are_declared_listed_and_created_from_elsewhere(tmp_path):
    samples.create(tmp_path, mechanism=None).close()
    with serving(tmp_path) as service, service.connect(service.root) as remote:
        remote.declare("ends", eh.listed(["delay > 15", eh.mean("delay", low=-60, high=180)], weights=[0.5, 0.25]))
        remote.declare_all({"texts": eh.texts(40)})
        with eh.Holdout.open(f"sqlite:///{tmp_path}/study.db", "study") as local:
            assert remote.declared.families() == local.declared.families()
            assert remote.status()["worth"] == local.status()["worth"]
        assert remote.ask("delay > 15").source == "declared"
        with pytest.raises(QueryRejected, match="plain data"):
            remote.declare("models", eh.listed([eh.accuracy(GUESSED)]))
        with service.connect(service.ada) as ada, pytest.raises(EverholdError):
            ada.declare("mine", eh.texts(20))
