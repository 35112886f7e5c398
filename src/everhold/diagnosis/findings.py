"""Which columns of open rows look like groups or like an order, and whether that matters."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from everhold.dependence.groups import Groups
from everhold.dependence.series.gaussian_ar1 import GaussianAR1
from everhold.diagnosis.resemblance import Resemblance, autocorrelation, between_neighbours, scores, within_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from everhold.dependence import DependenceModel
    from everhold.diagnosis.columns import Column, OpenRows

__all__ = ["Finding", "corrected", "group_findings", "number_of_outcomes", "series_findings"]

_LEVEL = 1e-3  # of p-values, all columns and outcomes together
_FEWEST_GROUPS = 30  # with fewer, or with larger groups than the root of the rows, a column is an attribute
_REPEATED = 1.2  # a column of groups has fewer values than the rows divided by this
_FEWEST_OTHERS = 20  # an outcome that is rarer says nothing
_CLEAR, _CLEAR_IN_ORDER, _STRONG = 0.05, 0.1, 0.5
_DESIGN_EFFECT, _LEAST_LOSS = 1.1, 0.9
_TOGETHER = 0.5
_ORDERED = 0.95

Role = Literal["group", "attribute", "series"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one column would mean for the promise.

    Attributes:
        column: Its name.
        role: ``"group"`` if rows with equal values may have been drawn together; ``"attribute"`` if there are so few
            values, or so many rows of each, that it rather describes rows; ``"series"`` if it may put rows in order.
        outcome: In what rows resemble each other: the label, one of its classes, or the column in which they do most.
        correlation: Of two rows of one group (intra-class correlation, one-way analysis of variance), or of neighbours
            in the order (lag-1 autocorrelation); of ranks, so that a few huge values cannot decide.
        standard_error: Of the correlation.
        p_value: Probability of as large a correlation in shuffled rows, times the number of columns looked at.
        groups: Number of groups; None for a series.
        sizes: Pairs (size, number of groups of that size); empty for a series.
        missing: Rows without a value in the column; each counts as a group of its own.
        in_file: Whether the rows lie in the file group by group, or in that order; shuffled rows do not.
        local: The correlation beyond what the neighbouring value shares, for groups that are whole numbers.
        memory: For a series, the correlation of the autoregression whose averages vary as much, from the first 20
            lags, not only from neighbours: noise in the outcome hides how slowly rows forget. None for groups.
        effective_rows: What the sealed rows would be worth, if their groups have sizes like those found here.
        radius: What the radius would then be with the same mechanism, tuned anew; None where there is none, or where
            it was not computed, as for attributes.
        estimate: Whether the measured memory itself enters the last two, as for a series, whose model would be fitted
            with a margin. For groups only the sizes enter.
        states: Number of different values of the outcome.
    """

    column: str
    role: Role
    outcome: str
    correlation: float
    standard_error: float
    p_value: float
    groups: int | None = None
    sizes: tuple[tuple[int, int], ...] = ()
    missing: int = 0
    in_file: bool = False
    local: float | None = None
    memory: float | None = None
    effective_rows: float | None = None
    radius: float | None = None
    estimate: bool = False
    states: int = 0

    @property
    def model(self) -> DependenceModel:
        """Groups of the sizes found, or a series with the correlation found, far from its training rows.

        Raises:
            DependenceError: If neighbours are equal throughout.
        """
        if self.sizes:
            return Groups.of_counts(dict(self.sizes), column=self.column)
        return GaussianAR1(self._memory, order_by=self.column, gap=math.inf)

    @property
    def share(self) -> float:
        """What a row would be worth: effective rows for each row (S5)."""
        if self.sizes:
            rows = sum(size * number for size, number in self.sizes)
            return rows / sum(size * size * number for size, number in self.sizes)
        return (1.0 - abs(self._memory)) / (1.0 + abs(self._memory))

    @property
    def _memory(self) -> float:
        return self.correlation if self.memory is None else self.memory

    @property
    def clear(self) -> bool:
        """Whether chance cannot explain it and it would matter."""
        if self.role == "attribute" or self.p_value >= _LEVEL or self.share >= _LEAST_LOSS:
            return False
        if self.role == "series":
            return abs(self.correlation) >= _CLEAR_IN_ORDER
        strength = min(self.correlation, self.correlation if self.local is None else self.local)
        usual = sum(size * size * number for size, number in self.sizes) / sum(size * many for size, many in self.sizes)
        return strength >= _CLEAR and 1.0 + (usual - 1.0) * strength >= _DESIGN_EFFECT

    @property
    def strong(self) -> bool:
        """Whether it is clear, large, and left a trace in the order of the file, as independent rows would not."""
        return self.clear and self.in_file and abs(self.correlation) >= _STRONG


@dataclass(frozen=True, slots=True, eq=False)
class _Outcome:
    """Something in which rows may resemble each other."""

    name: str
    column: str
    present: NDArray[np.bool_]
    values: NDArray[np.float64]
    states: int


def group_findings(rows: OpenRows, *, label: str | None, only: str | None = None) -> Iterator[Finding]:
    """Columns whose values repeat, each with the outcome in which its rows resemble each other most.

    Args:
        rows: Open rows.
        label: The outcome; every column of numbers if there is none.
        only: The one column to look at.
    """
    outcomes = list(_outcomes(rows, label))
    for column in rows.columns:
        if column.name != label and only in (None, column.name) and _repeats(column):
            found = [finding for outcome in outcomes if (finding := _as_groups(column, outcome)) is not None]
            yield from _largest(found)


