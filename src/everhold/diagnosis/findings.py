"""The checks: which columns look like groups or like an order, whether that matters, and how it is said."""

from __future__ import annotations

import math
import shlex
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import chdtrc

from everhold.dependence.groups import Groups
from everhold.dependence.series.gaussian_ar1 import GaussianAR1
from everhold.dependence.stretches import wandering_of_values
from everhold.diagnosis.columns import FILE_ORDER, orders_of, outcomes_of
from everhold.diagnosis.resemblance import autocorrelation, between_neighbours, within_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from everhold.dependence import DependenceModel
    from everhold.diagnosis.columns import Column, OpenRows, Order, Outcome

__all__ = ["CHECKS", "Finding", "Look", "corrected", "informative_sizes", "lie_together"]

_LEVEL = 1e-3  # of p-values, all columns and outcomes together
_FEWEST_GROUPS = 30  # with fewer a column is an attribute; with larger groups than the root of the rows, if unclear
_REPEATED = 1.2  # a column of groups has fewer values than the rows divided by this
_MOST_OUTCOMES = 40  # looked at in every order
_MOST_IN_GROUPS = 8  # looked at in every column of groups that lie together
_CLEAR = 0.05
_LESS_WORTH, _FAR_LESS_WORTH = 1.1, 1.5  # design effect over the one that is promised
_TOGETHER = 0.5
_FIRST_ORDER = 0.05  # level at which a chain of neighbours is ruled out
_ERRORS = 3.0
_MOST_STATES = 20  # of a Markov chain that can be learned from a training set
_MOST_GROUPS = 10_000  # whose sizes are looked at
_SHUFFLES = 9_999
_AT_ONCE = 4_000_000  # numbers that are shuffled at once

