"""Errors in one process keep their tracebacks; none leaves the service or the MCP server, and no log has locals."""

import json
import logging
import traceback

import anyio
import numpy as np
import pytest
from holdout_samples import ROWS, create, rows

import everhold as eh
from everhold_privacy.mechanisms.thresholdout import Thresholdout

pytestmark = pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning")

SEALED = 987654.321


@pytest.fixture
def holdout(tmp_path):
    mechanism = Thresholdout.tuned(rows=ROWS, queries=20, surprises=3)
    sealed = {**rows(0), "delay": np.full(ROWS, SEALED)}
    with create(tmp_path, holdout=sealed, mechanism=mechanism, allow_vacuous=True) as made:
        yield made


def fail(*_, **__):
    raise RuntimeError(f"a fault that quotes {SEALED}")


@pytest.fixture
def broken(monkeypatch):
    monkeypatch.setattr(Thresholdout, "answer_many", fail)


def test_an_error_shows_where_in_the_library_it_was_raised(holdout, broken):
    with pytest.raises(RuntimeError) as caught:
        holdout.ask("delay > 0")
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].name == "fail"
    assert any("everhold" in frame.filename for frame in frames)


def test_a_rejection_shows_where_it_was_raised_and_no_value(holdout):
    with pytest.raises(eh.QueryRejected) as caught:
        holdout.ask("unknown > 1")
    assert len(traceback.extract_tb(caught.value.__traceback__)) > 2
    assert "987654" not in "".join(traceback.format_exception(caught.value))


def test_nothing_of_a_fault_leaves_the_service_or_stands_in_its_log(holdout, broken, capfd, monkeypatch):
    testclient = pytest.importorskip("starlette.testclient")
    from everhold_server import Settings, make_app
    from everhold_server.logs import write_logs
    from everhold_server.principals import Role

    monkeypatch.setattr(logging.root, "handlers", [])
    write_logs()
    app = make_app(Settings(str(holdout._executor.store.database.path), address="http://127.0.0.1:8000"))
    with testclient.TestClient(app, "http://127.0.0.1:8000", raise_server_exceptions=False) as client:
        secret = app.state.token_store.make(Role.STEWARD, "grace", by="test").secret
        said = client.post(
            "/api/v1/holdouts/study/ask", json={"query": "delay > 0"}, headers={"authorization": f"Bearer {secret}"}
        )
    (line,) = [json.loads(each) for each in capfd.readouterr().err.splitlines() if '"fault"' in each]
    assert said.status_code == 500
    assert (line["fault"], line["status"]) == ("RuntimeError", 500)
    assert any(place.startswith("everhold.holdout:") for place in line["places"])
    for text in (said.text, json.dumps(line)):
        assert "987654" not in text
        assert ".py" not in text  # no path
        assert "Traceback" not in text


def test_nothing_of_a_fault_leaves_an_mcp_server(holdout, broken, capfd):
    pytest.importorskip("mcp")
    from mcp import Client

    from everhold_server.mcp.server import make_server

    async def called():
        async with Client(make_server(holdout)) as client:
            return await client.call_tool("ask", {"query": "delay > 0"})

    told = anyio.run(called)
    assert told.is_error
    for text in (told.model_dump_json(), *capfd.readouterr()):
        assert "987654" not in text
        assert "Traceback" not in text


def test_the_fault_of_a_function_on_public_rows_is_still_told(holdout):
    with pytest.raises(eh.QueryRejected) as caught:
        holdout.ask(eh.risk(np.zeros(ROWS), lambda predictions, labels: predictions / None, high=1))
    assert isinstance(caught.value.__cause__, TypeError)


def test_warnings_point_at_the_line_that_asked(tmp_path):
    with pytest.warns(eh.SmallHoldoutWarning) as caught:
        eh.Holdout.create(tmp_path / "s.db", holdout=rows(0, 50), mechanism="gaussian", queries=2).close()
    assert {warning.filename for warning in caught} == {__file__}