def series_findings(rows: OpenRows, *, label: str | None) -> Iterator[Finding]:
    """Columns that put the rows in order, each with the outcome in which neighbours resemble each other most."""
    outcomes = list(_outcomes(rows, label))
    for column in rows.columns:
        if column.name != label and _orders(column):
            found = [finding for outcome in outcomes if (finding := _as_series(column, outcome)) is not None]
            yield from _largest(found)


def corrected(findings: Sequence[Finding], outcomes: int) -> list[Finding]:
    """The findings with p-values for all columns and outcomes together (Bonferroni), the clearest first."""
    pairs = len(findings) * outcomes
    paid = [replace(finding, p_value=min(finding.p_value * pairs, 1.0)) for finding in findings]
    return sorted(paid, key=lambda finding: (not finding.clear, finding.role == "attribute", -abs(finding.correlation)))


def number_of_outcomes(rows: OpenRows, *, label: str | None) -> int:
    """How many outcomes are looked at for each column."""
    return sum(1 for _ in _outcomes(rows, label))


def _outcomes(rows: OpenRows, label: str | None) -> Iterator[_Outcome]:
    for column in rows.columns:
        if column.name != label and (label is not None or _orders(column)):
            continue
        if column.kind in ("whole", "number"):
            yield from _outcome(column.name, column, column.ranks)
        elif column.values and column.name == label:
            for rank, text in column.values.items():
                yield from _outcome(f"{label} = {text}", column, np.where(column.ranks < 0, -1, column.ranks == rank))


def _outcome(name: str, column: Column, ranks: NDArray[np.int64]) -> Iterator[_Outcome]:
    present = ranks >= 0
    counts = np.bincount(ranks[present], minlength=1)
    values = scores(ranks[present]) if counts.sum() - counts.max() >= _FEWEST_OTHERS else None
    if values is not None:
        yield _Outcome(name, column.name, present, values, int(column.ranks.max()) + 1)


def _repeats(column: Column) -> bool:
    """Text, whole numbers or times whose values repeat."""
    if column.kind == "number":
        return False
    values, rows = int(column.ranks.max(initial=-1)) + 1, int(np.count_nonzero(column.ranks >= 0))
    return 2 <= values < rows / _REPEATED


def _orders(column: Column) -> bool:
    """Times that hardly repeat, or whole numbers that increase from row to row, as an index does."""
    if column.kind == "time":
        present = int(np.count_nonzero(column.ranks >= 0))
        return bool(column.ranks.max(initial=-1) + 1 >= max(present / _REPEATED, 3))
    return column.kind == "whole" and len(column.ranks) >= 3 and bool(np.all(np.diff(column.ranks) > 0))


def _as_groups(column: Column, outcome: _Outcome) -> Finding | None:
    if outcome.column == column.name:
        return None
    sizes = _sizes(column.ranks)
    groups, rows = sum(number for _, number in sizes), len(column.ranks)
    both = outcome.present & (column.ranks >= 0)
    codes = column.ranks[both]
    if not both.all():  # some groups may have lost all their rows
        codes = np.unique(codes, return_inverse=True)[1]
    values = outcome.values[both[outcome.present]]
    alike = within_groups(codes, values)
    if alike is None:
        return None
    near = between_neighbours(codes, values) if column.kind == "whole" else alike
    if near is None:
        return None
    named = int(column.ranks.max()) + 1
    attribute = named < _FEWEST_GROUPS or rows / groups > math.sqrt(rows)
    return Finding(
        column=column.name,
        role="attribute" if attribute else "group",
        outcome=outcome.name,
        correlation=alike.correlation,
        standard_error=alike.standard_error,
        p_value=near.p_value,
        groups=groups,
        sizes=sizes,
        missing=int(np.count_nonzero(column.ranks < 0)),
        in_file=_lie_together(column.ranks),
        local=near.correlation if column.kind == "whole" else None,
        states=outcome.states,
    )


def _sizes(ranks: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """How many groups there are of each size; a row without a value is one of its own."""
    counts = Counter(np.bincount(ranks[ranks >= 0]).tolist())
    counts[1] += int(np.count_nonzero(ranks < 0))
    return tuple(sorted((size, number) for size, number in counts.items() if number))


def _lie_together(ranks: NDArray[np.int64]) -> bool:
    """Whether rows of one group follow each other in the file; of shuffled rows hardly any do."""
    sizes = np.bincount(ranks[ranks >= 0])
    possible, rows = int(np.sum(sizes - 1)), len(ranks)
    chance = float(np.sum(sizes * (sizes - 1.0))) / rows
    followers = int(np.count_nonzero((ranks[1:] == ranks[:-1]) & (ranks[1:] >= 0)))
    return followers - chance >= _TOGETHER * max(possible - chance, 1.0)


def _as_series(column: Column, outcome: _Outcome) -> Finding | None:
    if outcome.column == column.name:
        return None
    both = outcome.present & (column.ranks >= 0)
    order = np.argsort(column.ranks[both], kind="stable")
    alike: Resemblance | None = autocorrelation(outcome.values[both[outcome.present]][order])
    if alike is None:
        return None
    known = column.ranks[column.ranks >= 0]
    return Finding(
        column=column.name,
        role="series",
        outcome=outcome.name,
        correlation=alike.correlation,
        standard_error=alike.standard_error,
        p_value=alike.p_value,
        missing=int(np.count_nonzero(column.ranks < 0)),
        memory=alike.memory,
        in_file=float(np.mean(np.diff(known) >= 0)) >= _ORDERED,
        estimate=True,
        states=outcome.states,
    )


def _largest(found: Sequence[Finding]) -> Iterator[Finding]:
    """The finding with the largest correlation; of several, clear ones first."""
    if found:
        yield max(found, key=lambda finding: (finding.clear, abs(finding.correlation)))
