"""The predictions of a competition's submissions, kept in the holdout's private folder until the end.

A file is written before the entry that receives the submission, under the SHA-256 of the predictions, which the entry
names. So a submission that the ledger holds can always be scored, and the same predictions are kept once.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from everhold.private_files import keep_others_out
from everhold.sealing.sealed_files import ArrayFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK = "submissions.lock"


@dataclass(frozen=True, slots=True)
class SubmissionStore(ArrayFiles):
    """Private files with the predictions of one holdout's submissions."""

    purpose: ClassVar[bytes] = b"everhold submissions"
    prefix: ClassVar[str] = "submission"
    array: ClassVar[str] = "predictions"
    whose: ClassVar[str] = "a submission"
    called: ClassVar[str] = "the submission"
    remedy: ClassVar[str] = "submit again"

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Return a context that admits one submission at a time, across processes and threads.

        Raises:
            EverholdError: If that cannot be made sure.
        """
        try:
            descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as fault:
            raise self.not_kept(fault) from None
        try:
            keep_others_out(descriptor)
            yield
        finally:
            os.close(descriptor)
