"""Clients of a service whose processes are killed all the time; each asks until it has heard every answer."""

from dataclasses import dataclass, field

import anyio
import httpx
from server_processes import PATIENCE

CUT_OFF = (httpx.HTTPError, ConnectionError)
_LATER = (409, 429, 500, 502, 503, 504)


@dataclass
class Asker:
    """Asks queries in order over HTTP, each until it is answered or refused.

    Attributes:
        servers: Their addresses; the next one is tried after every failure.
        token: Of an analyst.
        queries: Bodies of `ask`.
        heard: What it was told, with the place of the query.
        cut_off: Places of the queries whose answer did not come, once for each time.
        failures: Answers of 5xx; how many of each status.
    """

    servers: list
    token: str
    queries: list
    heard: list = field(default_factory=list)
    cut_off: list = field(default_factory=list)
    failures: dict = field(default_factory=dict)

    async def work(self):
        """Until all are answered."""
        tries = 0
        while len(self.heard) < len(self.queries):
            server, tries = self.servers[tries % len(self.servers)], tries + 1
            async with httpx.AsyncClient(
                base_url=server, headers={"Authorization": f"Bearer {self.token}"}, timeout=PATIENCE, trust_env=False
            ) as client:
                try:
                    while len(self.heard) < len(self.queries):
                        if not await self._ask(client):
                            break
                except CUT_OFF:
                    self.cut_off.append(len(self.heard))
                await anyio.sleep(0.02)

    async def _ask(self, client):
        response = await client.post("/api/v1/holdouts/flights/ask", json=self.queries[len(self.heard)])
        if response.status_code in _LATER:
            self.failures[response.status_code] = self.failures.get(response.status_code, 0) + 1
            self.cut_off.append(len(self.heard))
            return False
        assert response.status_code == 200, response.text
        self.heard.append(response.json())
        return True


async def play(servers, askers, *, every, also, within):
    """All askers at once, and somebody who kills one server after the other; returns how often.

    Args:
        servers: Processes, killed in turns and started anew.
        askers: Clients.
        every: Seconds between the moment when a killed server is back and the next kill.
        also: Other faults: functions that are called once each, one after a kill; taken off the list.
        within: Seconds that all of it may take.
    """
    kills = 0

    async def killer(scope):
        nonlocal kills
        while any(len(asker.heard) < len(asker.queries) for asker in askers):
            await anyio.sleep(every)
            server = servers[kills % len(servers)]
            await anyio.to_thread.run_sync(server.kill)
            kills += 1
            if also:
                also.pop()()  # in this thread: PostgreSQL ends with the one that started it
            server.start()
            await anyio.to_thread.run_sync(server.wait)
        scope.cancel()

    with anyio.fail_after(within):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(killer, tasks.cancel_scope)
            for asker in askers:
                tasks.start_soon(asker.work)
    return kills
