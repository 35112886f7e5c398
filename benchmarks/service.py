"""Asks over HTTP at 1, 8 and 64 clients, beside a bare FastAPI endpoint that inserts one row durably.

Both servers are processes of their own on loopback, write to SQLite on the same disk, and answer in turns of one run.
An ask is a new query each time, about 20,000 sealed rows, under a token; its guess is confirmed. Memory is what the
server's process holds; the last lines are those of 10,000 more asks.
"""

from __future__ import annotations

import asyncio
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import everhold as eh

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS, CLIENTS, ROUNDS, ASKS = 20_000, (1, 8, 64), 3, 256
MANY, PARTS = 10_000, 4


def measure() -> list[dict[str, object]]:
    """One line for each number of clients, and one for memory."""
    with tempfile.TemporaryDirectory() as name, _bare(Path(name)) as bare, _everhold(Path(name)) as ours:
        lines = [_compared(ours, bare, clients) for clients in CLIENTS]
        for _ in range(PARTS):
            _ask(ours, 8, MANY // PARTS)
            lines.append({"clients": 8, "asks before": ours.asked, "server MB": _megabytes(ours.process)})
        return lines


class _Server:
    """A server under load.

    Args:
        process: What serves.
        port: On loopback.
        head: Of every request: path and headers.
    """

    def __init__(self, process: subprocess.Popen[bytes], port: int, head: str) -> None:
        self.process, self.port, self._head, self.asked = process, port, head, 0

    def request(self) -> bytes:
        """The next one, about a query that is new."""
        self.asked += 1
        body = json.dumps({"query": f"x < {self.asked / 30_000:.9f}"})
        return f"{self._head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def _compared(ours: _Server, bare: _Server, clients: int) -> dict[str, object]:
    asks = ASKS if clients > 1 else ASKS // 4
    rounds = [(_ask(ours, clients, asks), _ask(bare, clients, asks)) for _ in range(ROUNDS + 1)][1:]
    rates = [[asks / seconds for seconds, _ in both] for both in rounds]
    slowest = [np.percentile([one for both in rounds for one in both[side][1]], 99) * 1e3 for side in (0, 1)]
    return {
        "clients": clients,
        "asks before": ours.asked,
        "everhold asks/s": statistics.median(own for own, _ in rates),
        "bare inserts/s": statistics.median(peer for _, peer in rates),
        "ratio": statistics.median(peer / own for own, peer in rates),
        "everhold p99 ms": slowest[0],
        "bare p99 ms": slowest[1],
        "server MB": _megabytes(ours.process),
    }


def _ask(server: _Server, clients: int, asks: int) -> tuple[float, list[float]]:
    """Seconds that so many asks took, and each of them."""
    start = time.perf_counter()
    each = asyncio.run(_all(server, clients, asks))
    return time.perf_counter() - start, each


async def _all(server: _Server, clients: int, asks: int) -> list[float]:
    found = await asyncio.gather(*(_client(server, asks // clients) for _ in range(clients)))
    return [seconds for each in found for seconds in each]


async def _client(server: _Server, asks: int) -> list[float]:
    """One connection that asks one query after the other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
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
def _everhold(folder: Path) -> Iterator[_Server]:
    storage, port = f"sqlite:///{folder}/served.db", _free_port()
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
        f"POST /api/v1/holdouts/served/ask HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {token}\r\n"
    )
    serve = [*command, "serve", "--storage", storage, "--port", str(port), "--requests-a-minute", "0"]
    with _running(serve, port) as process:
        yield _Server(process, port, head)


@contextmanager
def _bare(folder: Path) -> Iterator[_Server]:
    port = _free_port()
    head = "POST /ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    command = [sys.executable, "-m", "benchmarks.bare_service", str(folder / "bare.db"), str(port)]
    with _running(command, port) as process:
        yield _Server(process, port, head)


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


def _megabytes(process: subprocess.Popen[bytes]) -> float:
    """Resident memory of a process; Linux alone tells it so."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) / 1024.0
