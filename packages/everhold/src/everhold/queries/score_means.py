"""Scores of scikit-learn that are means over rows: gates and competitions compare by them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["LOG_CLIP", "MEANS", "why_no_mean"]

LOG_CLIP = math.log(1_000.0)
"""Larger logarithmic losses of a row count as this, in ``"neg_log_loss"``."""

MEANS: Mapping[str, str | Mapping[str, Any]] = {
    "accuracy": "accuracy", "error": "error", "brier": "brier", "neg_brier_score": "brier",
    "neg_log_loss": {"loss": "log", "high": LOG_CLIP},
}  # fmt: skip
"""By name: `everhold.accuracy`, `everhold.error` or `everhold.brier`, or the arguments of `everhold.risk`."""

_LOSSES = {
    "neg_mean_absolute_error": "absolute", "neg_mean_squared_error": "squared",
    "neg_root_mean_squared_error": "squared", "r2": "squared",
}  # fmt: skip
_OF_SCORES = ("roc_auc", "average_precision", "recall_at_fpr", "expected_calibration_error")


def why_no_mean(name: Any) -> str | None:
    """Reason that a score of scikit-learn is nothing to compare by, and the nearest metric; None for no such name.

    Examples:
        >>> why_no_mean("f1_macro")
        "'f1_macro' is no mean over rows, so a gain is no mean of gains; the nearest metric is accuracy"
        >>> why_no_mean("accuracy"), why_no_mean("height")
        (None, None)
    """
    from everhold.queries.scores import REFUSED, score_names

    if not isinstance(name, str) or name in MEANS or name not in (*score_names(), *REFUSED):
        return None
    if name in _LOSSES:
        loss = _LOSSES[name]
        return f"{name!r} needs the range of its losses; name the loss with its range, such as {loss!r} with high=60"
    nearest = "neg_brier_score or neg_log_loss" if name.startswith(_OF_SCORES) else "accuracy"
    return f"{name!r} is no mean over rows, so a gain is no mean of gains; the nearest metric is {nearest}"
