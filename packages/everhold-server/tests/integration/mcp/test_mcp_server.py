"""The server as clients meet it: over stdio and HTTP, with nothing else on the wire, and no secret in any error."""

import importlib.util
import json
import logging
import os
import socket
import subprocess
import sys
import threading

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp_samples import SECRET, create, refused, told
from starlette.testclient import TestClient

from everhold.errors import EverholdError
from everhold_server.mcp import make_server
from everhold_server.mcp.advice import INSTRUCTIONS
from everhold_server.mcp.server import LOOPBACK, http_app, listening, serve_http, uvicorn_server
from everhold_server.mcp.tools import StatusOutput, Tools

PROGRAM = [sys.executable, "-c", "from everhold.cli import main; main()", "mcp"]
CALL = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "ask", "arguments": {"query": "z > 0"}},
}
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}  # fmt: skip
SPENDING = ("ask", "challenge", "open_challenge", "report", "withdraw", "over_time", "drift", "complete")
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@pytest.fixture
def holdout(tmp_path):
    with create(tmp_path) as made:
        yield made


def listed(holdout):
    async def agent():
        async with Client(make_server(holdout)) as client:
            return (await client.list_tools()).tools, client.instructions

    return anyio.run(agent)


def test_schemas_say_what_every_argument_and_every_result_means(holdout):
    tools, instructions = listed(holdout)
    assert [tool.name for tool in tools] == [
        "describe", "quote", "ask", "challenge", "status", "certificate", "worth_asking", "open_challenge", "report",
        "withdraw", "over_time", "drift", "complete",
    ]  # fmt: skip
    assert instructions == INSTRUCTIONS
    for tool in tools:
        assert len(tool.description) > 40
        assert tool.input_schema["additionalProperties"] is False
        assert all("description" in one for one in tool.input_schema["properties"].values())
        assert "next" in tool.output_schema["properties"]
        assert tool.annotations.idempotent_hint
        assert tool.annotations.read_only_hint == (tool.name not in SPENDING)
    (ask,) = (tool for tool in tools if tool.name == "ask")
    assert ask.input_schema["required"] == ["query"]


@pytest.mark.parametrize(
    "fault", [ValueError(SECRET), KeyError(SECRET), RuntimeError(SECRET), ExceptionGroup(SECRET, [OSError(SECRET)])]
)
def test_a_fault_that_quotes_rows_is_not_told_or_logged(holdout, monkeypatch, caplog, capfd, fault):
    def ask(*_, **__):
        raise fault

    monkeypatch.setattr(type(holdout), "ask", ask)
    message = refused(holdout, "ask", {"query": "z > 0"})
    assert "an error in everhold" in message
    assert SECRET not in message + caplog.text + "".join(capfd.readouterr())


def test_an_error_of_everhold_is_told_in_its_own_words(holdout, monkeypatch):
    def ask(*_, **__):
        raise EverholdError("The ledger is busy: another process has locked it. Nothing was charged, so try again.")

    monkeypatch.setattr(type(holdout), "ask", ask)
    assert refused(holdout, "ask", {"query": "z > 0"}).startswith("The ledger is busy")


def test_a_result_that_does_not_fit_its_schema_is_a_fault(holdout, monkeypatch):
    def status(_) -> StatusOutput:
        """Say something else than the schema promises."""
        return {"queries_asked": SECRET}

    monkeypatch.setattr(Tools, "status", status)
    assert "an error in everhold" in refused(holdout, "status")


