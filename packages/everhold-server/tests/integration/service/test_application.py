"""Nothing is open that is not on a short list; every request passes the same doors."""

import re

import pytest
from app_samples import http_client, make, seal

from everhold_server.application import API
from everhold_server.mcp_endpoint import AGENTS
from everhold_server.principals import Role

PUBLIC = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),  # asks for a steward itself, unless the operator opened it to this machine
    ("GET", "/login"),
    ("POST", "/login"),
    ("GET", "/login/{link}"),
    ("POST", "/login/{link}"),
    ("POST", "/logout"),
    ("GET", "/sign-in"),
    ("GET", "/sign-in/done"),
    ("GET", f"{API}/openapi.json"),
    ("GET", f"{API}/docs"),
    ("GET", f"{API}/docs.css"),
    ("GET", "/assets/results.css"),
    ("GET", "/public/{name}"),  # of a competition that the steward published
    ("POST", AGENTS),  # asks for a token itself
}
"""Routes that ask for no role, and why is plain."""

ROLES = {role.value for role in Role}


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    return make(seal(tmp_path_factory.mktemp("s"), "flights"))


def depended_on(dependant):
    for each in dependant.dependencies:
        yield getattr(each.call, "__name__", "")
        yield from depended_on(each)


def routes(app):
    """Every method and path that the app answers, pages included, with what its function depends on."""
    for route in app.routes:
        contexts = route.effective_route_contexts() if hasattr(route, "effective_route_contexts") else [route]
        for each in contexts:
            dependant = getattr(each, "dependant", None)
            names = set() if dependant is None else set(depended_on(dependant))
            yield from ((method, each.path, names) for method in getattr(each, "methods", None) or ())


def test_every_route_asks_for_a_role_or_is_on_the_list(app):
    found = list(routes(app))
    assert len(found) > 60
    open_ones = {(method, path) for method, path, names in found if not ROLES & names and method != "HEAD"}
    assert open_ones == PUBLIC


def test_a_stranger_gets_in_nowhere_else(app):
    with http_client(app) as client:
        for method, path, _ in routes(app):
            if method != "HEAD" and (method, path) not in PUBLIC:
                answer = client.request(method, re.sub(r"\{.*?\}", "x", path))
                assert answer.status_code in (401, 303), (method, path, answer.status_code)
        assert client.post(AGENTS.format(holdout="flights")).status_code == 401


def test_what_is_not_there_is_a_problem_document(app):
    with http_client(app) as client:
        answer = client.get("/none")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.headers["x-request-id"]) == 16
