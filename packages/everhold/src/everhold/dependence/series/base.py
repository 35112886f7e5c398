"""Base of all time-series models: the order of the rows, the gap to the training rows, and their declaration."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from everhold.dependence.base import ONE_STEP, DependenceModel, require_rows
from everhold.dependence.leakage import LeakageCurve, RowClass
from everhold.dependence.series.coupling import mean_tail, spread
from everhold.dependence.series.settings import UNDECLARED, SeriesSettings, checked_settings
from everhold.errors import DependenceError, DependenceWarning, warn_caller

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.dependence.base import RowStructure, SeriesFacts
    from everhold.dependence.series.coupling import Coupling, Lengths
    from everhold.privacy.curves import PrivacyCurve

__all__ = ["SEEN_ROWS", "SeriesModel"]

SEEN_ROWS = (
    "Rows between the training rows and the sealed ones count as left out only if nobody who asks has seen them: "
    "whoever knows the last visit before the sealed ones knows much about these. Which rows people have seen stands in "
    "no file and cannot be checked here: ask them. If somebody has seen some of these rows, or rows on the other side "
    "of the sealed ones, the intervals are too narrow."
)
"""Assumption of every series about rows that are left out."""

_SHORTER = 0.02  # by how much the usual sealed step may fall short of the fitted one: clocks jitter, months differ


@dataclass(frozen=True, init=False)
class SeriesModel(DependenceModel):
    """Rows in order, one step after the other, in one or several independent series.

    Attributes:
        order_by: Name of the column that puts the rows of a series in order.
        state: Name of the column of the state; None if the state is not observed.
        groups: Name of the column whose equal values make a series; None for one series.
        gap: Number of rows left out between the training rows and the sealed rows of a series, none of which anybody
            who asks has seen: whoever has seen some declares only those nearer to the sealed rows. Infinite if training
            and sealed rows are independent of each other, None if that is not known.
        fit_miss: Probability that the model's parameters are wrong, because they were learned from training rows.
        step: Usual distance of the rows that the model was fitted to, in units of the order column, seconds for times:
            the mean of those that were counted; None if that is not known.
        lengths: Pairs (length, number of sealed series of that length); None until rows are sealed.
    """

    entries: ClassVar[Mapping[str, str]] = {
        "order_by": "column that puts rows in order",
        "state": "column with the state",
        "groups": "column whose equal values make a series",
        "gap": "rows left out between training and sealed rows, unseen by all who ask",
        "miss": "chance that the fit is wrong",
        "step": "distance of the rows that it was learned from (seconds for times)",
        "lengths": "length of series, and how many",
    }
    value_words: ClassVar[Mapping[tuple[str, str], str]] = {
        ("gap", "independent"): "training rows are independent of all sealed rows"
    }

    order_by: str | None
    state: str | None
    groups: str | None
    gap: float | None
    fit_miss: float
    step: float | None
    lengths: tuple[tuple[int, int], ...] | None

    def _declare(self, given: SeriesSettings) -> None:
        """Set the attributes of a frozen model."""
        if unknown := sorted(given.keys() - UNDECLARED.keys()):
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument {unknown[0]!r}")
        for name, value in checked_settings(given).items():
            object.__setattr__(self, name, value)

    @property
    @abstractmethod
    def fitted(self) -> bool:
        """True if the parameters were learned from training rows, so that all is argued given these rows."""

    @abstractmethod
    def _coupling(self) -> Coupling:
        """Couplings of two series that differ in a row.

        Raises:
            DependenceError: If the series need not forget.
        """

    @abstractmethod
    def _distance(self, steps: int) -> float:
        """Total variation between two rows so many steps apart and independent ones, at most."""

    @property
    def miss(self) -> float:
        """Probability given up by every promise: a wrong fit, and for a fitted model the link to its training rows.

        Raises:
            DependenceError: If the gap, or the number of series, is not known and matters.
        """
        return min(self.fit_miss + (self._training_link() if self.fitted else 0.0), 1.0)

    def training_distance(self) -> float:
        """Total variation between (training rows, sealed rows) and independent ones: every series has one link.

        With a gap of g rows left out, the last training row and the first sealed row are g + 1 steps apart.

        Raises:
            DependenceError: If the number of series is not known and matters.
        """
        return 0.0 if self.fitted else self._training_link()

    def _training_link(self) -> float:
        self._refuse_unknown_gap()
        if not self._linked:
            return 0.0
        self._refuse_unknown_number()
        series = sum(number for _, number in self.lengths or ((1, 1),))
        return min(series * self._distance(int(self.gap or 0) + 1), 1.0)

    def _refuse_unknown_number(self) -> None:
        if self.groups is not None and self.lengths is None:
            raise DependenceError(
                f"the number of series in column {self.groups!r} is not known before rows are sealed, and each tells "
                "about its training rows; expected the lengths of the sealed series; give lengths=[(length, number of "
                "such series), ...]"
            )

    def _refuse_unknown_gap(self) -> None:
        if self.fit_miss and self.gap is None:
            raise DependenceError(
                "the model was fitted to rows and the gap between them and the sealed rows is not known; expected "
                "the number of unseen rows left out; declare gap=... (0 if none), or gap=math.inf if they are "
                "independent"
            )

    @property
    def _linked(self) -> bool:
        return self.gap is not None and math.isfinite(self.gap)

    def _lengths_of(self, rows: int) -> Lengths:
        return self.lengths or ((rows, 1),)

    def leakage(self, curve: PrivacyCurve, rows: int) -> PrivacyCurve:
        """Neighbours on both sides may change with a row (S4); training rows beyond a gap count as lost.

        Raises:
            DependenceError: If the series need not forget its first state, or the number of series is not known and
                matters.
        """
        require_rows(rows)
        coupling, lengths = self._coupling(), self._lengths_of(rows)
        if self._independent(coupling):
            return curve
        bound = spread(coupling, lengths, lost=self._lost(coupling, lengths))
        return LeakageCurve(curve, (RowClass(1.0, (bound,)),))

    @staticmethod
    def _independent(coupling: Coupling) -> bool:
        """True if a row tells nothing about the next one."""
        return not coupling.forward(1, 2)[:, 1:].any()

    def _lost(self, coupling: Coupling, lengths: Lengths) -> float:
        """Probability that the coupling from a sealed row reaches a training row, averaged over rows."""
        if self.fitted or not self._linked:
            return 0.0
        self._refuse_unknown_number()
        first = int(self.gap or 0) + 1
        longest = first + max(length for length, _ in lengths)
        tails = [mean_tail(coupling, longest, backward=side) for side in (False, True)]
        reached = [sum(number * tail.total(first, first + length) for length, number in lengths) for tail in tails]
        return min(max(reached) / sum(length * number for length, number in lengths), 1.0)

    def concentration(self, rows: int) -> float:
        """The best of what is proven for the series (S5), rounded down; computed once for each number of rows.

        Any: ``n^2 / sum D_i^2`` (Kontorovich, Ramanan 2008), or one row for each series. Stationary, with a known norm
        l of the kernel on mean-zero functions: ``n (1 - l)/(1 + l)`` (Fan, Jiang, Sun 2021).

        Raises:
            DependenceError: If the series need not forget its first state.
        """
        require_rows(rows)
        if rows not in self._effective_rows:
            uniform, norm = self._uniform_rows(self._coupling(), rows), self._norm()
            proven = max(uniform, rows * (1.0 - norm) / (1.0 + norm) * (1.0 - 1e-12))
            self._effective_rows[rows] = min(proven, float(rows))
        return self._effective_rows[rows]

    @cached_property
    def _effective_rows(self) -> dict[int, float]:
        return {}

    @abstractmethod
    def _norm(self) -> float:
        """Norm of the kernel on mean-zero functions, at most; 1 where nothing is known."""

    def _uniform_rows(self, coupling: Coupling, rows: int) -> float:
        """``n^2 / sum_i D_i^2`` (S5, Kontorovich and Ramanan), or ``n^2 / sum_c L_c^2`` for series of lengths L_c."""
        if self._independent(coupling):
            return float(rows)
        lengths = self._lengths_of(rows)
        total = sum(length * number for length, number in lengths)
        tail = mean_tail(coupling, max(length for length, _ in lengths), backward=False, worst=True)
        squares = sum(number * min(tail.squares(length), length * length) for length, number in lengths)
        return max(rows * total / squares * (1.0 - 1e-9), 1.0)  # an average in [0, 1] is worth one row at least

    def bayesian_price(self, epsilon: float, rows: int) -> float:
        """The other rows of the longest series are nearby (an empty quilt)."""
        return max(length for length, _ in self._lengths_of(rows)) / epsilon

    @property
    def sorting_columns(self) -> tuple[str, ...]:
        """The columns of the series and of their order, as far as they are named."""
        return tuple(name for name in (self.groups, self.order_by) if name is not None)

    def bind(self, structure: RowStructure) -> Self:
        """Look up how long the series are; the training rows of a series must lie on one side of the sealed ones.

        The order column shows how many rows are left out between both, not who has seen them.

        Warns:
            DependenceWarning: If both may be of one series and are declared independent with an infinite gap.
        """
        if self.order_by is None:
            raise DependenceError(
                "the model does not say in which order the rows are; expected a column, for rows in a file have no "
                "order; name it as `order_by`"
            )
        self._refuse_unknown_gap()
        facts = structure.series(self.order_by, within=self.groups)
        if facts.ties:
            raise DependenceError(
                f"some sealed rows of one series have the same value in column {self.order_by!r}; expected one row per "
                "step; name the column that tells series apart as `groups`"
            )
        if self.gap is None or math.isfinite(self.gap):
            self._check_training(facts.training)
            self._check_gap(facts)
        elif facts.training != "none":
            self._check_another_series(facts.training)
            warn_caller(
                DependenceWarning(
                    f"training rows lie {facts.training} the sealed rows, and gap=math.inf says that they are another "
                    "series that is independent of the sealed one, as another station's days are; if they are of the "
                    "same series, the promise is false: seal a later stretch and declare its gap, or tell the series "
                    "apart with groups=..."
                )
            )
        if self.step or self.fit_miss:
            self._check_steps(facts)
        self._check_state(structure)
        return type(self).from_dict({**self.to_dict(), "lengths": sorted(facts.lengths.items())})

    def check_follows(self, structure: RowStructure) -> None:
        """Check rows that arrive (the sealed ones of ``structure``) against all earlier ones (its training rows).

        Raises:
            DependenceError: If they do not come after all earlier rows, in the same steps.
        """
        facts = structure.series(str(self.order_by), within=None)
        if facts.training != "before" or facts.ties:
            raise DependenceError(
                f"in column {self.order_by!r} they do not come after all sealed rows, one row per step. Append the "
                "rows that follow"
            )
        self._check_steps(facts)
        if facts.apart is not None and facts.apart < 1.0 - ONE_STEP:
            raise DependenceError(
                f"in column {self.order_by!r} the first one is {facts.apart:.3g} steps after the last sealed row. "
                "Append whole steps"
            )
        self._check_state(structure)

    def check_training_before(self, structure: RowStructure) -> None:
        """Check that rows that arrive do not come near training rows that lie after the sealed ones.

        Raises:
            DependenceError: If training rows of the series do not all come before them.
        """
        independent = self.gap is not None and math.isinf(self.gap)
        if not independent and structure.series(str(self.order_by), within=None).training != "before":
            raise DependenceError(
                f"in column {self.order_by!r} training rows do not all come before them, and rows that go on would "
                "come near these. Seal the rows as another holdout"
            )

    def lengthened(self, rows: int) -> Self:
        """The same model of one series when so many rows of it are sealed."""
        return type(self).from_dict({**self.to_dict(), "lengths": [(rows, 1)]})

    def _check_training(self, training: str) -> None:
        if training == "among":
            raise DependenceError(
                "training rows lie among the sealed rows of a series; expected all of them on one side, for neighbours "
                "tell about each other; seal a later stretch of every series, or whole series named by `groups`"
            )
        if training != "none" and self.gap is None:
            raise DependenceError(
                f"the training rows come {training} the sealed rows of the same series and the gap is not known; "
                "expected the number of unseen rows left out in between; declare gap=... (0 if none), or gap=math.inf "
                "if the training rows are another, independent series"
            )

    def _check_another_series(self, training: str) -> None:
        if self.groups is not None:
            raise DependenceError(
                f"training rows lie {training} sealed rows with the same value in column {self.groups!r}, so they are "
                "of the same series, and gap=math.inf says that they are of another; expected one of both; declare the "
                "number of unseen rows left out in between as gap=..., or keep whole series on one side"
            )

    def _check_gap(self, facts: SeriesFacts) -> None:
        """Hold the declared gap against the order column."""
        if facts.apart is None or self.gap is None:
            return
        if facts.apart < self.gap + 0.5:  # half a step for clocks that are not even
            raise DependenceError(
                f"the gap is declared as {int(self.gap):,} rows, and in column {self.order_by!r} the nearest training "
                f"row is {facts.apart:.3g} steps from a sealed one of its series; expected at least "
                f"{int(self.gap) + 1:,}; declare the true gap, or leave more rows out"
            )

    def _check_steps(self, facts: SeriesFacts) -> None:
        """Hold the steps that the model was fitted to against those of the sealed rows."""
        fitted = self.step or facts.training_step
        if not facts.step or not fitted:
            return
        if facts.step < (1.0 - _SHORTER) * fitted:
            raise DependenceError(
                f"the rows that the model was fitted to are {fitted / facts.step:.3g} times as far apart as the sealed "
                f"ones in column {self.order_by!r}, so what was fitted to them is too little dependence; expected the "
                "same steps; fit the model to rows as dense as the sealed ones, or order both by a column that counts "
                "the steps"
            )
        if facts.least_step is not None and facts.least_step < (1.0 - ONE_STEP) * fitted:
            raise DependenceError(
                f"some sealed rows are only {facts.least_step / fitted:.3g} steps apart in column "
                f"{self.order_by!r}, and the model was fitted to whole steps; expected one row per step, up to a "
                "tenth; thin the rows out, or order them by a column that counts the steps"
            )

    def _check_state(self, structure: RowStructure) -> None:
        """Refuse rows without a state, or with one that the model does not know."""
        if self.state is not None:
            structure.unknown_values(self.state, frozenset())

    def _settings(self) -> dict[str, Any]:
        """The shared part of the plain data."""
        gap = self.gap if self.gap is None else "independent" if math.isinf(self.gap) else int(self.gap)
        return {
            "order_by": self.order_by,
            "state": self.state,
            "groups": self.groups,
            "gap": gap,
            "miss": self.fit_miss,
            "step": self.step,
            "lengths": None if self.lengths is None else [list(pair) for pair in self.lengths],
        }

    @staticmethod
    def _read_settings(data: Mapping[str, Any]) -> dict[str, Any]:
        """The inverse of `_settings`, as arguments of the constructor."""
        gap = data.get("gap")
        names = {name: data.get(name) for name in ("order_by", "state", "groups", "step", "lengths")}
        return {**names, "gap": math.inf if gap == "independent" else gap, "miss": float(data.get("miss", 0.0))}

    def _said(self, what: str) -> str:
        """One sentence: what a step is, then the rows, the gap and the fit."""
        ordered = "" if self.order_by is None else f" in the order of column {self.order_by!r}"
        parts = "the sealed rows are one series"
        if self.groups is not None:
            parts = f"the sealed rows are independent series (equal values of column {self.groups!r})"
        said = f"{parts}{ordered}, one row per step; {what}"
        if self.gap is None and self.fitted:
            said += "; the gap to the sealed rows is not declared yet"
        elif self.gap is None:
            said += "; no training row belongs to the same series, and nobody who asks has seen any other row of it"
        elif math.isinf(self.gap):
            said += (
                "; the training rows are independent of the sealed rows, and nobody who asks has seen any other row of "
                "a sealed series"
            )
        else:
            unseen = f"any of these {self.gap:,} rows, any " if self.gap else "any row "
            said += (
                f"; {int(self.gap):,} rows are left out between the training rows and the sealed rows of a series, and "
                f"nobody who asks has seen {unseen}between the sealed rows or any on their other side"
            )
        if self.fit_miss:
            said += f"; its parameters were bounded from training rows with confidence {1.0 - self.fit_miss:.6g}"
        return said
