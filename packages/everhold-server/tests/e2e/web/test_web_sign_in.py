"""People sign in with a browser by an account at a real provider of OpenID Connect, and see what their groups may."""

import socket
import threading
from dataclasses import replace

import pytest
import uvicorn
from app_samples import Clock, seal
from identity_samples import RULES, providing
from web_samples import chromium

from everhold_server import Settings, make_app
from everhold_server.sign_in import OpenIDSignIn


@pytest.fixture(scope="module")
def provider():
    with providing() as address:
        yield address


@pytest.fixture(scope="module")
def service(provider, tmp_path_factory):
    """The app with a real server, a clock that tests move on, and the provider as its only way in."""
    storage = seal(tmp_path_factory.mktemp("s"), "flights", "trains")
    way = OpenIDSignIn(rules=RULES, issuer=provider, client_id="everhold", secret="known to both")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        app = make_app(Settings(str(storage), address=address, answers_wait_for=0.0, sign_in=way))
        app.state.token_store.records.clock = Clock()
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield app, address
        server.should_exit = True
        thread.join()


@pytest.fixture
def page(service):
    with chromium() as browser:
        yield browser.new_page(base_url=service[1])


def sign_in(page, sub):
    """Go to the provider by the button, and say there who one is."""
    page.goto("/login")
    page.get_by_role("link", name="Sign in").click()
    page.locator("input[name=sub]").fill(sub)
    page.locator("button[type=submit], input[type=submit]").first.click()


def test_the_role_is_that_of_the_group(page):
    sign_in(page, "1")
    page.wait_for_url("**/holdouts")
    assert "anna@example.org" in page.locator("header").inner_text()
    assert page.get_by_role("link", name="Tokens").count() == 0
    assert page.goto("/holdouts/flights").status == 200
    assert page.goto("/holdouts/trains").status == 404
    page.goto("/holdouts")
    page.get_by_role("button", name="Log out").click()
    sign_in(page, "2")
    page.wait_for_url("**/holdouts")
    assert page.get_by_role("link", name="Tokens").count() == 1
    assert page.goto("/holdouts/trains").status == 200


def test_a_session_that_is_expired_leads_to_the_door(page, service):
    sign_in(page, "1")
    page.wait_for_url("**/holdouts")
    service[0].state.token_store.records.clock.later(hours=13)
    page.goto("/holdouts/flights")
    assert page.url.endswith("/login") or page.get_by_role("link", name="Sign in").count() == 1
    assert "delay" not in page.content()


def test_a_token_for_another_client_lets_nobody_in(page, service, monkeypatch):
    app = service[0]
    theirs = replace(app.state.settings.sign_in, client_id="another client")
    verified = OpenIDSignIn.verified
    monkeypatch.setattr(OpenIDSignIn, "verified", lambda _, *sent: verified(theirs, *sent))
    sign_in(page, "1")
    page.get_by_text("Begin again").first.wait_for()
    assert page.goto("/holdouts").url.endswith("/login") or page.get_by_role("link", name="Sign in").count() == 1


def test_claims_without_a_role_are_told_so_and_nothing_is_made(page, service):
    before = service[0].state.token_store.all()
    sign_in(page, "3")
    page.get_by_text("in no group that may log in").wait_for()
    assert service[0].state.token_store.all() == before
