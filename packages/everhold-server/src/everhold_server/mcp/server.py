"""Server of the tools on the official SDK: their schemas, errors, stdio and streamable HTTP.

Agents and logs get only everhold's own messages: the message of any other error could quote sealed rows. An error of a
call is returned as the tool's result, because that is what an agent reads.
"""

from __future__ import annotations

import socket
from functools import wraps
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import ToolAnnotations
from pydantic import ValidationError
from starlette.responses import JSONResponse

from everhold.arguments import brief
from everhold.errors import EverholdError, warnings_collected
from everhold.operations.operation import Role
from everhold.strict_json import JsonFault, read_json
from everhold.suites import is_suite
from everhold_server.mcp.advice import INSTRUCTIONS, OF_COMPETITIONS
from everhold_server.mcp.suite_tools import INSTRUCTIONS as OF_SUITES
from everhold_server.mcp.suite_tools import CaseTools
from everhold_server.mcp.tools import Acting, ChampionTools, Tools

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import uvicorn
    from mcp.server.mcpserver import Context
    from mcp_types import CallToolResult, InputRequiredResult
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from everhold.holdout import Holdout
    from everhold.operations.operation import HoldoutOperation
    from everhold_server.mcp.candidates import PredictionsFolder

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Hosts that cannot be reached from another machine."""

_MOST_BYTES = 2**22  # of a request: predictions for some hundred thousand rows
_MOST_VALUES = 400_000
_UNEXPECTED = (
    "everhold stopped because of an error in everhold, which is not shown because it could quote sealed rows. What "
    "was charged is in the ledger. Call status, and ask the same again: what was answered already is free."
)
_FREE = "Nothing was charged."
_FREE_TOOLS = ("describe", "quote", "status", "certificate", "worth_asking")


class _Server(MCPServer[Any]):
    """MCP server whose error messages are those of everhold's exceptions.

    Args:
        tools: Tools that agents may call.
        instructions: Instructions for agents on how to use the tools.
        advice: For each tool, a function from a gate's name to the advised next call. A refusal of the tool ends with
            this advice.
    """

    def __init__(
        self, tools: Sequence[Tool], instructions: str, advice: Mapping[str, Callable[[str | None], str]]
    ) -> None:
        from everhold import __version__

        self._schemas, self._advice = {tool.name: tool.parameters for tool in tools}, advice
        super().__init__(
            "everhold", title="everhold", version=__version__, instructions=instructions, tools=list(tools),
            log_level="ERROR",
        )  # fmt: skip

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            return await self._called(name, arguments, context)
        except ToolError as fault:
            message = str(fault)
        if name in self._advice and message != _UNEXPECTED:
            gate = arguments.get("gate")
            step = await anyio.to_thread.run_sync(self._advice[name], gate if isinstance(gate, str) else None)
            message = f"{message.removesuffix('.')}. Next: {step}."
        raise ToolError(message)  # outside, so that nothing of the fault goes along

    async def _called(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None
    ) -> CallToolResult | InputRequiredResult:
        schema = self._schemas.get(name)
        if schema is None:
            raise ToolError(f"There is no tool {brief(name)}. The tools are {', '.join(self._schemas)}. {_FREE}")
        known = schema.get("properties", {})
        if unknown := [argument for argument in arguments if argument not in known]:
            expected = f"Pass only {', '.join(known)}" if known else "Pass no arguments"
            raise ToolError(f"{name} has no argument {brief(unknown[0])}. {expected}. {_FREE}")
        if wrong := [argument for argument, value in arguments.items() if _is_no_number(value, known[argument])]:
            raise ToolError(_not_usable(name, wrong, schema))
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as fault:
            message = _in_words(name, fault, schema)
        raise ToolError(message)  # outside, so that nothing of the fault goes along


def make_server(
    holdout: Holdout, *, predictions: PredictionsFolder | None = None,
    perform: Callable[[HoldoutOperation[Any]], Any] | None = None, more: Sequence[type[HoldoutOperation[Any]]] = (),
) -> MCPServer[Any]:  # fmt: skip
    """Return a server of tools for an open holdout. The tools ask as the analyst for whom the holdout was opened.

    Args:
        holdout: The holdout. It must stay open as long as the server is used. Several servers and processes may share a
            ledger.
        predictions: The folder from which files of predictions are read. By default, agents cannot name files.
        perform: Function that performs the operations of tools. The default is the holdout's own.
        more: Further operations that get a tool.

    Examples:
        >>> import anyio, tempfile, numpy as np, everhold as eh
        >>> from mcp import Client
        >>> folder = tempfile.TemporaryDirectory()
        >>> rows = {"delay": np.random.default_rng(0).normal(5.0, 30.0, 4_000)}
        >>> holdout = eh.Holdout.create(f"{folder.name}/study.db", "flights", holdout=rows, queries=100,
        ...                             mechanism="guess_and_check")
        >>> async def agent():
        ...     async with Client(make_server(holdout)) as client:
        ...         answer = await client.call_tool("ask", {"query": "delay > 15", "guess": 0.37})
        ...         return answer.structured_content["source"]
        >>> anyio.run(agent)
        'guess'
        >>> holdout.close(); folder.cleanup()
    """
    cases = CaseTools(holdout)
    loop: tuple[Callable[..., Any], ...] = (cases.worth_asking, cases.open_challenge, cases.report, cases.withdraw)
    methods: list[Callable[..., Any]]
    derived: dict[Callable[..., Any], type[HoldoutOperation[Any]]] = {}
    if is_suite(holdout):
        methods, instructions = [cases.describe, *loop, cases.status], OF_SUITES
    else:
        tools, derived = Tools(holdout, predictions), Acting(holdout, perform or holdout.perform, more).tools()
        if holdout.status().get("competition"):
            methods, instructions = [tools.status, tools.certificate, *derived], OF_COMPETITIONS
        else:  # always all: gates may be opened and rows may arrive later
            methods = [tools.describe, tools.quote, tools.ask, tools.challenge, tools.status, tools.certificate, *loop,
                       *derived, ChampionTools(holdout, predictions).complete]  # fmt: skip
            instructions = INSTRUCTIONS
    made = [_tool(method, derived.get(method)) for method in methods]
    of_cases = (each.__name__ for each in methods if getattr(each, "__self__", None) is cases)
    return _Server(made, instructions, dict.fromkeys(of_cases, cases.advice))


def serve_stdio(server: MCPServer[Any]) -> None:
    """Serve one MCP client over standard input and output until it disconnects."""
    anyio.run(server.run_stdio_async)


def serve_http(
    server: MCPServer[Any], *, host: str, port: int, allowed_hosts: Sequence[str] = (),
    started: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Serve clients on streamable HTTP at the path ``/mcp`` until the process is stopped.

    No call depends on another one, so a client goes on with a server that was started anew. Requests for another host
    name are refused, so that no web page can reach the server by DNS rebinding.

    Args:
        server: Server that `make_server` returned.
        host: Address to listen at; see `LOOPBACK`.
        port: Port to listen at.
        allowed_hosts: Host names by which clients reach the server, such as ``"lab.example:8000"``. Needed if other
            machines can reach it.
        started: Function that is called once the server listens.

    Raises:
        ValueError: If other machines could reach the address and no host names were given, or the address cannot be
            used.
    """
    serving = uvicorn_server(http_app(server, host, allowed_hosts))
    with listening(host, port) as taken:
        started()
        serving.run(sockets=[taken])


