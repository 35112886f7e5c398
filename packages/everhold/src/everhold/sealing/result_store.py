"""Results of cases beside the sealed rows: champions, the baseline, and what was reported to an open challenge.

Each file has a keyed digest of what it holds and to what it belongs. Outcomes of cases are as secret as sealed rows.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.sealing.sealed_arrays import ArrayFiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ResultStore"]


@dataclass(frozen=True, slots=True)
class ResultStore(ArrayFiles):
    """Files of results of one holdout, shape (cases, runs, metrics) each."""

    purpose: ClassVar[bytes] = b"everhold results of cases"
    prefix: ClassVar[str] = "results"
    array: ClassVar[str] = "values"
    whose: ClassVar[str] = "results of cases"
    done: ClassVar[str] = "answered"
    called: ClassVar[str] = "the results"
    remedy: ClassVar[str] = "nothing was charged; make room and report again"

    def digest_of(self, values: NDArray[Any]) -> str:
        """Keyed digest of results, in hex: it tells nothing to those without the key."""
        return hmac.digest(self._key, repr(values.shape).encode() + values.tobytes(), "sha256").hex()
