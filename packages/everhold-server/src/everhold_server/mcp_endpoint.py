"""The tools for agents, at ``/mcp/{holdout}``, under the same tokens: each agent asks as the analyst of its token.

No call depends on another one. Every call checks the token and whether it may see the holdout. One MCP server for each
analyst of each holdout is kept between calls.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from starlette.requests import Request
from starlette.routing import Route

from everhold_server.mcp.server import http_app, make_server
from everhold_server.principals import Principal, Role, allowed
from everhold_server.registration import RegisterTeams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.abc import TaskGroup, TaskStatus
    from starlette.applications import Starlette
    from starlette.types import Receive, Scope, Send

    from everhold.holdout import Holdout
    from everhold.operations.operation import HoldoutOperation
    from everhold_server.audit import AuditLog
    from everhold_server.open_holdouts import OpenHoldouts
    from everhold_server.settings import Settings

AGENTS = "/mcp/{holdout}"

_SENDER: ContextVar[Principal] = ContextVar("sender")
"""Who sent the request that a tool is called for."""
_INSIDE = {"path": "/mcp", "raw_path": b"/mcp", "root_path": ""}


class Agents:
    """The MCP servers of one process, each made at the first call of its analyst and holdout."""

    def __init__(self, holdouts: OpenHoldouts, settings: Settings, audit: AuditLog) -> None:
        self._holdouts, self._hosts, self._audit = holdouts, sorted(settings.hosts), audit
        self._apps: dict[tuple[str, str | None], Starlette] = {}
        self._tasks: TaskGroup | None = None

    @property
    def route(self) -> Route:
        """Route of the endpoint."""
        return Route(AGENTS, self, methods=["POST"], include_in_schema=False)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Return a context in which the servers for agents run."""
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an ASGI request to the MCP server of its holdout and sender."""
        scope["state"]["route"] = AGENTS
        principal, name = allowed(Request(scope), Role.ANALYST), scope["path_params"]["holdout"]
        asked = await anyio.to_thread.run_sync(self._holdouts.asked_by, name, principal)
        key = (name, None if principal.role is Role.STEWARD else principal.name)
        if key not in self._apps:
            app = await anyio.to_thread.run_sync(partial(self._made, asked))
            if key not in self._apps:  # another call may have been faster
                assert self._tasks is not None
                await self._tasks.start(_kept_running, app)
                self._apps[key] = app
        _SENDER.set(principal)
        await self._apps[key]({**scope, **_INSIDE}, receive, send)

    def _made(self, holdout: Holdout) -> Starlette:
        server = make_server(holdout, perform=partial(self._perform, holdout), more=(RegisterTeams,))
        return http_app(server, "service", self._hosts)

    def _perform(self, holdout: Holdout, asked: HoldoutOperation[Any]) -> Any:
        """Perform an operation for the sender of the request, and write what was done to the audit log."""
        sender = _SENDER.get()
        asked = asked.sent_by(sender) if isinstance(asked, RegisterTeams) else asked
        done = holdout.perform(asked)
        if asked.act:
            self._audit.insert_act(asked.act, "", sender, holdout=holdout.name, **asked.facts(done))
        return done


async def _kept_running(app: Starlette, *, task_status: TaskStatus[None]) -> None:
    async with app.router.lifespan_context(app):
        task_status.started()
        await anyio.sleep_forever()
