"""Holdouts for agents, and agents that call their server."""

import anyio
import numpy as np
from mcp import Client
from sealed_copies import copied_into

from everhold import Holdout
from everhold.asking.creation import settings_from
from everhold_server.mcp import make_server

ROWS = 2_000
SECRET = "ZEBRA77"
"""Stands in one cell of the sealed rows, and nowhere else."""


def rows(seed, *, first_id=0, count=ROWS):
    """Flights that are late where two features say so, more or less."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, count))
    return {
        "id": np.arange(first_id, first_id + count),
        "x": x,
        "z": z,
        "kind": rng.choice(np.array(["a", "b"]), count).astype(object),
        "late": (x + z + 0.7 * rng.normal(size=count) > 0).astype(int),
    }


def create(folder, **wanted):
    """A holdout that keeps a gate, with ids, in a new folder: a copy of what other tests have."""
    copied_into(folder, lambda template: _create(template, **wanted).close(), wanted)
    return Holdout.open(folder / "s.db", "flights")


def _create(folder, *, queries=200, surprises=5, **wanted):
    sealed = rows(0)
    sealed["kind"][17] = SECRET
    wanted = {"training": rows(1, first_id=10_000), "mechanism": "guess_and_check", **wanted}
    return Holdout.create(
        folder / "s.db", "flights", holdout=sealed, label="late", queries=queries,
        **settings_from({**wanted, "row_id": "id", "surprises": surprises}),
    )  # fmt: skip


LISTING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2025-06-18",
}


def calling(name, **arguments):
    """The request that calls a tool of a service."""
    return {**LISTING, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def asked(client, holdout="flights", call=LISTING, **headers):
    """The response of a service to a request for tools."""
    return client.post(f"/mcp/{holdout}", json=call, headers={**HEADERS, **headers})


def call(holdout, *calls, **wanted):
    """The results of calls, each a name and arguments, of one client in this process."""

    async def agent():
        async with Client(make_server(holdout, **wanted)) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    results = anyio.run(agent)
    assert all(SECRET not in str(result) for result in results)
    return results


def told(holdout, name, arguments=None, **wanted):
    """What one call that is answered tells."""
    (result,) = call(holdout, (name, arguments or {}), **wanted)
    assert not result.is_error, result.content[0].text
    return result.structured_content


def refused(holdout, name, arguments=None, **wanted):
    """The message of one call that fails, which costs nothing."""
    before = holdout.status()
    (result,) = call(holdout, (name, arguments or {}), **wanted)
    assert result.is_error
    assert holdout.status() == before
    return result.content[0].text
