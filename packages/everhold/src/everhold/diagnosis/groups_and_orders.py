"""Checks of training rows for groups and for orders in which outcomes are alike."""

from __future__ import annotations

import math
import shlex
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import scipy

from everhold.dependence.blocks import block_variance_of_values
from everhold.dependence.units import Groups
from everhold.diagnosis.columns import (
    FILE_ORDER,
    Crossing,
    Shared,
    along,
    autocorrelation,
    between_neighbours,
    orders_of,
    outcomes_of,
    within_groups,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from everhold.dependence import DependenceModel
    from everhold.diagnosis.columns import ExaminedColumn, ExaminedOutcome, OpenRows, Order, Resemblance

_MOST_OUTCOMES = 40  # looked at in every order
_MOST_IN_GROUPS = 8  # looked at in every column of groups that lie together
_TOGETHER = 0.5
_FIRST_ORDER = 0.05  # level at which a chain of neighbours is ruled out
_ERRORS = 3.0
_MOST_GROUPS = 10_000  # whose sizes are looked at
_SHUFFLES = 9_999
_PLAIN, _FEWEST_AVERAGES = 3.0, 3  # standard errors; averages that are not at their mean
_AT_ONCE = 4_000_000  # numbers that are shuffled at once


@dataclass(frozen=True, slots=True, eq=False)
class CheckInputs:
    """The training rows and declarations that every check of the diagnosis reads.

    Attributes:
        rows: Open rows, in the order of their file.
        whole: Function that returns rows with whole groups of a column. Its arguments are the column, and True if
            outcomes besides the label are read.
        label: Name of the label; None if there is none.
        declared: The declared dependence of the rows.
        promised: Design effect that the declaration allows: number of rows for each effective row, for declared groups
            in the worst case.
        apart: Columns none of whose values is both in a training row and in a sealed row.
        bets: True if widths of intervals depend on the spread of declared groups on the training rows. False if they
            are those of the worst case.
    """

    rows: OpenRows
    whole: Callable[[ExaminedColumn, bool], OpenRows]
    label: str | None
    declared: DependenceModel
    promised: float
    apart: Collection[str]
    bets: bool = False

    def units(self, rows: OpenRows) -> NDArray[np.int64] | None:
        """Return the declared group of each row, or None if no column has it for every row."""
        named = self.declared.group_column
        column = rows.column(named) if named is not None else None
        return None if column is None or bool(np.any(column.ranks < 0)) else column.ranks

    def claimed(self, totals: NDArray[np.float64], rows: int) -> float:
        """Return how many rows the interval procedure counts as one, given an outcome's totals by declared group."""
        return float(np.sum(totals**2)) / rows if self.bets else self.promised

    def outcomes(self, rows: OpenRows, most: int) -> list[ExaminedOutcome]:
        """Return the outcomes to test, without columns that the declared dependence uses."""
        declared = self.declared.sorting_columns
        return [each for each in outcomes_of(rows, label=self.label, most=most) if each.column not in declared]


def corrected(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings with p-values corrected for the number of columns (Bonferroni), the clearest first."""
    paid = [replace(finding, p_value=min(finding.p_value * len(findings), 1.0)) for finding in findings]
    said = {FILE_ORDER, *(finding.column for finding in paid if finding.role != "series")}
    kept = [finding for finding in paid if finding.clear or finding.role != "series" or finding.column not in said]
    return sorted(kept, key=_place)


def _place(finding: Finding) -> tuple[bool, bool, int, float]:
    """Return the sort key of a finding: suspects first, then clear findings, then by role and correlation."""
    role = ("group", "series", "attribute").index(finding.role)
    return not finding.suspect, not finding.clear, role, -abs(finding.correlation)


def _clearest(found: Iterable[Finding | None]) -> Iterator[Finding]:
    """Yield the clearest of one column's findings, with its p-value corrected for all outcomes; nothing if none."""
    listed = [finding for finding in found if finding is not None]
    others = sum(not finding.of_label for finding in listed)
    labels = len(listed) - others
    paid = [
        replace(
            finding, p_value=finding.p_value * (labels if finding.of_label else others) * (1 + bool(labels and others))
        )
        for finding in listed
    ]
    if paid:
        clear = sum(finding.p_value < LEVEL for finding in paid)
        best = min(paid, key=lambda each: (not each.suspect, not each.of_label, each.p_value, -abs(each.correlation)))
        yield replace(best, first_order=best.first_order and clear <= 1)


def _groups(inputs: CheckInputs) -> Iterator[Finding]:
    """Yield the clearest finding for each column that may define groups of rows.

    Outcomes other than the label are tested only where groups lie together in the file, or on one side.
    """
    outcomes = lru_cache(maxsize=2)(inputs.outcomes)
    for each in inputs.rows.columns:
        apart = each.name in inputs.apart
        if each.name == inputs.label or (each.kind == "number" and not apart):  # such numbers are hardly ids
            continue
        together = lie_together(each)
        rows = inputs.whole(each, together or apart)
        column = rows.column(each.name)
        if column is not None and repeats(column):
            wanted = outcomes(rows, _MOST_OUTCOMES if apart else _MOST_IN_GROUPS)
            if not (apart or together or inputs.label is None):
                wanted = [outcome for outcome in wanted if outcome.of_label]
            compare = _Compared.of(column, inputs.units(rows), smooth=column.kind == "whole" and not apart)
            yield from _clearest(_as_groups(compare, outcome, inputs, together, apart) for outcome in wanted)


def repeats(column: ExaminedColumn) -> bool:
    """Return whether groups of equal values are large enough, by their squared sizes, to make rows worth less."""
    sizes = np.bincount(column.ranks[column.ranks >= 0])
    alone = int(np.count_nonzero(column.ranks < 0))
    return len(sizes) >= 2 and float(np.sum(sizes**2)) + alone >= LESS_WORTH * len(column.ranks)


@dataclass(frozen=True, slots=True, eq=False)
class _Compared:
    """A column whose groups are tested. If its values are numbers, neighbouring values are compared as well.

    An effect that changes smoothly with the number, such as an age, is nearly the same for neighbouring values, and
    cancels; see `between_neighbours`.

    Attributes:
        units: The declared group of each row; None without declared groups.
        crossing: Rows of different units with the same value.
        pairs: Rows of different units with the same value or the one beside it.
        weights: Weight of each row in the difference of such a pair of values, shape (rows,).
    """

    column: ExaminedColumn
    units: NDArray[np.int64] | None
    crossing: Crossing
    pairs: Crossing | None
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, column: ExaminedColumn, units: NDArray[np.int64] | None, *, smooth: bool) -> _Compared:
        crossing = Crossing(column.ranks, units)
        if not smooth:
            return cls(column, units, crossing, None, np.ones(0))
        sizes = np.bincount(column.ranks[column.ranks >= 0]).astype(np.float64)
        beside = np.arange(len(sizes)) ^ 1
        partner = np.where(beside < len(sizes), sizes[np.minimum(beside, len(sizes) - 1)], 0.0)
        weights = np.where(np.arange(len(sizes)) % 2, -1.0, 1.0) * partner / (sizes + partner)
        of_row = np.where(column.ranks < 0, 0.0, weights[column.ranks])
        return cls(column, units, crossing, Crossing(np.where(of_row == 0.0, -1, column.ranks // 2), units), of_row)

    def shared(self, values: NDArray[np.float64]) -> Shared:
        """Estimate the variance shared by rows of different units with equal values, without smooth trends."""
        found = self.crossing.shared(values)
        if self.pairs is None:
            return found
        near = self.pairs.shared(values * self.weights)
        return Shared(found.claimed, min(found.added, (near.ratio - 1.0) * found.claimed), near.p_value)


def _as_groups(
    compared: _Compared, outcome: ExaminedOutcome, inputs: CheckInputs, in_file: bool, apart: bool
) -> Finding | None:
    """Return the finding on the correlation of rows with equal values of a column in an outcome, or None.

    `in_file` is true if rows with equal values are mostly adjacent in the file, and `apart` if no value of the column
    is both in training and in sealed rows.
    """
    column = compared.column
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
    near = alike if compared.pairs is None else between_neighbours(codes, values)
    if near is None:
        return None
    spread = np.zeros(rows)
    spread[outcome.present] = outcome.values
    shared = compared.shared(spread)
    claimed, effect, p_value = inputs.promised, (shared.claimed + shared.added) / len(outcome.values), shared.p_value
    if compared.units is not None:
        claimed = inputs.claimed(np.sqrt(np.array([shared.claimed])), len(outcome.values))
    elif inputs.promised > 1.0:  # rows are no units then, and the design effect may be the promised one
        worth = Groups.of_counts(dict(sizes)).concentration(rows)
        heavy = claimed * max(float(np.mean(outcome.values**4)) - 3.0, 0.0) * worth / rows
        freedom = (worth - 1.0) * 2.0 / (2.0 + heavy) / (1.0 if near is alike else 2.0)
        p_value = float(scipy.special.chdtrc(freedom, freedom * max(effect, 0.0) / claimed))
    # an attribute has the same values everywhere
    attribute = not apart and int(column.ranks.max()) + 1 < FEWEST_GROUPS
    made = GroupFinding.of(
        column.name,
        "attribute" if attribute else "group",
        outcome,
        alike,
        p_value=p_value,
        design_effect=effect,
        promised=claimed,
        groups=groups,
        sizes=sizes,
        missing=int(np.count_nonzero(column.ranks < 0)),
        in_file=in_file,
        apart=apart,
        local=None if compared.pairs is None else near.correlation,
    )
    return replace(made, role="attribute") if rows / groups > math.sqrt(rows) and not made.clear else made


def _sizes(ranks: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """Return pairs of group size and number of groups. A row without a value is a group of its own."""
    counts = Counter(np.bincount(ranks[ranks >= 0]).tolist())
    counts[1] += int(np.count_nonzero(ranks < 0))
    return tuple(sorted((size, number) for size, number in counts.items() if number))


def lie_together(column: ExaminedColumn) -> bool:
    """Return whether rows of one group are mostly adjacent in the file, more often than after shuffling."""
    ranks = column.ranks
    sizes = np.bincount(ranks[ranks >= 0])
    possible, rows = int(np.sum(sizes - 1)), max(len(ranks), 1)
    chance = float(np.sum(sizes * (sizes - 1.0))) / rows
    followers = int(np.count_nonzero((ranks[1:] == ranks[:-1]) & (ranks[1:] >= 0)))
    return followers - chance >= _TOGETHER * max(possible - chance, 1.0)


def _series(inputs: CheckInputs) -> Iterator[Finding]:
    """Yield the clearest finding for each column that may put the rows in order."""
    outcomes = inputs.outcomes(inputs.rows, _MOST_OUTCOMES)
    for order in orders_of(inputs.rows, label=inputs.label, declared=inputs.declared):
        yield from _clearest(_as_series(order, outcome, inputs) for outcome in outcomes)


def _as_series(order: Order, outcome: ExaminedOutcome, inputs: CheckInputs) -> Finding | None:
    """Return the finding on the correlation of neighbouring rows of an order in an outcome, or None."""
    if outcome.column == order.column:
        return None
    if (own := inputs.rows.column(outcome.column)) is not None and not outcome.of_label:
        steps = np.diff(own.ranks[order.rows])
        if bool(np.all(steps >= 0) or np.all(steps <= 0)):  # neighbours in an order of the outcome are similar
            return None
    place = np.cumsum(outcome.present) - 1
    values = outcome.values[place[order.rows[outcome.present[order.rows]]]]
    alike = autocorrelation(values)
    if alike is None:
        return None
    units = inputs.units(inputs.rows)
    if units is not None:
        measured = _measured_by_unit(order, outcome, inputs, units, values)
    else:
        seen = block_variance_of_values(values, promised=inputs.promised)
        correlation = min(alike.correlation + _ERRORS * alike.standard_error, 1.0 - 1.0 / len(values))
        of_neighbours = max((1.0 + correlation) / (1.0 - correlation), inputs.promised)
        measured = {
            "p_value": float(seen.p_values[0]),
            "design_effect": float(seen.design_effects[0]),
            "promised": inputs.promised,
            "first_order": float(block_variance_of_values(values, promised=of_neighbours).p_values[0]) > _FIRST_ORDER,
            "block": math.ceil(float(seen.at_most[0])),
        }
    return SeriesFinding.of(
        order.column, "series", outcome, alike, missing=order.missing, in_file=order.in_file, **measured
    )


def _measured_by_unit(
    order: Order, outcome: ExaminedOutcome, inputs: CheckInputs, units: NDArray[np.int64], values: NDArray[np.float64]
) -> dict[str, Any]:
    """Return what a finding says about declared groups that are neighbours in an order, as fields by name.

    The position of a group is the mean position of its rows. The part of its total that its size explains, by least
    squares, is left out. The values are those of the outcome, in order.
    """
    spread, place = np.zeros(len(units)), np.zeros(len(units))
    spread[outcome.present], place[order.rows] = outcome.values, np.arange(len(order.rows))
    known = np.zeros(len(units), dtype=bool)
    known[order.rows] = True
    sizes = np.bincount(units[known])
    totals = np.asarray(np.bincount(units, weights=spread), dtype=np.float64)
    placed = np.flatnonzero(sizes)
    places = np.bincount(units[known], weights=place[known])[placed] / sizes[placed]
    ordered = placed[np.argsort(places, kind="stable")]
    by_size = np.stack([sizes[ordered], sizes[ordered].astype(np.float64) ** 2], axis=1)
    explained = by_size @ np.linalg.lstsq(by_size, totals[ordered], rcond=None)[0]
    shared = along(np.asarray(totals[ordered] - explained))
    return {
        "p_value": shared.p_value,
        "design_effect": (float(np.sum(totals**2)) + shared.added) / len(outcome.values),
        "promised": inputs.claimed(totals, len(outcome.values)),
        "first_order": False,
        "block": math.ceil(float(block_variance_of_values(values, promised=max(inputs.promised, 1.0)).at_most[0])),
    }


CHECKS: tuple[Callable[[CheckInputs], Iterator[Finding]], ...] = (_groups, _series)
"""Every check that a diagnosis makes of columns; their p-values are corrected together."""


def informative_sizes(inputs: CheckInputs) -> tuple[str, ...]:
    """Return the names of outcomes whose group averages correlate with group sizes, the label first.

    Sizes are shuffled among the groups. An outcome counts if its statistic is larger than nearly all largest statistics
    of a shuffle, where the largest is over all outcomes (Westfall and Young 1993). So more outcomes need no more
    shuffles. Each statistic is divided by its standard error, because averages of small groups vary more.
    """
    named = inputs.declared.group_column
    column = inputs.rows.column(named) if named else None
    if column is None:
        return ()
    ranks = column.ranks
    sizes = np.bincount(ranks[ranks >= 0]).astype(np.float64)
    outcomes = [each for each in inputs.outcomes(inputs.rows, _MOST_IN_GROUPS) if each.column != column.name]
    averages = []  # of each group minus the mean of all averages, 0 for a group without values
    for each in outcomes:
        of_row = ranks[each.present]
        values, of_row = each.values[of_row >= 0], of_row[of_row >= 0]
        counts = np.bincount(of_row, minlength=len(sizes))
        means = np.bincount(of_row, weights=values, minlength=len(sizes)) / np.maximum(counts, 1)
        averages.append(np.where(counts > 0, means - means[counts > 0].mean() if len(values) else 0.0, 0.0))
    kept = [place for place, each in enumerate(averages) if np.count_nonzero(each) >= _FEWEST_AVERAGES]
    if not kept or not sizes[:_MOST_GROUPS].std() > 0.0:
        return ()
    sizes = sizes[:_MOST_GROUPS] - sizes[:_MOST_GROUPS].mean()
    tested = np.array([averages[place] for place in kept])[:, :_MOST_GROUPS]
    squares, rng, left = tested**2, np.random.default_rng(0), _SHUFFLES
    seen = _studentised(tested, squares, sizes[:, None])[:, 0]
    more, most = np.zeros(len(seen), dtype=np.int64), LEVEL * (_SHUFFLES + 1) - 1
    while left and np.any(more <= most) and seen.max() >= _PLAIN:  # else shuffling would only confirm it
        number = min(left, max(1, _AT_ONCE // len(sizes)))
        shuffled = rng.permuted(np.broadcast_to(sizes, (number, len(sizes))), axis=1).T
        largest = _studentised(tested, squares, shuffled).max(axis=0)
        more += np.count_nonzero(largest >= seen[:, None] - 1e-12, axis=1)
        left -= number
    told = (more <= most) & (seen >= _PLAIN)
    return tuple(dict.fromkeys(outcomes[place].name for place, clear in zip(kept, told, strict=True) if clear))


def _studentised(
    averages: NDArray[np.float64], squares: NDArray[np.float64], sizes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the sums of sizes times averages over their standard errors, shape (outcomes, shuffles).

    Sizes have the shape (groups, shuffles).
    """
    return np.asarray(np.abs(averages @ sizes) / np.sqrt(np.maximum(squares @ sizes**2, 1e-300)))


# The checks: which columns look like groups or like an order, whether that matters, and how it is said.

LEVEL = 1e-3  # of p-values, all columns and outcomes together
FEWEST_GROUPS = 30  # with fewer a column is an attribute; with larger groups than the root of the rows, if unclear
_CLEAR = 0.05
LESS_WORTH, _FARLESS_WORTH = 1.1, 1.5  # design effect over the one that is promised
_MOST_STATES = 20  # of a Markov chain that can be learned from a training set

Role = Literal["group", "attribute", "series"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(ABC):
    """Finding on the dependence of training rows with respect to one column, and its effect on the radius.

    Attributes:
        column: Name of the column, or `everhold.diagnosis.columns.FILE_ORDER`.
        role: ``"group"`` if rows with equal values may have been drawn together. ``"series"`` if the column may put
            rows in order. ``"attribute"`` if the column rather describes rows, because it has few values, or many rows
            of each value that are hardly alike.
        outcome: Outcome in which rows resemble each other: a column, or one of the label's classes.
        of_label: True if the outcome is the label; False if it is another column.
        correlation: Correlation of two rows of one group (intra-class correlation, one-way analysis of variance), or of
            neighbours in the order (lag-1 autocorrelation). It is computed from ranks, so that a few huge values cannot
            decide.
        p_value: Chance of a correlation as clear as this one if rows are worth what is promised, times the number of
            columns looked at.
        design_effect: Number of rows that are worth one independent row. For a series it is that of the block length
            which shows it most clearly.
        promised: Number of rows that are worth one independent row, as the rows are declared.
        groups: Number of groups; None for a series.
        sizes: Pairs (size, number of groups of that size); empty for a series.
        missing: Number of rows without a value in the column. Each counts as a group of its own.
        in_file: True if the rows lie in the file group by group, or in the order of the column. In a shuffled file it
            is False.
        apart: True if no value of the column is both in training and in sealed rows, as if whole groups were sealed.
        local: For whole numbers that are both in training and in sealed rows: the correlation beyond that with rows of
            the neighbouring value.
        first_order: For a series, True if a model in which a row depends on the row before alone explains the
            correlation.
        block: For a series, the number of consecutive rows that are worth at least one independent row.
        effective_rows: Effective number of sealed rows if they are like the training rows: for groups in the worst
            case, for a series as measured.
        radius: Radius of the same mechanism if it were tuned for the suggested dependence. None if it would have no
            radius, or if it was not computed, as for attributes.
        states: Number of different values of the outcome.
        order_columns: Columns that order the rows together, such as coordinates. Empty if `column` is a single column.
        assumed_independent: True if the steward says that these columns neither group nor order the rows.
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
    block: int | None = None
    effective_rows: float | None = None
    radius: float | None = None
    states: int = 0
    order_columns: tuple[str, ...] = ()
    assumed_independent: bool = False

    @classmethod
    def of(cls, column: str, role: Role, outcome: ExaminedOutcome, alike: Resemblance, **others: Any) -> Self:
        """Return the finding that rows resemble each other in an outcome, with its other fields by name."""
        return cls(
            column=column,
            role=role,
            outcome=outcome.name,
            state=outcome.column,
            of_label=outcome.of_label,
            correlation=alike.correlation,
            standard_error=alike.standard_error,
            states=outcome.states,
            **others,
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that group or order the rows."""
        return self.order_columns or (self.column,)

    @property
    @abstractmethod
    def model(self) -> DependenceModel:
        """The dependence model to declare if the finding is right."""

    @property
    @abstractmethod
    def share(self) -> float:
        """The worth of a row under `model`: effective rows for each row (S5)."""

    @property
    def measured_share(self) -> float:
        """The measured worth of a row, in effective rows for each row."""
        return self.share

    @property
    def estimate(self) -> bool:
        """Whether a measured design effect enters the effective rows, as for a series; for groups only sizes do."""
        return self.role == "series"

    @property
    def clear(self) -> bool:
        """Whether the rows are worth fewer independent rows than promised, significantly and by enough to matter."""
        if self.role == "attribute" or self.p_value >= LEVEL:
            return False
        return self.design_effect >= (LESS_WORTH if self._alike else _FARLESS_WORTH) * self.promised

    @property
    def _alike(self) -> bool:
        return True

    @property
    def suspect(self) -> bool:
        """Whether the finding clearly contradicts the declared dependence."""
        return self.clear

    @property
    def warns(self) -> bool:
        """Whether the finding is suspect, and the steward has not declared its columns independent."""
        return self.suspect and not self.assumed_independent

    @abstractmethod
    def suggestion(self, *, shell: bool = False) -> str | None:
        """Return the declaration to write if the finding is right, for Python or a shell, or None for attributes."""

    @abstractmethod
    def claim(self, alike: str, advice: str | None, would: str) -> str:
        """Return the text of the warning, built from how rows are alike, the advice, and the promise that follows."""


class GroupFinding(Finding):
    """Finding that rows with equal values of the column are correlated."""

    __slots__ = ()

    @property
    def model(self) -> DependenceModel:
        """The model to declare: groups of the sizes found."""
        return Groups.of_counts(dict(self.sizes), column=self.column)

    @property
    def share(self) -> float:
        """Effective rows for each row in the worst case, which follow from the sizes of the groups."""
        return self.model.concentration(1)

    @property
    def measured_share(self) -> float:
        """Effective rows for each row, by the measured design effect."""
        return 1.0 / self.design_effect

    @property
    def _alike(self) -> bool:
        return min(self.correlation, self.local or self.correlation) >= _CLEAR

    @property
    def suspect(self) -> bool:
        """Whether the finding contradicts the declared dependence, for which correlation alone is not enough.

        It must also concern the label, or the groups must be contiguous in the file, or no group may have both sealed
        and training rows.
        """
        return self.clear and (self.of_label or self.in_file or self.apart)

    def suggestion(self, *, shell: bool = False) -> str | None:
        """Return the declaration of groups of the column, or None for an attribute.

        If ``shell`` is True, it is spelled as an option of the command line, else as Python.
        """
        return None if self.role == "attribute" else _groups_of(self.column, shell=shell)

    def claim(self, alike: str, advice: str | None, would: str) -> str:
        """Return the warning that rows with equal values may have been drawn together."""
        apart = " No value of it is on both sides, as where whole groups were sealed." if self.apart else ""
        return (
            f"Training rows with equal {self.column!r} resemble each other {alike}. If they were drawn together, as "
            f"visits of a patient are, declare {advice}.{would}{apart}"
        )


class SeriesFinding(Finding):
    """Finding that neighbouring rows of an order are correlated."""

    __slots__ = ()

    @property
    def model(self) -> DependenceModel:
        """The model to declare: an autoregressive series, or long blocks as groups."""
        if self.first_order:
            from everhold.dependence.series.gaussian_ar1 import GaussianAR1

            return GaussianAR1(self.correlation, order_by=self.column, gap=math.inf)
        return Groups(self.block or 1)

    @property
    def share(self) -> float:
        """The measured worth of a row, in effective rows for each row."""
        if self.first_order:
            return (1.0 - abs(self.correlation)) / (1.0 + abs(self.correlation))
        return 1.0 / max(self.design_effect, 1.0)

    def suggestion(self, *, shell: bool = False) -> str | None:
        """Return the declaration of a fitted first-order series if that explains the finding, else of blocks.

        If ``shell`` is True, it is spelled as an option of the command line, else as Python.
        """
        if not self.first_order or self.column == FILE_ORDER:
            block = _groups_of("block", shell=shell)
            return f"{block}, a column that numbers blocks of at least {self.block or 1:,} rows in a row"
        discrete = self.states <= _MOST_STATES
        if shell:
            kind = "markov_chain" if discrete else "gaussian_ar1"
            order, state = shlex.quote(self.column), shlex.quote(self.state)
            fit = f"--kind {kind} --order-by {order} --state {state} --output model.json"
            return f"--model model.json, made by 'everhold dependence fit TRAINING {fit}'"
        model = "MarkovChain" if discrete else "GaussianAR1"
        return f"dependence=eh.{model}.fit(training, order_by={self.column!r}, state={self.state!r})"

    def claim(self, alike: str, advice: str | None, would: str) -> str:
        """Return the warning that rows may be a series."""
        follow = "in the file" if self.column == FILE_ORDER else f"in {self.column!r}"
        return (
            f"Training rows that follow each other {follow} resemble each other {alike}. If they are a series, "
            f"declare {advice}, and leave a gap between training and sealed rows.{would}"
        )


def _groups_of(column: str, *, shell: bool) -> str:
    """Return the declaration of groups of a column, for a shell or for Python."""
    return f"--groups {shlex.quote(column)}" if shell else f"dependence=eh.Groups({column!r})"


def independent_of(columns: Sequence[str], *, shell: bool) -> str:
    """Return the declaration that columns neither group nor order the rows, for a shell or for Python."""
    if shell:
        return " ".join(f"--independent {shlex.quote(column)}" for column in columns)
    return f"rows=eh.Rows(independent={[*columns]!r})"
