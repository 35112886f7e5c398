"""A thousand calls from four clients at once, while servers are killed: nothing is lost, or charged twice."""

import copy
import random

import anyio
import pytest
from mcp_processes import Agent
from mcp_samples import create
from scipy.stats import norm
from server_processes import discrepancies, serving

from everhold import Holdout

CLIENTS, CALLS, OWN, SURPRISES = 4, 250, 100, 12
KILLED_AFTER = (100, 300, 500, 700)  # answers


def asked(column, above):
    """A share of a normal law, with a guess that holds."""
    return {"query": f"{column} > {above}", "guess": float(norm.sf(above))}


def queries(client):
    """What a client asks: some that nobody else does, and some that all do, in an order of its own."""
    own = [asked("x", client / 2 + k / 1_000) for k in range(OWN)]
    shared = [asked("z", k / 100) for k in range(CALLS - OWN)]
    for place in range(SURPRISES):
        shared[10 * place]["guess"] = 0.99  # wrong for all of these queries
    return random.Random(client).sample(own + shared, CALLS)


async def play(servers, agents):
    """All agents at once, and somebody who kills servers in turns; returns how often."""
    kills = 0

    async def killer():
        nonlocal kills
        for number, answers in enumerate(KILLED_AFTER):
            while sum(len(agent.heard) for agent in agents) < answers:
                await anyio.sleep(0.005)
            server = servers[number % len(servers)]
            server.kill()
            server.start()
            kills += 1

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(killer)
            for agent in agents:
                tasks.start_soon(agent.work)
    return kills


def command(folder):
    return ["mcp", "--storage", str(folder / "s.db"), "--holdout", "flights", "--http"]


def ledger_of(folder):
    with Holdout.open(folder / "s.db", "flights") as holdout:
        holdout.certificate()  # raises if the chain of entries was broken
        rows, status = holdout.transcript().to_rows(), holdout.status()
    return rows, status


@pytest.mark.slow
def test_a_thousand_calls_while_servers_are_killed(tmp_path):
    create(tmp_path, queries=CLIENTS * CALLS, surprises=SURPRISES + 4, training=None).close()
    with serving(tmp_path, command(tmp_path), 2) as servers:
        agents = [Agent(f"{servers[client % 2].url}/mcp", queries(client)) for client in range(CLIENTS)]
        assert anyio.run(play, servers, agents) == len(KILLED_AFTER)
        assert all("Traceback" not in server.log for server in servers)
    rows, status = ledger_of(tmp_path)
    assert sum(len(agent.heard) for agent in agents) == CLIENTS * CALLS
    assert sum(len(agent.cut_off) for agent in agents) > 0  # servers were killed while they were asked
    assert discrepancies(agents, rows) == []
    assert status["queries_asked"] == len(rows) == CLIENTS * OWN + CALLS - OWN
    assert status["charged"] == sum(row["charged"] for row in rows) == SURPRISES
    assert sum(answer["repeated"] for agent in agents for answer in agent.heard) >= 3 * (CALLS - OWN)


def test_the_account_would_notice_what_is_lost_or_charged_twice(tmp_path):
    """The check of the test above, held against ledgers that are not what agents heard."""
    create(tmp_path).close()
    with serving(tmp_path, command(tmp_path), 1) as (server,):
        agents = [
            Agent(f"{server.url}/mcp", [{"query": f"x > {k} / 10", "guess": 0.99} for k in range(3)]) for _ in range(2)
        ]
        anyio.run(agents[0].work)
        anyio.run(agents[1].work)
    rows, _ = ledger_of(tmp_path)
    assert discrepancies(agents, rows) == []
    assert "lost" in str(discrepancies(agents, rows[:-1]))
    assert "not asked" in str(discrepancies(agents, [*rows, {**rows[0], "query": "other"}]))
    assert "twice" in str(discrepancies(agents, [*rows, rows[0]]))
    assert "another answer" in str(discrepancies(agents, [{**rows[0], "value": 0.1}, *rows[1:]]))
    charged_again = copy.deepcopy(agents)
    charged_again[1].heard[0].update(repeated=False, charged=1)
    assert "charged twice" in str(discrepancies(charged_again, rows))
    never_answered = copy.deepcopy(agents)
    never_answered[0].heard[0].update(repeated=True, charged=0)
    assert "first answer never arrived" in str(discrepancies(never_answered, rows))
