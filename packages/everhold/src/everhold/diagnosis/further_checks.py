"""Checks of training rows for near copies, for places on a map, and for groups that cross the declared ones.

**Near copies** are rows whose measurements are much nearer to those of one other row than to those of all others. Let
r_1 < r_2 < ... be the distances of a row to its neighbours. If rows are independent and locally of constant density,
``(r_j / r_{j+1})^(j d)`` is uniform on [0, 1] in d dimensions. So a large gap behind the first neighbours is rare, and
copies have such a gap.

**Places**: columns of coordinates put rows in an order in which rows that follow each other are near each other.

**Crossed groups**: rows of different declared groups share an item, a rater or a site. If no groups are declared, a
column with few values counts as an attribute of rows. If groups are declared, it matters: if its values were sampled
too, rows of different groups depend on each other.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from everhold.dependence.blocks import block_variance_of_values
from everhold.dependence.units import Groups
from everhold.diagnosis.columns import autocorrelation, outcomes_of, scores, within_groups
from everhold.diagnosis.groups_and_orders import CheckInputs, GroupFinding, SeriesFinding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from everhold.dependence import DependenceModel
    from everhold.diagnosis.columns import ExaminedColumn, ExaminedOutcome, OpenRows

NEAR_COPIES = "(rows that are nearly equal)"

_MOST_ROWS, _FEWEST_ROWS = 30_000, 200
_MOST_COLUMNS, _FEWEST_COLUMNS = 8, 2
_DIFFERENT = 0.5  # of the rows have values of their own in a column of measurements
_NEIGHBOURS = 5
_GAP = 5.0  # times as far as the neighbour before
_SHARE = 0.35  # of rows with such a gap; on a line every fourth independent row has one


class ClearFinding(GroupFinding):
    """A finding that is suspect as soon as it is clear, whatever its outcome is.

    Chance produces no gaps between copies, and what crosses declared groups is always about the label.
    """

    __slots__ = ()

    @property
    def suspect(self) -> bool:
        """Whether the finding is clear."""
        return self.clear


class CopiesFinding(ClearFinding):
    """The finding that rows are nearly equal in all measurements."""

    __slots__ = ()

    def suggestion(self, *, shell: bool = False) -> str | None:
        """Return the advice to declare a column that numbers the original of each copy."""
        groups = "--groups original" if shell else "dependence=eh.Groups('original')"
        return f"{groups}, a column that gives all copies of one row the same number, with all of them on one side"

    def claim(self, alike: str, advice: str | None, would: str) -> str:
        """Return the warning that rows may be copies of one row with a little noise."""
        return (
            f"Many training rows are nearly equal to another one in all measurements and resemble it {alike}. If they "
            f"are copies with noise, such as augmented or repeated measurements, declare {advice}.{would}"
        )


def near_copies(inputs: CheckInputs) -> Iterator[CopiesFinding]:
    """Yield at most one finding of nearly equal rows, with the first outcome of the label that can be tested."""
    copies = _numbered(inputs)
    if copies is None:
        return
    counts = Counter(np.bincount(copies).tolist())
    sizes, rows = tuple(sorted(counts.items())), len(copies)
    effect = rows / Groups.of_counts(counts).concentration(rows)  # if all copies were equal
    outcomes = outcomes_of(inputs.rows, label=inputs.label, most=0)
    for outcome in outcomes:
        present = outcome.present[:rows]
        values = outcome.values[: int(np.count_nonzero(present))]
        alike = within_groups(np.unique(copies[present], return_inverse=True)[1], values)
        if alike is None or alike.p_value * len(outcomes) > 1.0:
            continue
        yield CopiesFinding.of(
            NEAR_COPIES,
            "group",
            outcome,
            alike,
            p_value=alike.p_value * len(outcomes),
            design_effect=1.0 + (effect - 1.0) * alike.correlation,
            promised=inputs.promised,
            groups=sum(counts.values()),
            sizes=sizes,
        )
        return


def _numbered(inputs: CheckInputs) -> NDArray[np.int64] | None:
    """Return the number of the group of near copies of each row, or None if copies are not evident."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import KDTree

    rows = min(inputs.rows.rows, _MOST_ROWS)
    points = [
        column.ranks[:rows] / float(column.ranks.max()) for column in inputs.rows.columns
        if column.name != inputs.label and column.kind in ("whole", "number")
        and int(column.ranks.max(initial=-1)) + 1 >= max(_DIFFERENT * inputs.rows.rows, 2)
        and bool(np.all(column.ranks >= 0)) and not bool(np.all(np.abs(np.diff(column.ranks)) == 1))
    ]  # fmt: skip
    if rows < _FEWEST_ROWS or len(points) < _FEWEST_COLUMNS:
        return None
    measured = np.transpose(points[:_MOST_COLUMNS])
    found = KDTree(measured).query(measured, _NEIGHBOURS + 1)
    near, who = (np.asarray(part)[:, 1:] for part in found)
    gaps = near[:, 1:] > _GAP * np.maximum(near[:, :-1], 1e-12)
    if float(np.mean(gaps.any(axis=1))) < _SHARE:
        return None
    last = np.where(gaps.any(axis=1), gaps.shape[1] - 1 - np.argmax(gaps[:, ::-1], axis=1), -1)
    linked = np.arange(gaps.shape[1] + 1)[None, :] <= last[:, None]
    row, place = np.nonzero(linked)
    links = coo_matrix((np.ones(len(row)), (row, who[row, place])), shape=(rows, rows))
    return np.asarray(connected_components(links, directed=False)[1], dtype=np.int64)


