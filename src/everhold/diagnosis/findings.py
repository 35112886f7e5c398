"""Which columns of open rows look like groups or like an order, and whether that matters."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import chdtrc

from everhold.dependence.groups import Groups
from everhold.dependence.series.gaussian_ar1 import GaussianAR1
from everhold.dependence.stretches import wandering_of_values
from everhold.diagnosis.orders import FILE_ORDER, orders_of
from everhold.diagnosis.outcomes import Outcome, outcomes_of
from everhold.diagnosis.resemblance import autocorrelation, between_neighbours, within_groups

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from everhold.dependence import DependenceModel
    from everhold.diagnosis.columns import Column, OpenRows
    from everhold.diagnosis.orders import Order

__all__ = ["Finding", "corrected", "group_findings", "lie_together", "series_findings"]

_LEVEL = 1e-3  # of p-values, all columns and outcomes together
_FEWEST_GROUPS = 30  # with fewer a column is an attribute; with larger groups than the root of the rows, if unclear
_REPEATED = 1.2  # a column of groups has fewer values than the rows divided by this
_MOST_OUTCOMES = 40  # looked at in every order
_MOST_IN_GROUPS = 8  # looked at in every column of groups that lie together
_CLEAR, _STRONG = 0.05, 0.5
_LESS_WORTH, _FAR_LESS_WORTH = 1.1, 1.5  # design effect over the one that is promised
_TOGETHER = 0.5
_FIRST_ORDER = 0.05  # level at which a chain of neighbours is ruled out
_ERRORS = 3.0

Role = Literal["group", "attribute", "series"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one column would mean for the promise.

    Attributes:
        column: Its name, or `everhold.diagnosis.orders.FILE_ORDER`.
        role: ``"group"`` if rows with equal values may have been drawn together; ``"attribute"`` if there are so few
            values, or so many rows of each that are hardly alike, that it rather describes rows; ``"series"`` if it may
            put rows in order.
        outcome: In what rows resemble each other: a column, or one of the label's classes.
        state: The column of the outcome.
        of_label: Whether that is the label.
        correlation: Of two rows of one group (intra-class correlation, one-way analysis of variance), or of neighbours
            in the order (lag-1 autocorrelation); of ranks, so that a few huge values cannot decide.
        standard_error: Of the correlation.
        p_value: Chance of as much where rows are worth what is promised, times the number of columns looked at.
        design_effect: How many rows are worth one; for a series, where stretches of rows show it most clearly.
        promised: How many rows are worth one as the rows are declared.
        groups: Number of groups; None for a series.
        sizes: Pairs (size, number of groups of that size); empty for a series.
        missing: Rows without a value in the column; each counts as a group of its own.
        in_file: Whether the rows lie in the file group by group, or in that order; shuffled rows do not.
        apart: Whether none of its values stand both in training and in sealed rows, as where whole groups were sealed.
        local: The correlation beyond what the neighbouring value shares, for groups that are whole numbers.
        first_order: For a series, whether a model in which a row depends on the row before alone explains it.
        stretch: For a series, so many rows in a row are surely worth one.
        effective_rows: What the sealed rows are worth if they are like these: for groups in the worst case, for a
            series as measured.
        radius: What the radius would be with what is suggested and the same mechanism, tuned anew; None where there is
            none, or where it was not computed, as for attributes.
        estimate: Whether a measured design effect itself enters the last two, as for a series. For groups only the
            sizes enter.
        states: Number of different values of the outcome.
    """

    column: str
    role: Role
    outcome: str
    state: str
    of_label: bool
    correlation: float
    standard_error: float
    p_value: float
    design_effect: float = 1.0
    promised: float = 1.0
    groups: int | None = None
    sizes: tuple[tuple[int, int], ...] = ()
    missing: int = 0
    in_file: bool = False
    apart: bool = False
    local: float | None = None
    first_order: bool = True
    stretch: int | None = None
    effective_rows: float | None = None
    radius: float | None = None
    estimate: bool = False
    states: int = 0

    @property
    def model(self) -> DependenceModel:
        """Groups of the sizes found; a series that is worth what was found; or long stretches as groups."""
        if self.sizes:
            return Groups.of_counts(dict(self.sizes), column=self.column)
        if self.first_order:
            return GaussianAR1(self.correlation, order_by=self.column, gap=math.inf)
        return Groups(self.stretch or 1)

    @property
    def share(self) -> float:
        """What a row would be worth: effective rows for each row (S5)."""
        if self.sizes:
            rows = sum(size * number for size, number in self.sizes)
            return rows / sum(size * size * number for size, number in self.sizes)
        if self.first_order:
            return (1.0 - abs(self.correlation)) / (1.0 + abs(self.correlation))
        return 1.0 / max(self.design_effect, 1.0)

    @property
    def clear(self) -> bool:
        """Whether chance cannot explain it and it would matter: rows are worth less than is promised."""
        if self.role == "attribute" or self.p_value >= _LEVEL:
            return False
        alike = self.role == "series" or min(self.correlation, self.local or self.correlation) >= _CLEAR
        return self.design_effect >= (_LESS_WORTH if alike else _FAR_LESS_WORTH) * self.promised

    @property
    def suspect(self) -> bool:
        """Whether it speaks clearly against what is declared.

        Any two columns that go together make rows of a group look alike. So for groups it has to be the label, or the
        rows have to lie together in the file, or no group may have rows on both sides, too.
        """
        return self.clear and (self.of_label or self.in_file or self.apart or self.role == "series")


