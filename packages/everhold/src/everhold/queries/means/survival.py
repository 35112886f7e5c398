"""Survival at a time and the mean time up to it, of rows whose follow-up may end before their event (S19)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from everhold.answers import Answer
from everhold.arguments import as_float, as_whole, brief
from everhold.errors import QueryRejected
from everhold.guarantees.intervals.survival import SeenSurvival, Survival
from everhold.queries.means.mean import MeanQuery, condition, in_one_line
from everhold.queries.means.plans import OneMean
from everhold.queries.metrics.query import largest_group
from everhold.queries.procedures import check_confirms_statistics
from everhold.queries.query import CompileContext, Query, QueryPlan, QuerySpec
from everhold.values.base import BoundQuery, Schema, with_clips
from everhold.values.expressions import ColumnKind, parse
from everhold.values.missing import columns_needed
from everhold.values.units import MEAN_SURVIVAL, SURVIVAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.sealing.rows.evaluated_rows import RowStore
    from everhold.sealing.rows.table import StoredRows

How = Literal["survival", "restricted_mean_survival"]

_OF_ROWS, _OF_GROUPS, _MOST = 50, 8, 500  # intervals of time


@dataclass(frozen=True, slots=True)
class SurvivalQuery(Query[Answer]):
    """A query for survival at a time, or the mean time up to it, made by `survival` or `restricted_mean_survival`.

    Attributes:
        how: Name of the function that made the query.
        time: Text of a number: the time of the event, or of the end of follow-up if that comes first.
        event: Text of a condition: whether the event was seen.
        at: The time for which survival is asked, or at which longer times are cut off for the mean.
        steps: Number of intervals of time; None for a default.
        given: Condition for the rows that count; None for all rows.
    """

    how: How
    time: str
    event: str
    at: float
    steps: int | None = None
    given: str | None = None

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        return QuerySpec(self.how, self.time, {
            "event": self.event, "at": self.at, "steps": self.steps, "given": self.given,
        })  # fmt: skip

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """Compile the query as one number of all rows, with bets on all intervals of time."""
        if tolerance is not None:
            raise QueryRejected("Survival takes no tolerance. Leave tolerance out.")
        mechanism, schema, training = compiler.mechanism, compiler.schema, compiler.training
        self._check_rows(compiler)
        column = mechanism.dependence.group_column
        edges = self._edges(_OF_ROWS if column is None else _OF_GROUPS)
        reader = SurvivalReader.of(self, edges, schema, column)
        compiler.planner.evaluator.check_complete(reader.conditions)
        largest = None if column is None else float(largest_group(mechanism))
        planned, scale, known = reader.unknown(schema.rows, largest), 1.0, None
        if training is not None:
            counted = training if column is not None else training.counting(reader.conditions[-1])
            if (shown := reader.seen(counted)).totals[0][0]:
                planned, scale, known = shown, schema.rows / counted.rows, Fraction(shown.score)
        procedure = Survival(planned, scale, schema.rows, largest)
        at_one = edges[-1] if reader.widths is not None else 1.0
        columns = [each.columns for each in reader.conditions]
        bound = BoundQuery(
            {
                "kind": MEAN_SURVIVAL if reader.widths is not None else SURVIVAL, "edges": [*edges],
                "of": [each.description for each in reader.described], **dict(schema.about),
            },
            self._shown, 0.0, at_one,
            reads=None if None in columns else tuple(dict.fromkeys(name for names in columns for name in names or ())),
        )  # fmt: skip
        clips = [clip for each in reader.described for clip in compiler.checked(each, part=True).clips]
        bound = with_clips(bound, [*dict.fromkeys(clips)])
        if training is not None:
            compiler.planner.evaluator.test_spread(bound, reader.residuals(training))
        prepared = compiler.planner.of_statistic(bound, guess, known, procedure, reader.sealed)
        return OneMean([prepared], schema, mechanism)

    def _check_rows(self, compiler: CompileContext) -> None:
        """Raise QueryRejected for rows, or rules for missing values, for which survival has no interval."""
        mechanism, schema = compiler.mechanism, compiler.schema
        check_confirms_statistics(mechanism, "survival", instead="the share of rows with the event")
        dependence = mechanism.dependence
        in_files = compiler.sealed is None or not compiler.sealed.reads_ahead
        if not (dependence.independent or (dependence.in_groups and dependence.group_column and in_files)):
            raise QueryRejected(
                "Survival is promised for independent rows and for groups of rows in a file, and these rows are "
                "declared otherwise. Ask about means, such as the share of rows with the event."
            )
        if schema.features_public:
            raise QueryRejected(
                "Survival needs rows of one distribution, and rows with public features have one each. Ask about "
                "means, such as the share of rows with the event."
            )
        if schema.stratified is not None:
            raise QueryRejected(
                f"The rows were split by {schema.stratified!r}, and survival is promised for rows that were drawn "
                "from one population by chance. Ask about means."
            )
        for text in (self.time, self.event):
            expression = parse(text, schema.columns)
            left = [columns_needed(expression, schema.missing, how) for how in ("drop", "bounds")]
            if names := sorted(left[0] | left[1]):
                raise QueryRejected(
                    f"Missing values of {', '.join(names)} are left out or bounded, and survival takes no such rule. "
                    f"Ask among rows with a value: given={brief(f'{names[0]} is not null')}."
                )

    def _edges(self, usual: int) -> tuple[float, ...]:
        """Return the ends of the intervals of time, which are equally long.

        Raises:
            QueryRejected: If the times cannot be divided into intervals. Nothing is charged.
        """
        at, steps = as_float(self.at), usual if self.steps is None else as_whole(self.steps)
        if not 0.0 < at < math.inf:
            raise QueryRejected(f"at is {brief(self.at)}. Pass a positive time, in units of {brief(self.time)}.")
        if steps is None or not 1 <= steps <= _MOST:
            raise QueryRejected(f"steps is {brief(self.steps)}. Pass a whole number from 1 to {_MOST}.")
        return tuple(float(Fraction(at) * place / steps) for place in range(1, steps + 1))  # the last one is at

    @property
    def _shown(self) -> str:
        what = "survival at" if self.how == "survival" else "mean time up to"
        among = "" if self.given is None else f", among rows with {in_one_line(self.given)}"
        event = f"event {in_one_line(self.event)} at {in_one_line(self.time)}"
        return f"{what} {as_float(self.at):g}, {event}, if censoring is independent of it{among}"


@dataclass(frozen=True, slots=True)
class SurvivalReader:
    """A reader of events by interval of time. The reader itself is public.

    Attributes:
        conditions: Conditions on rows. The first selects the rows that count. Then for each edge there are three: the
            time is later, the event came before the edge, the row was censored at the edge.
        widths: Lengths of the intervals as shares of the last edge, for a mean time; None for survival.
        group_column: Column with the group of each row; None for independent rows.
    """

    conditions: tuple[BoundQuery, ...]
    widths: NDArray[np.float64] | None
    group_column: str | None

    @classmethod
    def of(
        cls, asked: SurvivalQuery, edges: tuple[float, ...], schema: Schema, group_column: str | None
    ) -> SurvivalReader:
        """Bind the conditions to the rows.

        Raises:
            QueryRejected: If the time is not a number, or another text is not a condition. Nothing is charged.
        """
        time, event, given = asked.time, asked.event, asked.given
        if parse(time, schema.columns).kind is not ColumnKind.NUMBER:
            raise QueryRejected(f"time is {brief(time)}, which is no number. Pass a column of times, or a number.")
        condition(event, schema)
        if given is not None:
            condition(given, schema)
        among = "" if given is None else f" and ({given})"
        texts = ["1 = 1" if given is None else given]
        for edge in map(repr, edges):
            texts += [
                f"(({time}) > {edge}){among}", f"(({time}) <= {edge} and ({event})){among}",
                f"(({time}) = {edge} and not ({event})){among}",
            ]  # fmt: skip
        widths = np.diff(np.append(0.0, edges)) / edges[-1] if asked.how != "survival" else None
        return cls(tuple(MeanQuery(text).bind(schema) for text in texts), widths, group_column)

    @property
    def described(self) -> tuple[BoundQuery, ...]:
        """The conditions that identify the query: that of the rows that count, and the three of the last edge."""
        return self.conditions[:1] + self.conditions[-3:]

    def unknown(self, rows: int, largest: float | None) -> SeenSurvival:
        """Return units to plan with if no training row counts."""
        return SeenSurvival.expected(
            len(self.conditions) // 3, rows=float(rows), largest=largest or 1.0, widths=self.widths
        )

    def seen(self, rows: RowStore) -> SeenSurvival:
        """Return rows at risk, events and survivors by interval, of all rows or by group. Secret for sealed rows."""
        if self.group_column is None:
            found = rows.totals(self.conditions, unit=1)[:, :1].astype(np.float64)
            counts = np.ones(1)
        else:
            index = rows.group_index(self.group_column)
            sums = np.array([np.bincount(index, rows.row_values(each, unit=1)) for each in self.conditions])
            found, alike = np.unique(sums, axis=1, return_counts=True)
            counts = alike.astype(np.float64)
        later, done, tied = (found[place::3] for place in (1, 2, 3))
        at_risk = np.concatenate([found[:1], later[:-1]])
        events = np.diff(done, axis=0, prepend=0.0)
        return SeenSurvival(at_risk, events, later + tied, counts, self.widths)

    def residuals(self, training: StoredRows) -> NDArray[np.float64]:
        """Return each training row's deviation from the share of rows with the event, shape (rows,)."""
        counting, event = (training.row_values(each, unit=1) for each in (self.conditions[0], self.conditions[-2]))
        return np.asarray(event - counting * (event.sum() / max(counting.sum(), 1)), dtype=np.float64)

    def sealed(self, rows: RowStore) -> tuple[Fraction, SeenSurvival]:
        """Return the sealed estimate as a share of its range, and the counts by interval. Secret."""
        seen = self.seen(rows)
        return Fraction(seen.score), seen


