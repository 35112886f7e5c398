"""An agent asks one query over time, where rows arrive."""

import anyio
import pytest
from mcp import Client
from mcp_samples import call, create, rows

import everhold as eh
from everhold_server.mcp import make_server


@pytest.fixture
def holdout(tmp_path):
    with create(tmp_path, grows=True) as made:
        yield made


def test_the_windows_are_asked_and_charged_like_queries(holdout):
    holdout.append(rows(3, first_id=20_000), until="2026-02-01")
    (told, wrong) = call(
        holdout, ("over_time", {"question": "x > 0", "by": "month"}), ("over_time", {"question": "x >"})
    )
    assert [row["window"] for row in told.structured_content["windows"]] == ["at creation", "2026-02"]
    assert told.structured_content["left"]["questions"] == 198
    assert wrong.is_error


def test_drift_is_charged_like_two_queries_a_column(holdout):
    holdout.append(rows(3, first_id=20_000))
    (told, wrong) = call(holdout, ("drift", {"columns": ["x"]}), ("drift", {"arrival": 9}))
    assert (told.structured_content["arrival"], told.structured_content["changed"]) == (1, [])
    assert told.structured_content["left"]["questions"] == 198
    assert wrong.is_error


def test_a_holdout_that_does_not_grow_has_no_such_tool(tmp_path, holdout):
    static = eh.Holdout.create(tmp_path / "t.db", "static", holdout=rows(5), mechanism="guess_and_check", queries=10)

    async def tools(served):
        async with Client(make_server(served)) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    with static:
        assert "over_time" not in anyio.run(tools, static)
    assert "over_time" in anyio.run(tools, holdout)