def group_findings(
    rows: OpenRows, *, label: str | None, promised: float = 1.0, only: str | None = None, in_file: bool | None = None,
    apart: Collection[str] = (),
) -> Iterator[Finding]:  # fmt: skip
    """Columns whose values repeat, each with the outcome in which its rows resemble each other most.

    Args:
        rows: Open rows.
        label: The outcome that is always looked at; others count where groups lie together in the file, or on one side.
        promised: Rows for each effective row that are promised.
        only: The one column to look at.
        in_file: Whether its groups lie together, where these rows do not show it.
        apart: Columns none of whose values stand both in training and in sealed rows.
    """
    outcomes = outcomes_of(rows, label=label, most=_MOST_IN_GROUPS)
    for column in rows.columns:
        is_apart = column.name in apart
        if column.name == label or only not in (None, column.name) or not _repeats(column, apart=is_apart):
            continue
        together = lie_together(column) if in_file is None else in_file
        wanted = [each for each in outcomes if each.of_label or label is None or together]
        if is_apart:
            wanted = outcomes_of(rows, label=label, most=_MOST_OUTCOMES)
        found = [_as_groups(column, each, promised=promised, in_file=together, apart=is_apart) for each in wanted]
        yield from _clearest(finding for finding in found if finding is not None)


def series_findings(
    rows: OpenRows, *, label: str | None, declared: DependenceModel, promised: float = 1.0
) -> Iterator[Finding]:
    """Orders of the rows, each with the outcome in which stretches of rows differ most.

    Args:
        rows: Open rows.
        label: The outcome that counts most.
        declared: What is declared; its order is looked at, too.
        promised: Rows for each effective row that are promised.
    """
    outcomes = outcomes_of(rows, label=label, most=_MOST_OUTCOMES)
    for order in orders_of(rows, label=label, declared=declared):
        found = [_as_series(order, outcome, rows, promised=promised) for outcome in outcomes]
        yield from _clearest(finding for finding in found if finding is not None)


