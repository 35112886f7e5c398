"""Results of a suite of cases: metrics by case and run, checked against the cases of a gate.

Results are a table with a column of case ids, or a mapping from case ids to results. A case has several runs where a
table numbers them in a column ``run``, or where a mapping has a list. What is missing, unknown, doubled, crashed, or no
number within its range is an error that names the case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import brief
from everhold.errors import CaseRejected, CaseWarning, QueryRejected, warn_caller
from everhold.gates.cases.metrics import CaseMetric, CaseRatio
from everhold.guarantees.intervals.pairs.claims import GateClaim

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

CASE, RUN = "case", "run"
"""Columns of ids and, where there is one, of the number of the run."""

_MOST_NAMED = 3  # cases that a message names


@dataclass(frozen=True, slots=True)
class CaseSuite:
    """The cases of a gate and what it claims of them; public except for the ids.

    Attributes:
        ids: Case ids in the order of the sealed rows.
        better: Names of the successes; any one is enough.
        margin: By more than this a success has to be better, in the metric's units.
        not_worse: Guards: the slack of each in its metric's units.
        runs: Runs of each case.
        population: `NEW_CASES` or `NEW_RUNS`.
        limits: Guards against a fixed number: by the name of a metric, the number that its mean has to be above.
        ratios: By the name of a success or guard that is a ratio of means, its columns.
    """

    ids: Sequence[Any] = field(repr=False)
    metrics: tuple[CaseMetric, ...]
    better: tuple[str, ...]
    margin: float
    not_worse: Mapping[str, float]
    runs: int
    population: str
    limits: Mapping[str, float] = field(default_factory=dict)
    ratios: Mapping[str, CaseRatio] = field(default_factory=dict)

    @property
    def claims(self) -> list[GateClaim]:
        """Successes first, then guards, then limits."""
        fixed = [
            GateClaim(name, 2.0 * float(self.metric(name).scaled(np.asarray(number))) - 1.0, guard=True, fixed=True)
            for name, number in self.limits.items()
        ]
        successes = [self._claim(name, self.margin) for name in self.better]
        guards = [self._claim(name, -slack, guard=True) for name, slack in self.not_worse.items()]
        return successes + guards + fixed

    def _claim(self, name: str, floor: float, *, guard: bool = False) -> GateClaim:
        """A claim; its floor in units of the metric's range, or of the ratio."""
        if name in self.ratios:
            return GateClaim(name, floor, guard=guard, ratio=True)
        return GateClaim(name, floor / self.metric(name).width, guard=guard)

    def metric(self, name: str) -> CaseMetric:
        """The metric of that name."""
        return next(metric for metric in self.metrics if metric.name == name)

    @property
    def first(self) -> CaseMetric | None:
        """The metric of the first success; None for a ratio."""
        return None if self.better[0] in self.ratios else self.metric(self.better[0])

    def describe(self) -> dict[str, Any]:
        """All but the ids, as the ledger holds it."""
        first = self.metrics[0]
        return {
            "kind": "cases", "population": self.population, "runs": self.runs, "better": list(self.better),
            "margin": self.margin, "not_worse": dict(self.not_worse),
            "metrics": [each.described() for each in self.metrics],
            "low": first.low, "high": first.high, **({"limits": dict(self.limits)} if self.limits else {}),
            **({"ratios": {name: asdict(ratio) for name, ratio in self.ratios.items()}} if self.ratios else {}),
        }  # fmt: skip

    @classmethod
    def read(cls, described: Mapping[str, Any], ids: Sequence[Any]) -> Self:
        """The inverse of `describe`."""
        return cls(
            ids, tuple(map(CaseMetric.read, described["metrics"])), tuple(described["better"]),
            described["margin"], described["not_worse"], described["runs"], described["population"],
            described.get("limits", {}),
            {name: CaseRatio(**ratio) for name, ratio in described.get("ratios", {}).items()},
        )  # fmt: skip

    def values(self, results: Any, cases: Sequence[Any] | None = None) -> NDArray[np.float64]:
        """Results as numbers within the ranges of the metrics, shape (cases, runs, metrics).

        Args:
            results: A table or a mapping; see the module.
            cases: Only these ids, in this order; all of the suite by default.

        Raises:
            CaseRejected: If a case is missing, unknown, has other runs, no usable number, or one beyond a range.
                Nothing was charged.
        """
        wanted = list(self.ids if cases is None else cases)
        by_case = _by_case(results, list(dict.fromkeys(name for metric in self.metrics for name in metric.columns)))
        _check_ids(by_case, wanted, known=self.ids)
        found = np.empty((len(wanted), self.runs, len(self.metrics)))
        for place, case in enumerate(wanted):
            runs = by_case[case]
            if len(runs) != self.runs:
                fault = "doubled" if self.runs == 1 else "runs"
                raise _rejected(case, fault, f"has {len(runs)} runs; expected {self.runs}, as for the champion")
            found[place] = [[_number(run, metric, case) for metric in self.metrics] for run in runs]
        return found


