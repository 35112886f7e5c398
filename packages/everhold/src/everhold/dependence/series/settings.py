"""Settings of every series: its columns, the gap to the training rows, and how far a fit may be trusted."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, TypedDict

from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from everhold.dependence.series.base import SeriesModel

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


def declare(model: SeriesModel, given: SeriesSettings) -> None:
    """Set the attributes of a frozen model."""
    if unknown := sorted(given.keys() - UNDECLARED.keys()):
        raise TypeError(f"{type(model).__name__}.__init__() got an unexpected keyword argument {unknown[0]!r}")
    for name, value in checked_settings(given).items():
        object.__setattr__(model, name, value)


def plain_settings(model: SeriesModel) -> dict[str, Any]:
    """The plain data that all series share."""
    gap = model.gap if model.gap is None else "independent" if math.isinf(model.gap) else int(model.gap)
    return {
        "order_by": model.order_by,
        "state": model.state,
        "groups": model.groups,
        "gap": gap,
        "miss": model.fit_miss,
        "step": model.step,
        "lengths": None if model.lengths is None else [list(pair) for pair in model.lengths],
    }


def read_settings(data: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `plain_settings`, as arguments of the constructor."""
    gap = data.get("gap")
    names = {name: data.get(name) for name in ("order_by", "state", "groups", "step", "lengths")}
    return {**names, "gap": math.inf if gap == "independent" else gap, "miss": float(data.get("miss", 0.0))}


def described(model: SeriesModel, what: str) -> str:
    """One sentence: what a step is, then the rows, the gap and the fit."""
    ordered = "" if model.order_by is None else f" in the order of column {model.order_by!r}"
    parts = "the sealed rows are one series"
    if model.groups is not None:
        parts = f"the sealed rows are independent series (equal values of column {model.groups!r})"
    said = f"{parts}{ordered}, one row per step; {what}"
    if model.gap is None and model.fitted:
        said += "; the gap to the sealed rows is not declared yet"
    elif model.gap is None:
        said += "; no training row belongs to the same series, and nobody who asks has seen any other row of it"
    elif math.isinf(model.gap):
        said += (
            "; the training rows are independent of the sealed rows, and nobody who asks has seen any other row of "
            "a sealed series"
        )
    else:
        unseen = f"any of these {model.gap:,} rows, any " if model.gap else "any row "
        said += (
            f"; {int(model.gap):,} rows are left out between the training rows and the sealed rows of a series, and "
            f"nobody who asks has seen {unseen}between the sealed rows or any on their other side"
        )
    if model.fit_miss:
        said += f"; its parameters were bounded from training rows with confidence {1.0 - model.fit_miss:.6g}"
    return said


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
