"""Families of rows, played against the diagnosis: either the promise holds, or there was a warning.

A game draws training rows and sealed ones, diagnoses the training rows under a declaration, asks one query, and
looks whether the intervals that users get hold the truth: the one that is told, and the one that is unsealed. The
mechanism, the procedure of the query and every check are those of `Holdout.create` and `Holdout.ask`; a test plays
the same games through these calls.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from coverage_studies.open_columns import columns_of
from scipy.signal import lfilter

import everhold as eh
from everhold.dependence import DependenceModel, GaussianAR1, Groups, Independent, MarkovChain
from everhold.dependence.blocks import block_of_rows
from everhold.diagnosis.columns import UNKNOWN, OpenRows, likeness_of_rows
from everhold.diagnosis.diagnosis import diagnose_rows, warn_of_dependence, warn_of_whole_groups
from everhold.diagnosis.queries import DependenceMonitor, columns_to_test
from everhold.errors import DependenceWarning
from everhold.mechanisms import Mechanism
from everhold.mechanisms.records import Evaluations
from everhold.planning import PlanRequest, best_mechanism, tuned_mechanism
from everhold.queries.procedures import needs_of, procedure_for
from everhold.randomness import SeededNoise
from everhold.sealing.intake.files import seal_rows
from everhold.sealing.intake.request import SealRequest
from everhold.sealing.intake.splitting import by_time
from everhold.sealing.intake.structure import FileStructure
from everhold.sealing.rows.sums import cells_of, group_sums_of
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind

QUERIES, SURPRISES, CONFIDENCE = 20, 2, 0.95
Table = dict[str, np.ndarray]


@dataclass(frozen=True)
class Family:
    """Rows of one kind.

    Attributes:
        name: As the page names it.
        draw: Makes a table; columns of groups are numbered from the second argument on.
        query: Values in [0, 1] of the query of a table.
        truth: Its population value.
        label: The label column.
        declare: The declaration, given the training table.
        depends: Whether rows depend on each other more than is declared.
        together: Draws training and sealed rows at once, where one draw is split.
        asked: The same query as an expression.
    """

    name: str
    draw: Callable[[np.random.Generator, int], Table]
    query: Callable[[Table], np.ndarray]
    truth: float
    declare: Callable[[Table], DependenceModel]
    label: str | None = "y"
    depends: bool = True
    together: Callable[[np.random.Generator], tuple[Table, Table]] | None = None
    asked: str = "y = 1"

    def tables(self, seed: int) -> tuple[Table, Table]:
        """Training rows and sealed rows."""
        rng = np.random.default_rng(seed)
        return (self.draw(rng, 0), self.draw(rng, 10**6)) if self.together is None else self.together(rng)


@dataclass(frozen=True)
class Game:
    """What came of one game."""

    told: tuple[float, float]
    unsealed: tuple[float, float]
    truth: float
    warned: bool

    @property
    def told_held(self) -> bool:
        return self.told[0] <= self.truth <= self.told[1]

    @property
    def unsealed_held(self) -> bool:
        return self.unsealed[0] <= self.truth <= self.unsealed[1]

    @property
    def held(self) -> bool:
        return self.told_held and self.unsealed_held

    @property
    def fair(self) -> bool:
        return self.held or self.warned


def play(family: Family, seed: int, *, structure: bool = True) -> Game:
    """One game; a warning at the fit, at creation or at the query counts.

    Args:
        family: The rows.
        seed: Of the draws.
        structure: Whether it is looked at on which side groups lie, as at creation.
    """
    training, sealed = family.tables(seed)
    apart, whole = _sides(family) if structure else (frozenset(), ())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = declared_for(family.declare(training), sealed)
        rows = columns_of(training)
        mechanism = _chosen(
            family, model, rows=len(family.query(sealed)), training=len(family.query(training)),
            alike=_alike(rows, model, family.label),
        )  # fmt: skip
        found = diagnose_rows(rows, label=family.label, mechanism=mechanism, apart=apart, brief=True)
        warn_of_dependence(found)
        warn_of_whole_groups(whole, found)
        bets = mechanism.bets and _needs(family, mechanism, training) != "total"
        worth = _watch(rows, mechanism, family.label, whole).worth(
            family.query(training), plan=mechanism.queries, bets=bets,
            skip=frozenset(name for name in training if name in family.asked.split()),
        )  # fmt: skip
    warned = worth is not None or any(issubclass(one.category, DependenceWarning) for one in caught)
    return Game(*intervals(family, mechanism, training, sealed), family.truth, warned)


def create(family: Family, seed: int, folder: Path) -> Game:
    """The same game through the calls that users make."""
    training, sealed = family.tables(seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        holdout = eh.Holdout.create(
            folder / "study.db",
            holdout=sealed,
            training=training,
            label=family.label,
            queries=QUERIES,
            surprises=SURPRISES,
            confidence=CONFIDENCE,
            dependence=family.declare(training),
            planning=eh.Planning(allow_vacuous=True),
        )
        told = holdout.ask(family.asked)
        ends = told.low, told.high
        if holdout.mechanism.traits.unsealable:
            row = holdout.unseal().rows[0]
            ends = row["sealed_low"], row["sealed_high"]
        holdout.close()
    warned = any(issubclass(one.category, DependenceWarning) for one in caught)
    return Game((told.low, told.high), ends, family.truth, warned)


def most_alarms(family: Family) -> float:
    """The largest share of games that may warn, by what is declared."""
    if family.depends:
        return 1.0
    return 0.05 if family.name in GROUPED else 0.01


def declared_for(model: DependenceModel, sealed: Table) -> DependenceModel:
    """Groups of a column with the sizes of the sealed rows; other models as they are."""
    if not isinstance(model, Groups) or model.column is None:
        return model
    sizes = np.unique(sealed[model.column].astype(str), return_counts=True)[1]
    counted = zip(*np.unique(sizes, return_counts=True), strict=True)
    return Groups.of_counts({int(size): int(many) for size, many in counted}, column=model.column)


_NAMES: dict[str, str] = {}


def _alike(rows: OpenRows, model: DependenceModel, label: str | None) -> float | None:
    """As for `Mechanism.expected_radius`, from training rows, as at creation."""
    if model.group_column is None:
        return None
    if label in (None, model.group_column):
        return UNKNOWN
    return likeness_of_rows(rows, groups=model.group_column, label=str(label))


def _chosen(family: Family, model: DependenceModel, *, rows: int, training: int, alike: float | None) -> Mechanism:
    """The mechanism that is chosen by default; which one it is, is decided in the first game of a family."""
    if family.name not in _NAMES:
        _NAMES[family.name] = best_mechanism(replace(_request(model, rows, training), alike=alike)).name
    return _tuned(_NAMES[family.name], model, rows, training)


@lru_cache(maxsize=8)
def _tuned(name: str, model: DependenceModel, rows: int, training: int) -> Mechanism:
    return tuned_mechanism(name, _request(model, rows, training))


def _request(model: DependenceModel, rows: int, training: int) -> PlanRequest:
    return PlanRequest(
        rows=rows, queries=QUERIES, surprises=SURPRISES, confidence=CONFIDENCE, dependence=model, training_rows=training
    )


@lru_cache
def _sides(family: Family) -> tuple[frozenset[str], tuple[str, ...]]:
    """Columns whose values lie on one side each, and those of whole groups, as sealing sees them in one draw."""
    training, sealed = family.tables(0)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", DependenceWarning)  # of the fit, which every game makes anew
        found = seal_rows(Path(folder), SealRequest(holdout=sealed, training=training, label=family.label))
        with FileStructure(Path(folder), found) as structure:
            apart = structure.apart()
            declared = family.declare(training).sorting_columns
            return apart, structure.whole_groups(apart - {family.label}, declared)


def _watch(rows: OpenRows, mechanism: Mechanism, label: str | None, whole: tuple[str, ...]) -> DependenceMonitor:
    plain, declared = DependenceMonitor.of(mechanism, rows.rows), mechanism.dependence.group_column
    orders, groups = columns_to_test(rows, {label, *plain.order_by}, whole)
    ranks = {column.name: column.ranks for column in rows.columns}
    own = np.lexsort([ranks[name] for name in reversed(plain.order_by)]) if plain.order_by else np.arange(rows.rows)
    others = {name: ranks[name] for name in orders if not np.all(np.diff(ranks[name]) > 0)}
    return plain.beside(
        {name: _blocks(np.argsort(codes, kind="stable")) for name, codes in others.items()},
        {name: ranks[name] for name in groups},
        None if declared is None else ranks[declared],
        _blocks(own),
    )


def _blocks(order: np.ndarray) -> np.ndarray:
    blocks = np.empty(len(order), dtype=np.int64)
    blocks[order] = block_of_rows(len(order))
    return blocks


def _needs(family: Family, mechanism: Mechanism, training: Table) -> str:
    return needs_of(*_asked(family, mechanism, training))


def _asked(family: Family, mechanism: Mechanism, training: Table) -> tuple[Any, Mechanism, Schema]:
    columns = {name: ColumnKind.NUMBER if values.dtype.kind in "if" else ColumnKind.STRING
               for name, values in training.items()}  # fmt: skip
    schema = Schema(mechanism.rows, len(family.query(training)), columns)
    return eh.mean(family.asked).bind(schema), mechanism, schema


def intervals(
    family: Family, mechanism: Mechanism, training: Table, sealed: Table
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Told and unsealed interval of the first query, by the procedure in force."""
    bound, _, schema = _asked(family, mechanism, training)
    needs, unit = needs_of(bound, mechanism, schema), mechanism.unit
    values = [np.rint(family.query(table) * unit).astype(np.int64) for table in (training, sealed)]
    seen = [_seen(needs, each, mechanism, table, unit) for each, table in zip(values, (training, sealed), strict=True)]
    procedure = procedure_for(bound, mechanism, schema, training=seen[0])
    guess = int(values[0].sum()) * mechanism.rows // len(values[0])
    evaluation = Evaluations(
        np.array([[values[1].sum()]]), np.array([guess]), mechanism.rows, unit,
        procedures=None if procedure is None else [procedure], seen=None if procedure is None else [seen[1]],
    )  # fmt: skip
    noise = SeededNoise(0)
    _, replies = mechanism.answer(mechanism.start(noise), evaluation, noise)
    told = float(replies.lows[0]), float(replies.highs[0])
    return told, (float(replies.sealed[0, 1]), float(replies.sealed[0, 2])) if mechanism.traits.unsealable else told


