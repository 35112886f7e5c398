"""Whether a question can be asked, and what goes with it to the mechanism: a public guess, a wished tolerance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from everhold.arguments import as_float, brief
from everhold.diagnosis.questions import Watch, warn_of_questions
from everhold.errors import QueryRejected
from everhold.estimand import check_estimand
from everhold.mechanisms import Ladder, PrivacyBudget
from everhold.queries.base import BoundQuery, Query, Schema
from everhold.queries.mean import MeanQuery
from everhold.queries.statistical import StatisticalQuery
from everhold.sealing.probe import made_up_rows, try_estimator, try_on_public_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from everhold.mechanisms import Mechanism
    from everhold.queries.base import RowFunction
    from everhold.sealing.table import StoredRows

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
    """

    schema: Schema
    mechanism: Mechanism
    training: StoredRows | None
    answered: Callable[[str], bool]

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
        seen = watch.seen(sums, rows=self.training.rows, unit=self.mechanism.unit, questions=plan)
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
        bound = query.bind(self.schema)
        if isinstance(self.mechanism, Ladder):
            _check_rankable(bound, self.mechanism)
        if bound.sealed is not None and bound.sealed is bound.training:  # code, not an array of predictions
            self._try_on_public_rows(bound.sealed, bound.reads, made_up_is_enough=isinstance(query, StatisticalQuery))
        return bound

    def _try_on_public_rows(
        self, function: RowFunction, reads: Sequence[str] | None, *, made_up_is_enough: bool
    ) -> None:
        names = tuple(self.schema.columns) if reads is None else tuple(reads)
        if self.training is not None:
            public = self.training.table(names)
            try_on_public_rows(function, {name: column[:_MOST_TRIED] for name, column in public.items()})
            return
        made_up = {name: column for name, column in made_up_rows(self.schema.columns).items() if name in names}
        if made_up_is_enough:
            try_on_public_rows(function, made_up)
        else:
            try_estimator(function, made_up)

    def _own_guess(self, bound: BoundQuery, guess: float | None) -> int:
        """The analyst's guess in grid units; -1 where there is none and none is needed."""
        if guess is None:
            if self.mechanism.needs_guess and not self.answered(bound.question):
                raise QueryRejected(
                    f"{self.mechanism.name} confirms guesses, and there is no guess for this question: the holdout "
                    "has no training rows that it can be evaluated on; expected ask(query, guess=0.8) with your own "
                    "estimate, or training predictions as in accuracy(sealed, training=...); nothing was charged"
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


def _check_rankable(bound: BoundQuery, ladder: Ladder) -> None:
    """All questions share a ladder's best so far: they have to be shares of which it ranks the better ones first.

    Accuracy and error have the same row values, so they belong on a ladder on which higher ones are better.
    """
    right = bound.description.get("kind") == "accuracy"  # of error, too: the answer is turned round
    if {bound.at_zero, bound.at_one} != {0.0, 1.0} or right != (ladder.better == "higher"):
        raise QueryRejected(
            f"this ladder ranks shares of which the {ladder.better} are better, and the question is not one; "
            "expected accuracy(...) or error(...) where it was created with Ladder.tuned(..., better='higher'), and "
            "brier(...) or a condition where not; nothing was charged"
        )


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
