"""Synthetic tables from the budget: what they promise, what the ledger keeps of them, and what they refuse."""

import json

import numpy as np
import pytest

import everhold as eh
from everhold.certificate import verify_certificate
from everhold.errors import QueryRejected
from everhold.ledger.store import all_entries
from everhold.randomness import SeededNoise
from everhold.values.evaluation import UNIT
from everhold.values.universe import BinnedColumn, ListedColumn, QueryFamily, QueryMatrix, Universe
from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget
from everhold_privacy.queries.synthesis import SynthesisPurchase, SynthesisQuery
from everhold_privacy.synthetic import BLR, EXCESSES, MWEM, small_table_error

ROWS = 20_000
UNIVERSE = Universe((ListedColumn("carrier", ("AA", "UA")), BinnedColumn("delay", (-40, 0, 20, 60))))
TINY = Universe((ListedColumn("carrier", ("AA", "UA")),))


def rows(seed=0):
    rng = np.random.default_rng(seed)
    delay = rng.normal(10.0, 20.0, ROWS)
    return {
        "delay": delay, "late": (delay > 15).astype(int),
        "carrier": rng.choice(np.array(["AA", "UA", "Z\ud7ff9"]), ROWS).astype(object),
    }  # fmt: skip


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthesis")
    with eh.Holdout.create(
        folder / "s.db", "flights", holdout=rows(), label="late", mechanism="privacy_budget", queries=200
    ) as holdout:
        yield holdout


def synthesis(universe=UNIVERSE, width=1, **wanted):
    return SynthesisQuery(universe, universe.marginals(width), **{"price": 500, **wanted})


def released(holdout, query):
    return next(
        entry for entry in all_entries(holdout._executor.ledger) if entry.query == query
    )  # the ledger as it is on disk


def purchase(mechanism, maker, price):
    alpha = maker.allowance(mechanism.own_exceedance)
    return SynthesisPurchase(maker, alpha, price, maker.queries.fingerprint(), mechanism)


@pytest.mark.parametrize("query", [synthesis(width=2), synthesis(TINY, method="blr")])
def test_a_table_is_bought_once_and_queried_for_ever(study, query):
    before, quoted = study.remaining, study.quote(query)
    answer = study.ask(query)
    assert (quoted.charged_at_most, quoted.radius) == (answer.charged, answer.within) == (500, answer.within)
    assert study.remaining == {"queries": before["queries"] - 1, "credits": before["credits"] - 500}
    again = study.ask(query)
    assert (again.charged, again.repeated) == (0, True)
    assert answer.table.radius == answer.within < 0.75
    truth = query.queries.means(query.universe.histogram(rows()) / ROWS)
    assert np.abs(answer.table.means(query.queries) - truth).max() <= answer.within
    assert list(answer.to_dict())[:4] == ["method", "cells", "queries", "within"]
    json.dumps(answer.to_dict(), allow_nan=False)


@pytest.mark.parametrize("query", [synthesis(width=2), synthesis(TINY, method="blr")])
def test_the_ledger_keeps_what_was_released_and_the_table_comes_out_of_it_to_the_bit(study, query):
    first = study.ask(query)
    entry = released(study, first.query)
    assert len(json.dumps(entry.answer)) + len(json.dumps(entry.description)) < 20_000
    assert "weights" not in entry.answer
    again = query.purchase(study._executor.compiler).result(
        json.loads(json.dumps(entry.answer)), charged=0, remaining={}, query="", repeated=True, confidence=0.95
    )
    np.testing.assert_array_equal(again.table.weights, first.table.weights)
    np.testing.assert_array_equal(study.ask(query).table.weights, first.table.weights)


def test_the_price_is_what_the_curve_of_the_maker_says():
    mechanism = PrivacyBudget.tuned(rows=ROWS, queries=40)
    for price in (1, 100, 3_000):
        paid = price / mechanism.credits * mechanism.curve().rho
        drafts, counts = synthesis(width=2)._drafts(mechanism, price, UNIVERSE.marginals(2))
        assert all(0.999 * paid < drafts(count).curve().rho <= paid for count in counts)
        drafts, counts = synthesis(TINY, method="blr")._drafts(mechanism, price, TINY.marginals(1))
        assert all(0.999 * paid < drafts(count).epsilon ** 2 / 8 <= paid for count in counts)


