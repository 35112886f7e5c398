"""Bets on units in order of time: the worst process, enumerated, against the interval (S15)."""

import math
from itertools import product

import numpy as np
import pytest

from everhold.guarantees.intervals import joint
from everhold.guarantees.intervals.base import GroupSums
from everhold.guarantees.intervals.betting import GroupBetting
from everhold.guarantees.intervals.in_order import OrderedBetting
from everhold.guarantees.intervals.means import ClopperPearson

STEPS = 20  # conditional means are multiples of 1/20


def ones_and_zeros(ones: int, rows: int) -> GroupSums:
    return GroupSums(np.array([1, 1]), np.array([0, 1]), np.array([rows - ones, ones]), 1)


def bets(kind: type[GroupBetting], rows: int, training_mean: float) -> GroupBetting:
    return kind(sizes=((1, rows),), training=ones_and_zeros(round(40 * training_mean), 40))


def worst_miss(ends: list[float], *, above: bool) -> float:
    """Greatest probability that the mean of the conditional means lies beyond the end, over all binary processes.

    Args:
        ends: The end of the interval after so many ones.
        above: Whether the ends are upper ones.
    """
    rows = len(ends) - 1
    means = np.arange(rows * STEPS + 1) / (rows * STEPS)
    missed = np.array([(means > end + 1e-12) if above else (means < end - 1e-12) for end in ends], dtype=float)
    choices = np.arange(STEPS + 1) / STEPS
    for row in range(rows - 1, -1, -1):
        before = np.zeros((row + 1, row * STEPS + 1))
        for ones, total in np.ndindex(before.shape):
            after_one, after_zero = (missed[ones + more, total : total + STEPS + 1] for more in (1, 0))
            before[ones, total] = np.max(choices * after_one + (1.0 - choices) * after_zero)
        missed = before
    return float(missed[0, 0])


def misses(procedure: GroupBetting, rows: int, level: float) -> list[float]:
    """Worst misses on both sides, as shares of the level of a side."""
    ends = [procedure.interval(ones_and_zeros(ones, rows), -math.log(level)) for ones in range(rows + 1)]
    return [worst_miss([end[side] for end in ends], above=side == 1) / (level / 2.0) for side in (0, 1)]


def test_no_process_makes_a_side_miss_more_often_than_its_level() -> None:
    for rows, level, mean in product((3, 6, 12), (0.5, 0.2, 0.05), (0.1, 0.5)):
        assert max(misses(bets(OrderedBetting, rows, mean), rows, level)) <= 1.0, (rows, level, mean)


def test_the_average_over_stakes_is_what_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "_HEDGE", np.zeros(1 + len(joint.FRACTIONS)))  # the best stake after the look
    assert max(misses(bets(OrderedBetting, 12, 0.5), 12, 0.2)) > 2.0


def test_tails_of_independent_rows_miss_more_often_than_their_level() -> None:
    rows, level = 12, 0.2
    ends = [
        ClopperPearson(rows=rows, training=rows).interval(ones / rows, -math.log(level)) for ones in range(rows + 1)
    ]
    assert worst_miss([high for _, high in ends], above=True) > 1.2 * level / 2.0


def test_units_of_several_rows_under_random_processes() -> None:
    rng, level, sizes = np.random.default_rng(15), 0.3, [1, 3, 2, 1, 2]
    training = GroupSums(np.array([1, 2, 3]), np.array([2, 5, 6]), np.array([4, 4, 4]), 4)
    procedure = OrderedBetting(sizes=((1, 2), (2, 2), (3, 1)), training=training, guess=0.4)
    outcomes = list(product(range(3), repeat=len(sizes)))  # nothing, half of the rows, all of them
    ends = {
        path: procedure.interval(
            GroupSums(np.array(sizes), np.array([2 * n * y for n, y in zip(sizes, path, strict=True)]),
                      np.ones(len(sizes), dtype=np.int64), 4),
            -math.log(level),
        )
        for path in outcomes
    }  # fmt: skip
    worst = 0.0
    for _ in range(60):
        concentration = rng.choice([0.05, 0.5, 5.0])
        laws: dict[tuple[int, ...], np.ndarray] = {}
        missed = 0.0
        for path in outcomes:
            chance, total = 1.0, 0.0
            for place, (size, value) in enumerate(zip(sizes, path, strict=True)):
                law = laws.setdefault(path[:place], rng.dirichlet(np.full(3, concentration)))
                chance *= law[value]
                total += size * (law[1] / 2.0 + law[2])
            low, high = ends[path]
            missed += chance * (not low - 1e-12 <= total / sum(sizes) <= high + 1e-12)
        worst = max(worst, missed)
    assert 0.0 < worst <= level


def test_it_is_hardly_wider_than_bets_on_independent_units() -> None:
    for rows, mean, nats in product((300, 3_000), (0.05, 0.5), (4.0, 12.0)):
        seen = ones_and_zeros(round(rows * mean), rows)
        widths = [
            high - low
            for low, high in (bets(kind, rows, mean).interval(seen, nats) for kind in (OrderedBetting, GroupBetting))
        ]
        assert widths[0] <= 1.08 * widths[1], (rows, mean, nats)


def test_no_interval_is_wider_than_is_quoted() -> None:
    rng = np.random.default_rng(7)
    for _ in range(40):
        rows, nats = int(rng.integers(2, 400)), float(rng.uniform(0.7, 14.0))
        procedure = bets(OrderedBetting, rows, float(rng.uniform()))
        low, high = procedure.interval(ones_and_zeros(int(rng.integers(0, rows + 1)), rows), nats)
        assert 0.0 <= low <= high <= 1.0
        assert (high - low) / 2.0 <= procedure.widest(nats) + 1e-9
        assert procedure.farthest_end(ones_and_zeros(rows, rows), nats, upper=True, known=None) == 1.0
