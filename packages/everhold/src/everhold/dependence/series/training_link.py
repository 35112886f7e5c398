"""The link of a series to its training rows: how much the last of these tells about the sealed rows after a gap."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from everhold.dependence.series.coupling import mean_tail
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from everhold.dependence.series.base import SeriesModel
    from everhold.dependence.series.coupling import Lengths


def is_linked(model: SeriesModel) -> bool:
    """True if training rows lie a finite gap before or after the sealed rows of their series."""
    return model.gap is not None and math.isfinite(model.gap)


def training_link(model: SeriesModel) -> float:
    """Total variation between (training rows, sealed rows) and independent ones, at most."""
    refuse_unknown_gap(model)
    if not is_linked(model):
        return 0.0
    refuse_unknown_number(model)
    series = sum(number for _, number in model.lengths or ((1, 1),))
    return min(series * model.law.distance(int(model.gap or 0) + 1), 1.0)


def refuse_unknown_number(model: SeriesModel) -> None:
    """Refuse a model whose number of series matters and is not known."""
    if model.groups is not None and model.lengths is None:
        raise DependenceError(
            f"the number of series in column {model.groups!r} is not known before rows are sealed, and each tells "
            "about its training rows; expected the lengths of the sealed series; give lengths=[(length, number of "
            "such series), ...]"
        )


def refuse_unknown_gap(model: SeriesModel) -> None:
    """Refuse a fitted model whose gap to the sealed rows is not known."""
    if model.fit_miss and model.gap is None:
        raise DependenceError(
            "the model was fitted to rows and the gap between them and the sealed rows is not known; expected "
            "the number of unseen rows left out; declare gap=... (0 if none), or gap=math.inf if they are "
            "independent"
        )


def lost_to_training(model: SeriesModel, lengths: Lengths) -> float:
    """Probability that the coupling from a sealed row reaches a training row, averaged over rows."""
    if model.fitted or not is_linked(model):
        return 0.0
    refuse_unknown_number(model)
    first = int(model.gap or 0) + 1
    longest = first + max(length for length, _ in lengths)
    tails = [mean_tail(model.law.coupling(), longest, backward=side) for side in (False, True)]
    reached = [sum(number * tail.total(first, first + length) for length, number in lengths) for tail in tails]
    return min(max(reached) / sum(length * number for length, number in lengths), 1.0)
