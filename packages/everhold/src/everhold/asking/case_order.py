"""The secret order in which an open challenge hands out cases, and after how many of them it looks."""

from __future__ import annotations

import hmac
import math
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everhold.ledger.open_challenges import Opened

__all__ = ["boundaries", "draws_of_units", "order_of_units"]


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
