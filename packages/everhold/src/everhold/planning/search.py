"""Crossing of a monotone radius and a request, over whole numbers: a bracketed search in few evaluations."""

from __future__ import annotations

import math
from collections.abc import Callable

_SHORTEST_STEP, _LONGEST_STEP = math.log(2.0), math.log(1000.0)  # in the logarithm of the number

Radius = Callable[[int], float]


def smallest_within(radius: Radius, request: float, *, least: int, most: int) -> int | None:
    """The smallest whole number n with ``radius(n) <= request < radius(n - 1)``; None if ``radius(most) > request``.

    Args:
        radius: Non-increasing in n; infinite where there is none. If rounding bends it a little, the two inequalities
            still hold for the answer.
        request: The radius that is requested.
        least: Smallest n to consider; ``radius(least - 1)`` counts as infinite.
        most: Largest n to consider.

    Examples:
        >>> smallest_within(lambda n: 1 / math.sqrt(n), 0.1, least=1, most=10**6)
        100
    """
    if radius(most) > request:
        return None
    holds = most
    while holds > least:
        guess = holds * (radius(holds) / request) ** 2  # most radii fall like 1/sqrt(n)
        ahead = min(max(math.floor(0.9 * guess), least), holds - 1)
        if radius(ahead) > request:
            return _crossing(radius, request, fails=ahead, holds=holds)
        holds = ahead
    return holds


def largest_within(radius: Radius, request: float, *, most: int) -> int:
    """The largest whole number m in [0, most] with ``radius(m) <= request < radius(m + 1)``; 0 if there is none.

    Args:
        radius: Positive and non-decreasing in m; infinite where there is none.
        request: The radius that is requested.
        most: Largest m to consider.

    Examples:
        >>> largest_within(lambda m: math.log(m + 1), 2.0, most=10**6)
        6
    """
    if radius(1) > request:
        return 0
    holds, ahead = 1, 2
    while ahead <= most and radius(ahead) <= request:
        rise = math.log(radius(ahead) / radius(holds)) / math.log(ahead / holds)
        step = 1.1 * math.log(request / radius(ahead)) / rise if rise > 0.0 else _LONGEST_STEP
        step = min(max(step, _SHORTEST_STEP), _LONGEST_STEP)
        holds, ahead = ahead, math.ceil(ahead * math.exp(step))
    if ahead > most and radius(most) <= request:
        return most
    return _crossing(radius, request, fails=min(ahead, most), holds=holds)


def _crossing(radius: Radius, request: float, *, fails: int, holds: int) -> int:
    """The last number that holds on the way to one that fails: secant steps on logarithms, kept inside the bracket."""
    repeats, side = 0, 0
    while abs(fails - holds) > 1:
        target = _secant(radius, request, fails, holds)
        target += side * (2**repeats - 1)  # one end stays: step beyond the estimate to move it, too
        low, high = min(fails, holds) + 1, max(fails, holds) - 1
        target = min(max(target, low), high)
        within = radius(target) <= request
        towards = 1 if (fails > holds) == within else -1
        repeats = min(repeats + 1, 60) if towards == side else 0
        side = towards
        holds, fails = (target, fails) if within else (holds, target)
    return holds


def _secant(radius: Radius, request: float, fails: int, holds: int) -> int:
    """Crossing of the line through both ends, on logarithms, with the request; the middle where there is no line."""
    above, below = radius(fails), radius(holds)
    middle = 0.5 * (math.log(fails) + math.log(holds))
    if math.isfinite(above) and above > below > 0.0:
        share = math.log(request / below) / math.log(above / below)
        middle = math.log(holds) + share * (math.log(fails) - math.log(holds))
    return round(math.exp(middle))