def ids_in(results: Any) -> list[Any]:
    """Case ids of results, in order of appearance."""
    return list(_by_case(results, None))


def counted(results: Any) -> str:
    """Cases and runs in words.

    Examples:
        >>> counted({"a": [1, 0], "b": [0, 0]}), counted({"a": 1})
        ('2 cases x 2 runs', '1 case x 1 run')
    """
    by_case = _by_case(results, None)
    runs = sorted({len(each) for each in by_case.values()})
    return cases_and_runs(len(by_case), *runs[:: max(len(runs) - 1, 1)])


def warn_of_copies(values: NDArray[np.float64]) -> None:
    """Warn where the runs of each case are all alike, as copies are.

    Args:
        values: Results, shape (cases, runs, metrics).

    Warns:
        CaseWarning: If they are.
    """
    cases, runs, _ = values.shape
    if runs > 1 and np.array_equal(values, np.broadcast_to(values[:, :1], values.shape)):
        warn_caller(CaseWarning(
            f"All {runs} runs of each of {cases} cases are alike. If they are copies of one response, use one run."
        ))  # fmt: skip


def cases_and_runs(cases: int, *runs: int) -> str:
    """Numbers of cases and of runs of each in words; of two numbers of runs, the least and the greatest.

    Examples:
        >>> cases_and_runs(60, 1), cases_and_runs(1, 2, 8)
        ('60 cases x 1 run', '1 case x 2 to 8 runs')
    """
    return f"{cases} case{'s' * (cases != 1)} x {' to '.join(map(str, runs))} run{'s' * (runs != (1,))}"


def runs_in(results: Any) -> int:
    """Number of runs of the first case."""
    return len(next(iter(_by_case(results, None).values())))


def runs_by_case(results: Any) -> dict[Any, list[Any]]:
    """Runs by case as they were given: each a mapping of metrics, or one number."""
    return _by_case(results, None)


def _by_case(results: Any, metrics: Sequence[str] | None) -> dict[Any, list[Any]]:
    """Runs by case: each a mapping of metrics, or one number."""
    columns = _columns(results)
    if columns is not None:
        return _of_table(columns)
    if not isinstance(results, Mapping) or not results:
        raise QueryRejected(
            f"the results are {brief(type(results).__name__)}; expected a table with the column {CASE!r}, or a mapping "
            "from case ids to numbers"
        )
    found = {
        case: list(runs) if isinstance(runs, (list, tuple, np.ndarray)) else [runs] for case, runs in results.items()
    }
    if metrics is not None and len(metrics) > 1:
        for case, runs in found.items():
            if not all(isinstance(run, Mapping) or run is None for run in runs):
                raise _rejected(case, "not a number", f"has one number; expected a mapping of {', '.join(metrics)}")
    return found


def _columns(results: Any) -> dict[str, Sequence[Any]] | None:
    """The columns of a table; None if it is none."""
    if isinstance(results, Mapping):
        lists = results and all(isinstance(each, (list, tuple, np.ndarray)) for each in results.values())
        if not (lists and CASE in results):
            return None
        return {
            str(name): each.tolist() if isinstance(each, np.ndarray) else list(each) for name, each in results.items()
        }
    if not hasattr(results, "__dataframe__") and not hasattr(results, "columns"):
        return None
    import narwhals.stable.v1 as nw

    frame = nw.from_native(results, eager_only=True)
    if CASE not in frame.columns:
        raise QueryRejected(f"the table of results has no column {CASE!r}; expected the case ids")
    return {name: frame[name].to_list() for name in frame.columns}


