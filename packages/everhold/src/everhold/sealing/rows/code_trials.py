"""Tests of Python functions on public rows before they run on sealed rows, where faults must not be reported."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.values.base import RowFunction, Table, same_length
from everhold.values.evaluation import to_grid
from everhold.values.expressions import ColumnKind

if TYPE_CHECKING:
    from numpy.typing import NDArray


_VARIED = 256
_STEPS = (0.6180339887498949, 0.7548776662466927, 0.5698402909980532)  # of sequences that fill an interval evenly


def made_up_rows(columns: Mapping[str, ColumnKind]) -> Table:
    """Return a table of two rows with the given column types: one row of zeros, and one of ones."""
    made_up: dict[ColumnKind, NDArray[Any]] = {
        ColumnKind.NUMBER: np.array([0.0, 1.0]),
        ColumnKind.BOOLEAN: np.array([False, True]),
        ColumnKind.STRING: np.array(["0", "1"], dtype=object),
        ColumnKind.TIME: np.array([None, None], dtype=object),
        ColumnKind.OTHER: np.array([None, None], dtype=object),
    }
    for column in made_up.values():
        column.flags.writeable = False  # as the stored columns are
    return {name: made_up[kind] for name, kind in columns.items()}


def varied_rows(columns: Mapping[str, ColumnKind]) -> Table:
    """Return a fixed table of made-up rows with varied values, on which different functions mostly differ.

    Half of the numbers are as if standardised, in [-3, 3], half in [0, 100].
    """
    places, made_up = np.arange(1, _VARIED + 1), {}
    for index, (name, kind) in enumerate(columns.items()):
        share = np.mod(places * _STEPS[index % len(_STEPS)] + index / np.pi, 1.0)
        numbers = np.where(places % 2 == 0, 6.0 * share - 3.0, np.round(100.0 * share, 2))
        made_up[name] = {
            ColumnKind.NUMBER: numbers,
            ColumnKind.BOOLEAN: share < 0.5,
            ColumnKind.STRING: np.array([str(int(10 * number)) for number in share], dtype=object),
            ColumnKind.TIME: np.full(_VARIED, None, dtype=object),
            ColumnKind.OTHER: np.full(_VARIED, None, dtype=object),
        }[kind]
        made_up[name].flags.writeable = False
    return made_up


def try_on_public_rows(function: RowFunction, table: Table) -> NDArray[np.float64]:
    """Check that a function returns one number in [0, 1] for each row, independent of other rows.

    Args:
        function: The function exactly as it is later applied to the sealed rows.
        table: Training rows, or `made_up_rows`.

    Returns:
        The row values.

    Raises:
        QueryRejected: If the function fails or returns values of another form. Nothing is charged.
    """

    def values(rows: Table) -> NDArray[np.float64]:
        array = public_values(function, rows, rows_of(rows))
        to_grid(array)
        return array.astype(np.float64)

    whole = values(table)
    check_rows_alone(values, table, whole)
    return whole


def check_rows_alone(values: Callable[[Table], NDArray[Any]], table: Table, whole: NDArray[Any]) -> None:
    """Check that a row's value does not change with the order of rows, with other rows, or on repetition.

    Args:
        values: Function from a table to the values of its rows.
        table: Public rows.
        whole: Row values of the public rows, computed together.

    Raises:
        QueryRejected: If the value of a row changes. Nothing is charged.
    """
    rows = len(whole)
    middle = (rows + 1) // 2
    some = [slice(None, None, -1), slice(None, middle), slice(middle, None)][: 2 + (middle < rows)]
    for part in some:
        again = values({name: column[part] for name, column in table.items()})
        if _agree(whole[part], again):
            continue
        if not _agree(values(table), values(table)):
            raise QueryRejected(
                "The function returns different values for the same row when it is called "
                "again. Fix the seed of every random number in it."
            )
        raise QueryRejected(
            "The function's value for a row depends on the other rows. Compute each value from its row alone."
        )


def _agree(one: NDArray[Any], other: NDArray[Any]) -> bool:
    if one.dtype.kind != "f" or other.dtype.kind != "f":
        return bool(np.array_equal(one, other))
    precision = max(1e-9, 100.0 * float(np.finfo(other.dtype).eps))
    scale = max(1.0, float(np.max(np.abs(one), where=np.isfinite(one), initial=0.0)))
    return bool(np.allclose(one, other, rtol=0.0, atol=precision * scale))


def rows_of(table: Table) -> int:
    """Return the number of rows of a table of arrays."""
    return len(next(iter(table.values())))


_PREDICTED: ContextVar[dict[Any, Any] | None] = ContextVar("predicted", default=None)
_MOST_PREDICTED = 8  # models of which predictions are held at a time


@contextmanager
def predicted_once() -> Iterator[None]:
    """Context in which the predictions of a model for the rows of a store are computed once and then reused."""
    if _PREDICTED.get() is not None:
        yield
        return
    token = _PREDICTED.set({})
    try:
        yield
    finally:
        _PREDICTED.reset(token)


def _once(of: object, function: EstimatedValues, found: Callable[[], Any]) -> Any:
    """Return what `found` computes for a model and a store of rows. Within `predicted_once` it is called only once."""
    known = _PREDICTED.get()
    if known is None or of is None:
        return found()
    key = (id(of), function.source)
    if key not in known:
        known[key] = of, found()  # with the store, so that no other one gets its id meanwhile
        if len(known) > _MOST_PREDICTED:
            del known[next(iter(known))]
    return known[key][1]


def public_values(function: RowFunction, table: Table, rows: int, *, of: object = None) -> NDArray[Any]:
    """Return row values of public rows, and report every fault.

    Args:
        function: Function from a table to the values of its rows.
        table: The public rows.
        rows: Number of rows of the table.
        of: Store that these rows come from, as for `sealed_values`. None without a store.

    Raises:
        QueryRejected: If the function fails or gives another number of values. Nothing is charged.
    """
    asked = function
    if isinstance(model := function, EstimatedValues):

        def asked(own: Table) -> NDArray[Any]:
            return model.judged(_once(of, model, partial(model.predict, own)), own)

    return same_length(called(asked, table, "one number in [0, 1]"), rows, what="the function's values")


def called(function: RowFunction, table: Table, expected: str) -> object:
    """Return the result of an analyst's function for public rows. An exception becomes a QueryRejected."""
    try:
        with calling_code():
            return function(dict(table))
    except QueryRejected:
        raise
    except Exception as fault:
        notes = "".join(f" {note}" for note in getattr(fault, "__notes__", ()))
        raise QueryRejected(
            f"The function fails on training or made-up rows with {type(fault).__name__}: {fault}. It is called with a "
            f"table that has the columns {', '.join(table)}, and should return {expected} for each row.{notes}"
        ) from fault