def uvicorn_server(app: ASGIApp, **wanted: Any) -> uvicorn.Server:
    """Return a server of uvicorn that logs only errors and limits the size of a request's headers.

    Args:
        app: The ASGI application to serve.
        wanted: Further arguments of `uvicorn.Config`.
    """
    import uvicorn

    return uvicorn.Server(
        uvicorn.Config(
            app, log_level="error", access_log=False, server_header=False,
            log_config=None,  # its own would close every handler that the process has
            http="h11",  # httptools, which uvicorn takes where it is installed, collects headers without end
            **wanted,
        )
    )  # fmt: skip


def http_app(server: MCPServer[Any], host: str, allowed_hosts: Sequence[str] = ()) -> Starlette:
    """Return the ASGI application that `serve_http` serves, in which calls are independent of each other.

    Raises:
        ValueError: If other machines could reach the address and no host names were given.
    """
    app = server.streamable_http_app(
        stateless_http=True, json_response=True, host=host, max_request_body_size=_MOST_BYTES,
        transport_security=_security(host, allowed_hosts),
    )  # fmt: skip
    app.add_middleware(_BodyCount)
    return app


def count_values(written: bytes) -> int:
    """Return an upper bound on the number of values in a JSON document, without a parse.

    A Python object takes up to fifty times the bytes of its JSON text, so values are counted before the text is parsed.
    """
    return 1 + sum(map(written.count, (b",", b"[", b"{")))


