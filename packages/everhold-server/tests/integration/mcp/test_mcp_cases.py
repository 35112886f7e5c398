"""An agent at a gate about cases: opens a challenge, runs what is handed out, reports."""

import anyio
import pytest
from mcp import Client

import everhold as eh
from everhold.errors import warnings_collected
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
            _, early = await called(client, "next_cases", challenger="v2")
            assert "No challenge 'v2' is open" in early
            told, _ = await called(client, "open_challenge", challenger="v2")
            assert f"cases of {CASES} cases x 1 run" in told["says"]
            while told["cases"]:
                cases = told["cases"]
                _, wrong = await called(client, "report", challenger="v2", results={"x": [{"passed": 1}]})
                assert "nothing was charged" in wrong
                done, _ = await called(
                    client, "report", challenger="v2", results={case: [{"passed": 1.0}] for case in cases}
                )
                if done["verdict"] != "go on":
                    assert "cases_left" in done["next"]
                    _, refused = await called(client, "open_challenge", challenger="v3")
                    assert "cases_left" in refused
                    left, _ = await called(client, "cases_left")
                    rest = {case: [{"passed": 1.0}] for case in left["cases"]}
                    told, _ = await called(client, "complete", results=rest)
                    assert told["rows_left"] == 0
                    told, _ = await called(client, "open_challenge", challenger="v3")
                    assert told["cases"]
                    return done, cases
                told, _ = await called(client, "next_cases", challenger="v2")
            return None

    done, _ = anyio.run(agent)
    assert done["verdict"] == "promoted"
    assert done["reported"] < CASES


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
    assert {"open_challenge", "report", "withdraw", "next_cases", "cases_left", "complete"} <= {*names}
    assert "Gates about cases: none" in none
    assert told is not None, why
    assert told["cases"]


def test_a_lost_name_is_found_and_withdrawn(suite):
    suite.gate(name="main").open("lost name")

    async def agent():
        async with Client(make_server(suite)) as client:
            status, _ = await called(client, "status")
            (lost,) = status["facts"]["open_challenges"]
            _, blocked = await called(client, "open_challenge", challenger="mine")
            done, _ = await called(client, "withdraw", challenger=lost["challenger"])
            free, _ = await called(client, "open_challenge", challenger="mine")
            return lost, blocked, done, free

    lost, blocked, done, free = anyio.run(agent)
    assert (lost["gate"], lost["challenger"]) == ("main", "lost name")
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
            acts = [("open_challenge", "challenger"), ("next_cases", "challenger"), ("withdraw", "challenger")]
            replies = [(await called(client, name, **{wanted: sent[wanted]}))[1] for name, wanted in acts]
            return status, [*replies, (await called(client, "report", **sent))[1]]

    status, replies = anyio.run(agent)
    assert "secret name" not in status
    assert all("Another analyst" in reply for reply in replies)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("report", {"challenger": "", "results": {}}, "cannot be used"),
        ("open_challenge", {"challenger": "x" * 101}, "cannot be used"),
        ("report", {"challenger": "v", "results": {"t1": 1}}, "report cannot use 'results'"),
        ("challenge", {"rule": "1 = 1"}, "There is no gate to choose. Gates about rows: none"),
        ("challenge", {"rule": "1 = 1", "gate": "main"}, "Use open_challenge"),
        ("next_cases", {"challenger": "v", "gate": ""}, "Gates about cases: 'main'"),
        ("cases_left", {"gate": "gate"}, "Gates about cases: 'main'"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(suite, name, arguments, said):
    async def agent():
        async with Client(make_server(suite)) as client:
            return (await called(client, name, **arguments))[1]

    assert said in anyio.run(agent)
