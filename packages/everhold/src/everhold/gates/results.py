"""Results of a suite of cases: metrics by case and run, checked against the cases of a gate.

Results are a table with a column of case ids, or a mapping from case ids to results. Several runs of a case are
numbered in a column ``run`` of the table, or are a list in the mapping. A result that is missing, unknown, given twice,
crashed, or not a number within its range is an error that names the case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from everhold.arguments import as_float, brief
from everhold.display import Display
from everhold.errors import CaseRejected, CaseWarning, QueryRejected, warn_caller
from everhold.gates.challenge import NEW_RUNS
from everhold.gates.records import CASES
from everhold.guarantees.intervals.claims import MOST_STAKE, GateClaim

if TYPE_CHECKING:
    from numpy.typing import NDArray

CASE, RUN = "case", "run"
"""Columns of ids and, where there is one, of the number of the run."""

_MOST_NAMED = 3  # cases that a message names


@dataclass(frozen=True, slots=True)
class CaseSuite:
    """Cases of a gate and the claims about them. All of it is public except the ids of the cases.

    Attributes:
        ids: Case ids in the order of the sealed rows.
        better: Names of the successes; any one is enough.
        margin: A success has to be better by more than this, in the metric's units.
        not_worse: Guards: the slack of each in its metric's units.
        runs: Runs of each case.
        population: What the promise is about: `NEW_CASES` or `NEW_RUNS`.
        limits: Guards against a fixed number: by the name of a metric, the number that its mean has to be above.
        ratios: Columns of the numerator and of the denominator, by the name of a success or guard that is a ratio of
            means.
        tail: True if the binomial tail proves successes about yes-or-no runs (Lemma Y); False if bets prove them.
        missing: Rule for runs without a result, a key of `everhold.gates.challenge.MISSING`.
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
    tail: bool = False
    missing: str = "refuse"

    @property
    def claims(self) -> list[GateClaim]:
        """All claims: successes first, then guards, then limits."""
        fixed = [
            GateClaim(name, 2.0 * float(self.metric(name).scaled(np.asarray(number))) - 1.0, guard=True, fixed=True)
            for name, number in self.limits.items()
        ]
        successes = [self._claim(name, self.margin) for name in self.better]
        guards = [self._claim(name, -slack, guard=True) for name, slack in self.not_worse.items()]
        return successes + guards + fixed

    def _claim(self, name: str, floor: float, *, guard: bool = False) -> GateClaim:
        """Return a claim whose floor is given in the metric's units.

        For a metric it becomes a share of the metric's range.

        The floor of a ratio stays in the units of the ratio. ``guard`` is False for a success.
        """
        if name in self.ratios:
            return GateClaim(name, floor, guard=guard, ratio=True)
        return GateClaim(name, floor / self.metric(name).width, guard=guard)

    def metric(self, name: str) -> CaseMetric:
        """Return the metric of a name."""
        return next(metric for metric in self.metrics if metric.name == name)

    @property
    def first(self) -> CaseMetric | None:
        """The metric of the first success, or None for a ratio."""
        return None if self.better[0] in self.ratios else self.metric(self.better[0])

    def over(self, ids: Sequence[Any]) -> Self:
        """Return a suite with the same claims for the cases with these ids."""
        return replace(self, ids=ids)

    def describe(self) -> dict[str, Any]:
        """Return everything but the ids as the plain data that the ledger holds."""
        described = asdict(self.over(()))
        del described["ids"]
        return {"kind": CASES, **described}

    @classmethod
    def read(cls, described: Mapping[str, Any], ids: Sequence[Any]) -> Self:
        """Rebuild the suite from the plain data that `describe` returned."""
        made = {name: value for name, value in described.items() if name != "kind"}
        made["better"], made["metrics"] = tuple(made["better"]), tuple(map(CaseMetric.read, made["metrics"]))
        made["ratios"] = {name: CaseRatio(**ratio) for name, ratio in made["ratios"].items()}
        return cls(ids, **made)

    def values(self, results: Any, cases: Sequence[Any] | None = None) -> NDArray[np.float64]:
        """Return results as an array (cases, runs, metrics) of numbers within the metrics' ranges.

        If runs without a result are not refused, they are infinitely bad, and `CaseMetric.scaled` makes them the worst.

        Args:
            results: A table or a mapping; see the module.
            cases: Ids of the only cases to return, in this order; by default all cases of the suite.

        Raises:
            CaseRejected: If a case is missing or unknown, or has another number of runs, no number, or a number outside
                its range. Nothing was charged.
        """
        wanted = list(self.ids if cases is None else cases)
        columns = list(dict.fromkeys(name for metric in self.metrics for name in metric.columns))
        by_case = runs_by_case(results, columns)
        _check_ids(by_case, wanted, known=self.ids)
        found = np.empty((len(wanted), self.runs, len(self.metrics)))
        for place, case in enumerate(wanted):
            runs = by_case[case]
            if len(runs) != self.runs:
                fault = "doubled" if self.runs == 1 else "runs"
                raise _rejected(case, fault, f"has {len(runs)} runs. Pass {self.runs}, as many as the champion has")
            for row, run in enumerate(runs):
                lacking = set[str]()
                if self.missing != "refuse":
                    given = {name: run.get(name, 0.0) if isinstance(run, Mapping) else run for name in columns}
                    lacking = {
                        name for name, each in given.items()
                        if each is None or (isinstance(each, float) and math.isnan(each))
                    }  # fmt: skip
                found[place, row] = [
                    _number(run, metric, case) if lacking.isdisjoint(metric.columns) else metric.worst
                    for metric in self.metrics
                ]
        return found