def _seen(needs: str, values: np.ndarray, mechanism: Mechanism, table: Mapping[str, np.ndarray], unit: int) -> Any:
    if needs == "total":
        return None
    if needs == "cells":
        return cells_of(values, unit=unit)
    column = mechanism.dependence.group_column
    codes = np.unique(table[str(column)].astype(str), return_inverse=True)[1]
    sums = np.zeros(int(codes.max()) + 1, dtype=np.int64)
    np.add.at(sums, codes, values)
    return group_sums_of(np.bincount(codes), sums, unit=unit)


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
        "t": start + np.arange(rows),
        "size": rng.normal(size=rows),
        "y": _coin(rng, age / 199.0),
    }


def _regime(rng: np.random.Generator, start: int, rows: int = 6_000) -> Table:
    return {"t": start + np.arange(rows), "y": _coin(rng, np.where(_switching(rng, rows, 0.001) == 1, 0.75, 0.25))}


def _hidden(rng: np.random.Generator, start: int, rows: int = 6_000) -> Table:
    """A slow regime in a column that is not the label, in a shuffled file."""
    table = {"t": start + np.arange(rows), "x": _regime(rng, start, rows)["y"], "y": rng.integers(0, 2, rows)}
    order = rng.permutation(rows)
    return {name: column[order] for name, column in table.items()}


