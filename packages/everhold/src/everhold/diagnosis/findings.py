"""The checks: which columns look like groups or like an order, whether that matters, and how it is said."""

from __future__ import annotations

import math
import shlex
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from everhold.dependence.groups import Groups
from everhold.diagnosis.columns import FILE_ORDER

if TYPE_CHECKING:
    from everhold.dependence import DependenceModel

LEVEL = 1e-3  # of p-values, all columns and outcomes together
FEWEST_GROUPS = 30  # with fewer a column is an attribute; with larger groups than the root of the rows, if unclear
_CLEAR = 0.05
LESS_WORTH, _FARLESS_WORTH = 1.1, 1.5  # design effect over the one that is promised
_MOST_STATES = 20  # of a Markov chain that can be learned from a training set

Role = Literal["group", "attribute", "series"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(ABC):
    """Consequence of one column for the promise.

    Attributes:
        column: Its name, or `everhold.diagnosis.columns.FILE_ORDER`.
        role: ``"group"`` if rows with equal values may have been drawn together; ``"attribute"`` if there are so few
            values, or so many rows of each that are hardly alike, that it rather describes rows; ``"series"`` if it may
            put rows in order.
        outcome: In what rows resemble each other: a column, or one of the label's classes.
        of_label: Whether that is the label.
        correlation: Of two rows of one group (intra-class correlation, one-way analysis of variance), or of neighbours
            in the order (lag-1 autocorrelation); of ranks, so that a few huge values cannot decide.
        p_value: Chance of as much where rows are worth what is promised, times the number of columns looked at.
        design_effect: How many rows are worth one; for a series, where blocks of rows show it most clearly.
        promised: How many rows are worth one as the rows are declared.
        groups: Number of groups; None for a series.
        sizes: Pairs (size, number of groups of that size); empty for a series.
        missing: Rows without a value in the column; each counts as a group of its own.
        in_file: Whether the rows lie in the file group by group, or in that order; shuffled rows do not.
        apart: Whether none of its values stand both in training and in sealed rows, as where whole groups were sealed.
        local: The correlation beyond what the neighbouring value shares, for whole numbers that stand on both sides.
        first_order: For a series, whether a model in which a row depends on the row before alone explains it.
        block: For a series, so many rows in a row are surely worth one.
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
    block: int | None = None
    effective_rows: float | None = None
    radius: float | None = None
    estimate: bool = False
    states: int = 0

    @property
    @abstractmethod
    def model(self) -> DependenceModel:
        """The model to declare."""

    @property
    @abstractmethod
    def share(self) -> float:
        """Worth of a row under that model: effective rows for each row (S5)."""

    @property
    def measured_share(self) -> float:
        """Measured worth of a row."""
        return self.share

    @property
    def clear(self) -> bool:
        """True if chance cannot explain it and it would matter: rows are worth less than is promised."""
        if self.role == "attribute" or self.p_value >= LEVEL:
            return False
        return self.design_effect >= (LESS_WORTH if self._alike else _FARLESS_WORTH) * self.promised

    @property
    def _alike(self) -> bool:
        return True

    @property
    def suspect(self) -> bool:
        """True if it speaks clearly against what is declared."""
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
        """A series that is worth what was found; or long blocks as groups."""
        if self.first_order:
            from everhold.dependence.series.gaussian_ar1 import GaussianAR1

            return GaussianAR1(self.correlation, order_by=self.column, gap=math.inf)
        return Groups(self.block or 1)

    @property
    def share(self) -> float:
        """As measured."""
        if self.first_order:
            return (1.0 - abs(self.correlation)) / (1.0 + abs(self.correlation))
        return 1.0 / max(self.design_effect, 1.0)

    def suggestion(self, *, shell: bool = False) -> str | None:
        """A model in which a row depends on the row before only where it explains all that was seen."""
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
        """They may be a series."""
        follow = "in the file" if self.column == FILE_ORDER else f"in {self.column!r}"
        return (
            f"training rows that follow each other {follow} resemble each other {alike}; if they are a "
            f"series, declare {advice}, and leave a gap between training and sealed rows{would}"
        )


def _groups_of(column: str, *, shell: bool) -> str:
    return f"--groups {shlex.quote(column)}" if shell else f"dependence=eh.Groups({column!r})"


# Groups: columns whose values repeat, each with the outcome in which its rows resemble each other most ----------------


# Series: orders of the rows, each with the outcome in which blocks of rows differ most -----------------------------


# Sizes of declared groups: if they carry information, answers hold for groups of these sizes only ---------------------
