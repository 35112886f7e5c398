"""Which addresses a webhook may be sent to: those of the open internet, unless the operator allows internal ones.

A webhook lets whoever makes it send requests from inside the operator's network, where services trust their neighbours.
So the name is resolved once, every address it has must pass, and the connection goes to an address that did: a name
that points elsewhere a moment later is not asked again.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

from everhold.arguments import brief
from everhold.errors import EverholdError

__all__ = ["Resolve", "Target", "WebhookRejected", "checked_addresses", "parsed", "resolved"]

Resolve: TypeAlias = Callable[[str, int], list[str]]
"""From host and port to addresses; raises OSError."""

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_LONGEST = 2_000
_NOTHING = "nothing was sent"
_LABEL = "[A-Za-z0-9_-]{1,63}"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL}){{0,126}}|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]{{1,45}}")
_PUBLIC_V6 = ipaddress.ip_network("2000::/3")
_THROUGH_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_SPECIAL = tuple(ipaddress.ip_network(text) for text in ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20"))
"""Not of the open internet, which not every version of Python knows."""

_INTERNAL = tuple(
    ipaddress.ip_network(text)
    for text in ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
)
_NEVER = tuple(ipaddress.ip_address(text) for text in ("fd00:ec2::254", "fd20:ce::254"))
"""Where clouds tell a machine its own credentials; those of IPv4 are link-local or shared, and so refused anyway."""


class WebhookRejected(EverholdError, ValueError):
    """The webhook cannot be used. Nothing was made or sent."""

    exit_code = 2
    http_status = 422


@dataclass(frozen=True, slots=True)
class Target:
    """Where a webhook goes, by name.

    Attributes:
        secure: Whether it is reached by TLS.
        host: Its name or address, which a TLS certificate must be for.
        port: Its port.
        path: Path and query.
    """

    secure: bool
    host: str
    port: int
    path: str


def parsed(url: str, *, internal: bool = False) -> Target:
    """A webhook's address in its parts.

    Args:
        url: Such as ``"https://example.org/everhold"``.
        internal: Whether the operator allows internal addresses, and so http to this machine.

    Raises:
        WebhookRejected: If it is none.

    Examples:
        >>> parsed("https://example.org/everhold").port
        443
    """
    expected = "expected https://, a host, and a path, without a user, password or fragment, in ASCII"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= _LONGEST and "\\" not in url
    if not (plain and _HOST.fullmatch(host)) or parts.username is not None or parts.password is not None or "#" in url:
        raise WebhookRejected(f"the address {brief(url)} of the webhook cannot be used; {expected}; {_NOTHING}")
    if parts.scheme != "https" and not (internal and parts.scheme == "http"):
        raise WebhookRejected(
            f"the address of the webhook has the scheme {brief(parts.scheme)}; {expected}; http is for receivers on "
            f"this machine, if the operator allows internal webhooks; {_NOTHING}"
        )
    secure = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(secure, host, (443 if secure else 80) if port is None else port, path)


def resolved(host: str, port: int) -> list[str]:
    """All addresses of a host, as the machine's resolver gives them.

    Raises:
        OSError: If there are none.
    """
    return list(dict.fromkeys(str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))


def checked_addresses(target: Target, *, internal: bool = False, resolve: Resolve = resolved) -> list[str]:
    """The addresses of a target, all of which may be sent to.

    Args:
        target: Where the webhook goes.
        internal: Whether the operator allows internal addresses.
        resolve: Asked once.

    Raises:
        WebhookRejected: If it has no address, or one that may not be sent to. The message does not say which: names of
            the inner network are nobody's business.
    """
    try:
        found = resolve(target.host, target.port)
    except (OSError, UnicodeError):
        found = []
    if not found:
        raise WebhookRejected(f"the webhook's host has no address; expected one that can be resolved; {_NOTHING}")
    if not all(_may_be_sent_to(text, secure=target.secure, internal=internal) for text in found):
        raise WebhookRejected(
            "the webhook's host has an address that is not of the open internet; expected public addresses alone; an "
            "operator can allow internal ones with 'everhold serve --allow-internal-webhooks', with https, and with "
            f"http on the same machine; {_NOTHING}"
        )
    return found


def _may_be_sent_to(text: str, *, secure: bool, internal: bool) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:  # with a scope, and so link-local
        return False
    if secure and _is_public(address):
        return True
    if not internal or address in _NEVER or not any(address in network for network in _INTERNAL):
        return False
    return secure or address.is_loopback


def _is_public(address: _Address) -> bool:
    """Whether an address is one of the open internet; such as carry another one inside are judged by that."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _THROUGH_NAT64:
            return _is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in _PUBLIC_V6 or address.sixtofour is not None or address.teredo is not None:
            return False
    if any(address in network for network in _SPECIAL):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)
