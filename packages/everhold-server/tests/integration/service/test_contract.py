"""What all routes promise: a role or a public list, documented answers, and no fault of our own for any body."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_samples import ADA, API, EVE, STEWARD, STUDY, head, left_behind, seal, serving

from everhold.errors import DependenceWarning, SmallHoldoutWarning, warn_caller, warnings_collected
from everhold.queries import KINDS
from everhold_server.principals import Role

PUBLIC = {"/api/v1/docs", "/api/v1/docs.css", "/api/v1/openapi.json"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("contract")


@pytest.fixture(scope="module")
def http_client(folder):
    seal(folder, ids=True)
    with serving(folder) as found:
        yield found


@pytest.fixture(scope="module")
def ada(http_client):
    return http_client(ADA)


def operations(app):
    return [
        (path, method, operation)
        for path, methods in app.openapi()["paths"].items() if path.startswith(API)
        for method, operation in methods.items()
    ]  # fmt: skip


def test_every_route_of_the_data_plane_says_what_it_refuses(http_client):
    ours = operations(http_client.app)
    assert len(ours) > 25
    for path, method, operation in ours:
        refused = {status for status in operation["responses"] if status[0] in "45"}
        assert refused >= {"401", "403", "409", "422", "429", "500"}, (path, method)
        for status in refused:
            assert list(operation["responses"][status]["content"]) == ["application/problem+json"]
        assert operation["summary"]
        assert len(operation["description"]) > 40


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_nobody_is_let_in_without_a_token(http_client, method):
    routes = [path for path, verb, _ in operations(http_client.app) if verb == method.lower()]
    assert routes
    for path in routes:
        place = path.format(name="study", gate="gate", analyst="ada", identifier="x", sequence=1)
        assert http_client().request(method, place, json={}).status_code == 401, path
    assert {http_client().get(path).status_code for path in PUBLIC} == {200}


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
KEYS = ("query", "queries", "guess", "guesses", "tolerance", "silent", "predictions", "team",
        "training", "candidate",
        "champion", "metric", "margin", "name", "challenges", "confirm", "queries", "rows", "kind", "of", "low", "high",
        "given", "file", "dependence")  # fmt: skip
DETAILED = ("of", "low", "high", "given", "queries", "edges", "loss", "price")
objects = st.dictionaries(st.sampled_from(KEYS), anything, max_size=5)
asked = st.fixed_dictionaries(
    {"kind": st.sampled_from([kind.name for kind in KINDS])},
    optional=dict.fromkeys(("of", "low", "high", "given", "queries", "edges", "loss", "price"), anything | objects),
)
PLACES = ("quote", "ask", "ask-many", "submissions", "submissions/check", "gates", "gates/gate/challenges", "unseal")


@pytest.mark.slow
@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(PLACES), body=anything | objects | st.fixed_dictionaries({"query": asked | anything}))
def test_no_body_makes_the_service_fail_or_charge(ada, folder, place, body):
    before = head(folder)
    content = json.dumps(body).encode("utf-8", "surrogatepass")
    said = ada.post(f"{STUDY}/{place}", content=content, headers={"content-type": "application/json"})
    assert said.status_code in (200, 400, 403, 404, 409, 413, 415, 422), (place, body)
    if said.status_code != 200:
        assert said.headers["content-type"] == "application/problem+json"
        assert head(folder) == before
    assert left_behind(folder) == []


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200), kind=st.sampled_from(["application/json", "multipart/form-data; boundary=b"]))
def test_no_bytes_make_the_service_fail(http_client, folder, content, kind):
    said = http_client(STEWARD).post(STUDY + "/ask", content=content, headers={"content-type": kind})
    assert said.status_code in (400, 413, 422)
    assert left_behind(folder) == []


BODIES = {
    b'{"query": null}': (409, "The query is None. Pass a text or an object"),
    b'\xef\xbb\xbf{"query": "delay > 17"}': (400, "is not well-formed JSON"),
    b'{"query": "kind = \'\\ud800\'"}': (400, "is not well-formed JSON"),
    b'{"query": "delay > 17", "guess": true}': (422, "body.guess: Input should be a valid number"),
}  # fmt: skip


@pytest.mark.parametrize("content", BODIES)
def test_what_is_wrong_with_a_body_is_said(http_client, folder, content):
    before, (status, said) = head(folder), BODIES[content]
    refused = http_client(STEWARD).post(f"{STUDY}/ask", content=content, headers={"content-type": "application/json"})
    assert (refused.status_code, said in refused.json()["detail"]) == (status, True), refused.json()
    assert head(folder) == before


def test_a_name_that_cannot_be_used_is_said_to_have_other_characters_or_to_be_long(http_client):
    for name, said in (("%C3%A9", "characters that cannot be used here"), ("x" * 65, "It is too long")):
        assert said in http_client(STEWARD).get(f"{API}/holdouts/{name}").json()["detail"]


UNKNOWN = {
    "an act": ("POST", "ask?silent=true", "query.silent: There is no such field"),
    "a list": ("GET", "events?afterr=7", "query.afterr: There is no such field"),
    "a certificate": ("GET", "certificate?querys=false", "query.querys: There is no such field"),
    "a value twice": ("GET", "certificate?queries=false&queries=true", "query.queries: It is there twice"),
    "an operation": ("GET", "gates?gate=main", "query.gate: There is no such field"),
}  # fmt: skip


@pytest.mark.parametrize("asked", UNKNOWN)
def test_a_parameter_that_no_route_reads_is_refused_and_nothing_is_done(http_client, folder, asked):
    method, path, said = UNKNOWN[asked]
    before = head(folder)
    document = {"json": {"query": "delay > 17"}} if method == "POST" else {}
    refused = http_client(STEWARD).request(method, f"{STUDY}/{path}", **document)
    assert (refused.status_code, said in refused.json()["detail"]) == (422, True), refused.json()
    assert head(folder) == before
    assert http_client(STEWARD).get(f"{STUDY}/certificate?answer=1=a&answer=2=b").status_code != 422  # a list


@pytest.mark.parametrize("name", ["..", "a%2Fb", "a%00b", "x" * 65, "%F0%9F%98%80", "-study", "study%0A"])
def test_odd_names_name_nothing(http_client, name):
    for who in (EVE, STEWARD):
        assert http_client(who).get(f"{API}/holdouts/{name}/leaderboard").status_code in (404, 422)


def test_a_role_may_do_what_those_below_may():
    assert [role.value for role in Role] == ["steward", "analyst", "viewer"]


def test_warnings_are_collected_in_one_thread_alone():
    with warnings_collected() as outer:
        with warnings_collected() as inner:
            warn_caller(SmallHoldoutWarning("few"))
        with ThreadPoolExecutor() as others, pytest.warns(DependenceWarning, match="elsewhere"):
            others.submit(warn_caller, DependenceWarning("elsewhere")).result()
    assert ([str(each) for each in inner], outer) == (["few"], [])


def test_an_address_names_all_its_methods(http_client):
    documented = {}
    for path, method, _ in operations(http_client.app):
        documented.setdefault(path, set()).add(method.upper())
    for path, methods in documented.items():
        place = path.format(name="study", gate="gate", analyst="ada", identifier="x", sequence=1)
        said = http_client(STEWARD).patch(place)
        assert (said.status_code, {*said.headers["allow"].split(", ")}) == (405, methods), path


@pytest.mark.parametrize("gate", ["nothing", "%00", "a%00b", "%20x", "x" * 100, "%EF%BC%A1", "%F3%82%B2%A9"])
def test_a_gate_that_is_not_there_is_not_found(http_client, folder, gate):
    before = head(folder)
    bodies = {
        "challenges": {"candidate": "delay > 1"}, "champion": {"champion": "delay > 1"},
        "results": {"results": {"a": 1}}, "checks": {"results": {"a": 1}}, "forecasts": {"results": {"a": 1}},
        "open": {"challenger": "a"}, "reports": {"challenger": "a", "results": {"a": 1}},
        "withdrawals": {"challenger": "a"}, "missing": {"results": {"a": 1}},
    }  # fmt: skip
    for path, method, _ in operations(http_client.app):
        if "{gate}" in path:
            place, last = path.format(name="study", gate=gate), path.rpartition("/")[2]
            asked = {"params": {"challenger": "a"}} if last == "open" else {}
            more = {"json": bodies[last]} if method == "post" else asked
            said = http_client(STEWARD).request(method, place, **more)
            assert (said.status_code, said.json()["title"]) == (404, "not found"), (method, path)
    assert head(folder) == before


def test_what_a_holdout_does_not_have_is_not_found(http_client):
    for method, place, body in [
        ("get", "leaderboard", None), ("get", "submissions", None), ("post", "submissions/final", {"number": 1}),
        ("post", "drift", {}),
    ]:  # fmt: skip
        said = http_client(STEWARD).request(method, f"{STUDY}/{place}", json=body)
        assert said.status_code == 404, place


@pytest.mark.parametrize(("place", "body"), [("plan", {"rows": 2_000.0, "queries": 10.0})])
def test_a_whole_number_may_be_written_with_a_point(http_client, place, body):
    assert http_client(STEWARD).post(f"{API}/{place}", json=body).status_code == 200
