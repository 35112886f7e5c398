"""One delivery: signed in the manner of Standard Webhooks, sent to an address that was checked, within a deadline.

Of the response nothing but its status is read, and no redirect is followed: what a receiver says must not travel back
to whoever made the webhook. No proxy of the environment is used.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.client
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everhold.service.webhooks.addresses import WebhookRejected, checked_addresses, parsed, resolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everhold.service.webhooks.addresses import Resolve, Target

__all__ = ["SECRET", "Sender", "Sent", "signed_headers"]

SECRET = "whsec_"
"""What a webhook's secret begins with; the key follows, in base64."""

_DEADLINE = 10.0
_CONNECT = 4.0


@dataclass(frozen=True, slots=True)
class Sent:
    """How an attempt ended.

    Attributes:
        accepted: Whether the receiver took it, by a status of 200 to 299.
        outcome: In words, without anything that the receiver wrote.
    """

    accepted: bool
    outcome: str


def signed_headers(secret: str, *, delivery: str, at: int, body: bytes) -> dict[str, str]:
    """The headers by which a receiver knows who sent a delivery, and when.

    Args:
        secret: ``whsec_`` and the key in base64.
        delivery: Identifier of the delivery, the same in every attempt.
        at: Seconds since 1970 of this attempt.
        body: What is sent.

    Examples:
        >>> headers = signed_headers("whsec_c2VjcmV0", delivery="msg_1", at=1_700_000_000, body=b"{}")
        >>> headers["webhook-signature"]
        'v1,A5oIrJxXPB/PkULSoVu0e4khvPiqpF9vljmhkSKg0FI='
    """
    key = base64.b64decode(secret.removeprefix(SECRET))
    digest = hmac.new(key, f"{delivery}.{at}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": delivery,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


@dataclass(frozen=True)
class Sender:
    """Sends deliveries.

    Attributes:
        internal: Whether the operator allows internal addresses.
        resolve: From host and port to addresses.
        deadline: Seconds after which an attempt is given up, whatever the receiver does.
        context: How TLS is spoken; by default with the machine's certificate authorities.
    """

    internal: bool = False
    resolve: Resolve = resolved
    deadline: float = _DEADLINE
    context: ssl.SSLContext | None = None

    def check(self, url: str) -> tuple[Target, list[str]]:
        """Where a webhook goes, and the addresses that it may be sent to.

        Raises:
            WebhookRejected: If it may not be sent there.
        """
        target = parsed(url, internal=self.internal)
        return target, checked_addresses(target, internal=self.internal, resolve=self.resolve)

    def send(self, url: str, secret: str, *, delivery: str, body: bytes) -> Sent:
        """Send once; whatever goes wrong is said in the result."""
        until = time.monotonic() + self.deadline
        try:
            target, addresses = self.check(url)
            status = self._post(target, addresses, secret, delivery, body, until)
        except WebhookRejected as fault:
            return Sent(False, fault.message)
        except ssl.SSLError:
            return Sent(False, "the receiver's TLS or its certificate is not valid for this host")
        except TimeoutError:
            return Sent(False, f"the receiver did not answer within {self.deadline:g} s")
        except (OSError, ValueError, http.client.HTTPException):  # ValueError: no name that TLS can be for
            late = time.monotonic() >= until
            why = f"did not answer within {self.deadline:g} s" if late else "cannot be reached, or speaks no HTTP"
            return Sent(False, f"the receiver {why}")
        if 300 <= status < 400:
            return Sent(False, f"the receiver answered {status}; redirects are not followed")
        return Sent(200 <= status < 300, f"the receiver answered {status}")

    def _post(
        self, target: Target, addresses: list[str], secret: str, delivery: str, body: bytes, until: float
    ) -> int:  # fmt: skip
        """The status of the response."""
        kind = http.client.HTTPSConnection if target.secure else http.client.HTTPConnection
        with (
            contextlib.closing(_connected(addresses, target.port, until)) as plain,
            _given_up(plain, until),
            contextlib.closing(kind(target.host, target.port)) as connection,
        ):
            connection.sock = self._secured(plain, target)
            headers = {"content-type": "application/json", "user-agent": "everhold", "connection": "close"}
            signed = signed_headers(secret, delivery=delivery, at=int(time.time()), body=body)
            connection.request("POST", target.path, body, {**headers, **signed})
            with connection.getresponse() as response:
                if time.monotonic() >= until:  # cut off, perhaps in the middle of what it would have said
                    raise TimeoutError
                return response.status

    def _secured(self, plain: socket.socket, target: Target) -> socket.socket:
        """The connection under TLS, for the host's name and not for the address."""
        if not target.secure:
            return plain
        context = ssl.create_default_context() if self.context is None else self.context
        return context.wrap_socket(plain, server_hostname=target.host)


def _connected(addresses: list[str], port: int, until: float) -> socket.socket:
    """A connection to the first of some addresses that takes it.

    Raises:
        OSError: If none does.
    """
    for place, address in enumerate(addresses, 1):
        left = until - time.monotonic()
        try:
            made = socket.create_connection((address, port), timeout=max(min(_CONNECT, left), 0.01))
        except OSError:
            if place == len(addresses) or left <= 0.0:
                raise
        else:
            made.settimeout(max(until - time.monotonic(), 0.01))
            return made
    raise OSError


@contextlib.contextmanager
def _given_up(stream: socket.socket, until: float) -> Iterator[None]:
    """Within this block the connection ends at the deadline, also for a receiver that sends a byte now and then."""
    with contextlib.closing(stream.dup()) as handle:  # TLS takes the stream itself away

        def end() -> None:
            with contextlib.suppress(OSError):
                handle.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(max(until - time.monotonic(), 0.01), end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
