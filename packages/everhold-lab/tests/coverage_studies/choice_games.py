"""Games of choices and scans against an analyst who knows the population: the vote of all winners is asked about.

    python choice_games.py --games 500

Every candidate is a fair coin, so every population value is 1/2. The analyst takes fresh candidates in each round, and
in the end asks about the vote of all winners. Each game is played with a protection removed, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from everhold.guarantees.description_length import ChoiceLevels
from everhold.guarantees.intervals.base import CELLS, Cells
from everhold.guarantees.intervals.betting import Betting
from everhold.mechanisms.base import State
from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.queries.interval_planner import Prepared
from everhold.queries.selection import choice
from everhold.queries.selection.choice import ChoicePlan
from everhold.queries.selection.results import Compared, SealedValues
from everhold.queries.selection.scan import ScanPlan
from everhold.randomness import SeededNoise
from everhold.values.base import BoundQuery, Schema

PROTECTIONS = ("all", "levels ignore K", "labels are not paid")


@dataclass(frozen=True, slots=True)
class ChoiceGame:
    """Sizes of one game.

    Attributes:
        candidates: K in each round.
        rounds: Choices before the vote.
        kind: ``"choose"``, ``"bets"`` (values in [0, 1] that are bet on) or ``"scan"`` (all above 1/2).
    """

    rows: int = 400
    candidates: int = 20
    rounds: int = 12
    kind: str = "choose"


@dataclass(frozen=True, slots=True)
class Played:
    """Games in which a statement missed the population.

    Attributes:
        missed: Games in which some statement was wrong.
    """

    games: int
    missed: int


def play(game: ChoiceGame, protection: str, *, games: int, seed: int = 0) -> Played:
    """Play games in which one of `PROTECTIONS` is in force, or removed, at a probability of failure of 0.2."""
    mechanism = GuessAndCheck.tuned(rows=game.rows, queries=40, surprises=4, confidence=0.8)
    if protection == "levels ignore K":
        vars(choice)["ChoiceLevels"] = _Ignoring  # the protection is removed here alone
    try:
        missed = sum(_missed(game, mechanism, protection, np.random.default_rng([seed, n])) for n in range(games))
    finally:
        vars(choice)["ChoiceLevels"] = ChoiceLevels
    return Played(games, missed)


class _Ignoring(ChoiceLevels):
    @classmethod
    def of(cls, nats: float, *, candidates: int, paired: bool = False) -> ChoiceLevels:
        """Levels as if there were one candidate."""
        return ChoiceLevels.of(nats, candidates=1, paired=paired)


def _missed(game: ChoiceGame, mechanism: GuessAndCheck, protection: str, rng: np.random.Generator) -> bool:
    state, votes, wrong = State(), np.zeros(game.rows), False
    for number in range(game.rounds + 1):
        last = number == game.rounds
        values = (votes > rng.random(game.rows) - 0.5).astype(float)[None] if last else _values(game, rng)
        state, chosen, low, high = _asked(game, mechanism, state, values, rng)
        wrong |= not low <= 0.5 <= high
        if protection == "labels are not paid":
            state = replace(state, labels=0)
        votes += np.sign(values[chosen] - 0.5).sum(axis=0)
    return wrong


def _values(game: ChoiceGame, rng: np.random.Generator) -> Any:
    shape = (game.candidates, game.rows)
    return rng.random(shape) if game.kind == "bets" else rng.integers(0, 2, shape).astype(float)


def _asked(
    game: ChoiceGame, mechanism: GuessAndCheck, state: State, values: Any, rng: np.random.Generator
) -> tuple[State, Sequence[int], float, float]:
    """State after a choice or a scan, the candidates that it favours, and the interval that it promises of them."""
    kind = game.kind if len(values) > 1 else "choose"
    compared = Compared(_prepared(mechanism, len(values), bets=game.kind == "bets"), _SCHEMA, mechanism)
    totals = np.rint(values.sum(axis=1) * mechanism.unit).astype(np.int64)
    sealed = SealedValues(totals, totals / mechanism.steps, _seen(values, mechanism, bets=game.kind == "bets"))
    if kind == "scan":
        plan: Any = ScanPlan(_SCHEMA, mechanism, compared, 0.5, first=False)
        state, outcomes = plan.answer(state, sealed, [*range(len(values))], SeededNoise(0))
        above = [place for place, each in enumerate(outcomes) if each.answer["above"]]
        lows = [each.answer["low"] for each in outcomes]
        return state, above, max(lows), min(each.answer["high"] for each in outcomes)
    plan = ChoicePlan(_SCHEMA, mechanism, compared, "highest", 1, None)
    chosen = [int(np.argmax(totals))]
    state, (outcome,) = plan.answer(state, (chosen, sealed, []), [0], SeededNoise(0))
    return state, chosen, outcome.answer["low"], outcome.answer["high"]


_SCHEMA = Schema(rows=400, training_rows=0, columns={})
_NO_VALUES = np.zeros(CELLS, dtype=np.int64)


def _prepared(mechanism: GuessAndCheck, count: int, *, bets: bool) -> tuple[Prepared, ...]:
    procedure: Any = mechanism.yes_no_procedure
    if bets:
        procedure = Betting(rows=mechanism.rows, training=Cells(_NO_VALUES, _NO_VALUES, mechanism.unit))
    return tuple(
        Prepared(BoundQuery({"n": number}, str(number)), -1, from_training=False, procedure=procedure)
        for number in range(count)
    )


def _seen(values: Any, mechanism: GuessAndCheck, *, bets: bool) -> list[Any]:
    if not bets:
        return [None] * len(values)
    cells = []
    for row in np.rint(values * mechanism.unit).astype(np.int64):
        place = np.minimum(row * CELLS // mechanism.unit, CELLS - 1)
        sums = np.zeros(CELLS, dtype=np.int64)
        np.add.at(sums, place, row)
        cells.append(Cells(np.bincount(place, minlength=CELLS), sums, mechanism.unit))
    return cells


def main(say: Callable[[str], None] = print) -> None:
    """Play all games and print one line for each."""
    parser = argparse.ArgumentParser(description="Games of choices and scans.")
    parser.add_argument("--games", type=int, default=500)
    games = parser.parse_args().games
    plans = [(ChoiceGame(kind=kind), ("all", "labels are not paid")) for kind in ("choose", "scan", "bets")]
    for game, protections in [*plans, (ChoiceGame(candidates=1_000, rounds=1), ("all", "levels ignore K"))]:
        for protection in protections:
            found = play(game, protection, games=games)
            say(f"{game}, protections: {protection}: {found.missed} of {found.games} games missed")


if __name__ == "__main__":
    main()
