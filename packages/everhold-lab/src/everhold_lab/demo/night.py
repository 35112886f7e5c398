"""A night of a scripted agent that improves a model, and a tuning loop, on a bare test set and on a sealed one.

The agent is a script that imitates a language model left alone with a score: it patches special cases, sometimes has a
real idea, and keeps whatever the judge accepts. A bare test set accepts lucky changes. The gate is asked over the Model
Context Protocol, by the official client, and answers with promoted or kept.

``python -m everhold_lab.demo.night OUTPUT`` plays it and draws the picture; it needs ``everhold[mcp,plots]``.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.holdout import Holdout
from everhold.queries.metrics.row_scores import accuracy
from everhold_lab.charts import Moment
from everhold_lab.demo.flights import CATEGORIES, KNOWN_BEFORE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.queries.query import RowwiseQuery
    from everhold_lab.demo.flights import Flights

    Judge = Callable[["Model"], Awaitable[bool]]


@dataclass(frozen=True)
class Model:
    """A classifier by a weighted sum of features. Its prediction is inverted where a feature lies inside a patch.

    Attributes:
        patches: Windows of features, each with its ends.
    """

    weights: Mapping[str, float]
    patches: tuple[tuple[str, float, float], ...] = ()

    def predict(self, table: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Return the predictions for a table, shape (rows,)."""
        likely = np.asarray(sum(weight * table[name] for name, weight in self.weights.items()) > 0.0)
        for name, low, high in self.patches:
            likely = likely ^ ((table[name] >= low) & (table[name] <= high))
        return likely

    def rule(self) -> str:
        """The classifier as an expression of the query language."""
        text = " + ".join(f"{weight!r} * {name}" for name, weight in self.weights.items()) + " > 0"
        for name, low, high in self.patches:
            text = f"({text}) <> ({name} between {low!r} and {high!r})"
        return text


_FIRST = Model({"f0": 1.0})


