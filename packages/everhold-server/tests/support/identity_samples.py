"""A provider of OpenID Connect with some people, and the roles of their groups."""

import json
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import httpx

from everhold_server.principals import Role
from everhold_server.sign_in import Rule

RULES = (
    Rule(group="stewards", role=Role.STEWARD),
    Rule(group="science", role=Role.ANALYST, holdouts=("flights",)),
)
PEOPLE = {
    "1": {"email": "anna@example.org", "groups": ["science", "all"]},
    "2": {"email": "bob@example.org", "groups": ["science", "stewards"]},
    "3": {"email": "eve@example.org", "groups": ["visitors"]},
    "4": {"email": "anna@example.org", "groups": ["stewards"]},
    "5": {"email": "dan@example.org", "groups": ["science"], "email_verified": False},
    "6": {"groups": ["science"]},
    "7": {"email": "fay@example.org"},
    "8": {"email": "reports", "groups": ["science"]},
    "9": {"email": "Anna@Example.org", "groups": ["stewards"]},
}


@contextmanager
def providing():
    """The address of a provider of OpenID Connect, which runs in a process of its own for the time of the context."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    users = [{"sub": sub, "email_verified": True, **claims} for sub, claims in PEOPLE.items()]
    known = [word for user in users for word in ("--user-claims", json.dumps(user))]
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(port), "--require-nonce"]
    with subprocess.Popen([*command, *known], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        address = f"http://127.0.0.1:{port}"
        try:
            for _ in range(200):
                with suppress(httpx.TransportError):
                    httpx.get(address)
                    break
                time.sleep(0.1)
            yield address
        finally:
            process.kill()
