"""Scores of scikit-learn by which gates compare, and which of them are means over rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

LOG_CLIP = math.log(1_000.0)
"""Larger logarithmic losses of a row count as this, in ``"neg_log_loss"``."""

MEANS: Mapping[str, str | Mapping[str, Any]] = {
    "accuracy": "accuracy", "error": "error", "brier": "brier", "neg_brier_score": "brier",
    "neg_log_loss": {"loss": "log", "high": LOG_CLIP},
}  # fmt: skip
"""By name: `everhold.accuracy`, `everhold.error` or `everhold.brier`, or the arguments of `everhold.risk`."""

GAINS_OF_SCORES = (
    "roc_auc", "f1_weighted", "matthews_corrcoef", "r2", "neg_mean_absolute_error", "neg_mean_squared_error",
    "neg_root_mean_squared_error",
)  # fmt: skip
"""Scores that are no means of row values, or need the range of labels, by which gates compare (`everhold.metric`)."""

NEAREST_GAIN: Mapping[str, str] = {
    "recall_at_fpr": "roc_auc", "average_precision": "roc_auc", "expected_calibration_error": "neg_brier_score",
}  # fmt: skip
"""Scores whose gain is not promised, and the nearest metric of a gate."""


def why_no_gain(name: Any) -> str | None:
    """Reason that a gate does not compare by a score of scikit-learn, and the nearest metric; None for no such name.

    Examples:
        >>> why_no_gain("average_precision")
        "no gain in 'average_precision' is promised; the nearest metric of a gate is roc_auc"
        >>> why_no_gain("roc_auc"), why_no_gain("height")
        (None, None)
    """
    from everhold.queries.gate_metrics import GATE_METRICS
    from everhold.queries.scores import REFUSED, score_names

    if not isinstance(name, str) or name in GATE_METRICS or name not in (*score_names(), *REFUSED):
        return None
    nearest = NEAREST_GAIN.get(name, REFUSED.get(name, ""))
    return (
        f"no gain in {name!r} is promised; the nearest metric of a gate is "
        f"{nearest if nearest in GATE_METRICS else 'accuracy'}"
    )
