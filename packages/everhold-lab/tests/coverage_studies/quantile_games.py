"""Quantiles of fresh columns, each told by the plan of `everhold.quantile`; the analyst knows the population's."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.queries.interval_planner import Prepared
from everhold.queries.selection.quantile import QuantilePlan, _CountedUpTo
from everhold.queries.selection.results import SealedValues
from everhold.values.base import BoundQuery, Schema

_EDGES = np.linspace(0.3, 0.7, 81)
_MIDDLE = 40


@cache
def _plan(mechanism: GuessAndCheck) -> QuantilePlan:
    prepared = Prepared(BoundQuery({"n": 0}, "x"), -1, from_training=False, procedure=mechanism.yes_no_procedure)
    nothing: Any = None
    schema = Schema(rows=mechanism.rows, training_rows=mechanism.rows, columns={})
    return QuantilePlan(schema, mechanism, "x", 0.5, _EDGES, _EDGES, prepared, nothing)


def quantile_course(
    rng: np.random.Generator, mechanism: GuessAndCheck, nats: float, place: int
) -> tuple[NDArray[np.float64], float, float, bool]:
    """One round: the median of a fresh column, uniform on [0, 1].

    Returns:
        Which rows lie up to 1/2, how far the told ends say that they are too many, ln(1 / prior) of the label, and
        whether the population's median lies outside.
    """
    plan, values = _plan(mechanism), rng.random(mechanism.rows)
    counts = np.searchsorted(np.sort(values), _EDGES, side="right")
    means = counts / mechanism.rows
    seen = SealedValues(counts * mechanism.unit, means, [None] * len(counts))
    told, label, _ = plan.release(nats, _CountedUpTo(np.arange(len(_EDGES)), seen))
    low, high = told["edges"]
    ends = np.concatenate([[-np.inf], _EDGES, [np.inf]])[[low + 1, high + 1]]
    return (values <= 0.5).astype(np.float64), float(2 * _MIDDLE - low - high), label, not ends[0] <= 0.5 <= ends[1]
