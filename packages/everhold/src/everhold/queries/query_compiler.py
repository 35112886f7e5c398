"""The compiler of queries for one holdout: checks, public guesses and tolerances, before a mechanism answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.estimand import check_estimand
from everhold.mechanisms import Mechanism, those_with
from everhold.progress import progress
from everhold.queries.interval_planner import Prepared, never_declared
from everhold.queries.means.combined import BoundedMean, ShareQuery
from everhold.queries.means.mean import MeanQuery, name_of, only_zero_to_one
from everhold.queries.means.plans import Batch, OneMean
from everhold.queries.query import CompileContext, Query, QueryPlan, RowwiseQuery
from everhold.values.base import BoundQuery, Clip, kept_clips, with_clips
from everhold.values.expressions import RowValue
from everhold.values.expressions.tree import Expression, Node, Operation
from everhold.values.missing import columns_needed, have_values, values_counted

if TYPE_CHECKING:
    from everhold.answers import Answer

    Result = TypeVar("Result")

_AT_ONCE = 1_000  # queries that are prepared together
_VALUES_AT_ONCE = 32  # of them, where the values of all training rows are held in memory


class QueryCompiler(CompileContext):
    """Compiles queries into plans for one holdout, from public facts and training rows alone."""

    def compile(self, query: Query[Result] | str, guess: float | None, tolerance: float | None) -> QueryPlan[Result]:
        """Compile a query of any kind into a plan. A text is compiled as a `mean`.

        Raises:
            QueryRejected: If the query cannot be asked of this holdout. Nothing is charged.
        """
        if self.mechanism.traits.only_silent and not self.silent:
            raise _not_silent(self.mechanism)
        asked = MeanQuery(query) if isinstance(query, str) else query
        if not isinstance(asked, Query):
            raise _no_query(asked)
        ready = asked.compile(self, guess=guess, tolerance=tolerance)
        if self.families.level_of is not never_declared:
            ready = ready.declared_by(self.families)
            if guess is not None and ready.members:  # nothing of a member follows from a guess
                return self.compile(query, None, tolerance)
        return ready.silently() if self.silent else ready  # type: ignore[return-value]  # a text's is one, too

    def mean(self, query: RowwiseQuery, guess: float | None, tolerance: float | None) -> QueryPlan[Answer]:
        """Compile one mean that is a query of its own, over the rows with a value if the rules leave others out.

        Raises:
            QueryRejected: If the query cannot be asked of this holdout. Nothing is charged.

        Warns: DependenceWarning: If the query's values on the training rows are worth fewer rows than is promised.
        """
        if self.schema.missing:
            if (bounded := BoundedMean.of(query, self.schema)) is not None:
                return bounded.compile(self, guess=guess, tolerance=tolerance)
            if needed := query.needed(self.schema):
                return self._among_complete(query, needed).compile(self, guess=guess, tolerance=tolerance)
        if not isinstance(query, MeanQuery):  # its predictions may wait in a file or in an engine
            from everhold.queries.predictions.columns import read_together

            (query,) = read_together([query], self.sealed, self.schema)
        bound = query.bound_to(self)
        check_estimand([bound], self.schema, self.mechanism)
        (prepared,) = self.planner.guessed([bound], [guess])
        if tolerance is not None:
            prepared = self.planner.requested(prepared, tolerance)
        return OneMean([prepared], self.schema, self.mechanism)

    def _among_complete(self, query: RowwiseQuery, needed: frozenset[str]) -> ShareQuery:
        """Return the mean over the rows that have a value in all needed columns."""
        from everhold.queries.makers import ratio

        return replace(ratio(query, have_values(needed)), left_out=self.left_out(needed))

    def batch(
        self,
        queries: Sequence[Query[Answer] | str],
        guesses: Sequence[float | None] | None,
        *,
        full_release: bool = False,
    ) -> Batch:
        """Compile several queries that are asked in one step, each of one mean or of one number of all rows.

        If `full_release` is true, the value of each query is told. Otherwise each guess is checked.

        Raises:
            QueryRejected: If one of the queries cannot be asked of this holdout. Nothing is charged.
        """
        if self.mechanism.traits.only_silent and not self.silent:
            raise _not_silent(self.mechanism)
        if full_release and not self.mechanism.traits.public_levels:
            raise QueryRejected(
                f"The mechanism {self.mechanism.name} does not support reveal='all'. Use reveal='checked', or a "
                f"holdout with {those_with('public_levels')}."
            )
        given = _guesses_of(queries, guesses)
        prepared: dict[int, Prepared] = {}
        for place, query in enumerate(queries):
            if isinstance(query, Query) and not isinstance(query, RowwiseQuery):
                plan = self.compile(query, given[place], None)
                if not isinstance(plan, OneMean):
                    raise _no_query(query)
                (prepared[place],) = plan.prepared
        of_rows: Any = {place: query for place, query in enumerate(queries) if place not in prepared}
        together = self.prepare([*of_rows.values()], [given[place] for place in of_rows], alone_each=True)
        prepared |= zip(of_rows, together, strict=True)
        every = [prepared[place] for place in range(len(queries))]
        return Batch(every, self.schema, self.mechanism, silent=self.silent, full_release=full_release)

    def prepare(
        self, queries: Sequence[RowwiseQuery | str], guesses: Sequence[float | None] | None, *,
        together: bool = False, alone_each: bool = False,
    ) -> list[Prepared]:  # fmt: skip
        """Bind queries to the rows and prepare them with guesses and interval procedures.

        Args:
            queries: The queries to prepare, as objects or as texts.
            guesses: One guess, or None, for each query.
            together: True if the queries are the parts of one query; False if each is a query of its own.
            alone_each: True if each query is asked by a call of its own. Only then may the steward's rules for missing
                values leave rows out, because the parts of a list need the same rows.

        Returns:
            The prepared queries, in order.

        Raises:
            QueryRejected: If one of the queries cannot be asked of this holdout. Nothing is charged.

        Warns:
            DependenceWarning: If the training values of a query are worth fewer independent rows than the declared
                dependence promises.
        """
        given = _guesses_of(queries, guesses)
        bound: list[BoundQuery] = []
        from everhold.queries.predictions.columns import read_together

        with progress("reading queries", len(queries)) as line:
            for query in read_together(queries, self.sealed, self.schema):
                bound.append(self._of_complete_rows(query) if alone_each else self._bound(query))
                if not together:
                    check_estimand(bound[-1:], self.schema, self.mechanism)
                line(len(bound))
        if together:
            check_estimand(bound, self.schema, self.mechanism)
        prepared: list[Prepared] = []
        with progress("preparing queries", len(bound)) as line:
            while len(prepared) < len(bound):
                ahead = bound[len(prepared) : len(prepared) + _AT_ONCE]
                at_once = _AT_ONCE if not any(map(self.planner.evaluator.holds_values, ahead)) else _VALUES_AT_ONCE
                some = slice(len(prepared), len(prepared) + at_once)
                prepared += self.planner.guessed(bound[some], given[some])
                line(len(prepared))
        if together and len({each.is_member for each in prepared}) > 1:  # its parts share one step
            alone = replace(self, families=replace(self.families, level_of=never_declared))
            return alone.prepare(queries, guesses, together=True)
        return prepared

    def _of_complete_rows(self, query: RowwiseQuery | str) -> BoundQuery:
        """Bind the query, limited to rows with a value if the steward's rules leave others out."""
        asked = MeanQuery(query) if isinstance(query, str) else query
        if not isinstance(asked, RowwiseQuery) or not (needed := asked.needed(self.schema)):
            return self._bound(query)
        if (bound := self._among_complete(asked, needed).placed(self).as_one(self)) is None:
            raise QueryRejected(
                f"{brief(asked)} is about the rows that have a value, which needs two means, so it cannot be part of "
                "another query or of a list. Ask it alone with ask(...)."
            )
        return bound

    def bind(self, query: RowwiseQuery | str) -> BoundQuery:
        """Return the query compiled for the holdout's rows and checked. Code is first tried on public rows.

        Raises:
            QueryRejected: If the query cannot be asked of this holdout. Nothing is charged.
        """
        bound = self._bound(query)
        check_estimand([bound], self.schema, self.mechanism)
        return bound

    def _bound(self, query: RowwiseQuery | str) -> BoundQuery:
        """Return the query bound to the rows, before its estimand is checked."""
        if isinstance(query, str):
            query = MeanQuery(query)
        if not isinstance(query, RowwiseQuery):
            raise _no_query(query)
        return query.bound_to(self)

    def checked(self, bound: BoundQuery, *, part: bool) -> BoundQuery:
        """Return a bound query after a check. Code is first tried on public rows.

        Args:
            bound: The query about these rows.
            part: True if the query is a part of another one, so that the mechanism need not be able to answer it alone.

        Raises:
            QueryRejected: If the query cannot be asked of this holdout. Nothing is charged.
        """
        if not part and (reason := self.mechanism.why_not(bound)):
            raise QueryRejected(reason)
        if bound.sealed is not None and not bound.by_position:  # code, not an array of predictions
            from everhold.queries.code import tried

            bound = tried(bound, bound.sealed, self)
        if not bound.yes_no and bound.pair is None:
            bound = self.with_clip(bound)
        if self.schema.missing and isinstance(bound.row_value, RowValue):
            bound = self.with_missing(bound, bound.row_value)
        if self.schema.about and not part:  # other rows make another query
            bound = replace(bound, description={**bound.description, **dict(self.schema.about)})
        return bound

    def with_clip(self, bound: BoundQuery) -> BoundQuery:
        """Return the query with a note about the range to which its values are clipped; unchanged if they are not."""
        kind, value = bound.description.get("kind"), bound.row_value
        what = {"mean": "values", "function": "values", "risk": "losses"}.get(str(kind))
        if what is None:
            return bound
        natural = (bound.at_zero, bound.at_one) == (0.0, 1.0)
        if isinstance(value, RowValue) and (value.within or (natural and only_zero_to_one(value.expression))):
            return bound
        beyond = None
        if kind == "function":  # training rows beyond are refused, and sealed ones are clipped
            beyond = None if self.training is None else 0.0
        elif self.training is not None and isinstance(value, RowValue):
            root, ends = value.expression.root, (Node.literal(value.low), Node.literal(value.high))
            outside = Node.of(
                Operation.OR, Node.of(Operation.LESS, root, ends[0]), Node.of(Operation.LESS, ends[1], root)
            )
            condition = replace(
                bound, description={}, at_zero=0.0, at_one=1.0, row_value=RowValue(Expression(outside)), yes_no=True
            )
            beyond = float(np.mean(self.training.row_values(condition, unit=1) == 1))
        elif self.training is not None and bound.training is not None and not bound.by_position:
            table = self.training.table(self.columns_read(bound.reads))
            with np.errstate(all="ignore"):
                found = np.asarray(bound.training(table), dtype=np.float64)
            beyond = float(np.mean(~((found >= 0.0) & (found <= 1.0))))
        if natural and not beyond and kind != "function" and (beyond is not None or what == "losses"):
            return bound
        low = None if what == "losses" and bound.at_zero == 0.0 else bound.at_zero
        return with_clips(bound, [Clip(what, low, bound.at_one, beyond)])

    def with_missing(self, bound: BoundQuery, value: RowValue) -> BoundQuery:
        """Return the query with notes about values that replace missing ones, by the steward's rules.

        A rule of a metric predicts for every row, so rows are never left out of it, and a note says so.
        """
        rules = self.schema.missing
        clips = [
            Clip(f"missing values of {name}", None, None, self._share_without([name]), said=rules[name].counts)
            for name in values_counted(value.expression, rules)
        ]
        if "rule" in bound.description and (lacking := columns_needed(value.expression, rules)):
            clips.append(replace(self.left_out(lacking), said="are predicted by the rule, too"))
        return with_clips(bound, [*kept_clips(bound.facts), *clips])

    def left_out(self, columns: Collection[str], within: RowwiseQuery | None = None) -> Clip:
        """Return a note that rows with a missing value in one of ``columns`` are left out.

        Args:
            columns: Columns that are read.
            within: Condition of the rows that the query is about; None for all rows.
        """
        value = None if within is None else within.bind(self.schema).row_value
        share = self._share_without(columns, value.expression.root if isinstance(value, RowValue) else None)
        text = getattr(within, "text", None)
        of = "rows" if text is None else f"of rows with {text}, those"
        return Clip(f"{of} without {' or '.join(sorted(columns))}", None, None, share, said="are left out")

    def _share_without(self, columns: Collection[str], among: Node | None = None) -> float | None:
        """Return the share of training rows, among those that meet a condition, that lack a value in some column.

        The share is None if there are no training rows.
        """
        if self.training is None:
            return None
        kinds = self.schema.columns
        missing = [Node.of(Operation.IS_NULL, Node(Operation.COLUMN, kinds[name], value=name)) for name in columns]
        lacks, every = Node.of(Operation.OR, *missing), Node.literal(True)
        roots = [lacks if among is None else Node.of(Operation.AND, lacks, among), every if among is None else among]
        tests = [BoundQuery({}, "", row_value=RowValue(Expression(root)), yes_no=True) for root in roots]
        lacking, rows = self.training.counting(tests[0]).totals(tests, unit=1)[:, 0].tolist()
        return lacking / rows if rows else 0.0


