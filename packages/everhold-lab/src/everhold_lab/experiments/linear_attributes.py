"""Independent normal attributes, some of which lean towards the label, and classifiers that let attributes vote.

An analyst who correlates attributes with the label and lets them vote looks at nothing but the products ``x_j y`` of
attribute and label. With y uniform on {-1, 1} and ``x_j = shift_j y + N(0, 1)`` all products are independent and
``N(shift_j, 1)``, whatever the labels are. So the products themselves are drawn, in blocks of attributes, and only the
columns of attributes that can be chosen are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from everhold.values.evaluation import UNIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

Columns = dict[int, "NDArray[np.float32]"]

_BLOCK = 500  # attributes drawn at a time
_STRIP = 10  # attributes put on the grid at a time: they stay in the processor's cache


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeLaw:
    """The law of one row of products of attribute and label.

    Attributes:
        informative: How many of them, the first ones, are shifted; the others have nothing to do with the label.
        shift: Mean of the product for the informative ones, in standard deviations.
    """

    attributes: int
    informative: int
    shift: float

    def shifts(self) -> NDArray[np.float64]:
        """Shape (attributes,): the mean of each product."""
        return np.where(np.arange(self.attributes) < self.informative, self.shift, 0.0)


@dataclass(frozen=True, slots=True)
class LinearSample:
    """A set of rows: what an analyst or a mechanism can need of it.

    Attributes:
        correlations: Shape (attributes,): averages of the products.
        totals: Shape (attributes,): sums of the clipped products in grid units, see `grid_totals`.
        columns: The products of the attributes that were kept, each of shape (rows,).
    """

    correlations: NDArray[np.float64]
    totals: NDArray[np.int64]
    columns: Columns = field(repr=False)


def draw_samples(
    law: AttributeLaw,
    *,
    rows: int,
    clip: float,
    keep_beyond: float,
    training: np.random.Generator,
    holdout: np.random.Generator,
) -> tuple[LinearSample, LinearSample]:
    """A training set and a holdout; columns are kept where the training correlation is beyond a cutoff.

    Args:
        law: Of the attributes.
        rows: Number of rows of each set.
        clip: Products are clipped to ``[-clip, clip]`` for the sums on the grid.
        keep_beyond: The least absolute training correlation with which an attribute can be chosen.
        training: Draws the training set.
        holdout: Draws the holdout.
    """
    generators = training, holdout
    samples = [_empty(law.attributes) for _ in generators]
    blocks = [np.empty((min(_BLOCK, law.attributes), rows), dtype=np.float32) for _ in generators]
    shifts = law.shifts()
    for start in range(0, law.attributes, _BLOCK):
        where = slice(start, min(start + _BLOCK, law.attributes))
        for sample, block, generator in zip(samples, blocks, generators, strict=True):
            part = block[: where.stop - start]
            _fill(part, shifts[where], generator)
            sample.correlations[where] = part.mean(axis=1)
            sample.totals[where] = grid_totals(part, clip=clip)
        kept = np.flatnonzero(np.abs(samples[0].correlations[where]) > keep_beyond)
        for sample, block in zip(samples, blocks, strict=True):
            sample.columns.update(zip((start + kept).tolist(), block[kept], strict=True))
    return samples[0], samples[1]


def _empty(attributes: int) -> LinearSample:
    return LinearSample(np.empty(attributes), np.empty(attributes, dtype=np.int64), {})


def _fill(block: NDArray[np.float32], shifts: NDArray[np.float64], generator: np.random.Generator) -> None:
    """Draw products in place, one line for each attribute."""
    generator.standard_normal(out=block, dtype=np.float32)
    for position in np.flatnonzero(shifts):
        block[position] += np.float32(shifts[position])


def draw_columns(law: AttributeLaw, *, rows: int, chosen: Iterable[int], generator: np.random.Generator) -> Columns:
    """Fresh rows of the chosen attributes alone: attributes are independent, so the others need not be drawn."""
    shifts, columns = law.shifts(), {}
    for attribute in sorted(chosen):
        column = np.empty((1, rows), dtype=np.float32)
        _fill(column, shifts[attribute : attribute + 1], generator)
        columns[attribute] = column[0]
    return columns


def grid_totals(products: NDArray[np.float32], *, clip: float) -> NDArray[np.int64]:
    """Sums over the rows of ``(clipped product + clip) / (2 clip)``, on the grid of `everhold.values.evaluation`.

    The same as summing `clip_to_grid` of it, in a third of the time: sums of whole numbers below 2^53 are exact.

    Args:
        products: Shape (attributes, rows).
        clip: Products are clipped to ``[-clip, clip]``.
    """
    totals = np.empty(len(products), dtype=np.int64)
    for start in range(0, len(products), _STRIP):
        strip = products[start : start + _STRIP] * np.float64(UNIT / (2.0 * clip))
        strip += UNIT / 2
        np.clip(strip, 0.0, UNIT, out=strip)
        np.floor(strip, out=strip)
        totals[start : start + _STRIP] = strip.sum(axis=1)
    return totals


def clipped_mean(means: NDArray[np.float64], *, clip: float) -> NDArray[np.float64]:
    """Population value of a product clipped to ``[-clip, clip]``, for products ``N(mean, 1)``."""
    low, high = -clip - means, clip - means
    inside = means * (norm.cdf(high) - norm.cdf(low)) - (norm.pdf(high) - norm.pdf(low))
    return np.asarray(inside + clip * (norm.sf(high) - norm.cdf(low)), dtype=np.float64)


def right_votes(
    columns: Mapping[int, NDArray[np.float32]], *, order: NDArray[np.int64], signs: NDArray[np.float64],
    counts: Sequence[int],
) -> NDArray[np.int64]:  # fmt: skip
    """Number of rows that the first k attributes classify correctly, by the sign of their signed sum.

    Args:
        columns: Products of attribute and label; a row is classified rightly if their signed sum is positive.
        order: Attributes in the order in which they join.
        signs: Shape (attributes,): the sign with which each one votes.
        counts: The numbers k, not decreasing.

    Returns:
        Shape (counts,).
    """
    votes = np.zeros(len(next(iter(columns.values()))), dtype=np.float32) if columns else np.zeros(0)
    right, joined = np.zeros(len(counts), dtype=np.int64), 0
    for position, count in enumerate(counts):
        for attribute in order[joined:count].tolist():
            if signs[attribute] > 0.0:
                votes += columns[attribute]
            else:
                votes -= columns[attribute]
        joined = max(joined, count)
        right[position] = np.count_nonzero(votes > 0.0)
    return right


def vote_accuracy(
    law: AttributeLaw, *, order: NDArray[np.int64], signs: NDArray[np.float64], counts: Sequence[int]
) -> NDArray[np.float64]:
    """Population accuracy of the same classifiers: the signed sum is normal, its variance the number of voters.

    Returns:
        Shape (counts,); one half where there are no votes.
    """
    means = np.concatenate([[0.0], np.cumsum((signs * law.shifts())[order])])
    voters = np.minimum(counts, len(order))
    return np.asarray(norm.cdf(means[voters] / np.sqrt(np.maximum(voters, 1))), dtype=np.float64)
