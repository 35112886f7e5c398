"""Server processes that are killed and started anew, and the account of what their clients were told."""

import os
import socket
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from prepared_processes import prepared_processes

PATIENCE = 60.0  # seconds


def run_command(arguments, log):
    """What a child process runs: the command itself, in a process that has loaded its modules before."""
    from everhold.cli import main

    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    sys.argv = ["everhold", *arguments]
    main()


def free_port():
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@dataclass
class Server:
    """A process of everhold that serves over HTTP, always at the same port.

    Attributes:
        folder: Where it logs.
        command: Arguments of the command, but for the port.
    """

    folder: Path
    command: list
    port: int = field(default_factory=free_port)
    process: object = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        """Start it; it listens soon after."""
        wanted = [*self.command, "--port", str(self.port)]
        self.process = prepared_processes.Process(target=run_command, args=(wanted, self._log), daemon=True)
        self.process.start()

    def kill(self):
        """Without a warning, whatever it is doing."""
        self.process.kill()
        self.process.join(PATIENCE)

    def wait(self):
        """Until it listens."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise TimeoutError(self.log)

    @property
    def _log(self):
        return str(self.folder / f"{self.port}.log")

    @property
    def log(self):
        return Path(self._log).read_text()


@contextmanager
def serving(folder, command, count):
    """So many servers of one storage."""
    servers = [Server(folder, command) for _ in range(count)]
    try:
        for server in servers:
            server.start()
        for server in servers:
            server.wait()
        yield servers
    finally:
        for server in servers:
            server.kill()


def discrepancies(agents, ledger):
    """Where the ledger and what agents heard, or may have heard, contradict each other; nothing is how it should be.

    Args:
        agents: After their work.
        ledger: Entries, each with query, value, charged.
    """
    found = []
    entries = {entry["query"]: entry for entry in ledger}
    if len(entries) < len(ledger):
        found.append("a query is in the ledger twice")
    heard, open_ones = {}, set()
    for agent in agents:
        for place, answer in enumerate(agent.heard):
            heard.setdefault(answer["query"], []).append(answer)
            if place in agent.cut_off:
                open_ones.add(answer["query"])
    if extra := entries.keys() - heard.keys():
        found.append(f"{len(extra)} queries are in the ledger and were not asked")
    for query, answers in heard.items():
        entry = entries.get(query)
        if entry is None:
            found.append("an answer was told that the ledger has lost")
            continue
        if any(answer["value"] != entry["value"] for answer in answers):
            found.append("another answer was told than the ledger has")
        first = [answer for answer in answers if not answer["repeated"]]
        if len(first) > 1 or sum(answer["charged"] for answer in answers) > entry["charged"]:
            found.append("a query was charged twice")
        if not first and query not in open_ones:
            found.append("the first answer never arrived, and no call was cut off")
        if first and first[0]["charged"] != entry["charged"]:
            found.append("another charge was told than the ledger has")
    return found
