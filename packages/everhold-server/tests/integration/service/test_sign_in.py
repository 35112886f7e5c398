"""People come in with an account of their organisation: a provider of OpenID Connect, or a proxy, says who it is."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from app_samples import ADDRESS, http_client, make, seal, token
from identity_samples import RULES, providing
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet, OctKey, RSAKey

from everhold.errors import Unavailable
from everhold_server.principals import Role
from everhold_server.sessions import cookie_name
from everhold_server.sign_in import (
    CALLBACK,
    MOST_AT_PROVIDER,
    OpenIDSignIn,
    ProxySignIn,
    Rule,
    read_sign_in,
)

ME = "/api/v1/me"


@pytest.fixture(scope="module")
def provider():
    with providing() as address:
        yield address


@pytest.fixture
def way(provider):
    return OpenIDSignIn(rules=RULES, issuer=provider, client_id="everhold", secret="known to both")


@pytest.fixture
def app(tmp_path, way):
    return make(seal(tmp_path, "flights", "trains"), sign_in=way)


def come_back(client, sub):
    """Go to the provider, say who one is there, and return the address that it sends the browser to."""
    begun = client.get("/sign-in")
    assert begun.status_code == 303
    there = httpx.post(begun.headers["location"], data={"sub": sub})
    return there.headers["location"].removeprefix(ADDRESS)


def test_an_account_opens_a_session_with_the_role_of_its_first_group(app):
    with http_client(app) as client:
        assert 'href="/sign-in"' in client.get("/login").text
        done = client.get(come_back(client, "1"))
        assert done.status_code == 200
        assert "anna@example.org" in done.text
        assert f'{cookie_name(app.state.settings)}-sign-in=""' in str(done.headers)  # the state is used up
        me = client.get(ME).json()
        assert (me["name"], me["role"], me["holdouts"]) == ("anna@example.org", "analyst", ["flights"])
        assert client.get("/api/v1/holdouts/trains").status_code == 404
    with http_client(app) as client:
        client.get(come_back(client, "2"))
        assert client.get(ME).json()["role"] == "steward"


def test_the_same_person_is_the_same_analyst_and_follows_their_groups(app, way):
    with http_client(app) as client:
        client.get(come_back(client, "1"))
        first = client.get(ME).json()["token"]
    app.state.settings = replace(app.state.settings, sign_in=replace(way, rules=(Rule(group="all", role=Role.VIEWER),)))
    with http_client(app) as client:
        client.get(come_back(client, "1"))
        me = client.get(ME).json()
    assert (me["token"], me["role"], me["holdouts"]) == (first, "viewer", None)


@pytest.mark.parametrize(
    ("sub", "why"),
    [
        ("3", "in no group that may log in"),
        ("5", "has not verified the email dan@example.org"),
        ("6", "sent no claim &#39;email&#39;"),
        ("7", "in no group that may log in"),
        ("8", "is used by another person or token"),
    ],
)
def test_who_has_no_role_no_verified_name_or_the_name_of_another_is_told_why_and_not_let_in(app, sub, why):
    token(app, Role.ANALYST, "reports")
    before = app.state.token_store.all()
    with http_client(app) as client:
        refused = client.get(come_back(client, sub))
        assert refused.status_code == 403
        assert why in refused.text
        assert client.get(ME).status_code == 401
    assert app.state.token_store.all() == before


@pytest.mark.parametrize("sub", ["4", "9"])
def test_a_name_stays_with_the_person_who_had_it_first_also_in_capitals(app, sub):
    with http_client(app) as client:
        client.get(come_back(client, "1"))
    with http_client(app) as client:
        assert client.get(come_back(client, sub)).status_code == 403
        assert client.get(ME).status_code == 401


def test_a_session_ends_after_twelve_hours_and_when_a_steward_takes_the_access_back(app):
    with http_client(app) as client:
        client.get(come_back(client, "1"))
        (person,) = app.state.token_store.all()
        for _ in range(11):
            app.state.token_store.records.clock.later(hours=1, minutes=4)
            assert client.get(ME).status_code == 200
        app.state.token_store.records.clock.later(minutes=20)
        assert client.get(ME).status_code == 401
        client.get(come_back(client, "1"))
        assert client.get(ME).status_code == 200
        app.state.token_store.revoke(person.id)
        assert client.get(ME).status_code == 401
        refused = client.get(come_back(client, "1"))
        assert (refused.status_code, "A steward has withdrawn the access" in refused.text) == (403, True)


def test_a_person_without_a_group_any_more_loses_what_earlier_groups_gave(app, way):
    with http_client(app) as client:
        client.get(come_back(client, "2"))
        assert client.get(ME).json()["role"] == "steward"
        with http_client(app) as elsewhere:
            app.state.settings = replace(app.state.settings, sign_in=replace(way, rules=RULES[:0]))
            assert elsewhere.get(come_back(elsewhere, "2")).status_code == 403
        assert client.get(ME).status_code == 401
        app.state.settings = replace(app.state.settings, sign_in=way)
        assert client.get(come_back(client, "2")).status_code == 200


def test_a_session_ends_with_the_way_by_which_it_began(tmp_path, way):
    storage = seal(tmp_path, "flights")
    with http_client(make(storage, sign_in=way)) as client:
        client.get(come_back(client, "1"))
        cookies = dict(client.cookies)
    for instead, status in (
        (way, 200), (None, 401), (replace(way, issuer=f"{way.issuer}/other"), 401), (TestAProxy.WAY, 401),
    ):  # fmt: skip
        with http_client(make(storage, sign_in=instead)) as client:
            client.cookies.update(cookies)
            assert client.get(ME).status_code == status


def test_a_provider_that_stands_still_leaves_threads_to_everybody_else(app, monkeypatch):
    answers, waiting = threading.Event(), threading.Semaphore(0)

    def request(*_, **given):
        waiting.release()
        answers.wait()
        raise httpx.ReadTimeout("nothing came")

    monkeypatch.setattr(httpx, "request", request)
    way = app.state.settings.sign_in
    with ThreadPoolExecutor(MOST_AT_PROVIDER) as pool:
        begun = [pool.submit(way.begin, ADDRESS) for _ in range(MOST_AT_PROVIDER)]
        for _ in begun:
            waiting.acquire()
        with http_client(app) as client:
            monkeypatch.setattr(httpx, "request", None)  # nobody else asks the provider
            refused = client.get("/sign-in")
            assert (refused.status_code, f"{MOST_AT_PROVIDER} other people" in refused.text) == (503, True)
        answers.set()
        assert {type(each.exception()) for each in begun} == {Unavailable}


def test_nobody_is_sent_into_the_account_of_another(app):
    """Whoever lures a victim to their own callback has begun in another browser, or has another state."""
    with http_client(app) as attacker, http_client(app) as victim:
        callback = come_back(attacker, "2")
        assert victim.get(callback).status_code == 401
        come_back(victim, "1")
        refused = victim.get(callback)
        assert refused.status_code == 403
        assert victim.get(ME).status_code == 401


def test_a_code_is_used_once_and_a_made_up_one_never(app):
    with http_client(app) as client:
        callback = come_back(client, "1")
        state = parse_qs(urlsplit(callback).query)["state"][0]
        assert client.get(f"{CALLBACK}?code=made-up&state={state}").status_code == 403
        assert client.get(f"{CALLBACK}?error=access_denied&state={state}").status_code == 403
        cookies = dict(client.cookies)
        assert client.get(callback).status_code == 200
    with http_client(app) as client:
        client.cookies.update(cookies)
        assert client.get(callback).status_code == 403


def test_a_provider_that_is_down_or_another_one_is_said_so(app, way, provider):
    for issuer in ("http://127.0.0.1:9", f"{provider}/", f"{provider}/other"):
        app.state.settings = replace(app.state.settings, sign_in=replace(way, issuer=issuer))
        with http_client(app) as client:
            assert client.get("/sign-in").status_code == 503


def test_without_a_way_to_sign_in_there_is_no_button_and_no_route_in(tmp_path):
    with http_client(make(seal(tmp_path, "flights"))) as client:
        assert "/sign-in" not in client.get("/login").text
        assert client.get("/sign-in").status_code == 401
        assert client.get(CALLBACK).status_code == 401


class TestIdentityTokens:
    KEY = RSAKey.generate_key(2048, {"kid": "1"})
    OTHER = RSAKey.generate_key(2048, {"kid": "1"})
    WAY = OpenIDSignIn(rules=RULES, issuer="https://id.example", client_id="everhold", secret="s")

    def claims(self, **wanted):
        now = int(time.time())
        fit = {"iss": "https://id.example", "sub": "1", "aud": "everhold", "iat": now, "exp": now + 300, "nonce": "n"}
        return {name: value for name, value in {**fit, **wanted}.items() if value is not None}

    def verify(self, claims, *, key=KEY, algorithm="RS256"):
        keys = KeySet([self.KEY]).as_dict(private=False)
        text = jwt.encode({"alg": algorithm, "kid": "1"}, claims, key, algorithms=[algorithm])
        return self.WAY.verified(text, keys, "n")

    def test_a_right_one_is_taken(self):
        assert self.verify(self.claims())["sub"] == "1"
        assert self.verify(self.claims(aud=["everhold", "other"], azp="everhold"))["sub"] == "1"

    @pytest.mark.parametrize(
        "wrong",
        [
            {"aud": "another client"},
            {"aud": ["everhold", "other"]},
            {"aud": ["everhold", "other"], "azp": "other"},
            {"aud": None},
            {"iss": "https://id.example.evil"},
            {"iss": None},
            {"exp": 1},
            {"exp": None},
            {"iat": int(time.time()) + 3_600},
            {"nonce": "of another sign-in"},
            {"nonce": None},
            {"sub": None},
        ],
    )
    def test_one_for_another_client_time_sign_in_or_issuer_is_refused(self, wrong):
        with pytest.raises(JoseError):
            self.verify(self.claims(**wrong))

    def test_one_that_somebody_else_signed_is_refused(self):
        with pytest.raises(JoseError):
            self.verify(self.claims(), key=self.OTHER)
        public = self.KEY.as_pem(private=False)
        with pytest.raises((JoseError, ValueError)):  # the public key is no shared secret
            self.verify(self.claims(), key=OctKey.import_key(public), algorithm="HS256")
        unsigned = "eyJhbGciOiJub25lIn0." + self.WAY.issuer + "."
        with pytest.raises((JoseError, ValueError)):
            self.WAY.verified(unsigned, KeySet([self.KEY]).as_dict(private=False), "n")


ANNA = {"X-Forwarded-User": "anna", "X-Forwarded-Groups": "all, science", "X-Everhold-Proxy": "of the proxy"}
"""What the proxy adds to each request of anna."""


class TestAProxy:
    WAY = ProxySignIn(rules=RULES, secret="of the proxy")

    @pytest.fixture
    def app(self, tmp_path):
        return make(seal(tmp_path, "flights"), sign_in=self.WAY)

    def test_whom_it_names_comes_in(self, app):
        with http_client(app) as client:
            assert client.get("/sign-in", headers=ANNA).status_code == 200
            me = client.get(ME, headers=ANNA).json()
            assert (me["name"], me["role"], me["holdouts"]) == ("anna", "analyst", ["flights"])

    @pytest.mark.parametrize(
        "wrong", [{"X-Everhold-Proxy": "a guess"}, {"X-Everhold-Proxy": ""}, {"X-Forwarded-User": ""}]
    )
    def test_headers_of_anybody_else_are_not_believed(self, app, wrong):
        with http_client(app) as client:
            assert client.get("/sign-in", headers={**ANNA, **wrong}).status_code == 401
            assert client.get(ME, headers={**ANNA, **wrong}).status_code == 401

    @pytest.mark.parametrize(("name", "value"), [("X-Forwarded-User", "bob"), ("X-Forwarded-Groups", "stewards")])
    def test_a_header_to_which_the_proxy_added_its_own_is_not_believed(self, app, name, value):
        with http_client(app) as client:
            assert client.get("/sign-in", headers=[(name, value), *ANNA.items()]).status_code == 401
        assert app.state.token_store.all() == []

    def test_a_session_is_of_whom_the_proxy_names_now(self, app):
        with http_client(app) as client:
            client.get("/sign-in", headers=ANNA)
            assert client.get(ME, headers={**ANNA, "X-Forwarded-User": "bob"}).status_code == 401
            assert client.get(ME).status_code == 401
            assert client.get(ME, headers=ANNA).status_code == 200

    def test_a_group_without_a_role_is_refused(self, app):
        with http_client(app) as client:
            assert client.get("/sign-in", headers={**ANNA, "X-Forwarded-Groups": "all"}).status_code == 403
        assert app.state.token_store.all() == []


FILE = """
[oidc]
issuer = "https://id.example"
client_id = "everhold"
groups = "realm_access.roles"

