"""Does a fitted series remember no longer than its model? Neighbours fit the model; long stretches of rows test it.

A noisy record of something slow, as a label that says a regime's name wrongly one time in four, looks to its
neighbours like a series that forgets at once. Its averages wander all the same.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from everhold.dependence.stretches import wandering_of_values
from everhold.errors import DependenceError, DependenceWarning, warn_caller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.dependence.series.base import SeriesModel

__all__ = ["warn_of_long_memory"]

_LEVEL = 1e-3  # of a warning where the model is right, all outcomes together


def warn_of_long_memory(model: SeriesModel, outcomes: Sequence[NDArray[np.float64]], *, state: str) -> None:
    """Hold the averages of long stretches of the rows that a model was fitted to against what it says they vary.

    Args:
        model: The fitted model.
        outcomes: Numbers in the order of the rows, one array for each thing to look at, each of shape (rows,).
        state: Name of the column, for the message.

    Warns:
        DependenceWarning: If the rows are clearly worth less than the model says.
    """
    rows = len(outcomes[0])
    try:
        promised = rows / model.concentration(rows)
    except DependenceError:  # it promises nothing yet
        return
    for outcome in outcomes:
        spread = float(outcome.std())
        if not spread > 0.0:
            continue
        found = wandering_of_values((outcome - outcome.mean()) / spread, promised=promised)
        if float(found.p_values[0]) <= _LEVEL / len(outcomes):
            stretch = math.ceil(float(found.at_most[0]))
            text = (
                f"the model fitted to column {state!r} says that the {rows:,} training rows are worth "
                f"{rows / promised:,.0f} independent ones, and long stretches of them vary as if it were about "
                f"{rows / float(found.design_effects[0]):,.0f}: the rows remember longer than neighbours show, as a "
                "noisy record of something slow does; expected a state that tells all about the next row; do not "
                f"declare this model; number stretches of at least {stretch:,} rows in a row in a column and declare "
            )
            told = (f"{text}{declared}" for declared in ("Groups('stretch')", "--groups stretch"))
            warn_caller(DependenceWarning(next(told), for_shell=next(told)))
            return
