"""Checks of rows against a model of series: their order, the gap to training rows, and their steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from everhold.dependence.base import ONE_STEP
from everhold.errors import DependenceError, DependenceWarning, warn_caller

if TYPE_CHECKING:
    from everhold.dependence.base import RowStructure, SeriesFacts
    from everhold.dependence.series.base import SeriesModel

_SHORTER = 0.02  # by how much the usual sealed step may fall short of the fitted one: clocks jitter, months differ


def check_rows(model: SeriesModel, facts: SeriesFacts) -> None:
    """Check that a model's order, gap and steps are those of the rows to seal.

    Warns:
        DependenceWarning: If training and sealed rows may be of one series and are declared independent with an
            infinite gap.
    """
    if facts.ties:
        raise DependenceError(
            f"some sealed rows of one series have the same value in column {model.order_by!r}; expected one row per "
            "step; name the column that tells series apart as `groups`"
        )
    if model.gap is None or math.isfinite(model.gap):
        _check_training(model, facts.training)
        _check_gap(model, facts)
    elif facts.training != "none":
        _check_another_series(model, facts.training)
        warn_caller(
            DependenceWarning(
                f"training rows lie {facts.training} the sealed rows, and gap=math.inf says that they are another "
                "series that is independent of the sealed one, as another station's days are; if they are of the "
                "same series, the promise is false: seal a later block and declare its gap, or tell the series "
                "apart with groups=..."
            )
        )
    if model.step or model.fit_miss:
        _check_steps(model, facts)


def check_follows(model: SeriesModel, structure: RowStructure) -> None:
    """Check rows that arrive (the sealed ones of ``structure``) against all earlier ones (its training rows).

    Raises:
        DependenceError: If they do not come after all earlier rows, in the same steps.
    """
    facts = structure.series(str(model.order_by), within=None)
    if facts.training != "before" or facts.ties:
        raise DependenceError(
            f"in column {model.order_by!r} they do not come after all sealed rows, one row per step. Append the "
            "rows that follow"
        )
    _check_steps(model, facts)
    if facts.apart is not None and facts.apart < 1.0 - ONE_STEP:
        raise DependenceError(
            f"in column {model.order_by!r} the first one is {facts.apart:.3g} steps after the last sealed row. "
            "Append whole steps"
        )
    model.check_state(structure)


def check_training_before(model: SeriesModel, structure: RowStructure) -> None:
    """Check that rows that arrive do not come near training rows that lie after the sealed ones.

    Raises:
        DependenceError: If training rows of the series do not all come before them.
    """
    independent = model.gap is not None and math.isinf(model.gap)
    if not independent and structure.series(str(model.order_by), within=None).training != "before":
        raise DependenceError(
            f"in column {model.order_by!r} training rows do not all come before them, and rows that go on would "
            "come near these. Seal the rows as another holdout"
        )


def _check_training(model: SeriesModel, training: str) -> None:
    if training == "among":
        raise DependenceError(
            "training rows lie among the sealed rows of a series; expected all of them on one side, for neighbours "
            "tell about each other; seal a later block of every series, or whole series named by `groups`"
        )
    if training != "none" and model.gap is None:
        raise DependenceError(
            f"the training rows come {training} the sealed rows of the same series and the gap is not known; "
            "expected the number of unseen rows left out in between; declare gap=... (0 if none), or gap=math.inf "
            "if the training rows are another, independent series"
        )


def _check_another_series(model: SeriesModel, training: str) -> None:
    if model.groups is not None:
        raise DependenceError(
            f"training rows lie {training} sealed rows with the same value in column {model.groups!r}, so they are "
            "of the same series, and gap=math.inf says that they are of another; expected one of both; declare the "
            "number of unseen rows left out in between as gap=..., or keep whole series on one side"
        )


def _check_gap(model: SeriesModel, facts: SeriesFacts) -> None:
    """Hold the declared gap against the order column."""
    if facts.apart is None or model.gap is None:
        return
    if facts.apart < model.gap + 0.5:  # half a step for clocks that are not even
        raise DependenceError(
            f"the gap is declared as {int(model.gap):,} rows, and in column {model.order_by!r} the nearest training "
            f"row is {facts.apart:.3g} steps from a sealed one of its series; expected at least "
            f"{int(model.gap) + 1:,}; declare the true gap, or leave more rows out"
        )


def _check_steps(model: SeriesModel, facts: SeriesFacts) -> None:
    """Hold the steps that the model was fitted to against those of the sealed rows."""
    fitted = model.step or facts.training_step
    if not facts.step or not fitted:
        return
    if facts.step < (1.0 - _SHORTER) * fitted:
        raise DependenceError(
            f"the rows that the model was fitted to are {fitted / facts.step:.3g} times as far apart as the sealed "
            f"ones in column {model.order_by!r}, so what was fitted to them is too little dependence; expected the "
            "same steps; fit the model to rows as dense as the sealed ones, or order both by a column that counts "
            "the steps"
        )
    if facts.least_step is not None and facts.least_step < (1.0 - ONE_STEP) * fitted:
        raise DependenceError(
            f"some sealed rows are only {facts.least_step / fitted:.3g} steps apart in column "
            f"{model.order_by!r}, and the model was fitted to whole steps; expected one row per step, up to a "
            "tenth; thin the rows out, or order them by a column that counts the steps"
        )
