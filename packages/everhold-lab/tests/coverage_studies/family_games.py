"""Games of declared families, choices, quantiles and tables against an analyst who knows the population.

    python family_games.py --games 500

All population values are 1/2, and the analyst knows it. Of a declared family every member is looked at, so the analyst
is as good as one who sees the sealed rows. Of choices, quantiles and tables the analyst keeps what was told, and in the
end asks about the vote of everything that came out above 1/2. Each game is played with protections removed, too. What a
label costs is never overstated here: of a choice it is the least that one can cost.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from family_worlds import GAMES_ROWS, WORLDS, GroupedWorld, SealedUnits, World, text_nats
from numpy.typing import NDArray
from quantile_games import quantile_course
from table_games import marks_miss, table_course

from everhold.guarantees.description_length import ChoiceLevels
from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.mechanisms.labels import order_nats, steps_nats
from everhold.mechanisms.releases import label_nats

BETA = 0.2
_MEMBERS, _CANDIDATES, _ROUNDS, _TOLD = 1_000, 20, 20, 200
_QUERIES = 40
_LEAST_INTERVAL_LABEL = steps_nats(0, scale=3.0) + steps_nats(0, scale=0.5)


@dataclass(frozen=True, slots=True)
class FamilyGame:
    """One kind of game with one protection in force or removed.

    Attributes:
        removed: The protection that is removed; "nothing" if all are in force.
        play: True if a statement of the game misses, given the generator.
    """

    kind: str
    removed: str
    play: Callable[[np.random.Generator], bool]


def mechanism(*, share: float = 0.0, queries: int = _QUERIES) -> GuessAndCheck:
    """The default mechanism of a game, on 400 rows at a probability of failure of .2."""
    made = GuessAndCheck.tuned(
        rows=GAMES_ROWS, queries=queries, surprises=min(4, queries), confidence=1.0 - BETA, training_rows=GAMES_ROWS
    )
    return made.sharing(share) if share else made


_TREE, _BOTH, _ONCE = mechanism(), mechanism(share=0.5), mechanism(queries=1)


def _members(world: World, *, pays: bool) -> Callable[[np.random.Generator], bool]:
    """Any of all members misses, told or not; the extreme ones are looked at."""
    nats = _BOTH.described(math.log(world.members) if pays else 0.0)

    def play(rng: np.random.Generator) -> bool:
        return world.any_outside(world.draw(rng, world.members), nats)

    return play


def _texts(*, pays: bool) -> Callable[[np.random.Generator], bool]:
    """The texts ``c1``, ``c2``, ... of a table of 1,000 columns of truth values, at the level of their description.

    Without the protection a text has the price that it has in a table of one column.
    """
    nats = text_nats(_MEMBERS if pays else 1) - math.log(BETA * 0.5)

    def play(rng: np.random.Generator) -> bool:
        return WORLDS["shares"].any_outside(WORLDS["shares"].draw(rng, _MEMBERS), nats)

    return play


def _after_members(world: World, *, removed: str) -> Callable[[np.random.Generator], bool]:
    """200 members are told exactly, and their weighted vote is asked about, opaquely or as a new family."""

    def play(rng: np.random.Generator) -> bool:
        told = world.draw(rng, _TOLD)
        labels = label_nats(
            np.rint(told.means * GAMES_ROWS).astype(np.int64), rows=GAMES_ROWS, at=np.full(_TOLD, 0.5),
            trained=np.full(_TOLD, float(GAMES_ROWS)),
        ).sum()  # fmt: skip
        if removed == "declared after its answers":
            nats = _BOTH.described(0.0)
        else:
            nats = float(_BOTH.nats(1, 0, 0.0 if removed == "labels are paid" else float(labels)))
        return world.any_outside(told.vote(told.means - 0.5, rng), nats)

    return play


def _choices(world: World, *, paid: bool) -> Callable[[np.random.Generator], bool]:
    """Rounds of the best of 20 fresh candidates, and the vote of all winners."""

    def play(rng: np.random.Generator) -> bool:
        labels, wrong, winners = 0.0, False, list[SealedUnits]()
        for place in range(1, _ROUNDS + 1):
            round_ = world.draw(rng, _CANDIDATES)
            best = int(np.argmax(round_.means))
            levels = ChoiceLevels.of(float(_TREE.nats(place, 0, labels)), candidates=_CANDIDATES)
            winners.append(winner := round_.some([best]))
            wrong |= world.below(winner, levels.lower) or world.above(winner, levels.upper)
            if paid:
                labels += order_nats([best], np.full(_CANDIDATES, math.nan)) + _LEAST_INTERVAL_LABEL
        vote = SealedUnits.joined(winners).vote(np.ones(_ROUNDS), rng)
        return wrong or world.any_outside(vote, float(_TREE.nats(_ROUNDS + 1, 0, labels)))

    return play


def _best(world: World, *, candidates: int) -> Callable[[np.random.Generator], bool]:
    """The best of many, which is the only planned query, at levels for so many candidates."""
    levels = ChoiceLevels.of(float(_ONCE.nats(1, 0, 0.0)), candidates=candidates)

    def play(rng: np.random.Generator) -> bool:
        drawn = world.draw(rng, world.members)
        winner = drawn.some([int(np.argmax(drawn.means))])
        return world.below(winner, levels.lower) or world.above(winner, levels.upper)

    return play


def _course(
    told: Callable[[np.random.Generator, GuessAndCheck, float, int], tuple[NDArray[np.float64], float, float, bool]],
    *, rounds: int, paid: bool,
) -> Callable[[np.random.Generator], bool]:  # fmt: skip
    """Rounds that each tell about a fresh column, and the vote of all columns by what was told of them."""

    def play(rng: np.random.Generator) -> bool:
        labels, wrong, votes = 0.0, False, np.zeros(GAMES_ROWS)
        for place in range(1, rounds + 1):
            nats = float(_TREE.nats(place, 0, labels))
            column, weight, label, missed = told(rng, _TREE, nats, place)
            votes, wrong = votes + weight * (column - 0.5), wrong or missed
            labels += label if paid else 0.0
        votes += 1e-6 * (rng.random(GAMES_ROWS) - 0.5)  # ties
        share = float(np.mean(votes > 0.0))
        low, high = _TREE.yes_no_procedure.interval(share, float(_TREE.nats(rounds + 1, 0, labels)))
        return wrong or not low <= 0.5 <= high

    return play


def _games() -> list[FamilyGame]:
    made = []
    for name, world in WORLDS.items():
        kind = f"family of {world.members:,}, {name}"
        made += [
            FamilyGame(kind, "nothing", _members(world, pays=True)),
            FamilyGame(kind, "levels know K", _members(world, pays=False)),
        ]
        if world.votes:
            made += [
                FamilyGame(f"200 members and their vote, {name}", removed, _after_members(world, removed=removed))
                for removed in ("nothing", "labels are paid", "declared after its answers")
            ]
            made += [
                FamilyGame(f"choices and their vote, {name}", "nothing", _choices(world, paid=True)),
                FamilyGame(f"choices and their vote, {name}", "labels are paid", _choices(world, paid=False)),
                FamilyGame(f"best of {world.members:,}, {name}", "nothing", _best(world, candidates=world.members)),
                FamilyGame(f"best of {world.members:,}, {name}", "levels know K", _best(world, candidates=1)),
            ]
    rows = GroupedWorld()
    made += [
        FamilyGame(f"family of {rows.members:,}, groups", "groups are known", rows.ignoring_groups(_BOTH)),
        FamilyGame("all texts", "nothing", _texts(pays=True)),
        FamilyGame("all texts", "columns have a price", _texts(pays=False)),
    ]
    for kind, told, rounds in (("quantiles", quantile_course, 30), ("tables", table_course, 25)):
        made += [
            FamilyGame(f"{kind} and their vote", "nothing", _course(told, rounds=rounds, paid=True)),
            FamilyGame(f"{kind} and their vote", "labels are paid", _course(told, rounds=rounds, paid=False)),
        ]
    made += [
        FamilyGame("one table with 10 marks", "nothing", marks_miss(paid=True)),
        FamilyGame("one table with 10 marks", "marks are paid", marks_miss(paid=False)),
    ]
    return made


GAMES = _games()
"""All games."""


def missed_games(game: FamilyGame, *, games: int, seed: int = 0) -> int:
    """Number of games in which some statement misses.

    Args:
        game: One of `GAMES`.
        games: How many are played.
        seed: Of the first; each has its own.
    """
    return sum(game.play(np.random.default_rng([seed, number])) for number in range(games))


def main(say: Callable[[str], None] = print) -> None:
    """Play all games and print one line of a table for each."""
    parser = argparse.ArgumentParser(description="Games of declared families, choices, quantiles and tables.")
    parser.add_argument("--games", type=int, default=500)
    parser.add_argument("--only", default="", help="kinds that hold this text")
    wanted = parser.parse_args()
    say(f"| game | protection removed | games that missed, of {wanted.games} ({BETA * wanted.games:.0f} allowed) |")
    say("| --- | --- | --- |")
    for game in GAMES:
        if wanted.only in game.kind:
            say(f"| {game.kind} | {game.removed} | {missed_games(game, games=wanted.games)} |")


if __name__ == "__main__":
    main()