def _not_silent(mechanism: Mechanism) -> QueryRejected:
    return QueryRejected(
        f"The mechanism {mechanism.name} answers only when the study is unsealed. Pass silent=True (--silent) to "
        "register the query."
    )


def _no_query(thing: object) -> QueryRejected:
    """Return the error about an object that is not a query, or about a query that is not a mean of row values."""
    if isinstance(thing, Query):
        return QueryRejected(
            f"{name_of(thing)} is not answered by one mean of row values, so it cannot be asked together with others. "
            "Ask it alone with ask(...)."
        )
    return QueryRejected(
        f"{type(thing).__name__} is no query. Pass a text, or what mean(...), metric(...) and their like return."
    )


def _guesses_of(queries: Sequence[object], guesses: Sequence[float | None] | None) -> Sequence[float | None]:
    _check_listed("queries", queries)
    if guesses is not None:
        _check_listed("guesses", guesses)
    given = [None] * len(queries) if guesses is None else guesses
    if len(given) != len(queries):
        raise QueryRejected(
            f"There are {len(given)} guesses for {len(queries)} queries. Pass one guess for each query, or None "
            "for a query without a guess."
        )
    return given


def _check_listed(what: str, values: object) -> None:
    """Raise QueryRejected unless the value is a list. A single query or guess is refused."""
    listed = isinstance(values, Sequence) or (isinstance(values, np.ndarray) and values.ndim == 1)
    if isinstance(values, (str, bytes)) or not listed:
        raise QueryRejected(f"The {what} are {brief(values)}. Pass a list with one of them for each query.")
