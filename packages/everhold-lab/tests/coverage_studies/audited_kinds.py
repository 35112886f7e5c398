"""Coverage studies of guess-and-check by kind of query: yes or no, spreads, differences, ratios, groups, a gate.

Every row carries a fair coin, a rule says yes or no of it, and the row value lies above or below 1/2 by as much as the
kind of query has it. So the population value of every query is exactly 1/2, whatever a rule or a vote of rules
says, and whatever was told before.

Played at the level of `Evaluations`: rows are arrays in memory, and the mechanism is the one that holdouts use.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from everhold.dependence import Groups, Independent
from everhold.guarantees.intervals.betting import Betting, GroupBetting, GroupRatioBetting, RatioBetting
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.mechanisms import GuessAndCheck
from everhold.mechanisms.records import Evaluations
from everhold.randomness import SeededNoise
from everhold.sealing.rows.sums import cells_of, group_sums_of, pairs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold_lab.analysts import Analyst, Vote

__all__ = ["KINDS", "AuditedKind", "KindBoard", "KindOutcome", "OneQuery", "Removed", "play_kind", "usual_procedure"]

TRUTH = 0.5
"""Population value of every query of a study."""

Removed = Literal["", "tree", "groups"]
"""The removed protection: none; the tree, so that every query has the level of a single one and corrections
cost nothing; or the groups, so that rows count as independent."""

_BEYOND = 1e-9  # a challenger that is promoted has to be better by this, and none is


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedKind:
    """Kind of query and the rows that it is asked about.

    Attributes:
        name: For people.
        shape: ``"yes or no"``, ``"spread"`` (values near 1/2, few far away), ``"difference"`` (of two models that
            differ in one row of ten), ``"ratio"`` (over a quarter of the rows), or ``"gate"`` (challengers that are
            exactly as good as the champion).
        sizes: Sizes of the groups, repeated until there are rows enough; 1 where rows are independent.
        within: Correlation of the row values within a group, from 0 to 1.
    """

    name: str
    shape: Literal["yes or no", "spread", "difference", "ratio", "gate"]
    sizes: tuple[int, ...] = (1,)
    within: float = 0.0

    @property
    def grouped(self) -> bool:
        """True if rows of a group may depend on each other."""
        return self.sizes != (1,)

    def group_sizes(self, rows: int) -> NDArray[np.int64]:
        """Sizes of all groups: whole rounds of `sizes`, as many as fit."""
        return np.tile(np.array(self.sizes, dtype=np.int64), rows // sum(self.sizes))

    def tuned(self, *, rows: int, queries: int, surprises: int, confidence: float) -> GuessAndCheck:
        """The mechanism of a holdout with about so many rows."""
        sizes = self.group_sizes(rows)
        model = Groups.of_counts(Counter(sizes.tolist())) if self.grouped else Independent()
        return GuessAndCheck.tuned(
            rows=int(sizes.sum()), queries=queries, surprises=surprises, confidence=confidence, dependence=model
        )

    def draw(self, rows: int, rules: int, rng: np.random.Generator) -> _Rows:
        """Fresh rows with a coin each, and what each rule says of them."""
        sizes = self.group_sizes(rows)
        group = np.repeat(np.arange(len(sizes)), sizes)
        shared = rng.random(rows) < np.sqrt(self.within)
        coin = np.where(shared, _coins(rng, len(sizes))[group], _coins(rng, rows))
        said = _coins(rng, (rules, len(sizes)))[:, group]  # of a group as a whole: the hardest case
        rare = rng.random(rows)
        reach = np.full(rows, 0.5)
        if self.shape == "spread":
            reach = np.where(rare < 0.05, 0.5, 0.04)
        elif self.shape in ("difference", "gate"):
            reach = np.where(rare < 0.1, 0.5, 0.0)
        counted = rare < 0.25 if self.shape == "ratio" else np.ones(rows, dtype=np.bool_)
        return _Rows(sizes, group, coin, said, reach, counted)


_SMALL, _UNEQUAL = (10,), (1, 1, 2, 2, 3, 5, 8, 18)

KINDS: dict[str, AuditedKind] = {
    kind.name: kind
    for kind in (
        AuditedKind(name="yes or no", shape="yes or no"),
        AuditedKind(name="spread", shape="spread"),
        AuditedKind(name="difference", shape="difference"),
        AuditedKind(name="ratio", shape="ratio"),
        AuditedKind(name="gate", shape="gate"),
        *(
            AuditedKind(name=f"equal groups, ICC {icc:g}", shape="yes or no", sizes=_SMALL, within=icc)
            for icc in (0.0, 0.3, 1.0)
        ),
        *(
            AuditedKind(name=f"unequal groups, ICC {icc:g}", shape="yes or no", sizes=_UNEQUAL, within=icc)
            for icc in (0.0, 0.3, 1.0)
        ),
        AuditedKind(name="difference in groups", shape="difference", sizes=_UNEQUAL, within=1.0),
        AuditedKind(name="ratio in groups", shape="ratio", sizes=_UNEQUAL, within=1.0),
    )
}
"""All kinds by name."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one side.

    Attributes:
        sizes: Of the groups, shape (groups,).
        group: Of each row, shape (rows,).
        coin: -1 or 1, shape (rows,).
        said: -1 or 1 for each rule, shape (rules, rows).
        reach: How far the row value is from 1/2, shape (rows,).
        counted: Whether the row is in the condition of a ratio, shape (rows,).
    """

    sizes: NDArray[np.int64]
    group: NDArray[np.int64]
    coin: NDArray[np.int64]
    said: NDArray[np.int64]
    reach: NDArray[np.float64]
    counted: NDArray[np.bool_]

    def values(self, predicted: NDArray[np.int64], unit: int) -> NDArray[np.int64]:
        """Row values on the grid, shape (queries, rows)."""
        away = np.rint(self.reach * unit).astype(np.int64)
        return unit // 2 + predicted * (self.coin * away)

    def vote(self, vote: Vote) -> NDArray[np.int64]:
        """Prediction of a vote, shape (1, rows)."""
        return np.where(vote.weights @ self.said[: len(vote.weights)] > vote.threshold, 1, -1)[None, :]

    def by_group(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sums of one query by group; exact, as long as they are below 2**53."""
        return np.bincount(self.group, weights=values, minlength=len(self.sizes)).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class OneQuery(GuessAndCheck):
    """Without the tree: every query has the level of a single one, and everything is told at no cost."""

    def nats(self, asked: ArrayLike, charged: ArrayLike, labels: ArrayLike) -> NDArray[np.float64]:
        """Always those of the promise itself."""
        shape = np.broadcast_shapes(np.shape(asked), np.shape(charged), np.shape(labels))
        return np.full(shape, -np.log(self.beta))

    @classmethod
    def instead_of(cls, mechanism: GuessAndCheck) -> OneQuery:
        """One for the same rows and queries that corrects every guess."""
        shared = ("rows", "queries", "confidence", "dependence", "unit", "surprises")
        return cls(tolerance=1.0, allowance=0.01, **{name: getattr(mechanism, name) for name in shared})


