"""Client connection to a service, which repeats requests that fail for a moment.

A request that got no response is sent again, because acts are identified by their content: the service answers a
repeat from the ledger, free of charge. Only the creation of a token is not repeatable, so it is sent once. The token
goes to its own origin and nowhere else: redirects are not followed, and no error, log or `repr` holds it. Problem
documents (RFC 9457) become the errors that they were, so clients catch the same classes.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from everhold import errors
from everhold.arguments import brief
from everhold.errors import AuthError, EverholdError, EverholdWarning, HoldoutNotFound, QueryRejected, warn_caller
from everhold.progress import progress
from everhold.remote import ADDRESS_VARIABLE, is_address

if TYPE_CHECKING:
    from typing import Self

    import httpx

TOKEN_VARIABLE = "EVERHOLD_TOKEN"
INSECURE_VARIABLE = "EVERHOLD_INSECURE"
"""Environment variable; ``1`` lets a token travel without TLS to another machine."""


Part = Callable[[ExitStack], Any]
"""Opens the content of a part of a form anew for each time that it is sent: bytes, or a file."""

_API = "/api/v1"
_JSON = {"Content-Type": "application/json"}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_TIMES = 6
_LONGEST_WAIT = 60.0  # seconds, of one wait
_PATIENT = (429, 502, 503, 504)


class Connection:
    """A connection to the service at one address. Thread-safe.

    Args:
        address: URL of the service, such as ``"https://host"``. The default is the environment variable
            ``EVERHOLD_URL``.
        token: Token such as ``"eh_..."``. The default is the environment variable ``EVERHOLD_TOKEN``, unless
            ``EVERHOLD_URL`` names another service.
        insecure: Whether to send a token without TLS to a machine other than this one.
        timeout: Seconds to wait for a response.
        transport: Transport of httpx that sends the requests, for tests and for your own proxies.

    Raises:
        AuthError: If the token would be sent without TLS.
        ModuleNotFoundError: If httpx is not installed.
    """

    def __init__(
        self, address: str | None = None, *, token: str | None = None, insecure: bool = False, timeout: float = 300.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:  # fmt: skip
        httpx = _httpx()
        usual = os.environ.get(ADDRESS_VARIABLE)
        parts = _checked(address or usual)
        if token is None and (usual is None or _origin(_checked(usual)) == _origin(parts)):
            token = os.environ.get(TOKEN_VARIABLE) or None
        insecure = insecure or os.environ.get(INSECURE_VARIABLE) == "1"
        if token is not None and not insecure and parts.scheme.lower() == "http" and parts.hostname not in _LOOPBACK:
            raise AuthError(
                f"The token would travel to {parts.hostname} unencrypted, so nothing was sent. Pass an address that "
                f"begins with https. In a private network, pass insecure=True or set {INSECURE_VARIABLE}=1."
            )
        self.address = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        headers = {"Accept": "application/json", "User-Agent": "everhold"}
        self._client = httpx.Client(
            base_url=self.address + _API, headers=headers | _authorization(token), transport=transport,
            timeout=httpx.Timeout(timeout, connect=10.0), follow_redirects=False,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Connection({self.address!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.address,)  # elsewhere the token is in the environment

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the JSON document at a path.

        Raises:
            EverholdError: The error that the service returned.
        """
        return self._json(lambda: self._client.get(path, params=params))

    def send(
        self, method: str, path: str, document: Mapping[str, Any], parts: Mapping[str, Part] | None = None, *,
        repeatable: bool = True, named: str = "request",
    ) -> dict[str, Any]:  # fmt: skip
        """Send a JSON document, with files beside it, and return the response's document.

        Args:
            method: HTTP method, such as ``"POST"``.
            path: Path below that of the API.
            document: JSON document as plain data.
            parts: Files by the names of their parts.
            repeatable: Whether the same request may be sent again after a lost response.
            named: Name of the form part with the document, if there are files.

        Raises:
            EverholdError: The error that the service returned; or an error saying that the service cannot be reached.
        """
        written = _written(document)
        if not parts:
            send = partial(self._client.request, method, path, content=written, headers=_JSON)
            return self._json(send, repeatable=repeatable)

        headers = {"Content-Type": f"multipart/form-data; boundary={uuid.uuid4().hex}"}  # the same bytes each time

        def form() -> httpx.Response:
            with ExitStack() as opened:
                files = {name: (name, part(opened), "application/octet-stream") for name, part in parts.items()}
                data = {named: written}
                response: httpx.Response = self._client.request(method, path, data=data, files=files, headers=headers)
                return response

        return self._json(form, repeatable=repeatable)

    def download(self, path: str, document: Mapping[str, Any], *, media_type: str) -> bytes:
        """Send a document with POST, and return the file of the response.

        Args:
            path: Path below that of the API.
            document: Plain data. The same request is sent again after a lost response.
            media_type: Expected type of the file.

        Raises:
            EverholdError: The error that the service returned, or that the service cannot be reached.
        """
        headers = {**_JSON, "Accept": f"{media_type}, application/json"}
        send = partial(self._client.post, path, content=_written(document), headers=headers)
        with progress("asking the service"):
            response = self._response(send, repeatable=True)
        if not response.is_success or response.headers.get("Content-Type") != media_type:
            raise error_from(response.status_code, _document(response))
        content: bytes = response.content
        return content

    def _json(self, attempt: Callable[[], httpx.Response], *, repeatable: bool = True) -> dict[str, Any]:
        """Return the document of a response, show its warnings, and raise the error of a refused request.

        Args:
            attempt: Function that sends the request once.
            repeatable: Whether the request may be sent again after it was lost, because a second one changes nothing.
        """
        warned: Sequence[str] = ()
        with progress("asking the service") as line:
            response = self._response(attempt, repeatable=repeatable)
            while response.status_code == _UNDER_WAY:  # the same request again is answered once it is done
                said = _document(response) or {}
                line(said["job"]["done"], said["job"]["total"])
                warned = warned or said["warnings"]
                time.sleep(_asked_to_wait(response.headers.get("Retry-After"), 1.0))
                response = self._response(attempt, repeatable=True)
        document = _document(response)
        if not response.is_success or not isinstance(document, dict):
            raise error_from(response.status_code, document)
        for text in (*warned, *(document.pop("warnings", None) or ())):
            warn_caller(EverholdWarning(str(text)))
        return document

    def _response(self, attempt: Callable[[], httpx.Response], *, repeatable: bool) -> httpx.Response:
        """Send a request again while it is lost or the service is busy, and return the last response.

        Args:
            attempt: Function that sends the request once.
            repeatable: Whether the request may be sent again after it may have reached the service. If not, it is sent
                again only if no connection was made or the service was busy.
        """
        if self._client.is_closed:
            raise EverholdError("The connection to the service was closed. Open the holdout again.")
        lost, unusable = _httpx().TransportError, _httpx().UnsupportedProtocol
        left = _TIMES
        while True:
            left -= 1
            wait = min(0.2 * 2.0 ** (_TIMES - left), 10.0) * random.uniform(0.5, 1.0)  # nobody has to guess it
            try:
                response: httpx.Response = attempt()
            except lost as fault:
                never_sent = isinstance(fault, (_httpx().ConnectError, _httpx().ConnectTimeout))
                if not left or isinstance(fault, unusable) or not (repeatable or never_sent):
                    again = "Ask the same again: repeated queries are free."
                    raise EverholdError(
                        f"The service at {self.address} cannot be reached ({type(fault).__name__}). Check the address "
                        f"and the network. {again if repeatable else 'List what exists, then try again.'}"
                    ) from None
            else:
                said = response.headers.get("Retry-After")
                if response.status_code not in _PATIENT or not left:
                    return response
                wait = _asked_to_wait(said, wait)
            time.sleep(wait)


