"""Coverage studies: how often simulated analysts break a promise when the truth is known exactly.

The rows are the points of the cube ``{0,1}^d``, each once, and every label is a fair coin of its own. Rule j is the
parity of the coordinates in a set of them (a Walsh function), so all rules are orthogonal and all their scores come
from one fast transform. Whatever a rule or a vote of rules predicts, it is right with probability 1/2 in every row: the
population value of every query is exactly 1/2, and the rows are independent. Orthogonal rules are the hill climber's
best case: from exact scores of most of them the labels themselves could be read off.

Dependent rows are drawn from a population in which rows copy each other, as in
`everhold_lab.audit.boards`: several rows
may have the same point of the cube and the same label, and the value of every query is still 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import beta, binom

from everhold.display import Display
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.mechanisms import has_public_levels
from everhold.mechanisms.records import Evaluations
from everhold.randomness import SeededNoise

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.guarantees.intervals.means import OfMeans
    from everhold.mechanisms import Mechanism
    from everhold.randomness import Noise
    from everhold_lab.analysts import Analyst, Vote
    from everhold_lab.audit.boards import Population

TRUTH = 0.5
"""Population value of every query of a study."""


def walsh_transform(values: NDArray[Any]) -> NDArray[Any]:
    """Return ``sum_i values[i] * (-1)^(bits that i and j share)`` for every j, in O(n log n).

    Examples:
        >>> walsh_transform(np.array([1, 0, 0, 0])).tolist()
        [1, 1, 1, 1]
        >>> walsh_transform(np.array([1, -1, 1, -1])).tolist()
        [0, 4, 0, 0]
    """
    size, half = len(values), 1
    if size & (size - 1) or size == 0:
        raise ValueError(f"There are {size} values. Pass a power of 2 of them.")
    while half < size:
        pairs = values.reshape(-1, 2, half)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        half *= 2
    return values


@dataclass(frozen=True, slots=True)
class StudyOutcome:
    """Result of one game of an analyst against a mechanism.

    Attributes:
        worst_error: Largest distance of an answer from 1/2.
        violated: Whether an interval, stated at once or after unsealing, misses 1/2, or an answer is farther from 1/2
            than the promised radius.
        needless: Whether budget was spent on a guess that is nearer to 1/2 than the promise says.
    """

    worst_error: float
    violated: bool
    needless: bool
    queries: int
    refused: int


class CubeBoard:
    """Board on which a mechanism answers about fair labels on a cube, with guesses from training labels.

    Args:
        mechanism: The mechanism; its number of rows must be a power of 2, unless there is a population.
        noise: Noise that the mechanism draws.
        rules: Number of parity rules, fewer than points of the cube.
        labels: Generator of the labels.
        radius: Half-width that is claimed in place of the mechanism's own intervals, to measure what happens without
            protection.
        population: Population from which the sealed rows and the training rows are drawn independently. By default,
            every point of the cube is one row of each set.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        noise: Noise,
        *,
        rules: int,
        labels: np.random.Generator,
        radius: float | None = None,
        population: Population | None = None,
    ) -> None:
        points = mechanism.rows if population is None else population.points
        if not 0 < rules < points:
            raise ValueError(f"rules is {rules}. Pass a number from 1 to {points - 1}.")
        if population is not None and mechanism.parts > 1:
            raise ValueError(
                f"The mechanism {mechanism.name} answers from a part of the rows. Pass a mechanism that uses all "
                "rows for each answer."
            )
        self.rules, self._points = rules, points
        self._mechanism, self._noise, self._state = mechanism, noise, mechanism.start(noise)
        if population is None:  # of each point, the sum of the labels of its rows
            self._sealed, self._training = (2 * labels.integers(0, 2, (2, points)) - 1).astype(np.int64)
        else:
            self._sealed, self._training = (population.balance(mechanism.rows, labels) for _ in range(2))
        self._radius = mechanism.promise().radius if radius is None else radius
        self._own_intervals = radius is None
        self._beyond = mechanism.promise().spends_only_beyond or 0.0
        self._procedure = _procedure_of(mechanism)
        self._worst, self._violated, self._needless, self._asked, self._refused = 0.0, False, False, 0, 0

    def score_rules(self, first: int, last: int, *, guess: float | None) -> NDArray[np.float64]:
        """Return answers about the parity rules ``first + 1, ..., last``. Rule 0 would always say yes."""
        sets = slice(first + 1, last + 1)
        known = self._right(walsh_transform(self._training)[sets])
        if self._mechanism.parts == 1:
            right = self._right(walsh_transform(self._sealed)[sets])[:, None]
        else:
            shared = np.bitwise_count(np.arange(first + 1, last + 1)[:, None] & np.arange(self._points)[None, :])
            right = self._right_by_part(1 - 2 * (shared & 1).astype(np.int64))
        return self._ask(right, self._guesses(known, guess))

    def score_vote(self, vote: Vote) -> float:
        """Return the reported score of a vote. The vote predicts no where its weighted sum equals the threshold."""
        weights = np.zeros(self._points)
        weights[1 : 1 + len(vote.weights)] = vote.weights
        predicted = np.where(walsh_transform(weights) > vote.threshold, 1, -1)
        known = np.array([self._right(predicted @ self._training)])
        return float(self._ask(self._right_by_part(predicted[None, :]), self._guesses(known, None))[0])

    def _right(self, balance: Any) -> Any:
        """Return the number of right predictions, given by how many they exceed the wrong ones (`balance`)."""
        return (self._mechanism.rows + balance) // 2

    def _right_by_part(self, predicted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of correct predictions in each part of the rows, shape (queries, parts)."""
        parts = self._mechanism.parts
        if parts == 1:
            return np.asarray(self._right(predicted @ self._sealed)[:, None])
        right = predicted == self._sealed
        return np.stack([np.count_nonzero(right[:, part::parts], axis=1) for part in range(parts)], axis=1)

    def _guesses(self, known: NDArray[np.int64], guess: float | None) -> NDArray[np.int64]:
        if guess is None:
            return known * self._mechanism.unit
        return np.full(len(known), round(guess * self._mechanism.steps), dtype=np.int64)

    def _ask(self, right: NDArray[np.int64], guesses: NDArray[np.int64]) -> NDArray[np.float64]:
        mechanism = self._mechanism
        batch = Evaluations(
            totals=right * mechanism.unit, guesses=guesses, rows=mechanism.rows, unit=mechanism.unit,
            procedures=None if self._procedure is None else [self._procedure] * len(right),
        )  # fmt: skip
        self._state, replies = mechanism.answer_many(self._state, batch, self._noise)
        errors = np.abs(replies.values - TRUTH)
        missed = errors > self._radius
        if self._own_intervals:
            missed |= (replies.lows > TRUTH) | (replies.highs < TRUTH)
            missed |= (replies.sealed[:, 1] > TRUTH) | (replies.sealed[:, 2] < TRUTH)
        near = np.abs(guesses / mechanism.steps - TRUTH) < self._beyond
        answered = ~np.isnan(replies.values)
        self._asked += len(replies)
        self._refused += int(np.count_nonzero(~answered))
        self._worst = max(self._worst, float(np.max(errors[answered], initial=0.0)))
        self._violated |= bool(np.any(missed))
        self._needless |= bool(np.any(near & (replies.charged > 0)))
        return replies.values

    def outcome(self) -> StudyOutcome:
        """Return the result of the game so far."""
        return StudyOutcome(self._worst, self._violated, self._needless, self._asked, self._refused)


def _procedure_of(mechanism: Mechanism) -> OfMeans | None:
    """Return the interval procedure of a holdout for yes-or-no queries, None for mechanisms that add noise."""
    if mechanism.traits.adds_noise or not mechanism.dependence.independent:
        return None
    return ClopperPearson(mechanism.rows // mechanism.parts, mechanism.rows)


def edge_of_checks(mechanism: Mechanism, procedure: Procedure | None = None) -> float | None:
    """Return the greatest guess that a sealed mean of 1/2 confirms, where a reply reveals most about the sealed mean.

    Return None if the mechanism checks no guesses. The result is for the first query. If the mechanism has a slack, the
    greatest guess of later queries is another one.

    Args:
        mechanism: The mechanism whose checks of guesses are attacked.
        procedure: Interval procedure. By default the procedure of yes-or-no queries.

    Examples:
        >>> from everhold.mechanisms import GuessAndCheck
        >>> mechanism = GuessAndCheck.tuned(rows=20_000, queries=1_000, surprises=10)
        >>> round(edge_of_checks(mechanism), 3)
        0.52
    """
    if not has_public_levels(mechanism):
        return 0.5 + mechanism.promise().details["threshold"] if mechanism.traits.needs_guess else None
    procedure = mechanism.in_force(procedure or _procedure_of(mechanism) or mechanism.procedure)
    nats = float(mechanism.nats(1, 0, 0.0))
    least = float(procedure.expected(TRUTH, nats)[0]) - mechanism.rounding
    confirmed, surprise = TRUTH, 1.0
    while surprise - confirmed > mechanism.row_step:
        guess = (confirmed + surprise) / 2.0
        if mechanism.intervals.of_guess(procedure, guess, nats)[0] <= least:
            confirmed = guess
        else:
            surprise = guess
    return confirmed


def play_once(
    mechanism: Mechanism, analyst: Analyst, *, seed: int, rules: int, radius: float | None = None,
    population: Population | None = None,
) -> StudyOutcome:  # fmt: skip
    """Play one game with fresh labels and fresh noise, and return its result.

    Args:
        mechanism: The mechanism that answers.
        analyst: The analyst that asks.
        seed: Seed of the labels and of the noise.
        rules: Number of rules on the board.
        radius: Radius that is claimed in place of the mechanism's own promise, to see what happens without protection.
        population: Where the rows come from, if they depend on each other.
    """
    labels = np.random.default_rng([seed, mechanism.rows])
    played = CubeBoard(mechanism, SeededNoise(seed), labels=labels, rules=rules, radius=radius, population=population)
    for _ in analyst.play(played):
        pass  # claims do not matter here: every answer on the way has to be true
    return played.outcome()


@dataclass(frozen=True, slots=True)
class CoverageStudy(Display):
    """Results of many games of one analyst against one mechanism.

    Attributes:
        radius: Radius that was claimed.
        confidence: Probability with which it was claimed, 1 - beta.
        outcomes: Outcome of each run.
    """

    mechanism: str
    analyst: str
    rows: int
    radius: float
    confidence: float
    outcomes: tuple[StudyOutcome, ...]

    @property
    def runs(self) -> int:
        """Number of games."""
        return len(self.outcomes)

    @property
    def violations(self) -> int:
        """Number of games with a wrong answer, or with budget spent against the promise."""
        return sum(outcome.violated or outcome.needless for outcome in self.outcomes)

    @property
    def rate(self) -> float:
        """Share of games with a violation."""
        return self.violations / self.runs

    @property
    def clopper_pearson(self) -> tuple[float, float]:
        """Exact 95 % interval for the probability of a violation."""
        low = beta.ppf(0.025, self.violations, self.runs - self.violations + 1) if self.violations else 0.0
        high = beta.ppf(0.975, self.violations + 1, self.runs - self.violations) if self.violations < self.runs else 1.0
        return float(low), float(high)

    @property
    def consistent(self) -> bool:
        """True if the number of violations has a probability of at least 0.001 under a promise that holds."""
        return self.violations <= int(binom.ppf(0.999, self.runs, 1.0 - self.confidence))

    @property
    def worst_error(self) -> float:
        """Largest distance of any answer of any game from the truth."""
        return max(outcome.worst_error for outcome in self.outcomes)

    @property
    def tightness(self) -> float | None:
        """Radius divided by the largest observed error, None if there was no error.

        A value of 1 means that the radius is as small as it can be.
        """
        return self.radius / self.worst_error if self.worst_error > 0.0 else None

    def to_dict(self) -> dict[str, Any]:
        """Return the study as one row of a table."""
        low, high = self.clopper_pearson
        return {
            "mechanism": self.mechanism,
            "analyst": self.analyst,
            "rows": self.rows,
            "queries": max(outcome.queries for outcome in self.outcomes),
            "runs": self.runs,
            "violations": self.violations,
            "rate_low": low,
            "rate_high": high,
            "promised": 1.0 - self.confidence,
            "radius": self.radius,
            "worst_error": self.worst_error,
            "tightness": self.tightness,
            "consistent": self.consistent,
        }


def coverage_study(
    mechanism: Mechanism, analyst: Analyst, *, runs: int, seed: int, rules: int, radius: float | None = None,
    population: Population | None = None, advance: Callable[[], None] = lambda: None,
) -> CoverageStudy:  # fmt: skip
    """Play many games of an analyst against a mechanism, and return their results.

    Args:
        mechanism: The mechanism; its number of rows must be a power of 2, unless there is a population.
        analyst: The analyst that plays every game.
        runs: Number of games.
        seed: Seed of the first game. Each later game has the next seed.
        rules: Number of rules on the board, as for `play_once`.
        radius: Claimed radius, as for `play_once`.
        population: Where the rows come from, as for `play_once`.
        advance: Function that is called after each game.

    Examples:
        >>> from everhold_lab.analysts import HonestAnalyst
        >>> from everhold.mechanisms import GuessAndCheck
        >>> mechanism = GuessAndCheck.tuned(rows=256, queries=50, surprises=1)
        >>> coverage_study(mechanism, HonestAnalyst(), rules=50, runs=20, seed=0).violations
        0
    """
    played = []
    for run in range(runs):
        played.append(play_once(mechanism, analyst, seed=seed + run, rules=rules, radius=radius, population=population))
        advance()
    return CoverageStudy(
        mechanism=mechanism.name,
        analyst=type(analyst).__name__,
        rows=mechanism.rows,
        radius=mechanism.promise().radius if radius is None else radius,
        confidence=mechanism.confidence,
        outcomes=tuple(played),
    )
