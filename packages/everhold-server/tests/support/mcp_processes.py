"""Agents that go on as if nothing had happened when their server was killed and started anew."""

from dataclasses import dataclass, field

import anyio
from mcp import Client
from server_processes import PATIENCE


@dataclass
class Agent:
    """Asks queries in order, each until it is answered.

    Attributes:
        url: Of the server.
        queries: Arguments of `ask`.
        heard: What it was told, with the place of the query.
        cut_off: Places of the queries whose answer did not come, once for each time.
    """

    url: str
    queries: list
    heard: list = field(default_factory=list)
    cut_off: list = field(default_factory=list)

    async def work(self):
        """Until all are answered."""
        while len(self.heard) < len(self.queries):
            try:
                async with Client(self.url, read_timeout_seconds=PATIENCE) as client:
                    while len(self.heard) < len(self.queries):
                        await self._ask(client)
            except Exception:  # the SDK wraps whatever breaks in whatever broke
                await anyio.sleep(0.05)

    async def _ask(self, client):
        place = len(self.heard)
        answered = False
        try:
            result = await client.call_tool("ask", self.queries[place])
            assert not result.is_error, result.content[0].text
            self.heard.append(result.structured_content)
            answered = True
        finally:
            if not answered:
                self.cut_off.append(place)