def _written(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON in UTF-8.

    Raises:
        QueryRejected: If the document has a number or a text that JSON cannot represent. Nothing was sent.
    """
    try:
        return json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        raise QueryRejected(
            "The request has a number that is not finite, or a text with half a character. Pass finite numbers and "
            "whole texts."
        ) from None


def _document(response: httpx.Response) -> Any:
    """Return the JSON content of a response, or None if it is not JSON."""
    try:
        return response.json()
    except ValueError:
        return None


def _httpx() -> Any:
    try:
        import httpx
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Asking a service needs the package httpx. Install it: pip install 'everhold[client]'.", name="httpx"
        ) from None
    return httpx


def _checked(address: str | None) -> SplitResult:
    if address is None or not is_address(address):
        raise ValueError(
            f"The address is {brief(address)}. Pass the address of a service, such as "
            f"'https://holdout.example', or set {ADDRESS_VARIABLE}."
        )
    parts = urlsplit(address)
    if not parts.hostname or parts.username is not None or parts.query or parts.fragment:
        raise ValueError(
            "The address has no host, or has a user, a query or a fragment. Pass an address such as "
            f"https://holdout.example, and the token as token=... or in {TOKEN_VARIABLE}."
        )
    return parts


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    scheme = parts.scheme.lower()
    return scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(scheme)


def _authorization(token: str | None) -> dict[str, str]:
    if token is None:
        return {}
    if not token.isascii() or not token.isprintable() or " " in token:
        raise AuthError(
            "The token has characters that cannot be sent. Pass text such as eh_..., as the service printed it."
        )
    return {"Authorization": f"Bearer {token}"}


def _asked_to_wait(said: str | None, otherwise: float) -> float:
    """Return the seconds in a Retry-After header, limited, or ``otherwise`` if it has none."""
    return min(float(said), _LONGEST_WAIT) if said is not None and said.isdecimal() else otherwise


_UNDER_WAY = 202
_CLASSES = {
    re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower(): kind
    for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, EverholdError)
}  # fmt: skip
_BY_STATUS = {401: AuthError, 403: AuthError, 404: HoldoutNotFound,
              **dict.fromkeys((400, 409, 413, 415, 422), QueryRejected)}  # fmt: skip
_ABOUT_IT = ("type", "title", "status", "detail")


def error_from(status: int, document: Any) -> EverholdError:
    """Return the exception for an error response of the service.

    Args:
        status: HTTP status of the response.
        document: JSON content of the response. If it is not a problem document, a proxy sent it, and not the service.
    """
    if not isinstance(document, dict) or not isinstance(document.get("detail"), str):
        return {401: AuthError, 403: AuthError, 404: HoldoutNotFound}.get(status, EverholdError)(
            f"The service answered with the status {status} and without a reason. Check the address. If you asked a "
            "query, ask it again, because a repeated query costs nothing."
        )
    kind = _CLASSES.get(str(document.get("title")), _BY_STATUS.get(status, EverholdError))
    facts = {name: value for name, value in document.items() if name not in (*_ABOUT_IT, "message")}
    fault = kind(document["detail"], **facts)
    fault.unchanged = ""  # only the service knows, and its reason says it
    return fault
