"""Certificates of strangers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.certificate.verification import verify_certificate
from everhold_server.untrusted.worker import ReadingLimits, read_in_worker

if TYPE_CHECKING:
    from pathlib import Path

_LIMITS = ReadingLimits(content=2**22, memory=2 * 2**30)


def report_on_untrusted(path: Path, *, public_key: str | None) -> dict[str, Any]:
    """Check a stranger's certificate in a worker process, and return a `CertificateReport` as plain data.

    Raises:
        QueryRejected: If the file cannot be read within the limits.
    """
    found: dict[str, Any] = read_in_worker(
        "everhold_server.untrusted.certificates:listed_report", path, name="the certificate", limits=_LIMITS,
        advice="Send a certificate that everhold wrote.", public_key=public_key,
    )  # fmt: skip
    return found


def listed_report(path: Path, *, name: str, public_key: str | None) -> dict[str, Any]:
    """Return the report about a certificate as plain data. The worker process runs this."""
    return verify_certificate(path, public_key=public_key).to_dict()
