"""A choice among a million candidates, and a million threshold queries at once.

The exact draws are compared with what NumPy needs for floating-point noise of the same number of values and its argmax:
no method that looks at every candidate can be much faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.timing import compare
from everhold.display import text_table
from everhold.randomness import SecureNoise, SeededNoise
from everhold.values.evaluation import UNIT
from everhold_lab.releases import PermuteAndFlip
from everhold_privacy.mechanisms.selection import ExponentialMechanism
from everhold_privacy.mechanisms.sparse_vector import SparseVector

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["measure"]

_MILLION = 10**6


def measure() -> list[dict[str, Any]]:
    """One line for each task, with the ratio to floating-point work on as many numbers."""
    rng = np.random.default_rng(0)
    losses = rng.integers(0, 2**44, _MILLION)
    values = rng.integers(0, UNIT // 2, _MILLION)
    sparse = SparseVector.sparse(epsilon=1.0, delta=1e-6, tops=10, threshold=UNIT * 1_000, sensitivity=UNIT)
    tasks: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "exponential, seeded": (lambda: ExponentialMechanism(0.01).choose(losses, SeededNoise(1)), _gumbel(losses)),
        "exponential, secure": (lambda: ExponentialMechanism(0.01).choose(losses, SecureNoise()), _gumbel(losses)),
        "permute and flip, secure": (lambda: PermuteAndFlip(0.01).choose(losses, SecureNoise()), _gumbel(losses)),
        "above threshold, a batch, seeded": (lambda: _ask(sparse, values), lambda: rng.laplace(size=_MILLION).max()),
    }  # fmt: skip
    return [{"task": name, **_rounded(compare(*pair, rounds=3))} for name, pair in tasks.items()]


def _gumbel(losses: np.ndarray) -> Callable[[], object]:
    rng = np.random.default_rng(1)
    return lambda: int(np.argmax(rng.gumbel(size=len(losses)) - 1e-12 * losses))


def _ask(sparse: SparseVector, values: np.ndarray) -> object:
    noise = SeededNoise(1)
    return sparse.ask(sparse.start(noise), values, noise)


def _rounded(times: dict[str, float]) -> dict[str, float]:
    names = {"ours": "everhold (s)", "peer": "floats (s)", "ratio": "ratio"}
    return {names[name]: float(f"{value:.2g}") for name, value in times.items()}


if __name__ == "__main__":
    print(text_table(measure()))
