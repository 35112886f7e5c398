"""Crossed and larger groups with few values: rows of different declared groups that share an item, a rater or a site.

A column with few values is taken for an attribute as long as nothing is declared. Under declared groups it matters: if
its values were drawn, too, rows of different groups depend on each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everhold.diagnosis.columns import outcomes_of
from everhold.diagnosis.findings import GroupFinding
from everhold.diagnosis.resemblance import scores, within_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from everhold.diagnosis.columns import ExaminedColumn, ExaminedOutcome
    from everhold.diagnosis.groups_and_orders import CheckInputs

_FEWEST_VALUES, _MOST_VALUES = 8, 29  # fewer describe rows; of more, every column of groups is looked at
_FEWEST_GROUPS = 30
_DECIMALS = 9  # of averages that are compared by rank


class CrossedFinding(GroupFinding):
    """Of rows of different declared groups that have a value in common."""

    __slots__ = ()

    @property
    def suspect(self) -> bool:
        """The label alone is looked at."""
        return self.clear

    def claim(self, alike: str, advice: str | None, would: str) -> str:
        """Its values may have been drawn as the groups were."""
        return (
            f"training rows with equal {self.column!r} resemble each other {alike}, also across the declared groups; "
            f"if its values were drawn, too, as raters or sites are, seal other values of it and declare {advice}"
            f"{would}; if answers are to be about these very values, the declaration is right"
        )


def crossed(inputs: CheckInputs) -> Iterator[CrossedFinding]:
    """One finding for each column with few values that share something the declared groups do not explain."""
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
    shared = float(np.sum(sizes**2) / len(value) - 1.0) * _of_rows(alike.correlation, outcomes, left)
    declared = within_groups(group, outcomes)
    inside = 0.0 if declared is None else max(declared.correlation, 0.0)
    measured = 1.0 + float(np.sum(counts.astype(np.float64) ** 2) / len(group) - 1.0) * inside
    return CrossedFinding(
        column=column.name,
        role="group",
        outcome=outcome.name,
        state=outcome.column,
        of_label=outcome.of_label,
        correlation=alike.correlation,
        standard_error=alike.standard_error,
        p_value=min(alike.p_value * number, 1.0),
        design_effect=measured + shared,
        promised=measured,
        groups=len(sizes),
        sizes=tuple(zip(*(part.tolist() for part in np.unique(sizes, return_counts=True)), strict=True)),
        missing=int(np.count_nonzero(~known)),
        states=outcome.states,
    )


def _of_rows(correlation: float, outcomes: NDArray[np.float64], left: NDArray[np.float64]) -> float:
    """The correlation as a share of the variance of rows, of which ``left`` has only a part."""
    return max(correlation, 0.0) * float(np.var(left) / np.var(outcomes))
