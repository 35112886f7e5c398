"""Settings of every series: its columns, the gap to the training rows, and how far a fit may be trusted."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, TypedDict

from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["UNDECLARED", "SeriesSettings", "checked_settings"]

_LARGEST_GAP = 10**12


class SeriesSettings(TypedDict, total=False):
    """Settings of every series about its columns and its training rows; see `MarkovChain`."""

    order_by: str | None
    state: str | None
    groups: str | None
    gap: float | None
    miss: float
    step: float | None
    lengths: Iterable[Iterable[int]] | None


UNDECLARED = SeriesSettings(order_by=None, state=None, groups=None, gap=None, miss=0.0, step=None, lengths=None)
"""Settings of a series about which nothing is said."""


def checked_settings(given: SeriesSettings) -> dict[str, Any]:
    """Attributes of a `SeriesModel`, by name.

    Raises:
        DependenceError: If a setting makes no sense.
    """
    settings: dict[str, Any] = {**UNDECLARED, **given}
    settings["fit_miss"] = settings.pop("miss")
    settings["gap"] = _checked_gap(settings["gap"])
    settings["lengths"] = _checked_lengths(settings["lengths"])
    settings["step"] = _checked_step(settings["step"])
    if not 0.0 <= settings["fit_miss"] < 1.0:
        raise DependenceError(f"miss is {settings['fit_miss']}; expected a probability below 1, such as 0.01")
    for name in ("order_by", "state", "groups"):
        if settings[name] is not None and not (isinstance(settings[name], str) and settings[name]):
            raise DependenceError(f"{name} is {settings[name]!r}; expected the name of a column")
    return settings


def _checked_gap(gap: Any) -> float | None:
    if gap is None or gap == math.inf:
        return None if gap is None else math.inf
    try:
        number = -1 if isinstance(gap, bool) else operator.index(gap)
    except TypeError:
        number = -1
    if not 0 <= number <= _LARGEST_GAP:
        raise DependenceError(f"the gap is {gap!r}; expected a whole number of rows left out, or math.inf")
    return number


def _checked_step(step: Any) -> float | None:
    if step is None:
        return None
    if isinstance(step, bool) or not isinstance(step, (int, float)) or not 0.0 < step < math.inf:
        raise DependenceError(f"step is {step!r}; expected the positive distance of neighbouring rows, or nothing")
    return float(step)


def _checked_lengths(lengths: Iterable[Iterable[int]] | None) -> tuple[tuple[int, int], ...] | None:
    if lengths is None:
        return None
    pairs = tuple(sorted((operator.index(length), operator.index(number)) for length, number in lengths))
    if not pairs or min(min(pair) for pair in pairs) < 1:
        raise DependenceError(
            "the lengths of the series make no sense; expected pairs (length, number), each at least 1"
        )
    return pairs