@dataclass(frozen=True, slots=True)
class KindOutcome:
    """One game of an analyst.

    Attributes:
        violated: Whether some interval misses 1/2, told or unsealed, or a challenger was promoted.
        worst_error: Largest distance of an answer from 1/2; 0 for a gate.
        half_width: Of confirmed answers on average; nan if there are none.
        plain: What it would be if nothing were known of the values but their range; of a ratio, without its rows.
        queries: Queries asked.
        refused: Queries that were refused.
        surprises: Answers that were charged.
    """

    violated: bool
    worst_error: float
    half_width: float
    plain: float
    queries: int
    refused: int
    surprises: int


class KindBoard:
    """A mechanism that answers queries of one kind; training rows of the same kind make the guesses.

    Args:
        kind: Of query.
        mechanism: The mechanism.
        rules: Number of rules.
        rng: Draws the rows.
        independent: Whether intervals are made as if rows of a group were independent.
    """

    def __init__(
        self,
        kind: AuditedKind,
        mechanism: GuessAndCheck,
        *,
        rules: int,
        rng: np.random.Generator,
        independent: bool = False,
    ) -> None:
        self.rules, self._kind, self._mechanism = rules, kind, mechanism
        self._sealed, self._training = (kind.draw(mechanism.rows, rules, rng) for _ in range(2))
        self._grouped = kind.grouped and not independent
        self._state, self._noise = mechanism.start(noise := SeededNoise(0)), noise
        self._violated, self._worst, self._asked, self._refused, self._surprises = False, 0.0, 0, 0, 0
        self._widths: list[tuple[float, float]] = []

    def score_rules(self, first: int, last: int, *, guess: float | None) -> NDArray[np.float64]:
        """Answers about rules; of challengers, 1 for those that were promoted and 1/2 for the others."""
        return self._ask(self._sealed.said[first:last], self._training.said[first:last], guess)

    def score_vote(self, vote: Vote) -> float:
        """The answer about a vote."""
        return float(self._ask(self._sealed.vote(vote), self._training.vote(vote), None)[0])

    def procedure_of_first_rule(self) -> Procedure:
        """Interval procedure of the first rule."""
        return self._procedure(self._training.values(self._training.said[:1], self._mechanism.unit)[0])

    def outcome(self) -> KindOutcome:
        """Outcome so far."""
        widths = np.array(self._widths or [(np.nan, np.nan)]).mean(axis=0)
        return KindOutcome(
            self._violated, self._worst, float(widths[0]), float(widths[1]), self._asked, self._refused, self._surprises
        )

    def _ask(self, sealed: NDArray[np.int64], training: NDArray[np.int64], guess: float | None) -> NDArray[np.float64]:
        mechanism, unit = self._mechanism, self._mechanism.unit
        values, known = self._sealed.values(sealed, unit), self._training.values(training, unit)
        guesses = self._means(known, self._training) if guess is None else np.full(len(known), guess)
        gate = self._kind.shape == "gate"
        asked = Evaluations(
            totals=np.rint(self._means(values, self._sealed) * mechanism.steps).astype(np.int64)[:, None],
            guesses=np.rint(guesses * mechanism.steps).astype(np.int64), rows=mechanism.rows, unit=unit,
            procedures=[self._procedure(row) for row in known], seen=[self._seen(row) for row in values],
            margins=np.full(len(values), TRUTH + _BEYOND) if gate else None,
        )  # fmt: skip
        state = self._state
        self._state, replies = mechanism.answer_many(state, asked, self._noise)
        charged = replies.charged > 0
        answered = ~np.isnan(replies.sealed[:, 1])
        self._asked, self._refused = self._asked + len(values), self._refused + int(np.sum(~answered))
        self._surprises += int(np.sum(charged))
        self._violated |= bool(np.any((replies.sealed[:, 1] > TRUTH + gate * _BEYOND) | (replies.sealed[:, 2] < TRUTH)))
        if gate:
            self._violated |= bool(np.any(charged))
            return np.where(charged, 1.0, np.where(answered, TRUTH, np.nan))
        self._violated |= bool(np.any((replies.lows > TRUTH) | (replies.highs < TRUTH)))
        self._worst = max(self._worst, float(np.max(np.abs(replies.values - TRUTH)[answered], initial=0.0)))
        for place in np.flatnonzero(answered & ~charged).tolist():
            plain = mechanism.intervals.of_guess(mechanism.procedure, float(guesses[place]), float(replies.nats[place]))
            self._widths.append(((replies.highs[place] - replies.lows[place]) / 2.0, (plain[1] - plain[0]) / 2.0))
        return replies.values

    def _means(self, values: NDArray[np.int64], rows: _Rows) -> NDArray[np.float64]:
        """The mean over counted rows, shape (queries,), in [0, 1]."""
        return np.asarray(values[:, rows.counted].mean(axis=1) / self._mechanism.unit)

    def _procedure(self, known: NDArray[np.int64]) -> Procedure:
        """As a holdout would choose it, from the values on training rows."""
        mechanism, training = self._mechanism, self._seen(known, training=True)
        counts = tuple(sorted(Counter(self._sealed.sizes.tolist()).items()))
        if self._kind.shape == "ratio":
            return GroupRatioBetting(counts, training) if self._grouped else RatioBetting(mechanism.rows, training)
        if self._grouped:
            return GroupBetting(counts, training)
        if self._kind.shape == "yes or no":
            return ClopperPearson(mechanism.rows, mechanism.rows)
        return Betting(mechanism.rows, training)

    def _seen(self, values: NDArray[np.int64], *, training: bool = False) -> Any:
        rows, unit = (self._training if training else self._sealed), self._mechanism.unit
        if self._kind.shape == "ratio":
            counted = rows.counted.astype(np.int64)
            sides = [values * counted, unit * counted]
            sizes = np.ones(len(values), dtype=np.int64)
            if self._grouped:
                sides, sizes = [rows.by_group(side) for side in sides], rows.sizes
            return pairs_of(sizes, *sides, unit=unit)
        if self._grouped:
            return group_sums_of(rows.sizes, rows.by_group(values), unit=unit)
        return None if self._kind.shape == "yes or no" else cells_of(values, unit=unit)


