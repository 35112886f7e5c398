"""Guess and check: a guess is confirmed or corrected, without noise; surprises are paid for when they happen (S8)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from everhold.arguments import as_float, as_whole, brief
from everhold.guarantees.concentration import hoeffding_radius
from everhold.guarantees.description_length import QuestionTree
from everhold.guarantees.intervals.low_sensitivity import BoundedDifferences
from everhold.guarantees.intervals.means import ClopperPearson, Hoeffding, OfMeans
from everhold.mechanisms.base import REFUSED, Promise, Quote, Replies, State, Traits, whole
from everhold.mechanisms.batch_step import BatchStep
from everhold.mechanisms.checks_guesses import ChecksGuesses, check_slack, planned_overfits, with_best_grid
from everhold.mechanisms.described import (
    MOST_TEXT_BITS,
    USUAL_TEXT_BITS,
    Description,
    check_text_bits,
    narrower,
)
from everhold.mechanisms.labels import (
    CHEAPEST,
    DEAREST,
    EARLIER_DEAREST,
    ArcsineCells,
    Offsets,
    in_millionths,
    widest_told,
)
from everhold.mechanisms.presentation import Presentation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.guarantees.intervals.means import Ends
    from everhold.mechanisms.evaluations import Evaluations
    from everhold.randomness import Noise

__all__ = ["DESCRIPTION_LENGTH", "ChecksGuesses", "Expected", "GuessAndCheck", "check_slack", "planned_overfits"]

DESCRIPTION_LENGTH = (
    "Without noise, and with coarse answers, only so many courses of questions and answers are possible. All "
    "questions that can ever come up form a tree that is fixed before the sealed rows are looked at. Each of them "
    "is given its share of the probability of failure, beta, and an interval procedure that misses the population's "
    "value of one fixed question with at most that probability. So with probability at least 1 - beta no question "
    "that could have been asked has an interval that misses, and none that was asked does."
)
"""Explanation of S8 in a certificate."""

Numbers = TypeVar("Numbers", float, "NDArray[np.float64]")

_MOST_OVERFITS_COUNTED = 2**16
_FIRST_CHUNK = 64
_AHEAD = 5  # surprises
_MOST_AT_ONCE = 10_000  # questions of one step
_TRIED = 65  # numbers of surprises
_SAYS_NOTHING = 0.5  # half-width of an interval of everything
_MOST_ALLOWED = 100.0
_ACCEPTED = 1.25  # times the expected width of means alone, for bets
_LATER = {"share": 0.0, "endless": False, "text_bits": 0}  # what versions without these parameters did


@dataclass(frozen=True, slots=True)
class Expected:
    """The intervals that the next answer to a question is expected to have, in units of a mean over [0, 1].

    Attributes:
        confirmed: If its guess holds; exact.
        released: If it does not, and the sealed mean is as far off as just makes a surprise.
        unsealed: When the study is over.
    """

    confirmed: tuple[float, float]
    released: tuple[float, float]
    unsealed: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class GuessAndCheck(ChecksGuesses):
    """An honest guess is confirmed; otherwise a coarse label of the sealed interval is released (S8).

    Question j after f surprises has a level of its own, ``beta w_j``, and an interval procedure that is decided by
    public facts. What is told of a guess that holds is public: the interval that sealed rows just like the guess would
    have, and beyond it as far on either side as honest guesses are off. The guess is confirmed if the sealed interval
    lies inside. Otherwise it is a surprise, a label of the sealed interval is released, and every later question pays
    for both.

    Questions that are asked together are one step: all of them have the levels of its start, and what surprises among
    them is paid for by later questions (S9).

    The budget is a plan. When it is used up, an endless holdout goes on with wider intervals, and refuses only what
    would say nothing. Otherwise it refuses when not even an answer to the hardest question, a yes-or-no question with a
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
        >>> mechanism = GuessAndCheck.tuned(rows=20_000, queries=1_000, overfits=10)
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
    earlier_statements: ClassVar[tuple[str, ...]] = ("S3",)
    presentation: ClassVar[Presentation] = Presentation(
        page="intervals",
        colour="#009e73",
        explanation=(
            "Each question comes with a guess: the estimate from the training rows, or the analyst's own. If the "
            "guess is as close to the sealed rows as honest guesses are, it is confirmed and is the answer. "
            "Otherwise the answer is what the sealed rows say, rounded to a coarse grid, and one surprise is "
            "charged. No noise is added."
        ),
        ends=(
            "Questions are refused as soon as the answer to the hardest yes-or-no "
            "question could no longer be kept within the half-width."
        ),
        endless=(
            "Questions that are asked together share one step: all of them are answered with the levels of its start, "
            "and surprises among them are paid for by later questions. When the budget is used up, questions are still "
            "answered, with wider intervals; they are refused only where an interval would say nothing."
        ),
        theorem=DESCRIPTION_LENGTH,
        sentence=(
            "Until {budget} {are} used up, every confirmed guess of a mean over all rows is {reach} and every "
            "other answer within the interval that was told with it, all of them at once, {holds}."
        ),
        no_privacy="no noise is added to the answers",
        left=(
            "Questions and surprises left are what is left of the plan: every new answer takes one question, and "
            "every charge one surprise. As long as the half-width has room, questions are answered beyond the "
            "plan. Without room no question is left; that can come before the plan is used up where values are no "
            "yes or no, because what such a surprise tells may count for more."
        ),
        left_endless=(
            "Questions and surprises left are what is left of the plan: every new answer takes one question, and "
            "every charge one surprise. When it is used up, questions are still answered, with wider intervals."
        ),
        earlier_left=(
            "Surprises left are those after which all planned questions still fit into the half-width; there can "
            "be more than were planned, as long as it has room for them, and fewer where values are no yes or no, "
            "because what such a surprise tells may count for more."
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

    @cached_property
    def beta(self) -> float:
        """Probability that is left for the tree to fail: what declared families do not have."""
        return (1.0 - self.statement_confidence) * (1.0 - self.share)

    def parameters(self) -> dict[str, Any]:
        """See `Mechanism.parameters`; what came later is left out where it is not used, as in earlier ledgers."""
        return {name: value for name, value in super().parameters().items() if value != _LATER.get(name)}

    def sharing(self, share: float) -> Self:
        """The same wish with a share of the probability of failure for declared families (S10)."""
        return replace(self, share=share)._tuned()

    def described(self, nats: float) -> float:
        """ln(1 / level) of a member of a declared family whose weight is ``exp(-nats)`` (S10)."""
        return nats - math.log((1.0 - self.statement_confidence) * self.share)

    def of_text(self, nats: float) -> float:
        """ln(1 / level) of a text whose weight among all texts is ``exp(-nats)``: of what the tree leaves (S10)."""
        return nats - math.log(self.beta * self.tree.left_over)

    @classmethod
    def tuned(
        cls,
        *,
        rows: int,
        queries: int,
        overfits: int | None = None,
        confidence: float = 0.95,
        slack: float = 0.0,
        **shared: Any,
    ) -> Self:
        """The smallest tolerance for the wish; see `Mechanism.tuned`. Also takes the other attributes.

        So many ``overfits`` has the tolerance to survive: by default 10, or one for each question if fewer. No budget
        is spent on guesses closer than ``slack`` times the tolerance to the population's value. It is endless unless it
        has a slack.
        """
        check_slack(slack)
        draft = cls(
            rows=rows, queries=queries, overfits=planned_overfits(overfits, queries), confidence=confidence,
            slack=slack, tolerance=1.0, **{"endless": not slack, **shared},
        )  # fmt: skip
        if slack and "grid" not in shared:
            return with_best_grid(lambda grid: replace(draft, grid=grid)._tuned(), lambda made: made.tolerance)
        return draft._tuned()

    @classmethod
    def for_wish(cls, *, overfits: int, slack: float, training_rows: int = 0, **wish: Any) -> Self:
        """`tuned`, with what guesses may cost and how many rows they are made from."""
        return cls.tuned(overfits=overfits, slack=slack, training_rows=training_rows, **wish)

    def _tuned(self) -> Self:
        return replace(self, tolerance=self._least_tolerance())

    def _least_tolerance(self) -> float:
        last = self._last_concentration
        return max(self._widest_honest + last, 2.0 * last / (1.0 - self.slack) if self.slack else 0.0) + self.rounding

    @cached_property
    def tree(self) -> QuestionTree:
        """The weighted tree of all questions that can be asked."""
        return QuestionTree(queries=self.queries)

    @cached_property
    def procedure(self) -> OfMeans:
        """As for every mechanism, with guesses from the training rows."""
        made = super().procedure
        return replace(made, training=self.effective_training)

    @cached_property
    def yes_no_procedure(self) -> OfMeans:
        """That of a yes-or-no question with a guess from the training rows."""
        kind = ClopperPearson if self.dependence.binomial_tails else Hoeffding
        return kind(rows=self.effective_rows(self.rows), training=self.effective_training)

    @property
    def effective_training(self) -> float:
        """Effective number of independent rows that guesses are made from, worth as much each as sealed ones."""
        return self.effective_rows(self.training_rows or self.rows)

    def nats(self, asked: ArrayLike, charged: ArrayLike, labels: ArrayLike) -> NDArray[np.float64]:
        """ln(1 / level) of question number ``asked`` after so many surprises, whose labels cost so many nats."""
        weight = self.tree.log_inverse_weight(asked=asked, surprises=charged, labels=labels)
        return weight - math.log(self.beta)

    def _next_nats(self, state: State, count: int = 1) -> NDArray[np.float64]:
        """Those of the next questions as long as none is a surprise, shape (count,)."""
        return self.nats(state.asked + 1 + np.arange(count), state.charged, state.labels / 1e6)

    def concentration(self, nats: ArrayLike) -> NDArray[np.float64]:
        """Half-width that no interval of a mean exceeds at a level, whatever the sealed mean is."""
        return self._concentration(nats)

    def _concentration(self, nats: ArrayLike) -> NDArray[np.float64]:
        """At least the half-width of what a sealed mean leaves possible: Hoeffding's, which no procedure exceeds."""
        return hoeffding_radius(rows=self.effective_rows(self.rows), log_inverse_level=nats)

    @cached_property
    def _widest_honest(self) -> float:
        """The furthest that a sealed mean may be from what is told of it: a guess of 1/2, or half a cell."""
        low, _ = self.procedure.honest(0.5, self.allowance)
        return max(0.5 - float(low), 0.25 * math.pi / self.grid)

    @property
    def _last_concentration(self) -> float:
        """Largest concentration within the plan: at its last question, after the dearest number of surprises."""
        most = min(self.overfits, self.queries - 1)
        dearest = self.queries * self.grid / (self.grid + 1.0)  # there C(m, f+1) G^f is largest
        surprises = np.clip(np.round(dearest + np.arange(-2.0, 3.0)), 0.0, most)
        labels = surprises * self.cells.cost / 1e6
        return float(np.max(self._concentration(self.nats(self.queries, surprises, labels))))

    def _allowed(self, concentration: ArrayLike) -> NDArray[np.float64]:
        """Largest distance of sealed means from the told value: honest guesses, and those within the slack."""
        spared = self.slack * (self.tolerance - self.rounding) + np.asarray(concentration) if self.slack else 0.0
        return np.maximum(self._widest_honest, spared)

    def _has_room(self, nats: ArrayLike) -> NDArray[np.bool_]:
        """True if the next question is answered: within the plan, or where an endless one still says something."""
        room = self._within_plan(nats)
        if self.endless:
            room = room | (self._concentration(nats) + self.rounding < _SAYS_NOTHING)
        return np.asarray(room)

    def _within_plan(self, nats: ArrayLike) -> NDArray[np.bool_]:
        """True if the answer to the hardest question would still be within the tolerance."""
        concentration = self._concentration(nats)
        room = self.tolerance - self.rounding - concentration - self._allowed(concentration)
        return np.asarray(room >= -1e-12)  # the tuned tolerance leaves exactly no room at the end of the plan

    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """Step by step (S9): all questions of one at the levels of its start; mostly one step is enough."""
        replies, done = Replies.refused(len(evaluations)), 0
        while count := self.surely_answers(state, len(evaluations) - done):
            step = BatchStep.of(self, evaluations.some([*range(done, done + count)]), self._next_nats(state, count))
            state, done = step.tell(replies, done, state), done + count
        return state, replies

    def procedures_of(self, evaluations: Evaluations) -> Sequence[Procedure]:
        """One procedure for each question, in force; a slack does not touch challenges, which tell no interval."""
        procedures = super().procedures_of(evaluations)
        if evaluations.margins is not None:
            return procedures
        return [self.in_force(procedure) for procedure in procedures]

    def in_force(self, procedure: Procedure) -> Procedure:
        """The procedure of a question; with a slack, that of means without a spread of their own.

        The width of an interval that depends on the sealed spread is not known beforehand, so nobody could promise
        that near guesses are no surprises.
        """
        return self.procedure if self.slack and _bets_on_means(procedure) else procedure

    def procedure_at(self, procedure: Procedure, guess: float, nats: float) -> Procedure:
        """The procedure of a question at its node: bets, unless they are expected to be much wider than means alone.

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

    def expected(
        self, state: State, guess: float, procedure: Procedure | None = None, described: Description | None = None
    ) -> Expected:
        """Expected form of the next answer to a query with this guess, from public facts.

        Args:
            state: Before.
            guess: In units of a mean over [0, 1].
            procedure: The question's; by default that of any mean of values in [0, 1].
            described: The level and the procedure that it has by its description, if it has one.
        """
        procedure, nats = self._next_event(state, guess, procedure, described)
        confirmed, likely = self.told_of_guess(procedure, guess, nats), procedure.expected(guess, nats)
        if isinstance(procedure, OfMeans):
            furthest = procedure.honest(guess, self.allowance)[1]
            released = self._told_of_cell(procedure, math.floor(float(furthest) * self.steps), nats)
        else:
            usual = Offsets.of(procedure, guess, nats).usual
            released = guess - usual - self.rounding, guess + usual + self.rounding
        return Expected(confirmed, released, (likely[0] - self.rounding, likely[1] + self.rounding))

    def _next_event(
        self, state: State, guess: float, procedure: Procedure | None, described: Description | None
    ) -> tuple[Procedure, float]:
        """Procedure and ln(1 / level) of the next question."""
        nats = float(self._next_nats(state)[0])
        return narrower(self.procedure_at(procedure or self.procedure, guess, nats), nats, described)

    @cached_property
    def cells(self) -> ArcsineCells:
        """Labels of a surprise about a sealed mean."""
        return ArcsineCells(self.grid, self.steps)

    def _told_of_cell(self, procedure: OfMeans, total: int, nats: float) -> tuple[float, float]:
        low, high = procedure.span(*self.cells.told(total), nats)
        return float(low) - self.rounding, float(high) + self.rounding

    def told_of_guess(self, procedure: Procedure, guess: float, nats: float) -> tuple[float, float]:
        """The interval that a confirmed guess is told with; public."""
        if isinstance(procedure, OfMeans):
            low, high = self.told_of_guesses(procedure, np.array([guess]), np.array([nats]))
            return float(low[0]), float(high[0])
        reach = self.allowance * procedure.standard_error(guess)
        if self.slack and isinstance(
            procedure, BoundedDifferences
        ):  # whatever near guesses leave possible, as of means
            reach = max(reach, self.slack * (self.tolerance - self.rounding) + procedure.reach(nats))
        least, most = procedure.expected(guess, nats)
        least, most = least - reach, most + reach
        if procedure.of_all_rows:
            ends = self._rounded(np.array([guess]), np.array([least]), np.array([most]), np.array([nats]))
            return float(ends[0][0]), float(ends[1][0])
        return float(max(least - self.rounding, 0.0)), float(min(most + self.rounding, 1.0))

    def told_of_guesses(self, procedure: OfMeans, guesses: NDArray[np.float64], nats: NDArray[np.float64]) -> Ends:
        """`told_of_guess` for questions whose intervals are functions of the sealed mean, shape (questions,) each.

        It is the interval that a sealed mean like the guess would have, and beyond it as far on either side as honest
        guesses are off. With a slack it holds whatever such means leave possible (S8, no needless surprises).
        """
        low, high = procedure.span(guesses, guesses, nats)
        least, most = procedure.honest(guesses, self.allowance)
        low, high = low - (guesses - least), high + (most - guesses)
        if self.slack:
            spared = self._allowed(concentration := self._concentration(nats)) + concentration
            low, high = np.minimum(low, guesses - spared), np.maximum(high, guesses + spared)
        return self._rounded(guesses, low, high, nats)

    def _rounded(
        self, guesses: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64],
        nats: NDArray[np.float64],
    ) -> Ends:  # fmt: skip
        """Both ends with what the grid hides, and within the tolerance as long as the plan lasts."""
        reach = np.where(self._within_plan(nats), self.tolerance, 1.0)
        told = np.maximum(low - self.rounding, np.maximum(guesses - reach, 0.0))
        return told, np.minimum(np.minimum(high + self.rounding, guesses + reach), 1.0)

    def reachable(self, state: State) -> bool:
        """Before the last step there was room for its last answer; there is no other limit.

        What labels cost may be left out. How many of the surprises were in the last step is tried for a few numbers:
        none, one, all, and those after which as many labels are left as can be.
        """
        if not 0 <= state.charged <= state.asked:
            return False
        if not state.asked:
            return True
        least, most = max(state.charged - _MOST_AT_ONCE, 0), min(state.charged, state.asked - 1)
        without_labels = state.charged - state.labels // self._dearest_label
        spread = np.linspace(least, most, _TRIED).astype(np.int64)
        before = np.clip(np.concatenate([spread, [state.charged - 1, without_labels - 1, without_labels]]), least, most)
        last = (state.charged - before) * self._dearest_label  # the labels of the last step at their dearest
        labels = np.maximum(state.labels - last, 0) / 1e6
        return bool(np.any(self._has_room(self.nats(state.asked, before, labels))))

    def losable(self, *, questions: int, charges: int) -> bool:
        """Some answers are surprises."""
        return charges <= questions

    def labels_of(self, surprises: int, *, forced: int = 0) -> tuple[int, float]:
        """See `Mechanism.labels_of`: of cells, or of offsets from a guess."""
        most = math.inf if forced else surprises * self._dearest_label
        return surprises * min(self.cells.cost, in_millionths(CHEAPEST)), most

    def lost_labels_of(self, surprises: int) -> tuple[int, int]:
        """See `Mechanism.lost_labels_of`: the dearest label of an earlier version, or of this one."""
        return surprises * in_millionths(max(math.log(self.grid), EARLIER_DEAREST)), surprises * self._dearest_label

    def after_loss(self, state: State, *, asked: int | None, charged: int | None, noise: Noise) -> State:
        """With both counts it goes on as if nothing had been lost; lost labels count as the dearest there are (S8)."""
        if asked is None or charged is None:
            raise ValueError("the number of answers is lost, too, and the next interval depends on it")
        return state.after(asked=asked, charged=charged, labels=charged * self._dearest_label)

    @property
    def _dearest_label(self) -> int:
        """The most that one label can cost, in millionths of a nat."""
        return in_millionths(max(math.log(self.grid), DEAREST))

    def promise(self) -> Promise:
        """The tolerance: it holds whatever happens, until the room for surprises is used up."""
        last = self._last_concentration
        quiet = float(self._concentration(self.nats(self.queries, 0, 0.0)))
        details = {
            "concentration": last, "concentration_without_surprise": quiet, "reach": float(self._allowed(last))
        }  # fmt: skip
        beyond = self.slack * (self.tolerance - self.rounding) - self.rounding if self.slack else None
        return self._promised(self.tolerance, details, spends_only_beyond=beyond)

    def expected_radius(self, at: float, alike: float | None = None) -> float:
        """That of a confirmed answer to a yes-or-no question, the last planned one, if no guess was a surprise."""
        quiet = float(self.nats(self.queries, 0, 0.0))
        low, high = self.told_of_guess(self.yes_no_at(at, quiet, alike), at, quiet)
        return float(high - low) / 2.0

    def yes_no_at(self, at: float, nats: float, alike: float | None) -> Procedure:
        """The procedure in force of a planned yes-or-no question; `alike` is as for `expected_radius`."""
        bets = self.bets_on_groups(at, alike, training_rows=self.training_rows or self.rows)
        return self.yes_no_procedure if bets is None else self.procedure_at(bets, at, nats)

    def surely_answers(
        self, state: State, most: int, procedures: Sequence[Procedure] | None = (), *, silent: bool = False
    ) -> int:
        """Those of the next step that have room, whatever is a surprise in it (S9)."""
        return _leading(self._has_room(self._next_nats(state, min(most, _MOST_AT_ONCE))))

    def _label_of(self, procedures: Sequence[Procedure] | None) -> int:
        """The most that a label of a question with one of these procedures costs, in millionths of a nat."""
        if procedures is None:  # a promotion tells no interval
            return 0
        of_means = bool(procedures) and all(isinstance(self.in_force(each), OfMeans) for each in procedures)
        return self.cells.cost if of_means else self._dearest_label

    def leaves_room(self, state: State, silent: int, procedures: Sequence[Procedure] | None) -> bool:
        """See `Mechanism.leaves_room`: the next answer may be a surprise or not."""
        surprises, labels = np.array([0, 1]), np.array([0, self._label_of(procedures)])
        nats = self.nats(state.asked + 1 + silent, state.charged + surprises, (state.labels + labels) / 1e6)
        return bool(np.all(self._has_room(nats)))

    def quote(
        self, state: State, *, guess: float | None = None, procedure: Procedure | None = None,
        described: Description | None = None,
    ) -> Quote:  # fmt: skip
        """Bounds if the guess holds and if it does not; the width unsealed is that of sealed rows like the guess."""
        hardest = self._quote_of_hardest(state)
        if hardest.refused or guess is None or procedure is None:
            return hardest
        expected = self.expected(state, guess, procedure, described)
        procedure, nats = self._next_event(state, guess, procedure, described)
        released = float(self._concentration(nats)) + self.rounding + 0.25 * math.pi / self.grid
        if not isinstance(procedure, OfMeans):
            released = widest_told(
                procedure.widest_if_honest(nats) + self.rounding, procedure.frame[1] - procedure.frame[0]
            )
        confirmed, unsealed = farthest(guess, expected.confirmed), _half(expected.unsealed)
        return Quote(confirmed, released, 0, 1, refused=False, radius_unsealed=unsealed, confirmed=expected.confirmed)

    def _quote_of_hardest(self, state: State) -> Quote:
        """Of a yes-or-no question whose guess is 1/2."""
        nats = self._next_nats(state)
        if not self._has_room(nats)[0]:
            return REFUSED
        concentration = float(self._concentration(nats)[0]) + self.rounding
        confirmed = concentration + float(self._allowed(concentration - self.rounding))
        return Quote(confirmed, concentration + 0.25 * math.pi / self.grid, 0, 1, refused=False)

    def outlook(self, state: State) -> dict[str, float]:
        """See `Mechanism.outlook`: of the next answer, the one after `_AHEAD` more surprises, and a usual text."""
        later = state.after(asked=_AHEAD, charged=_AHEAD, labels=_AHEAD * self.cells.cost)
        found = {"now": state, f"after {_AHEAD} more surprises": later}
        told = {name: self.quote(at, guess=0.5, procedure=self.yes_no_procedure).radius for name, at in found.items()}
        if self.text_bits >= USUAL_TEXT_BITS:
            text = Description(self.of_text(USUAL_TEXT_BITS * math.log(2.0)), self.yes_no_procedure)
            told[f"a text of {USUAL_TEXT_BITS} bits"] = self.quote(
                state, guess=0.5, procedure=self.yes_no_procedure, described=text
            ).radius
        return {name: radius for name, radius in told.items() if radius is not None}

    def remaining(self, state: State) -> dict[str, int]:
        """Planned questions left, and planned surprises left, which fall by what is charged and by nothing else.

        No question is left when the tolerance has no room for another answer.
        """
        refused = self._quote_of_hardest(state).refused
        return {
            "questions": 0 if refused else max(self.queries - state.asked, 0),
            "overfits": max(self.overfits - state.charged, 0),
        }

    def earlier_remaining(self, state: State) -> dict[str, int]:
        """See `Mechanism.earlier_remaining`: earlier versions counted the surprises that the tolerance survives."""
        return {
            **self.remaining(state),
            "overfits": _surprises_left(self, state.asked, state.charged, state.labels),
        }


@lru_cache(maxsize=4096)
def _surprises_left(mechanism: GuessAndCheck, asked: int, charged: int, labels: int) -> int:
    found, chunk = 0, _FIRST_CHUNK
    while found < _MOST_OVERFITS_COUNTED:  # few are left as a rule: look at few first
        more = found + np.arange(1, chunk + 1)
        last = np.maximum(mechanism.queries, asked + more + 1)  # room is needed until the planned questions are over
        cost = (labels + more * mechanism.cells.cost) / 1e6
        kept = _leading(mechanism._has_room(mechanism.nats(last, charged + more, cost)))
        found += kept
        if kept < chunk:
            break
        chunk *= 4
    return min(found, _MOST_OVERFITS_COUNTED)


def _bets_on_means(procedure: Procedure) -> bool:
    """True if it is about a mean over all rows, and as wide as the sealed values spread."""
    return procedure.of_all_rows and not procedure.width_is_known


def _half(interval: tuple[float, float]) -> float:
    """Half of what an interval has of [0, 1]."""
    return (min(interval[1], 1.0) - max(interval[0], 0.0)) / 2.0


def farthest(value: float, interval: tuple[float, float]) -> float:
    """The farthest distance from a value to what an interval has of [0, 1]."""
    return max(value - max(interval[0], 0.0), min(interval[1], 1.0) - value)


def _leading(flags: NDArray[np.bool_]) -> int:
    """Number of true flags at the beginning."""
    return len(flags) if bool(np.all(flags)) else int(np.argmin(flags))
