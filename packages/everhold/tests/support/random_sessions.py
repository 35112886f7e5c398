"""Random sessions with a holdout whose population is known: queries of every kind, and what is true of each.

The confidence is so high that an interval without its truth is a defect: a wrong estimand, unit, slice or row set.
The population is a table, and sealed rows are drawn from it with replacement. So DuckDB, NumPy and scikit-learn
compute each truth on that table, without code of everhold.
"""

from dataclasses import dataclass, field
from functools import cached_property

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn import metrics as scorers
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import everhold as eh
from everhold.errors import EverholdError
from everhold.queries.means.distribution import histogram

CONFIDENCE = 1 - 1e-7
FEATURES = ["x", "z"]
GROUP = 4
CLASS_SCORES = {
    "accuracy": scorers.accuracy_score,
    "balanced_accuracy": scorers.balanced_accuracy_score,
    "f1": scorers.f1_score,
    "f1_macro": lambda labels, told: scorers.f1_score(labels, told, average="macro"),
    "f1_weighted": lambda labels, told: scorers.f1_score(labels, told, average="weighted"),
    "precision": lambda labels, told: scorers.precision_score(labels, told, zero_division=np.nan),
    "recall": lambda labels, told: scorers.recall_score(labels, told, zero_division=np.nan),
    "matthews_corrcoef": scorers.matthews_corrcoef,
}
CHANCE_SCORES = {
    "roc_auc": scorers.roc_auc_score,
    "neg_brier_score": lambda labels, told: -scorers.brier_score_loss(labels, told),
}
NUMBER_SCORES = {
    "neg_mean_absolute_error": lambda labels, told: -scorers.mean_absolute_error(labels, told),
    "neg_mean_squared_error": lambda labels, told: -scorers.mean_squared_error(labels, told),
    "neg_root_mean_squared_error": lambda labels, told: -scorers.root_mean_squared_error(labels, told),
    "r2": lambda labels, told: max(scorers.r2_score(labels, told), -1.0),  # told as -1 from there on
}


