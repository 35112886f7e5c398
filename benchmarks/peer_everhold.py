"""everhold itself, through the door that users take: sealed rows, a ledger on disk, secure noise."""

from __future__ import annotations

import tempfile
import warnings
from typing import TYPE_CHECKING

from benchmarks.peer_base import CONFIDENCE, REFUSED, Peer
from everhold import Holdout, Independent, accuracy
from everhold.sealing.intake.request import Planning

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from benchmarks.peer_base import Queries, Sample
    from everhold import Answer

__all__ = ["SealedHoldout"]


class SealedHoldout(Peer):
    """`Holdout.ask` for a single query, `Holdout.ask_many` for several; one durable transaction for each call."""

    def __init__(self, sample: Sample, *, queries: int, mechanism: str, surprises: int | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about widths that are too large to be useful: the table shows them
            self._holdout = Holdout.create(
                f"{self._folder.name}/peers.db", "peers",
                holdout={"label": sample.sealed}, training={"label": sample.training}, label="label",
                queries=queries, surprises=surprises, planning=Planning(allow_vacuous=True),
                mechanism=mechanism, confidence=CONFIDENCE, dependence=Independent(),
            )  # fmt: skip
        scale = getattr(self._holdout.mechanism, "scale", None)
        setting = f"sd {scale:.2g}" if surprises is None else f"{surprises} surprises"
        super().__init__(sample, width=self._holdout.promise.radius, setting=setting)

    def _answer_all(self, queries: Queries) -> list[tuple[float, float, float]]:
        if len(queries) == 1:
            return [self._answer(queries.sealed[0], queries.training[0])]
        pairs = zip(queries.sealed, queries.training, strict=True)
        answers = self._holdout.ask_many([accuracy(sealed, training=training) for sealed, training in pairs])
        return [_reply(answer) for answer in answers]

    def _answer(self, sealed: NDArray[np.bool_], training: NDArray[np.bool_]) -> tuple[float, float, float]:
        return _reply(self._holdout.ask(accuracy(sealed, training=training)))

    def close(self) -> None:
        """Close the holdout and remove it."""
        self._holdout.close()
        self._folder.cleanup()


def _reply(answer: Answer) -> tuple[float, float, float]:
    if answer.value is None or answer.low is None or answer.high is None:
        return REFUSED
    return answer.value, answer.low, answer.high
