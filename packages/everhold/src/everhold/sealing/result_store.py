"""Results of cases beside the sealed rows: champions, the baseline, and what was reported to an open challenge.

Each file has a keyed digest of what it holds and to what it belongs. Outcomes of cases are as secret as sealed rows.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everhold.errors import EverholdError
from everhold.sealing.sealed_arrays import packed, read_arrays, write_durably

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ResultStore"]


@dataclass(frozen=True, slots=True)
class ResultStore:
    """Files of results of one holdout.

    Attributes:
        folder: The private folder of its rows.
        holdout: Identifier of the holdout.
    """

    folder: Path
    holdout: str
    _key: bytes = field(repr=False)

    @classmethod
    def of(cls, folder: Path, *, holdout: str, seal_key: bytes) -> ResultStore:
        """The results whose files lie in this folder; nothing is read or written yet."""
        return cls(folder, holdout, hmac.digest(seal_key, b"everhold results of cases", "sha256"))

    def keep(self, name: str, values: NDArray[np.float64]) -> None:
        """Write results durably under a name, readable by their owner alone; what is there is replaced.

        Args:
            name: Hexadecimal digits and hyphens.
            values: Shape (cases, runs, metrics).

        Raises:
            EverholdError: If they cannot be written.
        """
        path = self.folder / f"{secrets.token_hex(8)}.new"
        try:
            write_durably(path, packed({"values": values}, key=self._key, bound_to=self._bound_to(name)))
            path.replace(self._path(name))
        except OSError as fault:
            path.unlink(missing_ok=True)
            raise EverholdError(
                f"the results cannot be kept beside the sealed rows: {fault.strerror}; expected a writable folder with "
                "room; nothing was charged; make room and report again"
            ) from None

    def find(self, name: str) -> NDArray[np.float64]:
        """Results that were kept, shape (cases, runs, metrics).

        Raises:
            IntegrityError: If their file is missing or was altered. Nothing is charged.
        """
        return read_arrays(
            self._path(name), key=self._key, bound_to=self._bound_to(name), needed="values",
            whose="results of cases", done="answered",
        )["values"]  # fmt: skip

    def has(self, name: str) -> bool:
        """True if there is a file under a name."""
        return self._path(name).exists()

    def digest_of(self, values: NDArray[np.float64]) -> str:
        """Keyed digest of results, in hex: it tells nothing to those without the key."""
        return hmac.digest(self._key, repr(values.shape).encode() + values.tobytes(), "sha256").hex()

    def _path(self, name: str) -> Path:
        return self.folder / f"results-{name}"

    def _bound_to(self, name: str) -> bytes:
        return f"{self.holdout}\n{name}\n".encode()
