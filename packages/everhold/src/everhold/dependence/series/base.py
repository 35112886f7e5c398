"""Base of all time-series models: the order of the rows, the gap to the training rows, and their declaration."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

from everhold.dependence.base import DependenceModel, require_rows
from everhold.dependence.leakage import LeakageCurve, RowClass
from everhold.dependence.series.coupling import says_nothing, spread, uniform_rows
from everhold.dependence.series.row_checks import check_follows, check_rows, check_training_before
from everhold.dependence.series.training_link import lost_to_training, refuse_unknown_gap, training_link
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.dependence.base import RowStructure
    from everhold.dependence.series.law import SeriesLaw
    from everhold.privacy.curves import PrivacyCurve

SEEN_ROWS = (
    "Rows between the training rows and the sealed ones count as left out only if nobody who asks has seen them: "
    "whoever knows the last visit before the sealed ones knows much about these. Which rows people have seen stands in "
    "no file and cannot be checked here: ask them. If somebody has seen some of these rows, or rows on the other side "
    "of the sealed ones, the intervals are too narrow."
)
"""Assumption of every series about rows that are left out."""


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

    @property
    @abstractmethod
    def law(self) -> SeriesLaw:
        """The law by which rows follow each other."""

    @property
    def fitted(self) -> bool:
        """True if the parameters were learned from training rows, so that all is argued given these rows."""
        return self.fit_miss > 0.0 or self.law.uncertain

    @property
    def miss(self) -> float:
        """Probability given up by every promise: a wrong fit, and for a fitted model the link to its training rows.

        Raises:
            DependenceError: If the gap, or the number of series, is not known and matters.
        """
        return min(self.fit_miss + (training_link(self) if self.fitted else 0.0), 1.0)

    def training_distance(self) -> float:
        """Total variation between (training rows, sealed rows) and independent ones: every series has one link.

        With a gap of g rows left out, the last training row and the first sealed row are g + 1 steps apart.

        Raises:
            DependenceError: If the number of series is not known and matters.
        """
        return 0.0 if self.fitted else training_link(self)

    def leakage(self, curve: PrivacyCurve, rows: int) -> PrivacyCurve:
        """Neighbours on both sides may change with a row (S4); training rows beyond a gap count as lost.

        Raises:
            DependenceError: If the series need not forget its first state, or the number of series is not known and
                matters.
        """
        require_rows(rows)
        coupling, lengths = self.law.coupling(), self.lengths or ((rows, 1),)
        if says_nothing(coupling):
            return curve
        bound = spread(coupling, lengths, lost=lost_to_training(self, lengths))
        return LeakageCurve(curve, (RowClass(1.0, (bound,)),))

    def concentration(self, rows: int) -> float:
        """The best of what is proven for the series (S5), rounded down; computed once for each number of rows.

        Any: ``n^2 / sum D_i^2`` (Kontorovich, Ramanan 2008), or one row for each series. Stationary, with a known norm
        l of the kernel on mean-zero functions: ``n (1 - l)/(1 + l)`` (Fan, Jiang, Sun 2021).

        Raises:
            DependenceError: If the series need not forget its first state.
        """
        require_rows(rows)
        if rows not in self._effective_rows:
            uniform, norm = uniform_rows(self.law.coupling(), self.lengths or ((rows, 1),), rows), self.law.norm
            proven = max(uniform, rows * (1.0 - norm) / (1.0 + norm) * (1.0 - 1e-12))
            self._effective_rows[rows] = min(proven, float(rows))
        return self._effective_rows[rows]

    @cached_property
    def _effective_rows(self) -> dict[int, float]:
        return {}

    def bayesian_price(self, epsilon: float, rows: int) -> float:
        """The other rows of the longest series are nearby (an empty quilt), unless the law says more (P5)."""
        return self.law.bayesian_price(epsilon, max(length for length, _ in self.lengths or ((rows, 1),)))

    @property
    def one_series(self) -> bool:
        """True without a column that tells series apart."""
        return self.groups is None

    def check_follows(self, structure: RowStructure, *, training: bool) -> None:
        """Check that rows come after all earlier rows of the one series, in the same steps."""
        if not self.one_series:
            return
        (check_training_before if training else check_follows)(self, structure)

    def with_rows(self, rows: int, units: Mapping[int, int]) -> Self:
        """The same one series of so many rows."""
        return type(self).from_dict({**self.to_dict(), "lengths": [(rows, 1)]}) if self.one_series else self

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
        refuse_unknown_gap(self)
        facts = structure.series(self.order_by, within=self.groups)
        check_rows(self, facts)
        self.check_state(structure)
        return type(self).from_dict({**self.to_dict(), "lengths": sorted(facts.lengths.items())})

    def check_state(self, structure: RowStructure) -> None:
        """Refuse rows without a state, or with one that the model does not know."""
        if self.state is not None:
            structure.unknown_values(self.state, frozenset())