class _BodyCount:
    """Middleware that refuses a request body with too many bytes or JSON values before it is parsed."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the body of an ASGI request, and pass it on or refuse it."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        messages: list[Message] = []
        body, more = b"", True
        while more and len(body) <= _MOST_BYTES:
            messages.append(await receive())
            body += messages[-1].get("body", b"")
            more = messages[-1]["type"] == "http.request" and messages[-1].get("more_body", False)
        if messages[-1]["type"] == "http.disconnect":
            return
        if len(body) > _MOST_BYTES or count_values(body) > _MOST_VALUES:
            told = (
                f"The request is too large. Send at most {_MOST_BYTES:,} bytes and {_MOST_VALUES:,} values: name a "
                f"file of predictions instead, or send it to the HTTP API. {_FREE}"
            )
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": told}}
            await JSONResponse(error, 413, {"connection": "close"})(scope, receive, send)
            return
        try:
            read_json(body)
        except JsonFault as fault:
            told = f"The request {fault}. Send JSON in UTF-8 with each name once and finite numbers."
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": told}}
            await JSONResponse(error, 400)(scope, receive, send)
            return
        messages.reverse()

        async def again() -> Message:
            return messages.pop() if messages else await receive()

        await self.app(scope, again, send)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens, and sends small answers without delay.

    Args:
        host: Address of this machine.
        port: Port; 0 for a free one.

    Raises:
        ValueError: If the address cannot be listened at.
    """
    reason = "there is no such port"
    if 0 <= port < 2**16:
        try:
            taken = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as fault:
            reason = (fault.strerror or "it fails").lower()
        else:
            taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio sets it on sockets of its own alone
            return taken
    raise ValueError(
        f"The server cannot listen at {brief(host)}, port {port}: {reason}. Pass an "
        "address of this machine and a free port."
    )


def _security(host: str, allowed_hosts: Sequence[str]) -> TransportSecuritySettings:
    if host not in LOOPBACK and not allowed_hosts:
        raise ValueError(
            f"The address {brief(host)} can be reached from other machines, and users are not authenticated. Pass "
            "127.0.0.1, or name what clients call this machine and let a proxy in front ask for a password."
        )
    names = [*allowed_hosts, *(("127.0.0.1:*", "localhost:*", "[::1]:*") if host in LOOPBACK else ())]
    origins = [f"{scheme}://{name}" for name in names for scheme in ("http", "https")]
    return TransportSecuritySettings(allowed_hosts=names, allowed_origins=origins)


def _tool(method: Callable[..., Any], operation: type[HoldoutOperation[Any]] | None) -> Tool:
    """Return a method as an MCP tool whose schema allows no unknown arguments."""
    free = method.__name__ in _FREE_TOOLS if operation is None else not operation.act
    hints = ToolAnnotations(
        read_only_hint=free, destructive_hint=operation is not None and operation.role is Role.STEWARD and not free,
        idempotent_hint=True, open_world_hint=False,
    )  # fmt: skip
    words = "\n".join(line.strip() for line in (method.__doc__ or "").strip().splitlines())
    tool = Tool.from_function(_guarded(method), name=method.__name__, description=words, annotations=hints)
    tool.parameters["additionalProperties"] = False
    for schema in (tool.parameters, tool.output_schema):
        _drop_titles(schema)
    return tool


def _drop_titles(schema: Any) -> None:
    """Remove the titles from a JSON schema, because they repeat the names of the fields."""
    if isinstance(schema, list):
        for each in schema:
            _drop_titles(each)
    elif isinstance(schema, dict):
        if isinstance(schema.get("title"), str):
            del schema["title"]
        for each in schema.values():
            _drop_titles(each)


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that adds warnings to its result, and raises errors without their origin."""

    @wraps(method)
    def called(**arguments: Any) -> Any:
        try:
            with warnings_collected() as warned:
                told = method(**arguments)
            return {**told, "warnings": [*map(str, warned)]} if warned and isinstance(told, dict) else told
        except EverholdError as fault:
            message = fault.told
        except Exception:
            message = _UNEXPECTED
        raise ToolError(message)

    return called


def _in_words(name: str, fault: ToolError, schema: Mapping[str, Any]) -> str:
    """Return the message of a failed call for an agent."""
    cause = fault.__cause__
    if isinstance(fault, UnexpectedToolError) or cause is None:
        return _UNEXPECTED
    if not isinstance(cause, ValidationError):
        return str(cause)
    wrong = list(dict.fromkeys(str(error["loc"][0]) for error in cause.errors(include_input=False) if error["loc"]))
    texts = [argument for argument in wrong if schema["properties"].get(argument, {}).get("type") == "string"]
    missing = [argument for argument in schema.get("required", ()) if argument in texts]
    return _not_usable(name, wrong, schema, f"{name} needs {missing[0]!r}, a text" if missing else "")


def _not_usable(name: str, wrong: Sequence[str], schema: Mapping[str, Any], problem: str = "") -> str:
    """Return the message about arguments of a tool that are of a wrong type, by default without a `problem` named."""
    problem = problem or f"{name} cannot use {' and '.join(map(repr, wrong))} as passed"
    expected = [f"{argument}: {schema['properties'][argument].get('description', '')}" for argument in wrong]
    return f"{problem}. {' '.join(expected).removesuffix('.')}. {_FREE}"


def _is_no_number(value: object, schema: Mapping[str, Any]) -> bool:
    """Return whether a truth value or text is passed where the schema has a number. The SDK would convert it."""
    kinds = {each.get("type") for each in schema.get("anyOf", [schema])}
    return isinstance(value, bool | str) and not kinds - {"number", "integer", "null"}