class Population:
    """A table of equally likely rows, in groups of four that are alike, with missing values."""

    def __init__(self, rng: np.random.Generator, groups: int = 1_200) -> None:
        rows = groups * GROUP
        x = 0.6 * np.repeat(rng.normal(size=groups), GROUP) + 0.8 * rng.normal(size=rows)
        self.frame = pd.DataFrame({
            "x": x,
            "z": rng.normal(size=rows),
            "v": np.round(np.minimum(rng.lognormal(1, 1, rows) + np.maximum(x, 0), 50), 3),
            "w": np.where(rng.random(rows) < 0.1, np.nan, np.round(rng.normal(size=rows) + x, 2)),
            "g": np.where(rng.random(rows) < 0.07, None, rng.choice(list("abcd"), rows, p=[0.5, 0.3, 0.15, 0.05])),
            "region": rng.choice(["N", "S", "E"], rows).astype(object),
            "arm": rng.choice(["A", "B"], rows).astype(object),
            "late": (x + rng.normal(size=rows) > rng.choice([-1.0, 0.0, 2.0])).astype(int),
        })  # fmt: skip
        self._connection = duckdb.connect()
        table = pa.Table.from_pandas(self.frame.assign(place=np.arange(rows)), preserve_index=False)
        self._connection.register("population", table)

    def where(self, condition: str) -> np.ndarray:
        """Rows for which the condition is true; shape (rows,)."""
        text = f"SELECT coalesce(({condition}), false) FROM population ORDER BY place"
        return np.array(self._connection.execute(text).fetchall(), dtype=bool)[:, 0]

    def draw(self, rng: np.random.Generator, rows: int, *, grouped: bool, first: int) -> pd.DataFrame:
        """Rows with replacement, or whole groups, which column ``unit`` numbers from `first` on."""
        if not grouped:
            return self.frame.iloc[rng.integers(0, len(self.frame), rows)].reset_index(drop=True)
        groups = rows // GROUP
        start = rng.integers(0, len(self.frame) // GROUP, groups)[:, None] * GROUP
        drawn = self.frame.iloc[(start + np.arange(GROUP)).ravel()].reset_index(drop=True)
        return drawn.assign(unit=np.repeat(np.arange(first, first + groups), GROUP))


@dataclass(frozen=True)
class Claim:
    """What was told of one number, and what is true of it."""

    kind: str
    low: float
    truth: float
    high: float

    @property
    def missed(self) -> bool:
        """False where nothing is defined in the population; such claims say nothing."""
        slack = 1e-6 * max(1.0, abs(self.truth))
        return not np.isnan(self.truth) and not self.low - slack <= self.truth <= self.high + slack


@dataclass
class Session:
    """One holdout and its analyst, who asks at random and whose guesses are often wrong.

    Attributes:
        seed: Of the population, the rows and the analyst.
        folder: For the ledger.
        biased: Whether the sealed rows are of another law than promised, as a protection that was removed.
        claims: Everything that was told.
        refused: Number of requests that were refused.
    """

    seed: int
    folder: str
    biased: bool = False
    claims: list[Claim] = field(default_factory=list)
    refused: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.population = Population(self.rng)
        self.grouped = bool(self.rng.random() < 0.3)
        self.trained = bool(self.rng.random() < 0.85)
        self.classes = bool(self.rng.random() < 0.6)
        self.declared = bool(self.rng.random() < 0.25)
        self.rows = int(self.rng.choice([800, 3_000, 8_000]))
        self.families = self.arrivals = 0
        self.silent: dict[str, float] = {}

    @cached_property
    def holdout(self) -> eh.Holdout:
        more = {"dependence": eh.Groups("unit")} if self.grouped else {}
        more |= {"declared": eh.texts(60), "share": 0.5} if self.declared else {}
        sealed = self.sample(self.rows)
        if self.biased:
            sealed = sealed.assign(x=np.abs(sealed.x), v=sealed.v / 2, region="N", late=1 - sealed.late)
        return eh.Holdout.create(
            f"sqlite:///{self.folder}/{self.seed}.db", "h", holdout=sealed, label=self.label, queries=500, surprises=40,
            training=self.sample(self.rows) if self.trained else None, mechanism="guess_and_check",
            confidence=CONFIDENCE, **more,
        )  # fmt: skip

    @property
    def label(self) -> str:
        return "late" if self.classes else "v"

    def sample(self, rows: int) -> pd.DataFrame:
        self.arrivals += rows
        return self.population.draw(self.rng, rows, grouped=self.grouped, first=self.arrivals)

    def play(self, steps: int = 40) -> list[Claim]:
        """Ask at random, unseal, and return all claims."""
        kinds = [kind for kind in KINDS if self.trained or kind not in (scored, compared, sliced)]
        with self.holdout:
            for _ in range(steps):
                kind = self.pick(kinds)
                try:
                    self.claims += [claim for claim in kind(self) if None not in (claim.low, claim.high)]
                except EverholdError:
                    self.refused += 1
            entries = self.holdout.unseal().to_dict()["entries"]
        for entry in entries:
            if (query := str(entry.get("query", "")).removeprefix("mean of ")) in self.silent:
                self.claims.append(Claim("unsealed", entry["low"], self.silent[query], entry["high"]))
        return self.claims

    def pick(self, some):
        return some[self.rng.integers(len(some))]

    def condition(self) -> str:
        """A text, often of two conditions, some of which are unknown for missing values."""
        at = round(float(self.rng.uniform(-1.5, 1.5)), self.pick([1, 2, 4]))
        simple = [
            f"x > {at}", f"z <= {at}", f"w > {at}", f"v > {abs(at) * 6:.1f}", "x > z", f"abs(x - z) < {abs(at) + 0.1}",
            f"g = '{self.pick('abcd')}'", f"g in ('a', '{self.pick('bcd')}')", f"region in ('N', '{self.pick('SE')}')",
            "g is null", "w is not null", f"case when w > {at} then x > 0 else z > 0 end", "late = 1",
        ]  # fmt: skip
        first, second = self.pick(simple), self.pick(simple)
        return self.pick([first, first, f"({first}) and ({second})", f"({first}) or not ({second})"])

    def conditions(self) -> list[str]:
        return list(dict.fromkeys(self.condition() for _ in range(self.rng.integers(2, 12))))

    def share(self, condition: str, among: str | None = None) -> float:
        rows = np.ones(len(self.population.frame), bool) if among is None else self.population.where(among)
        return float(self.population.where(condition)[rows].mean()) if rows.any() else np.nan

    def guess(self, truth: float, low: float = 0.0, high: float = 1.0) -> float | None:
        """None where the training rows guess; else near the truth, or nowhere near it."""
        kind = self.rng.random()
        if (self.trained and kind < 0.7) or np.isnan(truth):
            return None
        near = truth + 0.03 * (high - low) * self.rng.normal()
        return float(np.clip(near, low, high) if kind < 0.92 else self.rng.uniform(low, high))

    def model(self):
        depth, tree = int(self.rng.integers(2, 9)), DecisionTreeClassifier if self.classes else DecisionTreeRegressor
        line = LogisticRegression if self.classes else LinearRegression
        return self.pick([line(fit_intercept=bool(depth % 2)), tree(max_depth=depth, random_state=0)])

    def score(self, name: str, model, rows: np.ndarray) -> float:
        """Score of a fitted model among some rows of the population, by scikit-learn."""
        frame = self.population.frame[rows]
        labels, features = frame[self.label], frame[FEATURES]
        if not rows.any() or (self.classes and labels.nunique() < 2):
            return np.nan
        if name in CHANCE_SCORES:
            return CHANCE_SCORES[name](labels, model.predict_proba(features)[:, 1])
        return {**CLASS_SCORES, **NUMBER_SCORES}[name](labels, model.predict(features))


def claim(kind, answer, truth) -> Claim:
    return Claim(kind, answer.low, float(truth), answer.high)


def share_of_rows(session: Session):
    condition = session.condition()
    truth = session.share(condition)
    if session.rng.random() < 0.1:
        session.holdout.ask(condition, silent=True)
        session.silent[condition] = truth
        return []
    return [claim("share", session.holdout.ask(condition, guess=session.guess(truth)), truth)]


def mean_of_numbers(session: Session):
    column, low, high = session.pick([("v", 0, 50), ("v", 2, 10), ("w", -3, 3), ("w", 0, 2)])
    truth = session.population.frame[column].fillna(low).clip(low, high).mean()
    query = eh.mean(column, low=low, high=high)
    return [claim("mean", session.holdout.ask(query, guess=session.guess(truth, low, high)), truth)]


def share_among(session: Session):
    condition, among = session.condition(), session.condition()
    truth = session.share(condition, among)
    query = session.pick([eh.mean(condition, given=among), eh.ratio(f"({condition}) and ({among})", among)])
    return [claim("share among", session.holdout.ask(query, guess=session.guess(truth)), truth)]


def rate_among_errors(session: Session):
    condition, told = session.condition(), session.condition()
    wrong = session.population.where(told) != (session.population.frame["late"] == 1)
    truth = session.population.where(condition)[wrong].mean() if wrong.any() else np.nan
    query = eh.ratio(condition, eh.error(told))
    return [claim("rate among errors", session.holdout.ask(query, guess=session.guess(truth)), truth)]


def contrast(session: Session):
    condition, ratio = session.condition(), session.rng.random() < 0.5
    treated, control = (session.share(condition, f"arm = '{arm}'") for arm in "BA")
    query = (eh.risk_ratio if ratio else eh.risk_difference)(condition, arm="arm", treated="B", control="A")
    truth = (treated / control if control else np.nan) if ratio else treated - control
    return [claim("risk ratio" if ratio else "risk difference", session.holdout.ask(query), truth)]


def difference(session: Session):
    first, second = session.condition(), session.condition()
    truth = session.share(first) - session.share(second)
    guess = session.guess(truth, -1.0, 1.0)
    return [claim("difference", session.holdout.ask(eh.difference(first, second), guess=guess), truth)]


def moment(session: Session):
    frame, condition = session.population.frame, session.condition()
    v, x, event = frame.v.clip(0, 30), frame.x.clip(-3, 3), session.population.where(condition)
    query, truth = session.pick([
        (eh.variance("v", low=0, high=30), v.var(ddof=0)),
        (eh.covariance("v", condition, low=0, high=30), (v * event).mean() - v.mean() * event.mean()),
        (eh.correlation("v", "x", low=0, high=30, other_low=-3, other_high=3), np.corrcoef(v, x)[0, 1]),
    ])  # fmt: skip
    return [claim("moment", session.holdout.ask(query), truth)]


def bins(session: Session):
    edges = [0, 1, 3, 8, 51]
    told = list(session.holdout.ask(histogram("v", edges, missing=False)).answers.values())
    shares = np.histogram(session.population.frame.v, edges)[0] / len(session.population.frame)
    return [claim("bin", answer, truth) for answer, truth in zip(told[1:-1], shares, strict=True)]


def batch(session: Session):
    texts = session.conditions()
    guesses = [session.guess(session.share(text)) for text in texts]
    reveal = session.pick(["checked", "all"])
    answers = session.holdout.ask_many(texts, guesses=guesses, reveal=reveal)
    return [claim("batch", answer, session.share(text)) for text, answer in zip(texts, answers, strict=True)]


def chosen(session: Session):
    texts, best = session.conditions(), session.pick(["lowest", "highest"])
    truths = [session.share(text) for text in texts]
    told = session.holdout.ask(eh.choose(texts, best=best))
    if told.index is None:  # refused
        return []
    regret = truths[told.index] - min(truths) if best == "lowest" else max(truths) - truths[told.index]
    return [claim("choice", told, truths[told.index]), Claim("regret", 0.0, regret, told.regret)]


def first_above(session: Session):
    texts = session.conditions()
    truths = [session.share(text) for text in texts]
    told = session.holdout.ask(eh.first_above(texts, round(float(session.rng.uniform(0.2, 0.8)), 2)))
    before = truths if told.index is None else truths[: told.index]
    hit = [] if told.index is None else [Claim("first above", told.low, truths[told.index], 1.0)]
    return hit + [Claim("before the first", 0.0, truth, told.high) for truth in before]


def all_above(session: Session):
    texts = session.conditions()
    told = session.holdout.ask(eh.all_above(texts, round(float(session.rng.uniform(0.2, 0.8)), 2)))
    above = told.indices or ()  # None if refused, and then both ends are None
    ends = [(told.low, 1.0) if place in above else (0.0, told.high) for place in range(len(texts))]
    return [Claim("above", low, session.share(text), high) for text, (low, high) in zip(texts, ends, strict=True)]


def quantile(session: Session):
    at, (column, low, high) = session.pick([0.1, 0.5, 0.9]), session.pick([("x", -4, 4), ("v", 0, 50)])
    ordered = np.sort(session.population.frame[column].clip(low, high))
    told = session.holdout.ask(eh.quantile(column, at, low=low, high=high))
    return [claim("quantile", told, ordered[int(np.ceil(at * len(ordered))) - 1])]


def _scores(session: Session):
    return list({**CLASS_SCORES, **CHANCE_SCORES} if session.classes else NUMBER_SCORES)


def _slice(session: Session):
    where = session.pick([None, None, session.condition()])
    return where, session.population.where(where or "true")


def scored(session: Session):
    name, model, (where, rows) = session.pick(_scores(session)), session.model(), _slice(session)
    told = session.holdout.evaluate(model, name, features=FEATURES, where=where, cv=3)
    return [claim(name, told, session.score(name, model, rows))]


def compared(session: Session):
    name, models, (where, rows) = session.pick(_scores(session)), (session.model(), session.model()), _slice(session)
    told = session.holdout.compare(*models, name, features=FEATURES, where=where, cv=3)
    first, second = (session.score(name, model, rows) for model in models)
    return [claim(f"difference in {name}", told, first - second)]


def sliced(session: Session):
    name, model = "accuracy" if session.classes else "neg_mean_absolute_error", session.model()
    told = session.holdout.evaluate(model, name, features=FEATURES, by=["region"], cv=3)
    truths = {key: session.score(name, model, session.population.frame.region == key[0]) for key in told}
    return [claim("slice", answer, truths[key]) for key, answer in told.items()]


def listed(session: Session):
    texts = session.conditions()
    session.families += 1
    session.holdout.declare(f"listed {session.families}", eh.listed(texts))
    return [claim("listed", session.holdout.ask(text), session.share(text)) for text in texts]


def subgroups(session: Session):
    condition, (group, region) = session.condition(), (session.pick("abcd"), session.pick("NSE"))
    session.families += 1
    session.holdout.declare(f"subgroups {session.families}", eh.subgroups(["g", "region"], of=condition))
    among = f"g = '{group}' and region = '{region}'"
    return [claim("subgroup", session.holdout.ask(eh.mean(condition, given=among)), session.share(condition, among))]


def arrival(session: Session):
    rows = int(session.rng.choice([400, 2_000, 4_000]))
    training = session.sample(rows) if session.trained and session.rng.random() < 0.3 else None
    if session.seed % 2 == 0 and not session.biased:
        session.holdout.append(session.sample(rows), training=training)
    return []


def over_time(session: Session):
    condition = session.condition()
    truth = session.share(condition)
    told = session.holdout.over_time(condition, law=session.pick(["one", "windows"]), guess=session.guess(truth))
    return [Claim("over time", row["low"], truth, row["high"]) for row in told.to_pandas().dropna().to_dict("records")]


KINDS = [
    share_of_rows, share_of_rows, mean_of_numbers, share_among, rate_among_errors, contrast, difference, moment, bins,
    batch, chosen, first_above, all_above, quantile, scored, scored, scored, compared, compared, compared, sliced,
    listed, subgroups, arrival, over_time,
]  # fmt: skip
