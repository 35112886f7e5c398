"""Whether a question can be asked, and what goes with it to the mechanism: a public guess, a wished tolerance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float, brief
from everhold.diagnosis.questions import Watch, warn_of_questions
from everhold.errors import QueryRejected
from everhold.estimand import check_estimand
from everhold.mechanisms import PrivacyBudget
from everhold.questions.identity import behaviour_digest
from everhold.questions.mean import MeanQuery
from everhold.questions.metrics import EstimatedValues, LabelQuery
from everhold.questions.prediction_tables import prediction_table
from everhold.sealing.probe import (
    check_rows_alone,
    made_up_rows,
    predicted,
    public_values,
    try_estimator,
    try_on_public_rows,
    varied_rows,
)
from everhold.sealing.table import made_up_values
from everhold.values.base import BoundQuery, Query, Schema
from everhold.values.evaluation import to_grid

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from numpy.typing import NDArray

    from everhold.mechanisms import Mechanism
    from everhold.sealing.table import StoredRows
    from everhold.values.base import RowFunction, Table

    AnyLabelQuery = TypeVar("AnyLabelQuery", bound=LabelQuery)

__all__ = ["Preparation", "Prepared", "paying"]

_MOST_TRIED = 10_000  # training rows that a function is tried on in several orders


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question that is ready to be answered.

    Attributes:
        bound: The question about the holdout's rows.
        guess: The public guess in grid units of a sum over the sealed rows; -1 where there is none.
        from_training: Whether the guess is the training estimate.
        tolerance: Half-width wished for, in the units of a mean over [0, 1]; nan for the planned one.
    """

    bound: BoundQuery
    guess: int
    from_training: bool
    tolerance: float = math.nan


