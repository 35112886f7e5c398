"""Sign-in with an account of the organisation: by OpenID Connect, or by a proxy that has authenticated the visitor.

The operator's file says how, and what the members of each group may do:

    [oidc]                              # or [proxy], below
    issuer = "https://id.example"
    client_id = "everhold"
    client_secret_file = "/run/secrets/oidc"
    name = "email"                      # claim under which a person asks and spends; with "email", a verified one
    groups = "groups"                   # claim with a list of groups; "realm_access.roles" is a claim in a claim

    [[allow]]                           # the first entry whose group a person has decides
    group = "holdout-stewards"
    role = "steward"

    [[allow]]
    group = "data-science"
    role = "analyst"
    holdouts = ["flights"]

A person is the pair of issuer and subject, which a provider gives to nobody else. The name of the first sign-in stays,
because the ledger has it; a name that somebody else has is refused. Role and holdouts follow the person's groups at
each sign-in and last for twelve hours. If no group of the person is allowed any more, they end. Programs keep their
tokens.

A proxy passes the user's name and groups in headers, with a secret that only it knows:

    [proxy]
    user_header = "X-Forwarded-User"
    groups_header = "X-Forwarded-Groups"     # separated by commas
    secret_file = "/run/secrets/proxy"       # which it sends as X-Everhold-Proxy
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import threading
import tomllib
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import httpx

from everhold.arguments import brief
from everhold.errors import EverholdError, Unavailable
from everhold_server.principals import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.datastructures import Headers

CALLBACK = "/sign-in/done"
"""Where a provider sends visitors back to."""

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by a key that the provider alone has; never one of a shared secret, never none."""

_LEEWAY = 60  # seconds that clocks may differ
_PATIENCE = 10.0  # seconds for an answer of the provider
MOST_AT_PROVIDER = 8
"""Requests to a provider at once: anybody begins a sign-in, and one that stands still must not take all threads."""

_AT_PROVIDER = threading.BoundedSemaphore(MOST_AT_PROVIDER)
_PROXY_SECRET = "x-everhold-proxy"


