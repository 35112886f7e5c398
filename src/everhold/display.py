"""One way to look at every result: as a dict, a data frame, an Arrow table, HTML or text."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    import pyarrow as pa

__all__ = ["BOUNDS", "LEAST_SHOWN", "Display", "at_least", "at_most", "left_in_words", "rounded", "text_table"]

LEAST_SHOWN = 1e-15
"""Numbers nearer to 0 are shown as 0: they are what rounding left of it. JSON, frames and Arrow tables keep them."""

_MOST_SHOWN = 3  # items of a list
_MOST_LINES = 60  # of what is printed; a synthetic table may have many thousands


class Display:
    """Mixin of dataclasses that are shown to people: answers, plans, transcripts, certificates."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data that `json` can write; by default all its fields by name."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    def to_rows(self) -> list[dict[str, Any]]:
        """The result as table rows, all with the same keys in the same order; by default one row."""
        return [self.to_dict()]

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas data frame (needs pandas)."""
        import pandas

        return pandas.DataFrame(self.to_rows())

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table (needs pyarrow); in a column that holds a list, numbers are lists of one."""
        import pyarrow

        rows = self.to_rows()
        mixed = {name for row in rows for name, value in row.items() if isinstance(value, list)}
        return pyarrow.Table.from_pylist([
            {name: [float(value)] if name in mixed and isinstance(value, (int, float)) else value
             for name, value in row.items()}
            for row in rows
        ])  # fmt: skip

    def to_text(self) -> str:
        """The rows as a plain text table."""
        return text_table(self.to_rows())

    def __str__(self) -> str:
        rows = self.to_rows()
        return text_table(rows[:_MOST_LINES]) + (f"\n{_cut(rows)}" if _cut(rows) else "")

    def _repr_html_(self) -> str:
        rows = self.to_rows()
        if not rows:
            return "<p>nothing yet</p>"
        head = "".join(f"<th>{html.escape(str(name))}</th>" for name in rows[0])
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_shown(value, name))}</td>" for name, value in row.items()) + "</tr>"
            for row in rows[:_MOST_LINES]
        )
        cut = f"<p>{_cut(rows)}</p>" if _cut(rows) else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{cut}"


def _plain(value: Any) -> Any:
    for method in ("to_dict", "tolist"):
        if hasattr(value, method):
            return getattr(value, method)()
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value


def _cut(rows: Sequence[Mapping[str, Any]]) -> str:
    """What is said below a table that was cut; nothing if it was not."""
    return f"... {len(rows):,} lines in all; to_rows() and to_pandas() have them" if len(rows) > _MOST_LINES else ""


def at_most(bound: float) -> str:
    """A bound from above with four significant digits, rounded up: what is shown still holds.

    Examples:
        >>> at_most(0.123401), at_most(-0.5), at_most(20_000.1), at_most(float("inf")), at_most(2.8e-27)
        ('0.1235', '-0.5', '2.001e+04', 'inf', '1e-15')
    """
    return _outwards(bound, ROUND_CEILING)


def at_least(bound: float) -> str:
    """A bound from below with four significant digits, rounded down.

    Examples:
        >>> at_least(0.123499), at_least(0.0), at_least(-0.123401), at_least(2.8e-27)
        ('0.1234', '0', '-0.1235', '0')
    """
    return _outwards(bound, ROUND_FLOOR)


def _outwards(bound: float, direction: str) -> str:
    if abs(bound) < LEAST_SHOWN:
        away = (bound > 0.0) if direction == ROUND_CEILING else (bound < 0.0)
        return f"{math.copysign(LEAST_SHOWN, bound) if away else 0.0:g}"
    if not math.isfinite(bound):
        return f"{bound:g}"
    exact = Decimal(repr(float(bound)))
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 3), rounding=direction)):.4g}"


def rounded(value: float) -> str:
    """A number that is no bound, with four significant digits.

    Examples:
        >>> rounded(0.123449), rounded(-2.8e-27), rounded(3e-9)
        ('0.1234', '0', '3e-09')
    """
    return "0" if abs(value) < LEAST_SHOWN else f"{value:.4g}"


def left_in_words(remaining: Mapping[str, int], whole: Mapping[str, int] | None = None) -> str:
    """What is left of a budget, by name, as people say it; with the whole, out of how many.

    Examples:
        >>> left_in_words({"questions": 1_999, "overfits": 1})
        '1,999 questions and 1 surprise'
        >>> left_in_words({"questions": 19, "overfits": 9}, {"questions": 20, "overfits": 10})
        '19 of 20 questions and 9 of 10 surprises'
    """
    said = []
    for name, count in remaining.items():
        word = "surprises" if name == "overfits" else name
        if whole is not None:
            said.append(f"{count:,} of {whole[name]:,} {word}")
        else:
            said.append(f"{count:,} {word.removesuffix('s') if count == 1 else word}")
    return " and ".join(said)


def text_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as aligned columns of text, numbers to the right.

    Examples:
        >>> print(text_table([{"mechanism": "gaussian", "radius": 0.0841}, {"mechanism": "laplace", "radius": 0.13}]))
        mechanism  radius
        gaussian   0.0841
        laplace      0.13
    """
    if not rows:
        return "nothing yet"
    names = list(rows[0])
    cells = [[_shown(row.get(name), name) for name in names] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(names)]
    right = [all(isinstance(row.get(name), (int, float, type(None))) for row in rows) for name in names]
    lines = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [names, *cells]
    ]
    return "\n".join(lines)


BOUNDS: dict[str, Callable[[float], str]] = {
    "low": at_least,
    "high": at_most,
    "within": at_most,
    "sealed_low": at_least,
    "sealed_high": at_most,
}
"""Columns of tables that hold ends of intervals and half-widths, and how they are rounded."""


def _shown(value: Any, name: str = "") -> str:
    """A value as people read it: four significant digits, bounds rounded outwards, a dash for nothing."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return BOUNDS.get(name, rounded)(value)
    if isinstance(value, dict):
        return ", ".join(f"{_shown(inner)} {counted}" for counted, inner in value.items())
    if isinstance(value, list) and len(value) > _MOST_SHOWN:  # a vector
        first = ", ".join(_shown(inner, name) for inner in value[:_MOST_SHOWN])
        return f"[{first}, ... {len(value):,} in all]"
    return str(value)
