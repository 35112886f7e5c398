"""A statistic of the whole table that one row can move by a little only, such as an AUC or a variance."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.answers import Answer
from everhold.arguments import as_float, brief
from everhold.dependence import Independent
from everhold.errors import QueryRejected
from everhold.estimand import check_label_is_read
from everhold.questions.gradient import check_positive
from everhold.questions.identity import behaviour_digest, content_digest
from everhold.questions.priced import Drawn, Price, PricedQuery, Purchase, checked_function_name
from everhold.questions.question import paying
from everhold.sealing.probe import counterexample, values_or_none, varied_rows
from everhold.values.evaluation import UNIT

if TYPE_CHECKING:
    from everhold.mechanisms import PrivacyBudget, State
    from everhold.privacy.noise import Noise
    from everhold.questions.preparation import Preparation
    from everhold.sealing.table import StoredRows
    from everhold.values.base import Table

__all__ = [
    "LowSensitivityQuery", "StatisticGrid", "StatisticPurchase", "check_range", "low_sensitivity",
    "statistic_purchase",
]  # fmt: skip

_MOST_STEPS = 2**62
_PARTS = 8


@dataclass(frozen=True, slots=True)
class StatisticGrid:
    """A statistic on an integer grid, computed in rational numbers.

    One replaced row moves the statistic by at most Delta and its position on the grid by at most ``unit`` steps. A step
    is ``Delta / (unit - 1)``, so that there is one to spare: it covers errors of floating point in the statistic of up
    to ``Delta / unit``; rounding down needs none, because ``unit`` is whole.

    Attributes:
        low: The least value.
        high: The largest value.
        sensitivity: Delta.
        unit: Steps that one row may move it by.
    """

    low: float
    high: float
    sensitivity: float
    unit: int = UNIT

    @property
    def step(self) -> Fraction:
        """A grid step in the statistic's units."""
        return Fraction(self.sensitivity) / (self.unit - 1)

    @property
    def share(self) -> Fraction:
        """A grid step as a share of the range."""
        return self.step / (Fraction(self.high) - Fraction(self.low))

    def at(self, share: float) -> float:
        """The value at a share of the range, to the last digit."""
        low = Fraction(self.low)
        return float(low + Fraction(share) * (Fraction(self.high) - low))

    def position(self, value: float | Fraction) -> int:
        """Steps above the least value, rounded down; what is no number counts as the least value."""
        clipped = self.low if math.isnan(value) else min(max(value, self.low), self.high)
        return math.floor((Fraction(clipped) - Fraction(self.low)) / self.step)


def check_range(sensitivity: float, low: float, high: float, tolerance: float | None) -> None:
    """Check what an analyst claims about a statistic.

    Raises:
        ValueError: If it is not valid.
    """
    check_positive("sensitivity", sensitivity)
    if tolerance is not None:
        check_positive("tolerance", tolerance)
    least, most = as_float(low), as_float(high)
    if not (least < most and math.isfinite(most - least)):
        raise ValueError(
            f"the range is [{brief(low)}, {brief(high)}]; expected two finite numbers, the lower one first"
        )
    if float(sensitivity) > 2.0 * (most - least):  # 2: a proven one may be rounded up a little
        raise ValueError(
            f"sensitivity is {float(sensitivity):g} and the range [{least:g}, {most:g}]; expected at most the width of "
            "the range, because values outside are clipped"
        )