def _noisy(rng: np.random.Generator, start: int, rows: int = 6_000) -> Table:
    return {"t": start + np.arange(rows), "y": _autoregression(rng, rows, 0.998) + 1.7 * rng.normal(size=rows)}


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
    return {"t": start + np.arange(rows), "momentum": momentum, "y": (returns[19:] > 0).astype(int)}


def _weather(rng: np.random.Generator, start: int, rows: int = 4_000) -> Table:
    return {"t": start + np.arange(rows), "y": _switching(rng, rows, 0.1)}


def _named(prefix: str, codes: np.ndarray) -> np.ndarray:
    return np.array([f"{prefix}{code}" for code in codes.tolist()], dtype=object)


def _logistic(scores: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-scores))


def _schools(rng: np.random.Generator, start: int, *, spread: float = 0.4) -> Table:
    """30 whole schools of 16 classes of 25 pupils; schools and classes differ."""
    school, group = np.repeat(np.arange(30), 400), np.repeat(np.arange(480), 25)
    scores = spread * rng.normal(size=30)[school] + 0.2 * rng.normal(size=480)[group]
    return {
        "school": _named("s", start + school),
        "class": _named("c", start + group),
        "y": _coin(rng, _logistic(scores)),
    }


def _single_customers(rng: np.random.Generator, start: int, *, shape: float = 0.15) -> Table:
    """1,900 customers of one row and 5 whole ones of 40, in any order."""
    customer = np.concatenate([np.arange(1_900), 1_900 + np.repeat(np.arange(5), 40)])
    order = rng.permutation(len(customer))
    return {"customer": (start + customer)[order], "y": _coin(rng, rng.beta(shape, shape, 1_905)[customer])[order]}


