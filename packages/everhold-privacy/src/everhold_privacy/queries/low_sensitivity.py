"""Statistics of the whole table with a known sensitivity: as code, and as a purchase from a budget."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.answers import Answer
from everhold.errors import QueryRejected
from everhold.estimand import check_label_is_read
from everhold.queries.code import behaviour_digest, content_digest
from everhold.queries.statistic import Statistic, StatisticGrid, StatisticQuery, check_range, check_rows
from everhold.sealing.rows.code_trials import values_or_none, varied_rows
from everhold.values.base import Clip, clips_in_words
from everhold_privacy.mechanisms.privacy_budget import release
from everhold_privacy.queries.priced import MechanismResult, NoisyPurchase, PricedQuery, checked_function_name, paying

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from everhold.mechanisms import State
    from everhold.queries.query import CompileContext, QueryPlan
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import Table
    from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget


_PARTS = 8


@dataclass(frozen=True, slots=True)
class LowSensitivityQuery(StatisticQuery):
    """Query for a statistic of the whole table, made by `low_sensitivity`, which explains the attributes."""

    function: Callable[[Table], float]
    sensitivity: float
    low: float = field(default=0.0, kw_only=True)
    high: float = field(default=1.0, kw_only=True)
    columns: Sequence[str] | None = field(default=None, kw_only=True)
    name: str | None = field(default=None, kw_only=True)
    _token: str = field(default_factory=lambda: secrets.token_hex(16), init=False, repr=False)
    probe: InitVar[Mapping[str, Any] | None] = field(default=None, kw_only=True)

    def __post_init__(self, probe: Mapping[str, Any] | None) -> None:
        if not callable(self.function):
            raise ValueError(f"function is a {type(self.function).__name__}. Pass a function from a table to a number.")
        check_range(self.sensitivity, self.low, self.high)
        checked_function_name(self.name)
        if probe is not None:
            table = {str(name): np.array(probe[name]) for name in probe} if isinstance(probe, Mapping) else {}
            shapes = {column.shape for column in table.values()}
            if len(shapes) != 1 or len(shape := shapes.pop()) != 1 or not shape[0]:
                raise ValueError("probe is not a table. Pass columns by name, all equally long.")
            self._try(table, rows=len(next(iter(table.values()))), label=None)

    def bound_to(self, compiler: CompileContext) -> Statistic:
        """Return the statistic for one holdout."""
        names, schema = compiler.columns_read(self.columns), compiler.schema
        check_label_is_read(names, schema)
        grid = StatisticGrid(float(self.low), float(self.high), float(self.sensitivity), compiler.mechanism.unit)
        public = self._public(compiler)
        if compiler.training is None:
            public = varied_rows({name: compiler.schema.columns[name] for name in public})
        parts = ({name: column[part::_PARTS] for name, column in public.items()} for part in range(_PARTS))
        # on all public rows and on subsets of them the values of the statistic identify it
        identifying = [public, *(part for part in parts if len(next(iter(part.values()))))]
        described: dict[str, Any] = {
            "kind": "statistic", "low": grid.low, "high": grid.high, "sensitivity": grid.sensitivity,
            "columns": None if self.columns is None else list(names),
            **({"token": self._token} if self.name is None else {"name": self.name}),
            "content": content_digest(self.function) or self._token,
            "on_public_rows": behaviour_digest(map(self._value, identifying)),
        }  # fmt: skip
        return Statistic(
            grid, lambda sealed: self._value(sealed.table(names)), described,
            shown=f"statistic {self.name or 'without a name'}", reads=names,
            trained=self._trained(compiler.training, names), claimed=True,
        )  # fmt: skip

    def check(self, compiler: CompileContext) -> None:
        """Try the claimed sensitivity and range on public rows."""
        schema, public = compiler.schema, self._public(compiler)
        self._try(public, rows=schema.rows, label=schema.label if schema.label in public else None)

    def _public(self, compiler: CompileContext) -> Table:
        return compiler.public_rows(compiler.columns_read(self.columns), most=max(compiler.schema.rows, 2))

    def _trained(self, training: StoredRows | None, names: Sequence[str]) -> Callable[[NDArray[np.intp]], float] | None:
        """Return a function from some training rows to the statistic, or None without training rows."""
        if training is None:
            return None
        table = training.table(names)
        return lambda places: self._value({name: column[places] for name, column in table.items()})

    def _value(self, table: Table) -> float:
        """Return the statistic's value for a table, nan if the function fails."""
        value = values_or_none(self.function, table, ())
        return math.nan if value is None else float(value)

    def _try(self, table: Table, *, rows: int, label: str | None) -> None:
        try:
            value = np.asarray(self.function(dict(table)))
        except (Exception, SystemExit) as fault:
            raise QueryRejected(
                f"The function fails on public rows with {type(fault).__name__}: {fault}. It should return one "
                f"number for a table with the columns {', '.join(table)}."
            ) from fault
        if value.shape != () or value.dtype.kind not in "biuf" or not np.isfinite(value):
            shape = f"an array of shape {value.shape}"
            what = shape if value.shape else f"a value of type {value.dtype} that is not finite"
            raise QueryRejected(f"The function returns {what} on public rows. Return one finite number.")
        grid = StatisticGrid(float(self.low), float(self.high), float(self.sensitivity))
        found = counterexample(
            lambda rows_of: grid.position(self._value(rows_of)), table, rows=rows, allowed=grid.unit, label=label
        )
        if found is not None:
            raise QueryRejected(
                f"Replacing one row moves the statistic by {found.difference * float(grid.step):.4g} on public rows "
                f"({found.kind}), and sensitivity is {grid.sensitivity:.4g}. Clip the values and fill in missing "
                "ones, or pass a larger sensitivity. It must hold for any row, also where the function fails or "
                "returns NaN.",
                difference=found.difference * float(grid.step),
                sensitivity=grid.sensitivity,
            )


