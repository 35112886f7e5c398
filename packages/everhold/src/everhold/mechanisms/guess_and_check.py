"""Guess and check: a guess is confirmed or corrected, without noise; surprises are paid for when they happen (S8)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from everhold.arguments import as_float, as_whole, brief
from everhold.guarantees.description_length import QueryTree
from everhold.guarantees.intervals.shares.means import ClopperPearson, Hoeffding, OfMeans
from everhold.mechanisms.base import Promise, Quote, Replies, State, Traits, whole
from everhold.mechanisms.batch_step import BatchStep
from everhold.mechanisms.checks_guesses import ChecksGuesses, check_slack, planned_surprises, with_best_grid
from everhold.mechanisms.described import MOST_TEXT_BITS, Description, check_text_bits
from everhold.mechanisms.guess_intervals import GuessQuotes, ReleasedIntervals, ToleranceMargin, bets_on_groups
from everhold.mechanisms.labels import ArcsineCells
from everhold.mechanisms.presentation import Presentation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms.accounting import Accounting
    from everhold.mechanisms.evaluations import Evaluations
    from everhold.randomness import Noise

__all__ = [
    "DESCRIPTION_LENGTH",
    "MOST_AT_ONCE",
    "ChecksGuesses",
    "GuessAndCheck",
    "check_slack",
    "leading",
    "planned_surprises",
]

DESCRIPTION_LENGTH = (
    "Without noise, and with coarse answers, only so many courses of queries and answers are possible. All "
    "queries that can ever come up form a tree that is fixed before the sealed rows are looked at. Each of them "
    "is given its share of the probability of failure, beta, and an interval procedure that misses the population's "
    "value of one fixed query with at most that probability. So with probability at least 1 - beta no query "
    "that could have been asked has an interval that misses, and none that was asked does."
)
"""Explanation of S8 in a certificate."""

MOST_AT_ONCE = 10_000
"""The most queries of one step."""

_MOST_ALLOWED = 100.0
_ALLOWED_OF_FAILING = 2.0  # standard errors
_MOST_FAILING = 0.1  # of a model that fails on no sealed row
_ACCEPTED = 1.25  # times the expected width of means alone, for bets


@dataclass(frozen=True, kw_only=True)
class GuessAndCheck(ChecksGuesses):
    """An honest guess is confirmed; otherwise a coarse label of the sealed interval is released (S8).

    Query j after f surprises has a level of its own, ``beta w_j``, and an interval procedure that is decided by
    public facts. What is told of a guess that holds is public: the interval that sealed rows just like the guess would
    have, and beyond it as far on either side as honest guesses are off. The guess is confirmed if the sealed interval
    lies inside. Otherwise it is a surprise, a label of the sealed interval is released, and every later query pays
    for both.

    Queries that are asked together are one step: all of them have the levels of its start, and what surprises among
    them is paid for by later queries (S9).

    The budget is a plan. When it is used up, an endless holdout goes on with wider intervals, and refuses only what
    would say nothing. Otherwise it refuses when not even an answer to the hardest query, a yes-or-no query with a
    guess of 1/2, could stay within the tolerance.

    Attributes:
        tolerance: tau, the half-width within which, as long as the budget lasts, every confirmed answer about rows
            lies, and every answer whose interval is a function of the sealed mean. What was bet on may be told with a
            wider one after a surprise; ratios and statistics of all rows have half-widths of their own.
        grid: Number G of cells of sealed means, of equal width on the arcsine scale; by default half a cell is 1/60 of
            the spread of single rows, and with a slack the grid is the one with the smallest tolerance.
        slack: c in [0, 1): within the plan no budget is spent on guesses closer than ``c tau`` to the population.
        allowance: z, the standard errors that an honest guess may be off.
        training_rows: Number of rows that guesses are made from; 0 if unknown, and then as many as are sealed.
        share: Share of the probability of failure that declared families have (S10), in [0, 1); the rest is the tree's.
        endless: Whether it goes on when the budget is used up. Not with a slack, whose promise ends there.
        text_bits: Texts of at most so many bits have the level of their description where it is the larger one: they
            share what the weights of the tree leave of the probability of failure (S10). 0 for no text.

    Examples:
        >>> mechanism = GuessAndCheck.tuned(rows=20_000, queries=1_000, surprises=10)
        >>> round(mechanism.promise().radius, 3), mechanism.grid
        (0.073, 94)
    """

    tolerance: float
    grid: int = 94
    slack: float = 0.0
    allowance: float = 4.0
    training_rows: int = 0
    share: float = 0.0
    endless: bool = False
    text_bits: int = 0

    name: ClassVar[str] = "guess_and_check"
    statement: ClassVar[str] = "S8"
    presentation: ClassVar[Presentation] = Presentation(
        page="intervals",
        colour="#009e73",
        explanation=(
            "Each query comes with a guess: the estimate from the training rows, or the analyst's own. If the "
            "guess is as close to the sealed rows as honest guesses are, it is confirmed and is the answer. "
            "Otherwise the answer is near what the sealed rows say, which is told as a place on a coarse grid, and "
            "one surprise is charged. No noise is added."
        ),
        ends=(
            "Queries are refused as soon as the answer to the hardest yes-or-no "
            "query could no longer be kept within the half-width."
        ),
        endless=(
            "Queries that are asked together share one step: all of them are answered with the levels of its start, "
            "and surprises among them are paid for by later queries. When the budget is used up, queries are still "
            "answered, with wider intervals; they are refused only where an interval would say nothing."
        ),
        theorem=DESCRIPTION_LENGTH,
        sentence=(
            "Until {budget} {are} used up, every confirmed guess of a mean over all rows is {reach} and every "
            "other answer within the interval that was told with it, all of them at once, {holds}."
        ),
        no_privacy="no noise is added to the answers",
        left=(
            "Queries and surprises left are what is left of the plan: every new answer takes one query, and "
            "every charge one surprise. As long as the half-width has room, queries are answered beyond the "
            "plan. Without room no query is left; that can come before the plan is used up where values are no "
            "yes or no, because what such a surprise tells may count for more."
        ),
        left_endless=(
            "Queries and surprises left are what is left of the plan: every new answer takes one query, and "
            "every charge one surprise. When it is used up, queries are still answered, with wider intervals."
        ),
    )
    traits: ClassVar[Traits] = replace(
        ChecksGuesses.traits, adds_noise=False, unsealable=True, beyond_the_plan=True, batch_is_one_step=True
    )
    largest: ClassVar[Mapping[str, int]] = {
        **ChecksGuesses.largest,
        "grid": 10**5,
        "training_rows": 10**12,
        "text_bits": MOST_TEXT_BITS,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_slack(self.slack)
        whole(self, "grid")
        if not self.tolerance > 0.0:
            raise ValueError(f"tolerance is {self.tolerance}; expected a positive half-width")
        if not 0.0 < as_float(self.allowance) <= _MOST_ALLOWED:
            raise ValueError(
                f"allowance is {brief(self.allowance)}; expected a number of standard errors of at most {_MOST_ALLOWED}"
            )
        if (-1 if (rows := as_whole(self.training_rows)) is None else rows) < 0:
            raise ValueError(f"training_rows is {brief(self.training_rows)}; expected a whole number of at least 0")
        if not 0.0 <= as_float(self.share) < 1.0:
            raise ValueError(f"share is {brief(self.share)}; expected a number of at least 0 and below 1")
        if not isinstance(self.endless, bool) or (self.endless and self.slack):
            raise ValueError(f"endless is {brief(self.endless)}; expected True or False, and False with a slack")
        check_text_bits(self.text_bits)

    @classmethod
    def accounting(cls) -> type[Accounting[Any]]:
        """See `Mechanism.accounting`."""
        from everhold.mechanisms.guess_accounting import GuessAccounting

        return GuessAccounting

    @cached_property
    def beta(self) -> float:
        """Probability that is left for the tree to fail: what declared families do not have."""
        return (1.0 - self.statement_confidence) * (1.0 - self.share)

    def sharing(self, share: float) -> Self:
        """The same request with a share of the probability of failure for declared families (S10)."""
        return replace(self, share=share)._tuned()

    def described(self, nats: float) -> float:
        """ln(1 / level) of a member of a declared family whose weight is ``exp(-nats)`` (S10)."""
        return nats - math.log((1.0 - self.statement_confidence) * self.share)

    def of_text(self, nats: float) -> float:
        """ln(1 / level) of a text whose weight among all texts is ``exp(-nats)``: of what the tree leaves (S10)."""
        return nats - math.log(self.beta * self.tree.of_texts)

    @classmethod
    def tuned(
        cls,
        *,
        rows: int,
        queries: int,
        surprises: int | None = None,
        confidence: float = 0.95,
        slack: float = 0.0,
        **shared: Any,
    ) -> Self:
        """The smallest tolerance for the request; see `Mechanism.tuned`. Also takes the other attributes.

        So many ``surprises`` has the tolerance to survive: by default 10, or one for each query if fewer. No budget
        is spent on guesses closer than ``slack`` times the tolerance to the population's value. It is endless unless it
        has a slack.
        """
        check_slack(slack)
        draft = cls(
            rows=rows, queries=queries, surprises=planned_surprises(surprises, queries), confidence=confidence,
            slack=slack, tolerance=1.0, **{"endless": not slack, **shared},
        )  # fmt: skip
        if slack and "grid" not in shared:
            return with_best_grid(lambda grid: replace(draft, grid=grid)._tuned(), lambda made: made.tolerance)
        return draft._tuned()

    @classmethod
    def for_request(cls, *, surprises: int, slack: float, training_rows: int = 0, **request: Any) -> Self:
        """`tuned`, with what guesses may cost and how many rows they are made from."""
        return cls.tuned(surprises=surprises, slack=slack, training_rows=training_rows, **request)

    def _tuned(self) -> Self:
        return replace(self, tolerance=self.margin.least_tolerance())

    @cached_property
    def tree(self) -> QueryTree:
        """The weighted tree of all queries that can be asked."""
        return QueryTree(queries=self.queries)

    @cached_property
    def procedure(self) -> OfMeans:
        """As for every mechanism, with guesses from the training rows."""
        made = super().procedure
        return replace(made, training=self.effective_training)

    @cached_property
    def yes_no_procedure(self) -> OfMeans:
        """That of a yes-or-no query with a guess from the training rows."""
        kind = ClopperPearson if self.dependence.independent else Hoeffding
        return kind(rows=self.effective_rows(self.rows), training=self.effective_training)

    @cached_property
    def of_failing_rows(self) -> GuessAndCheck:
        """The same that tells shares of failing rows: a guess of 0 from many rows is off by less than others (S16)."""
        return replace(self, allowance=min(self.allowance, _ALLOWED_OF_FAILING))

    @cached_property
    def failing_rows_procedure(self) -> Procedure | None:
        """That of the share of rows on which a model fails, of which the training rows say that it is small (S16).

        None with a slack, which promises that near guesses are no surprises, also of models that fail; and where so few
        rows are sealed that models that fail on none are told with a large share, for which surprises are too dear.
        """
        if self.slack:
            return None
        few = 1.0 / (1.0 + self.effective_training)
        bets = bets_on_groups(self, few, 1.0, training_rows=self.training_rows or self.rows)
        procedure = self.yes_no_procedure if bets is None else bets
        nats = float(self.failing_rows_nats(self.nats(self.queries, 0, 0.0)))
        _, most = self.of_failing_rows.intervals.of_guess(procedure, 0.0, nats)
        return procedure if most <= _MOST_FAILING else None

    @property
    def effective_training(self) -> float:
        """Effective number of independent rows that guesses are made from, worth as much each as sealed ones."""
        return self.effective_rows(self.training_rows or self.rows)

    @cached_property
    def margin(self) -> ToleranceMargin:
        """Room that the tolerance leaves."""
        return ToleranceMargin(self)

    @cached_property
    def intervals(self) -> ReleasedIntervals:
        """Intervals that are told of guesses and surprises."""
        return ReleasedIntervals(self)

    @cached_property
    def quotes(self) -> GuessQuotes:
        """Bounds and expectations of coming answers."""
        return GuessQuotes(self)

    def nats(self, asked: ArrayLike, charged: ArrayLike, labels: ArrayLike) -> NDArray[np.float64]:
        """ln(1 / level) of query number ``asked`` after so many surprises, whose labels cost so many nats."""
        weight = self.tree.log_inverse_weight(asked=asked, surprises=charged, labels=labels)
        return weight - math.log(self.beta)

    def failing_rows_nats(self, nats: NDArray[np.float64]) -> NDArray[np.float64]:
        """ln(1 / level) of the shares of failing rows of queries whose own levels are these (S16)."""
        return nats - math.log(self.tree.failing_rows)

    def next_nats(self, state: State, count: int = 1) -> NDArray[np.float64]:
        """Those of the next queries as long as none is a surprise, shape (count,)."""
        return self.nats(state.asked + 1 + np.arange(count), state.charged, state.labels / 1e6)

    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """Step by step (S9): all queries of one at the levels of its start; mostly one step is enough."""
        every = len(evaluations)
        replies, done = Replies.refused(every), 0
        while done < every and (count := self.surely_answers(state, every - done)):
            some = evaluations if count == every else evaluations.some([*range(done, done + count)])
            step = BatchStep.of(self, some, self.next_nats(state, count))
            state, done = step.answer(replies, done, state), done + count
        return state, replies

    def procedures_of(self, evaluations: Evaluations) -> Sequence[Procedure]:
        """One procedure for each query, in force; a slack does not touch challenges, which tell no interval."""
        procedures = super().procedures_of(evaluations)
        if evaluations.margins is not None:
            return procedures
        return [self.in_force(procedure) for procedure in procedures]

    def in_force(self, procedure: Procedure) -> Procedure:
        """The procedure of a query; with a slack, that of means without a spread of their own.

        The width of an interval that depends on the sealed spread is not known beforehand, so nobody could promise
        that near guesses are no surprises.
        """
        return self.procedure if self.slack and _bets_on_means(procedure) else procedure

    def procedure_at(self, procedure: Procedure, guess: float, nats: float) -> Procedure:
        """The procedure of a query at its node: bets, unless they are expected to be much wider than means alone.

        Very unequal groups, and levels that are rare for the number of units, cost bets more than the spread saves. A
        little more expected width is accepted, because bets adapt to the sealed spread where it was not foreseen.

        Args:
            procedure: As public facts would have it.
            guess: In units of a mean; negative where there is none.
            nats: ln(1 / level).
        """
        procedure = self.in_force(procedure)
        if not _bets_on_means(procedure):
            return procedure
        place = guess if guess >= 0.0 else 0.5
        (low, high), (least, most) = (each.expected(place, nats) for each in (procedure, self.procedure))
        return procedure if high - low <= _ACCEPTED * (most - least) else self.procedure

    @cached_property
    def cells(self) -> ArcsineCells:
        """Labels of a surprise about a sealed mean."""
        return ArcsineCells(self.grid, self.steps)

    def promise(self) -> Promise:
        """The tolerance: it holds whatever happens, until the room for surprises is used up."""
        last = self.margin.last_concentration
        quiet = float(self.margin.concentration(self.nats(self.queries, 0, 0.0)))
        details = {
            "concentration": last, "concentration_without_surprise": quiet, "reach": float(self.margin.allowed(last))
        }  # fmt: skip
        beyond = self.slack * (self.tolerance - self.rounding) - self.rounding if self.slack else None
        return self._promised(self.tolerance, details, spends_only_beyond=beyond)

    def expected_radius(self, at: float, alike: float | None = None) -> float:
        """That of a confirmed answer to a yes-or-no query, the last planned one, if no guess was a surprise."""
        return self.quotes.expected_radius(at, alike)

    def surely_answers(
        self, state: State, most: int, procedures: Sequence[Procedure] | None = (), *, silent: bool = False
    ) -> int:
        """Those of the next step that have room, whatever is a surprise in it (S9)."""
        return leading(self.margin.answers(self.next_nats(state, min(most, MOST_AT_ONCE))))

    def quote(
        self, state: State, *, guess: float | None = None, procedure: Procedure | None = None,
        described: Description | None = None,
    ) -> Quote:  # fmt: skip
        """Bounds if the guess holds and if it does not; the width unsealed is that of sealed rows like the guess."""
        return self.quotes.of_next(state, guess, procedure, described)

    def outlook(self, state: State) -> dict[str, float]:
        """See `Mechanism.outlook`."""
        return self.quotes.outlook(state)

    def remaining(self, state: State) -> dict[str, int]:
        """Planned queries left, and planned surprises left, which fall by what is charged and by nothing else.

        No query is left when the tolerance has no room for another answer.
        """
        refused = self.quotes.of_hardest(state).refused
        return {
            "queries": 0 if refused else max(self.queries - state.asked, 0),
            "surprises": max(self.surprises - state.charged, 0),
        }


def leading(flags: NDArray[np.bool_]) -> int:
    """Number of true flags at the beginning."""
    return len(flags) if bool(np.all(flags)) else int(np.argmin(flags))


def _bets_on_means(procedure: Procedure) -> bool:
    """True if it is about a mean over all rows, and as wide as the sealed values spread."""
    return procedure.of_all_rows and not procedure.width_is_known
