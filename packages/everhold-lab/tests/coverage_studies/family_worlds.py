"""Populations of the games of families: rows, rows with values in between, groups of rows, subgroups.

In all of them every population value is 1/2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.families.texts import expression_nats
from everhold.guarantees.intervals.base import CELLS, Cells, GroupSums, Pairs
from everhold.guarantees.intervals.betting import Bets, Betting, GroupBetting, RatioBetting, side_of
from everhold.guarantees.intervals.joint import ratio_bets
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.values.evaluation import UNIT
from everhold.values.expressions import ColumnKind, parse

GAMES_ROWS = 400
_EXTREMES = 2  # of either side, whose intervals are looked at
_GROUPS = ((4, 50), (2, 100))  # size, number
_CELLS = 40  # subgroups' rows
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class SealedUnits:
    """Row values of some queries.

    Attributes:
        values: Shape (queries, units): of rows, or of groups.
        weights: Shape (units,): rows of each unit.
    """

    values: NDArray[Any]
    weights: NDArray[np.float64]

    @property
    def means(self) -> NDArray[np.float64]:
        """Shape (queries,)."""
        return np.asarray(self.values @ self.weights / self.weights.sum())

    def some(self, places: Sequence[int]) -> SealedUnits:
        """Some of the queries."""
        return SealedUnits(self.values[list(places)], self.weights)

    @classmethod
    def joined(cls, many: Sequence[SealedUnits]) -> SealedUnits:
        """All queries of several."""
        return cls(np.concatenate([each.values for each in many]), many[0].weights)

    def vote(self, weights: NDArray[np.float64], rng: np.random.Generator) -> SealedUnits:
        """The weighted vote of all queries for each unit, 1 if it is above 1/2: true for half of the population."""
        votes = weights @ (self.values - 0.5) + 1e-9 * (rng.random(self.values.shape[1]) - 0.5)
        return SealedUnits((votes > 0.0).astype(np.float64)[None], self.weights)


class World(ABC):
    """A population, and the interval procedure that fits it.

    Attributes:
        votes: Whether a vote of its queries is a query of the same kind.
        members: Of a family: so many that some would miss at the level of one.
    """

    votes, members = True, 1_000

    @abstractmethod
    def draw(self, rng: np.random.Generator, queries: int) -> SealedUnits:
        """Sealed values of queries that are independent of each other."""

    @abstractmethod
    def seen(self, values: NDArray[np.float64]) -> tuple[Any, Any]:
        """The procedure and what it needs of one query, whose unit values have the shape (units,)."""

    def _sides(self, one: NDArray[np.float64], nats: float) -> tuple[bool, bool]:
        """Two flags: 1/2 lies below the interval of a query, or above it; the capital at 1/2 decides."""
        procedure, seen = self.seen(one)
        if not isinstance(procedure, Bets) or isinstance(procedure, RatioBetting):
            low, high = procedure.interval(seen, nats)
            return low > 0.5, high < 0.5
        units, side = procedure._units(seen), side_of(nats)
        stakes = _stakes(type(procedure), nats)
        below = units.mean > 0.5 and ratio_bets(units.mirrored, stakes[0]).at(0.5) >= side
        above = units.mean < 0.5 and ratio_bets(units, stakes[1]).at(0.5) >= side
        return below, above

    def below(self, one: SealedUnits, nats: float) -> bool:
        """True if 1/2 lies below the interval of the one query."""
        return self._sides(one.values[0], nats)[0]

    def above(self, one: SealedUnits, nats: float) -> bool:
        """True if 1/2 lies above it."""
        return self._sides(one.values[0], nats)[1]

    def any_outside(self, sealed: SealedUnits, nats: float) -> bool:
        """True if 1/2 is outside the interval of any query, of those with the most extreme means."""
        order = np.argsort(sealed.means)
        extreme = dict.fromkeys([*order[:_EXTREMES].tolist(), *order[-_EXTREMES:].tolist()])
        return any(any(self._sides(sealed.values[place], nats)) for place in extreme)


class CoinWorld(World):
    """Independent coins, with exact binomial tails."""

    def draw(self, rng: np.random.Generator, queries: int) -> SealedUnits:
        """See `World.draw`."""
        return SealedUnits(rng.integers(0, 2, (queries, GAMES_ROWS), dtype=np.int8), np.ones(GAMES_ROWS))

    def seen(self, values: NDArray[np.float64]) -> tuple[Any, Any]:
        """See `World.seen`."""
        return _EXACT, float(values.mean())


class BetweenWorld(World):
    """Independent rows with values spread over [0, 1], which are bet on."""

    members = 5_000

    def draw(self, rng: np.random.Generator, queries: int) -> SealedUnits:
        """See `World.draw`."""
        return SealedUnits(rng.random((queries, GAMES_ROWS)), np.ones(GAMES_ROWS))

    def seen(self, values: NDArray[np.float64]) -> tuple[Any, Any]:
        """See `World.seen`."""
        steps = np.rint(values * UNIT).astype(np.int64)
        place = np.minimum(steps * CELLS // UNIT, CELLS - 1)
        counts = np.bincount(place, minlength=CELLS)
        return _BETS[Betting], Cells(counts, np.bincount(place, steps, CELLS).astype(np.int64), UNIT)


class GroupedWorld(World):
    """Groups of 4 and of 2 rows, all rows of a group alike."""

    members = 10_000

    def draw(self, rng: np.random.Generator, queries: int) -> SealedUnits:
        """See `World.draw`."""
        sizes = np.concatenate([np.full(number, float(size)) for size, number in _GROUPS])
        return SealedUnits(rng.integers(0, 2, (queries, len(sizes)), dtype=np.int8), sizes)

    def seen(self, values: NDArray[np.float64]) -> tuple[Any, Any]:
        """See `World.seen`."""
        kinds, start = list[tuple[int, int, int]](), 0
        for size, number in _GROUPS:
            ones = int(values[start : start + number].sum())
            kinds += [(size, 0, number - ones), (size, size * UNIT, ones)]
            start += number
        sizes, sums, counts = np.array(kinds, dtype=np.int64).T
        return _BETS[GroupBetting], GroupSums(sizes, sums, counts, UNIT)

    def ignoring_groups(self, mechanism: GuessAndCheck) -> Callable[[np.random.Generator], bool]:
        """A family at its level, with the procedure of independent rows."""
        level = mechanism.described(math.log(self.members))

        def play(rng: np.random.Generator) -> bool:
            means = self.draw(rng, self.members).means
            low, high = _EXACT.span(means, means, np.full(len(means), level))
            return bool(np.any((low > 0.5) | (high < 0.5)))

        return play


class SubgroupWorld(World):
    """Shares within subgroups of 40 of the rows, which are ratios of two sums."""

    votes, members = False, 20_000

    def draw(self, rng: np.random.Generator, queries: int) -> SealedUnits:
        """See `World.draw`; values are those of the subgroup's rows."""
        return SealedUnits(rng.integers(0, 2, (queries, _CELLS), dtype=np.int8), np.ones(_CELLS))

    def seen(self, values: NDArray[np.float64]) -> tuple[Any, Any]:
        """See `World.seen`."""
        ones = int(values.sum())
        numerators, denominators = np.array([0, 0, UNIT]), np.array([0, UNIT, UNIT])
        counts = np.array([GAMES_ROWS - _CELLS, _CELLS - ones, ones])
        return _RATIOS, Pairs(np.ones(3, dtype=np.int64), numerators, denominators, counts, UNIT)