def low_sensitivity(
    function: Callable[[Table], float], sensitivity: float, *, low: float = 0.0, high: float = 1.0,
    columns: Sequence[str] | None = None, name: str | None = None, probe: Mapping[str, Any] | None = None,
) -> LowSensitivityQuery:  # fmt: skip
    """Build the query for a statistic of the whole table, such as a median, given how much one row can change it.

    The sensitivity is the most that replacing one row can change the statistic.

    The interval is for the expected value of the statistic on a fresh sample with the same number of rows. For a biased
    statistic this is not the value for infinitely many rows. Rows must be independent, or in independent groups if the
    holdout checks guesses. The claimed sensitivity is tested on pairs of public data sets that differ in one row, and
    refused if a pair contradicts it. If no pair does, the claim is not proved, and the promise holds only if the claim
    is true of all possible rows. A false claim makes the interval too narrow, or the noise too small, and breaks the
    promise of *all* answers of the holdout. On sealed rows a value outside the range is clipped, and nan or an
    exception counts as ``low``. The answer names the range, and everhold warns if the value on the training rows is
    outside. A function that fails on some data sets may break its own sensitivity.

    Args:
        function: Function from a table (columns by name, NumPy arrays) to a number.
        sensitivity: Delta: replacing one row, by any other, moves the number by at most this.
        low: Lower end of the statistic's range, which must not come from the sealed rows.
        high: Upper end of the range.
        columns: Columns that the function reads; None for all but the row ids.
        name: Functions of one name that are made of the same code and data, and give the same for public rows, are one
            query; without a name every new object is a new query.
        probe: Public rows, columns by name and as many as are sealed, on which this call tests the claimed sensitivity;
            not kept.

    Raises:
        ValueError: If the sensitivity or the range cannot be used.
        QueryRejected: If replacing one of the public rows changes the statistic by more than the sensitivity.

    Examples:
        >>> low_sensitivity(lambda table: np.median(table["x"]), 0.001, probe={"x": np.arange(100) % 2 * 1.0})
        Traceback (most recent call last):
        everhold.errors.QueryRejected: Replacing one row moves the statistic by 0.5 on public rows (...), and
        sensitivity is 0.001. Clip the values ...
    """
    return LowSensitivityQuery(function, sensitivity, low=low, high=high, columns=columns, name=name, probe=probe)


def bought(
    query: StatisticQuery, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
) -> QueryPlan[Answer]:
    """Return the plan that answers a statistic by one draw from the privacy budget."""
    return _PricedStatistic(query).compile(compiler, guess=guess, tolerance=tolerance)


@dataclass(frozen=True, slots=True)
class _PricedStatistic(PricedQuery[Answer]):
    query: StatisticQuery

    def purchase(self, compiler: CompileContext) -> StatisticPurchase:
        """Return the statistic with its price, for one holdout."""
        mechanism, statistic = paying(compiler.mechanism), self.query.bound_to(compiler)
        check_rows(statistic, mechanism, groups=False)
        self.query.check(compiler)
        return StatisticPurchase(statistic, mechanism.scale, clips=statistic.clips(compiler.schema.training_rows))


