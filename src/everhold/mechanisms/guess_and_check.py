"""Guess and check: a guess is confirmed or corrected, without noise, pay as you go (S3, weighted form)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from everhold.arguments import as_float, as_whole, brief
from everhold.guarantees.concentration import hoeffding_radius
from everhold.guarantees.description_length import QuestionTree
from everhold.mechanisms.base import REFUSED, Mechanism, Promise, Quote, Replies, Source, State, whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.mechanisms.evaluations import Evaluations
    from everhold.privacy.noise import Noise

__all__ = ["DESCRIPTION_LENGTH", "ChecksGuesses", "GuessAndCheck", "check_slack", "planned_overfits"]

DESCRIPTION_LENGTH = (
    "Without noise, and with coarse answers, only so many courses of questions and answers are possible. All "
    "questions that can ever come up form a tree that is fixed before the sealed rows are looked at. Each of them "
    "is given its share of the probability of failure, beta; a fixed question with a share b is further than its "
    "concentration bound sqrt(ln(2/b) / (2 n)) from the population's value with probability at most b. So with "
    "probability at least 1 - beta no question that could have been asked breaks its bound, and none that was "
    "asked does."
)
"""What a certificate says of S3."""

Gridded = TypeVar("Gridded", bound=Mechanism)

_MOST_OVERFITS_COUNTED = 2**16
_FIRST_CHUNK = 64
_FIRST_FORESEEN, _MOST_FORESEEN = 16, 256
_USUAL_OVERFITS = 10
_GRIDS = np.unique(np.geomspace(1, 4096, 200).astype(int)).tolist()


@dataclass(frozen=True, kw_only=True)
class ChecksGuesses(Mechanism):
    """Every question comes with a guess, and only a surprise, where it is wrong, is paid from the budget.

    Attributes:
        overfits: Planned number of surprises B, which are answered from the holdout.
    """

    overfits: int

    needs_guess: ClassVar[bool] = True
    sources: ClassVar[tuple[str, ...]] = ("training", "guess", "holdout")
    charged_in: ClassVar[Literal["answers", "surprises", "credits"]] = "surprises"
    largest: ClassVar[Mapping[str, int]] = {**Mechanism.largest, "overfits": 10**6}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_overfits(self.overfits, self.queries)

    @classmethod
    def for_wish(cls, *, overfits: int, slack: float, **wish: Any) -> Self:
        """`tuned`, with what guesses may cost."""
        return cls.tuned(overfits=overfits, slack=slack, **wish)


@dataclass(frozen=True, kw_only=True)
class GuessAndCheck(ChecksGuesses):
    """A guess within ``T_j`` of the sealed average is confirmed; otherwise its cell of a coarse grid is released.

    Question j after f releases has its own concentration ``conc_j`` at level ``beta w_j``. The check is
    ``T_j = min(slack * tau + conc_j, tau - conc_j)``: every answer is within the tolerance tau whatever came before,
    and early answers of a well-behaved analyst are much narrower. Budget is spent only on guesses that are at least
    ``T_j - conc_j`` from the population's value. When ``conc_j`` leaves no room for a release, questions are refused.

    Attributes:
        tolerance: tau, the half-width that holds for every answer.
        grid: Number G of values that a released answer can take; its rounding error is ``1 / (2 G)``.
        slack: c in [0, 1): within the plan no budget is spent on guesses closer than ``c tau`` to the population.

    Examples:
        >>> mechanism = GuessAndCheck.tuned(rows=20_000, queries=1_000, overfits=10)
        >>> round(mechanism.promise().radius, 3), mechanism.grid
        (0.093, 11)
    """

    tolerance: float
    grid: int
    slack: float = 0.0

    name: ClassVar[str] = "guess_and_check"
    statement: ClassVar[str] = "S3"
    page: ClassVar[str] = "description length"
    colour: ClassVar[str] = "#009e73"
    adds_noise: ClassVar[bool] = False
    beyond_the_plan: ClassVar[bool] = True
    largest: ClassVar[Mapping[str, int]] = {**ChecksGuesses.largest, "grid": 10**9}
    theorem: ClassVar[str] = DESCRIPTION_LENGTH
    explanation: ClassVar[str] = (
        "Each question comes with a guess: the estimate from the training rows, or the analyst's own. If the guess "
        "is close to the average over the sealed rows, it is confirmed and is the answer. Otherwise the answer is "
        "the sealed average, rounded to a coarse grid, and one overfit is charged. No noise is added. Questions "
        "are refused as soon as an answer could no longer be kept within the half-width."
    )
    no_privacy: ClassVar[str] = "no noise is added to the answers"
    left: ClassVar[str] = (
        "Overfits left are the surprises after which all planned questions still fit into the half-width; there can be "
        "more than were planned, as long as it has room for them."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_slack(self.slack)
        whole(self, "grid")
        if not self.tolerance > 0.0:
            raise ValueError(f"tolerance is {self.tolerance}; expected a positive half-width")

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
        """The tolerance and the grid with the smallest radius for the wish; see `Mechanism.tuned`.

        So many ``overfits`` has the tolerance to survive: by default 10, or one for each question if fewer. No budget
        is spent on guesses closer than ``slack`` times the tolerance to the population's value.
        """
        check_slack(slack)
        planned = planned_overfits(overfits, queries)

        return with_best_grid(
            lambda grid: cls(
                rows=rows, queries=queries, overfits=planned, confidence=confidence, slack=slack,
                tolerance=1.0, grid=grid, **shared,
            )._with_least_tolerance(),
            lambda made: made.tolerance,
        )  # fmt: skip

    def _with_least_tolerance(self) -> Self:
        last = self._last_concentration
        room = max(2.0 * last / (1.0 - self.slack), last + 0.5 / self.grid)
        return replace(self, tolerance=room + self.rounding)

    @cached_property
    def tree(self) -> QuestionTree:
        """The weighted tree of all questions that can be asked."""
        return QuestionTree(queries=self.queries, overfits=self.overfits, grid=self.grid)

    def _log_inverse_level(self, asked: ArrayLike, released: ArrayLike) -> NDArray[np.float64]:
        return self.tree.log_inverse_weight(asked=asked, released=released) - math.log(self.beta)

    def _concentration(self, asked: ArrayLike, released: ArrayLike) -> NDArray[np.float64]:
        """conc_j of question number ``asked`` after ``released`` releases."""
        level = self._log_inverse_level(asked, released)
        return hoeffding_radius(rows=self.effective_rows(self.rows), log_inverse_level=level)

    @property
    def _last_concentration(self) -> float:
        """Largest concentration within the plan: at its last question, after the unlikeliest number of releases."""
        most = min(self.overfits, self.queries - 1)
        unlikeliest = self.queries * self.grid / (self.grid + 1.0)  # there C(m-1, f) G^f is largest
        released = np.clip(np.round(unlikeliest + np.arange(-2.0, 3.0)), 0.0, most)
        return float(np.max(self._concentration(self.queries, released)))

    def _threshold(self, concentration: NDArray[np.float64]) -> NDArray[np.float64]:
        room = self.tolerance - self.rounding
        return np.minimum(self.slack * room + concentration, room - concentration)

    def _has_room(self, concentration: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether an answer, also a released one, would still be within the tolerance."""
        room = self.tolerance - self.rounding - concentration - 0.5 / self.grid
        return np.asarray(room >= -1e-15)  # the tuned tolerance leaves exactly no room at the end of the plan

    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """Confirm runs of good guesses at once; each surprise starts a new run."""
        if evaluations.margins is not None and evaluations.procedures is not None:
            return self._judge(state, evaluations)
        replies = Replies.refused(len(evaluations))
        totals, guesses = evaluations.totals.sum(axis=1), evaluations.guesses
        done = 0
        while done < len(evaluations):
            asked = state.asked + 1 + np.arange(len(evaluations) - done)
            level = self._log_inverse_level(asked, state.charged)
            concentration = hoeffding_radius(rows=self.effective_rows(self.rows), log_inverse_level=level)
            open_run = _leading(self._has_room(concentration))
            tolerated = np.floor(self._threshold(concentration) * self.steps)
            confirmed = _leading((np.abs(totals[done:] - guesses[done:]) <= tolerated)[:open_run])
            run = slice(done, done + confirmed)
            middle, reach = guesses[run] / self.steps, tolerated[:confirmed] / self.steps
            replies.put(run, middle, self._interval(middle, reach, level[:confirmed]), Source.GUESS)
            state = state.after(asked=confirmed, charged=0)
            done += confirmed
            if confirmed == open_run:
                break
            state = self._release(state, int(totals[done]), level[confirmed : confirmed + 1], replies, done)
            done += 1
        return state, replies

    def _judge(self, state: State, evaluations: Evaluations) -> tuple[State, Replies]:
        replies = Replies.refused(len(evaluations))
        assert evaluations.procedures is not None
        assert evaluations.margins is not None
        for place, (procedure, margin) in enumerate(zip(evaluations.procedures, evaluations.margins, strict=True)):
            nats = float(self._log_inverse_level(state.asked + 1, state.charged))
            seen = None if evaluations.seen is None else evaluations.seen[place]
            mean = float(evaluations.totals[place].sum()) / self.steps
            low, _ = procedure.interval(mean if procedure.needs == "total" else seen, nats - math.log(2.0))
            promoted = low >= margin
            replies.sources[place] = Source.PROMOTED if promoted else Source.KEPT
            replies.charged[place] = promoted
            state = state.after(charged=int(promoted))
        return state, replies

    def reachable(self, state: State) -> bool:
        """Before the last answer, which was released or confirmed, there was room for it; there is no other limit."""
        if not 0 <= state.charged <= state.asked:
            return False
        if not state.asked:
            return True
        released = np.arange(max(state.charged - 1, 0), min(state.charged, state.asked - 1) + 1)
        return bool(np.any(self._has_room(self._concentration(state.asked, released))))

    def losable(self, *, questions: int, charges: int) -> bool:
        """Some answers are released."""
        return charges <= questions

    def after_loss(self, state: State, *, asked: int | None, charged: int | None, noise: Noise) -> State:
        """Weights depend on the two counts alone, so with both of them it goes on as if nothing had been lost (S3)."""
        if asked is None or charged is None:
            raise ValueError("the number of answers is lost, too, and the next interval depends on it")
        return state.after(asked=asked, charged=charged)

    def _release(self, state: State, total: int, level: NDArray[np.float64], replies: Replies, position: int) -> State:
        cell = min(total * self.grid // self.steps, self.grid - 1)
        middle, reach = np.array([(cell + 0.5) / self.grid]), np.array([0.5 / self.grid])
        replies.put(slice(position, position + 1), middle, self._interval(middle, reach, level), Source.HOLDOUT)
        return state.after(charged=1)

    def _interval(
        self, middle: NDArray[np.float64], reach: NDArray[np.float64], level: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """All population values that some sealed average in ``middle ± reach`` does not exclude."""
        return self.not_excluded(middle - reach, middle + reach, rows=self.rows, log_inverse_level=level)

    def promise(self) -> Promise:
        """The tolerance: it holds whatever happens, until the room for surprises is used up."""
        last = self._last_concentration
        threshold = float(self._threshold(np.asarray(last)))
        quiet = float(self._concentration(self.queries, 0))
        details = {"concentration": last, "concentration_without_surprise": quiet, "threshold": threshold}
        return self._promised(self.tolerance, details, spends_only_beyond=max(threshold - last - self.rounding, 0.0))

    def surely_answers(self, state: State, most: int) -> int:
        """As long as there is room after any number of surprises; foresees no more than `_MOST_FORESEEN` questions."""
        foreseen, sure = min(most, _FIRST_FORESEEN), 0
        while sure < foreseen:
            sure = self._with_room_for_surprises(state, foreseen)
            if sure < foreseen:
                break
            foreseen = min(most, 4 * foreseen, _MOST_FORESEEN)
        return sure

    def _with_room_for_surprises(self, state: State, questions: int) -> int:
        """How many of the next questions have room for a release whichever of those before them were surprises."""
        before = np.arange(questions)[:, None]
        surprises = np.minimum(np.arange(questions)[None, :], before)
        room = self._has_room(self._concentration(state.asked + 1 + before, state.charged + surprises))
        return _leading(np.all(room, axis=1))

    def quote(self, state: State) -> Quote:
        """Half-width now, if the guess holds or if it does not."""
        concentration = self._concentration(state.asked + 1, state.charged)
        if not self._has_room(concentration):
            return REFUSED
        fixed = float(concentration) + self.rounding
        return Quote(float(self._threshold(concentration)) + fixed, 0.5 / self.grid + fixed, 0, 1, refused=False)

    def remaining(self, state: State) -> dict[str, int]:
        """Planned questions left, and how many more surprises the tolerance survives while they are asked."""
        return {
            "questions": 0 if self.quote(state).refused else max(self.queries - state.asked, 0),
            "overfits": _surprises_left(self, state.asked, state.charged),
        }


@lru_cache(maxsize=4096)
def _surprises_left(mechanism: GuessAndCheck, asked: int, released: int) -> int:
    found, chunk = 0, _FIRST_CHUNK
    while found < _MOST_OVERFITS_COUNTED:  # few are left as a rule: look at few first
        more = found + np.arange(1, chunk + 1)
        last = np.maximum(mechanism.queries, asked + more + 1)  # room is needed until the planned questions are over
        kept = _leading(mechanism._has_room(mechanism._concentration(last, released + more)))
        found += kept
        if kept < chunk:
            break
        chunk *= 4
    return min(found, _MOST_OVERFITS_COUNTED)


def _leading(flags: NDArray[np.bool_]) -> int:
    """How many flags at the beginning are true."""
    return len(flags) if bool(np.all(flags)) else int(np.argmin(flags))


def with_best_grid(with_grid: Callable[[int], Gridded], radius: Callable[[Gridded], float]) -> Gridded:
    """The mechanism with the smallest radius over all numbers of grid steps: looks coarsely, then closely."""
    coarse = int(min(_GRIDS, key=lambda grid: radius(with_grid(grid))))
    around = range(max(coarse - coarse // 20 - 1, 1), coarse + coarse // 20 + 2)
    return min(map(with_grid, around), key=radius)


def planned_overfits(overfits: int | None, queries: int) -> int:
    """A wished number of overfits; by default 10, or one for each question if there are fewer questions."""
    if overfits is not None:
        return overfits
    return min(_USUAL_OVERFITS, queries) if isinstance(queries, (int, np.integer)) else _USUAL_OVERFITS


def check_overfits(overfits: int, queries: int) -> None:
    """Check a wished number of overfits against the number of questions."""
    if not 1 <= (as_whole(overfits) or 0) <= queries:
        raise ValueError(f"overfits is {brief(overfits)}; expected a whole number from 1 to the {queries} questions")


def check_slack(slack: float) -> None:
    """Check the share of the tolerance that must not cost budget."""
    if not 0.0 <= as_float(slack) < 1.0:
        raise ValueError(f"slack is {brief(slack)}; expected a number in [0, 1)")