_NAMES = (
    *product(("lat", "latitude"), ("lon", "lng", "long", "longitude")),
    ("x_coord", "y_coord"), ("coord_x", "coord_y"), ("pos_x", "pos_y"), ("easting", "northing"),
)  # fmt: skip
_FEWEST_PLACES = 30  # values of each coordinate
_MOST_OUTCOMES = 8
_BITS = 16  # of each coordinate on the curve


class PlaceFinding(SeriesFinding):
    """Finding that rows at nearby coordinates are correlated."""

    __slots__ = ()

    @property
    def model(self) -> DependenceModel:
        """The model to declare: groups of neighbours, so large that each is worth at least one independent row."""
        return Groups(self.block or 1)

    @property
    def share(self) -> float:
        """The worth of a row as measured: 1 over the design effect, at most 1."""
        return 1.0 / max(self.design_effect, 1.0)

    def suggestion(self, *, shell: bool = False) -> str | None:
        """Return the advice to declare a column that numbers blocks of the map."""
        blocks = "--groups block" if shell else "dependence=eh.Groups('block')"
        return f"{blocks}, a column that numbers blocks of the map of at least {self.block or 1:,} rows each"

    def claim(self, alike: str, advice: str | None, would: str) -> str:
        """Return the warning that neighbours on the map may share a cause."""
        return (
            f"Training rows that are near each other in {self.column} resemble each other {alike}. If neighbours "
            f"share a cause, as houses of one street do, seal whole blocks of the map and declare {advice}.{would}"
        )


def places(inputs: CheckInputs) -> Iterator[PlaceFinding]:
    """Yield one finding for each pair of coordinate columns, about the label or, if there is none, other columns."""
    for first, second in _pairs(inputs.rows, inputs.label):
        curve = np.zeros(len(first.ranks), dtype=np.int64)  # a space-filling curve over the map (Morton 1966)
        for shift, ranks in enumerate((first.ranks, second.ranks)):
            scaled = np.maximum(ranks, 0) * (2**_BITS - 1) // max(int(ranks.max()), 1)
            for bit in range(_BITS):
                curve |= ((scaled >> bit) & 1) << (2 * bit + shift)
        present, order = (first.ranks >= 0) & (second.ranks >= 0), np.argsort(curve, kind="stable")
        order = order[present[order]]
        most, found = 0 if inputs.label is not None else _MOST_OUTCOMES, list[PlaceFinding]()
        outcomes = outcomes_of(inputs.rows, label=inputs.label, most=most)
        wanted = [each for each in outcomes if each.column not in (first.name, second.name)]
        for outcome in wanted:
            place = np.cumsum(outcome.present) - 1
            values = outcome.values[place[order[outcome.present[order]]]]
            if (alike := autocorrelation(values)) is None:
                continue
            seen = block_variance_of_values(values, promised=inputs.promised)
            found.append(PlaceFinding.of(
                f"{first.name!r} and {second.name!r}", "series", outcome, alike,
                p_value=float(seen.p_values[0]) * len(wanted), design_effect=float(seen.design_effects[0]),
                promised=inputs.promised, first_order=False, block=math.ceil(float(seen.at_most[0])),
                order_columns=(first.name, second.name),
            ))  # fmt: skip
        yield from sorted(found, key=lambda each: each.p_value)[:1]


