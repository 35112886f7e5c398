"""The service as a process: where it listens, whom it lets in at first, and how it ends."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest
from app_samples import bearing, seal

from everhold_server.principals import Role
from everhold_server.serving import Listening, check_reachable, listen, root_link, token_store_of
from everhold_server.settings import Settings

PROGRAM = [sys.executable, "-c", "from everhold.cli import main; main()", "serve"]
PATIENCE = 60.0


@pytest.mark.parametrize(
    ("host", "address", "plain", "allowed"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000", False, True),
        ("::1", "http://[::1]:8000", False, True),
        ("0.0.0.0", "http://0.0.0.0:8000", False, False),
        ("0.0.0.0", "http://127.0.0.1:8000", False, False),
        ("127.0.0.1", "http://holdout.example", False, False),
        ("0.0.0.0", "https://holdout.example", False, True),
        ("0.0.0.0", "http://holdout.example", True, True),
    ],
)
def test_tokens_travel_in_the_open_only_if_the_operator_says_so(host, address, plain, allowed):
    refused = contextlib.nullcontext() if allowed else pytest.raises(ValueError, match="unencrypted")
    with refused:
        check_reachable(Settings(storage="s.db", address=address), Listening(host), plain=plain)


@pytest.mark.parametrize("address", ["holdout.example", "https://", "ftp://x", "https://x/path", "https://x?y=z", ""])
def test_an_address_that_is_none_is_said(address):
    with pytest.raises(ValueError, match="cannot be used"):
        check_reachable(Settings(storage="s.db", address=address), Listening(), plain=True)


@pytest.mark.parametrize("port", [-1, 70_000, None])
def test_a_port_that_cannot_be_used_is_said(tmp_path, port):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ValueError, match="cannot listen"):
        listen(Settings(storage=str(tmp_path / "s.db")), Listening(port=port or taken.getsockname()[1]))
    assert list(tmp_path.iterdir()) == []


def test_settings_do_not_show_an_address_that_may_hold_a_password():
    assert "hunter2" not in repr(Settings(storage="postgresql://steward:hunter2@db.example/holdouts"))


def test_the_first_link_is_of_a_steward_for_half_a_day(tmp_path):
    token_store = token_store_of(tmp_path / "s.db")
    link = root_link(Settings(storage="s.db", address="https://holdout.example/"), token_store)
    assert link.startswith("https://holdout.example/login/")
    token = token_store.use_link(link.rpartition("/")[2])
    assert (token.role, token.name, token.holdouts) == (Role.STEWARD, "root", None)
    assert token.expires is not None
    token_store.records.database.close()


class Process:
    """A service in a process of its own."""

    def __init__(self, folder, *wanted):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [*PROGRAM, "--storage", str(folder / "s.db"), "--port", str(port), *wanted]
        paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=paths
        )  # fmt: skip

    def wait(self):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/readyz").status_code == 200:
                    return self
            time.sleep(0.05)
        raise TimeoutError(self.process.communicate(timeout=5))

    def stop(self, number):
        self.process.send_signal(number)
        return self.process.communicate(timeout=PATIENCE)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of posix")
def test_two_processes_serve_one_storage_and_finish_what_is_under_way(tmp_path):
    token_store = token_store_of(seal(tmp_path, "flights"))
    text = token_store.make(Role.STEWARD, "grace", by="test").secret
    token_store.records.database.close()
    first, second = Process(tmp_path, "--root"), Process(tmp_path)
    try:
        first.wait(), second.wait()
        for server in (first, second):
            assert httpx.get(f"{server.url}/api/v1/me", headers=bearing(text)).status_code == 200
        made = httpx.post(f"{first.url}/api/v1/tokens", json={"name": "ada"}, headers=bearing(text)).json()
        assert httpx.get(f"{second.url}/api/v1/me", headers=bearing(made["secret"])).json()["name"] == "ada"
        begun, told = threading.Event(), []

        def ask():
            headers, body = {**bearing(text), "content-type": "application/json"}, slow_body(b'{"name": "slow"}', begun)
            told.append(httpx.post(f"{first.url}/api/v1/tokens", timeout=PATIENCE, headers=headers, content=body))

        asking = threading.Thread(target=ask)
        asking.start()
        assert begun.wait(PATIENCE)
        assert httpx.get(f"{first.url}/healthz").status_code == 200  # so the connection before this one is accepted
        out, err = first.stop(signal.SIGTERM)
        asking.join()
        assert told[0].status_code == 201
        assert first.process.returncode == 0
        assert second.stop(signal.SIGINT)
        assert second.process.returncode == 0
    finally:
        first.process.kill(), second.process.kill()
    link = out.strip().rpartition(" ")[2]
    assert link.startswith(f"{first.url}/login/")
    assert link not in err
    head, *lines = err.splitlines()
    assert head == f"serving at {first.url} (stop with Ctrl+C)"
    assert {json.loads(line)["logger"] for line in lines} == {"everhold_server.requests"}
    assert text not in err + out


def slow_body(content, begun):
    """The content byte by byte; the event says that its head is sent."""
    for place in range(len(content)):
        begun.set()
        time.sleep(0.1)
        yield content[place : place + 1]
