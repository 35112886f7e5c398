"""Tables of shares, each told by the plan of `everhold.synthesize`; the analyst knows the population."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.queries.selection.results import SealedValues
from everhold.queries.selection.synthesis import CountShares, SynthesisPlan
from everhold.values.base import Schema
from everhold.values.universe import ListedColumn, Universe

_FAR = (0.9, 0.1)  # weights of training rows that are unlike the sealed ones
_OFF = (0.7, 0.3)
_COINS, _ROWS = 10, 400
_COIN = Universe((ListedColumn("x", (0, 1), rest=0),))


@cache
def _plan(mechanism: GuessAndCheck, universe: Universe, weights: tuple[float, ...]) -> SynthesisPlan:
    nothing: Any = None
    schema = Schema(rows=mechanism.rows, training_rows=mechanism.rows, columns={})
    plan = SynthesisPlan(schema, mechanism, universe, 1, universe.marginals(1), nothing)
    vars(plan)["shares"] = shares = CountShares(mechanism, plan.counts, universe, None)
    vars(shares)["first"] = np.array(weights)  # what training rows say
    return plan


def _seen(counts: NDArray[np.int64], mechanism: GuessAndCheck) -> SealedValues:
    return SealedValues(counts * mechanism.unit, counts / mechanism.rows, [None] * len(counts))


def table_course(
    rng: np.random.Generator, mechanism: GuessAndCheck, nats: float, place: int
) -> tuple[NDArray[np.float64], float, float, bool]:
    """One round: the table of a fresh coin, which training rows say falls on 1 in a tenth of the rows.

    Returns:
        Which rows are 1, how far the marks say that they are too many, ln(1 / prior) of the label, and whether the
        population is farther from the table than was told.
    """
    plan, column = _plan(mechanism, _COIN, _FAR), rng.integers(0, 2, mechanism.rows)
    counts = np.array([mechanism.rows - column.sum(), column.sum()])
    told, label, _ = plan.release(nats, _seen(counts, mechanism))
    weights = plan.shares.first
    for mark, share in told["marks"]:
        weights = plan.shares.marked(weights, int(mark), share)
    missed = float(np.max(np.abs(plan.counts.means(weights) - 0.5))) > told["within"]
    return column.astype(np.float64), float(weights[1]) - 0.5, label, missed


def marks_miss(*, paid: bool) -> Callable[[np.random.Generator], bool]:
    """One table of ten coins; training rows say that each falls on 1 in three rows of ten.

    Ten marks correct it, so ten sealed shares are told, and the largest of their errors has one event. Without payment
    for the marks inside the step, its level is that of a table that the sealed rows did not choose.
    """
    mechanism = GuessAndCheck.tuned(rows=_ROWS, queries=1, surprises=1, confidence=0.8, training_rows=_ROWS)
    universe = Universe(tuple(ListedColumn(f"x{number}", (0, 1), rest=0) for number in range(_COINS)))
    first = np.array([1.0])
    for _ in range(_COINS):
        first = np.kron(first, _OFF)
    plan = _plan(mechanism, universe, tuple(first.tolist()))
    nats = float(mechanism.nats(1, 0, 0.0))

    def play(rng: np.random.Generator) -> bool:
        ones = rng.binomial(mechanism.rows, 0.5, _COINS)
        seen = _seen(np.stack([mechanism.rows - ones, ones], axis=1).ravel(), mechanism)
        told, _, _ = plan.release(nats, seen)
        weights = plan.shares.first
        for mark, share in told["marks"]:
            weights = plan.shares.marked(weights, int(mark), share)
        within = told["within"] if paid else plan.shares.error(seen, weights, nats + math.log(2.0))[0]
        return float(np.max(np.abs(plan.counts.means(weights) - 0.5))) > within

    return play