def counted(results: Any) -> str:
    """Return the number of cases and runs in words.

    Examples:
        >>> counted({"a": [1, 0], "b": [0, 0]}), counted({"a": 1})
        ('2 cases x 2 runs', '1 case x 1 run')
    """
    by_case = runs_by_case(results)
    runs = sorted({len(each) for each in by_case.values()})
    return cases_and_runs(len(by_case), *runs[:: max(len(runs) - 1, 1)])


def warn_of_copies(values: NDArray[np.float64]) -> None:
    """Warn if all runs of each case have equal results, which suggests that they are copies.

    Args:
        values: Results, shape (cases, runs, metrics).

    Warns:
        CaseWarning: If all runs of each case are alike.
    """
    cases, runs, _ = values.shape
    if runs > 1 and np.array_equal(values, np.broadcast_to(values[:, :1], values.shape)):
        warn_caller(CaseWarning(
            f"All {runs} runs of each of {cases} cases are alike. If they are copies of one response, use one run."
        ))  # fmt: skip


def cases_and_runs(cases: int, *runs: int) -> str:
    """Return the numbers of cases and of runs per case in words. Different numbers of runs become a range.

    Examples:
        >>> cases_and_runs(60, 1), cases_and_runs(1, 2, 8)
        ('60 cases x 1 run', '1 case x 2 to 8 runs')
    """
    return f"{cases} case{'s' * (cases != 1)} x {' to '.join(map(str, runs))} run{'s' * (runs != (1,))}"