def try_estimator(function: EstimatedValues, table: Table) -> NDArray[Any] | None:
    """Return an estimator's predictions for made-up rows, or None if it fails on them.

    A failure on made-up rows is no fault, because the estimator may never have seen such values.

    Raises:
        QueryRejected: If the estimator is not fitted, or if its predictions are not of the kind of the labels. Nothing
            is charged.
    """
    try:
        return np.asarray(function.predict(dict(table), public=True))
    except QueryRejected:
        if function.everywhere:
            raise
    except Exception as fault:
        if type(fault).__name__ == "NotFittedError":
            raise QueryRejected("The estimator is not fitted. Fit it before you ask.") from None
    return None


_warning_filters = threading.RLock()  # the filters belong to the whole process, and each change is undone


def _after_fork_in_child() -> None:
    """Replace the lock in a forked process, because a thread of the parent may hold it."""
    global _warning_filters
    _warning_filters = threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork_in_child)


def sealed_values(
    function: RowFunction,
    table: Table,
    rows: int,
    width: tuple[int, ...] = (),
    *,
    fault: float = 0.0,
    of: object = None,
    failing: dict[Any, NDArray[np.bool_]] | None = None,
) -> NDArray[Any]:
    """Return row values without reporting faults: a row on which a function fails gets the value ``fault``.

    If the function fails on many rows at once, the failing rows are found one by one, because one row with a missing
    value must not change the values of other rows (`failing_rows_of`). For a model, its ``failing`` gives the values of
    the rows on which it fails (`everhold.values.evaluation`). A model predicts before anything is compared with labels,
    so no label decides with which rows it is called.

    The time depends on how many rows fail. Each failing row takes a call, and more calls are needed if no value is
    common to the failing rows only.

    Args:
        function: Function from a table to the values of its rows.
        table: The sealed rows.
        rows: Number of rows of the table.
        width: Shape of the value of one row.
        fault: Value of a row on which the function fails.
        of: Store that all of these rows come from. Within `predicted_once` a model predicts its rows only once.
        failing: Dictionary to which the rows on which a model fails are added, shape (rows,), by the model's source.

    Returns:
        Shape (rows, *width).
    """
    if isinstance(function, EstimatedValues):
        values, fails = _judged_values(function, table, rows, width, of)
        if failing is not None:
            failing[function.source] = fails
        return values
    if (whole := values_or_none(function, table, (rows, *width))) is not None:
        return whole
    values = np.full((rows, *width), fault)

    def succeeds(some: NDArray[np.int64]) -> bool:
        found = values_or_none(function, _at(table, some), (len(some), *width))
        if found is not None:
            values[some] = found
        return found is not None

    failing_rows_of(succeeds, table, rows, tuple(table))
    return values


