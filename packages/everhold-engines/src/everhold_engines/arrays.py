"""Columns of an engine's answer as arrays: exact whole numbers, UTC times, and a mask where a value is missing."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_MOST_DAYS = 106_751_990
_BIG = np.iinfo(np.int64)


def plain(value: Any) -> Any:
    """A value of a driver as everhold takes it: decimals without a fraction are ints, others doubles; times are in UTC.

    Examples:
        >>> plain(Decimal("340282366920938463463374607431768211456")), plain(Decimal("0.1"))
        (340282366920938463463374607431768211456, 0.1)
    """
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    return _utc(value)


def array_of(values: Sequence[Any], *, otherwise: str = "O") -> np.ma.MaskedArray[Any, Any]:
    """A column of Python values: int64 (objects beyond it), float64, bool, datetime64[us] in UTC, or objects.

    Args:
        values: What the driver gave, None where it is missing.
        otherwise: Type of the array if all are missing; decimals become doubles, even whole ones, if that is "float64".

    Examples:
        >>> array_of([1, None, 3])
        masked_array(data=[1, --, 3],
                     mask=[False,  True, False],
               fill_value=999999)
        >>> array_of([2**70]).dtype
        dtype('O')
    """
    missing = np.fromiter((value is None for value in values), dtype=bool, count=len(values))
    known = [value for value in values if value is not None] if missing.any() else list(values)
    found = _known_array(known, otherwise)
    if not missing.any():
        return np.ma.MaskedArray(found, mask=missing)
    column = np.zeros(len(values), dtype=found.dtype) if found.dtype != object else np.full(len(values), None)
    column[~missing] = found
    return np.ma.MaskedArray(column, mask=missing)


def arrow_array(column: Any) -> np.ma.MaskedArray[Any, Any]:
    """The same of a column of an Arrow table."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_date32(kind):  # days beyond the microseconds of 64 bits are missing
        days = column.cast(pa.int32()).fill_null(0).to_numpy().astype(np.int64)
        far = np.abs(days) > _MOST_DAYS
        found = np.where(far, 0, days).astype("datetime64[D]").astype("datetime64[us]")
        return np.ma.MaskedArray(found, mask=column.is_null().to_numpy() | far)
    if pa.types.is_string(kind):  # whose bytes may be anything
        texts = column.cast(pa.binary()).to_pylist()
        return array_of([None if text is None else text.decode(errors="replace") for text in texts])
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us", tz=getattr(kind, "tz", None)))
        return _masked(column, column.cast(pa.int64()).fill_null(0).to_numpy().astype("datetime64[us]"))
    if pa.types.is_boolean(kind):
        return _masked(column, column.fill_null(False).to_numpy())
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return _masked(column, column.fill_null(0).to_numpy().astype(np.int64))
    if pa.types.is_floating(kind):
        return _masked(column, column.fill_null(0.0).to_numpy().astype(np.float64))
    if pa.types.is_decimal(kind) and kind.scale == 0:
        return array_of([None if value is None else int(value) for value in column.to_pylist()], otherwise="int64")
    number = pa.types.is_decimal(kind) or kind == pa.uint64()
    return array_of(column.to_pylist(), otherwise="float64" if number else "O")


def _masked(column: Any, values: NDArray[Any]) -> np.ma.MaskedArray[Any, Any]:
    return np.ma.MaskedArray(values, mask=column.is_null().to_numpy())


def _known_array(values: list[Any], otherwise: str) -> NDArray[Any]:
    """An array of values none of which is missing, by the type of the first one."""
    first = values[0] if values else None
    if first is None:
        return np.zeros(0, dtype=otherwise)
    if isinstance(first, Decimal):
        return _of_decimals(values, otherwise)
    if isinstance(first, bool):
        return np.array(values, dtype=bool)
    if isinstance(first, int):
        fits = _BIG.min <= min(values) and max(values) <= _BIG.max
        return np.array(values, dtype=np.int64 if fits else object)
    if isinstance(first, float):
        return np.array(values, dtype=np.float64)
    if isinstance(first, (date, np.datetime64)):
        return np.array([_utc(value) for value in values], dtype="datetime64[us]")
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def _of_decimals(values: list[Decimal], otherwise: str) -> NDArray[Any]:
    """Whole numbers if all are; a column of doubles by the engine's word stays one."""
    if otherwise != "float64" and all(value.is_finite() and value == value.to_integral_value() for value in values):
        return _known_array(list(map(int, values)), otherwise)
    return np.array(list(map(float, values)), dtype=np.float64)


def _utc(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value
