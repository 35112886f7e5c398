"""The predictions of a competition's submissions, kept in the holdout's private folder until the end.

A file is written before the entry that receives the submission, under the SHA-256 of the predictions, which the entry
names. So a submission that the ledger holds can always be scored, and the same predictions are kept once.
"""

from __future__ import annotations

import hmac
import os
import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everhold.errors import EverholdError
from everhold.private_files import keep_others_out
from everhold.sealing.sealed_arrays import packed, read_arrays, write_durably

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["SubmissionStore"]

_LOCK = "submissions.lock"


@dataclass(frozen=True, slots=True)
class SubmissionStore:
    """The files of one holdout's submissions.

    Attributes:
        folder: The private folder of its rows.
        holdout: Identifier of the holdout.
    """

    folder: Path
    holdout: str
    _key: bytes = field(repr=False)

    @classmethod
    def of(cls, folder: Path, *, holdout: str, seal_key: bytes) -> SubmissionStore:
        """The submissions whose files lie in this folder; nothing is read or written yet."""
        return cls(folder, holdout, hmac.digest(seal_key, b"everhold submissions", "sha256"))

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """While a submission is checked, told and received no other one is, by no process or thread.

        Raises:
            EverholdError: If that cannot be made sure.
        """
        try:
            descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as fault:
            raise _not_kept(fault) from None
        try:
            keep_others_out(descriptor)
            yield
        finally:
            os.close(descriptor)

    def keep(self, digest: str, predictions: NDArray[Any]) -> None:
        """Write predictions durably, readable by their owner alone; what is there under their name is replaced.

        Raises:
            EverholdError: If they cannot be written.
        """
        path = self.folder / f"{secrets.token_hex(8)}.new"
        try:
            write_durably(path, packed({"predictions": predictions}, key=self._key, bound_to=self._bound_to(digest)))
            path.replace(self._path(digest))
        except OSError as fault:
            path.unlink(missing_ok=True)
            raise _not_kept(fault) from None

    def find(self, digest: str) -> NDArray[Any]:
        """Predictions that were kept.

        Raises:
            IntegrityError: If their file is missing or was altered. Nothing is charged.
        """
        arrays = read_arrays(
            self._path(digest), key=self._key, bound_to=self._bound_to(digest), needed="predictions",
            whose="a submission", done="told",
        )  # fmt: skip
        return arrays["predictions"]

    def _path(self, digest: str) -> Path:
        return self.folder / f"submission-{digest}"

    def _bound_to(self, digest: str) -> bytes:
        return f"{self.holdout}\n{digest}\n".encode()


def _not_kept(fault: OSError) -> EverholdError:
    return EverholdError(
        f"the submission cannot be kept beside the sealed rows: {fault.strerror}; expected a writable folder "
        "with room; nothing was received or charged; make room and submit again"
    )
