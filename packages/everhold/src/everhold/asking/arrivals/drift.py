"""Diagnosis of drift at an arrival: the rows that came with it against those before, column by column.

Each comparison is two queries, about windows of arrivals, and pays like any other. All intervals hold at once (S13). So
a pair that does not meet proves that the population changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import brief
from everhold.asking.arrivals.over_time import ask_windows
from everhold.display import Display, html_sentences, html_table
from everhold.errors import EverholdWarning, NotFound, QueryRejected, warn_caller
from everhold.values.expressions.tree import ColumnKind, quoted

if TYPE_CHECKING:
    from everhold.asking.arrivals.growth import Growth
    from everhold.asking.query_executor import QueryExecutor
    from everhold.queries.query import Query

__all__ = ["Drift", "diagnose_drift"]

_MOST = 20  # columns


@dataclass(frozen=True, slots=True)
class Drift(Display):
    """Comparison of the rows of an arrival with all before it.

    Attributes:
        arrival: Its number.
        rows: One for each query: asked, before_low, before_high, since_low, since_high, changed. An interval is None
            where the query was refused.
    """

    arrival: int
    rows: Sequence[Mapping[str, Any]]

    @property
    def changed(self) -> tuple[str, ...]:
        """Queries whose intervals do not meet: the population changed."""
        return tuple(str(row["asked"]) for row in self.rows if row["changed"])

    def __len__(self) -> int:
        return len(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """``{"arrival", "queries", "changed"}``."""
        return {"arrival": self.arrival, "queries": self.to_rows(), "changed": list(self.changed)}

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each query."""
        return [dict(row) for row in self.rows]

    def _repr_html_(self) -> str:
        return html_sentences(_said(self) if self.changed else "no change is proved") + html_table(self.to_rows())


def diagnose_drift(
    executor: QueryExecutor, *, arrival: int | None = None, columns: Sequence[str] | None = None,
    also: Sequence[Query[Any] | str] = (),
) -> Drift:  # fmt: skip
    """See `everhold.holdout.Holdout.drift`.

    Raises:
        QueryRejected: If there is nothing to compare. Nothing was charged.
    """
    growth = executor.growth
    if growth is None:
        raise NotFound("no rows arrived yet; expected an arrival to compare; nothing was charged")
    at = _arrival(growth, arrival)
    before = growth.window(growth.account.retired, at - 1, executor.analyst)
    since = growth.window(at, at, executor.analyst)
    asked = [*_of_columns(executor, columns), *also]
    if not asked:
        raise QueryRejected(
            "there are no training rows, so no query follows from the columns; expected also=[...]; nothing was charged"
        )
    answers = list(ask_windows([(query, each) for query in asked for each in (before, since)]))
    found = Drift(at, [_row(old, new) for old, new in zip(answers[::2], answers[1::2], strict=True)])
    if found.changed:
        warn_caller(EverholdWarning(_said(found)))
    return found


def _arrival(growth: Growth, arrival: int | None) -> int:
    some = [part.number for part in growth.rows.parts if part.rows and part.number > growth.account.retired]
    if not some:
        older = "older rows are retired" if growth.account.retired else "only training rows arrived"
        raise QueryRejected(
            f"no arrival has older sealed rows to be compared with, because {older}; append further rows, and compare "
            "those; nothing was charged"
        )
    if arrival is None:
        return some[-1]
    if arrival not in some or type(arrival) is not int:
        listed = ", ".join(map(str, some))
        raise QueryRejected(
            f"arrival {brief(arrival)} has no rows to compare with older ones; expected one of {listed}; nothing was "
            "charged"
        )
    return arrival


def _of_columns(executor: QueryExecutor, columns: Sequence[str] | None) -> list[str]:
    """Queries about the label and the columns; where a column is cut, training rows say."""
    schema, training = executor.schema, executor.training
    if training is None:
        return []
    kinds = {name: kind for name, kind in schema.asked.items() if kind is not ColumnKind.OTHER}
    kinds = {name: kind for name, kind in kinds.items() if kind is not ColumnKind.TIME and name != schema.row_id}
    usual = sorted(kinds, key=lambda name: name != schema.label)[:_MOST]
    chosen = usual if columns is None else list(columns)
    if unknown := [name for name in chosen if name not in kinds]:
        raise QueryRejected(
            f"{brief(unknown[0])} is no column that can be compared; expected some of {', '.join(kinds)}; nothing was "
            "charged"
        )
    table = training.table(chosen) if chosen else {}
    return [text for name in chosen if (text := _cut(name, kinds[name], table[name])) is not None]


_ABOVE = {">=": np.greater_equal, ">": np.greater}


def _cut(name: str, kind: ColumnKind, values: Any) -> str | None:
    """A condition on a column that about half of the training rows meet; None if it holds nothing."""
    known = [each for each in np.asarray(values).tolist() if each is not None and each == each]
    if not known:
        return None
    if kind is ColumnKind.BOOLEAN:
        return quoted(name)
    if kind is ColumnKind.NUMBER:
        middle = float(f"{np.median(known):.6g}")
        shares = {sign: float(np.mean(met(known, middle))) for sign, met in _ABOVE.items()}
        sign = min(shares, key=lambda each: abs(shares[each] - 0.5))
        return f"{quoted(name)} {sign} {middle:.6g}" if 0.0 < shares[sign] < 1.0 else None
    text = Counter(map(str, known)).most_common(1)[0][0].replace("'", "''")
    return f"{quoted(name)} = '{text}'"


def _row(old: Any, new: Any) -> dict[str, Any]:
    apart = None not in (old.low, new.low) and (old.high < new.low or new.high < old.low)
    return {
        "asked": new.shown, "before_low": old.low, "before_high": old.high, "since_low": new.low,
        "since_high": new.high, "changed": bool(apart),
    }  # fmt: skip


def _said(found: Drift) -> str:
    return (
        f"The population changed with arrival {found.arrival}: {', '.join(found.changed[:3])}. An answer about all "
        "rows is about the mean over their laws; ask windows (over_time)."
    )