def _subjects(rng: np.random.Generator, start: int) -> Table:
    """40 whole subjects of 40 rows with as many labels of each kind; a model is wrong about some of them more often."""
    subject, y = np.repeat(np.arange(40), 40), np.tile([0, 1], 800)
    wrong = _coin(rng, rng.beta(1.0, 3.0, 40)[subject])
    order = rng.permutation(len(subject))
    return {
        "subject": _named("p", start + subject)[order],
        "y": y[order],
        "says": np.where(wrong == 1, 1 - y, y)[order],
    }


def _patients(rng: np.random.Generator, start: int) -> Table:
    """Patients with some visits each, with attributes of patients and of visits that both sides have."""
    patient = np.repeat(np.arange(1_000), rng.geometric(0.3, 1_000))
    scores = rng.normal(size=1_000)[patient]
    return {
        "patient": start + patient,
        "age": rng.integers(18, 90, 1_000)[patient],
        "city": _named("v", rng.integers(0, 60, 1_000)[patient]),
        "doctor": _named("d", rng.integers(0, 80, len(patient))),
        "drug": _named("m", rng.integers(0, 900, len(patient))),
        "y": _coin(rng, _logistic(scores)),
    }


def _with_ids(rng: np.random.Generator, start: int, rows: int = 4_000) -> Table:
    """Independent rows with ids, and with columns of many levels."""
    return {
        "id": start + rng.permutation(rows),
        "code": _named("x", start + rng.permutation(rows)),
        "product": _named("k", rng.integers(0, 1_500, rows)),
        "street": rng.integers(0, 100_000, rows),
        "y": rng.integers(0, 2, rows),
    }


def _days(rng: np.random.Generator, *, memory: float) -> tuple[Table, Table]:
    """6,000 days of a noisy sign of something slow, split in time with a gap of 5 days into blocks of 20."""
    day = np.arange(6_000)
    state = _autoregression(rng, 6_000, math.exp(-1.0 / memory))
    parts = by_time(day.astype(float), 0.5, gap=5.0, block=20.0)
    table = {"day": day, "block": parts.groups, "y": _coin(rng, _logistic(1.5 * state))}
    training, sealed = ({name: column[parts.side == side] for name, column in table.items()} for side in (0, 1))
    return training, sealed


def _label(table: Table) -> np.ndarray:
    return np.asarray(table["y"] > 0.5 if table["y"].dtype.kind == "i" else table["y"] > 0.0).astype(float)


def _momentum(table: Table) -> np.ndarray:
    return (table["momentum"] > 0.0).astype(float)


def _right(table: Table) -> np.ndarray:
    return (table["says"] == table["y"]).astype(float)


def _nothing(_: Table) -> DependenceModel:
    return Independent()


def _chain(table: Table) -> DependenceModel:
    return MarkovChain.fit(table, order_by="t", state="y", gap=4_000)