def usual_procedure(kind: AuditedKind, mechanism: GuessAndCheck) -> Procedure:
    """Interval procedure of a rule, with separate training rows."""
    board = KindBoard(kind, mechanism, rules=1, rng=np.random.default_rng(0))
    return board.procedure_of_first_rule()


def play_kind(
    kind: AuditedKind, mechanism: GuessAndCheck, analyst: Analyst, *, rules: int, seed: int, removed: Removed = ""
) -> KindOutcome:
    """One game with fresh rows.

    Args:
        kind: Of query.
        mechanism: The mechanism, of `AuditedKind.tuned`.
        analyst: The analyst, such as `everhold_lab.audit.audit.entry_of` names.
        rules: Number of rules.
        seed: Of the rows.
        removed: What protection is taken away.
    """
    played = OneQuery.instead_of(mechanism) if removed == "tree" else mechanism
    rng = np.random.default_rng([seed, mechanism.rows])
    board = KindBoard(kind, played, rules=rules, rng=rng, independent=removed == "groups")
    for _ in analyst.play(board):
        pass  # claims do not matter here: every answer on the way has to be true
    return board.outcome()


def _coins(rng: np.random.Generator, shape: int | Sequence[int]) -> NDArray[np.int64]:
    return 2 * rng.integers(0, 2, shape) - 1
