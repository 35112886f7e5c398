"""A time-stamping authority of our own (RFC 3161), as small as it can be: for tests, in this process or on loopback."""

import contextlib
import http.server
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
YEAR = timedelta(days=365)

INTEGER, OCTETS, NULL, OID, SEQUENCE, SET = 0x02, 0x04, 0x05, 0x06, 0x30, 0x31
TIME, TRUE = 0x18, b"\x01\x01\xff"
STAMP, SIGNED_DATA = "1.2.840.113549.1.9.16.1.4", "1.2.840.113549.1.7.2"
CONTENT_TYPE, MESSAGE_DIGEST = "1.2.840.113549.1.9.3", "1.2.840.113549.1.9.4"
SIGNING_CERTIFICATE = "1.2.840.113549.1.9.16.2.47"
SHA256, ECDSA_SHA256 = "2.16.840.1.101.3.4.2.1", "1.2.840.10045.4.3.2"


def der(tag, *parts):
    content = b"".join(parts)
    count = len(content)
    digits = b"" if count < 0x80 else count.to_bytes((count.bit_length() + 7) // 8)
    return bytes([tag, count if not digits else 0x80 | len(digits)]) + digits + content


def whole(number):
    return der(INTEGER, number.to_bytes(number.bit_length() // 8 + 1))


def oid(dotted):
    first, second, *rest = map(int, dotted.split("."))
    content = bytearray([40 * first + second])
    for arc in rest:
        digits = [arc & 0x7F]
        while arc := arc >> 7:
            digits.append(0x80 | (arc & 0x7F))
        content += bytes(reversed(digits))
    return der(OID, bytes(content))


def algorithm(dotted):
    return der(SEQUENCE, oid(dotted), *([der(NULL)] if dotted == SHA256 else []))


def attribute(dotted, value):
    return der(SEQUENCE, oid(dotted), der(SET, value))


def issued(name, key, *, issuer=None, issuer_key=None, begins=NOW - YEAR, ends=NOW + YEAR, stamps=True):
    """A certificate: a root without an issuer, otherwise one for time stamps, or for nothing."""
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder().subject_name(named).issuer_name(named if issuer is None else issuer.subject)
        .public_key(key.public_key()).serial_number(x509.random_serial_number())
        .not_valid_before(begins).not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )  # fmt: skip
    if issuer is not None and stamps:
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
        builder = builder.add_extension(usage, critical=True)
    return builder.sign(issuer_key or key, hashes.SHA256())


@dataclass
class Authority:
    """Signs digests with a time of its own choice; its attributes are what a test wants to be wrong.

    Attributes:
        now: The time that it states.
        ends: When its certificate ends.
        stamps: Whether its certificate is for time stamps.
        lifts: What it makes of the digest that it is asked about.
    """

    now: datetime = NOW
    ends: datetime = NOW + YEAR
    stamps: bool = True
    lifts: object = staticmethod(lambda digest: digest)
    root_key: object = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    key: object = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self):
        self.root = issued("Root of time", self.root_key, begins=NOW - 9 * YEAR, ends=NOW + 9 * YEAR)
        self.certificate = issued(
            "Clock", self.key, issuer=self.root, issuer_key=self.root_key, begins=min(NOW, self.ends) - YEAR,
            ends=self.ends, stamps=self.stamps,
        )  # fmt: skip

    @property
    def roots(self):
        return self.root.public_bytes(serialization.Encoding.PEM)

    def __call__(self, digest, nonce=None):
        """A token about a digest."""
        info = self._info(self.lifts(digest), nonce)
        signed = self._attributes(info)
        signature = self.key.sign(der(SET, *signed), ec.ECDSA(hashes.SHA256()))
        certificate = self.certificate.public_bytes(serialization.Encoding.DER)
        signer = der(
            SEQUENCE, whole(1),
            der(SEQUENCE, self.certificate.issuer.public_bytes(), whole(self.certificate.serial_number)),
            algorithm(SHA256), der(0xA0, *signed), algorithm(ECDSA_SHA256), der(OCTETS, signature),
        )  # fmt: skip
        content = der(SEQUENCE, oid(STAMP), der(0xA0, der(OCTETS, info)))
        data = der(
            SEQUENCE, whole(3), der(SET, algorithm(SHA256)), content, der(0xA0, certificate), der(SET, signer)
        )  # fmt: skip
        return der(SEQUENCE, oid(SIGNED_DATA), der(0xA0, data))

    def _info(self, digest, nonce):
        imprint = der(SEQUENCE, algorithm(SHA256), der(OCTETS, digest))
        stamped = der(TIME, self.now.strftime("%Y%m%d%H%M%SZ").encode())
        last = [] if nonce is None else [whole(nonce)]
        return der(SEQUENCE, whole(1), oid("1.3.6.1.4.1.99999.1"), imprint, whole(7), stamped, *last)

    def _attributes(self, info):
        hashed = sha256(self.certificate.public_bytes(serialization.Encoding.DER)).digest()
        by = der(SEQUENCE, der(SEQUENCE, der(SEQUENCE, der(OCTETS, hashed))))
        attributes = [
            attribute(CONTENT_TYPE, oid(STAMP)),
            attribute(MESSAGE_DIGEST, der(OCTETS, sha256(info).digest())),
            attribute(SIGNING_CERTIFICATE, by),
        ]
        return sorted(attributes)

    def reply(self, request):
        """What it answers to a request on the network."""
        digest = request[request.index(bytes([OCTETS, 32])) + 2 :][:32]
        nonce = int.from_bytes(request[request.index(b"\x02\x08") + 2 :][:8])
        return der(SEQUENCE, der(SEQUENCE, whole(0)), self(digest, nonce))


@contextlib.contextmanager
def answering(reply, *, status=200):
    """The URL of an authority on loopback that gives this reply to a request."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            request = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/timestamp-query"
            content = reply(request)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/tsa"
        finally:
            server.shutdown()
            thread.join()
