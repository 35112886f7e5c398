"""Results of cases beside the sealed rows: champions, the baseline, and what was reported to an open challenge.

Each file has a keyed digest of what it holds and to what it belongs. Outcomes of cases are as secret as sealed rows.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.ledger.chain import canonical
from everhold.sealing.sealed_arrays import ArrayFiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["ResultStore", "baseline_file", "result_names"]


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


def result_names(name: str, arrivals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of files that may have results, the newest first.

    Each arrival of cases has its files, known by the fingerprint of its rows. After a loss other cases may arrive, and
    results on those that were lost are not theirs.
    """
    prints = [each["fingerprint"] for each in arrivals if each["fingerprint"]]
    return [*(f"{name}-{fingerprint[:32]}" for fingerprint in reversed(prints)), name]


def baseline_file(gate: str) -> str:
    """Name of the file of a gate's baseline."""
    return f"baseline-{hashlib.sha256(canonical({'gate': gate}).encode()).hexdigest()}"
