"""Peers that add no noise: the bare holdout, k-fold cross-validation, sample splitting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t as student

from benchmarks.peer_base import CONFIDENCE, REFUSED, Peer, around
from everhold_lab.published import hoeffding_splitting
from everhold_lab.published.splitting import hoeffding_radius

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.peer_base import Sample

__all__ = ["BareHoldout", "FoldedRows", "SplitRows"]


class BareHoldout(Peer):
    """The plain average over all sealed rows, with Hoeffding's width for so many queries fixed in advance (P9)."""

    def __init__(self, sample: Sample, *, claimed: int) -> None:
        super().__init__(sample, width=hoeffding_radius(len(sample.sealed), queries=claimed, confidence=CONFIDENCE))

    def _answer(self, sealed: NDArray[np.bool_], training: NDArray[np.bool_]) -> tuple[float, float, float]:
        return around(float(np.mean(sealed == self.sample.sealed)), self.width)


class FoldedRows(Peer):
    """Cross-validation on all rows, sealed and training; Student's interval over the folds' scores.

    The predictions are given, so there is nothing to fit and the folds serve the interval alone.
    """

    def __init__(self, sample: Sample, *, folds: int = 10) -> None:
        super().__init__(sample, width=0.0, setting=f"{folds} folds")
        self._labels = np.array_split(np.concatenate([sample.sealed, sample.training]), folds)
        self._quantile = float(student.ppf((1.0 + CONFIDENCE) / 2.0, folds - 1)) / np.sqrt(folds)

    def _answer(self, sealed: NDArray[np.bool_], training: NDArray[np.bool_]) -> tuple[float, float, float]:
        predicted = np.array_split(np.concatenate([sealed, training]), len(self._labels))
        scores = [np.mean(said == truth) for said, truth in zip(predicted, self._labels, strict=True)]
        half = float(self._quantile * np.std(scores, ddof=1))
        self.width = max(self.width, half)  # the widest so far is what the table shows
        return around(float(np.mean(scores)), half)


class SplitRows(Peer):
    """A fresh part of the sealed rows for every query, with Hoeffding's width for all parts (P9)."""

    def __init__(self, sample: Sample, *, queries: int) -> None:
        rows = len(sample.sealed)
        bound = hoeffding_splitting(rows, queries=queries, surprises=1, confidence=CONFIDENCE, slack=0.0)
        self._part, self._left, self._asked = rows // queries, queries, 0
        super().__init__(sample, width=bound.radius, setting=f"{self._part} rows a part")

    def _answer(self, sealed: NDArray[np.bool_], training: NDArray[np.bool_]) -> tuple[float, float, float]:
        if not self._left:
            return REFUSED
        part = slice(self._asked * self._part, (self._asked + 1) * self._part)
        self._asked, self._left = self._asked + 1, self._left - 1
        return around(float(np.mean(sealed[part] == self.sample.sealed[part])), self.width)
