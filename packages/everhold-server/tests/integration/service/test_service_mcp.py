"""Agents reach a holdout with a token, ask as its analyst, and find nothing with another."""

import contextlib
import threading
import time

import anyio
import httpx
import pytest
import uvicorn
from app_samples import http_client, make, seal, token
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_samples import asked, calling

from everhold.holdout import Holdout
from everhold_server.principals import Role


@pytest.fixture
def app(tmp_path):
    storage = seal(tmp_path, "flights", "trains")
    with Holdout.open(storage, "flights") as holdout:
        holdout.allot("agent", queries=2, charges=1)
    return make(storage)


def test_an_agent_is_not_told_what_others_may_spend(app, tmp_path):
    with Holdout.open(tmp_path / "s.db", "flights") as holdout:
        holdout.allot("somebody else", queries=3, charges=1)
    with http_client(app, token(app, Role.ANALYST, "agent")) as client:
        for name in ("status", "describe", "quote"):
            told = asked(client, call=calling(name))
            assert told.status_code == 200
            assert "somebody else" not in told.text
    with http_client(app, token(app)) as steward:
        assert "somebody else" in asked(steward, call=calling("status")).text


def test_an_agent_asks_as_the_analyst_of_its_token(app):
    with http_client(app, token(app, Role.ANALYST, "agent")) as client:
        assert len(asked(client).json()["result"]["tools"]) == 13
        status = asked(client, call=calling("status")).json()["result"]["structuredContent"]
        assert status["left"] == {"queries": 2, "surprises": 1}
        told = asked(client, call=calling("ask", query="delay > 15", guess=0.37)).json()["result"]
        assert told["structuredContent"]["left"]["queries"] == 1
    with http_client(app, token(app)) as steward:
        assert asked(steward, call=calling("status")).json()["result"]["structuredContent"]["left"]["queries"] == 99


@pytest.mark.parametrize(
    ("role", "name", "scope", "code"),
    [
        (Role.ANALYST, "agent", ["trains"], 404),  # the token of another holdout
        (Role.VIEWER, "agent", None, 403),
        (Role.ANALYST, "nobody", None, 409),  # without an allotment
    ],
)
def test_a_token_that_may_not_is_refused_before_anything_is_listed(app, role, name, scope, code):
    with http_client(app, token(app, role, name, holdouts=scope)) as client:
        answer = asked(client)
        assert answer.status_code == code
        assert "tools" not in answer.text
        if code == 404:
            other = asked(client, "never")
            assert other.json()["detail"] == answer.json()["detail"].replace("flights", "never")


def test_a_wrong_or_revoked_token_calls_nothing(app):
    text = token(app, Role.ANALYST, "agent")
    with http_client(app, text) as client:
        assert asked(client).status_code == 200
        app.state.token_store.revoke(text.split("_")[1])
        assert asked(client).status_code == 401
    with http_client(app) as stranger:
        assert asked(stranger).status_code == 401
        assert asked(stranger, authorization="Bearer eh_1_2").status_code == 401
        assert stranger.get("/mcp/flights").status_code == 405


@contextlib.contextmanager
def listening(app):
    """The app at a port of this machine."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join()


def test_the_sdks_client_asks_and_is_refused_with_a_wrong_token(app):
    async def agent(port, text):
        headers = {"authorization": f"Bearer {text}", "host": "127.0.0.1:8000"}
        async with httpx.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp/flights", http_client=http)
            async with Client(transport) as client:
                return (await client.call_tool("ask", {"query": "delay > 15", "guess": 0.37})).structured_content

    with listening(app) as port:
        assert anyio.run(agent, port, token(app, Role.ANALYST, "agent"))["source"] in ("guess", "holdout")
        with pytest.raises(BaseExceptionGroup):
            anyio.run(agent, port, "eh_1_2")
        with pytest.raises(BaseExceptionGroup):
            anyio.run(agent, port, token(app, Role.ANALYST, "agent", holdouts=["trains"]))