def test_stdout_carries_the_protocol_and_nothing_else(tmp_path):
    create(tmp_path).close()
    messages = [HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, CALL]
    process = subprocess.Popen(
        [*PROGRAM, "--storage", str(tmp_path / "s.db"), "--holdout", "flights"], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    for message in messages:
        process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    replies = [json.loads(process.stdout.readline()) for _ in (1, 2)]
    rest, errors = process.communicate(timeout=60)
    assert [reply["id"] for reply in replies] == [1, 2]
    assert replies[1]["result"]["structuredContent"]["source"] == "training"
    assert (rest, errors, process.returncode) == ("", "", 0)


def test_the_sdks_client_starts_the_command_and_asks_on_behalf_of_an_analyst(tmp_path):
    with create(tmp_path) as holdout:
        holdout.allot("agent", queries=3, charges=1)
    arguments = ["--storage", str(tmp_path / "s.db"), "--holdout", "flights", "--analyst", "agent"]
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}  # a client hands on little of its environment
    command = StdioServerParameters(command=PROGRAM[0], args=[*PROGRAM[1:], *arguments], env=paths)

    async def agent():
        async with Client(command) as client:
            return (await client.call_tool("ask", {"query": "late = 1"})).structured_content

    assert anyio.run(agent)["left"] == {"queries": 2, "surprises": 1}


@pytest.fixture
def web(holdout):
    with TestClient(http_app(make_server(holdout), "127.0.0.1"), base_url="http://127.0.0.1:8000") as client:
        yield client


def test_requests_for_another_host_or_from_another_page_are_refused(web, holdout):
    before = holdout.status()
    assert web.post("/mcp", json=CALL, headers={**HEADERS, "host": "evil.example:8000"}).status_code == 421
    assert web.post("/mcp", json=CALL, headers={**HEADERS, "origin": "http://evil.example"}).status_code == 403
    assert holdout.status() == before
    answered = web.post("/mcp", json=CALL, headers={**HEADERS, "origin": "http://localhost:3000"})
    assert answered.status_code == 200
    assert holdout.status()["queries_asked"] == 1


def test_a_named_host_is_let_in_and_no_other(holdout):
    app = http_app(make_server(holdout), "0.0.0.0", ["lab.example:8000"])
    with TestClient(app, base_url="http://lab.example:8000") as client:
        assert client.post("/mcp", json=CALL, headers=HEADERS).status_code == 200
        assert client.post("/mcp", json=CALL, headers={**HEADERS, "host": "127.0.0.1:8000"}).status_code == 421


def test_an_address_that_others_reach_has_to_be_requested(holdout):
    with pytest.raises(ValueError, match="can be reached from other machines"):
        serve_http(make_server(holdout), host="0.0.0.0", port=0)
    assert all(http_app(make_server(holdout), host) for host in LOOPBACK)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("127.0.0.1", -1), ("no.such.host.invalid", 8000)])
def test_an_address_that_cannot_be_used_is_said(holdout, host, port):
    with pytest.raises(ValueError, match="cannot listen"):
        serve_http(make_server(holdout), host=host, port=port, allowed_hosts=["x:1"])


def test_answers_do_not_wait_for_more_to_send():
    with listening("127.0.0.1", 0) as taken, socket.create_connection(taken.getsockname()):
        connection, _ = taken.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_headers_without_end_are_refused(holdout):
    """The tests have httptools, which reads them all: uvicorn takes it unless another parser is named."""
    assert importlib.util.find_spec("httptools")
    server = uvicorn_server(http_app(make_server(holdout), "127.0.0.1"))
    with listening("127.0.0.1", 0) as taken, socket.create_connection(taken.getsockname(), timeout=10) as client:
        serving = threading.Thread(target=server.run, kwargs={"sockets": [taken]})
        serving.start()
        try:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
            with pytest.raises(ConnectionError):
                client.sendall((b"X-More: " + b"a" * 2**17 + b"\r\n") * 200)
        finally:
            server.should_exit = True
            serving.join()


def test_a_body_without_end_is_refused(web, monkeypatch):
    assert web.post("/mcp", content=b"[" * (2**26 + 1), headers=HEADERS).status_code == 413


def test_the_secret_would_be_found(holdout):
    """The samples look for it in all results: here it is."""
    with pytest.raises(AssertionError):
        told(holdout, "ask", {"query": f"kind = '{SECRET}"})


def test_serving_closes_no_handler_of_the_process(holdout):
    class Handler(logging.Handler):
        closed = False

        def close(self):
            self.closed = True
            super().close()

    handler = Handler()
    with pytest.raises(ValueError, match="cannot listen"):
        serve_http(make_server(holdout), host="127.0.0.1", port=99_999)
    assert not handler.closed
    handler.close()
