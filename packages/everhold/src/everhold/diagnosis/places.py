"""Places: columns of coordinates put rows in an order in which rows that follow each other are near each other."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from everhold.dependence.blocks import block_variance_of_values
from everhold.dependence.groups import Groups
from everhold.diagnosis.columns import outcomes_of
from everhold.diagnosis.findings import SeriesFinding
from everhold.diagnosis.resemblance import autocorrelation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from everhold.dependence import DependenceModel
    from everhold.diagnosis.columns import ExaminedColumn, ExaminedOutcome, OpenRows
    from everhold.diagnosis.groups_and_orders import CheckInputs

_NAMES = (
    *product(("lat", "latitude"), ("lon", "lng", "long", "longitude")),
    ("x_coord", "y_coord"), ("coord_x", "coord_y"), ("pos_x", "pos_y"), ("easting", "northing"),
)  # fmt: skip
_FEWEST_VALUES = 30  # of each coordinate
_MOST_OUTCOMES = 8
_BITS = 16  # of each coordinate on the curve


class PlaceFinding(SeriesFinding):
    """Of rows that lie near each other."""

    __slots__ = ()

    @property
    def model(self) -> DependenceModel:
        """As many neighbours as are surely worth one row, as a group."""
        return Groups(self.block or 1)

    @property
    def share(self) -> float:
        """As measured."""
        return 1.0 / max(self.design_effect, 1.0)

    def suggestion(self, *, shell: bool = False) -> str | None:
        """Blocks of the map."""
        blocks = "--groups block" if shell else "dependence=eh.Groups('block')"
        return f"{blocks}, a column that numbers blocks of the map of at least {self.block or 1:,} rows each"

    def claim(self, alike: str, advice: str | None, would: str) -> str:
        """Neighbours share what the map has at their place."""
        return (
            f"training rows that are near each other in {self.column} resemble each other {alike}; if neighbours share "
            f"a cause, as houses of one street do, seal whole blocks of the map and declare {advice}{would}"
        )


def places(inputs: CheckInputs) -> Iterator[PlaceFinding]:
    """One finding for each pair of coordinates, in the label; in other columns only where there is no label."""
    for first, second in _pairs(inputs.rows, inputs.label):
        present = (first.ranks >= 0) & (second.ranks >= 0)
        order = _along_the_curve(first.ranks, second.ranks)
        order = order[present[order]]
        most = 0 if inputs.label is not None else _MOST_OUTCOMES
        outcomes = outcomes_of(inputs.rows, label=inputs.label, most=most)
        wanted = [each for each in outcomes if each.column not in (first.name, second.name)]
        found = [_found(f"{first.name!r} and {second.name!r}", order, each, inputs, len(wanted)) for each in wanted]
        clearest = min((each for each in found if each is not None), key=lambda each: each.p_value, default=None)
        if clearest is not None:
            yield clearest


def _pairs(rows: OpenRows, label: str | None) -> Iterator[tuple[ExaminedColumn, ExaminedColumn]]:
    named = {
        column.name.casefold(): column for column in rows.columns
        if column.name != label and column.kind in ("whole", "number")
        and int(column.ranks.max(initial=-1)) >= _FEWEST_VALUES
    }  # fmt: skip
    yield from ((named[one], named[other]) for one, other in _NAMES if one in named and other in named)


def _along_the_curve(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows along a curve that fills the map (Morton 1966): places that follow each other on it are near each other."""
    curve = np.zeros(len(first), dtype=np.int64)
    for shift, ranks in enumerate((first, second)):
        scaled = np.maximum(ranks, 0) * (2**_BITS - 1) // max(int(ranks.max()), 1)
        for bit in range(_BITS):
            curve |= ((scaled >> bit) & 1) << (2 * bit + shift)
    return np.argsort(curve, kind="stable")


def _found(
    name: str, order: NDArray[np.int64], outcome: ExaminedOutcome, inputs: CheckInputs, number: int
) -> PlaceFinding | None:  # fmt: skip
    """The finding in one of a number of outcomes."""
    place = np.cumsum(outcome.present) - 1
    values = outcome.values[place[order[outcome.present[order]]]]
    if (alike := autocorrelation(values)) is None:
        return None
    seen = block_variance_of_values(values, promised=inputs.promised)
    return PlaceFinding(
        column=name,
        role="series",
        outcome=outcome.name,
        state=outcome.column,
        of_label=outcome.of_label,
        correlation=alike.correlation,
        standard_error=alike.standard_error,
        p_value=float(seen.p_values[0]) * number,
        design_effect=float(seen.design_effects[0]),
        promised=inputs.promised,
        first_order=False,
        block=math.ceil(float(seen.at_most[0])),
        estimate=True,
        states=outcome.states,
    )