def runs_by_case(results: Any, metrics: Sequence[str] = ()) -> dict[Any, list[Any]]:
    """Return the runs of each case, in order of appearance: mappings of metrics, or plain numbers.

    Args:
        results: A table or a mapping; see the module.
        metrics: Names of the metrics that each run must have; a plain number is refused if there are several.

    Raises:
        QueryRejected: If the results are no table and no mapping, or a row of the table has no case.
        CaseRejected: If a run is given twice, or has one number for several metrics.
    """
    columns, found = _columns(results), dict[Any, list[Any]]()
    if columns is not None:
        if len({len(each) for each in columns.values()}) != 1:
            raise QueryRejected("The columns of the results differ in length. Pass columns of one length.")
        seen: set[tuple[Any, Any]] = set()
        names = [name for name in columns if name not in (CASE, RUN)]
        for place, case in enumerate(columns[CASE]):
            if case is None or case == "" or case != case:  # nan
                raise QueryRejected(f"Row {place + 1} of the results has no id in the column {CASE!r}. Name each case.")
            if RUN in columns:
                run = columns[RUN][place]
                if (case, run) in seen:
                    raise _rejected(case, "doubled", f"has run {brief(run)} twice. Pass each run once")
                seen.add((case, run))
            elif case in found:
                raise _rejected(
                    case, "doubled", f"occurs twice. If these are runs of one case, number them in a column {RUN!r}"
                )
            found.setdefault(case, []).append({name: columns[name][place] for name in names})
        if not found:
            raise QueryRejected("The results are empty. Pass a row for each run of each case.")
        return found
    if isinstance(results, Mapping) and not results:
        raise QueryRejected("The results are empty. Pass a mapping from case ids to numbers.")
    if not isinstance(results, Mapping):
        raise QueryRejected(
            f"The results are of type {brief(type(results).__name__)}. Pass a table with "
            f"the column {CASE!r}, or a mapping from case ids to numbers."
        )
    found = {
        case: list(runs) if isinstance(runs, (list, tuple, np.ndarray)) else [runs] for case, runs in results.items()
    }
    if len(metrics) > 1:
        for case, runs in found.items():
            if not all(isinstance(run, Mapping) or run is None for run in runs):
                raise _rejected(case, "not a number", f"has one number. Pass a mapping of {', '.join(metrics)}")
    return found


def _columns(results: Any) -> dict[str, Sequence[Any]] | None:
    """Return the columns of a table, or None if the results are not a table."""
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
        raise QueryRejected(f"The table of results has no column {CASE!r}. Add one with the case ids.")
    return {name: frame[name].to_list() for name in frame.columns}


def _check_ids(by_case: Mapping[Any, Any], wanted: Sequence[Any], *, known: Sequence[Any]) -> None:
    present, expected = set(by_case), set(wanted)
    if missing := [case for case in wanted if case not in present]:
        raise _rejected(
            missing[0], "missing", f"has no result{_others(missing)}. Pass results of all {len(wanted)} cases"
        )
    if extra := [case for case in by_case if case not in expected]:
        why = "was not handed out" if extra[0] in set(known) else "is not a case of the suite"
        raise _rejected(
            extra[0], "unknown", f"{why}{_others(extra)}. Pass results of {len(wanted)} cases and of no others"
        )


def _others(cases: Sequence[Any]) -> str:
    more = [brief(case) for case in cases[1:_MOST_NAMED]]
    left = len(cases) - 1 - len(more)
    listed = ", ".join(more) + (f" and {left} more" if left else "")
    return f" (the same is true of {listed})" if more else ""


_WRITTEN = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", re.ASCII)
_TRUTH = {"true": 1.0, "false": 0.0}


def _number(run: Any, metric: CaseMetric, case: Any) -> float:
    """Return the number of a run in a metric, after checking the numbers of all columns that the metric reads."""
    numbers = []
    for name, low, high in metric.ranges:
        value = run.get(name) if isinstance(run, Mapping) else run
        if value is None:
            named = isinstance(run, Mapping) and name in run
            why = "the run crashed" if named else "it crashed, or no metric has that name"
            raise _rejected(case, "crashed", f"has no {name}: {why}. Run the case again and pass a number")
        try:
            if isinstance(value, str):
                number = float(value) if _WRITTEN.fullmatch(value) else _TRUTH.get(value.strip().lower(), math.nan)
            else:
                number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if math.isnan(number):
            raise _rejected(case, "not a number", f"has the {name} {brief(value)}. Pass a number")
        if metric.yes_no and number not in (0.0, 1.0):
            told = f"has the {metric.name} {brief(value)}. Pass 0 or 1, as for the champion"
            raise _rejected(case, "not a number", told)
        _check_inside(number, name, low, high, case)
        numbers.append(number)
    value, rounding = metric.value(numbers), 1e-9 * metric.width if metric.parts else 0.0
    _check_inside(value, metric.name, metric.low, metric.high, case, rounding=rounding)
    return min(max(value, metric.low), metric.high)  # what rounding added


