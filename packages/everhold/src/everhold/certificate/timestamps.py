"""Trusted time of signing: a token of RFC 3161 beside the signature, from an authority that readers trust.

The time in the certificate is from the steward's own clock, and proves nothing. A token is an authority's signature
over a digest and a time. The digest is that of the steward's signature, so the token shows that this certificate
existed at that time. Checking it needs no network: the authority's root certificate is enough.
"""

from __future__ import annotations

import base64
import binascii
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from everhold.arguments import brief
from everhold.errors import EverholdError, IntegrityError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate as Root
    from rfc3161_client import TimeStampResponse

Timestamper = Callable[[bytes], bytes]
"""From a SHA-256 digest, 32 bytes, to a token of RFC 3161 about it, in DER."""

_SHA256 = "2.16.840.1.101.3.4.2.1"
_REQUEST = bytes.fromhex("3043 020101 3031 300d 0609608648016503040201 0500 0420")
_NONCE, _WITH_CERTIFICATES = bytes.fromhex("0208"), bytes.fromhex("0101ff")
_MOST_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class TimestampAuthority:
    """A time-stamping authority on the network, asked once for each certificate with a digest alone.

    Needs the extra ``timestamp``.

    Attributes:
        url: Address at which the authority answers, ``http`` or ``https``. A token needs no secrecy and cannot be
            altered on the way.
    """

    url: str
    timeout: float = 30.0

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(
                f"The time-stamping authority's address is {brief(self.url)}. Pass a URL "
                "that begins with http:// or https://."
            )
        _client()

    def __call__(self, digest: bytes) -> bytes:
        """Ask the authority for its token about a digest, and return the token.

        Raises:
            EverholdError: If the authority cannot be reached or refuses the request. Nothing was signed.
        """
        nonce = bytes([secrets.randbelow(0x7F) + 1]) + secrets.token_bytes(7)  # a positive number of 8 bytes
        response = self._answered(_REQUEST + digest + _NONCE + nonce + _WITH_CERTIFICATES)
        if response.status not in (0, 1):
            raise EverholdError(
                f"The time-stamping authority refused, with status {response.status}. Try "
                "again, or use another authority."
            )
        if response.tst_info.nonce != int.from_bytes(nonce):
            raise EverholdError("The time-stamping authority answered another request. Try again.")
        return response.time_stamp_token()

    def _answered(self, request: bytes) -> TimeStampResponse:
        headers = {"Content-Type": "application/timestamp-query", "Accept": "application/timestamp-reply"}
        asked = urllib.request.Request(self.url, data=request, headers=headers, method="POST")
        try:
            with urllib.request.urlopen(asked, timeout=self.timeout) as reply:
                content = reply.read(_MOST_BYTES + 1)
        except (OSError, ValueError) as fault:  # URLError and time-outs are OSErrors
            reason = f"no answer within {self.timeout:g} seconds"
            if isinstance(fault, urllib.error.HTTPError):
                fault.close()
                reason = f"status {fault.code}"
            raise EverholdError(
                f"The time-stamping authority at {brief(self.url)} failed: {reason}. "
                "Try again, or leave out the trusted time."
            ) from None
        try:
            response: TimeStampResponse = _client().decode_timestamp_response(content)
        except ValueError:
            raise EverholdError(
                f"The answer of {brief(self.url)} is not a reply of a time-stamping authority (RFC 3161) in strict "
                "DER. Check the address, or use another authority."
            ) from None
        return response


def stamp_of(timestamp: Timestamper, digest: bytes) -> dict[str, str]:
    """Return a certificate's time stamp for a digest, after a check that the authority's token is about this digest.

    Raises:
        IntegrityError: If the reply of the authority is not a token, or is a token about something else. Nothing was
            signed.
    """
    token = timestamp(digest)
    try:
        stated = _read(token)
    except ValueError:
        raise IntegrityError("The time stamp is not an RFC 3161 token in DER. Use another authority.") from None
    if not _is_about(stated, digest):
        raise IntegrityError("The time stamp is not about this certificate. Use another authority.")
    return {"token": base64.b64encode(bytes(token)).decode(), "time": _time_of(stated)}