@dataclass(frozen=True, slots=True)
class LowSensitivityQuery(PricedQuery[Answer]):
    """A statistic of the whole table; made by `low_sensitivity`, which says what the attributes are."""

    function: Callable[[Table], float]
    sensitivity: float
    low: float = field(default=0.0, kw_only=True)
    high: float = field(default=1.0, kw_only=True)
    columns: Sequence[str] | None = field(default=None, kw_only=True)
    tolerance: float | None = field(default=None, kw_only=True)
    name: str | None = field(default=None, kw_only=True)
    _token: str = field(default_factory=lambda: secrets.token_hex(16), init=False, repr=False)
    probe: InitVar[Mapping[str, Any] | None] = field(default=None, kw_only=True)

    def __post_init__(self, probe: Mapping[str, Any] | None) -> None:
        if not callable(self.function):
            raise ValueError(f"the function is a {type(self.function).__name__}; expected one from a table to a number")
        check_range(self.sensitivity, self.low, self.high, self.tolerance)
        checked_function_name(self.name)
        if probe is not None:
            table = {str(name): np.array(probe[name]) for name in probe} if isinstance(probe, Mapping) else {}
            shapes = {column.shape for column in table.values()}
            if len(shapes) != 1 or len(shape := shapes.pop()) != 1 or not shape[0]:
                raise ValueError("the rows to try are not a table; expected columns by name, all equally long")
            self._try(table, rows=len(next(iter(table.values()))), label=None)

    def purchase(self, preparation: Preparation) -> StatisticPurchase:
        """The statistic for one holdout, tried on public rows."""
        names = preparation.columns_read(self.columns)
        check_label_is_read(names, preparation.schema)
        grid = StatisticGrid(float(self.low), float(self.high), float(self.sensitivity), preparation.mechanism.unit)
        schema = preparation.schema
        public = preparation.public_rows(names, most=max(schema.rows, 2))
        described: dict[str, Any] = {
            "kind": "statistic", "low": grid.low, "high": grid.high, "sensitivity": grid.sensitivity,
            "columns": None if self.columns is None else list(names),
            **({"token": self._token} if self.name is None else {"name": self.name}),
            "content": content_digest(self.function) or self._token,
            "on_public_rows": behaviour_digest(map(self._value, self._samples(preparation, public))),
        }  # fmt: skip
        bought = statistic_purchase(
            preparation, grid, lambda sealed: self._value(sealed.table(names)), described,
            shown=f"statistic {self.name or 'without a name'}", tolerance=self.tolerance,
        )  # fmt: skip
        label = schema.label if schema.label in names else None
        self._try(public, rows=schema.rows, label=label)
        return bought

    def _samples(self, preparation: Preparation, public: Table) -> list[Table]:
        """Public rows, all and in parts, on which statistics that differ are likely to differ."""
        if preparation.training is None:
            public = varied_rows({name: preparation.schema.columns[name] for name in public})
        parts = ({name: column[part::_PARTS] for name, column in public.items()} for part in range(_PARTS))
        return [public, *(part for part in parts if len(next(iter(part.values()))))]

    def _value(self, table: Table) -> float:
        """The function's value whatever happens; nan for a fault."""
        value = values_or_none(self.function, table, ())
        return math.nan if value is None else float(value)

    def _try(self, table: Table, *, rows: int, label: str | None) -> None:
        self._try_once(table)
        grid = StatisticGrid(float(self.low), float(self.high), float(self.sensitivity))
        found = counterexample(
            lambda rows_of: grid.position(self._value(rows_of)), table, rows=rows, allowed=grid.unit, label=label
        )
        if found is not None:
            raise QueryRejected(
                f"replacing one row moves the statistic by {found.difference * float(grid.step):.4g} on public rows "
                f"({found.kind}), and its sensitivity was said to be {grid.sensitivity:.4g}; expected a number that no "
                "row can exceed, whatever is in it, also where the function fails or gives nan; clip the values, fill "
                "in missing ones, or claim more; nothing was charged",
                difference=found.difference * float(grid.step),
                sensitivity=grid.sensitivity,
            )

    def _try_once(self, table: Table) -> None:
        """Public rows as they are, where every fault is reported."""
        try:
            value = np.asarray(self.function(dict(table)))
        except (Exception, SystemExit) as fault:
            raise QueryRejected(
                f"the function fails on public rows with {type(fault).__name__}: {fault}; expected one number for a "
                f"table with the columns {', '.join(table)}; nothing was charged"
            ) from fault
        if value.shape != () or value.dtype.kind not in "biuf" or not np.isfinite(value):
            raise QueryRejected(
                f"the function gives {_in_words(value)} on public rows; expected one finite number; nothing was charged"
            )


def low_sensitivity(
    function: Callable[[Table], float],
    sensitivity: float,
    *,
    low: float = 0.0,
    high: float = 1.0,
    columns: Sequence[str] | None = None,
    tolerance: float | None = None,
    name: str | None = None,
    probe: Mapping[str, Any] | None = None,
) -> LowSensitivityQuery:
    """A statistic of the whole table, with the most that one replaced row can move it.

    The interval is for the expected value of the statistic on a fresh sample of as many rows; for a biased statistic
    that is not its limit. Rows have to be independent. The claimed sensitivity is tried on pairs of public data sets
    that differ in one row, and refused if one of them speaks against it; that none does proves nothing, and the promise
    holds only if the claim is true of all possible rows. If it is false the noise was too small, and what that told
    counts against the promise of *all* answers of the holdout. On sealed rows a value outside the range is clipped, and
    nan or a fault counts as ``low``, silently: a function that fails on some data sets may break its own sensitivity.

    Args:
        function: From a table (columns by name, NumPy arrays) to a number.
        sensitivity: Delta: replacing one row, by any other, moves the number by at most this.
        low: The least value; must not come from the sealed rows.
        high: The largest value.
        columns: Columns that the function reads; None for all but the row ids.
        tolerance: Half-width wished for, in the statistic's units; None for the planned noise, at the price of a mean.
        name: Functions of one name that are made of the same code and data, and give the same for public rows, are one
            question. Without a name every new object is a new question.
        probe: Public rows to try the claim on at once: columns by name, as many rows as are sealed. Not kept.

    Raises:
        ValueError: If the sensitivity, the range or the tolerance cannot be used.
        QueryRejected: If the public rows speak against the sensitivity.

    Examples:
        >>> low_sensitivity(lambda table: np.median(table["x"]), 0.001, probe={"x": np.arange(100) % 2 * 1.0})
        Traceback (most recent call last):
        everhold.errors.QueryRejected: replacing one row moves the statistic by 0.5 on public rows (...), and its
        sensitivity was said to be 0.001; expected ...
    """
    return LowSensitivityQuery(
        function, sensitivity, low=low, high=high, columns=columns, tolerance=tolerance, name=name, probe=probe
    )