def _check_inside(number: float, name: str, low: float, high: float, case: Any, *, rounding: float = 0.0) -> None:
    if not low - rounding <= number <= high + rounding:
        raise _rejected(
            case, "beyond the range",
            f"has the {name} {number:g}, outside the range {low:g} to {high:g}. Open the "
            f"gate with ranges={{{name!r}: (low, high)}} that contain all results",
        )  # fmt: skip


def _rejected(case: Any, fault: str, why: str) -> CaseRejected:
    return CaseRejected(f"Case {brief(case)} {why}.", case=case, fault=fault)


# Metrics of cases: columns of results, their differences and ratios, and fixed limits of their means.

LOWER = frozenset({
    "cost", "duration", "error", "errors", "failures", "latency", "loss", "price", "seconds", "time", "tokens",
    "toxicity", "violations",
})  # fmt: skip
"""Names of metrics of which less is better, unless ``lower=`` names others."""

_DIFFERENCE, _RATIO = " - ", " / "


@dataclass(frozen=True, slots=True)
class CaseMetric:
    """A number for each run of a case: a column of results, or a difference of two.

    Attributes:
        low: The smallest number that a result can have; a smaller one is refused.
        high: Largest possible number of a run.
        lower: True if less is better, as for a cost; False if more is better.
        yes_no: True if every number is 0 or 1; False if numbers between the ends are possible.
        parts: For a weighted sum of columns: column, weight, low and high of each.
    """

    name: str
    low: float = 0.0
    high: float = 1.0
    lower: bool = False
    yes_no: bool = False
    parts: tuple[tuple[str, float, float, float], ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise QueryRejected(
                f"The range of the metric {brief(self.name)} is {brief((self.low, self.high))}. Pass two numbers "
                "(low, high) with low below high."
            )

    @property
    def width(self) -> float:
        """Length of the metric's range."""
        return self.high - self.low

    @property
    def ranges(self) -> tuple[tuple[str, float, float], ...]:
        """The columns that the metric reads, each with its least and its largest number."""
        return tuple((name, low, high) for name, _, low, high in self.parts) or ((self.name, self.low, self.high),)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that the metric reads."""
        return tuple(name for name, _, _ in self.ranges)

    def value(self, numbers: Sequence[float]) -> float:
        """Return the metric's number, computed from the numbers of its columns."""
        if not self.parts:
            return numbers[0]
        return sum(part[1] * number for part, number in zip(self.parts, numbers, strict=True))

    @classmethod
    def read(cls, described: Mapping[str, Any]) -> Self:
        """Rebuild the metric from the plain data in the description of its suite."""
        return cls(**{**described, "parts": tuple(map(tuple, described["parts"]))})

    @property
    def worst(self) -> float:
        """Number that stands for a missing result: infinitely bad."""
        return math.inf if self.lower else -math.inf

    def scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return numbers of the metric on the scale [0, 1], where 1 is best and a missing result is 0."""
        inside = (values - self.low) / self.width
        return np.maximum(1.0 - inside if self.lower else inside, 0.0)


@dataclass(frozen=True, slots=True)
class CaseRatio:
    """A ratio of the means of two columns, such as the cost of a success.

    Attributes:
        lower: True if a lower ratio is better, as for a cost; False if a higher ratio is.
    """

    top: str
    bottom: str
    lower: bool = False


def metrics_for(
    better: Iterable[str], guards: Iterable[str], *, ranges: Mapping[str, Any], lower: Iterable[str] | None,
    limits: Iterable[str] = (),
) -> tuple[list[CaseMetric], dict[str, CaseRatio]]:  # fmt: skip
    """Return the metrics that claims need, each once, and the ratios of two metrics.

    A lower ratio is better if its name is in ``lower``. If ``lower`` is None, it is better if the name of the numerator
    is in `LOWER`.
    """
    names = list(dict.fromkeys([*better, *guards]))
    less = LOWER if lower is None else frozenset(lower)
    columns = {part for name in [*names, *limits] for part in re.split(" [-/] ", name)}
    known = {*names, *(name.partition(_RATIO)[0] for name in names if _RATIO in name)}
    if unknown := (set(ranges) - columns | (set() if lower is None else less)) - known:
        raise QueryRejected(
            f"{brief(sorted(unknown)[0])} is not a metric of the gate. The metrics are {', '.join(names)}."
        )
    ratios: dict[str, CaseRatio] = {}
    for name in names:
        top, ratio, bottom = name.partition(_RATIO)
        if not ratio:
            continue
        if any(sign in part for sign in (_DIFFERENCE, _RATIO) for part in (top, bottom)) or not (top and bottom):
            raise QueryRejected(
                f"{brief(name)} cannot be compared with another version. Pass a ratio of two columns, 'a / b'."
            )
        for column in (top, bottom):
            if _metric(column, ranges, lower=False).low < 0.0:
                raise QueryRejected(
                    f"{brief(column)} of the ratio {brief(name)} can be below 0. Pass a range from 0 or more."
                )
        ratios[name] = CaseRatio(top, bottom, lower=name in less or top in less)
    read = [name for name in names if name not in ratios]
    read += [column for ratio in ratios.values() for column in (ratio.top, ratio.bottom)]
    return [_metric(name, ranges, lower=name in less) for name in dict.fromkeys(read)], ratios


def limits_for(
    at_most: Mapping[str, float], at_least: Mapping[str, float], *, ranges: Mapping[str, Any]
) -> tuple[list[CaseMetric], dict[str, float]]:
    """Return the metrics of guards against fixed numbers, and the number that each mean has to exceed.

    A ratio of means is at most m if the mean of m * denominator - numerator is at least 0.

    Args:
        at_most: Largest allowed mean, by the name of a column, a difference ``"a - b"`` or a ratio ``"a / b"``.
        at_least: Smallest allowed mean, by the same kinds of names.
        ranges: Least and largest number of columns, by name; 0 to 1 by default.

    Raises:
        QueryRejected: If a limit is not a number, or lies beyond the range of its metric. Nothing was changed.
    """
    metrics, limits = [], {}
    requested = [(name, number, -1.0, "at most") for name, number in at_most.items()]
    for name, given, sign, word in requested + [(name, number, 1.0, "at least") for name, number in at_least.items()]:
        number = as_float(given)
        top, slash, bottom = name.partition(_RATIO)
        parts = [(column, sign * weight, a, b) for column, weight, a, b in _sum_of(top, ranges)]
        if slash:
            parts += [(column, -sign * number * weight, a, b) for column, weight, a, b in _sum_of(bottom, ranges)]
        low, high = (sum(pick(weight * a, weight * b) for _, weight, a, b in parts) for pick in (min, max))
        floor = 0.0 if slash else sign * number
        if not (math.isfinite(number) and low < floor < high):
            raise QueryRejected(
                f"{name} {word} {brief(given)} cannot be a claim. Pass a finite number within what the ranges allow."
            )
        metrics.append(CaseMetric(f"{name} {word} {number:g}", low, high, parts=tuple(parts)))
        limits[metrics[-1].name] = floor
    return metrics, limits


def _metric(name: str, ranges: Mapping[str, Any], *, lower: bool) -> CaseMetric:
    """Return the metric of a column, or of a difference of two columns.

    `lower` is true if a lower value is better.
    """
    if _DIFFERENCE not in name:
        low, high = ranges.get(name, (0.0, 1.0))
        return CaseMetric(name, float(low), float(high), lower=lower)
    parts = _sum_of(name, ranges)
    ends = [sum(pick(weight * a, weight * b) for _, weight, a, b in parts) for pick in (min, max)]
    low, high = ranges.get(name, ends)
    return CaseMetric(name, float(low), float(high), lower=lower, parts=tuple(parts))


def _sum_of(name: str, ranges: Mapping[str, Any]) -> list[tuple[str, float, float, float]]:
    """Return the columns of a text ``"a"`` or ``"a - b"``, each with its weight 1 or -1 and its range."""
    first, minus, second = name.partition(_DIFFERENCE)
    columns = [first, *([second] if minus else [])]
    if not all(columns) or any(sign in second for sign in (_DIFFERENCE, _RATIO)) or _RATIO in first:
        raise QueryRejected(f"{brief(name)} cannot be read. Pass a column, a difference 'a - b' or a ratio 'a / b'.")
    found = []
    for column, weight in zip(columns, (1.0, -1.0), strict=False):
        low, high = map(float, ranges.get(column, (0.0, 1.0)))
        checked = CaseMetric(column, low, high)
        found.append((column, weight, checked.low, checked.high))
    return found


# Shares of the variance of results between cases and between runs.


@dataclass(frozen=True, slots=True)
class VarianceShares(Display):
    """Shares of the variance of a challenger's results that cases and runs have.

    Attributes:
        metric: The first metric of the gate.
        between_cases: Share of the variance of a single run that lies between cases, in [0, 1]; None for one run.
        between_runs: Share between runs of the same case, the rest of the variance; None if each case has one run.
        runs: Number of runs of each case.
        population: What the gate's promise is about: `NEW_CASES` or `NEW_RUNS`.
        helps: What would make the smallest step smaller: ``"runs"``, ``"cases"``, or ``"either"``.
    """

    metric: str
    between_cases: float | None
    between_runs: float | None
    cases: int
    runs: int
    population: str
    helps: str

    def __str__(self) -> str:
        if self.between_cases is None:
            return f"{self.metric}: one run of each case, so runs cannot be told from cases. {_ADVICE[self.helps]}"
        return (
            f"{self.metric}: {100 * self.between_cases:.0f} % of the variance of a run lies between cases, "
            f"{100 * (1 - self.between_cases):.0f} % between runs of one case. {_ADVICE[self.helps]}"
        )


_ADVICE = {
    "runs": "More runs help.",
    "cases": "More cases help, more runs hardly.",
    "either": "More cases or more runs help.",
}


def variance_shares(suite: CaseSuite, values: NDArray[np.float64], *, nats: float) -> VarianceShares:
    """Return how much of the variance of the first metric lies between cases, and between runs of a case.

    Args:
        suite: The suite of cases with its metrics.
        values: Results, shape (cases, runs, metrics).
        nats: ln(1 / level) of the next challenge.
    """
    name, runs = suite.better[0], suite.runs
    column = {metric.name: values[:, :, place] for place, metric in enumerate(suite.metrics)}
    if name in suite.ratios:  # deviations from the ratio of the means
        top, bottom = column[suite.ratios[name].top], column[suite.ratios[name].bottom]
        first = top - bottom * (top.mean() / max(bottom.mean(), 1e-300))
    else:
        first = suite.metric(name).scaled(column[name])
    between: float | None = None
    if runs > 1:
        within = float(first.var(axis=1, ddof=1).mean())
        across = max(float(first.mean(axis=1).var(ddof=1)) - within / runs, 0.0)
        between = across / (across + within) if across + within else 1.0
    bound = len(suite.ids) * math.log1p(MOST_STAKE)
    if suite.population == NEW_RUNS or between is None:
        helps = "either"
    else:
        helps = "runs" if (1.0 - between) / runs > between and nats < bound else "cases"
    return VarianceShares(
        suite.better[0], between, None if between is None else 1.0 - between, len(suite.ids), runs,
        suite.population, helps,
    )  # fmt: skip
