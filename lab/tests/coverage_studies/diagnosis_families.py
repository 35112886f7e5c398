"""Families of rows, played against the diagnosis: either the promise holds, or there was a warning.

A game draws training rows and sealed ones that are independent of them, diagnoses the training rows under a
declaration, asks one question, and looks whether the interval that the declaration gives holds the truth.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from everhold.dependence import DependenceModel, GaussianAR1, Groups, Independent, MarkovChain
from everhold.dependence.stretches import stretch_of_rows
from everhold.diagnosis.diagnosis import diagnose_rows
from everhold.diagnosis.questions import LEVEL, Watch
from everhold.errors import DependenceWarning
from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold_lab.audit.open_rows import columns_of

QUERIES, OVERFITS, CONFIDENCE = 20, 2, 0.95
Table = dict[str, np.ndarray]


@dataclass(frozen=True)
class Family:
    """Rows of one kind.

    Attributes:
        name: As the page names it.
        draw: Makes a table; columns of groups are numbered from the second argument on.
        question: Values in [0, 1] of the question of a table.
        truth: Its population value.
        label: The label column.
        declare: The declaration, given the training table and how many sealed rows there are.
        depends: Whether rows depend on each other more than is declared.
    """

    name: str
    draw: Callable[[np.random.Generator, int], Table]
    question: Callable[[Table], np.ndarray]
    truth: float
    declare: Callable[[Table], DependenceModel]
    label: str | None = "y"
    depends: bool = True


@dataclass(frozen=True)
class Game:
    """What came of one game."""

    held: bool
    warned: bool

    @property
    def fair(self) -> bool:
        return self.held or self.warned


def play(family: Family, seed: int) -> Game:
    """One game; a warning at the fit, at creation or at the question counts."""
    rng = np.random.default_rng(seed)
    training, sealed = family.draw(rng, 0), family.draw(rng, 10**6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = declared_for(family.declare(training), sealed)
    rows = len(next(iter(sealed.values())))
    mechanism = GuessAndCheck.tuned(
        rows=rows, queries=QUERIES, overfits=OVERFITS, confidence=CONFIDENCE, dependence=model
    )
    found = diagnose_rows(columns_of(training), label=family.label, mechanism=mechanism, brief=True)
    warned = any(issubclass(one.category, DependenceWarning) for one in caught)
    warned |= bool(found.suspects) or _watched(family, training, mechanism)
    low, high = interval(mechanism, float(family.question(sealed).mean()))
    return Game(held=low <= family.truth <= high, warned=warned)


def declared_for(model: DependenceModel, sealed: Table) -> DependenceModel:
    """Groups of a column with the sizes of the sealed rows; other models as they are."""
    if not isinstance(model, Groups) or model.column is None:
        return model
    sizes = np.unique(sealed[model.column], return_counts=True)[1]
    counted = zip(*np.unique(sizes, return_counts=True), strict=True)
    return Groups.of_counts({int(size): int(many) for size, many in counted}, column=model.column)


def interval(mechanism: GuessAndCheck, average: float) -> tuple[float, float]:
    """What the mechanism excludes least of for the first question, had it released the average itself."""
    seen = np.array([average])
    low, high = mechanism.not_excluded([mechanism.procedure], seen, seen, mechanism.nats([1], 0, 0.0))
    return float(low[0]), float(high[0])


def _watched(family: Family, training: Table, mechanism: GuessAndCheck) -> bool:
    values = family.question(training)
    watch = Watch.of(mechanism, len(values))
    order = np.lexsort([training[name] for name in reversed(watch.order_by)]) if watch.order_by else slice(None)
    sums = np.bincount(stretch_of_rows(len(values)), weights=values[order])[None, :]
    return bool(watch.seen(sums, unit=1, level=LEVEL / QUERIES))


def _coin(rng: np.random.Generator, chance: np.ndarray) -> np.ndarray:
    return (rng.random(len(chance)) < chance).astype(int)


def _switching(rng: np.random.Generator, rows: int, flip: float) -> np.ndarray:
    flips = (rng.random(rows) < flip).astype(int)
    flips[0] = rng.integers(0, 2)
    return np.bitwise_xor.accumulate(flips)


def _autoregression(rng: np.random.Generator, rows: int, correlation: float) -> np.ndarray:
    shocks = rng.normal(size=rows) * math.sqrt(1.0 - correlation**2)
    shocks[0] = rng.normal()
    return np.asarray(lfilter([1.0], [1.0, -correlation], shocks))


def _independent(rng: np.random.Generator, start: int, rows: int = 4_000) -> Table:
    age = rng.integers(0, 200, rows)
    return {
        "zip": rng.integers(0, 600, rows).astype(str).astype(object),
        "age": age,
        "t": np.arange(rows),
        "size": rng.normal(size=rows),
        "y": _coin(rng, age / 199.0),
    }


def _regime(rng: np.random.Generator, start: int, rows: int = 6_000) -> Table:
    return {"t": np.arange(rows), "y": _coin(rng, np.where(_switching(rng, rows, 0.001) == 1, 0.75, 0.25))}


def _hidden(rng: np.random.Generator, start: int, rows: int = 6_000) -> Table:
    """A slow regime in a column that is not the label, in a shuffled file."""
    table = {"t": np.arange(rows), "x": _regime(rng, start, rows)["y"], "y": rng.integers(0, 2, rows)}
    order = rng.permutation(rows)
    return {name: column[order] for name, column in table.items()}


def _noisy(rng: np.random.Generator, start: int, rows: int = 6_000) -> Table:
    return {"t": np.arange(rows), "y": _autoregression(rng, rows, 0.998) + 1.7 * rng.normal(size=rows)}


def _clusters(rng: np.random.Generator, start: int, *, groups: int, size: int, shape: float) -> Table:
    group = np.repeat(np.arange(groups), size)
    order = rng.permutation(len(group))
    return {"group": (start + group)[order], "y": _coin(rng, rng.beta(shape, shape, groups)[group])[order]}


def _villages(rng: np.random.Generator, start: int) -> Table:
    village, house = np.repeat(np.arange(400), 20), np.repeat(np.arange(4_000), 2)
    chance = rng.beta(0.5, 0.5, 400)[village]
    return {"village": start + village, "house": 10 * start + house, "y": _coin(rng, chance)}


def _unnamed(rng: np.random.Generator, start: int) -> Table:
    """The same villages without a column that names them."""
    return {name: column for name, column in _villages(rng, start).items() if name != "village"}


def _returns(rng: np.random.Generator, start: int, rows: int = 4_000) -> Table:
    returns = rng.normal(size=rows + 19)
    momentum = np.convolve(returns, np.ones(20), mode="valid")
    return {"t": np.arange(rows), "momentum": momentum, "y": (returns[19:] > 0).astype(int)}


def _weather(rng: np.random.Generator, start: int, rows: int = 4_000) -> Table:
    return {"t": np.arange(rows), "y": _switching(rng, rows, 0.1)}


def _label(table: Table) -> np.ndarray:
    return np.asarray(table["y"] > 0.5 if table["y"].dtype.kind == "i" else table["y"] > 0.0).astype(float)


def _momentum(table: Table) -> np.ndarray:
    return (table["momentum"] > 0.0).astype(float)


def _nothing(_: Table) -> DependenceModel:
    return Independent()


def _chain(table: Table) -> DependenceModel:
    return MarkovChain.fit(table, order_by="t", state="y", gap=4_000)


def _gaussian(table: Table) -> DependenceModel:
    return GaussianAR1.fit(table, order_by="t", state="y", gap=4_000)


def _advised(table: Table) -> DependenceModel:
    """What the diagnosis advises where nothing is declared: long stretches as groups."""
    rows = len(table["t"])
    mechanism = GuessAndCheck.tuned(rows=rows, queries=QUERIES, overfits=OVERFITS, confidence=CONFIDENCE)
    suspects = diagnose_rows(columns_of(table), label="y", mechanism=mechanism, brief=True).suspects
    return suspects[0].model if suspects else Independent()


FAMILIES = (
    Family("independent rows", _independent, _label, 0.5, _nothing, depends=False),
    Family("independent rows, a fitted chain", _independent, _label, 0.5, _chain, depends=False),
    Family("a chain, fitted", _weather, _label, 0.5, _chain, depends=False),
    Family("a chain, nothing declared", _weather, _label, 0.5, _nothing),
    Family("hidden regime, nothing declared", _regime, _label, 0.5, _nothing),
    Family("hidden regime, a chain fitted to the label", _regime, _label, 0.5, _chain),
    Family("hidden regime of another column, shuffled file", _hidden, lambda t: t["x"].astype(float), 0.5, _nothing),
    Family("autoregression and noise, fitted", _noisy, _label, 0.5, _gaussian),
    Family("100 large clusters, correlation 0.2",
           lambda g, s: _clusters(g, s, groups=100, size=200, shape=2.0), _label, 0.5, _nothing),
    Family("groups inside villages, groups declared", _villages, _label, 0.5, lambda _: Groups("house")),
    Family("groups inside villages without a name", _unnamed, _label, 0.5, lambda _: Groups("house")),
    Family("momentum of independent returns", _returns, _momentum, 0.5, _nothing),
    Family("momentum, a chain fitted to the label", _returns, _momentum, 0.5, _chain),
)  # fmt: skip
ADVISED = (
    Family("hidden regime, what is advised declared", _regime, _label, 0.5, _advised),
    Family("autoregression and noise, what is advised declared", _noisy, _label, 0.5, _advised),
    Family("momentum, what is advised declared", _returns, _momentum, 0.5, _advised),
)
"""Here the promise has to hold, whether there is a warning or not."""


def _dated(write: Callable[[np.ndarray], list[str]]) -> Callable[[np.random.Generator, int], Table]:
    """The hidden regime with days as text in place of numbers, in a shuffled file."""

    def draw(rng: np.random.Generator, start: int) -> Table:
        table = _hidden(rng, start)
        days = np.datetime64("2001-01-01") + table.pop("t")
        return {"day": np.array(write(days), dtype=object), **table}

    return draw


def _iso(days: np.ndarray) -> list[str]:
    return days.astype(str).tolist()


def _day_first(days: np.ndarray) -> list[str]:
    return [f"{day[8:]}/{day[5:7]}/{day[:4]}" for day in _iso(days)]


def _field(rng: np.random.Generator, start: int, rows: int = 4_000, bumps: int = 60) -> Table:
    """Places on a map whose hills are drawn anew; the label follows the hills."""
    places, tops, heights = rng.random((rows, 2)), rng.random((bumps, 2)), rng.normal(size=bumps)
    squares = np.sum((places[:, None, :] - tops[None, :, :]) ** 2, axis=2)
    height = np.exp(-squares / (2.0 * 0.12**2)) @ heights
    chance = 0.5 + 0.45 * np.tanh(1.5 * height)
    return {"lat": 40.0 + places[:, 0], "lon": 10.0 + places[:, 1], "y": _coin(rng, chance)}


def _copies(rng: np.random.Generator, start: int, originals: int = 1_000, copies: int = 4) -> Table:
    """Measurements and labels of originals, each copied with a little noise, in a shuffled file."""
    original = rng.permutation(np.repeat(np.arange(originals), copies))
    measured = rng.normal(size=(originals, 5))[original] + 0.01 * rng.normal(size=(len(original), 5))
    return {**{f"m{place}": measured[:, place] for place in range(5)}, "y": rng.integers(0, 2, originals)[original]}


def _rated(rng: np.random.Generator, start: int, *, users: int = 200, rows: int = 20, spread: float = 0.5) -> Table:
    """Users who rate the same 25 items; users and items have luck of their own."""
    user, item = np.repeat(np.arange(users), rows), rng.integers(0, 25, users * rows)
    luck = rng.normal(size=users)[user] + spread * rng.normal(size=25)[item]
    names = np.array([f"item {number}" for number in range(25)], dtype=object)
    return {"user": start + user, "item": names[item], "y": _coin(rng, 1.0 / (1.0 + np.exp(-1.5 * luck)))}


def _plain(rng: np.random.Generator, start: int) -> Table:
    """Independent rows with places, measurements, dates as text and items that mean nothing."""
    rows = 4_000
    days = np.datetime64("2001-01-01") + rng.integers(0, 3_000, rows)
    return {
        "lat": rng.random(rows), "lon": rng.random(rows), "a": rng.normal(size=rows), "b": rng.normal(size=rows),
        "day": np.array(_iso(days), dtype=object), "item": rng.integers(0, 25, rows), "y": rng.integers(0, 2, rows),
    }  # fmt: skip


def _regime_of_x(table: Table) -> np.ndarray:
    return table["x"].astype(float)


WITHOUT_A_NUMBER = (
    Family("hidden regime, ISO dates as text, shuffled file", _dated(_iso), _regime_of_x, 0.5, _nothing),
    Family("hidden regime, days first as text, shuffled file", _dated(_day_first), _regime_of_x, 0.5, _nothing),
    Family("places on a map, nothing declared", _field, _label, 0.5, _nothing),
    Family("four noisy copies of each row, nothing declared", _copies, _label, 0.5, _nothing),
    Family("users by items, users declared", _rated, _label, 0.5, lambda _: Groups("user")),
    Family("users by items without an effect, users declared", lambda g, s: _rated(g, s, spread=0.0), _label, 0.5,
           lambda _: Groups("user"), depends=False),
    Family("independent rows with places, dates as text and items", _plain, _label, 0.5, _nothing, depends=False),
)  # fmt: skip
"""Dependence that no column of whole numbers or of times shows by itself."""
