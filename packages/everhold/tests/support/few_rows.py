"""Queries of which few sealed rows count, each as the first one of its holdout, and what is true of each.

The population is a table, and sealed rows are drawn from it with replacement. NumPy and scikit-learn compute each truth
on the table, without code of everhold.
"""

import warnings
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from random_sessions import CHANCE_SCORES, CLASS_SCORES, FEATURES, NUMBER_SCORES
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import everhold as eh
from everhold.errors import EverholdWarning, QueryRejected
from everhold.mechanisms import State
from everhold.queries.means.plans import Estimate
from everhold.randomness import SeededNoise

POPULATION, SEALED, TRAINING, MOST = 4_000, 500, 300, 100.0
NOT_COMPARED = ("f1_weighted", "matthews_corrcoef", "r2", "neg_root_mean_squared_error")
SIZES = ([1, 2, 5, 40], [0.6, 0.25, 0.12, 0.03])  # of groups, very unequal


def table(seed, *, grouped=False):
    """Rows of a population: label 1 and slice 'b' are rare, arm B is rarer, v has a heavy tail."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice(SIZES[0], POPULATION, p=SIZES[1]) if grouped else np.ones(POPULATION, dtype=int)
    unit = np.repeat(np.arange(POPULATION), sizes)[:POPULATION]
    x = 0.8 * rng.normal(size=POPULATION)[unit] + 0.6 * rng.normal(size=POPULATION)
    score = x + 0.7 * rng.normal(size=POPULATION)
    large, small = rng.uniform(50.0, MOST, POPULATION), rng.exponential(1.0, POPULATION)
    tail = np.where(rng.random(POPULATION) < 0.02, large, small)
    return pd.DataFrame({
        "x": x, "z": rng.normal(size=POPULATION), "v": np.round(np.minimum(tail + np.maximum(x, 0.0), MOST), 2),
        "g": rng.choice(["a", "b"], POPULATION, p=[0.94, 0.06]), "unit": unit,
        "arm": rng.choice(["A", "B"], POPULATION, p=[0.96, 0.04]),
        "late": (score > np.quantile(score, 0.96)).astype(int),
    })  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A query and its true value."""

    kind: str
    query: object
    truth: float


def outputs(model, features, *, chances):
    """Predictions within the range of labels, or chances of label 1."""
    told = model.predict_proba(features)[:, 1] if chances else model.predict(features)
    return np.clip(told, 0.0, MOST)


def of_models(frame, label):
    """Scores of two models and their differences, of all rows and of slices."""
    rows = table(99)
    fit = rows[FEATURES], rows[label]
    if label == "late":
        models = [LogisticRegression(class_weight="balanced"), DecisionTreeClassifier(max_depth=3, random_state=0)]
        scores = {**CLASS_SCORES, **CHANCE_SCORES}
    else:
        models, scores = [LinearRegression(), DecisionTreeRegressor(max_depth=3, random_state=0)], NUMBER_SCORES
    models = [model.fit(*fit) for model in models]
    slices = {None: np.ones(len(frame), dtype=bool), "g = 'b'": frame.g == "b", "x > 1.6": frame.x > 1.6}
    ranged = {"low": 0, "high": MOST} if label == "v" else {}
    for where, rows in slices.items():
        inside = frame[rows]
        for name, score in scores.items():
            told = [outputs(model, inside[FEATURES], chances=name in CHANCE_SCORES) for model in models]
            truths = [score(inside[label], each) for each in told]
            clip = {"clip": MOST**2 if "squared" in name or name == "r2" else MOST} if label == "v" else {}
            both = [eh.metric(name, model, where=where, **ranged, **clip) for model in models]
            kind = name if where is None else f"{name} in a slice"
            yield Asked(kind, both[0], truths[0])
            if name not in NOT_COMPARED and (where is None or name != "roc_auc"):
                yield Asked(f"difference in {kind}", eh.difference(*both), truths[0] - truths[1])


