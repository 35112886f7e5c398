"""Dates and times that are held as text, or as whole numbers such as 20240131: parsed strictly, a column as a whole."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_CLOCK = r"(?:[ T](?P<clock>\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)(?P<zone>Z|[+-]\d{2}:?\d{2})?)?"
_YEAR = r"(?P<y>(?:1[5-9]|20|21)\d{2})"  # others are hardly years
_SHAPES = tuple(
    re.compile(shape)
    for shape in (
        rf"{_YEAR}(?P<by>[-/.])(?P<m>\d{{1,2}})(?P=by)(?P<d>\d{{1,2}}){_CLOCK}",
        rf"{_YEAR}(?P<m>\d{{2}})(?P<d>\d{{2}})",
        rf"{_YEAR}-(?P<m>\d{{2}})",
        rf"(?P<d>\d{{1,2}})(?P<by>[-/.])(?P<m>\d{{1,2}})(?P=by){_YEAR}{_CLOCK}",
        rf"(?P<m>\d{{1,2}})(?P<by>[-/.])(?P<d>\d{{1,2}})(?P=by){_YEAR}{_CLOCK}",
    )
)


def may_be_time(value: str) -> bool:
    """True if one value has the shape of a date or a time."""
    return any(shape.fullmatch(value.strip()) for shape in _SHAPES)


def as_times(values: Sequence[str]) -> NDArray[np.datetime64] | None:
    """Values as moments in time, shape (values,); None where they are not all of one shape, or of two.

    ``03/04/2024`` alone may be in March or in April: days and months are told apart only if some day is above 12.
    Moments with a zone are in UTC.

    Examples:
        >>> as_times(["31/01/2024", "01/02/2024"])
        array(['2024-01-31T00:00:00.000000', '2024-02-01T00:00:00.000000'], dtype='datetime64[us]')
        >>> as_times(["03/04/2024", "05/06/2024"]) is None, as_times(["2024-01-31", "none"]) is None
        (True, True)
    """
    found = [times for shape in _SHAPES if (times := _of_shape(values, shape)) is not None]
    if not found or any(not np.array_equal(found[0], other) for other in found[1:]):
        return None
    return found[0]


def _of_shape(values: Sequence[str], shape: re.Pattern[str]) -> NDArray[np.datetime64] | None:
    texts, offsets, separators = [], [], set()
    for value in values:
        match = shape.fullmatch(value.strip())
        if match is None:
            return None
        part = match.groupdict()
        day, zone = int(part.get("d") or 1), part.get("zone") or ""
        texts.append(f"{part['y']}-{int(part['m']):02}-{day:02}T{part.get('clock') or '00:00'}")
        offsets.append(_minutes(zone))
        separators.add(part.get("by"))
    if len(separators) > 1:
        return None
    try:
        return np.asarray(np.array(texts, dtype="datetime64[us]") - np.array(offsets, dtype="timedelta64[m]"))
    except ValueError:  # a 13th month, or a 31st of February
        return None


def _minutes(zone: str) -> int:
    if zone in ("", "Z"):
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    return (-1 if zone[0] == "-" else 1) * (60 * hours + minutes)
