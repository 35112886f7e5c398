"""The model of rows whose state is a number that drifts back to its mean: temperatures, loads, rates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

import numpy as np

from everhold.arguments import as_float, names_keywords
from everhold.dependence.blocks import warn_of_long_memory
from everhold.dependence.series import base
from everhold.dependence.series.coupling import Coupling, GaussianCoupling
from everhold.dependence.series.fitting import bound_correlation, continuous, missed, ordered_runs
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from everhold.dependence.base import RowStructure


@dataclass(frozen=True)
class GaussianLaw(base.SeriesLaw):
    """Stationary Gaussian series in which neighbouring rows have at most a given correlation."""

    correlation: float

    def coupling(self) -> Coupling:
        """Return the couplings of two series that differ in one row."""
        return _shared_coupling(self.correlation)

    def distance(self, steps: int) -> float:
        """Return a bound on the total variation of a normal pair with ``q = |r|^steps`` from independence.

        The Kullback-Leibler divergence is ``-ln(1 - q^2)/2``. The bound is the better one of Pinsker's and that of
        Bretagnolle and Huber.
        """
        square = self.correlation ** (2 * steps)
        divergence = -math.log1p(-square) / 2.0
        return min(math.sqrt(divergence / 2.0), math.sqrt(-math.expm1(-divergence)))

    @property
    def norm(self) -> float:
        """The norm of the kernel on mean-zero functions."""
        return self.correlation


@dataclass(frozen=True, init=False)
class GaussianAR1(base.SeriesModel):
    """A model of a stationary time series: a number is ``c + r x`` plus normal noise, where x is the number before.

    This number is called the state of a row. Given its state, a row is independent of all other rows. Mean and variance
    of the state do not matter.

    Args:
        correlation: r, strictly between -1 and 1, or an upper bound on ``|r|``. Promises are weaker for larger ``|r|``.
        order_by: Column that puts the rows of a series in order.
        state: Column of the state; None if it is not observed.
        groups: Column whose equal values make a series; series are independent of each other.
        gap: Number of rows left out between the training rows and the sealed rows of a series that no analyst has
            seen; ``math.inf`` if they are independent of each other.
        miss: Probability that the true ``|r|`` is larger than ``correlation``, if that was estimated; see `fit`.
        step: Usual distance of neighbouring rows in ``order_by``, which `fit` sets.
        lengths: Pairs (length, number of series), looked up when rows are sealed.

    Raises:
        DependenceError: If an argument is outside its range, or two arguments contradict each other.

    Examples:
        >>> round(GaussianAR1(0.5).concentration(3_000))
        1000
    """

    kind: ClassVar[str] = "gaussian_ar1"
    title: ClassVar[str] = "Gaussian autoregression of order 1"
    rows_are: ClassVar[str] = "rows in an autoregressive series"
    how_to_tell: ClassVar[tuple[str, ...]] = (
        base.SEEN_ROWS,
        "The assumption is wrong if the series has seasons or a trend, if its values are far from normal, or if rows "
        "share more than this one value.",
        "To check, look at the residuals of the training rows: they must look normal and must not be correlated with "
        "each other, and early and late blocks must have the same mean and spread.",
        "If it is wrong, the intervals may be too narrow. Remove season and trend first, or declare blocks of time "
        "as groups.",
    )
    influence_in: ClassVar[str] = "correlation, at most"
    entries: ClassVar[Mapping[str, str]] = {
        **base.SeriesModel.entries,
        "correlation": "correlation of neighbouring rows",
    }

    correlation: float

    @names_keywords(base.SeriesSettings, base.UNDECLARED)
    def __init__(self, correlation: float, **settings: Unpack[base.SeriesSettings]) -> None:
        if not -1.0 < as_float(correlation) < 1.0:
            raise DependenceError(
                f"correlation is {correlation!r}. Pass a number strictly between -1 and 1, or take differences of "
                "rows first."
            )
        object.__setattr__(self, "correlation", float(correlation))
        base.declare(self, settings)

    @classmethod
    def fit(
        cls,
        table: Any,
        order_by: str,
        state: str,
        *,
        groups: str | None = None,
        gap: float | None = None,
        confidence: float = 0.99,
    ) -> Self:
        """Estimate an upper bound on the correlation from neighbouring training rows.

        With probability at least ``confidence`` the true ``|r|`` is at most the model's `correlation`. It is assumed
        that the noise is normal and its variance constant. Only pairs of rows one usual step (the median) apart count.

        Args:
            table: Data frame that narwhals understands (pandas, Polars, Arrow, ...), or mapping of names to arrays.
            order_by: Column that puts the rows of a series in order.
            state: Column of the state: numbers that hardly ever repeat.
            groups: Column whose equal values make a series.
            gap: Number of rows left out between these rows and the sealed rows of a series that no analyst has
                seen.
            confidence: Probability, in (0, 1), with which the true ``|r|`` is at most the bound.

        Raises:
            DependenceError: If values are missing, infinite or classes, rows are tied or have no even steps, or a
                correlation of 1 cannot be ruled out.
            ValueError: If `confidence` is outside (0, 1).

        Warns:
            DependenceWarning: If rows far apart are more alike than the model allows, as noisy records of a number
                that changes slowly are.
        """
        miss = missed(confidence)
        runs, step = ordered_runs(table, order_by=order_by, value=state, groups=groups)
        series = continuous(runs, name=state)
        bound = bound_correlation(series, miss=miss)
        largest = max(abs(bound.least), abs(bound.largest))
        if largest >= 1.0:
            raise DependenceError(
                f"The training rows are consistent with correlations from {bound.least:.3f} to {bound.largest:.3f}, "
                "and the model needs less than 1. Pass more training rows, or take differences of rows first."
            )
        model = cls(largest, order_by=order_by, state=state, groups=groups, gap=gap, miss=miss, step=step)
        warn_of_long_memory(model, [np.concatenate(series)], state=state)
        return model

    @property
    def law(self) -> GaussianLaw:
        """The probability laws that the model allows: neighbouring rows have at most this correlation."""
        return GaussianLaw(abs(self.correlation))

    def check_state(self, structure: RowStructure) -> None:
        """Raise DependenceError unless the state (the column of the series) is a number in every row.

        Args:
            structure: Columns and order of the sealed rows and of the training rows.
        """
        super().check_state(structure)
        if self.state is not None and not structure.is_number(self.state):
            raise DependenceError(
                f"The column {self.state!r} of the state holds no numbers. Pass a continuous column as state, or use "
                "MarkovChain for classes."
            )

    def influences(self, distances: int) -> tuple[str, Mapping[str, NDArray[np.float64]]]:
        """Return a chart's title, and a bound on the correlation of rows at each distance, for its line.

        Other models chart the max-influence, which is infinite for normal values.

        Args:
            distances: The largest distance in rows.
        """
        return self.rows_are, {"one row, either side": abs(self.correlation) ** np.arange(1.0, distances + 1.0)}

    def describe(self) -> str:
        """Return the assumption about the series as one sentence, as the certificate shows it."""
        of = "the number" if self.state is None else f"the number in column {self.state!r}"
        bound = "at most " if self.fitted else ""
        return base.described(
            self,
            f"{of} is a stationary Gaussian autoregression of order 1 with absolute correlation {bound}"
            f"{abs(self.correlation):.4g}, and a row given this number is independent of all others",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain JSON data with its ``kind``, as the certificate holds it."""
        return {"kind": self.kind, "correlation": self.correlation, **base.plain_settings(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build the model from plain data, such as ``{"kind": "gaussian_ar1", "correlation": 0.5}``."""
        return cls(float(data["correlation"]), **base.read_settings(data))


@lru_cache(maxsize=16)
def _shared_coupling(correlation: float) -> Coupling:
    return GaussianCoupling(correlation)