def _in_words(value: Any) -> str:
    return f"an array of shape {value.shape}" if value.shape else f"a value of type {value.dtype} that is not finite"


@dataclass(frozen=True, slots=True)
class StatisticPurchase(Purchase[int, Answer]):
    """A statistic that is ready to be asked for.

    Attributes:
        grid: How its values are written in whole numbers.
        evaluate: Its value on sealed rows, whatever happens; nan for a fault.
        described: Public and canonical.
        shown_as: The question as people read it.
        scale: Noise scale, in the units of a mean.
        by_position: Whether it is about predictions as arrays.
    """

    grid: StatisticGrid
    evaluate: Callable[[StoredRows], float | Fraction]
    described: Mapping[str, Any]
    shown_as: str
    scale: float
    by_position: bool = False

    @property
    def description(self) -> dict[str, Any]:
        """Public and canonical."""
        return dict(self.described)

    @property
    def shown(self) -> str:
        """The question as people read it."""
        return self.shown_as

    def price(self, mechanism: PrivacyBudget) -> Price:
        """Its credits, and the half-width in its units."""
        return Price(mechanism.credits_for(self.scale), half_width(self.grid, mechanism, self.scale))

    def look(self, sealed: StoredRows, unit: int) -> int:
        """Its position on the grid."""
        return self.grid.position(self.evaluate(sealed))

    def draw(self, mechanism: PrivacyBudget, state: State, seen: int, noise: Noise) -> Drawn:
        """The position plus noise (S1 for low sensitivity), as a share of the range."""
        after, drawn = mechanism.release(state, np.array([seen], dtype=np.int64), noise, scale=self.scale)
        if drawn is None:
            return Drawn.refused(state)
        value = float(int(drawn[0]) * self.grid.share)
        within = math.nextafter(mechanism.radius_at(self.scale) * float(mechanism.steps * self.grid.share), math.inf)
        ends = (min(max(end, 0.0), 1.0) for end in (value, value - within - 1e-15, value + within + 1e-15))
        answer = {**dict(zip(("value", "low", "high"), ends, strict=True)), "source": "holdout", "within": within}
        return Drawn(after, answer, after.charged - state.charged)

    def result(self, answer: Mapping[str, Any], **paid: Any) -> Answer:
        """The answer in the statistic's units."""
        grid = self.grid
        value, low, high = (None if answer[end] is None else grid.at(answer[end]) for end in ("value", "low", "high"))
        if low is not None and high is not None:  # rounded outwards
            low, high = max(math.nextafter(low, -math.inf), grid.low), min(math.nextafter(high, math.inf), grid.high)
        return Answer(value=value, low=low, high=high, source=answer["source"], statement="S1", **paid)


def half_width(grid: StatisticGrid, mechanism: PrivacyBudget, scale: float) -> float:
    """``n Delta`` times the half-width of a mean, in the statistic's units."""
    return math.nextafter(mechanism.radius_at(scale) * float(mechanism.steps * grid.step), math.inf)


def statistic_purchase(
    preparation: Preparation, grid: StatisticGrid, evaluate: Callable[[StoredRows], float | Fraction],
    described: Mapping[str, Any], *, shown: str, tolerance: float | None, by_position: bool = False,
) -> StatisticPurchase:  # fmt: skip
    """A statistic for one holdout.

    Raises:
        QueryRejected: If it cannot be asked of these rows, or the budget cannot pay for its tolerance.
    """
    mechanism = paying(preparation.mechanism)
    if not isinstance(mechanism.dependence, Independent):
        raise QueryRejected(
            "a statistic of low sensitivity is promised something for independent rows only, and these rows were "
            "declared to depend on each other; expected means, gradients, choices or quantiles; nothing was charged"
        )
    if mechanism.unit < 2 or 1 / grid.share > _MOST_STEPS:
        raise QueryRejected(
            f"the range [{grid.low:g}, {grid.high:g}] is too wide for a sensitivity of {grid.sensitivity:g}; expected "
            "at most a few billion times as much; nothing was charged"
        )
    scale, within = mechanism.scale, ""
    if tolerance is not None:
        described, within = {**described, "tolerance": float(tolerance)}, f", within {tolerance:g}"
        try:
            scale = mechanism.largest_scale(float(tolerance), lambda scale: half_width(grid, mechanism, scale))
        except ValueError as reason:
            raise QueryRejected(f"{reason}; nothing was charged") from None
    return StatisticPurchase(grid, evaluate, described, shown + within, scale, by_position)
