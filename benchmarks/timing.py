"""Timing that survives a noisy machine: interleaved rounds, medians, ratios."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["compare", "seconds"]


def seconds(action: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def compare(ours: Callable[[], object], peer: Callable[[], object], *, rounds: int) -> dict[str, float]:
    """Medians of both and the median of their ratios, round by round, after one round to warm up."""
    pairs = [(seconds(ours), seconds(peer)) for _ in range(rounds + 1)][1:]
    return {
        "ours": statistics.median(pair[0] for pair in pairs),
        "peer": statistics.median(pair[1] for pair in pairs),
        "ratio": statistics.median(pair[0] / pair[1] for pair in pairs),
    }
