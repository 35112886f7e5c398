"""An operation is written once: here is a new one, and everything that carries operations has it."""

import json
from dataclasses import dataclass
from typing import Annotated

import anyio
import pytest
from client_samples import serving
from holdout_samples import create
from mcp import Client
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.application import app
from everhold.display import Facts
from everhold.operations import OPERATIONS
from everhold.operations.operation import HoldoutOperation, Param, Role
from everhold_server.api.holdouts import SETTINGS, HoldoutSettings
from everhold_server.client import HttpTransport
from everhold_server.mcp import make_server


@dataclass(frozen=True, kw_only=True)
class CountColumns(
    HoldoutOperation["Facts"], verb="count_columns", role=Role.ANALYST, route="POST /count-columns", topic="columns",
    agents=True, command="count-columns flights.db flights number --most 3",
):  # fmt: skip
    """Count the columns of one kind.

    The columns are public. Nothing is asked of the sealed rows.
    """

    kind: Annotated[str, Param("Such as number.", longest=20)]
    most: Annotated[int | None, Param("Count no further than this.", least=1)] = None

    def perform(self, session):
        found = sum(kind.value == self.kind for kind in session.executor.schema.columns.values())
        return Facts({"kind": self.kind, "columns": min(found, self.most or found)})


@pytest.fixture
def _known(monkeypatch):
    monkeypatch.setitem(OPERATIONS.own, "count_columns", "")
    monkeypatch.setitem(OPERATIONS._loaded, "count_columns", CountColumns)


@pytest.mark.usefixtures("_known")
def test_a_new_operation_is_in_library_http_openapi_client_mcp_and_command_line(tmp_path, monkeypatch):
    asked, told = CountColumns(kind="number", most=1), {"kind": "number", "columns": 1}
    with create(tmp_path) as holdout:
        assert holdout.perform(asked) == told
        holdout.allot("ada", queries=1)

        async def agent():
            async with Client(make_server(holdout)) as client:
                tools = {tool.name: tool for tool in (await client.list_tools()).tools}
                result = await client.call_tool("count_columns", {"kind": "number", "most": 1})
                return tools["count_columns"], result.structured_content

        tool, result = anyio.run(agent)
    assert (tool.input_schema["required"], result["result"]) == (["kind"], told)
    assert tool.description.startswith("Count the columns of one kind.")
    assert tool.annotations.read_only_hint
    with serving(tmp_path) as service:
        with service.connect(service.ada) as remote:
            assert type(remote) is eh.Holdout
            assert remote.perform(asked) == told
            with pytest.raises(eh.errors.EverholdError, match="most"):
                remote.perform(CountColumns(kind="number", most=0))
            document = remote._transport.connection.get("/openapi.json")
        with service.connect(service.eve) as viewer, pytest.raises(eh.AuthError):
            viewer.perform(asked)
        monkeypatch.setenv("EVERHOLD_TOKEN", service.ada)
        arguments = ["count-columns", service.address, "study", "number", "--most", "1", "--format", "json"]
        printed = CliRunner().invoke(app, arguments)
        assert json.loads(printed.stdout) == told, printed.output
    route = document["paths"]["/api/v1/holdouts/{name}/count-columns"]["post"]
    assert route["summary"] == "Count the columns of one kind"
    fields = route["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert fields["kind"] == {"description": "Such as number.", "maxLength": 20, "title": "Kind", "type": "string"}
    assert "count-columns" in CliRunner().invoke(app, ["--help"]).output


def test_every_operation_has_a_route_and_help():
    for name, operation in OPERATIONS.items():
        assert operation.verb == name
        assert len(operation.__doc__) > 20
        assert operation.route.partition(" ")[0] in ("GET", "POST", "PUT")


def test_what_works_only_beside_the_rows_says_so(tmp_path):
    create(tmp_path).close()
    with serving(tmp_path) as service, service.connect(service.root) as remote:
        assert isinstance(remote._transport, HttpTransport)
        for act in (remote.diagnose, remote.training_rows, remote.spent, lambda: remote.evaluate(None)):
            with pytest.raises(eh.QueryRejected, match="cannot be used through a service"):
                act()


def test_each_setting_of_a_new_holdout_has_one_help_in_command_line_and_api():
    options = CliRunner().invoke(app, ["create", "--help"], env={"COLUMNS": "1000"}).stdout
    schema = HoldoutSettings.model_json_schema()["properties"]
    assert {"label", "missing", "largest_group", "feedback", "surprises_per_team"} < SETTINGS.keys() < schema.keys()
    for name, each in SETTINGS.items():
        assert schema[name]["description"] == each.about.help
        if name != "share":  # which a protocol says
            assert f"--{name.replace('_', '-')} " in options
            assert each.about.help in options
