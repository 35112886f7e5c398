"""Scores of scikit-learn that are means over rows, by their names."""

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