def least_exceedance(maker, alpha):
    """The least that the proof gives for this alpha, over a grid of its own."""
    choice = maker.selection.exceedance
    if isinstance(maker, BLR):
        small = small_table_error(queries=len(maker.queries), cells=maker.universe.cells, size=maker.size)
        return choice(alpha - small, candidates=maker.candidates, steps=maker.rows * maker.size * UNIT)
    spread = maker.scale**2 * EXCESSES
    learned = np.sqrt(np.log(maker.universe.cells) / (2 * maker.rounds) + spread)
    added = maker.scale**2 * maker.excess() / (2 * learned)
    return min(
        first + choice(alpha - part, candidates=len(maker.queries), steps=maker.steps)
        for first, part in zip(added, learned, strict=True)
        if part <= alpha
    )


@pytest.mark.parametrize("exceedance", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize(
    "maker",
    [
        MWEM.concentrated(rho=1e-3, rounds=30, rows=ROWS, universe=UNIVERSE, queries=UNIVERSE.marginals(2)),
        BLR(epsilon=0.05, size=50, rows=ROWS, universe=TINY, queries=TINY.marginals(1)),
    ],
    ids=["mwem", "blr"],
)
def test_the_allowance_keeps_the_exceedance_and_is_hardly_too_large(maker, exceedance):
    alpha = maker.allowance(exceedance)
    assert least_exceedance(maker, alpha) <= exceedance * (1 + 1e-6)
    assert least_exceedance(maker, 0.97 * alpha) > exceedance


def test_an_exceedance_that_nothing_keeps_allows_everything():
    maker = BLR(epsilon=0.05, size=1, rows=20, universe=TINY, queries=TINY.marginals(1))
    assert maker.allowance(1e-300) == 1.0


def largest_errors(mechanism, maker, population, price, *, runs):
    """The worst query of the family in each run: no analyst who chooses among them can do worse."""
    queries, errors = maker.queries, []
    bought = purchase(mechanism, maker, price)
    for run in range(runs):
        histogram = np.random.default_rng(run).multinomial(mechanism.rows, population)
        drawn = bought.answer(mechanism, eh.mechanisms.State(), histogram, SeededNoise(run))
        means = queries.means(maker.learned(drawn.answer["released"]))
        errors.append(np.abs(means - queries.means(population)).max())
    return np.array(errors), drawn.answer["within"]


def test_the_promise_holds_for_a_known_population_and_a_tenth_of_it_would_not():
    mechanism = PrivacyBudget.tuned(rows=ROWS, queries=40, confidence=0.9)
    population = np.array([0.5, 0.02, 0.02, 0.02, 0.02, 0.02, 0.1, 0.1, 0.1, 0.05, 0.03, 0.02])
    rho = 2_000 / mechanism.credits * mechanism.curve().rho
    maker = MWEM.concentrated(rho=rho, rounds=20, rows=ROWS, universe=UNIVERSE, queries=UNIVERSE.marginals(2))
    errors, within = largest_errors(mechanism, maker, population, 2_000, runs=30)
    assert within < 0.5
    assert np.all(errors <= within)
    assert np.mean(errors > within / 10) > 0.5


def test_the_promise_of_blr_holds_and_a_table_of_another_population_breaks_it():
    mechanism = PrivacyBudget.tuned(rows=ROWS, queries=40, confidence=0.9)
    rho = 500 / mechanism.credits * mechanism.curve().rho
    maker = BLR(epsilon=(8 * rho) ** 0.5, size=60, rows=ROWS, universe=TINY, queries=TINY.marginals(1))
    errors, within = largest_errors(mechanism, maker, np.array([0.7, 0.2, 0.1]), 500, runs=30)
    assert within < 0.3
    assert np.all(errors <= within)
    assert np.abs(np.array([0.7, 0.2, 0.1]) - 1 / 3).max() > within


def test_unlisted_values_are_counted_and_never_raise(tmp_path):
    strange = {
        "carrier": np.array(["AA", None, "", "other?", "UA"] * 400, dtype=object),
        "delay": np.array([np.nan, np.inf, -np.inf, 1e300, 5.0] * 400),
    }
    with eh.Holdout.create(
        tmp_path / "s.db", "odd", holdout=strange, mechanism="privacy_budget", queries=5, seed=1
    ) as holdout:
        answer = holdout.ask(synthesis(width=2, price=450))
        assert answer.table.weights.sum() == pytest.approx(1.0)
        assert answer.table.simulated
        assert holdout.remaining["credits"] == 50


def test_the_certificate_and_the_ledger_know_it(study, tmp_path):
    answer = study.ask(synthesis(width=2))
    (line,) = [line for line in study.transcript().to_rows() if line["query"] == answer.query]
    assert line["asked"] == "a synthetic table of 12 cells for 12 queries about carrier, delay"
    assert (line["value"], line["within"], line["source"]) == (None, answer.within, "holdout")
    study.certificate().save(tmp_path / "c.json")
    assert verify_certificate(tmp_path / "c.json").ok


class MadeLater(QueryFamily):
    """The queries of another family, asked for block by block."""

    def __init__(self, family):
        self.count, self.cells, self.block = family.count, family.cells, family.block

    block = None


def test_the_same_queries_have_the_same_identity_however_they_are_kept(study):
    family = UNIVERSE.marginals(1)
    made = MadeLater(family)
    other = QueryMatrix(family.block(0, len(family))[::-1])
    queries = [
        SynthesisQuery(UNIVERSE, kept, price=500).purchase(study._executor.compiler).query
        for kept in (family, made, other)
    ]
    assert queries[0] == queries[1] != queries[2]


class Nosy(ListedColumn):
    """A column that looks at what it must not."""


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (SynthesisQuery("cells", UNIVERSE.marginals(1)), "universe is a str"),
        (SynthesisQuery(UNIVERSE, "all"), "queries is a str"),
        (SynthesisQuery(UNIVERSE, TINY.marginals(1)), "3 cells, and the universe has 12"),
        (synthesis(Universe((ListedColumn("speed", ("slow",)),))), "no column 'speed'"),
        (synthesis(Universe((ListedColumn("delay", ("early", "late")),))), "lists other values for it"),
        (synthesis(Universe((ListedColumn("carrier", (1, 2)),))), "lists other values for it"),
        (synthesis(Universe((BinnedColumn("carrier", (1, 2)),))), "lists other values for it"),
        (synthesis(Universe((Nosy("carrier", ("AA",)),))), "lists other values for it"),
        (synthesis(Universe((ListedColumn("carrier", ("\ud800",)),))), "cannot be written to the ledger"),
        (synthesis(method="magic"), "method is 'magic'"),
        (synthesis(TINY, method="blr", rounds=3), "'blr' without rounds"),
        (synthesis(rounds=0), "rounds is 0"),
        (synthesis(rounds=True), "rounds is True"),
        (synthesis(rounds=10**6), "rounds is 1000000"),
        (synthesis(price=0), "price is 0"),
        (synthesis(Universe((ListedColumn("carrier", tuple(f"{i:0>200}" for i in range(9_000))),))), "of the ledger"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_what_cannot_be_asked_costs_nothing(study, query, reason):
    before = study.remaining
    with pytest.raises(QueryRejected, match=reason):
        study.ask(query)
    assert study.remaining == before


def test_a_table_that_cannot_be_paid_is_refused_for_nothing(study):
    before = study.remaining
    answer = study.ask(synthesis(price=10**6))
    assert (answer.table, answer.within, answer.charged) == (None, None, 0)
    assert study.remaining == before
    assert answer.to_dict()["cells"] is None