def _of_table(columns: Mapping[str, Sequence[Any]]) -> dict[Any, list[Any]]:
    if len({len(each) for each in columns.values()}) != 1:
        raise QueryRejected("the columns of the results differ in length; expected a table")
    found: dict[Any, list[Any]] = {}
    seen: set[tuple[Any, Any]] = set()
    names = [name for name in columns if name not in (CASE, RUN)]
    for place, case in enumerate(columns[CASE]):
        if case is None or case == "" or case != case:  # nan
            raise QueryRejected(f"Row {place + 1} of the results has no id in the column {CASE!r}. Name each case.")
        if RUN in columns:
            run = columns[RUN][place]
            if (case, run) in seen:
                raise _rejected(case, "doubled", f"has run {brief(run)} twice; expected each run once")
            seen.add((case, run))
        elif case in found:
            raise _rejected(
                case,
                "doubled",
                f"is there twice; number its runs in a column {RUN!r}, if these are not different cases",
            )
        found.setdefault(case, []).append({name: columns[name][place] for name in names})
    if not found:
        raise QueryRejected("the results are empty; expected a row for each run of each case")
    return found


def _check_ids(by_case: Mapping[Any, Any], wanted: Sequence[Any], *, known: Sequence[Any]) -> None:
    present, expected = set(by_case), set(wanted)
    if missing := [case for case in wanted if case not in present]:
        raise _rejected(missing[0], "missing", f"has no result{_others(missing)}; expected all {len(wanted)} cases")
    if extra := [case for case in by_case if case not in expected]:
        why = "was not handed out" if extra[0] in set(known) else "is no case of the suite"
        raise _rejected(extra[0], "unknown", f"{why}{_others(extra)}; expected {len(wanted)} cases, and only those")


def _others(cases: Sequence[Any]) -> str:
    more = [brief(case) for case in cases[1:_MOST_NAMED]]
    left = len(cases) - 1 - len(more)
    return "".join(f", {each}" for each in more) + (f" and {left} more" if left else "")


_WRITTEN = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", re.ASCII)
_TRUTH = {"true": 1.0, "false": 0.0}


def _number(run: Any, metric: CaseMetric, case: Any) -> float:
    numbers = [_column_number(run, name, metric, case) for name in metric.columns]
    for number, (name, low, high) in zip(numbers, metric.ranges, strict=True):
        _check_inside(number, name, low, high, case)
    value, rounding = metric.value(numbers), 1e-9 * metric.width if metric.parts else 0.0
    _check_inside(value, metric.name, metric.low, metric.high, case, rounding=rounding)
    return min(max(value, metric.low), metric.high)  # what rounding added


def _check_inside(number: float, name: str, low: float, high: float, case: Any, *, rounding: float = 0.0) -> None:
    if not low - rounding <= number <= high + rounding:
        raise _rejected(
            case, "beyond the range",
            f"has the {name} {number:g}, beyond the range {low:g} to {high:g}; open the gate with "
            f"ranges={{{name!r}: (low, high)}} that hold all results",
        )  # fmt: skip


def _column_number(run: Any, name: str, metric: CaseMetric, case: Any) -> float:
    value = run.get(name) if isinstance(run, Mapping) else run
    if value is None:
        why = (
            "the run crashed" if isinstance(run, Mapping) and name in run else "it crashed, or no metric has that name"
        )
        raise _rejected(case, "crashed", f"has no {name}: {why}; expected a number, run it again")
    try:
        if isinstance(value, str):
            number = float(value) if _WRITTEN.fullmatch(value) else _TRUTH.get(value.strip().lower(), math.nan)
        else:
            number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isnan(number):
        raise _rejected(case, "not a number", f"has the {name} {brief(value)}; expected a number")
    if metric.yes_no and number not in (0.0, 1.0):
        raise _rejected(case, "not a number", f"has the {metric.name} {brief(value)}; expected 0 or 1, as the champion")
    return number


def _rejected(case: Any, fault: str, why: str) -> CaseRejected:
    return CaseRejected(f"case {brief(case)} {why}", case=case, fault=fault)