def _gaussian(table: Table) -> DependenceModel:
    return GaussianAR1.fit(table, order_by="t", state="y", gap=4_000)


def _advised(table: Table) -> DependenceModel:
    """The advice of the diagnosis where nothing is declared: long blocks as groups."""
    rows = len(table["t"])
    mechanism = _tuned("guess_and_check", Independent(), rows, rows)
    suspects = diagnose_rows(columns_of(table), label="y", mechanism=mechanism, brief=True).suspects
    return suspects[0].model if suspects else Independent()


FAMILIES = (
    Family("independent rows", _independent, _label, 0.5, _nothing, depends=False),
    Family("independent rows, a fitted chain", _independent, _label, 0.5, _chain, depends=False),
    Family("a chain, fitted", _weather, _label, 0.5, _chain, depends=False),
    Family("a chain, nothing declared", _weather, _label, 0.5, _nothing),
    Family("hidden regime, nothing declared", _regime, _label, 0.5, _nothing),
    Family("hidden regime, a chain fitted to the label", _regime, _label, 0.5, _chain),
    Family("hidden regime of another column, shuffled file", _hidden, lambda t: t["x"].astype(float), 0.5, _nothing,
           asked="x = 1"),
    Family("autoregression and noise, fitted", _noisy, _label, 0.5, _gaussian, asked="y > 0"),
    Family("100 large clusters, correlation 0.2",
           lambda g, s: _clusters(g, s, groups=100, size=200, shape=2.0), _label, 0.5, _nothing),
    Family("groups inside villages, groups declared", _villages, _label, 0.5, lambda _: Groups("house")),
    Family("groups inside villages without a name", _unnamed, _label, 0.5, lambda _: Groups("house")),
    Family("whole schools, classes declared", _schools, _label, 0.5, lambda _: Groups("class")),
    Family("short blocks of a long memory", _independent, _label, 0.5, lambda _: Groups("block"),
           together=lambda rng: _days(rng, memory=80.0)),
    Family("customers of one row, and 5 of 40", _single_customers, _label, 0.5, _nothing),
    Family("errors by subject, labels balanced", _subjects, _right, 0.75, _nothing, asked="says = y"),
    Family("momentum of independent returns", _returns, _momentum, 0.5, _nothing, asked="momentum > 0"),
    Family("momentum, a chain fitted to the label", _returns, _momentum, 0.5, _chain, asked="momentum > 0"),
    Family("independent rows, ids and many levels", _with_ids, _label, 0.5, _nothing, depends=False),
    Family("whole schools, schools declared", _schools, _label, 0.5, lambda _: Groups("school"), depends=False),
    Family("classes of one population, classes declared",
           lambda g, s: {n: c for n, c in _schools(g, s, spread=0.0).items() if n != "school"},
           _label, 0.5, lambda _: Groups("class"), depends=False),
    Family("customers, customers declared", _single_customers, _label, 0.5, lambda _: Groups("customer"),
           depends=False),
    Family("errors by subject, subjects declared", _subjects, _right, 0.75, lambda _: Groups("subject"),
           depends=False, asked="says = y"),
    Family("patients, patients declared", _patients, _label, 0.5, lambda _: Groups("patient"), depends=False),
    Family("houses of one town, houses declared",
           lambda g, s: {"house": s + np.repeat(np.arange(2_000), 2),
                         "y": _coin(g, g.beta(0.5, 0.5, 2_000)[np.repeat(np.arange(2_000), 2)])},
           _label, 0.5, lambda _: Groups("house"), depends=False),
    Family("long blocks of a short memory, blocks declared", _independent, _label, 0.5,
           lambda _: Groups("block"), depends=False, together=lambda rng: _days(rng, memory=0.7)),
)  # fmt: skip
GROUPED = {family.name for family in FAMILIES if not family.depends and " declared" in family.name}
ADVISED = (
    Family("hidden regime, what is advised declared", _regime, _label, 0.5, _advised),
    Family("autoregression and noise, what is advised declared", _noisy, _label, 0.5, _advised, asked="y > 0"),
    Family("momentum, what is advised declared", _returns, _momentum, 0.5, _advised, asked="momentum > 0"),
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