class SignInRefused(EverholdError):
    """The visitor is not allowed to sign in, or the provider of the sign-in sent invalid data."""

    exit_code = 8
    http_status = 403


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Rule that gives a role to the members of a group.

    Attributes:
        group: A group, as the provider or proxy names it.
        role: The role of its members.
        holdouts: The holdouts that members may see. None for all.
    """

    group: str
    role: Role
    holdouts: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A visitor authenticated by a sign-in provider or proxy.

    Attributes:
        subject: Issuer and identifier, which together identify the person.
        name: Name under which the person asks and spends.
        groups: Groups of the person, as the provider or proxy names them.
    """

    subject: str
    name: str
    groups: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """Settings that sign-in by OpenID and by a proxy share.

    Attributes:
        rules: Rules for groups. The first rule for one of a person's groups decides.
    """

    rules: tuple[Rule, ...]

    def rule_of(self, person: Person) -> Rule:
        """Return the first rule for one of this person's groups.

        Raises:
            SignInRefused: If no rule fits the person.
        """
        for rule in self.rules:
            if rule.group in person.groups:
                return rule
        raise SignInRefused(
            f"{person.name} is in no group that may log in. Ask the operator of the service to allow a group."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySignIn(SignIn):
    """Sign-in by a proxy that authenticates visitors and passes their names in headers."""

    secret: str = field(repr=False)
    user_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"

    title = "your account"

    def person(self, headers: Headers) -> Person | None:
        """Return the person named in the headers of a request, or None if they may not all be from the proxy.

        If a header is there twice, the visitor may have sent one of them, so None is returned.
        """
        given = [headers.getlist(name) for name in (_PROXY_SECRET, self.user_header, self.groups_header)]
        sent, name, listed = ("".join(values).strip() for values in given)
        once = len(given[1]) == 1 and len(given[2]) <= 1
        if not hmac.compare_digest(sent.encode("utf-8", "replace"), self.secret.encode()) or not (once and name):
            return None
        groups = (group.strip() for group in listed.split(","))
        return Person(subject=f"proxy {name}", name=name, groups=frozenset(filter(None, groups)))

    def vouches_for(self, subject: str, headers: Headers) -> bool:
        """Return whether the headers of a request name the person whose session it uses."""
        person = self.person(headers)
        return person is not None and person.subject == subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """State of an unfinished sign-in, stored in a cookie of the visitor's browser.

    Attributes:
        state: Random text that the visitor has to bring back from the provider. It prevents others from logging the
            visitor into their own account.
        nonce: Random text that the signed identity token has to contain, so that no token can be used twice.
        verifier: Secret of PKCE, without which the provider's authorization code is useless.
    """

    state: str
    nonce: str
    verifier: str

    def cookie(self) -> str:
        """Return the value of the cookie."""
        return f"{self.state}.{self.nonce}.{self.verifier}"

    @classmethod
    def from_cookie(cls, value: str) -> Begun | None:
        """Return the state of a sign-in that `cookie` wrote, or None for another value."""
        parts = value.split(".")
        return cls(state=parts[0], nonce=parts[1], verifier=parts[2]) if len(parts) == 3 and all(parts) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIDSignIn(SignIn):
    """Sign-in by a provider of OpenID Connect, with the authorization code flow and PKCE."""

    issuer: str
    client_id: str
    secret: str = field(repr=False)
    scopes: tuple[str, ...] = ("openid", "profile", "email", "groups")
    name: str = "email"
    groups: str = "groups"

    @property
    def title(self) -> str:
        """The provider's host name, which the sign-in button shows."""
        return urlsplit(self.issuer).netloc

    def vouches_for(self, subject: str, _: Headers) -> bool:
        """Return whether this provider authenticated a session's person, rather than one that was configured before."""
        return subject.startswith(f"{self.issuer} ")

    def begin(self, address: str) -> tuple[str, Begun]:
        """Return the URL of the provider's sign-in page, and the state to compare with the visitor's return.

        Args:
            address: URL of the service.

        Raises:
            Unavailable: If the provider does not answer.
        """
        begun = Begun(**{each.name: secrets.token_urlsafe(32) for each in fields(Begun)})
        challenge = urlsafe_b64encode(hashlib.sha256(begun.verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "response_type": "code", "client_id": self.client_id, "redirect_uri": f"{address}{CALLBACK}",
            "scope": " ".join(self.scopes), "state": begun.state, "nonce": begun.nonce, "code_challenge": challenge,
            "code_challenge_method": "S256",
        }  # fmt: skip
        page = self._metadata()["authorization_endpoint"]
        return f"{page}{'&' if '?' in page else '?'}{urlencode(asked)}", begun

    def finish(self, address: str, query: str, begun: Begun) -> Person:
        """Return the authenticated person, from the query with which the provider sent the visitor back.

        Args:
            address: URL of the service.
            query: Query part of the URL with which the visitor returned.
            begun: State that the visitor's browser sent in its cookie.

        Raises:
            SignInRefused: If the query or the provider's response violates the protocol, or a claim is missing.
            Unavailable: If the provider does not answer.
        """
        from joserfc.errors import JoseError

        sent = dict(parse_qsl(query))
        if not hmac.compare_digest(sent.get("state", "").encode(), begun.state.encode()) or "code" not in sent:
            why = sent.get("error", "no code, or the state of another sign-in")
            raise SignInRefused(f"{self.title} sent no valid sign-in ({brief(why)}). Begin again.")
        metadata = self._metadata()
        form = {
            "grant_type": "authorization_code", "code": sent["code"], "redirect_uri": f"{address}{CALLBACK}",
            "code_verifier": begun.verifier,
        }  # fmt: skip
        credentials = (quote(self.client_id, safe=""), quote(self.secret, safe=""))
        told = self._json("POST", metadata["token_endpoint"], data=form, auth=credentials)
        try:
            claims = self.verified(told["id_token"], self._json("GET", metadata["jwks_uri"]), begun.nonce)
        except (JoseError, KeyError, ValueError) as fault:
            kind = getattr(fault, "error", None) or type(fault).__name__
            raise SignInRefused(f"{self.title} sent no valid sign-in ({kind}). Begin again.") from None
        missing = _claim(claims, self.name) is None or _claim(claims, self.groups) is None
        if missing and "userinfo_endpoint" in metadata:
            bearer = {"authorization": f"Bearer {told.get('access_token')}"}
            more = self._json("GET", metadata["userinfo_endpoint"], headers=bearer)
            claims = {**more, **claims} if more.get("sub") == claims["sub"] else claims
        return self.person(claims)

    def verified(self, text: str, keys: dict[str, Any], nonce: str) -> dict[str, Any]:
        """Return the claims of an identity token, after a check of signature, issuer, audience, time and nonce.

        Args:
            text: The identity token, signed by the provider.
            keys: The provider's public keys, a JWK set.
            nonce: Nonce of this sign-in.

        Raises:
            JoseError: If the token or one of its claims is not valid.
        """
        from joserfc import jwt
        from joserfc.errors import InvalidClaimError
        from joserfc.jwk import KeySet

        claims: dict[str, Any] = jwt.decode(text, KeySet.import_key_set(keys), algorithms=list(_ALGORITHMS)).claims  # type: ignore[arg-type]
        jwt.JWTClaimsRegistry(
            leeway=_LEEWAY, iss={"essential": True, "value": self.issuer}, sub={"essential": True},
            aud={"essential": True, "value": self.client_id}, exp={"essential": True}, iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        ).validate(claims)  # fmt: skip
        if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != self.client_id:
            raise InvalidClaimError("azp")
        return claims

    def person(self, claims: Mapping[str, Any]) -> Person:
        """Return the person whom verified claims describe.

        Raises:
            SignInRefused: If a claim is missing, or an email is not verified.
        """
        name, groups = _claim(claims, self.name), _claim(claims, self.groups)
        if not isinstance(name, str) or not name:
            raise SignInRefused(
                f"{self.title} sent no claim {self.name!r}, from which names are taken. Ask the operator of the "
                "service to name another claim."
            )
        if self.name == "email" and claims.get("email_verified") is not True:
            raise SignInRefused(f"{self.title} has not verified the email {name}. Verify it there, then begin again.")
        named = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        return Person(
            subject=f"{self.issuer} {claims['sub']}", name=name,
            groups=frozenset(group for group in named if isinstance(group, str)),
        )  # fmt: skip

    def _metadata(self) -> dict[str, Any]:
        """Return the provider's OpenID configuration, after a check of its issuer."""
        found = self._json("GET", f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != self.issuer:
            raise Unavailable(
                f"{self.title} says that its issuer is {brief(found.get('issuer'))}, and the settings say "
                f"{self.issuer}. Correct issuer in the settings."
            )
        return found

    def _json(self, method: str, url: str, **sent: Any) -> dict[str, Any]:
        """Request a URL of the provider, and return the JSON object of its response.

        Raises:
            SignInRefused: If the provider refuses the request.
            Unavailable: If the provider gives no answer or an unexpected one, or if too many requests wait for the
                provider.
        """
        if not _AT_PROVIDER.acquire(blocking=False):
            raise Unavailable(
                f"{MOST_AT_PROVIDER} other people are waiting for {self.title}. Log in again in a minute."
            )
        try:
            reply = httpx.request(method, url, timeout=_PATIENCE, **sent)
            found = reply.json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as fault:
            raise Unavailable(f"{self.title} does not answer ({type(fault).__name__}). Try again later.") from None
        finally:
            _AT_PROVIDER.release()
        if not isinstance(found, dict):
            raise Unavailable(f"{self.title} did not answer with a JSON object. Log in again in a minute.")
        if reply.is_client_error:
            raise SignInRefused(f"{self.title} refuses the sign-in ({brief(found.get('error'))}). Begin again.")
        if not reply.is_success:
            raise Unavailable(f"{self.title} does not answer (status {reply.status_code}). Try again later.")
        return found


def read_sign_in(path: Path) -> OpenIDSignIn | ProxySignIn:
    """Read the sign-in settings from the operator's TOML file.

    Raises:
        ValueError: If the file cannot be used. The message has the reason.
    """
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
        rules = tuple(_rule(entry) for entry in said.pop("allow", []))
        if len(said) != 1:
            raise ValueError(f"it has the sections {', '.join(said) or 'none'}. Write [oidc] or [proxy].")
        ((kind, given),) = said.items()
        return _checked(kind, given, rules)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, TypeError, AttributeError) as fault:
        raise ValueError(f"{path} cannot be used for sign-in: {fault}. See 'everhold serve --help'.") from None
    except ValueError as fault:
        raise ValueError(f"{path} cannot be used for sign-in: {fault}") from None


def _rule(entry: dict[str, Any]) -> Rule:
    holdouts = entry.get("holdouts")
    if not set(entry) <= {"group", "role", "holdouts"} or not isinstance(entry.get("group"), str):
        raise ValueError(
            f"the entry {brief(entry)} of [[allow]] has other fields than group, role and holdouts. Write these."
        )
    if entry.get("role") not in list(Role):
        raise ValueError(f"the role {brief(entry.get('role'))} does not exist. Write one of {', '.join(Role)}.")
    if holdouts is not None and not (_is_list(holdouts) and holdouts):
        raise ValueError(f"holdouts is {brief(holdouts)}. List at least one name, or leave it out for all holdouts.")
    return Rule(group=entry["group"], role=Role(entry["role"]), holdouts=None if holdouts is None else tuple(holdouts))


def _is_list(value: object) -> bool:
    """Return whether a setting is a list of texts: a text by itself would be a list of its letters."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _checked(kind: str, given: dict[str, Any], rules: Sequence[Rule]) -> OpenIDSignIn | ProxySignIn:
    if kind not in ("oidc", "proxy"):
        raise ValueError(f"it has the section [{kind}]. Write [oidc] or [proxy].")
    if not rules:
        raise ValueError("it allows no group. Add [[allow]] with a group and a role.")
    file = given.pop("client_secret_file" if kind == "oidc" else "secret_file", None)
    variable = "EVERHOLD_OIDC_SECRET" if kind == "oidc" else "EVERHOLD_PROXY_SECRET"
    secret = os.environ.get(variable, "") if file is None else Path(file).read_text(encoding="utf-8").strip()
    if not secret:
        raise ValueError(f"it has no secret. Name a file with the secret, or set {variable}.")
    chosen = OpenIDSignIn if kind == "oidc" else ProxySignIn
    known = {each.name for each in fields(chosen)} - {"rules", "secret"}
    if not set(given) <= known:
        raise ValueError(
            f"[{kind}] has {', '.join(sorted(set(given) - known))}, which is not a setting. Write "
            f"{', '.join(sorted(known))}."
        )
    for name, value in given.items():
        if not (_is_list(value) if name == "scopes" else isinstance(value, str) and value):
            raise ValueError(f"{name} is {brief(value)}. Write {'a list of texts' if name == 'scopes' else 'a text'}.")
    if "scopes" in given:
        given["scopes"] = tuple(given["scopes"])
    made = chosen(rules=tuple(rules), secret=secret, **given)
    if isinstance(made, OpenIDSignIn):
        parts = urlsplit(made.issuer)
        if parts.scheme != "https" and parts.hostname not in ("localhost", "127.0.0.1"):
            raise ValueError(f"the issuer {brief(made.issuer)} does not begin with https. Write its https address.")
    return made


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by name. A dotted name such as ``a.b`` also finds a claim inside another claim."""
    found: Any = claims
    if name in claims:
        return claims[name]
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found
