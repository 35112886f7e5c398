"""One query about the rows of each window of arrivals, with a check whether all windows can have one population."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.answers import UNSEALED, Answer
from everhold.arguments import brief
from everhold.asking.session import growth_of
from everhold.display import Display, Listing, html_sentences, html_table
from everhold.errors import EverholdWarning, NotFound, QueryRejected, warn_caller
from everhold.queries.means.plans import Derived, OneMean
from everhold.values.expressions.tree import ColumnKind, quoted

if TYPE_CHECKING:
    import altair as alt

    from everhold.asking.arrivals.growth import Growth
    from everhold.asking.query_executor import QueryExecutor
    from everhold.queries.query import Query

_DIGITS = {"day": 10, "month": 7, "year": 4}
_FIRST = "at creation"
_LAWS = ("windows", "one")


@dataclass(frozen=True, slots=True)
class OverTime(Listing):
    """A query over windows of arrivals.

    Attributes:
        asked: The query as a text for people.
        rows: One dict for each window: window, rows, value, low, high, source, charged, and unsealed numbers if there
            are any. If one law (population) is supposed for all windows, also joint_low and joint_high, the ends of the
            intersection of all intervals so far. Both are None from the first window whose interval does not meet an
            earlier one.
        changed: Pairs of windows whose intervals do not meet. The population changed between them, with the confidence
            of the holdout.
        contradiction: Sentence that the windows contradict one law. Empty if they do not, or if one law was not
            supposed.
    """

    asked: str
    rows: Sequence[Mapping[str, Any]]
    changed: tuple[tuple[str, str], ...]
    contradiction: str = ""

    def __str__(self) -> str:
        return "\n".join(filter(None, [Display.__str__(self), self.contradiction]))

    @property
    def one_law_is_credible(self) -> bool:
        """Whether all intervals overlap, so that the windows show no change of the population."""
        return not self.changed

    def to_dict(self) -> dict[str, Any]:
        """Return the answers as ``{"asked", "windows", "changed"}``."""
        return {"asked": self.asked, "windows": self.to_rows(), "changed": [list(pair) for pair in self.changed]}

    def plot(self) -> alt.LayerChart:
        """Draw the windows with their intervals. Needs the extra ``plots``."""
        from everhold.charts.intervals import over_time_chart

        return over_time_chart(self.rows, title=self.asked)

    def _repr_html_(self) -> str:
        said = "the population changed between windows whose intervals do not meet" if self.changed else ""
        return html_sentences(self.contradiction or said) + html_table(self.to_rows())


def windows_of(growth: Growth | None, by: str | int) -> list[tuple[str, int, int]]:
    """Return the name, first arrival and last arrival of each window that has sealed rows.

    Raises:
        QueryRejected: If there are no such windows.
    """
    if growth is None:
        return [(_FIRST, 0, 0)]
    parts = [part for part in growth.rows.parts[growth.account.retired :] if part.rows]
    if by == "arrival":
        by = 1
    if type(by) is int and by >= 1:
        groups = [parts[start : start + by] for start in range(0, len(parts), by)]
        return [(_name(each[0].number, each[-1].number), each[0].number, each[-1].number) for each in groups]
    if by not in _DIGITS:
        raise QueryRejected(f"by is {brief(by)}. Pass 'arrival', a number of arrivals, 'day', 'month' or 'year'.")
    undated = [part.number for part in parts if part.number and not part.description.get("until")]
    if undated:
        raise QueryRejected(f"Arrival {undated[0]} has no date. Append rows with until=, or pass by='arrival'.")
    named = itertools.groupby(parts, key=lambda p: str(p.description.get("until", _FIRST))[: _DIGITS.get(str(by))]
                              if p.number else _FIRST)  # fmt: skip
    listed = [(name, [part.number for part in some]) for name, some in named]
    return [(name, numbers[0], numbers[-1]) for name, numbers in listed]


def _name(first: int, last: int) -> str:
    names = [_FIRST if number == 0 else f"arrival {number}" for number in (first, last)]
    return names[0] if first == last else " to ".join(names)


def ask_over_time(
    executor: QueryExecutor, query: Query[Any] | str, *, by: str | int, law: str, guess: float | None
) -> OverTime:
    """Ask one query in each window of arrivals, for `everhold.holdout.Holdout.over_time`.

    Raises:
        QueryRejected: If the query cannot be asked. Nothing was charged.
    """
    if law not in _LAWS:
        raise QueryRejected(f"law is {brief(law)}. Pass 'windows' or 'one'.")
    growth, rows, shown = growth_of(executor), list[dict[str, Any]](), ""
    joint = (-float("inf"), float("inf"))
    windows = windows_of(growth, by)
    executors = [  # before rows arrived that of the first window; the same query finds its answer when some have
        replace(executor, schema=replace(executor.schema, about=(("window_from", 0), ("window_to", 0))))
        if growth is None
        else growth.window(first, last, executor.analyst)
        for _, first, last in windows
    ]
    answers = ask_windows([(query, each) for each in executors], guess=guess)
    for (name, _, _), asking, answer in zip(windows, executors, answers, strict=True):
        shown = answer.shown or shown
        row = {
            "window": name, "rows": asking.schema.rows, "value": answer.value, "low": answer.low, "high": answer.high,
            "source": answer.source, "charged": answer.charged,
        }  # fmt: skip
        if answer.sealed is not None:
            row |= {each: getattr(answer, each) for each in UNSEALED}
        if law == "one" and answer.low is not None and answer.high is not None:
            joint = (max(joint[0], answer.low), min(joint[1], answer.high))
            one_law = joint[0] <= joint[1]
            row |= {"joint_low": joint[0] if one_law else None, "joint_high": joint[1] if one_law else None}
        rows.append(row)
    changed = _changed(rows)
    if law != "one" or not changed:
        return OverTime(shown, rows, changed)
    first, second = changed[0]
    more = f" and {len(changed) - 1:,} more pairs" if len(changed) > 1 else ""
    said = (
        f"The population changed between windows, with confidence {executor.mechanism.confidence:g}: the intervals of "
        f"{first!r} and {second!r}{more} do not meet. No value is possible in all windows, so pass law='windows'."
    )
    found = OverTime(shown, rows, changed, said)
    warn_caller(EverholdWarning(found.contradiction))
    return found


def ask_windows(
    asked: Sequence[tuple[Query[Any] | str, QueryExecutor]], *, guess: float | None = None
) -> Iterator[Answer]:
    """Compile all queries, each for the executor of one window, and return an iterator over their answers.

    Raises:
        QueryRejected: If one of them cannot be asked, or has more than one answer. Nothing was charged.
    """
    plans = [(executor.compiler.compile(query, guess, None), executor) for query, executor in asked]
    if not all(isinstance(plan, OneMean | Derived) for plan, _ in plans):
        raise QueryRejected(
            "Windows are compared by queries with one answer, such as means. Ask this query once for each arrival."
        )
    return (executor.ask(plan) for plan, executor in plans)


def _changed(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    told = [row for row in rows if row["low"] is not None]
    return tuple(
        (str(one["window"]), str(other["window"]))
        for one, other in itertools.combinations(told, 2)
        if one["high"] < other["low"] or other["high"] < one["low"]
    )


# Diagnosis of drift at an arrival: the rows that came with it against those before, column by column.
#
# Each comparison is two queries, about windows of arrivals, and pays like any other. All intervals hold at once (S13).
# So
# a pair that does not meet proves that the population changed.

_MOST = 20  # columns


@dataclass(frozen=True, slots=True)
class Drift(Listing):
    """Comparison of the rows of one arrival with all sealed rows before it.

    Attributes:
        arrival: Number of the arrival.
        rows: One dict for each query: asked, before_low, before_high, since_low, since_high, changed. The ends of an
            interval are None if the query was refused.
    """

    arrival: int
    rows: Sequence[Mapping[str, Any]]

    @property
    def changed(self) -> tuple[str, ...]:
        """Texts of the queries whose two intervals do not overlap, which shows that the population changed."""
        return tuple(str(row["asked"]) for row in self.rows if row["changed"])

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as ``{"arrival", "queries", "changed"}``."""
        return {"arrival": self.arrival, "queries": self.to_rows(), "changed": list(self.changed)}

    def _repr_html_(self) -> str:
        return html_sentences(_said(self) if self.changed else "no change is proved") + html_table(self.to_rows())


