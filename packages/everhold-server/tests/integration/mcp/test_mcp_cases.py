"""An agent at a gate about cases: opens a challenge, runs what is handed out, reports."""

import os
import sys

import anyio
import anyio.from_thread
import pytest
from mcp import Client, StdioServerParameters
from starlette.testclient import TestClient

import everhold as eh
from everhold.errors import warnings_collected
from everhold_server.mcp import make_server
from everhold_server.mcp.server import http_app

CASES = 40


@pytest.fixture
def suite(tmp_path):
    first = {f"t{n}": int(n < 4) for n in range(CASES)}
    with eh.seal_cases(f"{tmp_path}/suite.db", results=first, better="passed") as made:
        yield made


async def called(client, name, **arguments):
    reply = await client.call_tool(name, arguments)
    return reply.structured_content, "".join(part.text for part in reply.content)


def passes(version, case):
    """Whether a version passes a case: more of them do from one version to the next."""
    return int((7 * int(case[1:])) % NIGHT < 6 + 3 * version)


def played(call):
    """A night of 20 challenges by a client that does what replies say, with the verdicts and calls of each."""
    told, refused = call("describe", {})
    assert not refused
    assert "call open_challenge" in told["next"]
    night = []
    for version in range(20):
        told, refused = call("open_challenge", {"challenger": f"v{version}"})
        calls = 1
        while told["cases"]:
            results = {case: [passes(version, case)] for case in told["cases"]}
            told, wrong = call("report", {"challenger": f"v{version}", "results": results})
            calls, refused = calls + 1, refused or wrong
        assert not refused
        night.append((told["verdict"], calls))
    return night


NIGHT = 60


@pytest.fixture
def night(tmp_path):
    results = {f"t{number}": passes(0, f"t{number}") for number in range(NIGHT)}
    eh.seal_cases(f"{tmp_path}/night.db", results=results, better="passed").close()
    return f"{tmp_path}/night.db"


def check_night(told):
    assert max(calls for _, calls in told) <= 6
    verdicts = [verdict for verdict, _ in told]
    assert len(verdicts) == 20
    assert {*verdicts} == {"promoted", "kept"}


def test_a_night_of_20_challenges_over_stdio_has_no_wrong_call(night):
    program = ["-c", "from everhold.cli import main; main()", "mcp", "--storage", night, "--holdout", "suite"]
    command = StdioServerParameters(
        command=sys.executable, args=program, env={"PYTHONPATH": os.pathsep.join(sys.path)}
    )  # fmt: skip

    async def agent():
        async with Client(command) as client:
            tools = (await client.list_tools()).tools
            lengths = [len(tool.model_dump_json(by_alias=True, exclude_none=True)) for tool in tools]

            async def asked(name, arguments):
                reply = await client.call_tool(name, arguments)
                return reply.structured_content, reply.is_error

            told = await anyio.to_thread.run_sync(lambda: played(lambda *call: anyio.from_thread.run(asked, *call)))
            return [tool.name for tool in tools], lengths, client.instructions, told

    names, lengths, instructions, told = anyio.run(agent)
    assert names == ["describe", "worth_asking", "open_challenge", "report", "withdraw", "status"]
    assert sum(lengths) < 8_000
    assert [line[:2] for line in instructions.splitlines()[1:]] == ["1.", "2.", "3.", "4.", "5."]
    check_night(told)


def test_a_night_of_20_challenges_over_http_has_no_wrong_call(night):
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    with (
        eh.Holdout.open(night, "suite") as suite,
        TestClient(http_app(make_server(suite), "127.0.0.1"), base_url="http://127.0.0.1:8000") as web,
    ):

        def call(name, arguments):
            asked = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": name, "arguments": arguments},
            }
            result = web.post("/mcp", json=asked, headers=headers).json()["result"]
            return result.get("structuredContent"), result.get("isError", False)

        check_night(played(call))


