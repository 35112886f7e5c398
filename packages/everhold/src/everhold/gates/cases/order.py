"""Secret orders of a gate about cases: of those that an open challenge hands out, and of the runs of each case."""

from __future__ import annotations

import hashlib
import hmac
import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.gates.records import Opened

__all__ = ["boundaries", "draws_of_units", "order_of_units", "with_runs_shuffled"]

_BYTES = 8  # of a secret number of a run


def boundaries(units: int, looks: int) -> list[int]:
    """Numbers of units after each look, as even as can be.

    Examples:
        >>> boundaries(10, 4)
        [3, 5, 8, 10]
    """
    return [math.ceil(units * look / looks) for look in range(1, looks + 1)]


def order_of_units(order_key: bytes, opened: Opened, units: int) -> list[int]:
    """The secret order of one open challenge: a new one each time, so that what was handed out before tells nothing."""
    return sorted(range(units), key=partial(_secret_number, order_key, opened))


def draws_of_units(order_key: bytes, opened: Opened, units: int) -> list[int]:
    """Secret independent draws of units with replacement for one open challenge, until each was drawn."""
    draws: list[int] = []
    missing = set(range(units))
    while missing:
        draws.append(_secret_number(order_key, opened, len(draws)) % units)
        missing.discard(draws[-1])
    return draws


def _secret_number(order_key: bytes, opened: Opened, number: int) -> int:
    name = f"everhold order of cases\n{opened.gate}\n{opened.entry}\n{opened.challenger}\n{number}"
    return int.from_bytes(hmac.digest(order_key, name.encode(), "sha256"), "big")


def with_runs_shuffled(
    order_key: bytes, challenger: str, results: Sequence[NDArray[np.float64]]
) -> list[NDArray[np.float64]]:
    """Results of challenger, champion and baseline, each with the runs of every case in a secret order of its own.

    Results may come sorted by outcome, and first runs would then be better than others, or both versions' best runs
    meet each other. In an order that is independent of the results, runs of one law are again runs of one law.

    Args:
        order_key: That of the steward.
        challenger: Digest of its name at its gate.
        results: Shape (cases, runs, metrics) each.
    """
    shuffled = []
    for place, values in enumerate(results):
        cases, runs, _ = values.shape
        name = f"everhold order of runs\n{challenger}\n{place}"
        secret = hashlib.shake_256(hmac.digest(order_key, name.encode(), "sha256")).digest(_BYTES * cases * runs)
        order = np.argsort(np.frombuffer(secret, "<u8").reshape(cases, runs), axis=1, kind="stable")
        shuffled.append(np.take_along_axis(values, order[:, :, None], axis=1))
    return shuffled
