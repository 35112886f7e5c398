"""Plans over HTTP are those of the library."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pytest
from app_samples import bearing
from server_processes import serving as served
from service_samples import API, EVE, seal, serving

import everhold as eh
from everhold.errors import Unavailable
from everhold_server import planners
from everhold_server.middleware import TooMany
from everhold_server.principals import Role
from everhold_server.serving import token_store_of
from everhold_server.untrusted.worker import WorkerEnded, WorkLimits, end_worker, in_worker


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("plans")) as http_client:
        yield http_client(EVE)


def test_a_plan_is_that_of_the_library(client):
    told = client.post(API + "/plan", json={"queries": 50, "rows": 20_000, "surprises": 2}).json()
    here = eh.plan(queries=50, rows=20_000, surprises=2)
    assert {line["mechanism"]: line["radius"] for line in told["lines"]} == {
        line.mechanism: line.radius for line in here.lines
    }
    assert told["explanation"] == here.explain()


def test_dependence_is_plain_data(client):
    wanted = {"queries": 50, "rows": 2_000, "surprises": 2, "dependence": {"kind": "groups", "sizes": [5] * 400}}
    assert client.post(API + "/plan", json=wanted).status_code == 200


@pytest.mark.parametrize(("status", "wanted"), [
    (422, {}), (422, {"queries": 0, "rows": 10}), (409, {"queries": 50}), (422, {"queries": 50, "rows": -1}),
    (422, {"queries": 50, "rows": 10**30}), (422, {"queries": 50, "rows": 100, "confidence": 2}),
    (409, {"queries": 50, "rows": 100, "dependence": {"kind": "nonsense"}}), (422, {"queries": "many", "rows": 100}),
    (422, {"queries": 50, "rows": 100, "more": 1}), (409, {"queries": 50, "radius": 1e-300}),
])  # fmt: skip
def test_a_request_that_is_not_valid_is_refused(client, wanted, status):
    said = client.post(API + "/plan", json=wanted)
    assert (said.status_code, said.headers["content-type"]) == (status, "application/problem+json"), said.text


def test_a_plan_is_made_once(client, monkeypatch):
    asked = []
    made = planners.in_worker
    monkeypatch.setattr(planners, "in_worker", lambda *job, **more: asked.append(job) or made(*job, **more))
    wanted = {"queries": 51, "rows": 20_001, "surprises": 2}
    assert client.post(API + "/plan", json=wanted).json() == client.post(API + "/plan", json=wanted).json()
    assert len(asked) == 1


def network(nodes=30, neighbours=3, seed=0):
    """Plain data of a Markov network that takes half a minute of processor time."""
    rng = np.random.default_rng(seed)
    edges = set()
    while len(edges) < nodes * neighbours // 2:
        edges.add(tuple(sorted(rng.choice(nodes, 2, replace=False).tolist())))
    return {
        "kind": "markov_network", "row": None, "training": None, "names": [f"n{node}" for node in range(nodes)],
        "states": [2] * nodes, "latent": [], "table_of": [0] * len(edges),
        "factors": sorted(edges), "tables": [{"shape": [2, 2], "values": [1.05, 0.95, 0.95, 1.05]}],
    }  # fmt: skip


SLOW = {"queries": 50, "rows": 30, "dependence": network()}


def test_a_plan_gets_limited_time(client, monkeypatch):
    with monkeypatch.context() as changed:
        changed.setattr(planners, "_LIMITS", WorkLimits(seconds=1))
        begun = time.monotonic()
        said = client.post(API + "/plan", json=SLOW)
        assert (said.status_code, said.json()["title"]) == (409, "too much work")
        assert time.monotonic() - begun < 20.0
    assert client.post(API + "/plan", json={"queries": 52, "rows": 20_000}).status_code == 200, "another worker"


def test_processor_time_and_memory_of_a_worker_are_limited():
    assert (planners._LIMITS.memory, planners._LIMITS.seconds) == (3 * 2**30, 10)
    limited = WorkLimits(seconds=1)
    assert in_worker("builtins:dict", {"made": 1}, limited) == {"made": 1}
    for job in (("builtins:bytearray", {"source": 4 * 2**30}), ("signal:pause", {})):
        with pytest.raises(WorkerEnded) as ended:
            in_worker(*job, limited)
        assert not ended.value.has_fault
    with pytest.raises(WorkerEnded) as ended:
        in_worker("builtins:int", {"text": "7"}, limited)
    assert ended.value.has_fault


def test_a_worker_can_be_ended():
    begun = []

    def begin(number):
        begun.append(number)
        threading.Timer(1.0, end_worker, [number]).start()

    start = time.monotonic()
    with pytest.raises(WorkerEnded):
        in_worker("signal:pause", {}, WorkLimits(seconds=30), begun=begin)
    assert time.monotonic() - start < 20.0
    end_worker(begun[0])  # again, which does nothing
    assert in_worker("builtins:dict", {}, WorkLimits()) == {}


@pytest.mark.parametrize("change", [
    {"names": [f"n{node}" for node in range(1_001)]}, {"states": [2] * 29 + [33]}, {"states": [2] * 29 + [10**9]},
])  # fmt: skip
def test_nodes_and_states_are_limited_over_http(client, monkeypatch, change):
    monkeypatch.setattr(planners, "in_worker", None)  # none is asked
    said = client.post(API + "/plan", json={**SLOW, "dependence": {**network(), **change}})
    assert (said.status_code, said.json()["title"]) == (409, "too much work")
    assert "over HTTP" in said.json()["detail"]


def test_one_token_has_three_plans_in_line():
    line = planners.Planners()
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(line._place("a"))
        with pytest.raises(TooMany) as refused, line._place("a"):
            pass
        assert refused.value.http_status == 429
        assert refused.value.data["wait"] > 0
        for token in "bbbcccd":
            stack.enter_context(line._place(token))
        with pytest.raises(Unavailable, match="Wait a few seconds"), line._place("e"):
            pass
    with line._place("a"):
        pass


def test_a_full_line_is_refused_with_a_time_to_come_again(tmp_path, monkeypatch):
    monkeypatch.setattr(planners, "_AT_ONCE", 0)
    monkeypatch.setattr(planners, "_MOST_WAITING", 0)
    with serving(tmp_path) as http_client:
        said = http_client(EVE).post(API + "/plan", json={"queries": 53, "rows": 20_000})
        assert (said.status_code, said.headers["retry-after"]) == (503, "2")
        monkeypatch.setattr(planners, "_MOST_OF_A_TOKEN", 0)
        said = http_client(EVE).get("/plan?rows=20003")
        assert (said.status_code, said.headers["retry-after"]) == (429, "5")


def alive(process):
    """Workers of a server that are still there: children of the process that makes them."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    parents = {int(pid): int(parent) for pid, parent, stat in map(str.split, listed.splitlines()) if stat[0] != "Z"}
    return [pid for pid, parent in parents.items() if parents.get(parent) == process.pid]


