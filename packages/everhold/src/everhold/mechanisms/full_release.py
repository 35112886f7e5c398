"""Queries that are asked together and all released as rounded intervals, for which later queries pay (S9).

Each query takes one planned query, and none of them is a surprise. The label of all answers together has one label for
each query. Its prior is the product of their priors, so the priors sum to at most 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from everhold.guarantees.intervals.means import OfMeans
from everhold.mechanisms.base import Replies, Source, State
from everhold.mechanisms.declared import label_nats
from everhold.mechanisms.described import all_narrower
from everhold.mechanisms.labels import Offsets, in_millionths, likeliest_sealed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms.public_levels import PublicLevels
    from everhold.mechanisms.records import Evaluations

_SCATTER = (1.0, 16.0)  # guesses may be worth the rows that they come from, or fewer: cross-validation misses by more


def release_all(mechanism: PublicLevels, state: State, evaluations: Evaluations) -> tuple[State, Replies]:
    """Answer queries that are asked together with their values, as many as the budget allows.

    Args:
        mechanism: The mechanism that answers.
        state: Public state before the queries.
        evaluations: The queries. A guess makes a label cheaper and has no other effect.
    """
    replies, count = Replies.refused(len(evaluations)), mechanism.surely_answers(state, len(evaluations))
    if not count:
        return state, replies
    queries = evaluations.some([*range(count)])
    nats = mechanism.nats(state.asked + 1 + np.arange(count), state.charged, state.labels / 1e6)
    at = np.where(queries.guesses >= 0, queries.guesses / mechanism.steps, 0.5)
    procedures = [
        mechanism.procedure_at(*each)
        for each in zip(mechanism.procedures_of(queries), at.tolist(), nats.tolist(), strict=False)
    ]
    if queries.described is not None:
        procedures, nats = all_narrower(procedures, nats, queries.described)
    labels = 0
    for place, procedure in enumerate(procedures):
        labels += _answer(mechanism, replies, place, procedure, queries, float(nats[place]))
    replies.nats[:count], replies.procedures[:count] = nats, procedures
    return state.after(asked=count, charged=0, labels=labels), replies


def _answer(
    mechanism: PublicLevels, replies: Replies, place: int, procedure: Procedure, queries: Evaluations, nats: float
) -> int:
    """Fill in the reply to one query, and return the cost of its label in millionths of a nat."""
    total, guess = int(queries.totals[place].sum()), int(queries.guesses[place])
    mean, rounding = total / mechanism.steps, mechanism.rounding
    at, where = (guess / mechanism.steps if guess >= 0 else 0.5), slice(place, place + 1)
    guessed = at if guess >= 0 else None
    low, high = procedure.interval(queries.summary(place, procedure, mean), nats)
    sealed = np.clip([mean, low - rounding, high + rounding], 0.0, 1.0)
    if isinstance(procedure, OfMeans):
        first, last = mechanism.cells.released(total)
        ends = procedure.span(first, last, nats)
        low, high = float(ends[0]) - rounding, float(ends[1]) + rounding
        value = mechanism.intervals.value_in_cell(procedure, (first, last), (low, high), guess=guessed, nats=nats)
        cost = in_millionths(cell_nats(mechanism, total, at=at, guessed=guess >= 0))
    else:
        place_told, (low, high), cost = Offsets.of(procedure, at, nats).released(*sealed[1:].tolist())
        value = likeliest_sealed(procedure, place_told, (low, high), guess=guessed, nats=nats, rounding=rounding)
    replies.put(where, np.array([value]), (np.array([low]), np.array([high])), Source.CHOSEN)
    replies.sealed[place] = sealed
    return cost


def cell_nats(mechanism: PublicLevels, total: int, *, at: float, guessed: bool) -> float:
    """Return ln(1 / prior) of the cell of a sealed mean: uniform without a guess, else also around the guess.

    Args:
        mechanism: The mechanism, which defines the cells.
        total: The sum over the sealed rows, in grid units.
        at: The guess, in [0, 1].
        guessed: Whether there is a guess.
    """
    uniform = 1.0 / mechanism.grid
    if not guessed:
        return -math.log(uniform)
    rows, unit = mechanism.rows, mechanism.steps // mechanism.rows
    first, last = (round(end * mechanism.steps) for end in mechanism.cells.released(total))
    counts = np.arange(-(-first // unit), last // unit + 1)
    parts = [uniform] + [
        _around(counts, rows, at, mechanism.effective_training / scatter) for scatter in _SCATTER
    ]  # fmt: skip
    return -math.log(sum(parts) / len(parts))


def _around(counts: NDArray[np.int64], rows: int, at: float, trained: float) -> float:
    """Return the prior probability of these counts together, under the part of the prior around the estimate."""
    every = label_nats(counts, rows=rows, at=np.array(at), trained=np.array(trained))
    mixed = np.exp(-every) - 0.5 / (rows + 1.0)  # without the uniform half
    return float(np.clip(2.0 * mixed.sum(), 0.0, 1.0))