@dataclass(frozen=True, slots=True)
class Preparation:
    """Prepares questions for one holdout; looks at public facts and training rows only.

    Attributes:
        schema: What is known about the rows.
        mechanism: The mechanism that will answer.
        training: The training rows, if there are any.
        answered: Whether a question, by its fingerprint, has been answered before.
        sealed_ids: Reads the public ids of the sealed rows, and no other column; None where rows have none.
    """

    schema: Schema
    mechanism: Mechanism
    training: StoredRows | None
    answered: Callable[[str], bool]
    sealed_ids: Callable[[], Sequence[Any]] | None = None

    def prepare(
        self, queries: Sequence[Query | str], guesses: Sequence[float | None] | None, *,
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
        if guesses is None:
            guesses = [None] * len(queries)
        _check_listed("guesses", guesses)
        if len(guesses) != len(queries):
            raise QueryRejected(
                f"there are {len(guesses)} guesses for {len(queries)} questions; expected one each; nothing was charged"
            )
        bound = [self._bound(query) for query in queries]
        for asked in [bound] if together else [[question] for question in bound]:
            check_estimand(asked, self.schema, self.mechanism)
        known = self._training_guesses(bound, guesses)
        prepared = [
            Prepared(
                question, known[i] if i in known else self._own_guess(question, guesses[i]), from_training=i in known
            )
            for i, question in enumerate(bound)
        ]
        return prepared if tolerance is None else [self._wished(question, tolerance) for question in prepared]

    def _training_guesses(self, bound: Sequence[BoundQuery], guesses: Sequence[float | None]) -> dict[int, int]:
        guessable = [i for i, question in enumerate(bound) if _is_about_training(question)]
        if self.training is None or not guessable:
            return {}
        totals = self._watched_totals([bound[i] for i in guessable], plan=self.mechanism.queries)
        return {
            i: int(total) * self.schema.rows // self.schema.training_rows
            for i, total in zip(guessable, totals.tolist(), strict=True)
            if guesses[i] is None
        }

    def watch(self, bound: Sequence[BoundQuery]) -> None:
        """Hold questions that are bought together, as one of the plan, against the training rows.

        Warns:
            DependenceWarning: If their values are worth fewer rows than is promised.
        """
        on_training = [question for question in bound if _is_about_training(question)]
        if self.training is not None and on_training:
            self._watched_totals(on_training, plan=self.mechanism.queries * len(bound))

    def _watched_totals(self, bound: Sequence[BoundQuery], *, plan: int) -> NDArray[np.int64]:
        """Totals over the training rows; what shows that rows are worth less than is promised is warned of."""
        assert self.training is not None
        watch = Watch.of(self.mechanism)
        sums = self.training.stretch_totals(bound, order_by=watch.order_by, unit=self.mechanism.unit)
        seen = watch.told(self.training, bound, sums, label=self.schema.label, unit=self.mechanism.unit, questions=plan)
        warn_of_questions([
            (question.shown, finding) for question, finding in zip(bound, seen, strict=True)
            if finding is not None and not self.answered(question.question)
        ])  # fmt: skip
        return np.asarray(sums.sum(axis=1))

    def bind(self, query: Query | str) -> BoundQuery:
        """The question about these rows, tried on public ones where it is code.

        Raises:
            QueryRejected: If it cannot be asked. Nothing is charged.
        """
        bound = self._bound(query)
        check_estimand([bound], self.schema, self.mechanism)
        return bound

    def _bound(self, query: Query | str) -> BoundQuery:
        if isinstance(query, str):
            query = MeanQuery(query)
        if not isinstance(query, Query):
            raise QueryRejected(
                f"{type(query).__name__} is not a question; expected accuracy(...), error(...), brier(...), mean(...), "
                "a StatisticalQuery or a text expression, and what is made of several questions one at a time by ask; "
                "nothing was charged"
            )
        if isinstance(query, LabelQuery):
            query = self.placed(query)
        bound = query.bind(self.schema)
        if reason := self.mechanism.why_not(bound):
            raise QueryRejected(reason)
        if bound.sealed is not None and bound.sealed is bound.training:  # code, not an array of predictions
            return self._tried(bound, bound.sealed)
        return bound

    def placed(self, query: AnyLabelQuery) -> AnyLabelQuery:
        """The same question with tables of predictions put in the order of the rows.

        Raises:
            QueryRejected: If their ids are not those of the rows. Nothing is charged.
        """
        row_id = self.schema.row_id
        if (table := prediction_table(query.predictions)) is not None:
            ids = () if self.sealed_ids is None else self.sealed_ids()
            query = _with(query, predictions=table.in_order(row_id, ids, rows_are="sealed"))
        if self.training is not None and (table := prediction_table(query.training)) is not None:
            ids = () if row_id is None else self.training.row_ids(row_id)
            query = _with(query, training=table.in_order(row_id, ids, rows_are="training"))
        return query

    def _tried(self, bound: BoundQuery, function: RowFunction) -> BoundQuery:
        """A question that is code, tried on public rows; what it does there is part of its identity."""
        names = tuple(self.schema.asked) if bound.reads is None else bound.reads
        outputs, table = self.observed(function, names)
        on_grid = None
        if table is not None:
            values = function.judge(outputs[0], table) if isinstance(function, EstimatedValues) else outputs[0]
            on_grid = to_grid(values, unit=self.mechanism.unit)
        described = {**bound.description, "on_public_rows": behaviour_digest(outputs)}
        return replace(bound, description=described, training_values=on_grid)

    def observed(self, function: RowFunction, names: Sequence[str]) -> tuple[list[NDArray[Any]], Table | None]:
        """What code gives for public rows, and these rows; None if they are made-up ones.

        Args:
            function: As it will be applied to the sealed rows.
            names: Columns that it reads.

        Returns:
            For all training rows, an estimator's predictions or a function's row values. Without training rows, for
            made-up rows as far as it gives any.

        Raises:
            QueryRejected: If it fails on public rows, or a row's value depends on other rows. Nothing is charged.
        """
        if self.training is None:
            kinds = {name: self.schema.columns[name] for name in names}
            return self._observed_on_made_up(function, made_up_rows(kinds), varied_rows(kinds)), None
        public = self.training.table(names)
        most = {name: column[:_MOST_TRIED] for name, column in public.items()}
        if isinstance(function, EstimatedValues):
            predictions = predicted(function, public)
            check_rows_alone(function.predict, most, predictions[:_MOST_TRIED])
            return [predictions], public
        values = public_values(function, public, self.schema.training_rows)
        to_grid(values)
        check_rows_alone(lambda rows: np.asarray(function(dict(rows))), most, values[:_MOST_TRIED])
        return [values], public

    def _observed_on_made_up(self, function: RowFunction, few: Table, many: Table) -> list[NDArray[Any]]:
        if not isinstance(function, EstimatedValues):
            return [try_on_public_rows(function, few), made_up_values(function, many)]
        outputs = [try_estimator(function, table) for table in (few, many)]
        if outputs[1] is not None:
            check_rows_alone(function.predict, many, outputs[1])
        return [np.zeros(0) if output is None else output for output in outputs]

    def _own_guess(self, bound: BoundQuery, guess: float | None) -> int:
        """The analyst's guess in grid units; -1 where there is none and none is needed."""
        if guess is None:
            if self.mechanism.needs_guess and not self.answered(bound.question):
                raise QueryRejected(
                    f"{self.mechanism.name} confirms guesses, and there is no guess for this question, which cannot be "
                    "evaluated on training rows; expected ask(query, guess=0.8) or --guess with your own estimate, or "
                    "predictions for the training rows (training=, --training-predictions); nothing was charged"
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


def _check_listed(what: str, values: object) -> None:
    """Refuse what looks like a list and is none: one text, one number, a mapping."""
    listed = isinstance(values, Sequence) or (isinstance(values, np.ndarray) and values.ndim == 1)
    if isinstance(values, (str, bytes)) or not listed:
        raise QueryRejected(
            f"the {what} are {brief(values)}; expected a list with one of them for each question; nothing was charged"
        )


def _is_about_training(bound: BoundQuery) -> bool:
    return bound.row_value is not None or bound.training is not None


def _with(query: AnyLabelQuery, **changes: Any) -> AnyLabelQuery:
    changed: AnyLabelQuery = replace(query, **changes)  # type: ignore[type-var]  # all of its kinds are dataclasses
    return changed


def paying(mechanism: Mechanism) -> PrivacyBudget:
    """The mechanism as one that can pay for choices and for tolerances.

    Raises:
        QueryRejected: If it is another one.
    """
    if not isinstance(mechanism, PrivacyBudget):
        raise QueryRejected(
            f"{mechanism.name} answers every question alike; expected a holdout that was created with "
            "mechanism='privacy_budget' for tolerances and for whatever has a price of its own; nothing was charged"
        )
    return mechanism