_EXACT = ClopperPearson(rows=GAMES_ROWS, training=GAMES_ROWS)
_NO_CELLS = np.zeros(CELLS, dtype=np.int64)
_BETS: dict[Any, Bets] = {
    Betting: Betting(rows=GAMES_ROWS, training=Cells(_NO_CELLS, _NO_CELLS, UNIT)),
    GroupBetting: GroupBetting(sizes=_GROUPS, training=GroupSums(_NONE, _NONE, _NONE, UNIT)),
}
_RATIOS = RatioBetting(rows=GAMES_ROWS, training=Pairs(_NONE, _NONE, _NONE, _NONE, UNIT))


@lru_cache(maxsize=4096)
def _stakes(kind: Any, nats: float) -> tuple[float, float]:
    """The stakes that follow from no training rows at all, by nats."""
    stakes = _BETS[kind].stakes(nats)
    return stakes["stake_low"], stakes["stake_high"]


WORLDS: dict[str, World] = {
    "shares": CoinWorld(), "values in between": BetweenWorld(), "groups": GroupedWorld(), "subgroups": SubgroupWorld(),
}  # fmt: skip
"""All populations, by name."""


def text_nats(columns: int) -> float:
    """ln(1 / weight) of the text ``c1`` on a table of so many columns of truth values."""
    kinds = {f"c{number}": ColumnKind.BOOLEAN for number in range(1, columns + 1)}
    return expression_nats(parse("c1", kinds), kinds, {})
