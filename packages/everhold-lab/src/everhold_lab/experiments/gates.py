"""Experiment on ten thousand challenges of a gate: are all promotions real improvements, whatever an agent tries?"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from everhold.guarantees.intervals.means import SignTest
from everhold.mechanisms import GuessAndCheck, Source, State
from everhold.mechanisms.records import Evaluations
from everhold.randomness import SeededNoise
from everhold_lab.experiments import Experiment, Row, Setting, mean_of, promises_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Rows = NDArray[np.int64]
    Judge = Callable[[Sequence[Rows], NDArray[np.int64]], int | None]

_SYSTEMATIC, _NOISE, _EASY = 0.2, 0.5, 0.95
"""Chance that the first champion is right: where it errs systematically, where labels are coins, everywhere else."""

_BATCH = 250  # challengers that are judged at once


@dataclass(frozen=True, kw_only=True)
class GatesExperiment(Experiment):
    """Experiment in which an agent challenges a gate all night.

    Attributes:
        challengers: Number of challengers in a game.
        steps: Number of challengers that are real improvements.
        step: Gain of a real improvement.
        disagreement: Share of the rows on which a challenger differs from the champion.
        confidence: Probability with which all promotions of a game have to be real.
        surprises: Planned number of promotions.
    """

    name: ClassVar[str] = "gates"
    title: ClassVar[str] = "A gate: keep or revert"
    source: ClassVar[str] = "Statements about the gate of everhold"
    about: ClassVar[str] = (
        "An agent changes a champion (the best version so far) a little, again and again, and a gate on sealed rows "
        "decides whether the changed version, the challenger, is promoted. Some labels are fair coins. Nearly all "
        "challengers only flip predictions on such rows, so they are no better for new labels, even if they score "
        "better on the sealed ones. A few challengers are real improvements. The agent has two strategies: it starts "
        "from the latest champion, or it keeps the flips of its latest promotions and adds new ones (boosting). A "
        "promotion is wrong if the challenger is no better for new labels. Without the protection each challenger is "
        "judged as if it were the only one."
    )
    repetitions: ClassVar[int] = 200
    keys: ClassVar[tuple[str, ...]] = ("agent", "judge")

    rows: int = 20_000
    challengers: int = 10_000
    steps: int = 8
    step: float = 0.03
    disagreement: float = 0.05
    confidence: float = 0.95
    surprises: int = 10

    @cached_property
    def mechanism(self) -> GuessAndCheck:
        """Mechanism of the holdout."""
        return GuessAndCheck.tuned(
            rows=self.rows, queries=self.challengers, surprises=self.surprises, confidence=self.confidence
        )

    def settings(self) -> Sequence[Setting]:
        """Return both attackers, with and without the protection."""
        return [
            {"agent": agent, "judge": judge}
            for agent in ("hill climbing", "boosting") for judge in ("gate", "one shot")
        ]  # fmt: skip

    def play(self, setting: Setting, seed: int) -> list[Row]:
        """Simulate one night of challenges, and return a row that counts its promotions and wrong promotions."""
        game = _GateGame(self, np.random.default_rng([seed, ["hill climbing", "boosting"].index(setting["agent"])]))
        judge = self._gate() if setting["judge"] == "gate" else partial(_one_shot, self.mechanism)
        promoted, wrong = [], 0
        for real, turned in game.promotions(judge, boosting=setting["agent"] == "boosting"):
            wrong += not game.better(turned) > 0.0
            promoted.append(real)
            game.accept(turned)
        return [{"promotions": len(promoted), "real_steps": sum(promoted), "wrong": wrong}]

    def _gate(self) -> Judge:
        """Return a function that gives the index of the first challenger which the mechanism promotes, or None."""
        state = State()

        def judge(turned: Sequence[Rows], wins: NDArray[np.int64]) -> int | None:
            nonlocal state
            evaluations, noise = _evaluations(self.mechanism, turned, wins), SeededNoise(0)
            if self.mechanism.surely_answers(state, 1) < 1:
                return None
            after, replies = self.mechanism.answer_many(state, evaluations, noise)
            found = np.flatnonzero(replies.sources == Source.PROMOTED)
            if len(found):  # those after it were about another champion
                first = int(found[0])
                after, _ = self.mechanism.answer_many(state, evaluations.some(list(range(first + 1))), noise)
                state = after
                return first
            state = after
            return None

        return judge

    def line(self, rows: Sequence[Row]) -> Row:
        """Return the number of games with a wrong promotion, and of real steps that were promoted."""
        return {
            "games": len(rows), "games_with_a_wrong_promotion": sum(game["wrong"] > 0 for game in rows),
            "wrong_promotions": mean_of(rows, "wrong"), "real_steps_promoted": mean_of(rows, "real_steps"),
        }  # fmt: skip

    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> Mapping[str, bool]:
        """Find that promotions are real, that nearly all real steps are seen, and that luck wins without protection."""
        games = [(row["agent"], row["wrong"] > 0) for row in rows if row["judge"] == "gate"]
        gate = [line for line in summary if line["judge"] == "gate"]
        alone = [line for line in summary if line["judge"] == "one shot"]
        seen = min((line["real_steps_promoted"] for line in gate), default=0.0)
        luck = min((line["wrong_promotions"] for line in alone), default=0.0)
        return {
            **promises_kept(games, confidence=self.confidence),
            f"the gate promotes on average {seen:.3g} of {self.steps} real steps or more": seen >= 0.9 * self.steps,
            f"without the protection there are {luck:.3g} wrong promotions in a game": luck >= 1.0,
        }


def _evaluations(mechanism: GuessAndCheck, turned: Sequence[Rows], wins: NDArray[np.int64]) -> Evaluations:
    """Return sealed evaluations of accuracies that differ where predictions were flipped."""
    unit, rows = mechanism.unit, mechanism.rows
    differing = np.array([len(each) for each in turned])
    totals = rows * (unit // 2) + (2 * wins - differing) * (unit // 2)
    return Evaluations(
        totals=totals[:, None], guesses=np.full(len(turned), -1), rows=rows, unit=unit,
        procedures=[SignTest(rows=rows, training=rows, differing=int(count)) for count in differing],
        seen=[None] * len(turned), margins=np.full(len(turned), 0.5 + mechanism.row_step),
    )  # fmt: skip


def _one_shot(mechanism: GuessAndCheck, turned: Sequence[Rows], wins: NDArray[np.int64]) -> int | None:
    """Judge without protection, by a sign test at level beta for every challenger."""
    nats = -math.log(2.0 * (1.0 - mechanism.confidence))
    evaluations = _evaluations(mechanism, turned, wins)
    assert evaluations.procedures is not None
    for place, procedure in enumerate(evaluations.procedures):
        mean = float(evaluations.totals[place, 0]) / (mechanism.rows * mechanism.unit)
        if procedure.interval(mean, nats)[0] > 0.5:
            return place
    return None


@dataclass
class _GateGame:
    """State of a simulated night: the labels of the rows, and the rows on which the champion is right."""

    sizes: GatesExperiment
    rng: np.random.Generator
    _chance: NDArray[np.float64] = field(init=False)
    _right: NDArray[np.bool_] = field(init=False)
    _latest: list[Rows] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        sizes, n = self.sizes, self.sizes.rows
        share = sizes.steps * sizes.disagreement
        kinds = np.searchsorted([share, share + 0.2], np.arange(n) / n, side="right")
        self._chance = np.array([_SYSTEMATIC, _NOISE, _EASY])[kinds]
        self._right = self.rng.random(n) < self._chance
        self._pools = [np.flatnonzero(kinds == kind) for kind in range(3)]
        self._to_mend = self.rng.permutation(self._pools[0])

    def better(self, turned: Rows) -> float:
        """Return how much better the challenger is for new labels."""
        return float(np.sum(1.0 - 2.0 * self._chance[turned])) / self.sizes.rows

    def accept(self, turned: Rows) -> None:
        """Make the challenger the champion."""
        self._chance[turned] = 1.0 - self._chance[turned]
        self._right[turned] = ~self._right[turned]

    def promotions(self, judge: Judge, *, boosting: bool) -> Iterator[tuple[bool, Rows]]:
        """Yield each challenger that the judge promotes, with a boolean that says whether it is a real improvement.

        Args:
            judge: The judge that accepts or rejects each challenger.
            boosting: Whether random challengers leave out rows of the latest promotions.
        """
        number, every = 0, self.sizes.challengers // self.sizes.steps
        while number < self.sizes.challengers:
            batch = list(range(number, min(number + _BATCH, self.sizes.challengers)))
            real = [place % every == every - 1 for place in batch]
            last = real.index(True) + 1 if True in real else len(batch)  # so that a step is the last of its batch
            turned = [self._step() if step else self._luck(boosting=boosting) for step in real[:last]]
            done = 0
            while done < last:
                wins = np.array([np.count_nonzero(~self._right[rows]) for rows in turned[done:]])
                found = judge(turned[done:], wins)
                if found is None:
                    break
                done += found + 1
                yield real[done - 1], turned[done - 1]
                self._latest = [turned[done - 1], *self._latest[:4]]
            number += last

    def _step(self) -> Rows:
        """Return rows that a real improvement corrects: rows on which the champion errs systematically."""
        wanted = round(self.sizes.rows * self.sizes.step / (1.0 - 2.0 * _SYSTEMATIC))
        mended, self._to_mend = self._to_mend[:wanted], self._to_mend[wanted:]
        return mended

    def _luck(self, *, boosting: bool) -> Rows:
        """Return a random set of rows whose labels are fair coins.

        For boosting, rows of the latest promotions are excluded.
        """
        count = int(self.sizes.rows * self.sizes.disagreement * self.rng.choice([0.02, 0.2, 1.0]))
        coins = self._pools[1]
        drawn = self.rng.choice(coins, max(min(count, len(coins)), 1), replace=False)
        if not boosting or not self._latest:
            return np.asarray(drawn)
        told = np.concatenate(self._latest)
        told = told[np.isin(told, coins)]
        return np.asarray(np.setdiff1d(drawn, told) if len(told) else drawn)