def test_every_refusal_names_a_call_that_goes_on(suite):
    async def agent():
        async with Client(make_server(suite)) as client:
            told, _ = await called(client, "open_challenge", challenger="v2")
            right = {case: [1] for case in told["cases"]}
            for name, wrong in (
                ("open_challenge", {"challenger": "v3"}), ("report", {"challenger": "v3", "results": {}}),
                ("report", {"challenger": "v2", "results": {"x": [1]}}), ("report", {"challenger": "v2"}),
                ("report", {"challenger": "v2", "results": right | {told["cases"][0]: ["high"]}}),
                ("withdraw", {"challenger": "v3"}), ("describe", {"case": 1}),
                ("worth_asking", {"challenger": "v3", "results": {}}),
                ("open_challenge", {"challenger": "v2" * 60}),
            ):  # fmt: skip
                _, refused = await called(client, name, **wrong)
                assert "Next: call report with challenger 'v2' and its 10 cases, which status lists" in refused
                assert "othing was c" in refused
            status, _ = await called(client, "status")
            assert status["cases"] == told["cases"]
            while told["verdict"] is None:
                results = {case: [1] for case in told["cases"]}
                told, _ = await called(client, "report", challenger="v2", results=results)
            assert told["verdict"] == "promoted"
            assert "has to have run all cases" in told["next"]
            _, refused = await called(client, "open_challenge", challenger="v3")
            assert "Next: call report with challenger 'v2', the champion" in refused
            status, _ = await called(client, "status")
            assert status["cases"] == told["cases"]
            told, _ = await called(client, "report", challenger="v2", results={case: [1] for case in status["cases"]})
            assert (told["cases"], "open_challenge" in told["next"]) == ([], True)
            told, _ = await called(client, "open_challenge", challenger="v3", batch=CASES)
            assert len(told["cases"]) == CASES

    anyio.run(agent)


def test_a_gate_that_is_opened_while_an_agent_is_connected_can_be_challenged(tmp_path):
    rows = {"case": [f"t{n}" for n in range(CASES)]}
    with warnings_collected(), eh.Holdout.create(
        tmp_path / "s.db", "later", holdout=rows, rows=eh.Rows(row_id="case"), queries=20,
        mechanism="guess_and_check", planning=eh.Planning(allow_vacuous=True),
    ) as later:  # fmt: skip

        async def agent():
            async with Client(make_server(later)) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                _, none = await called(client, "open_challenge", challenger="v2")
                first = {f"t{n}": [{"passed": 0.0}] for n in range(CASES)}
                later.gate(name="main", better="passed", champion=first)
                told, why = await called(client, "open_challenge", challenger="v2")
                return names, none, told, why

        names, none, told, why = anyio.run(agent)
    assert {"worth_asking", "open_challenge", "report", "withdraw"} <= {*names}
    assert "Gates about cases: none" in none
    assert told is not None, why
    assert told["cases"]


def test_a_lost_name_is_found_and_withdrawn(suite):
    suite.gate(name="main").open("lost name")

    async def agent():
        async with Client(make_server(suite)) as client:
            status, _ = await called(client, "status")
            lost = status["facts"]["open_challenge"]
            _, blocked = await called(client, "open_challenge", challenger="mine")
            done, _ = await called(client, "withdraw", challenger=lost["challenger"])
            free, _ = await called(client, "open_challenge", challenger="mine")
            return lost, blocked, done, free

    lost, blocked, done, free = anyio.run(agent)
    assert lost["challenger"] == "lost name"
    assert "'lost name'" in blocked
    assert done["verdict"] == "kept"
    assert free["cases"]


def test_another_analyst_sees_and_touches_nothing_of_an_open_challenge(suite):
    for name in ("ada", "bob"):
        suite.allot(name, queries=9, charges=2)
    (first, *_) = suite.analyst("ada").gate(name="main").open("secret name").next_cases()

    async def agent():
        async with Client(make_server(suite.analyst("bob"))) as client:
            status = (await called(client, "status"))[1] + (await called(client, "describe"))[1]
            sent = {"challenger": "secret name", "results": {first: [{"passed": 1.0}]}}
            acts = [("open_challenge", "challenger"), ("withdraw", "challenger")]
            replies = [(await called(client, name, **{wanted: sent[wanted]}))[1] for name, wanted in acts]
            return status, [*replies, (await called(client, "report", **sent))[1]]

    status, replies = anyio.run(agent)
    assert "secret name" not in status
    assert all("Another analyst" in reply and "call status until it has ended" in reply for reply in replies)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("report", {"challenger": "", "results": {}}, "cannot be used"),
        ("open_challenge", {"challenger": "x" * 101}, "cannot be used"),
        ("report", {"challenger": "v", "results": {"t1": 1}}, "report cannot use 'results'"),
        ("report", {"challenger": "v", "results": {}, "gate": ""}, "Gates about cases: 'main'"),
        ("status", {"gate": "gate"}, "Next: call describe with a gate, one of 'main'."),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(suite, name, arguments, said):
    async def agent():
        async with Client(make_server(suite)) as client:
            return (await called(client, name, **arguments))[1]

    assert said in anyio.run(agent)