Role = Literal["group", "attribute", "series"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(ABC):
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
    @abstractmethod
    def model(self) -> DependenceModel:
        """What would have to be declared."""

    @property
    @abstractmethod
    def share(self) -> float:
        """What a row would be worth under that: effective rows for each row (S5)."""

    @property
    def measured_share(self) -> float:
        """What a row is worth as measured."""
        return self.share

    @property
    def clear(self) -> bool:
        """Whether chance cannot explain it and it would matter: rows are worth less than is promised."""
        if self.role == "attribute" or self.p_value >= _LEVEL:
            return False
        return self.design_effect >= (_LESS_WORTH if self._alike else _FAR_LESS_WORTH) * self.promised

    @property
    def _alike(self) -> bool:
        return True

    @property
    def suspect(self) -> bool:
        """Whether it speaks clearly against what is declared."""
        return self.clear

    @abstractmethod
    def suggestion(self, *, shell: bool = False) -> str | None:
        """The declaration to write if it is right, for Python or for a shell; None for attributes."""

    @abstractmethod
    def claim(self, alike: str, advice: str | None, would: str) -> str:
        """The warning, given in what rows are alike, what to declare, and what the promise would then be."""


class GroupFinding(Finding):
    """Of rows with equal values."""

    __slots__ = ()

    @property
    def model(self) -> DependenceModel:
        """Groups of the sizes found."""
        return Groups.of_counts(dict(self.sizes), column=self.column)

    @property
    def share(self) -> float:
        """In the worst case, by the sizes alone."""
        rows = sum(size * number for size, number in self.sizes)
        return rows / sum(size * size * number for size, number in self.sizes)

    @property
    def measured_share(self) -> float:
        """By the design effect."""
        return 1.0 / self.design_effect

    @property
    def _alike(self) -> bool:
        return min(self.correlation, self.local or self.correlation) >= _CLEAR

    @property
    def suspect(self) -> bool:
        """Any two columns that go together make rows of a group look alike.

        So it has to be the label, or the rows have to lie together in the file, or no group may have rows on both
        sides, too.
        """
        return self.clear and (self.of_label or self.in_file or self.apart)

    def suggestion(self, *, shell: bool = False) -> str | None:
        """Groups of the column."""
        return None if self.role == "attribute" else _groups_of(self.column, shell=shell)

    def claim(self, alike: str, advice: str | None, would: str) -> str:
        """They may have been drawn together."""
        apart = "; no value of it stands on both sides, as where whole groups were sealed" if self.apart else ""
        return (
            f"training rows with equal {self.column!r} resemble each other {alike}; if they were drawn together, as "
            f"visits of a patient are, declare {advice}{would}{apart}"
        )


class SeriesFinding(Finding):
    """Of rows that follow each other in an order."""

    __slots__ = ()

    @property
    def model(self) -> DependenceModel:
        """A series that is worth what was found; or long stretches as groups."""
        if self.first_order:
            return GaussianAR1(self.correlation, order_by=self.column, gap=math.inf)
        return Groups(self.stretch or 1)

    @property
    def share(self) -> float:
        """As measured."""
        if self.first_order:
            return (1.0 - abs(self.correlation)) / (1.0 + abs(self.correlation))
        return 1.0 / max(self.design_effect, 1.0)

    def suggestion(self, *, shell: bool = False) -> str | None:
        """A model in which a row depends on the row before only where it explains all that was seen."""
        if not self.first_order or self.column == FILE_ORDER:
            stretch = _groups_of("stretch", shell=shell)
            return f"{stretch}, a column that numbers stretches of at least {self.stretch or 1:,} rows in a row"
        discrete = self.states <= _MOST_STATES
        if shell:
            kind = "markov_chain" if discrete else "gaussian_ar1"
            order, state = shlex.quote(self.column), shlex.quote(self.state)
            fit = f"--kind {kind} --order-by {order} --state {state} --output model.json"
            return f"--model model.json, made by 'everhold dependence fit TRAINING {fit}'"
        model = "MarkovChain" if discrete else "GaussianAR1"
        return f"dependence=eh.{model}.fit(training, order_by={self.column!r}, state={self.state!r})"

    def claim(self, alike: str, advice: str | None, would: str) -> str:
        """They may be a series."""
        follow = "in the file" if self.column == FILE_ORDER else f"in {self.column!r}"
        return (
            f"training rows that follow each other {follow} resemble each other {alike}; if they are a "
            f"series, declare {advice}, and leave a gap between training and sealed rows{would}"
        )


def _groups_of(column: str, *, shell: bool) -> str:
    return f"--groups {shlex.quote(column)}" if shell else f"dependence=eh.Groups({column!r})"


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What every check looks at.

    Attributes:
        rows: Open rows, in the order of their file.
        whole: Given a column and whether all outcomes count, rows in which its groups are whole.
        label: The outcome that counts most.
        declared: What is declared.
        promised: Rows for each effective row that are promised.
        apart: Columns none of whose values stand both in training and in sealed rows.
    """

    rows: OpenRows
    whole: Callable[[Column, bool], OpenRows]
    label: str | None
    declared: DependenceModel
    promised: float
    apart: Collection[str]


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


def _clearest(found: Iterable[Finding | None]) -> Iterator[Finding]:
    """The finding that speaks most clearly, with a p-value for all outcomes: the label counts as much as the others."""
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
        clear = sum(finding.p_value < _LEVEL for finding in paid)
        best = min(paid, key=lambda each: (not each.suspect, not each.of_label, each.p_value, -abs(each.correlation)))
        yield replace(best, first_order=best.first_order and clear <= 1)


# Groups: columns whose values repeat, each with the outcome in which its rows resemble each other most ----------------


def _groups(look: Look) -> Iterator[Finding]:
    """Outcomes other than the label count where groups lie together in the file, or on one side."""
    outcomes = lru_cache(maxsize=2)(lambda rows, most: outcomes_of(rows, label=look.label, most=most))
    for each in look.rows.columns:
        apart = each.name in look.apart
        if each.name == look.label or (each.kind == "number" and not apart):  # such numbers are hardly ids
            continue
        together = lie_together(each)
        rows = look.whole(each, together or apart)
        column = rows.column(each.name)
        if column is not None and _repeats(column):
            wanted = outcomes(rows, _MOST_OUTCOMES if apart else _MOST_IN_GROUPS)
            if not (apart or together or look.label is None):
                wanted = [outcome for outcome in wanted if outcome.of_label]
            yield from _clearest(_as_groups(column, outcome, look.promised, together, apart) for outcome in wanted)


def _repeats(column: Column) -> bool:
    values, rows = int(column.ranks.max(initial=-1)) + 1, int(np.count_nonzero(column.ranks >= 0))
    return 2 <= values < rows / _REPEATED


def _as_groups(column: Column, outcome: Outcome, promised: float, in_file: bool, apart: bool) -> Finding | None:
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
    # an attribute has the same values everywhere
    attribute = not apart and int(column.ranks.max()) + 1 < _FEWEST_GROUPS
    made = GroupFinding(
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
    possible, rows = int(np.sum(sizes - 1)), max(len(ranks), 1)
    chance = float(np.sum(sizes * (sizes - 1.0))) / rows
    followers = int(np.count_nonzero((ranks[1:] == ranks[:-1]) & (ranks[1:] >= 0)))
    return followers - chance >= _TOGETHER * max(possible - chance, 1.0)


# Series: orders of the rows, each with the outcome in which stretches of rows differ most -----------------------------


def _series(look: Look) -> Iterator[Finding]:
    outcomes = outcomes_of(look.rows, label=look.label, most=_MOST_OUTCOMES)
    for order in orders_of(look.rows, label=look.label, declared=look.declared):
        yield from _clearest(_as_series(order, outcome, look) for outcome in outcomes)


def _as_series(order: Order, outcome: Outcome, look: Look) -> Finding | None:
    if outcome.column == order.column or _is_sorted(look.rows, order, outcome):
        return None
    place = np.cumsum(outcome.present) - 1
    values = outcome.values[place[order.rows[outcome.present[order.rows]]]]
    alike = autocorrelation(values)
    if alike is None:
        return None
    seen = wandering_of_values(values, promised=look.promised)
    correlation = min(alike.correlation + _ERRORS * alike.standard_error, 1.0 - 1.0 / len(values))
    of_neighbours = max((1.0 + correlation) / (1.0 - correlation), look.promised)
    return SeriesFinding(
        column=order.column,
        role="series",
        outcome=outcome.name,
        state=outcome.column,
        of_label=outcome.of_label,
        correlation=alike.correlation,
        standard_error=alike.standard_error,
        p_value=float(seen.p_values[0]),
        design_effect=float(seen.design_effects[0]),
        promised=look.promised,
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


CHECKS: tuple[Callable[[Look], Iterator[Finding]], ...] = (_groups, _series)
"""Every check that a diagnosis makes of columns; their p-values are corrected together."""


# Sizes of declared groups: if they carry information, answers hold for groups of these sizes only ---------------------


def informative_sizes(look: Look) -> tuple[str, ...]:
    """Outcomes whose averages over groups go together with the sizes of the groups; the label first.

    The correlation of size and average over groups is held against those of shuffled averages. Averages of large groups
    vary less, which makes it smaller.
    """
    named = look.declared.group_column
    column = look.rows.column(named) if named else None
    if column is None:
        return ()
    found = outcomes_of(look.rows, label=look.label, most=_MOST_IN_GROUPS)
    outcomes = [each for each in found if each.column != column.name]
    level = _LEVEL / max(len(outcomes), 1)
    return tuple(dict.fromkeys(each.name for each in outcomes if _goes_together(column.ranks, each, level)))


def _goes_together(groups: NDArray[np.int64], outcome: Outcome, level: float) -> bool:
    of_row = groups[outcome.present]
    values, of_row = outcome.values[of_row >= 0], of_row[of_row >= 0]
    counts = np.bincount(of_row)
    sizes = counts[counts > 0][:_MOST_GROUPS].astype(np.float64)
    means = (np.bincount(of_row, weights=values)[counts > 0] / counts[counts > 0])[:_MOST_GROUPS]
    if len(sizes) < 3 or not sizes.std() > 0.0 or not means.std() > 1e-9:
        return False
    sizes, means = (sizes - sizes.mean()) / sizes.std(), (means - means.mean()) / means.std()
    seen = abs(float(np.mean(sizes * means)))
    if seen * len(sizes) ** 0.5 < 3.0:  # shuffling would only confirm it
        return False
    rng, more, left = np.random.default_rng(0), 0, _SHUFFLES
    while left and (more + 1) / (_SHUFFLES + 1) <= level:
        number = min(left, max(1, _AT_ONCE // len(sizes)))
        shuffled = rng.permuted(np.broadcast_to(means, (number, len(means))), axis=1)
        more, left = more + int(np.count_nonzero(np.abs(shuffled @ sizes) / len(sizes) >= seen - 1e-12)), left - number
    return (more + 1) / (_SHUFFLES + 1) <= level