def _pairs(rows: OpenRows, label: str | None) -> Iterator[tuple[ExaminedColumn, ExaminedColumn]]:
    """Yield the pairs of numeric columns whose names suggest coordinates, such as latitude and longitude."""
    named = {
        column.name.casefold(): column for column in rows.columns
        if column.name != label and column.kind in ("whole", "number")
        and int(column.ranks.max(initial=-1)) >= _FEWEST_PLACES
    }  # fmt: skip
    yield from ((named[one], named[other]) for one, other in _NAMES if one in named and other in named)


_FEWEST_VALUES, _MOST_VALUES = 8, 29  # fewer describe rows; of more, every column of groups is looked at
_FEWEST_GROUPS = 30
_DECIMALS = 9  # of averages that are compared by rank


class CrossedFinding(ClearFinding):
    """Finding that rows of different declared groups with an equal value are correlated."""

    __slots__ = ()

    def claim(self, alike: str, advice: str | None, would: str) -> str:
        """Return the warning that the values of the column may be a random sample, as the declared groups are."""
        return (
            f"Training rows with equal {self.column!r} resemble each other {alike}, also across the declared groups. "
            "If its values were drawn, too, as raters or sites are, seal other values of it and declare "
            f"{advice}.{would} If answers are to be about these very values, the declaration is right."
        )


def crossed(inputs: CheckInputs) -> Iterator[CrossedFinding]:
    """Yield one finding for each column with few values that correlates rows of different declared groups."""
    named = inputs.declared.group_column
    groups = None if named is None else inputs.rows.column(named)
    if groups is None:
        return
    for column in inputs.rows.columns:
        values = int(column.ranks.max(initial=-1)) + 1
        if column.name in (named, inputs.label) or column.kind == "number":
            continue
        if _FEWEST_VALUES <= values <= _MOST_VALUES:
            outcomes = outcomes_of(inputs.rows, label=inputs.label, most=0)
            found = [_found(column, groups, each, inputs, len(outcomes)) for each in outcomes]
            yield from sorted(filter(None, found), key=lambda each: each.p_value)[:1]


def _found(
    column: ExaminedColumn, groups: ExaminedColumn, outcome: ExaminedOutcome, inputs: CheckInputs, number: int
) -> CrossedFinding | None:
    """Return the finding that rows with equal values of a column correlate beyond their declared groups, or None."""
    known = (column.ranks >= 0) & (groups.ranks >= 0)
    both = outcome.present & known
    group = np.unique(groups.ranks[both], return_inverse=True)[1]
    value, outcomes = column.ranks[both], outcome.values[known[outcome.present]]
    counts = np.bincount(group)
    if len(counts) < _FEWEST_GROUPS:
        return None
    means = np.bincount(group, weights=outcomes) / counts
    first = np.unique(group, return_index=True)[1]
    nested = bool(np.all(value == value[first][group]))
    # whole groups have one value each: their averages are compared; else what is left of rows without their groups
    codes, left = (value[first], means) if nested else (value, outcomes - means[group])
    ranked = scores(np.unique(np.round(left, _DECIMALS), return_inverse=True)[1])
    if ranked is None:
        return None
    codes = np.unique(codes, return_inverse=True)[1]
    alike = within_groups(codes, ranked)
    if alike is None:
        return None
    sizes = np.bincount(np.unique(value, return_inverse=True)[1])
    of_rows = max(alike.correlation, 0.0) * float(np.var(left) / np.var(outcomes))  # not of their residuals alone
    shared = float(np.sum(sizes**2) / len(value) - 1.0) * of_rows
    declared = within_groups(group, outcomes)
    inside = 0.0 if declared is None else max(declared.correlation, 0.0)
    measured = 1.0 + float(np.sum(counts.astype(np.float64) ** 2) / len(group) - 1.0) * inside
    return CrossedFinding.of(
        column.name,
        "group",
        outcome,
        alike,
        p_value=min(alike.p_value * number, 1.0),
        design_effect=measured + shared,
        promised=measured,
        groups=len(sizes),
        sizes=tuple(zip(*(part.tolist() for part in np.unique(sizes, return_counts=True)), strict=True)),
        missing=int(np.count_nonzero(~known)),
    )