@dataclass(frozen=True, slots=True)
class StatisticPurchase(NoisyPurchase[int, Answer]):
    """Purchase of a statistic of the whole table, for one holdout.

    Attributes:
        clips: Ranges to which values are clipped, as answers state them.
    """

    statistic: Statistic
    scale: float
    tolerance: float | None = None
    clips: Sequence[Clip] = ()

    @property
    def description(self) -> dict[str, Any]:
        """Public facts that identify the query, in canonical form."""
        return {**self.statistic.described, **self.requested[0]}

    @property
    def shown(self) -> str:
        """The query as a text for transcripts."""
        return f"{self.statistic.shown}{self.requested[1]}"

    @property
    def by_position(self) -> bool:
        """True if the statistic uses predictions given as arrays, in the order of the rows."""
        return self.statistic.by_position

    def width_at(self, mechanism: PrivacyBudget, scale: float) -> float:
        """Return the half-width in the statistic's units: ``n Delta`` times that of a mean with noise of this scale."""
        return math.nextafter(mechanism.radius_at(scale) * float(mechanism.steps * self.statistic.grid.step), math.inf)

    def evaluate(self, sealed: StoredRows, unit: int) -> int:
        """Return the position of the sealed statistic on its grid."""
        return self.statistic.grid.position(self.statistic.evaluate(sealed))

    def answer(self, mechanism: PrivacyBudget, state: State, seen: int, noise: Noise) -> MechanismResult:
        """Add noise to the position (S1 for low sensitivity), and return it as a share of the range."""
        share = self.statistic.grid.share
        after, drawn = release(mechanism, state, np.array([seen], dtype=np.int64), noise, scale=self.scale)
        value = float(int(drawn[0]) * share)
        within = math.nextafter(mechanism.radius_at(self.scale) * float(mechanism.steps * share), math.inf)
        ends = (min(max(end, 0.0), 1.0) for end in (value, value - within - 1e-15, value + within + 1e-15))
        answer = {**dict(zip(("value", "low", "high"), ends, strict=True)), "source": "holdout", "within": within}
        return MechanismResult(after, answer, after.charged - state.charged)

    def result(self, answer: Mapping[str, Any], **paid: Any) -> Answer:
        """Build the answer in the statistic's units."""
        grid = self.statistic.grid
        value, low, high = (None if answer[end] is None else grid.at(answer[end]) for end in ("value", "low", "high"))
        if low is not None and high is not None:  # rounded outwards
            low, high = max(math.nextafter(low, -math.inf), grid.low), min(math.nextafter(high, math.inf), grid.high)
        clipped = clips_in_words(self.clips)
        return Answer(
            value=value, low=low, high=high, source=answer["source"], statement="S1", clipped=clipped, **paid
        )  # fmt: skip


