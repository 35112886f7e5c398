"""Answers whose value is always told: those of declared families (S10), and of queries released together (S9).

Such an answer tells a label of the sealed rows with a public prior. Later queries that are not declared pay for this
label as they pay for labels of surprises (S9). Queries of declared families pay nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy

from everhold.guarantees.intervals.means import OfMeans
from everhold.mechanisms.base import Mechanism, Replies, Source, State, alike
from everhold.mechanisms.labels import Offsets, in_millionths, likeliest_sealed, told_value, widest_released
from everhold.mechanisms.records import Evaluations, all_narrower

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms.public_levels import PublicLevels


SHARE = 0.5
"""Part of the probability of failure that declared families have, unless another one is said."""

_UNIFORM = 0.5  # of the prior of a told sum; the rest lies around the training estimate


def answer_declared(
    mechanism: Mechanism, state: State, evaluations: Evaluations, nats: NDArray[np.float64]
) -> tuple[State, Replies]:
    """Answer queries of declared families. They use no planned query, but their labels make later queries wider.

    Args:
        mechanism: The mechanism of the holdout.
        state: The state before the answers.
        evaluations: The queries, each with a procedure that depends only on the query and the training rows.
        nats: ln(1 / level) of each query, shape (queries,).
    """
    replies, labels, guesses = Replies.refused(len(evaluations)), 0, evaluations.guesses
    steps, rounding, totals = mechanism.steps, mechanism.rounding, evaluations.totals.sum(axis=1)
    ats = np.where(guesses >= 0, guesses / steps, 0.5)
    for procedure, places in alike(mechanism.procedures_of(evaluations)):
        if isinstance(procedure, OfMeans):
            counts = totals[places] // evaluations.unit
            first = counts * evaluations.unit
            last = totals[places]
            if not procedure.of_counts:  # no whole numbers of rows, unless every row value is 0 or 1
                last = np.where(evaluations.whole[places], first, np.minimum(first + evaluations.unit - 1, steps))
            low, high = procedure.span(first / steps, last / steps, nats[places])
            values, ends = (first + last) / 2.0 / steps, (low - rounding, high + rounding)
            low, high = procedure.span(totals[places] / steps, totals[places] / steps, nats[places])
            trained = np.where(guesses[places] >= 0, mechanism.effective_rows(mechanism.rows), 0.0)
            labels += sum(
                map(in_millionths, label_nats(counts, rows=evaluations.rows, at=ats[places], trained=trained))
            )
        else:
            told, low, high = [], np.empty(len(places)), np.empty(len(places))
            for index, place in enumerate(places.tolist()):
                summary = evaluations.summary(place, procedure, totals[place] / steps)
                least, most = procedure.interval(summary, float(nats[place]))
                offsets = Offsets.of(procedure, float(ats[place]), float(nats[place]))
                low[index], high[index] = least, most
                told.append(offsets.released(least - rounding, most + rounding))
            shown = [told_value(totals[place] / steps, *ends) for place, (_, ends, _) in zip(places, told, strict=True)]
            values = np.array([value for value, _ in shown])
            ends = (np.array([end for _, (end, _), _ in told]), np.array([end for _, (_, end), _ in told]))
            labels += sum(cost for _, _, cost in told) + sum(cost for _, cost in shown)
        sealed = np.stack([totals[places] / steps, low - rounding, high + rounding], axis=1)
        replies.sealed[places] = np.clip(sealed, 0.0, 1.0)
        for index, place in enumerate(places.tolist()):
            replies.procedures[place] = procedure
            one = slice(index, index + 1)
            replies.put(slice(place, place + 1), values[one], (ends[0][one], ends[1][one]), Source.DECLARED)
    replies.nats[:] = nats
    return state.after(asked=0, charged=0, labels=labels), replies


def label_nats(
    counts: NDArray[np.int64], *, rows: int, at: NDArray[np.float64], trained: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return ln(1 / prior) of counts of rows: half of the prior is uniform, half is around the training estimate.

    Args:
        counts: The counts that are answered, shape (queries,).
        rows: Number of sealed rows.
        at: Training estimates in [0, 1], shape (queries,).
        trained: Number of independent training rows that each estimate was made from, shape (queries,). 0 if there is
            no estimate.

    Examples:
        >>> label_nats(np.array([5_010]), rows=20_000, at=np.array([0.25]), trained=np.array([20_000.0])).round(1)
        array([6.1])
    """
    uniform = -math.log(rows + 1.0)
    yes, no = at * trained + 0.5, (1.0 - at) * trained + 0.5
    ln_beta, ln_gamma = scipy.special.betaln, scipy.special.gammaln
    ways = ln_gamma(rows + 1.0) - ln_gamma(counts + 1.0) - ln_gamma(rows - counts + 1.0)
    around = ways + ln_beta(counts + yes, rows - counts + no) - ln_beta(yes, no)
    mixed = np.logaddexp(uniform + math.log(_UNIFORM), around + math.log(1.0 - _UNIFORM))
    return np.asarray(-np.where(trained > 0.0, mixed, uniform))


def widest_declared(mechanism: Mechanism, procedure: Procedure, nats: float, *, at: float = 0.5) -> tuple[float, float]:
    """Return the expected and the largest half-width of the interval of a declared query. Both are public.

    Args:
        mechanism: The mechanism that answers.
        procedure: The query's interval procedure.
        nats: ln(1 / level).
        at: Training estimate in [0, 1]. 0.5 if there is no estimate.

    Returns:
        The distance from the value to the farther end that is expected if sealed rows spread like training rows, and a
            bound of it for any sealed rows. For a share of rows both are the bound.
    """
    if isinstance(procedure, OfMeans):
        shares = np.linspace(0.0, 1.0, 201) if mechanism.rows > 200 else np.arange(mechanism.rows + 1) / mechanism.rows
        low, high = procedure.span(shares, shares, np.full(len(shares), nats))
        far = np.maximum(shares - np.maximum(low, 0.0), np.minimum(high, 1.0) - shares)
        cell = 0.0 if procedure.of_counts else 1.0 / mechanism.rows
        most = min(1.001 * float(np.max(far)) + mechanism.rounding + cell, 1.0)
        return most, most
    ends = procedure.expected(at, nats)
    likely = min(max(at - ends[0], ends[1] - at), procedure.widest_if_honest(nats))
    honest, most = (widest_released(half + mechanism.rounding) for half in (likely, procedure.widest(nats)))
    return honest, most


# Queries that are asked together and all released as rounded intervals, for which later queries pay (S9).
#
# Each query takes one planned query, and none of them is a surprise. The label of all answers together has one label
# for each query. Its prior is the product of their priors, so the priors sum to at most 1.


_SCATTER = (1.0, 16.0)  # guesses may be worth the rows that they come from, or fewer: cross-validation misses by more


def release_all(mechanism: PublicLevels, state: State, evaluations: Evaluations) -> tuple[State, Replies]:
    """Answer queries that are released together, as many as the budget allows. The value of each is told.

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
    """Return ln(1 / prior) of the cell of a sealed mean. With a guess, half of the prior is around the guess.

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
    """Return the total probability of some counts under the half of the prior around a training estimate.

    ``at`` is the estimate, from ``trained`` training rows.
    """
    every = label_nats(counts, rows=rows, at=np.array(at), trained=np.array(trained))
    mixed = np.exp(-every) - 0.5 / (rows + 1.0)  # without the uniform half
    return float(np.clip(2.0 * mixed.sum(), 0.0, 1.0))