def diagnose_drift(
    executor: QueryExecutor, *, arrival: int | None = None, columns: Sequence[str] | None = None,
    also: Sequence[Query[Any] | str] = (),
) -> Drift:  # fmt: skip
    """Compare the rows of an arrival with all sealed rows before it, for `everhold.holdout.Holdout.drift`.

    Raises:
        QueryRejected: If there is nothing to compare. Nothing was charged.
    """
    growth = growth_of(executor)
    if growth is None:
        raise NotFound("No rows have arrived yet, so there is nothing to compare. Append rows first.")
    at = _arrival(growth, arrival)
    before = growth.window(growth.account.retired, at - 1, executor.analyst)
    since = growth.window(at, at, executor.analyst)
    asked = [*_of_columns(executor, columns), *also]
    if not asked:
        raise QueryRejected(
            "The queries about columns are made from training rows, and this holdout has none. Pass queries of your "
            "own as also=[...]."
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
            f"No arrival can be compared with older sealed rows, because {older}. Append rows, and compare those."
        )
    if arrival is None:
        return some[-1]
    if arrival not in some or type(arrival) is not int:
        listed = ", ".join(map(str, some))
        raise QueryRejected(f"Arrival {brief(arrival)} cannot be compared with older rows. Pass one of {listed}.")
    return arrival


def _of_columns(executor: QueryExecutor, columns: Sequence[str] | None) -> list[str]:
    """Return one yes-or-no query for each column: whether its value is below a cut that training rows decide."""
    schema, training = executor.schema, executor.training
    if training is None:
        return []
    kinds = {name: kind for name, kind in schema.asked.items() if kind is not ColumnKind.OTHER}
    kinds = {name: kind for name, kind in kinds.items() if kind is not ColumnKind.TIME and name != schema.row_id}
    usual = sorted(kinds, key=lambda name: name != schema.label)[:_MOST]
    chosen = usual if columns is None else list(columns)
    if unknown := [name for name in chosen if name not in kinds]:
        raise QueryRejected(f"The column {brief(unknown[0])} cannot be compared. Pass some of {', '.join(kinds)}.")
    table = training.table(chosen) if chosen else {}
    return [text for name in chosen if (text := _cut(name, kinds[name], table[name])) is not None]


_ABOVE = {">=": np.greater_equal, ">": np.greater}


def _cut(name: str, kind: ColumnKind, values: Any) -> str | None:
    """Return a condition on a column that about half of the training rows meet, or None if none is found."""
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
        "rows mixes the populations, so ask for each window (over_time)."
    )