@dataclass(frozen=True, kw_only=True)
class Night:
    """Sizes of a simulated night.

    Attributes:
        rows: Sealed rows; the bare test set has the same ones.
        fresh: Fresh rows, on which the true accuracy of the kept models is measured.
        features: Number of features of a row. Only the first few have an effect.
        matter: Effects of the first features on the score that decides the label. All other features have no effect.
        proposals: Number of models that the agent proposes.
        ideas: Share of proposals that give a feature the weight that the training rows suggest. All others invert the
            prediction where a feature lies in a small window.
    """

    rows: int = 2_500
    fresh: int = 50_000
    features: int = 10
    matter: Sequence[float] = (1.0, 0.9, 0.8, 0.7)
    proposals: int = 2_000
    ideas: float = 0.02
    seed: int = 1

    def table(self, rows: int, *, part: int) -> dict[str, NDArray[Any]]:
        """Draw a table of rows from the population. Tables of different parts are independent."""
        rng = np.random.default_rng([self.seed, part])
        table: dict[str, NDArray[Any]] = {f"f{n}": rng.normal(size=rows) for n in range(self.features)}
        score = sum(weight * table[f"f{n}"] for n, weight in enumerate(self.matter)) + rng.normal(size=rows)
        return {**table, "label": (np.asarray(score) > 0.0).astype(np.int64)}

    async def work(self, name: str, judge: Judge, training: Mapping[str, NDArray[Any]], bare: bool) -> list[Moment]:
        """Simulate a night in which an agent proposes changes of a model, and a judge accepts or rejects each.

        Args:
            name: Name of the judge.
            judge: Function that says whether a model is better than the present one.
            training: The agent's own rows, for its ideas.
            bare: Whether the agent is told the score on the sealed rows.
        """
        rng = np.random.default_rng([self.seed, 99])
        sealed, fresh = self.table(self.rows, part=0), self.table(self.fresh, part=2)
        model, moments = _FIRST, []
        for number in range(self.proposals + 1):
            proposed = self._proposal(model, training, rng) if number else model
            taken = number > 0 and await judge(proposed)
            model = proposed if taken else model
            if taken or number % max(1, self.proposals // 100) == 0:
                reported = _accuracy(model, sealed) if bare else None
                moments.append(Moment(name, number, reported, _accuracy(model, fresh), taken))
        return moments

    def _proposal(self, model: Model, training: Mapping[str, NDArray[Any]], rng: np.random.Generator) -> Model:
        name = f"f{rng.integers(self.features)}"
        if rng.random() < self.ideas:  # give a feature the weight that the training rows suggest
            signs = 2.0 * training["label"] - 1.0
            fitted = float(np.mean(training[name] * signs) / np.mean(training["f0"] * signs))
            return replace(model, weights={**model.weights, name: round(fitted, 3)})
        low = float(rng.normal())
        high = low + 10.0 / self.rows * float(rng.exponential())  # some few rows
        return replace(model, patches=(*model.patches, (name, round(low, 6), round(high, 6))))


def _accuracy(model: Model, table: Mapping[str, NDArray[Any]]) -> float:
    return float(np.mean(model.predict(table) == table["label"]))


def play(night: Night) -> list[Moment]:
    """Play the night with a bare and a sealed test set, with the same rows and agent, and return all moments."""
    import anyio

    return anyio.run(_play, night)


async def _play(night: Night) -> list[Moment]:
    from mcp import Client

    from everhold_server.mcp import make_server

    sealed, training = night.table(night.rows, part=0), night.table(night.rows, part=1)
    best = _accuracy(_FIRST, sealed)

    async def bare(model: Model) -> bool:
        nonlocal best
        before, best = best, max(best, _accuracy(model, sealed))
        return best > before

    moments = await night.work("a bare test set", bare, training, bare=True)
    with tempfile.TemporaryDirectory() as folder, _sealed(Path(folder), night, sealed, training) as holdout:
        async with Client(make_server(holdout)) as client:

            async def gate(model: Model) -> bool:
                told = await client.call_tool("challenge", {"rule": model.rule()})
                said = told.structured_content
                assert said is not None, told.content
                return bool(said["promoted"] and not said["repeated"])

            return moments + await night.work("a gate on the same rows", gate, training, bare=False)


def _sealed(
    folder: Path, night: Night, sealed: Mapping[str, NDArray[Any]], training: Mapping[str, NDArray[Any]]
) -> Holdout:
    holdout = Holdout.create(
        folder / "night.db", "night", holdout=sealed, training=training, label="label", mechanism="guess_and_check",
        queries=night.proposals, surprises=10,
    )  # fmt: skip
    holdout.gate("accuracy", champion=_FIRST.rule())
    return holdout


def main(arguments: Sequence[str]) -> None:
    """Play a night, and write the chart into a folder."""
    from everhold.charts import save_chart
    from everhold_lab.charts import night_chart

    folder = Path(arguments[0] if arguments else ".")
    folder.mkdir(parents=True, exist_ok=True)
    moments = play(Night())
    words = "what an agent reaches in a night"
    save_chart(night_chart(moments), folder / "night.svg", title=words, caption=words)
    for judge in dict.fromkeys(moment.judge for moment in moments):
        last = [moment for moment in moments if moment.judge == judge][-1]
        sys.stdout.write(f"{judge}: told {last.reported}, truth {last.truth:.3f}\n")


if __name__ == "__main__":
    main(sys.argv[1:])


BEFORE, TAKE_OFF = "before the day", "at take-off"


@dataclass(frozen=True, slots=True)
class TunedModel:
    """A candidate model of the tuning loop.

    Attributes:
        model: Name of the model.
        known: `BEFORE` or `TAKE_OFF`: the time at which the model's features of a flight are known.
        make: Function from the positions of categorical features to an unfitted scikit-learn estimator.
        judged_on_fit: Whether the guess is the score on the rows that the model was fitted on, which is the beginner's
            mistake. If False, the guess is the score on held-back training rows.
    """

    model: str
    known: str
    make: Callable[[list[int]], Any]
    judged_on_fit: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate of the tuning loop with guess, answer and fresh value.

    Attributes:
        guess: Estimate of the accuracy from training rows.
        answer: Answer of the holdout.
        fresh: Accuracy on the fresh flights.
        sealed: Predictions for the sealed flights, shape (rows,).
    """

    candidate: TunedModel
    guess: float
    answer: Answer
    fresh: float
    sealed: NDArray[np.bool_] = field(repr=False, compare=False)
    query: RowwiseQuery = field(repr=False, compare=False)


def _logistic(categories: list[int]) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), categories), remainder=StandardScaler(), sparse_threshold=1.0
    )
    return make_pipeline(columns, LogisticRegression(C=0.1, max_iter=300))


def _tree(depth: int | None) -> Callable[[list[int]], Any]:
    def make(categories: list[int]) -> Any:
        from sklearn.tree import DecisionTreeClassifier

        return DecisionTreeClassifier(max_depth=depth, random_state=0)

    return make


def _boosting(*, rate: float, leaves: int) -> Callable[[list[int]], Any]:
    def make(categories: list[int]) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(
            learning_rate=rate, max_leaf_nodes=leaves, max_iter=40, categorical_features=categories,
            early_stopping=False, random_state=0,
        )  # fmt: skip

    return make


CANDIDATES = tuple(
    TunedModel(model, known, make)
    for known in (BEFORE, TAKE_OFF)
    for model, make in (
        ("logistic regression", _logistic),
        ("tree of depth 4", _tree(4)),
        ("tree of depth 8", _tree(8)),
        ("boosting, 8 leaves", _boosting(rate=0.1, leaves=8)),
        ("boosting, 16 leaves", _boosting(rate=0.2, leaves=16)),
        ("boosting, 32 leaves", _boosting(rate=0.2, leaves=32)),
    )
)
"""Fixed in advance: the same six models, once for each state of knowledge."""

OVERFITTED = TunedModel("tree without limits", BEFORE, _tree(None), judged_on_fit=True)
"""Knows its training flights by heart and takes its score on them for the truth."""


def tune(
    holdout: Holdout,
    flights: Flights,
    candidates: tuple[TunedModel, ...],
    *,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Trial]:
    """Fit each candidate on three quarters of the training flights, guess from the rest, ask the holdout.

    Args:
        holdout: A holdout over ``flights.sealed`` with a label.
        flights: The split flights.
        candidates: Models to try, in this order.
        advance: Called with 1 after each candidate.
    """
    import sklearn.ensemble  # noqa: F401  the limit reaches only libraries that are loaded
    from threadpoolctl import threadpool_limits

    trials = []
    with threadpool_limits(1):  # boosting's threads wait for each other far longer than they work on a busy machine
        for candidate in candidates:
            known = slice(0, KNOWN_BEFORE if candidate.known == BEFORE else None)
            features, late = flights.training.features[:, known], flights.training.late
            fitted = 3 * len(late) // 4
            model = candidate.make(list(CATEGORIES))
            model.fit(features[:fitted], late[:fitted])
            judged = slice(0, fitted) if candidate.judged_on_fit else slice(fitted, None)
            guess = _share_right(model.predict(features[judged]), late[judged])
            sealed = model.predict(flights.sealed.features[:, known])
            fresh = _share_right(model.predict(flights.fresh.features[:, known]), flights.fresh.late)
            query = accuracy(sealed)
            trials.append(Trial(candidate, guess, holdout.ask(query, guess=guess), fresh, sealed, query))
            advance(1)
    return trials


def _share_right(predicted: NDArray[np.bool_], late: NDArray[np.bool_]) -> float:
    return float(np.mean(predicted == late))
