"""Asks over HTTP at 1, 8 and 64 clients, beside a bare FastAPI endpoint that inserts one row durably.

All servers are processes of their own on loopback, write to the same disk, and answer in turns of one run: one on
SQLite, two on one PostgreSQL, and the bare one on SQLite. An ask is a new query each time, about 20,000 sealed rows,
under a token; its guess is confirmed. "Best" is the fastest round, where others on the machine disturbed least.
"CPU ms" is processor time of the servers for an answer, without PostgreSQL's own; a server is one Python process, so
1,000 over it is what a core can give at most. "Sync ms" is one bare write of 512 bytes to the disk in the same run; a
group of asks waits for three: ledger, head file and audit log. Memory is what a server's process holds; the last lines
are those of 10,000 more asks.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import everhold as eh

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROWS, CLIENTS, ROUNDS, ASKS = 20_000, (1, 8, 64), 3, 256
MANY, PARTS = 10_000, 4


def measure() -> list[dict[str, object]]:
    """One line for each number of clients, and one for memory."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        bare, ours = stack.enter_context(_bare(folder)), stack.enter_context(_everhold(f"sqlite:///{folder}/served.db"))
        lines = [_compared("SQLite", ours, bare, clients, folder) for clients in CLIENTS]
        if shutil.which("initdb"):
            two = stack.enter_context(_everhold(_postgres(folder, stack), servers=2))
            lines += [_compared("PostgreSQL, 2 servers", two, bare, clients, folder) for clients in CLIENTS]
        for _ in range(PARTS):
            _ask(ours, 8, MANY // PARTS)
            lines.append({"ledger": "SQLite", "clients": 8, "asks before": ours.asked, "server MB": ours.megabytes()})
        return lines


class _Servers:
    """Servers of one storage under load.

    Args:
        processes: What serves.
        ports: On loopback; clients take them in turns.
        head: Of every request: path and headers.
    """

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]], ports: Sequence[int], head: str) -> None:
        self.processes, self.ports, self._head, self.asked = processes, itertools.cycle(ports), head, 0

    def cpu(self) -> float:
        """Processor seconds that they took so far; Linux alone tells it so."""
        fields = [
            Path(f"/proc/{each.pid}/stat").read_text().rpartition(")")[2].split()[11:13] for each in self.processes
        ]
        return sum(int(ticks) for both in fields for ticks in both) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """Resident memory of the largest; Linux alone tells it so."""
        lines = [Path(f"/proc/{each.pid}/status").read_text().splitlines() for each in self.processes]
        return max(float(line.split()[1]) for own in lines for line in own if line.startswith("VmRSS")) / 1024.0

    def request(self) -> bytes:
        """The next one, about a query that is new."""
        self.asked += 1
        body = json.dumps({"query": f"x < {self.asked / 30_000:.9f}"})
        return f"{self._head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def _compared(ledger: str, ours: _Servers, bare: _Servers, clients: int, folder: Path) -> dict[str, object]:
    asks = ASKS if clients > 1 else ASKS // 4
    _ask(ours, clients, asks)
    rounds, spent, syncs = [], [], []
    for _ in range(ROUNDS):
        before = ours.cpu()
        own = _ask(ours, clients, asks)
        spent.append((ours.cpu() - before) / asks * 1e3)
        rounds.append((own, _ask(bare, clients, asks)))
        syncs += _syncs(folder / "bare")
    rates = [[asks / seconds for seconds, _ in both] for both in rounds]
    slowest = [np.percentile([one for both in rounds for one in both[side][1]], 99) * 1e3 for side in (0, 1)]
    return {
        "ledger": ledger,
        "clients": clients,
        "asks before": ours.asked,
        "everhold asks/s": statistics.median(own for own, _ in rates),
        "best": max(own for own, _ in rates),
        "CPU ms": statistics.median(spent),
        "sync ms": statistics.median(syncs) * 1e3,
        "bare inserts/s": statistics.median(peer for _, peer in rates),
        "ratio": statistics.median(peer / own for own, peer in rates),
        "everhold p99 ms": slowest[0],
        "bare p99 ms": slowest[1],
        "server MB": ours.megabytes(),
    }


def _syncs(path: Path) -> Iterator[float]:
    """Seconds of some bare writes to the disk."""
    with path.open("wb", buffering=0) as file:
        for _ in range(20):
            start = time.perf_counter()
            file.write(bytes(512))
            os.fsync(file.fileno())
            yield time.perf_counter() - start


def _ask(server: _Servers, clients: int, asks: int) -> tuple[float, list[float]]:
    """Seconds that so many asks took, and each of them."""
    start = time.perf_counter()
    each = asyncio.run(_all(server, clients, asks))
    return time.perf_counter() - start, each


async def _all(server: _Servers, clients: int, asks: int) -> list[float]:
    found = await asyncio.gather(*(_client(server, asks // clients) for _ in range(clients)))
    return [seconds for each in found for seconds in each]


async def _client(server: _Servers, asks: int) -> list[float]:
    """One connection that asks one query after the other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", next(server.ports))
    found = []
    for _ in range(asks):
        start = time.perf_counter()
        writer.write(server.request())
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
        found.append(time.perf_counter() - start)
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(f"an ask failed: {head.splitlines()[0].decode()}")
    writer.close()
    await writer.wait_closed()
    return found


@contextmanager
def _everhold(storage: str, servers: int = 1) -> Iterator[_Servers]:
    ports = [_free_port() for _ in range(servers)]
    rng = np.random.default_rng(3)
    with eh.Holdout.create(
        storage, "served", holdout={"x": rng.random(ROWS)}, training={"x": rng.random(ROWS)}, queries=50_000,
        mechanism="guess_and_check",
    ):  # fmt: skip
        pass
    command = [str(Path(sys.executable).with_name("everhold"))]
    made = [*command, "token", "create", storage, "load", "--role", "steward", "--format", "json"]
    token = json.loads(subprocess.run(made, check=True, capture_output=True).stdout)["secret"]
    head = (
        "POST /api/v1/holdouts/served/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {token}\r\n"
    )
    serve = [*command, "serve", "--storage", storage, "--requests-a-minute", "0", "--port"]
    with ExitStack() as stack:
        yield _Servers([stack.enter_context(_running([*serve, str(port)], port)) for port in ports], ports, head)


def _postgres(folder: Path, stack: ExitStack) -> str:
    """Address of a storage in a PostgreSQL of this run that waits for the disk."""
    sys.path.append("packages/everhold-server/tests/support")
    from postgres_cluster import running_cluster

    cluster = stack.enter_context(running_cluster(durable=True))
    return str(cluster.url(cluster.new_database(), rows=folder / "rows"))


@contextmanager
def _bare(folder: Path) -> Iterator[_Servers]:
    port = _free_port()
    head = "POST /ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    command = [sys.executable, "-m", "benchmarks.bare_service", str(folder / "bare.db"), str(port)]
    with _running(command, port) as process:
        yield _Servers([process], [port], head)


@contextmanager
def _running(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server's process, once it listens; ended by its process id."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _await(port, process)
            yield process
        finally:
            process.terminate()


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError("a server did not start")


def _free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])