def survival(
    time: str, event: str, *, at: float, steps: int | None = None, given: str | None = None
) -> SurvivalQuery:  # fmt: skip
    """Build the query for the survival at a time: the share of the population whose event comes later.

    Rows may be censored: their follow-up ended before the event.

    The value is the Kaplan-Meier estimate if all times are whole steps, and otherwise the actuarial estimate. The
    interval holds at any number of rows if censoring is independent of events among the rows that count, for example if
    follow-up ends on one day for all. More steps make it narrower, up to about 50 steps, because less is unknown about
    rows that are censored within a step.

    Args:
        time: A number such as ``"months"``: the time of the event, or of the end of follow-up if that comes first.
        event: A condition, such as ``"died = 1"``: whether the event was seen at that time.
        at: The time at which the share of survivors is asked for.
        steps: Number of equal steps of time up to ``at``; by default 50 for independent rows and 8 for groups. If
            times are whole months, pass ``steps=at``.
        given: Only rows that meet this condition, known at the beginning, such as ``"arm = 'A'"``.

    Examples:
        >>> survival("months", "died = 1", at=12).at
        12
    """
    return SurvivalQuery("survival", time, event, at, steps, given)


def restricted_mean_survival(
    time: str, event: str, *, at: float, steps: int | None = None, given: str | None = None
) -> SurvivalQuery:  # fmt: skip
    """Build the query for the restricted mean survival time: the mean of the event's time, cut off at ``at``.

    It is the area below the survival curve up to ``at``. The curve is bounded only at the ends of steps of time, so the
    interval is wider by up to the length of a step times the share of events. Take many steps.

    Args:
        time: The column of times, as for `survival`. A negative time counts as 0.
        event: The condition that the event happened, as for `survival`.
        at: The time at which longer times are cut off.
        steps: Number of intervals of time, as for `survival`.
        given: Condition for the rows that count, as for `survival`.

    Examples:
        >>> restricted_mean_survival("months", "died = 1", at=12).how
        'restricted_mean_survival'
    """
    return SurvivalQuery("restricted_mean_survival", time, event, at, steps, given)
