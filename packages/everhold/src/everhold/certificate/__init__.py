"""The certificate: the promise as a signed document, verified anywhere without a network."""

from __future__ import annotations

from everhold.certificate.document import Certificate, CertifiedAccount, make_certificate, promise_in_words
from everhold.certificate.timestamps import TimestampAuthority, Timestamper
from everhold.certificate.verification import CertificateReport, verify_certificate

__all__ = [
    "Certificate", "CertificateReport", "CertifiedAccount", "TimestampAuthority", "Timestamper", "make_certificate",
    "promise_in_words", "verify_certificate",
]  # fmt: skip