def corrected(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with p-values for all columns together (Bonferroni), the clearest first."""
    paid = [replace(finding, p_value=min(finding.p_value * len(findings), 1.0)) for finding in findings]
    said = {FILE_ORDER, *(finding.column for finding in paid if finding.role != "series")}
    kept = [finding for finding in paid if finding.clear or finding.role != "series" or finding.column not in said]
    return sorted(kept, key=_place)


def _place(finding: Finding) -> tuple[bool, bool, int, float]:
    """Suspects first, and of these the groups in which rows are most alike: others may follow from them."""
    role = ("group", "series", "attribute").index(finding.role)
    return not finding.suspect, not finding.clear, role, -abs(finding.correlation)


def _clearest(found: Iterable[Finding]) -> Iterator[Finding]:
    """The finding that speaks most clearly, with a p-value for all outcomes: the label counts as much as the others."""
    listed = list(found)
    others = sum(not finding.of_label for finding in listed)
    labels = len(listed) - others
    paid = [
        replace(
            finding, p_value=finding.p_value * (labels if finding.of_label else others) * (1 + bool(labels and others))
        )
        for finding in listed
    ]
    if paid:
        clear = sum(finding.p_value < _LEVEL for finding in paid)
        best = min(paid, key=lambda each: (not each.suspect, not each.of_label, each.p_value, -abs(each.correlation)))
        yield replace(best, first_order=best.first_order and clear <= 1)


def _repeats(column: Column, *, apart: bool) -> bool:
    """Text, whole numbers or times whose values repeat; other numbers only where they may well be ids."""
    if column.kind == "number" and not apart:
        return False
    values, rows = int(column.ranks.max(initial=-1)) + 1, int(np.count_nonzero(column.ranks >= 0))
    return 2 <= values < rows / _REPEATED


def _as_groups(column: Column, outcome: Outcome, *, promised: float, in_file: bool, apart: bool) -> Finding | None:
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
    squares = sum(size * size * number for size, number in sizes)
    effect = 1.0 + (squares / rows - 1.0) * min(alike.correlation, near.correlation)
    p_value = near.p_value
    if promised > 1.0:  # shuffled rows are no measure then
        heavy = promised * max(float(np.mean(values**4)) - 3.0, 0.0) * rows / squares
        freedom = (rows * rows / squares - 1.0) * 2.0 / (2.0 + heavy) / (1.0 if near is alike else 2.0)
        p_value = float(chdtrc(freedom, freedom * max(effect, 0.0) / promised))
    attribute = (
        not apart and int(column.ranks.max()) + 1 < _FEWEST_GROUPS
    )  # an attribute has the same values everywhere
    made = Finding(
        column=column.name,
        role="attribute" if attribute else "group",
        outcome=outcome.name,
        state=outcome.column,
        of_label=outcome.of_label,
        correlation=alike.correlation,
        standard_error=alike.standard_error,
        p_value=p_value,
        design_effect=effect,
        promised=promised,
        groups=groups,
        sizes=sizes,
        missing=int(np.count_nonzero(column.ranks < 0)),
        in_file=in_file,
        apart=apart,
        local=near.correlation if column.kind == "whole" else None,
        states=outcome.states,
    )
    return replace(made, role="attribute") if rows / groups > math.sqrt(rows) and not made.clear else made


def _sizes(ranks: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """How many groups there are of each size; a row without a value is one of its own."""
    counts = Counter(np.bincount(ranks[ranks >= 0]).tolist())
    counts[1] += int(np.count_nonzero(ranks < 0))
    return tuple(sorted((size, number) for size, number in counts.items() if number))


def lie_together(column: Column) -> bool:
    """Whether rows of one group follow each other in the file; of shuffled rows hardly any do."""
    ranks = column.ranks
    sizes = np.bincount(ranks[ranks >= 0])
    possible, rows = int(np.sum(sizes - 1)), len(ranks)
    chance = float(np.sum(sizes * (sizes - 1.0))) / rows
    followers = int(np.count_nonzero((ranks[1:] == ranks[:-1]) & (ranks[1:] >= 0)))
    return followers - chance >= _TOGETHER * max(possible - chance, 1.0)


def _as_series(order: Order, outcome: Outcome, rows: OpenRows, *, promised: float) -> Finding | None:
    if outcome.column == order.column or _is_sorted(rows, order, outcome):
        return None
    place = np.cumsum(outcome.present) - 1
    values = outcome.values[place[order.rows[outcome.present[order.rows]]]]
    alike = autocorrelation(values)
    if alike is None:
        return None
    seen = wandering_of_values(values, promised=promised)
    correlation = min(alike.correlation + _ERRORS * alike.standard_error, 1.0 - 1.0 / len(values))
    of_neighbours = max((1.0 + correlation) / (1.0 - correlation), promised)
    return Finding(
        column=order.column,
        role="series",
        outcome=outcome.name,
        state=outcome.column,
        of_label=outcome.of_label,
        correlation=alike.correlation,
        standard_error=alike.standard_error,
        p_value=float(seen.p_values[0]),
        design_effect=float(seen.design_effects[0]),
        promised=promised,
        missing=order.missing,
        in_file=order.in_file,
        first_order=float(wandering_of_values(values, promised=of_neighbours).p_values[0]) > _FIRST_ORDER,
        stretch=math.ceil(float(seen.at_most[0])),
        estimate=True,
        states=outcome.states,
    )


def _is_sorted(rows: OpenRows, order: Order, outcome: Outcome) -> bool:
    """Whether the order sorts the column of the outcome, as a file is sorted by a key: that tells nothing."""
    column = rows.column(outcome.column)
    if column is None or outcome.of_label:
        return False
    steps = np.diff(column.ranks[order.rows])
    return bool(np.all(steps >= 0) or np.all(steps <= 0))
