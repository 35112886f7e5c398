"""Receivers of webhooks on this machine, well-behaved and not, and a study to be told of."""

import base64
import contextlib
import hashlib
import hmac
import importlib.util
import json
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import holdout_samples

from everhold import Holdout

LOOPBACK = "127.0.0.1"
KINDS = ["sqlite", *(["postgresql"] if importlib.util.find_spec("postgres_cluster") else [])]
"""Databases that webhooks are kept in."""


def address(kind, request):
    """The address of an empty storage, for a fixture."""
    if kind == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path')}/study.db"
    return request.getfixturevalue("postgres_url")


def study(url, name="study"):
    """A holdout that is made at once."""
    rows, training = holdout_samples.rows(0), holdout_samples.rows(1)
    mechanism = holdout_samples.guess_and_check()
    return Holdout.create(
        url, name, holdout=rows, training=training, label="late", mechanism=mechanism, again=True
    )  # fmt: skip


@dataclass
class Receiver:
    """What a receiver got, and what it answers; `status` may be changed meanwhile."""

    status: int = 200
    headers: dict = field(default_factory=dict)
    port: int = 0
    got: list = field(default_factory=list)

    @property
    def url(self):
        return f"http://{LOOPBACK}:{self.port}/hook"

    def events(self):
        return [json.loads(body) for _, body in self.got]

    def wait_for(self, count, seconds=20.0):
        until = time.monotonic() + seconds
        while len(self.got) < count:
            assert time.monotonic() < until, f"{len(self.got)} of {count} deliveries arrived"
            time.sleep(0.01)
        return self.got


@contextlib.contextmanager
def receiving(status=200, headers=(), *, port=0, context=None):
    receiver = Receiver(status, dict(headers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.got.append((dict(self.headers), body))
            self.send_response(receiver.status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_):
            pass

    with Server((LOOPBACK, port), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        receiver.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def behaving(behaviour):
    """A receiver that takes a connection and does `behaviour(connection)`; the port it listens at."""
    with socket.create_server((LOOPBACK, 0)) as server:

        def serve():
            with contextlib.suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(10.0)  # so that a test ends
                    behaviour(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            thread.join()


def verified(secret, headers, body, *, now=None, tolerance=300):
    """What a receiver does: whether a delivery was signed with the secret, and lately."""
    at = int(headers["webhook-timestamp"])
    if abs((time.time() if now is None else now) - at) > tolerance:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{at}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return hmac.compare_digest(expected, headers["webhook-signature"])
