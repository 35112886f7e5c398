"""An agent at a gate about cases: opens a challenge, runs what is handed out, reports."""

import anyio
import pytest
from mcp import Client

import everhold as eh
from everhold_server.mcp import make_server

CASES = 40


@pytest.fixture
def suite(tmp_path):
    first = {f"t{n}": int(n < 4) for n in range(CASES)}
    with eh.seal_cases(f"{tmp_path}/suite.db", results=first, better="passed") as made:
        yield made


async def called(client, name, **arguments):
    reply = await client.call_tool(name, arguments)
    return reply.structured_content, "".join(part.text for part in reply.content)


def test_an_agent_reports_until_it_is_promoted(suite):
    async def agent():
        async with Client(make_server(suite)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names[-3:] == ["open_challenge", "next_cases", "report"]
            _, early = await called(client, "next_cases", challenger="v2")
            assert "no challenge is open" in early
            told, _ = await called(client, "open_challenge", challenger="v2")
            while told["cases"]:
                cases = told["cases"]
                _, wrong = await called(client, "report", challenger="v2", results={"x": [{"passed": 1}]})
                assert "nothing was charged" in wrong
                done, _ = await called(
                    client, "report", challenger="v2", results={case: [{"passed": 1.0}] for case in cases}
                )
                if done["verdict"] != "go on":
                    return done, cases
                told, _ = await called(client, "next_cases", challenger="v2")
            return None

    done, _ = anyio.run(agent)
    assert done["verdict"] == "promoted"
    assert done["reported"] < CASES