def _judged_values(
    function: EstimatedValues, table: Table, rows: int, width: tuple[int, ...], of: object
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the row values of a model's predictions, and the rows on which the model fails."""
    fails, predictions = _once(of, function, partial(_predictions, function, table, rows))
    if len(predictions) and (no_answer := function.fails(predictions)).any():
        answers = np.flatnonzero(~fails)
        fails, predictions = fails.copy(), predictions[~no_answer]
        fails[answers[no_answer]] = True
    values = np.full((rows, *width), np.nan)
    answered = np.flatnonzero(~fails)

    def judged(some: NDArray[np.int64]) -> bool:
        places = answered[some]
        judge = partial(function.judge, predictions[some])
        found = values_or_none(judge, table if len(some) == rows else _at(table, places), (len(some), *width))
        if found is not None:
            values[places] = found
        return found is not None

    if len(answered) and not judged(np.arange(len(answered))):
        fails = fails.copy()
        fails[answered] = failing_rows_of(judged, _at(table, answered), len(answered), tuple(table))
    if fails.any():
        values[fails] = np.reshape(function.failing(_at(table, np.flatnonzero(fails))), (-1, *width))
    return values, fails


def _predictions(function: EstimatedValues, table: Table, rows: int) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Return which rows a model fails on, and its predictions for all other rows in order."""
    if (whole := values_or_none(function.predict, table)) is not None:
        return np.zeros(rows, dtype=bool), whole
    places = [np.zeros(0, dtype=np.int64)]
    found: list[NDArray[Any]] = []

    def succeeds(some: NDArray[np.int64]) -> bool:
        predictions = values_or_none(function.predict, _at(table, some))
        if predictions is not None:
            places.append(some)
            found.append(predictions)
        return predictions is not None

    fails = failing_rows_of(succeeds, table, rows, function.features)
    order = np.argsort(np.concatenate(places))
    return fails, np.concatenate(found)[order] if found else np.zeros(0)


def _at(table: Table, places: NDArray[np.int64]) -> Table:
    """Return the rows at some positions as arrays that an analyst's code cannot change."""
    some = {name: column[places] for name, column in table.items()}
    for column in some.values():
        column.flags.writeable = False
    return some


def made_up_values(function: RowFunction, table: Table, width: tuple[int, ...] = ()) -> NDArray[Any]:
    """Return the values of a row function for made-up rows, or None if it fails on them.

    Raises:
        QueryRejected: If the value of a row depends on its place, or on other rows. Nothing is charged.
    """

    def values(rows: Table) -> NDArray[Any]:
        return sealed_values(function, rows, rows_of(rows), width)

    whole = values(table)
    check_rows_alone(values, table, whole)
    return whole


def values_or_none(
    function: Callable[[Table], Any], table: Table, shape: tuple[int, ...] | None = None
) -> NDArray[Any] | None:
    """Return the result of a function as an array, or None if it fails. Warnings and logs are suppressed.

    Warnings are suppressed even if Python is set to raise them as errors, because then they would change an answer.

    Args:
        function: The analyst's function.
        table: The rows.
        shape: Shape that the result must have, as numbers; None if predictions of any type and shape are returned.
    """
    interrupted, values, logging = False, None, sys.modules.get("mlflow.utils.autologging_utils")
    unlogged: AbstractContextManager[Any] = nullcontext()
    if logging is not None and not getattr(logging, "_AUTOLOGGING_GLOBALLY_DISABLED", False):  # its end switches it on
        unlogged = logging.disable_autologging()  # which logs a digest of all rows that a model is called with
    try:
        with _warning_filters, warnings.catch_warnings(), unlogged, np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            with calling_code():
                values = np.asarray(function(dict(table)))  # what it adds or takes away stays its own
    except KeyboardInterrupt:
        interrupted = True
    except BaseException:  # SystemExit too would tell something
        pass
    if interrupted:  # out of the handler, so that nothing a function put into its own hangs on it
        raise KeyboardInterrupt
    if values is None or shape is None:
        return values
    if values.shape != shape or values.dtype.kind not in "biuf":
        return None
    return values if values.dtype == np.bool_ else values.astype(np.float64, copy=False)


# Finds the rows on which code fails, in few calls of it.
#
# One row at fault makes code fail on all rows that it is called with. So it is called with fewer rows, down to one,
# and
# with more again where it succeeds. Whether a row fails is decided by a call with this row alone, never by what it has
# in common with others. Only the order of the calls follows from the rows: rows that share a value with two failing
# rows, and with none that succeeded, wait until the others are done. A category that no training row has is then met
# by
# one call for each of its rows, and all others by a few calls.
#
# Rows are compared in what the code is told of them, so that who is called together with whom tells a model no label.

_FEWER = 4  # times as few rows are in a call after one that failed


def failing_rows_of(
    succeeds: Callable[[NDArray[np.int64]], bool], table: Table, rows: int, names: Sequence[str]
) -> NDArray[np.bool_]:
    """Return the rows on which code fails when it is called with a single row.

    Args:
        succeeds: Function that calls the code with the rows at given positions, keeps the values, and returns whether
            the call succeeded.
        table: The rows. The code is known to fail if it is called with all of them.
        rows: Number of rows of the table.
        names: Columns that the code reads.

    Returns:
        Shape (rows,).
    """
    fails = np.zeros(rows, dtype=bool)
    waiting, at_once = np.arange(rows), max(1, rows // 2)
    shared = _SharedValues(table, names, rows)
    while len(waiting):
        some = waiting[:at_once]
        if succeeded := succeeds(some):
            at_once = 2 * len(some)
        elif len(some) > 1:
            at_once = max(1, len(some) // _FEWER)
            continue
        else:
            fails[some] = True
        waiting = waiting[len(some) :]
        if shared.changed_by(some, succeeded=succeeded):
            late = shared.suspect(waiting)
            waiting = np.concatenate([waiting[~late], waiting[late]])
    return fails


class _SharedValues:
    """Whether code succeeded, and how often it failed, on rows with each value that several rows have in common."""

    def __init__(self, table: Table, names: Sequence[str], rows: int) -> None:
        columns, self._values = [np.zeros(rows, dtype=np.int32)], 1  # one value that is never suspect
        for name in names:
            numbers, distinct = _numbered(table[name])
            if 1 < distinct <= rows // 2:
                columns.append(numbers + np.int32(self._values))
                self._values += distinct
        self._of = np.column_stack(columns)
        self._failed, self._succeeded = np.zeros(self._values, dtype=np.int64), np.zeros(self._values, dtype=bool)
        self._succeeded[0] = True

    def changed_by(self, rows: NDArray[np.int64], *, succeeded: bool) -> bool:
        """Record whether some rows succeeded or failed. Return whether the set of suspected rows changed.

        Args:
            rows: Positions of the rows.
            succeeded: Whether the function succeeded on all of these rows. If not, it failed on all of them.
        """
        found = np.unique(self._of[rows])
        before = self._suspected(found)
        if succeeded:
            self._succeeded[found] = True
        else:
            self._failed[found] += 1
        return not np.array_equal(before, self._suspected(found))

    def suspect(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows have a value that at least two failing rows and no good row had so far."""
        return np.asarray(self._suspected(self._of[rows]).any(axis=1))

    def _suspected(self, values: NDArray[np.int32]) -> NDArray[np.bool_]:
        return (self._failed[values] >= 2) & ~self._succeeded[values]


def _numbered(column: NDArray[Any]) -> tuple[NDArray[np.int32], int]:
    """Return the index of each value of a column among its different values, and their number. Missing is one value."""
    if column.dtype.kind == "O":
        known: dict[str, int] = {}
        found = np.array([known.setdefault(repr(value), len(known)) for value in column.tolist()], dtype=np.int32)
        return found, len(known)
    values, numbers = np.unique(column, return_inverse=True)
    return numbers.astype(np.int32), len(values)


# Row values of an estimator, in two steps: it predicts from features alone, and its predictions are judged.


@dataclass(frozen=True, slots=True)
class EstimatedValues(ABC):
    """Function from a table to the row values of an estimator: predictions, compared with the label.

    Attributes:
        source: Key that identifies these predictions in the process: the model, and the method that predicts.
        features: Columns that the model reads.
        everywhere: Whether predictions must be of the right kind for every row, also for made-up rows. True for
            classes. False for numbers, which may be infinite for made-up rows.
    """

    source: tuple[Any, ...]
    features: tuple[str, ...]
    everywhere: bool

    @abstractmethod
    def predict(self, table: Table, *, public: bool = False) -> NDArray[Any]:
        """Return one prediction for each row, of the right kind.

        For public rows, impossible predictions such as nan are refused. For sealed rows a refusal would reveal
        something.
        """

    @abstractmethod
    def judge(self, predictions: NDArray[Any], table: Table) -> NDArray[Any]:
        """Return one value for each row, from its prediction and the table of the rows."""

    @abstractmethod
    def fails(self, predictions: NDArray[Any]) -> NDArray[np.bool_]:
        """Return for each prediction whether it is unusable, shape (rows,). Its row then counts as failing."""

    @abstractmethod
    def failing(self, table: Table) -> NDArray[Any]:
        """Return the row values that count for rows on which the model fails."""

    def __call__(self, table: Table) -> NDArray[Any]:
        """Return the row values of a table."""
        return self.judged(self.predict(table), table)

    def judged(self, predictions: NDArray[Any], table: Table) -> NDArray[Any]:
        """Return the row values of predictions. An unusable prediction gets the value of a failing row."""
        values = self.judge(predictions, table)
        if (fails := self.fails(predictions)).any():
            values = np.array(values, dtype=np.float64)
            values[fails] = self.failing({name: column[fails] for name, column in table.items()})
        return values


# Code of declared models runs without files, programs and network: what it read there could change with answers.
#
# A member of a declared family has a level because its model was fixed before anything was told. A model that reads a
# file when it predicts is fixed only as long as the file is. Python reports such events to an audit hook, which
# refuses
# them while declared code runs. On training rows that is an error of the query. On sealed rows the row counts as one
# on
# which the model fails, so refusing tells nothing. Threads of the model's own, compiled code that opens files itself,
# clocks and the environment are not seen.

_PACKAGES = frozenset(("site-packages", "dist-packages"))
_OWN = str(Path(__file__).resolve().parents[1])  # modules of everhold that are imported when they are needed
_STANDARD = tuple({str(Path(sysconfig.get_path(kind)).resolve()) for kind in ("stdlib", "platstdlib")})

_OUTSIDE = frozenset([
    "open", "sqlite3.connect", "socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.exec",
    "os.posix_spawn",
])  # fmt: skip
_OF_THE_MACHINE = (  # how many processors there are, which time zones, and the like
    "/proc/", "/sys/", "/dev/null", "/dev/urandom", "/usr/share/zoneinfo/", "/etc/localtime", "/etc/timezone",
)  # fmt: skip
_COUNTS_CORES = frozenset(("lscpu", "sysctl"))  # programs that joblib runs once in a process


class _Watch(threading.local):
    """Record, for one thread, of the accesses that were refused while a declared model's code ran."""

    refused: list[str] | None = None
    calling: bool = False


_WATCH = _Watch()


@contextmanager
def declared_code() -> Iterator[list[str]]:
    """Return a context for running a declared model's code, with the list of accesses that were refused."""
    _add_hook()
    before, found = _WATCH.refused, list[str]()
    _WATCH.refused = found
    try:
        yield found
    finally:
        _WATCH.refused = before


@contextmanager
def used_alone(when: str) -> Iterator[None]:
    """Return a context that runs a declared model on public rows, and rejects a model that uses outside resources.

    Args:
        when: Words for what the model does in this context, such as "is fitted" or "predicts".

    Raises:
        QueryRejected: If the model used anything outside of itself. Nothing is charged.
    """
    with declared_code() as refused:
        try:
            yield
        except Exception:
            if not refused:
                raise
    if refused:
        raise QueryRejected(
            f"The model uses {refused[0]} when it {when}, which may change later, so the model cannot be declared. "
            "Load what the model needs into the model itself."
        )


@contextmanager
def calling_code() -> Iterator[None]:
    """Context of a call of an analyst's code. Accesses are refused only in such a call within `declared_code`."""
    before, _WATCH.calling = _WATCH.calling, True
    try:
        yield
    finally:
        _WATCH.calling = before


@cache
def _add_hook() -> None:
    """Install Python's audit hook that refuses outside resources to declared models. It cannot be removed."""
    sys.addaudithook(partial(_refuse, _WATCH))  # at exit this module's names are gone before the hook is


def _refuse(watch: _Watch, event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook that refuses files, network and the like to a declared model while its code runs."""
    refused = watch.refused
    if refused is None or not watch.calling or event not in _OUTSIDE:
        return
    subject = arguments[0] if arguments else ""
    watch.calling = False  # what is looked up here is everhold's own
    try:
        if (event == "open" and _is_installed(subject)) or (event == "subprocess.Popen" and subject in _COUNTS_CORES):
            return
        named = os.fsdecode(subject) if isinstance(subject, str | bytes | os.PathLike) else type(subject).__name__
        if event != "open" or named not in sys.path:  # packages look for each other there, and do without it
            refused.append(f"{event} {named!r}")
    finally:
        watch.calling = True
    raise PermissionError("code of a declared model cannot use files, programs or the network")


def _is_installed(file: Any) -> bool:
    """Return whether declared code may read a file: of an installed package, of the machine, or an open descriptor."""
    if not isinstance(file, str | bytes | os.PathLike):
        return True
    found = Path(os.fsdecode(file)).resolve()
    return is_of_a_package(found) or str(found).startswith((_OWN, *_OF_THE_MACHINE))


def is_of_a_package(file: Path) -> bool:
    """Return whether a file belongs to Python's standard library or an installed package."""
    return not _PACKAGES.isdisjoint(file.parts) or str(file).startswith(_STANDARD)
