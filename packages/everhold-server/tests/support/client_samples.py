"""A real service on the loopback address of this machine, in a thread, and what goes wrong on the way to one."""

import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

import everhold as eh
from everhold_server import Settings, make_app
from everhold_server.principals import Role


@dataclass(frozen=True)
class Serving:
    """A service that is running: its address, and a token for everybody."""

    address: str
    root: str
    ada: str
    bob: str
    eve: str
    other: str

    def connect(self, token, name="study"):
        return eh.connect(self.address, name, token=token)


def _tokens(token_store):
    def made(role, name, *holdouts):
        return token_store.make(Role(role), name, holdouts=holdouts or None, by="test").secret

    return {
        "root": made("steward", "root"), "ada": made("analyst", "ada"), "bob": made("analyst", "bob"),
        "eve": made("viewer", "eve"), "other": made("analyst", "ada", "other"),
    }  # fmt: skip


@contextmanager
def serving(folder):
    """The service of the storage in a folder."""
    with socket.create_server(("127.0.0.1", 0)) as heard:
        address = f"http://127.0.0.1:{heard.getsockname()[1]}"
        app = make_app(Settings(f"sqlite:///{folder}/study.db", address=address, answers_wait_for=0.0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [heard]})
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield Serving(address, **_tokens(app.state.token_store))
        finally:
            server.should_exit = True
            thread.join()


class Answering:
    """An ASGI-less service: answers with what a test says, and keeps what it was sent."""

    def __init__(self, *responses):
        self.responses, self.requests = list(responses), []

    def __call__(self, request):
        self.requests.append(request)
        found = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
        if isinstance(found, Exception):
            raise found
        return found
