"""True if a question can be asked, and what goes with it to the mechanism: a public guess, a wished tolerance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float, brief
from everhold.dependence import Groups
from everhold.diagnosis.questions import DependenceMonitor, dependence_monitor, warn_of_questions
from everhold.errors import QueryRejected
from everhold.estimand import check_estimand
from everhold.guarantees.intervals.betting import Betting
from everhold.guarantees.intervals.means import OfMeans
from everhold.mechanisms import GuessAndCheck
from everhold.mechanisms.described import Description
from everhold.progress import progress
from everhold.queries.guesses import learned, worth_of_guesses
from everhold.queries.mean import MeanQuery
from everhold.queries.means import Batch, Prepared, RowwiseQuery
from everhold.queries.procedures import needs_of, procedure_for, takes_spreads
from everhold.queries.question import Query, QueryPlan, paying
from everhold.values.base import BoundQuery, Schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction
    from typing import TypeVar

    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms import Mechanism
    from everhold.queries.guesses import Surprises
    from everhold.queries.label_query import LabelQuery
    from everhold.queries.row_spans import RowSpan
    from everhold.sealing.row_store import RowStore
    from everhold.sealing.table import StoredRows
    from everhold.values.base import Table

    AnyLabelQuery = TypeVar("AnyLabelQuery", bound=LabelQuery)
    Result = TypeVar("Result")

__all__ = ["NOT_UNSEALABLE", "QueryCompiler", "never_declared"]

NOT_UNSEALABLE = (
    "its questions have no interval of their own that could be told without the noise or the plan that the promise "
    "rests on"
)
"""Why a mechanism cannot be unsealed."""

_AT_ONCE = 1_000  # questions that are prepared together
_VALUES_AT_ONCE = 32  # of them, where the values of all training rows are held in memory


def never_declared(bound: BoundQuery) -> None:
    """Of a holdout without declared families."""


def never_asked(question: str, member: str) -> bool:
    """Of a holdout without declared families."""
    return False


@dataclass(frozen=True, slots=True)
class QueryCompiler:
    """Prepares questions for one holdout; looks at public facts and training rows only.

    Attributes:
        schema: What is known about the rows.
        mechanism: The mechanism that will answer.
        training: The training rows, if there are any.
        answered: Whether a question, by its fingerprint, has been answered before; reads the ledger.
        remembered: Whether this process knows that it was; nothing is read.
        sealed_ids: Reads the public ids of the sealed rows, and no other column; None where rows have none.
        silent: Whether nothing is told of the questions before the study is unsealed; then none needs a guess.
        surprises: Reads the latest surprises, newest first: descriptions and answers.
        sealed: The sealed rows, for predictions that stay beside them and their public ids alone.
        level_of: ln(1 / level) of a member of a declared family; None for other queries.
        asked_of_tree: Whether a question was asked before as one that is no member, by its fingerprint and the one
            that the member has then.
        families_grow: Rows that were sealed first, where members hold at all numbers of rows at once (S14); else 0.
        largest_group: Rows that no group exceeds then; 0 where rows are in no groups.
        described_of: ln(1 / level) of a text by its description, where it is checked; None for other queries.
        span: Place of the rows among all sealed rows, where rows arrived; None for all.
        level_if_told: `level_of` where the query were told; of silent ones the tree pays.
    """

    schema: Schema
    mechanism: Mechanism
    training: StoredRows | None
    answered: Callable[[str], bool]
    remembered: Callable[[str], bool]
    sealed_ids: Callable[[], Sequence[Any]] | None = None
    silent: bool = False
    surprises: Callable[[], Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]] = tuple
    sealed: RowStore | None = None
    level_of: Callable[[BoundQuery], float | None] = never_declared
    asked_of_tree: Callable[[str, str], bool] = never_asked
    families_grow: int = 0
    largest_group: int = 0
    described_of: Callable[[BoundQuery], float | None] = never_declared
    span: RowSpan | None = None
    level_if_told: Callable[[BoundQuery], float | None] = never_declared

    def silently(self) -> QueryCompiler:
        """The same for questions of which nothing is told before the study is unsealed.

        Raises:
            QueryRejected: If the mechanism takes no such questions. Nothing is charged.
        """
        if not self.mechanism.traits.unsealable:
            raise QueryRejected(
                f"{self.mechanism.name} takes no silent queries: {NOT_UNSEALABLE}; expected silent=False, or a "
                "holdout with another mechanism, such as guess_and_check; nothing was charged"
            )
        told = self.level_if_told if self.silent else self.level_of
        return replace(self, silent=True, level_of=never_declared, level_if_told=told)

    def compile(self, question: Query[Result] | str, guess: float | None, tolerance: float | None) -> QueryPlan[Result]:
        """A question of any kind; a text is a `mean`.

        Raises:
            QueryRejected: If it cannot be asked. Nothing is charged.
        """
        self._check_silence()
        asked = MeanQuery(question) if isinstance(question, str) else question
        if not isinstance(asked, Query):
            raise _no_question(asked)
        ready = asked.compile(self, guess=guess, tolerance=tolerance)
        return ready.silently() if self.silent else ready  # type: ignore[return-value]  # a text's is one, too

    def mean(self, query: RowwiseQuery, guess: float | None, tolerance: float | None) -> Prepared:
        """One mean that is asked for itself, as `prepare` does it for many.

        Raises:
            QueryRejected: If it cannot be asked. Nothing is charged.

        Warns:
            DependenceWarning: If its values on the training rows are worth fewer rows than is promised.
        """
        if not isinstance(query, MeanQuery):  # its predictions may wait in a file or in an engine
            from everhold.queries.prediction_columns import read_together

            (query,) = read_together([query], self.sealed, self.schema)
        bound = query.bound_to(self)
        check_estimand([bound], self.schema, self.mechanism)
        (prepared,) = self._guessed([bound], [guess])
        return prepared if tolerance is None else self._wished(prepared, tolerance)

    def batch(
        self, questions: Sequence[RowwiseQuery | str], guesses: Sequence[float | None] | None, *, told: bool = False
    ) -> Batch:
        """Means that are asked at once; everything is told of them, or only whether guesses hold.

        Raises:
            QueryRejected: If one of them cannot be asked. Nothing is charged.
        """
        self._check_silence()
        if told and not isinstance(self.mechanism, GuessAndCheck):
            raise QueryRejected(
                f"{self.mechanism.name} tells no more than it answers; expected reveal='checked', or a holdout with "
                "guess_and_check; nothing was charged"
            )
        return Batch(self.prepare(questions, guesses), self.schema, self.mechanism, silent=self.silent, told=told)

    def _check_silence(self) -> None:
        """Refuse to ask aloud where nothing is told before the end."""
        if self.mechanism.traits.only_silent and not self.silent:
            raise QueryRejected(
                f"nothing is told by {self.mechanism.name} before the study is unsealed; expected silent=True "
                "(--silent), which only registers the question; nothing was charged"
            )

    def prepare(
        self, queries: Sequence[RowwiseQuery | str], guesses: Sequence[float | None] | None, *,
        tolerance: float | None = None, together: bool = False,
    ) -> list[Prepared]:  # fmt: skip
        """Questions with their guesses.

        Args:
            queries: The questions.
            guesses: One guess or None for each of them.
            tolerance: Half-width wished for, the same for all.
            together: Whether they are the parts of one question, and not asked for themselves.

        Raises:
            QueryRejected: If one of them cannot be asked. Nothing is charged.

        Warns:
            DependenceWarning: If the values of one on the training rows are worth fewer rows than is promised.
        """
        _check_listed("questions", queries)
        if guesses is not None:
            _check_listed("guesses", guesses)
        given = [None] * len(queries) if guesses is None else guesses
        if len(given) != len(queries):
            raise QueryRejected(
                f"there are {len(given)} guesses for {len(queries)} queries; expected one each; nothing was charged"
            )
        bound: list[BoundQuery] = []
        from everhold.queries.prediction_columns import read_together

        with progress("reading questions", len(queries)) as line:
            for query in read_together(queries, self.sealed, self.schema):
                bound.append(self.parsed(query))
                if not together:
                    check_estimand(bound[-1:], self.schema, self.mechanism)
                line(len(bound))
        if together:
            check_estimand(bound, self.schema, self.mechanism)
        prepared: list[Prepared] = []
        with progress("preparing questions", len(bound)) as line:
            while len(prepared) < len(bound):
                ahead = bound[len(prepared) : len(prepared) + _AT_ONCE]
                at_once = _AT_ONCE if not any(map(self._holds_values, ahead)) else _VALUES_AT_ONCE
                some = slice(len(prepared), len(prepared) + at_once)
                prepared += self._guessed(bound[some], given[some])
                line(len(prepared))
        if together and len({each.is_member for each in prepared}) > 1:  # its parts share one step
            alone = replace(self, level_of=never_declared)
            return alone.prepare(queries, guesses, tolerance=tolerance, together=True)
        return prepared if tolerance is None else [self._wished(question, tolerance) for question in prepared]

    def _guessed(self, bound: Sequence[BoundQuery], given: Sequence[float | None]) -> list[Prepared]:
        """Guesses from the training rows where none are given, and procedures."""
        ratios = {p: self.ratio(each, given[p], None) for p, each in enumerate(bound) if each.is_ratio}
        if ratios:  # of models that everhold fits
            means = [place for place in range(len(bound)) if place not in ratios]
            found = self._guessed([bound[place] for place in means], [given[place] for place in means])
            ratios |= zip(means, found, strict=True)
            return [ratios[place] for place in range(len(bound))]
        known = [self._with_training_values(question) for question in bound]
        totals = self.training_totals(known, plan=self.mechanism.queries, bets=self.mechanism.bets)
        counted = {} if self.training is None or self.training.whole is None else self._counted(bound)
        surprises, prepared = cache(self.surprises), []
        for place, (question, guess) in enumerate(zip(bound, given, strict=True)):
            trained = guess is None and place in totals
            rows, total, seen = counted.get(place) or (self.schema.training_rows, totals.get(place, 0), None)
            if (nats := self.level_of(question)) is not None:
                estimate = total * self.schema.rows // rows if place in totals else -1
                prepared.append(self._member(question, known[place], estimate, seen, nats))
                continue
            scaled = total * self.schema.rows // rows if trained else self._own_guess(question, guess)
            procedure = self._procedure(known[place], own_guess=not trained, guess=scaled, seen=seen)
            estimate = scaled if trained else -1
            only_models = not (self.silent or question.by_position)
            if trained and only_models and self.mechanism.traits.needs_guess:
                scaled = learned(scaled, question, surprises, self.mechanism.steps)
                if question.row_value is None:
                    procedure = self._scattered(procedure, question, scaled, surprises)
            has_level = self.described_of is not never_declared
            prepared.append(Prepared(
                question, scaled, from_training=trained, procedure=procedure, estimate=estimate,
                described=self._described(question, procedure, estimate) if has_level else None,
            ))  # fmt: skip
        return prepared

    def _scattered(
        self, procedure: Procedure | None, bound: BoundQuery, guess: int, surprises: Surprises
    ) -> Procedure | None:
        """The procedure of a score whose guess is worth fewer rows than it was made from; its interval is the same."""
        if not isinstance(procedure, OfMeans) or not isinstance(self.mechanism, GuessAndCheck):
            return procedure
        at = guess / self.mechanism.steps
        reach = float(procedure.honest(at, self.mechanism.allowance)[1]) - at
        worth = worth_of_guesses(
            bound, surprises, rows=procedure.rows, training=procedure.training, reach=reach
        )  # fmt: skip
        return procedure if worth >= procedure.training else replace(procedure, training=worth)

    def _described(self, bound: BoundQuery, procedure: Procedure | None, estimate: int) -> Description | None:
        """The event of a text by its description; none if its procedure follows from the analyst's own guess (S10)."""
        if procedure is None or (nats := self.described_of(bound)) is None:
            return None
        if estimate < 0 and not procedure.width_is_known:
            return None
        at = estimate / self.mechanism.steps if estimate >= 0 else -1.0
        return Description(nats, self.mechanism.procedure_at(procedure, at, nats))

    def _member(self, bound: BoundQuery, known: BoundQuery, estimate: int, seen: Any, nats: float) -> Prepared:
        """A member of a declared family: nothing of it follows from a guess or from what was told (S10).

        If the tree has an entry of the query, told before it was declared or silent, the member is a new one.
        """
        member = replace(bound, description={**bound.description, "declared": True})
        if self.asked_of_tree(bound.question, member.question):
            bound = member
        procedure = self._procedure(known, own_guess=False, guess=estimate, seen=seen)
        assert procedure is not None
        if self.families_grow:
            procedure = self._at_all_sizes(procedure, bound, nats)
        else:
            at = estimate / self.mechanism.steps if estimate >= 0 else -1.0
            procedure = self.mechanism.procedure_at(procedure, at, nats)
        return Prepared(
            bound, estimate, from_training=False, procedure=procedure, estimate=estimate, declared=nats
        )  # fmt: skip

    def _at_all_sizes(self, procedure: Procedure, bound: BoundQuery, nats: float) -> Procedure:
        """The procedure of a member that holds at all numbers of rows at once (S14).

        Raises:
            QueryRejected: If there is none for it. Nothing is charged.
        """
        from everhold.guarantees.intervals.at_all_sizes import at_all_sizes, groups_at_all_sizes

        found: Procedure | None
        if self.largest_group and isinstance(self.mechanism.dependence, Groups):
            sizes = self.mechanism.dependence.counts
            found = groups_at_all_sizes(procedure, sizes=sizes, largest=self.largest_group)
        else:
            found = at_all_sizes(procedure, first_rows=self.families_grow, nats=nats)
        if found is None:
            raise QueryRejected(
                f"{bound.shown} has no interval that holds at all numbers of rows, and this holdout grows. Ask about "
                "a condition, a mean or a rate"
            )
        return found

    def _counted(self, bound: Sequence[BoundQuery]) -> dict[int, tuple[int, int, Any]]:
        """Of questions that an engine counts in all training rows, by place: these, a total, and what else is needed.

        All come from one reading, and nothing is charged if it fails.
        """
        whole = None if self.training is None else self.training.whole
        places = [p for p, query in enumerate(bound) if self.training and self.training.counting(query) is whole]
        if whole is None or not places:
            return {}
        asked = [bound[place] for place in places]
        needs = [needs_of(query, self.mechanism, self.schema) for query in asked]
        group_by = self.mechanism.dependence.group_column
        totals, seen = whole.look(asked, needs, group_by=group_by, unit=self.mechanism.unit)
        return {place: (whole.rows, int(totals[row, 0]), seen[row]) for row, place in enumerate(places)}

    def ratio(self, bound: BoundQuery, guess: float | None, tolerance: float | None) -> Prepared:
        """A ratio with its guess, for a mechanism and training rows that make it one question.

        Raises:
            QueryRejected: If it cannot be asked. Nothing is charged.

        Warns:
            DependenceWarning: If the values of a part on the training rows are worth fewer rows than is promised.
        """
        pair, training = bound.pair, self.training
        if pair is None or training is None:
            raise TypeError(f"{bound.shown!r} is no ratio, or there are no training rows; expected both")
        check_estimand([bound], self.schema, self.mechanism)
        part, whole = training.grids(bound, unit=self.mechanism.unit)
        part = np.minimum(part, whole)
        parts = [replace(pair.first, training_values=part), replace(pair.second, training_values=whole)]
        self._test_ratio(bound, part, whole)
        known = replace(bound, pair=replace(pair, first=parts[0], second=parts[1]))
        within, counted = int(part.sum()), int(whole.sum())
        if (rows := training.counting(bound)) is not training:
            known, both = bound, [replace(bound, pair=replace(pair, how="within")), pair.second]
            within, counted = rows.totals(both, unit=self.mechanism.unit)[:, 0].tolist()
        estimate = within * self.mechanism.steps // counted if counted else -1
        if (nats := self.level_of(bound)) is not None and tolerance is None:
            return self._member(bound, known, estimate, None, nats)
        trained = guess is None and counted > 0
        scaled = estimate if trained else self._own_guess(bound, guess)
        procedure = self._procedure(known, own_guess=not trained, guess=scaled)
        estimate = scaled if trained else -1
        prepared = Prepared(
            bound, scaled, from_training=trained, procedure=procedure, estimate=estimate,
            described=None if self.described_of is never_declared else self._described(bound, procedure, estimate),
        )  # fmt: skip
        return prepared if tolerance is None else self._wished(prepared, tolerance)

    def of_statistic(
        self, bound: BoundQuery, guess: float | None, known: Fraction | None, procedure: Procedure
    ) -> Prepared:
        """A statistic of all rows with its guess.

        Args:
            bound: The question.
            guess: The analyst's own.
            known: Its value on the training rows as a share of its range; None where unknown.
            procedure: How its interval is made.

        Raises:
            QueryRejected: If it cannot be asked. Nothing is charged.
        """
        check_estimand([bound], self.schema, self.mechanism)
        if guess is not None or known is None:
            return Prepared(bound, self._own_guess(bound, guess), from_training=False, procedure=procedure)
        scaled = int(known * self.mechanism.steps)
        return Prepared(bound, scaled, from_training=True, procedure=procedure, estimate=scaled)

    def _with_training_values(self, bound: BoundQuery) -> BoundQuery:
        """The same question; where its procedure is made from them, with its values of the training rows."""
        if self.training is None or bound.training_values is not None or not self._holds_values(bound):
            return bound
        (values,) = self.training.grids(bound, unit=self.mechanism.unit)
        return replace(bound, training_values=values)

    def _holds_values(self, bound: BoundQuery) -> bool:
        """True if the question's values of all training rows are held in memory while it is prepared."""
        if bound.training_values is not None:
            return True
        if (
            self.training is None
            or self.mechanism.traits.adds_noise
            or self.training.counting(bound) is not self.training
        ):
            return False
        return needs_of(bound, self.mechanism, self.schema) != "total"

    def _procedure(self, bound: BoundQuery, *, own_guess: bool, guess: int, seen: Any = None) -> Procedure | None:
        """The procedure of a question whose values of the training rows are known where they are needed.

        Args:
            bound: The question.
            own_guess: Whether the guess is the analyst's own.
            guess: The guess in grid units; -1 where there is none.
            seen: What it needs of the training rows, if that is known already.
        """
        if self.mechanism.traits.adds_noise:
            return None
        at = guess / self.mechanism.steps if guess >= 0 else None
        if bound.pair is not None and bound.pair.apart is not None:
            return self.procedure_apart(bound, own_guess=own_guess, guess=at)
        needs, schema = needs_of(bound, self.mechanism, self.schema), self.schema
        if self.training is not None:
            rows, group_by = self.training.counting(bound), self.mechanism.dependence.group_column
            schema = replace(schema, training_rows=rows.rows)
            if needs != "total" and seen is None:
                _, (seen,) = rows.look([bound], [needs], group_by=group_by, unit=self.mechanism.unit)
        expected = at if own_guess else None
        if seen is None and takes_spreads(bound, self.mechanism):
            from everhold.queries.public_predictions import likely_values

            likely = likely_values(bound, schema, self._training_labels(), guess=expected)
            return Betting(rows=self.mechanism.rows, training=likely, guess=expected)
        return procedure_for(bound, self.mechanism, schema, training=seen, own_guess=own_guess, guess=expected)

    def procedure_apart(
        self, bound: BoundQuery, *, own_guess: bool = True, guess: float | None = None
    ) -> Procedure:  # fmt: skip
        """The procedure of a difference of two arrays of predictions that were set apart; see `apart_procedure`."""
        if bound.pair is None or bound.pair.apart is None:
            raise TypeError(f"{bound.shown!r} was not set apart; expected a difference of two arrays")
        from everhold.queries.public_predictions import apart_procedure

        labels = self._training_labels()
        return apart_procedure(bound, bound.pair.apart, self.schema, labels, own_guess=own_guess, guess=guess)

    def _training_labels(self) -> NDArray[np.float64] | None:
        """Labels of the training rows where they are numbers; None where there are none."""
        label = self.schema.label
        if self.training is None or label is None or self.schema.label_kind == "string":
            return None
        return np.asarray(self.training.table((label,))[label], dtype=np.float64)

    def _test_ratio(self, bound: BoundQuery, part: NDArray[np.int64], whole: NDArray[np.int64]) -> None:
        """Warn of a ratio whose residuals, of which bets on it measure the spread, are worth less than is promised."""
        if counted := int(whole.sum()):
            self.test_spread(bound, (part - whole * (int(part.sum()) / counted)) / self.mechanism.unit)

    def test_spread(self, bound: BoundQuery, left: NDArray[np.float64]) -> None:
        """Warn where residuals of the training rows, shape (rows,), are worth less than is promised; once a query."""
        if self.answered(bound.question):
            return
        if (found := self._monitor.worth(left, plan=self.mechanism.queries, bets=True)) is not None:
            warn_of_questions([(bound.shown, found)])

    @property
    def _monitor(self) -> DependenceMonitor:
        """Monitor that compares queries' training values with the declaration; made with the first query."""
        if self.training is None:
            raise TypeError("there are no training rows; expected some")
        return dependence_monitor(self.training, self.mechanism, self.schema.label, self.schema.whole_groups)

    def training_totals(self, bound: Sequence[BoundQuery], *, plan: int, bets: bool = False) -> dict[int, int]:
        """Sums over the training rows in grid units, by the place of the question, of those that say something of them.

        Args:
            bound: The questions.
            plan: Number of questions for which a false alarm may be raised.
            bets: Whether intervals are as narrow as values spread on the training rows.

        Warns:
            DependenceWarning: If the values of one are worth fewer rows than is promised.
        """
        places = []
        for place, question in enumerate(bound):
            if question.trained:
                places.append(place)
        if self.training is None or not places:
            return {}
        asked = [bound[place] for place in places]
        measured = [bets and needs_of(question, self.mechanism, self.schema) != "total" for question in asked]
        totals, seen = self._monitor.test(
            self.training, asked, unit=self.mechanism.unit, plan=plan, bets=measured, answered=self.remembered
        )
        if seen:  # the warning was given before the first answer
            warn_of_questions([
                (asked[row].shown, finding) for row, finding in sorted(seen.items())
                if not self.answered(asked[row].question)
            ])  # fmt: skip
        return dict(zip(places, totals, strict=True))

    def bind(self, query: RowwiseQuery | str) -> BoundQuery:
        """The question about these rows, tried on public ones where it is code.

        Raises:
            QueryRejected: If it cannot be asked. Nothing is charged.
        """
        bound = self.parsed(query)
        check_estimand([bound], self.schema, self.mechanism)
        return bound

    def parsed(self, query: RowwiseQuery | str, *, part: bool = False) -> BoundQuery:
        """The question about these rows, tried on public ones, without a look at what it is about.

        Args:
            query: The question.
            part: Whether it is a part of one that the mechanism takes, and need not be taken for itself.

        Raises:
            QueryRejected: If it cannot be asked. Nothing is charged.
        """
        if isinstance(query, str):
            query = MeanQuery(query)
        if not isinstance(query, RowwiseQuery):
            raise _no_question(query)
        return query.bound_to(self, part=part)

    def checked(self, bound: BoundQuery, *, part: bool) -> BoundQuery:
        """The question, tried on public rows where it is code.

        Args:
            bound: The question about these rows.
            part: As in `parsed`.

        Raises:
            QueryRejected: If it cannot be asked. Nothing is charged.
        """
        if not part and (reason := self.mechanism.why_not(bound)):
            raise QueryRejected(reason)
        if bound.sealed is not None and not bound.by_position:  # code, not an array of predictions
            from everhold.queries.trials import tried

            bound = tried(bound, bound.sealed, self)
        if self.schema.about and not part:  # other rows make another query
            bound = replace(bound, description={**bound.description, **dict(self.schema.about)})
        return bound

    def placed(self, query: AnyLabelQuery) -> AnyLabelQuery:
        """The same question with tables and columns of predictions put in the order of the rows.

        Raises:
            QueryRejected: If their ids are not those of the rows. Nothing is charged.
        """
        from everhold.queries.prediction_columns import read_together

        row_id, training = self.schema.row_id, self.training
        (query,) = read_together([query], self.sealed, self.schema)
        placed = self._placed(query.predictions, self.sealed_ids or tuple, rows_are="sealed", span=self.span)
        query = _with(query, predictions=placed)
        if training is None:
            return query
        ids = tuple if row_id is None else partial(training.row_ids, row_id)
        return _with(query, training=self._placed(query.training, ids, rows_are="training"))

    def _placed(
        self, predictions: Any, ids: Callable[[], Sequence[Any]], *, rows_are: str, span: RowSpan | None = None
    ) -> Any:
        from everhold.queries.prediction_columns import PredictionColumn
        from everhold.queries.predictions import prediction_table

        if isinstance(predictions, PredictionColumn):
            return predictions.placed(self.schema, ids(), rows_are=rows_are, span=span)
        table, others = prediction_table(predictions), tuple if span is None else span.ids
        if table is not None:
            predictions = table.in_order(self.schema.row_id, ids(), rows_are=rows_are, others=others)
        return predictions if span is None else span.cut(predictions)

    def columns_read(self, names: Sequence[str] | None) -> tuple[str, ...]:
        """The columns that a function reads; where none are named, all but the row ids.

        Raises:
            QueryRejected: If one of them does not exist, or there is none. Nothing is charged.
        """
        known = self.schema.asked
        if names is None:
            return tuple(known)
        ordered = hasattr(names, "__len__") and hasattr(names, "__getitem__") and not isinstance(names, str)
        if not ordered or not len(names) or any(name not in known for name in names):
            raise QueryRejected(
                f"columns is {brief(names)}; expected a list of some of {', '.join(known)}, or None for all; "
                "nothing was charged"
            )
        return tuple(names)

    def public_rows(self, names: Sequence[str], *, most: int) -> Table:
        """The named columns of at most so many training rows; two made-up rows where there are none."""
        if self.training is not None:
            return {name: column[:most] for name, column in self.training.table(names).items()}
        from everhold.sealing.probe import made_up_rows

        made_up = made_up_rows(self.schema.columns)
        return {name: made_up[name] for name in names}

    def _own_guess(self, bound: BoundQuery, guess: float | None) -> int:
        """The analyst's guess in grid units; -1 where there is none and none is needed."""
        if guess is None:
            if self.mechanism.traits.needs_guess and not self.silent and not self.answered(bound.question):
                raise QueryRejected(
                    f"{self.mechanism.name} needs a prior estimate for this query, and none could be computed from the "
                    "training rows; pass your own, such as guess=0.8 (--guess 0.8), or predictions for the "
                    "training rows (training=, --training-predictions); nothing was charged"
                )
            return -1
        mean = bound.to_mean(as_float(guess))
        if not 0.0 <= mean <= 1.0:
            low, high = sorted((bound.at_zero, bound.at_one))
            raise QueryRejected(
                f"the guess {brief(guess)} is outside the question's range; expected a number in [{low}, {high}]; "
                "nothing was charged"
            )
        return round(mean * self.mechanism.steps)

    def _wished(self, prepared: Prepared, tolerance: float) -> Prepared:
        """The same question with a tolerance of its own, which makes it another question."""
        bound = prepared.bound
        width = abs(bound.at_one - bound.at_zero)
        if not 0.0 < as_float(tolerance) <= width:
            raise QueryRejected(
                f"the tolerance is {brief(tolerance)}; expected a positive half-width of at most {width:g}; "
                "nothing was charged"
            )
        mechanism, wished = paying(self.mechanism), float(tolerance) / width
        try:
            mechanism.scale_for(wished)
        except ValueError as reason:
            raise QueryRejected(f"{reason}; nothing was charged") from None
        described = {**bound.description, "tolerance": float(tolerance)}
        shown = f"{bound.shown}, within {float(tolerance):g}"
        return replace(prepared, bound=replace(bound, description=described, shown=shown), tolerance=wished)


def _no_question(thing: object) -> QueryRejected:
    return QueryRejected(
        f"{type(thing).__name__} is not a question; expected mean(...), accuracy(...), error(...), brier(...) or a "
        "text expression, and what is made of several questions one at a time by ask; nothing was charged"
    )


def _check_listed(what: str, values: object) -> None:
    """Refuse what looks like a list and is none: one text, one number, a mapping."""
    listed = isinstance(values, Sequence) or (isinstance(values, np.ndarray) and values.ndim == 1)
    if isinstance(values, (str, bytes)) or not listed:
        raise QueryRejected(
            f"the {what} are {brief(values)}; expected a list with one of them for each question; nothing was charged"
        )


def _with(query: AnyLabelQuery, **changes: Any) -> AnyLabelQuery:
    changed: AnyLabelQuery = replace(query, **changes)  # type: ignore[type-var]  # all of its kinds are dataclasses
    return changed