_PAIRS = 48
_MOST_SECONDS = 5.0
_LEAST_PAIRS = 8
_MOST_POOLED = 2_000  # public rows that data sets are drawn from
_FAR = 1e12


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Two data sets that differ in one row, and on which a statistic differs by more than was claimed.

    Attributes:
        difference: Difference of the statistic between the two data sets.
        kind: Kind of the two data sets, in words.
    """

    difference: float
    kind: str


def counterexample(
    statistic: Callable[[Table], float], table: Table, *, rows: int, allowed: float, label: str | None = None
) -> Counterexample | None:
    """Look for a pair of neighbours on which a statistic differs by more than is allowed.

    If no such pair is found, this proves nothing. The same pairs are tried at every call.

    Args:
        statistic: The function exactly as it is later computed from the sealed rows, including what it returns if the
            analyst's own function fails.
        table: Public rows, from which the pairs of data sets are drawn.
        rows: Number of rows of each data set.
        allowed: The largest difference that the statistic may show between neighbours.
        label: Column that never misses a value and holds the values of the public rows only.
    """
    end = time.monotonic() + _MOST_SECONDS
    for done, (kind, one, other) in enumerate(neighbours(table, rows=rows, label=label)):
        difference = abs(statistic(one) - statistic(other))
        if not difference <= allowed:
            return Counterexample(difference, kind)
        if done + 1 >= _LEAST_PAIRS and time.monotonic() > end:
            return None
    return None


def neighbours(table: Table, *, rows: int, label: str | None = None) -> Iterator[tuple[str, Table, Table]]:
    """Yield pairs of data sets that differ in one row, with words for their kind.

    Ordinary ones are drawn from the public rows with replacement. Others repeat one row, or two kinds of rows with 1,
    2, half or all but 1 of the second kind, so that the replaced row tips a boundary. The rows that are swapped are
    public ones, copies with another label, and copies with an extreme, a far or a missing value in one column.
    """
    rng = np.random.default_rng(0)  # the same pairs every time: a refusal can be looked into
    pool = _Pool.of(table, rng, label=label)
    for turn in range(_PAIRS):
        old, new = pool.swap(rng, turn)
        kind, index = _arrangement(turn, old=old, new=new, ordinary=pool.ordinary, rows=rows, rng=rng)
        place = (0, rows - 1, int(rng.integers(rows)))[turn % 3]
        one, other = index.copy(), index
        one[place], other[place] = old, new
        yield f"{kind}; {pool.kinds[new]}", pool.take(one), pool.take(other)


def _arrangement(
    turn: int, *, old: int, new: int, ordinary: int, rows: int, rng: np.random.Generator
) -> tuple[str, NDArray[np.int64]]:
    """Return indices of pool rows that form a data set, and a text that describes it, before one row is replaced."""
    form = turn % 4
    if form == 0:
        return "ordinary rows", rng.integers(ordinary, size=rows)
    if form == 1:
        return "equal rows", np.full(rows, old)
    count = min((1, 2, rows // 2, rows - 1)[turn // 4 % 4], rows)
    index = np.full(rows, old)
    index[rng.permutation(rows)[:count] if form == 2 else np.arange(rows - count, rows)] = new
    return "two kinds of rows", index


@dataclass(frozen=True, slots=True)
class _Pool:
    """Rows from which test data sets are drawn: public rows, and copies of some with one value changed.

    Attributes:
        columns: Values by name.
        ordinary: Number of ordinary rows.
        changed: For each changed copy, its position and the position of the row that was copied.
        kinds: Kind of each row, in words.
    """

    columns: Mapping[str, NDArray[Any]]
    ordinary: int
    changed: tuple[tuple[int, int], ...]
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, table: Table, rng: np.random.Generator, *, label: str | None) -> _Pool:
        """Build a pool from public rows, and copies with another value in one column."""
        size = len(next(iter(table.values())))
        ordinary = min(size, _MOST_POOLED)
        kept = rng.permutation(size)[:ordinary]
        changes = [
            (name, value, words)
            for name, column in table.items()
            for value, words in _extremes(column, name, is_label=name == label)
        ]
        copied = rng.integers(ordinary, size=len(changes))
        index = np.concatenate([kept, kept[copied]])
        columns = {name: column[index] for name, column in table.items()}
        for place, (name, value, _) in enumerate(changes, start=ordinary):
            columns[name][place] = value
        kinds = ("an ordinary row",) * ordinary + tuple(words for _, _, words in changes)
        pairs = tuple(zip(range(ordinary, len(kinds)), copied.tolist(), strict=True))
        return cls(columns, ordinary, pairs, kinds)

    def swap(self, rng: np.random.Generator, turn: int) -> tuple[int, int]:
        """Return the index of the row to replace, and of its replacement."""
        if not self.changed or turn % 8 in (0, 5):
            one, other = rng.integers(self.ordinary, size=2)
            return int(one), int(other)
        new, copied = self.changed[int(rng.integers(len(self.changed)))]
        if turn % 8 in (3, 6):  # two changed rows, such as the least and the largest value
            copied = self.changed[int(rng.integers(len(self.changed)))][0]
        return copied, new

    def take(self, index: NDArray[np.int64]) -> Table:
        """Return a data set of these rows as read-only columns."""
        taken = {name: column[index] for name, column in self.columns.items()}
        for column in taken.values():
            column.flags.writeable = False
        return taken


def _extremes(column: NDArray[Any], name: str, *, is_label: bool) -> Iterator[tuple[Any, str]]:
    """Yield extreme values for a column, each with a text that describes a row with this value.

    `is_label` says whether the column is the label. A label takes only values that public rows have, and is never
    missing.
    """
    if column.dtype.kind == "b":
        yield from ((value, f"{name} is {str(value).lower()}") for value in (False, True))
    elif column.dtype.kind != "f" or is_label:  # sealed numbers are floats, whole ones are labels
        known = dict.fromkeys(value for value in column[:_MOST_POOLED].tolist() if value is not None)
        yield from ((value, f"another value of {name}") for value in list(known)[:4])
        if column.dtype.kind == "O" and not is_label:
            yield None, f"{name} is missing"
    else:
        finite = column[np.isfinite(column)]
        if len(finite):
            yield finite.min(), f"the least value of {name}"
            yield finite.max(), f"the largest value of {name}"
        yield from ((value, f"{name} is far away") for value in (-_FAR, _FAR))
        yield np.nan, f"{name} is missing"
