"""Metrics of cases: columns of results, their differences and ratios, and fixed limits of their means."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float, brief
from everhold.errors import QueryRejected

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

LOWER = frozenset({
    "cost", "duration", "error", "errors", "failures", "latency", "loss", "price", "seconds", "time", "tokens",
    "toxicity", "violations",
})  # fmt: skip
"""Names of metrics of which less is better, unless ``lower=`` names others."""

_DIFFERENCE, _RATIO = " - ", " / "


@dataclass(frozen=True, slots=True)
class CaseMetric:
    """A number for each run of a case.

    Attributes:
        low: The smallest number that a result can have; a smaller one is refused.
        high: The largest.
        lower: True if less is better.
        yes_no: True if every number is 0 or 1.
        parts: For a weighted sum of columns: column, weight, low and high of each.
    """

    name: str
    low: float = 0.0
    high: float = 1.0
    lower: bool = False
    yes_no: bool = False
    parts: tuple[tuple[str, float, float, float], ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise QueryRejected(
                f"the range of the metric {brief(self.name)} is {brief((self.low, self.high))}; expected two numbers "
                "(low, high), low below high"
            )

    @property
    def width(self) -> float:
        """High minus low."""
        return self.high - self.low

    @property
    def ranges(self) -> tuple[tuple[str, float, float], ...]:
        """Columns that it reads, each with the range of its numbers."""
        return tuple((name, low, high) for name, _, low, high in self.parts) or ((self.name, self.low, self.high),)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it reads."""
        return tuple(name for name, _, _ in self.ranges)

    def value(self, numbers: Sequence[float]) -> float:
        """Its number from those of its columns, which lie within their ranges."""
        if not self.parts:
            return numbers[0]
        return sum(part[1] * number for part, number in zip(self.parts, numbers, strict=True))

    def described(self) -> dict[str, Any]:
        """As plain JSON data."""
        plain = asdict(self)
        parts = plain.pop("parts")
        return {**plain, "parts": [list(part) for part in parts]} if parts else plain

    @classmethod
    def read(cls, described: Mapping[str, Any]) -> Self:
        """The inverse of `described`."""
        return cls(**{**described, "parts": tuple(tuple(part) for part in described.get("parts", ()))})

    def scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers within the range in [0, 1], more is better."""
        inside = (values - self.low) / self.width
        return 1.0 - inside if self.lower else inside


@dataclass(frozen=True, slots=True)
class CaseRatio:
    """A ratio of the means of two columns, such as the cost of a success.

    Attributes:
        lower: True if less is better.
    """

    top: str
    bottom: str
    lower: bool = False


def metrics_for(
    better: Iterable[str], guards: Iterable[str], *, ranges: Mapping[str, Any], lower: Iterable[str] | None,
    limits: Iterable[str] = (),
) -> tuple[list[CaseMetric], dict[str, CaseRatio]]:  # fmt: skip
    """The metrics of claims, each once, and the ratios of two of them; what is 0 or 1 throughout is seen later.

    A ratio is lower-better if its name is in ``lower``, or, without ``lower``, if its numerator's is in `LOWER`.
    """
    names = list(dict.fromkeys([*better, *guards]))
    less = LOWER if lower is None else frozenset(lower)
    columns = {part for name in [*names, *limits] for part in re.split(" [-/] ", name)}
    known = {*names, *(name.partition(_RATIO)[0] for name in names if _RATIO in name)}
    if unknown := (set(ranges) - columns | (set() if lower is None else less)) - known:
        raise QueryRejected(f"{brief(sorted(unknown)[0])} is no metric of the gate; expected one of {', '.join(names)}")
    ratios = {name: _ratio(name, ranges, less) for name in names if _RATIO in name}
    read = [name for name in names if name not in ratios]
    read += [column for ratio in ratios.values() for column in (ratio.top, ratio.bottom)]
    return [_metric(name, ranges, lower=name in less) for name in dict.fromkeys(read)], ratios


def _ratio(name: str, ranges: Mapping[str, Any], lower: Container[str]) -> CaseRatio:
    """The two columns of a ratio, whose numbers are never below 0."""
    top, _, bottom = name.partition(_RATIO)
    if any(sign in part for sign in (_DIFFERENCE, _RATIO) for part in (top, bottom)) or not (top and bottom):
        raise QueryRejected(
            f"{brief(name)} cannot be compared with another version; expected a ratio of two columns, 'a / b'; nothing "
            "was changed"
        )
    for column in (top, bottom):
        if _metric(column, ranges, lower=False).low < 0.0:
            raise QueryRejected(
                f"{brief(column)} of the ratio {brief(name)} can be below 0; expected a range from 0 or more; nothing "
                "was changed"
            )
    return CaseRatio(top, bottom, lower=name in lower or top in lower)


def limits_for(
    at_most: Mapping[str, float], at_least: Mapping[str, float], *, ranges: Mapping[str, Any]
) -> tuple[list[CaseMetric], dict[str, float]]:
    """Guards against fixed numbers: a metric for each, and the number that its mean has to be above.

    A ratio of means is at most m if the mean of m * denominator - numerator is at least 0.

    Args:
        at_most: By a column, a difference ``"a - b"`` or a ratio ``"a / b"``.
        at_least: The same.
        ranges: Of columns, 0 to 1 by default.

    Raises:
        QueryRejected: If a number is none, or beyond what the ranges allow. Nothing was changed.
    """
    metrics, limits = [], {}
    requested = [(name, number, -1.0, "at most") for name, number in at_most.items()]
    for name, given, sign, word in requested + [(name, number, 1.0, "at least") for name, number in at_least.items()]:
        number = as_float(given)
        top, slash, bottom = name.partition(_RATIO)
        parts = [(column, sign * weight, a, b) for column, weight, a, b in _sum_of(top, ranges)]
        if slash:
            parts += [(column, -sign * number * weight, a, b) for column, weight, a, b in _sum_of(bottom, ranges)]
        low, high = (sum(pick(weight * a, weight * b) for _, weight, a, b in parts) for pick in (min, max))
        floor = 0.0 if slash else sign * number
        if not (math.isfinite(number) and low < floor < high):
            raise QueryRejected(
                f"{name} {word} {brief(given)} cannot be a claim; expected a finite number inside of what the ranges "
                "allow; nothing was changed"
            )
        metrics.append(CaseMetric(f"{name} {word} {number:g}", low, high, parts=tuple(parts)))
        limits[metrics[-1].name] = floor
    return metrics, limits


def _metric(name: str, ranges: Mapping[str, Any], *, lower: bool) -> CaseMetric:
    """A column, or a difference of two."""
    if _DIFFERENCE not in name:
        low, high = ranges.get(name, (0.0, 1.0))
        return CaseMetric(name, float(low), float(high), lower=lower)
    parts = _sum_of(name, ranges)
    ends = [sum(pick(weight * a, weight * b) for _, weight, a, b in parts) for pick in (min, max)]
    low, high = ranges.get(name, ends)
    return CaseMetric(name, float(low), float(high), lower=lower, parts=tuple(parts))


def _sum_of(name: str, ranges: Mapping[str, Any]) -> list[tuple[str, float, float, float]]:
    """The columns of ``"a"`` or ``"a - b"`` with their weights and ranges."""
    first, minus, second = name.partition(_DIFFERENCE)
    columns = [first, *([second] if minus else [])]
    if not all(columns) or any(sign in second for sign in (_DIFFERENCE, _RATIO)) or _RATIO in first:
        raise QueryRejected(
            f"{brief(name)} cannot be read; expected a column, a difference 'a - b' or a ratio 'a / b'; nothing was "
            "changed"
        )
    found = []
    for column, weight in zip(columns, (1.0, -1.0), strict=False):
        low, high = map(float, ranges.get(column, (0.0, 1.0)))
        checked = CaseMetric(column, low, high)
        found.append((column, weight, checked.low, checked.high))
    return found