def stamp_findings(stamp: Mapping[str, str], digest: bytes, roots: Sequence[Root] | None) -> list[str]:
    """Return the faults of a stored token in words; no fault if it is about the digest and the roots trust it.

    Args:
        stamp: The stored time stamp, as `stamp_of` made it.
        digest: Digest of the certificate, about which the token has to be.
        roots: Root certificates of authorities that are trusted; None to leave out the check of who signed the token.

    Raises:
        EverholdError: If the package that reads a token is missing.
    """
    try:
        stated = _read(base64.b64decode(stamp["token"], validate=True))
    except (ValueError, binascii.Error):
        return ["the trusted time is no token of RFC 3161: it was altered"]
    findings = []
    if not _is_about(stated, digest):
        findings.append("the trusted time is about something else: the token belongs to another certificate")
    if stamp["time"] != _time_of(stated):
        findings.append("the trusted time is not the one in its token: it was altered")
    if roots is not None and not _signed_by_one_of(roots, stated):
        findings.append(
            "the trusted time is not to be trusted: its token was altered, no expected root stands behind it, or the "
            "authority's certificate was not valid then, or not for time stamps"
        )
    return findings


def roots_from(pem: bytes) -> list[Root]:
    """Return the root certificates in a PEM file."""
    from cryptography.x509 import load_pem_x509_certificates

    try:
        return load_pem_x509_certificates(pem)
    except ValueError:
        raise ValueError(
            "The file of roots contains no certificates. Pass a PEM file ('-----BEGIN CERTIFICATE-----') with the root "
            "of the time-stamping authority, from a source that you trust."
        ) from None


def _client() -> Any:
    """Import the package that reads tokens."""
    try:
        import rfc3161_client
    except ModuleNotFoundError:
        raise EverholdError(
            "A trusted time needs the package rfc3161-client. Install it: pip install 'everhold[timestamp]'."
        ) from None
    return rfc3161_client


def _read(token: object) -> TimeStampResponse:
    """Return the parsed time-stamp token. The parser requires it to be wrapped as a granted response."""
    client = _client()
    if not isinstance(token, (bytes, bytearray)) or not token or len(token) > _MOST_BYTES:
        raise ValueError("no token")
    granted = bytes.fromhex("3003020100") + bytes(token)
    response: TimeStampResponse = client.decode_timestamp_response(b"\x30" + _length(len(granted)) + granted)
    _ = response.tst_info.gen_time, response.tst_info.message_imprint.message  # what cannot be read fails here
    if response.time_stamp_token() != bytes(token):
        raise ValueError("there are other bytes beside the token")
    return response


def _length(count: int) -> bytes:
    if count < 0x80:
        return bytes([count])
    digits = count.to_bytes((count.bit_length() + 7) // 8)
    return bytes([0x80 | len(digits)]) + digits


def _is_about(stated: TimeStampResponse, digest: bytes) -> bool:
    imprint = stated.tst_info.message_imprint
    return imprint.hash_algorithm.dotted_string == _SHA256 and imprint.message == digest


def _time_of(stated: TimeStampResponse) -> str:
    stamped: datetime = stated.tst_info.gen_time
    stamped = stamped.replace(tzinfo=UTC) if stamped.tzinfo is None else stamped.astimezone(UTC)
    return stamped.isoformat(timespec="seconds")


def _signed_by_one_of(roots: Sequence[Root], stated: TimeStampResponse) -> bool:
    """Return whether a trusted root certificate signed the time stamp, directly or through intermediates."""
    client, between = _client(), [root for root in roots if root.issuer != root.subject]
    for root in (each for each in roots if each.issuer == each.subject):
        verifier = client.VerifierBuilder(roots=[root], intermediates=between).build()
        try:
            if verifier.verify(stated, stated.tst_info.message_imprint.message):
                return True
        except (client.VerificationError, ValueError):
            continue
    return False
