"""The Ladder: every submission is answered with the best score so far, and only a clear improvement shows (S3).

Teams may share one ladder, or each team has its own. Then the team's best score so far comes with the query.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from everhold.guarantees.description_length import QueryTree, hoeffding_radius, log_choose, log_ladder_size
from everhold.guarantees.intervals.means import ClopperPearson, OfMeans
from everhold.mechanisms import Mechanism, Promise, Quote, Replies, Source, State, Traits
from everhold.mechanisms.accounting import Accounting
from everhold.mechanisms.base import REFUSED, whole, with_best_grid
from everhold.mechanisms.labels import in_millionths
from everhold.mechanisms.records import Presentation

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms.records import Evaluations
    from everhold.randomness import Noise
    from everhold.values.base import BoundQuery

Interval = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


class BestAccounting(Accounting["Ladder"]):
    """Accounting of the Ladder: a submission counts against the budget only if it becomes the new best."""

    def reachable(self, state: State) -> bool:
        """Return whether a state can occur, with no more new bests than submissions, or levels of a shared ladder."""
        most = state.asked if self.mechanism.teams > 1 else min(state.asked, self.mechanism.tree.levels)
        return state.charged <= most and state.asked <= self.mechanism.queries

    def labels_of(self, surprises: int, *, forced: int = 0, failing: bool = True) -> tuple[int, float]:
        """Return the least and largest cost of the labels of this many new bests, in millionths of a nat."""
        dearest = math.log(self.mechanism.grid + 1) + self.mechanism.cost_of_ends
        return 0, 0 if self.mechanism.teams == 1 else surprises * in_millionths(dearest)

    def losable(self, *, queries: int, charges: int) -> bool:
        """Return whether recovery is possible after the loss of these answers: if no new best was among them."""
        return charges == 0

    def after_loss(self, state: State, *, asked: int | None, charged: int | None, noise: Noise) -> State:
        """Return the state after the loss of submissions. ValueError if a lost submission was a new best.

        If a new best was lost, going back to an earlier best would be a sequence of events that is not in the tree of
        all submissions (S3).
        """
        if charged:
            raise ValueError(
                "a lost submission was a new best score, and a leaderboard cannot go on from an earlier best"
            )
        return super().after_loss(state, asked=asked, charged=charged, noise=noise)

    def charges_left(self, state: State) -> int:
        """Return 0, because new bests have no separate budget."""
        return 0


@dataclass(frozen=True)
class Scoreboard:
    """Writer of the replies to a batch of submissions. If higher scores are better, it turns losses into scores.

    Attributes:
        procedures: Interval procedure of each submission.
    """

    ladder: Ladder
    replies: Replies
    procedures: Sequence[Procedure]

    def most_of_a_new_best(self, state: State) -> int:
        """Return the largest sum of losses that makes a new best, which is every sum before the first submission."""
        steps = self.ladder.steps
        if state.asked == 0:
            return steps
        half_steps = 2 * state.carried_noise - self.ladder.margin
        return -(-half_steps * steps // (2 * self.ladder.grid)) - 1  # exact: whole numbers throughout

    def stand(self, state: State, where: slice) -> None:
        """Reply with the best score so far to submissions whose sealed mean does not improve it by the step."""
        ladder = self.ladder
        shown = np.full(where.stop - where.start, state.carried_noise / ladder.grid)
        level = ladder.log_inverse_level(state.asked + 1 + np.arange(len(shown)), state.charged)
        ends = ladder.not_excluded(self.procedures[where], shown - ladder.step, np.ones(len(shown)), level)
        self.put(where, shown, ends, Source.STANDING)

    def climb(self, state: State, loss: int, position: int) -> State:
        """Reply to one submission that is a new best, with its sealed mean rounded to the grid of scores."""
        ladder, where = self.ladder, slice(position, position + 1)
        best = (2 * loss * ladder.grid + ladder.steps) // (2 * ladder.steps)
        shown, half = np.array([best / ladder.grid]), 0.5 / ladder.grid
        level = ladder.log_inverse_level([state.asked + 1], state.charged)
        self.put(
            where, shown, ladder.not_excluded(self.procedures[where], shown - half, shown + half, level), Source.HOLDOUT
        )
        return State(state.asked + 1, state.charged + 1, best)

    def put(self, where: slice, shown: NDArray[np.float64], ends: Interval, source: Source) -> None:
        """Write shown losses, and both ends of the population losses that are not excluded, as replies in scores."""
        low, high = ends
        if self.ladder.better == "higher":
            shown, low, high = 1.0 - shown, 1.0 - high, 1.0 - low
        self.replies.put(where, shown, (low, high), source)


@dataclass(frozen=True, kw_only=True)
class Ladder(Mechanism):
    """Mechanism of a leaderboard that cannot be climbed by luck (Blum and Hardt 2015; Statement S3 of docs/theory).

    A query is a submission; its sealed mean is a loss, or a score if ``better`` is "higher" (then everything below is
    mirrored). The answer is the best so far, R: it stays unless the new sealed mean is below ``R - eta``; then it
    becomes the new mean, rounded to a multiple of ``eta = 1 / grid``. No noise is added. With ``margin=1`` a step of
    ``eta / 2`` is enough, which replaces ``eta`` in the following: the proof needs no more, and the radius is smaller.

    The *value* of a reply is R, the best of all submissions so far; the *interval* is about the submission itself:

    - New best (charged): its sealed mean is within ``eta / 2`` of R, and the interval has two sides.
    - Else (free): all that is told is that its sealed mean is at least ``R - eta``. So the interval is one-sided,
      from below R to 1. It says nothing about how bad the submission is.

    The radius of the promise is that of the best: R is always within it of the least population value among all
    submissions so far (`best` has the interval), and no submission's population value is more than it below R.

    Between two queries R is kept in ``State.carried_noise``, as a multiple of eta. It is public.

    With several ``teams`` each has a ladder of its own: R is the team's best, and comes with the query as its guess. A
    first submission has none and is always a new best. The accounting is that of guess and check (Statement S8):
    after a new best, all later submissions of all teams have wider intervals, which pays for the label that was told
    (the new best's position among the better steps). Scores that are no means are answered like this as well; the
    label of a new best then also has both ends of its interval, rounded outwards.

    Attributes:
        grid: Number of steps between 0 and 1; ``eta = 1 / grid``.
        margin: By how many half steps a new best has to be better: 2 as published, 1 for the smaller radius.
        better: Whether "lower" sealed means (losses) or "higher" ones (scores) are better.
        teams: Number of ladders, one for each team. 1 if all submissions share one ladder.
        scores: Whether all submitted scores are "shares" of rows, or "any" scores. For "any" no radius is promised for
            the best score shown, because a score such as F1 with few positives may be far from that of the population.

    Examples:
        >>> mechanism = Ladder.tuned(rows=20_000, queries=1_000)
        >>> round(mechanism.promise().radius, 3), mechanism.grid
        (0.091, 41)
    """

    grid: int
    margin: int = 2
    better: Literal["lower", "higher"] = "lower"
    teams: int = 1
    scores: Literal["shares", "any"] = "shares"

    name: ClassVar[str] = "ladder"
    statement: ClassVar[str] = "S3"
    presentation: ClassVar[Presentation] = Presentation(
        page="description length",
        colour="#882255",
        explanation=(
            "Every query is a submission to a leaderboard. The answer is the best score so far, on a grid of steps. "
            "It changes, and is charged, only when the average over the sealed rows of a new submission is better "
            "by more than a step. Otherwise all that is told is that the submission is not that much better. No "
            "noise is added."
        ),
        theorem=(
            "Without noise, and with coarse answers, only so many courses of queries and answers are possible. "
            "All queries that can ever come up form a tree that is fixed before the sealed rows are looked at. "
            "Each of them is given its share of the probability of failure, beta; a fixed query with a share b "
            "is further than its concentration bound sqrt(ln(2/b) / (2 n)) from the population's value with "
            "probability at most b. So with probability at least 1 - beta no query that could have been asked "
            "breaks its bound, and none that was asked does."
        ),
        sentence=(
            "Until {submissions} are used up, the best score shown, of all or of a team, is at all times within "
            "{radius} of the {best} among the submissions that it is the best of, {holds}."
        ),
        no_privacy="no noise is added to the answers",
        note="of the best score so far, and others are bounded from one side",
    )
    traits: ClassVar[Traits] = Traits(one_sided=True, adds_noise=False, sources=("standing", "holdout"))
    accounting: ClassVar[type[Accounting[Any]]] = BestAccounting
    largest: ClassVar[Mapping[str, int]] = {**Mechanism.largest, "grid": 10**9, "teams": 10**6}

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self, "grid", "margin", "teams")
        if self.better not in ("lower", "higher"):
            raise ValueError(f"better is {self.better!r}. Pass 'lower' for losses or 'higher' for scores.")
        if self.scores not in ("shares", "any"):
            raise ValueError(f"scores is {self.scores!r}. Pass 'shares' or 'any'.")

    @classmethod
    def tuned(cls, *, rows: int, queries: int, confidence: float = 0.95, **shared: Any) -> Self:
        """Return the ladder whose step between scores gives the smallest radius (guaranteed half-width).

        Args:
            rows: Number of sealed rows.
            queries: Number of submissions.
            confidence: Probability with which all intervals hold together.
            **shared: Other attributes of the ladder, such as `margin` and `better`.
        """
        return with_best_grid(
            lambda grid: cls(rows=rows, queries=queries, confidence=confidence, grid=grid, **shared),
            lambda made: made.promise().radius,
        )

    def why_not(self, bound: BoundQuery) -> str:
        """Return why this ladder cannot answer a query, as a text that is empty if it can.

        Accuracy and error have the same row values, so they belong on a ladder on which higher ones are better.
        """
        if self.teams > 1:
            return ""
        right = bound.description.get("kind") == "accuracy"  # of error, too: the answer is turned round
        if {bound.at_zero, bound.at_one} == {0.0, 1.0} and right == (self.better == "higher"):
            return ""
        return (
            f"This ladder ranks shares of which the {self.better} are better, and the "
            "query is not such a share. Ask accuracy(...) or error(...) of a ladder with "
            "better='higher', and brier(...) or a condition of one with better='lower'."
        )

    @cached_property
    def tree(self) -> LadderTree:
        """The weighted tree of all sequences of submissions that can be made."""
        return LadderTree(queries=self.queries, levels=self.grid + 1)

    @property
    def step(self) -> float:
        """Least difference by which a submission must improve the best score so far."""
        return 0.5 * self.margin / self.grid

    @cached_property
    def bets(self) -> bool:
        """Whether every query has its own interval procedure, as it has if each team has a ladder of its own."""
        return self.teams > 1

    def in_force(self, procedure: Procedure) -> Procedure:
        """Return the interval procedure that this ladder uses for a query.

        Args:
            procedure: The query's own procedure, which only ladders of several teams use.
        """
        return procedure if self.teams > 1 else super().in_force(procedure)

    def log_inverse_level(self, asked: ArrayLike, released: ArrayLike, labels: ArrayLike = 0.0) -> NDArray[np.float64]:
        """Return the logarithm of one over the failure probability that is assigned to each submission.

        Args:
            asked: Number of the submission, counted from 1.
            released: Number of new bests before the submission.
            labels: Cost of the labels of these new bests, in nats, if teams have ladders of their own.
        """
        if self.teams > 1:
            tree = QueryTree(queries=self.queries)
            return tree.log_inverse_weight(asked=asked, surprises=released, labels=labels) - math.log(self.beta)
        return self.tree.log_inverse_weight(asked=asked, released=released) - math.log(self.beta)

    @property
    def _last_log_inverse_level(self) -> float:
        """Bound on `log_inverse_level` of all planned submissions: half of the weight lies on the planned tree."""
        if self.teams > 1:  # each submission but the last is a new best with the dearest label
            rises = self.queries - 1
            return float(
                self.log_inverse_level(self.queries, rises, rises * (math.log(self.grid + 1) + self.cost_of_ends))
            )
        size = log_ladder_size(queries=self.queries, levels=self.grid + 1)
        return size + math.log(2.0) - math.log(self.beta)

    def _reach(self, log_inverse_level: ArrayLike) -> float:
        """Return the half-width for a population value around a sealed mean, including the rounding of row values."""
        rows = self.effective_rows(self.rows)
        return float(hoeffding_radius(rows=rows, log_inverse_level=log_inverse_level)) + self.rounding

    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """Return the state after a batch of submissions, and their replies, in the order of the batch.

        Args:
            state: State before the batch: what was asked and charged, and the best score so far.
            evaluations: Sealed sums of the submissions, with their guesses.
            noise: Not used, because a ladder adds no noise.
        """
        if self.teams > 1:
            return self._answer_teams(state, evaluations)
        board = Scoreboard(self, Replies.refused(len(evaluations)), self.procedures_of(evaluations))
        count = min(len(evaluations), self.queries - state.asked)
        losses = evaluations.totals.sum(axis=1)[:count]
        if self.better == "higher":
            losses = self.steps - losses
        done = 0
        while done < count:
            better = losses[done:] <= board.most_of_a_new_best(state)
            quiet = int(np.argmax(better)) if bool(np.any(better)) else count - done
            if quiet:
                board.stand(state, slice(done, done + quiet))
                state, done = state.after(asked=quiet, charged=0), done + quiet
            if done < count:
                state = board.climb(state, int(losses[done]), done)
                done += 1
        return state, board.replies

    def _answer_teams(self, state: State, evaluations: Evaluations) -> tuple[State, Replies]:
        """Answer submissions in order, each with the ladder of its team.

        The team's standing is the guess of the query.
        """
        board = Scoreboard(self, Replies.refused(len(evaluations)), self.procedures_of(evaluations))
        steps, grid, turned = self.steps, self.grid, self.better == "higher"
        for place in range(min(len(evaluations), self.queries - state.asked)):
            total, guess = int(evaluations.totals[place].sum()), int(evaluations.guesses[place])
            loss, told = (steps - total, steps - guess) if turned else (total, guess)
            standing = grid + 1 if guess < 0 else (2 * told * grid + steps) // (2 * steps)
            rises = guess < 0 or 2 * loss * grid < (2 * standing - self.margin) * steps
            best = (2 * loss * grid + steps) // (2 * steps) if rises else standing
            cost = math.log(max(standing, 1)) if rises else 0.0
            nats = float(self.log_inverse_level(state.asked + 1, state.charged, state.labels / 1e6))
            shown, half, procedure = np.array([best / grid]), 0.5 / grid, board.procedures[place]
            ends = np.zeros(1), np.ones(1)
            if isinstance(procedure, OfMeans):
                span = (shown - half, shown + half) if rises else (shown - self.step, ends[1])
                ends = self.not_excluded([procedure], *span, nats=[nats])
            elif rises:
                low, high = procedure.interval(evaluations.summary(place, procedure, total / steps), nats)
                outwards = math.floor((low - self.rounding) * grid), math.ceil((high + self.rounding) * grid)
                of_loss = (grid - outwards[1], grid - outwards[0]) if turned else outwards
                ends, cost = (np.array([of_loss[0] / grid]), np.array([of_loss[1] / grid])), cost + self.cost_of_ends
            board.put(slice(place, place + 1), shown, ends, Source.HOLDOUT if rises else Source.STANDING)
            state = state.after(charged=int(rises), labels=in_millionths(cost))
        return state, board.replies

    def expected_radius_at(self, value: float, log_inverse_level: float) -> float:
        """Return the expected half-width of the interval of a new best around its rounded score.

        Args:
            value: True value of the score in the population, a share of rows.
            log_inverse_level: ln(1 / level), where the level is the probability of failure of this interval.
        """
        low, high = ClopperPearson(rows=self.rows, training=self.rows).expected(value, log_inverse_level)
        return (high - low) / 2.0 + 0.5 / self.grid + self.rounding

    @property
    def cost_of_ends(self) -> float:
        """Price in nats of telling both ends of a new best's interval. Later submissions pay with wider intervals."""
        return 2.0 * math.log(self.grid + 1)

    def best(self, state: State) -> tuple[float, float, float]:
        """Return the best score so far, and the ends of an interval for the best population value of all submissions.

        Args:
            state: State after the submissions so far.

        Returns:
            Value, low end and high end. The intervals of all calls hold together with the promised probability.

        Raises:
            ValueError: If nothing was submitted yet.
        """
        if state.asked == 0:
            raise ValueError("There is no submission yet. Submit first.")
        replies, shown = Replies.refused(1), np.array([state.carried_noise / self.grid])
        level = np.array([self._last_log_inverse_level])
        ends = self.not_excluded([self.procedure], shown - self.step, shown + 0.5 / self.grid, level)
        Scoreboard(self, replies, ()).put(slice(0, 1), shown, ends, Source.HOLDOUT)
        return float(replies.values[0]), float(replies.lows[0]), float(replies.highs[0])

    def promise(self) -> Promise:
        """Return what is guaranteed of the best score so far, after all submissions simultaneously."""
        reach = min(self._reach(self._last_log_inverse_level) if self.scores == "shares" else 1.0, 1.0 - self.step)
        details = {"step": self.step, "concentration": reach - self.rounding}
        return self._promised(self.step + reach, {**details, "radius_of_a_new_best": 0.5 / self.grid + reach})

    def quote(self, state: State, *, guess: float | None = None, procedure: Procedure | None = None) -> Quote:
        """Return the half-widths of the next answer: if the submission is not a new best, and if it is one.

        Args:
            state: State after the submissions so far.
            guess: Not used.
            procedure: Not used.
        """
        if not self.surely_answers(state, 1):
            return REFUSED
        reach = self._reach(self.log_inverse_level(state.asked + 1, state.charged))
        climbed = 0.5 / self.grid + reach
        if state.asked == 0:
            return Quote(climbed, climbed, 1, 1, refused=False)
        stood = max(self.step + reach, 1.0 - state.carried_noise / self.grid)
        return Quote(stood, climbed, 0, 1, refused=False)


@dataclass(frozen=True, slots=True)
class LadderTree:
    """The weighted tree of the Ladder: half the weight on a plan, half pay as you go (S3, weighted form).

    ``w = 1/2 [uniform over the planned tree] + 1/2 w'``, ``w'(1, 0) = 1/2`` and, from the second query on,
    ``w' = 1/(j(j+1)) * 1/(f(f+1)) / (C(j-2, f-1) C(L, f))``; f sums from 1, as the first query always sets a best.

    Attributes:
        queries: Planned number of queries m.
        levels: Number L of scores that can be shown.

    Examples:
        >>> tree = LadderTree(queries=1000, levels=21)
        >>> round(float(tree.log_inverse_weight(asked=1000, released=3)), 3)
        37.305
    """

    queries: int
    levels: int

    def log_inverse_weight(self, *, asked: ArrayLike, released: ArrayLike) -> NDArray[np.float64]:
        """Return ln(1 / w) of query number ``asked`` (from 1) after ``released`` new bests, shape (...).

        It is infinite for impossible histories: more new bests than earlier queries or levels, or no new best before a
        later query.
        """
        j, f = np.broadcast_arrays(np.asarray(asked, dtype=np.float64), np.asarray(released, dtype=np.float64))
        later = (j > 1.0) & (f >= 1.0) & (f < j) & (f <= self.levels)
        possible = later | ((j == 1.0) & (f == 0.0))
        safe_j, safe_f = np.where(later, j, 2.0), np.where(later, f, 1.0)
        paths = log_choose(safe_j - 2.0, safe_f - 1.0) + log_choose(float(self.levels), safe_f)
        shares = np.log(safe_j * (safe_j + 1.0) * safe_f * (safe_f + 1.0))
        as_you_go = np.where(later, -shares - paths, -math.log(2.0))
        size = log_ladder_size(queries=self.queries, levels=self.levels)
        planned = np.where(j <= self.queries, -size, -np.inf)
        return np.where(possible, math.log(2.0) - np.logaddexp(planned, as_you_go), np.inf)