@pytest.fixture
def server(tmp_path):
    seal(tmp_path)
    with served(tmp_path, ["serve", "--storage", str(tmp_path / "study.db")], 1) as (one,):
        yield one


def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def test_work_ends_when_the_client_hangs_up_and_when_the_service_is_stopped(server, tmp_path):
    secret = token_store_of(str(tmp_path / "study.db")).make(Role.VIEWER, "eve", by="test").secret
    address = f"{server.url}{API}/plan"
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(address, json=SLOW, headers=bearing(secret), timeout=3.0)
    assert until(lambda: not alive(server.process)), "the worker goes on for a client that hung up"
    waiting = threading.Thread(
        target=lambda: httpx.post(address, json={**SLOW, "queries": 51}, headers=bearing(secret), timeout=60.0)
    )
    waiting.start()
    assert until(lambda: alive(server.process))
    begun = time.monotonic()
    os.kill(server.process.pid, signal.SIGTERM)
    server.process.join(30.0)
    assert server.process.exitcode == 0
    assert time.monotonic() - begun < 20.0
    waiting.join(30.0)
    assert not waiting.is_alive()


def test_a_thread_that_cannot_be_stopped_does_not_keep_the_process(tmp_path):
    program = (
        "import threading, time; from everhold_server.serving import _leave; before = {*threading.enumerate()}; "
        "threading.Thread(target=time.sleep, args=(300.0,)).start(); _leave(before)"
    )
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", program], check=True, timeout=200)
    assert time.monotonic() - begun < 150.0


def test_a_protocol_is_planned_as_in_the_library(client):
    families = {"ends": {"members": 30}, "texts": {"texts": 40}}
    told = client.post(API + "/plan/protocol", json={"families": families, "rows": 20_000}).json()
    here = eh.plan(rows=20_000, protocol={"families": families})
    assert (told["lines"], told["explanation"]) == (here.to_rows(), here.explain())


@pytest.mark.parametrize(
    ("status", "wrong"),
    [
        (422, {"rows": 20_000, "families": {}}),
        (409, {"rows": 20_000, "families": {"a": {"members": 0}}}),
        (409, {"rows": 20_000, "families": {"a": {"texts": 40}}, "share": 2.0}),
        (409, {"rows": 20_000, "families": {"a": {"texts": 40}}, "share": 0.995}),
        (409, {"rows": 20_000, "families": {"a": {"texts": -5}}}),
        (409, {"rows": 20_000, "families": {"a": {"listed": ["delay > 1", "delay > 1"]}}}),
        (422, {"rows": 0, "families": {"a": {"texts": 40}}}),
    ],
)
def test_a_protocol_that_makes_no_sense_is_refused(client, wrong, status):
    assert client.post(API + "/plan/protocol", json=wrong).status_code == status