def of_columns(frame):
    """Means, ratios and contrasts of few rows."""
    late, few, inside = frame.late == 1, frame.arm == "B", frame.g == "b"
    v = eh.mean("v", low=0, high=MOST)
    yield Asked("share", eh.mean("late = 1"), late.mean())
    yield Asked("mean", v, frame.v.mean())
    yield Asked("share among", eh.mean("x > 0", given="g = 'b'"), (frame.x > 0)[inside].mean())
    yield Asked("mean among", eh.mean("v", low=0, high=MOST, given="arm = 'B'"), frame.v[few].mean())
    yield Asked("ratio", eh.ratio("late = 1 and x > 1", "late = 1"), (frame.x > 1)[late].mean())
    yield Asked("variance", eh.variance("v", low=0, high=MOST), frame.v.var(ddof=0))
    for event, values in (("x > 1", frame.x > 1), (v, frame.v)):
        treated, control = values[few].mean(), values[~few].mean()
        arms = {"arm": "arm", "treated": "B", "control": "A"}
        yield Asked("risk difference", eh.risk_difference(event, **arms), treated - control)
        yield Asked("risk ratio", eh.risk_ratio(event, **arms), treated / control)


@dataclass
class Game:
    """Draws of one population.

    Attributes:
        folder: For ledgers.
        label: ``"late"`` or ``"v"``.
        grouped: Whether whole groups of very unequal sizes are drawn.
        biased: Whether training rows are of another law, so that stakes and guesses are bad.
        told: Number of intervals, by kind.
        missed: Those without their truth, by kind.
        level: Sum of the levels, by kind.
    """

    folder: str
    label: str = "late"
    grouped: bool = False
    biased: bool = False
    told: Counter = field(default_factory=Counter)
    missed: Counter = field(default_factory=Counter)
    level: Counter = field(default_factory=Counter)

    def __post_init__(self):
        self.rng, self.drawn = np.random.default_rng(7), 0
        self.frame = table(1, grouped=self.grouped)
        self.asked = [*of_models(self.frame, self.label), *of_columns(self.frame)]

    def sample(self, rows):
        """Rows, or about as many rows in whole groups, which get new names."""
        if not self.grouped:
            return self.frame.iloc[self.rng.integers(0, POPULATION, rows)].drop(columns="unit").reset_index(drop=True)
        drawn = self.rng.integers(0, self.frame.unit.max() + 1, rows // 4)
        parts = [self.frame[self.frame.unit == unit].assign(unit=place) for place, unit in enumerate(drawn)]
        self.drawn += len(drawn)
        whole = pd.concat(parts, ignore_index=True)
        return whole.assign(unit=whole.unit + self.drawn)

    def play(self, draws, chosen=lambda kind: True):
        """Seal, and ask each query as if it were the first one."""
        asked = [each for each in self.asked if chosen(each.kind)]
        for place in range(draws):
            training = self.sample(TRAINING)
            if self.biased:
                training = training.assign(x=0.3 * training.x.abs(), late=(training.z > 1.5).astype(int), g="a")
                training.loc[:5, "g"] = "b"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EverholdWarning)
                made = eh.Holdout.create(
                    f"{self.folder}/{place}.db", "h", holdout=self.sample(SEALED), training=training, label=self.label,
                    queries=1, surprises=1, mechanism="guess_and_check", confidence=0.6,
                    planning=eh.Planning(allow_vacuous=True),
                    **({"dependence": eh.Groups("unit")} if self.grouped else {}),
                )  # fmt: skip
                with made as holdout:
                    for each in asked:
                        self._ask(holdout, each)
        return self

    def _ask(self, holdout, asked):
        executor = holdout._executor
        try:
            plan = executor.compiler.compile(asked.query, None, None)
        except QueryRejected:  # no training row counts
            return
        evaluations, _ = plan.evaluate(executor.sealed, range(len(plan.asked)))
        _, replies = holdout.mechanism.answer_many(State(), evaluations, SeededNoise(0))
        if np.isnan(asked.truth) or np.isnan(replies.lows).any():
            return
        ends = [Estimate(*each) for each in replies.sealed.tolist()]
        if hasattr(plan, "bound"):
            found = plan.bound.combine(ends)
            low, high = found.low, found.high
        else:
            bound = plan.prepared[0].bound
            width = bound.at_one - bound.at_zero
            low, high = sorted(bound.at_zero + width * end for end in (ends[0].low, ends[0].high))
        slack = 1e-6 * max(1.0, abs(asked.truth))
        self.told[asked.kind] += 1
        self.level[asked.kind] += float(np.exp(-replies.nats).sum())
        self.missed[asked.kind] += not low - slack <= asked.truth <= high + slack
