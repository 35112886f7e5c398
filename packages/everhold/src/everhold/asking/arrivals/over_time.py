"""One query about the rows of each window of arrivals, and whether one population is credible."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everhold.arguments import brief
from everhold.display import Display, html_sentences, html_table
from everhold.errors import EverholdWarning, QueryRejected, warn_caller
from everhold.queries.derived import Derived
from everhold.queries.means.batch import OneMean

if TYPE_CHECKING:
    import altair as alt

    from everhold.answers import Answer
    from everhold.asking.arrivals.growth import Growth
    from everhold.asking.query_executor import QueryExecutor
    from everhold.queries.query import Query

__all__ = ["OverTime", "ask_over_time", "ask_windows", "windows_of"]

_DIGITS = {"day": 10, "month": 7, "year": 4}
_FIRST = "at creation"
_LAWS = ("windows", "one")


@dataclass(frozen=True, slots=True)
class OverTime(Display):
    """A query over windows of arrivals.

    Attributes:
        asked: The query, as people read it.
        rows: One for each window: window, rows, value, low, high, source, charged; under one law also joint_low and
            joint_high, what all windows so far leave possible. Both are None from the window on that contradicts an
            earlier one.
        changed: Pairs of windows whose intervals do not meet. The population changed between them, with the confidence
            of the holdout.
        contradiction: That the windows contradict one law, where one was supposed; else empty.
    """

    asked: str
    rows: Sequence[Mapping[str, Any]]
    changed: tuple[tuple[str, str], ...]
    contradiction: str = ""

    def __str__(self) -> str:
        return "\n".join(filter(None, [Display.__str__(self), self.contradiction]))

    @property
    def one_law_is_credible(self) -> bool:
        """True if all intervals meet, so that they do not show that the population changed."""
        return not self.changed

    def __len__(self) -> int:
        return len(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """``{"asked", "windows", "changed"}``."""
        return {"asked": self.asked, "windows": self.to_rows(), "changed": [list(pair) for pair in self.changed]}

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each window."""
        return [dict(row) for row in self.rows]

    def plot(self) -> alt.LayerChart:
        """A picture of the windows with their intervals; needs the extra ``plots``."""
        from everhold.charts.over_time import over_time_chart

        return over_time_chart(self.rows, title=self.asked)

    def _repr_html_(self) -> str:
        said = "the population changed between windows whose intervals do not meet" if self.changed else ""
        return html_sentences(self.contradiction or said) + html_table(self.to_rows())


def windows_of(growth: Growth | None, by: str | int) -> list[tuple[str, int, int]]:
    """Name, first and last arrival of each window that has sealed rows.

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
        raise QueryRejected(
            f"by is {brief(by)}; expected 'arrival', a number of arrivals, 'day', 'month' or 'year'; nothing was "
            "charged"
        )
    undated = [part.number for part in parts if part.number and not part.description.get("until")]
    if undated:
        raise QueryRejected(
            f"arrival {undated[0]} has no date; expected rows that were appended with until=...; ask by='arrival'; "
            "nothing was charged"
        )
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
    """See `everhold.holdout.Holdout.over_time`.

    Raises:
        QueryRejected: If it cannot be asked. Nothing was charged.
    """
    if law not in _LAWS:
        raise QueryRejected(f"law is {brief(law)}; expected 'windows' or 'one'; nothing was charged")
    growth, rows, shown = executor.growth, list[dict[str, Any]](), ""
    joint = (-float("inf"), float("inf"))
    windows = windows_of(growth, by)
    executors = [
        _at_creation(executor) if growth is None else growth.window(first, last, executor.analyst)
        for _, first, last in windows
    ]
    answers = ask_windows([(query, each) for each in executors], guess=guess)
    for (name, _, _), asking, answer in zip(windows, executors, answers, strict=True):
        shown = answer.shown or shown
        row = {
            "window": name, "rows": asking.schema.rows, "value": answer.value, "low": answer.low, "high": answer.high,
            "source": answer.source, "charged": answer.charged,
        }  # fmt: skip
        if law == "one" and answer.low is not None and answer.high is not None:
            joint = (max(joint[0], answer.low), min(joint[1], answer.high))
            one_law = joint[0] <= joint[1]
            row |= {"joint_low": joint[0] if one_law else None, "joint_high": joint[1] if one_law else None}
        rows.append(row)
    changed = _changed(rows)
    if law != "one" or not changed:
        return OverTime(shown, rows, changed)
    found = OverTime(shown, rows, changed, _contradiction(changed, executor.mechanism.confidence))
    warn_caller(EverholdWarning(found.contradiction))
    return found


def _at_creation(executor: QueryExecutor) -> QueryExecutor:
    """The executor of the first window before rows arrived; the same query finds its answer when some have."""
    about = (("window_from", 0), ("window_to", 0))
    return replace(executor, schema=replace(executor.schema, about=about))


def _contradiction(changed: Sequence[tuple[str, str]], confidence: float) -> str:
    first, second = changed[0]
    more = f" and {len(changed) - 1:,} more pairs" if len(changed) > 1 else ""
    return (
        f"The windows contradict one law, with confidence {confidence:g}: {first!r} and {second!r}{more} have "
        "intervals that do not meet. No value is possible in all of them; use law='windows'."
    )


def ask_windows(
    asked: Sequence[tuple[Query[Any] | str, QueryExecutor]], *, guess: float | None = None
) -> Iterator[Answer]:
    """Answers to queries, each about the rows of a window; all are compiled before the first one is asked.

    Raises:
        QueryRejected: If one of them cannot be asked, or has more than one answer. Nothing was charged.
    """
    plans = [(executor.compiler.compile(query, guess, None), executor) for query, executor in asked]
    if not all(isinstance(plan, OneMean | Derived) for plan, _ in plans):
        raise QueryRejected(
            "windows are compared by queries with one answer, such as means; expected those; ask others once for each "
            "arrival; nothing was charged"
        )
    return (executor.ask(plan) for plan, executor in plans)


def _changed(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    told = [row for row in rows if row["low"] is not None]
    return tuple(
        (str(one["window"]), str(other["window"]))
        for one, other in itertools.combinations(told, 2)
        if one["high"] < other["low"] or other["high"] < one["low"]
    )
