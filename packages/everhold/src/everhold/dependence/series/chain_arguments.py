"""Checks of a Markov chain's arguments: transition matrix, laws, names of states, radii of a fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.dependence.series.fitting import as_text
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Iterable


MOST_STATES = 128


def checked_matrix(transition: Iterable[Iterable[float]]) -> tuple[tuple[float, ...], ...]:
    """A transition matrix as nested tuples, shape (states, states), if its rows are laws."""
    try:
        rows = list(transition)
    except TypeError:
        raise DependenceError(
            f"the transition matrix is {transition!r}; expected a list of rows, one for each state"
        ) from None
    size = len(rows)
    if not 1 <= size <= MOST_STATES:
        raise DependenceError(
            f"the transition matrix has {size} rows; expected one for each of 1 to {MOST_STATES} states"
        )
    return tuple(
        checked_law(row, f"row {number} of the transition matrix", states=size) for number, row in enumerate(rows, 1)
    )


def checked_law(given: Iterable[float], name: str, *, states: int) -> tuple[float, ...]:
    """A law of so many states, if its probabilities add up to 1."""
    try:
        law = tuple(map(float, [] if isinstance(given, str) else given))
    except (TypeError, ValueError):
        raise DependenceError(f"{name} holds something that is not a number; expected probabilities") from None
    if len(law) != states:
        raise DependenceError(f"{name} has {len(law)} entries; expected {states}, one for each state")
    for chance in law:
        if not 0.0 <= chance <= 1.0:
            wrong = "is not a number" if math.isnan(chance) else "is negative" if chance < 0.0 else "is above 1"
            raise DependenceError(f"{name} has the entry {chance}, which {wrong}; expected probabilities")
    total = math.fsum(law)
    if abs(total - 1.0) > 1e-9:
        raise DependenceError(f"{name} sums to {total:.12g}; expected 1; scale it, or correct its entries")
    return law


def named_states(states: Sequence[Any]) -> list[str]:
    """Names of states as they are read from rows: truth values are "true" and "false"."""
    return [str(name) for name in as_text(np.array(list(states), dtype=object))]


def checked_radii(uncertainty: float | Iterable[float] | None, states: int) -> tuple[float, ...] | None:
    """Radii of a fitted matrix, an L1 distance for each row; None if it is exact."""
    if uncertainty is None:
        return None
    given = (float(uncertainty),) * states if isinstance(uncertainty, int | float) else tuple(map(float, uncertainty))
    if len(given) != states or not all(0.0 <= radius <= 2.0 for radius in given):
        raise DependenceError(
            f"the uncertainty has {len(given)} radii for {states} states or one outside [0, 2]; expected an L1 "
            "distance for every row of the matrix"
        )
    return given
