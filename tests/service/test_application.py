"""Nothing is open that is not on a short list; every request passes the same doors."""

import re

import pytest
from door_samples import make, seal, visiting
from fastapi.routing import APIRoute
from starlette.routing import Route

from everhold.service.api import ROUTERS
from everhold.service.application import API, ROOT
from everhold.service.mcp import AGENTS
from everhold.service.visitors import Role

PUBLIC = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),  # asks for a steward itself, unless the operator opened it to this machine
    ("GET", "/login"),
    ("POST", "/login"),
    ("GET", "/login/{link}"),
    ("POST", "/login/{link}"),
    ("POST", "/logout"),
    ("GET", f"{API}/openapi.json"),
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


def routes():
    for router in ROUTERS:
        yield from ((API + route.path, route) for route in router.routes)
    for router in ROOT:
        yield from ((route.path, route) for route in router.routes)


def test_every_route_asks_for_a_role_or_is_on_the_list():
    open_ones = set()
    for path, route in routes():
        if isinstance(route, APIRoute) and not ROLES & set(depended_on(route.dependant)):
            open_ones |= {(method, path) for method in route.methods}
        assert isinstance(route, APIRoute) or path.startswith("/static")
    assert open_ones <= PUBLIC, open_ones - PUBLIC


def test_the_list_is_of_routes_that_are_there(app):
    there = {(method, path) for path, route in routes() for method in getattr(route, "methods", None) or ()}
    there |= {
        (method, route.path) for route in app.routes if isinstance(route, Route) for method in route.methods or ()
    }
    assert there >= PUBLIC


def test_a_stranger_gets_in_nowhere_else(app):
    with visiting(app) as client:
        for path, route in routes():
            for method in (getattr(route, "methods", None) or set()) - {"HEAD"}:
                if (method, path) not in PUBLIC:
                    answer = client.request(method, re.sub(r"\{.*?\}", "x", path))
                    assert answer.status_code in (401, 303), (method, path, answer.status_code)
        assert client.post(AGENTS.format(holdout="flights")).status_code == 401


def test_what_is_not_there_is_a_problem_document(app):
    with visiting(app) as client:
        answer = client.get("/none")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.headers["x-request-id"]) == 16
