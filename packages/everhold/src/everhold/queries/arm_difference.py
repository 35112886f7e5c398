"""The difference of the means of two arms as one query, whose bets are on both arms at once (Statement K)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np

from everhold.arguments import as_float
from everhold.guarantees.intervals.bets.joint import Units
from everhold.guarantees.intervals.composites.parts import units_of
from everhold.guarantees.intervals.pairs.arms import ArmDifference, SeenArms
from everhold.queries.metrics.query import largest_group
from everhold.queries.statistic import OneNumber
from everhold.sealing.rows.sums import parts_of_ratio
from everhold.values.base import BoundQuery, with_clips
from everhold.values.measures import DIFFERENCE_OF_MEANS, DIFFERENCE_OF_RATES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows

    InArm = tuple[NDArray[np.float64], NDArray[np.float64]]
    """Values of rows within an arm, and 1 for its rows; shape (rows,) each."""


def difference_of_arms(
    compiler: QueryCompiler, arms: Sequence[BoundQuery], *, shown: str, width: float, guess: float | None
) -> OneNumber | None:
    """The one query; None where the arms are asked for one by one.

    They are where an engine counts groups of rows, where a declared family has them, and without training rows in an
    arm.

    Args:
        compiler: Of the holdout.
        arms: The conditional means of the treated and of the control arm; no row is in both.
        shown: The query as people read it.
        width: Of the outcomes that row values of 0 and 1 stand for; negative where 1 stands for the lesser one.
        guess: The analyst's own, in units of the outcome.
    """
    mechanism, training = compiler.mechanism, compiler.training
    group_column = mechanism.dependence.group_column
    if training is None or any(compiler.families.level_of(arm) is not None for arm in arms):
        return None
    if group_column is not None and compiler.sealed is not None and compiler.sealed.reads_ahead:
        return None
    ordered = sorted(arms, key=lambda arm: arm.query)  # one query, whichever arm is named first
    if ordered[0] is not arms[0]:
        width = -width
    reader = ArmsReader(ordered[0], ordered[1], group_column, largest_group(mechanism), mechanism.unit)
    counted = cast("StoredRows", training.counting(ordered[0]))  # any RowStore serves
    planned = reader.units(counted)
    if not planned.treated.total or not planned.control.total:
        return None
    columns = [arm.columns for arm in ordered]
    kind = DIFFERENCE_OF_RATES if reader.of_rates else DIFFERENCE_OF_MEANS
    bound = BoundQuery(
        {"kind": kind, "of": [arm.description for arm in ordered]}, shown, -width, width,
        reads=None if None in columns else tuple(dict.fromkeys(name for names in columns for name in names or ())),
        by_position=any(arm.by_position for arm in arms),
    )  # fmt: skip
    bound = with_clips(bound, [clip for arm in ordered for clip in arm.clips])
    values = reader.values(training)  # of a sample, where an engine counts them
    if all(whole.any() for _, whole in values):
        compiler.planner.evaluator.test_spread(bound, _residuals(*values))
    known, rows = Fraction(planned.score), compiler.schema.rows
    procedure = ArmDifference(planned, rows / counted.rows, rows)
    own = None if guess is None else as_float(guess)
    prepared = compiler.planner.of_statistic(bound, own, known, procedure)
    return OneNumber([prepared], compiler.schema, mechanism, reader.sealed)


@dataclass(frozen=True, slots=True)
class ArmsReader:
    """Reader of both arms; public.

    Attributes:
        treated: The ratio of one arm: values within rows that count.
        control: That of the other arm.
        group_column: Names groups of rows; None of independent ones.
        largest: Rows of the largest sealed group.
        unit: Grid steps between the row values 0 and 1.
    """

    treated: BoundQuery
    control: BoundQuery
    group_column: str | None
    largest: float
    unit: int

    @property
    def of_rates(self) -> bool:
        """True if what is averaged in either arm is 0 or 1 in every row."""
        return all(parts_of_ratio(arm)[0].yes_no for arm in (self.treated, self.control))

    def units(self, rows: StoredRows) -> SeenArms:
        """The units of both arms; of sealed rows they are secret. Rows that are no groups may be counted elsewhere."""
        rounded = 0.0 if self.of_rates else 1.0 / self.unit
        if self.group_column is None:
            _, seen = rows.evaluate([self.treated, self.control], ["pairs", "pairs"], unit=self.unit)
            treated, control = (
                units_of(pairs.numerators / self.unit, pairs.denominators / self.unit, counts=pairs.counts)
                for pairs in seen
            )
            return SeenArms(*_beside(treated, control), rounded)
        (first, counting), (other, among) = self.values(rows)
        index = rows.group_index(self.group_column)
        sums = [np.bincount(index, part) for part in (first, counting, other, among)]
        kinds, counts = np.unique(np.array(sums), axis=1, return_counts=True)
        largest = max(self.largest, float(np.bincount(index).max(initial=0)))
        treated, control = (
            Units(kinds[place + 1], kinds[place], counts.astype(np.float64), largest) for place in (0, 2)
        )
        return SeenArms(treated, control, rounded)

    def sealed(self, rows: StoredRows) -> tuple[Fraction, SeenArms]:
        """The difference of the sealed rows as a share of its range, and what is bet on. Secret."""
        seen = self.units(rows)
        return Fraction(seen.score), seen

    def values(self, rows: StoredRows) -> list[InArm]:
        """Values of rows in either arm; of sealed rows they are secret."""
        return [self._values(rows, arm) for arm in (self.treated, self.control)]

    def _values(self, rows: StoredRows, arm: BoundQuery) -> InArm:
        part, whole = (rows.row_values(query, unit=self.unit) for query in parts_of_ratio(arm))
        return np.minimum(part, whole) / self.unit, whole / self.unit


def _residuals(treated: InArm, control: InArm) -> NDArray[np.float64]:
    """Influence of each training row on the difference, shape (rows,)."""
    moves = [(part - whole * (part.sum() / whole.sum())) / whole.sum() for part, whole in (treated, control)]
    return np.asarray(moves[0] - moves[1])


def _beside(treated: Units, control: Units) -> tuple[Units, Units]:
    """Units of which each has rows in one arm alone, as units of both."""
    none = [np.zeros(len(units.counts)) for units in (control, treated)]
    counts = np.concatenate([treated.counts, control.counts])
    sizes = np.concatenate([treated.sizes, none[0]]), np.concatenate([none[1], control.sizes])
    values = np.concatenate([treated.values, none[0]]), np.concatenate([none[1], control.values])
    both = [Units(size, value, counts, 1.0) for size, value in zip(sizes, values, strict=True)]
    return both[0], both[1]
