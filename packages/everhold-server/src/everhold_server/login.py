"""Login and logout of browsers, by a token, a link that works once, or an account of the organisation.

A login link opens a page with a button, and only the button uses the link up: a program that opens links beforehand,
such as a preview in a chat, does not. A login makes a new session and ends the one that the browser had, so that nobody
can give a visitor a session whose cookie is known to somebody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response
from starlette.requests import ClientDisconnect

from everhold.errors import QueryRejected, Unavailable
from everhold_server.audit import noted
from everhold_server.middleware import RateLimiter, client_of, too_many
from everhold_server.sessions import Sessions, cookie_name, give_cookie, take_cookie
from everhold_server.sign_in import CALLBACK, Begun, OpenIDSignIn, Person, SignIn, SignInRefused
from everhold_server.uploads import Unusable
from everhold_server.web.pages import page

if TYPE_CHECKING:
    from collections.abc import Callable

    from everhold_server.token_store import Token, TokenStore

LOGIN = APIRouter(include_in_schema=False)

_SIGN_IN_LASTS = 600  # seconds
_LONGEST, _MOST_FIELDS = 200, 10
_WRONG_TOKEN = "Invalid, expired or revoked token. Ask the steward for another one."
_WRONG_LINK = (
    "This link cannot be used: it was used already, or is older than 15 minutes. Ask the steward for another one."
)


def logged_in(request: Request, token: Token) -> Response:
    """Return a redirect to the first page that opens a session of a token and ends the former one."""
    sessions, settings = _of(request), request.app.state.settings
    before = request.cookies.get(cookie_name(settings))
    if before is not None:
        sessions.close(before)
    response = RedirectResponse("/", 303)
    give_cookie(response, sessions.open(token), settings)
    noted(request, "login", outcome="in", name=token.name, of=token.id)
    return response


def logged_out(request: Request) -> Response:
    """Return a redirect to the login that ends the session of the request."""
    secret = request.cookies.get(cookie_name(request.app.state.settings))
    if secret is not None:
        _of(request).close(secret)
    response = RedirectResponse("/login", 303)
    take_cookie(response, request.app.state.settings)
    response.headers["clear-site-data"] = '"cache"'
    return response


@LOGIN.get("/login")
def ask_for_token(request: Request) -> Response:
    """Return the page that asks for a token."""
    return _page(request)


async def _token(request: Request) -> str:
    """Return the token field of a login form, empty for other content."""
    try:
        fields = dict(parse_qsl((await request.body()).decode("ascii"), max_num_fields=_MOST_FIELDS))
    except ValueError:
        return ""
    except ClientDisconnect:
        raise Unusable("The body of the request ended early. Send the whole request again.") from None
    return fields.get("token", "").strip()[:_LONGEST]


@LOGIN.post("/login")
def take_token(request: Request, token: Annotated[str, Depends(_token)]) -> Response:
    """Log in with a token."""
    found = _of(request).token_store.authenticate(token)
    return logged_in(request, found) if found is not None else _refused(request, _WRONG_TOKEN)


@LOGIN.get("/login/{link}")
def show_link(request: Request, link: str) -> Response:
    """Return a page with a button that uses a login link. Opening the page does not use the link up."""
    return _page(request, link=link)


@LOGIN.post("/login/{link}")
def take_link(request: Request, link: str) -> Response:
    """Log in by a login link, and use it up."""
    found = _of(request).token_store.use_link(link)
    return logged_in(request, found) if found is not None else _refused(request, _WRONG_LINK, form=False)


@LOGIN.get("/sign-in")
def sign_in(request: Request) -> Response:
    """Redirect the visitor to the identity provider, or log in the person whom the proxy names."""
    way = request.app.state.settings.sign_in
    if isinstance(way, OpenIDSignIn):
        return _or_refused(request, lambda: _begun(request, way))
    person = None if way is None else way.person(request.headers)
    if way is None or person is None:
        return _refused(request, "Nobody signs in with an account here, or the proxy did not say who you are.")
    return _or_refused(request, lambda: _welcome(request, way, person))


@LOGIN.get(CALLBACK)
def signed_in(request: Request) -> Response:
    """Log in the person whom the identity provider authenticated."""
    settings = request.app.state.settings
    way, begun = settings.sign_in, Begun.from_cookie(request.cookies.get(_sign_in_cookie(request), ""))
    if not isinstance(way, OpenIDSignIn) or begun is None:
        return _refused(request, "This sign-in was begun in another browser, or more than ten minutes ago.")
    return _or_refused(request, lambda: _welcome(request, way, way.finish(settings.address, request.url.query, begun)))


def _or_refused(request: Request, let_in: Callable[[], Response]) -> Response:
    """Return the response of `let_in`, a step of the sign-in, or the login page with the reason why it was refused."""
    try:
        return let_in()
    except Unavailable as fault:
        return _refused(request, str(fault), status=503)
    except (SignInRefused, QueryRejected) as fault:
        return _refused(request, str(fault), status=403)


def _begun(request: Request, way: OpenIDSignIn) -> Response:
    """Return a redirect to the sign-in provider, with a cookie that the return visit is checked against."""
    settings = request.app.state.settings
    url, begun = way.begin(settings.address)
    response = RedirectResponse(url, 303)
    response.set_cookie(
        _sign_in_cookie(request), begun.cookie(), max_age=_SIGN_IN_LASTS, path="/", secure=settings.secure,
        httponly=True, samesite="lax",
    )  # fmt: skip
    return response


def _welcome(request: Request, way: SignIn, person: Person) -> Response:
    """Return a page that opens a session for a person, and then opens the next page.

    It is no redirect: the visitor comes from another site, and a browser would follow a redirect without the cookie.

    Raises:
        SignInRefused: If the person may not come in. Any rights that an earlier sign-in gave by a group have then
            ended.
        QueryRejected: If the person's name cannot be used.
    """
    token_store: TokenStore = request.app.state.token_store
    try:
        token = token_store.sign_in(person, way.rule_of(person))
    except SignInRefused:
        token_store.sign_out(person)
        raise
    response = logged_in(request, token)
    onward = page(request, "signed_in.html", name=token.name)
    for value in response.headers.getlist("set-cookie"):
        onward.headers.append("set-cookie", value)
    onward.delete_cookie(_sign_in_cookie(request), path="/", secure=request.app.state.settings.secure, httponly=True)
    return onward


def _sign_in_cookie(request: Request) -> str:
    return f"{cookie_name(request.app.state.settings)}-sign-in"


@LOGIN.post("/logout")
def log_out(request: Request) -> Response:
    """End the session of the browser, and return to the login page."""
    return logged_out(request)


def _of(request: Request) -> Sessions:
    sessions: Sessions = request.app.state.sessions
    return sessions


def _refused(request: Request, why: str, *, form: bool = True, status: int = 401) -> Response:
    """Return the login page with a reason, the same for every kind of wrong token or link.

    `form` is True if the page should have the form for a token.
    """
    failures: RateLimiter = request.app.state.failures
    noted(request, "login", outcome="refused")
    wait = failures.take(client_of(request.scope)) if failures.size else 0.0
    if wait:
        refusal = too_many(wait)
        assert isinstance(refusal, Response)
        return refusal
    return _page(request, why=why, form=form, status=status)


def _page(request: Request, *, link: str = "", why: str = "", form: bool = True, status: int = 200) -> Response:
    way = request.app.state.settings.sign_in
    return page(request, "login.html", link=link, why=why, form=form, way=way and way.title, status=status)
