"""A real service on the loopback address of this machine, in a thread, and what goes wrong on the way to one."""

import threading
import time
from contextlib import contextmanager

import uvicorn

from everhold.errors import AuthError
from everhold.service import Settings, make_app, visitors
from everhold.service.visitors import Role, Visitor

TOKENS = {
    "eh_root": Visitor(Role.STEWARD, "root"),
    "eh_ada": Visitor(Role.ANALYST, "ada"),
    "eh_eve": Visitor(Role.VIEWER, "eve"),
    "eh_other": Visitor(Role.ANALYST, "ada", frozenset({"other"})),
}


def known(request):
    """Who has this token; tokens themselves are tested with the service."""
    visitor = TOKENS.get(request.headers.get("authorization", "").removeprefix("Bearer "))
    if visitor is None:
        raise AuthError("the token is not valid; expected one from the steward; nothing was charged")
    return visitor


@contextmanager
def serving(folder, monkeypatch):
    """The address of a service of the storage in a folder."""
    monkeypatch.setattr(visitors, "known_visitor", known)
    app = make_app(Settings(f"sqlite:///{folder}/study.db"))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
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