[[allow]]
group = "science"
role = "analyst"
holdouts = ["flights"]
"""


def test_a_file_says_how(tmp_path, monkeypatch):
    monkeypatch.setenv("EVERHOLD_OIDC_SECRET", "s3cret")
    file = tmp_path / "sign-in.toml"
    file.write_text(FILE)
    way = read_sign_in(file)
    assert (way.issuer, way.rules) == ("https://id.example", RULES[1:])
    assert "s3cret" not in repr(way)
    claims = {"sub": "1", "email": "a@b.c", "email_verified": True, "realm_access": {"roles": ["science"]}}
    assert way.rule_of(way.person(claims)) == RULES[1]
    (tmp_path / "secret").write_text("of the proxy\n")
    proxy = "[proxy]\nsecret_file = '%s'\n[[allow]]\ngroup = 'g'\nrole = 'viewer'\n"
    file.write_text(proxy % (tmp_path / "secret"))
    assert read_sign_in(file).secret == "of the proxy"


@pytest.mark.parametrize(
    ("written", "instead", "why"),
    [
        ("https://", "http://", "does not begin with https"),
        ('role = "analyst"', 'role = "king"', "'king' does not exist"),
        ("[[allow]]", "[[allowed]]", "the sections"),
        ('group = "science"', 'groups = "science"', "other fields than group, role and holdouts"),
        ("client_id", "client", "client, which is not a setting"),
        ('client_id = "everhold"', "client_id = 5", "client_id is 5"),
        ('client_id = "everhold"', 'client_id = "everhold"\nscopes = "openid email"', "scopes is 'openid email'"),
        ('["flights"]', '"flights"', "holdouts is 'flights'"),
        ('["flights"]', "[]", "List at least one name"),
        ("[oidc]", "[saml]", "has the section"),
        ("[oidc]", "[oidc", "cannot be used"),
    ],
)
def test_a_file_that_cannot_be_used_says_what_is_wrong(tmp_path, monkeypatch, written, instead, why):
    monkeypatch.setenv("EVERHOLD_OIDC_SECRET", "s3cret")
    file = tmp_path / "sign-in.toml"
    file.write_text(FILE.replace(written, instead))
    with pytest.raises(ValueError, match=why):
        read_sign_in(file)
    monkeypatch.delenv("EVERHOLD_OIDC_SECRET")
    file.write_text(FILE)
    with pytest.raises(ValueError, match="it has no secret"):
        read_sign_in(file)
