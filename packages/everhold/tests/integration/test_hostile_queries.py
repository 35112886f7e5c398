"""Queries that do what they must not: nothing of it changes an identity, a later answer, or what is told."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
from holdout_samples import ROWS, copied, rows

from everhold import QueryRejected, error, low_sensitivity, mean, risk
from everhold.sealing.rows.code_trials import values_or_none
from everhold.values.universe import ListedColumn, QueryMatrix, Universe
from everhold_privacy.queries.choice import AboveQuery, PrivateChoiceQuery, PrivateQuantileQuery, private_choose
from everhold_privacy.queries.gradient import gradient
from everhold_privacy.queries.synthesis import SynthesisQuery


@pytest.fixture
def holdout(tmp_path):
    sealed = rows(0)
    sealed["delay"][7] = 1e6
    with copied(tmp_path, holdout=sealed, mechanism="privacy_budget", queries=30) as made:
        yield made


def is_sealed(table):
    return len(table["delay"]) > 0 and bool((table["delay"] == 1e6).any())


def after(change):
    """Fine on public rows; on sealed ones it changes its table first and then fails."""

    def function(table):
        if is_sealed(table):
            change(table)
            raise ValueError("found 1000000")
        return np.zeros(len(table["delay"]))

    return function


CHANGES = {
    "adds a number": lambda table: table.__setitem__("scale", 3.0),
    "adds nothing": lambda table: table.__setitem__("delay", None),
    "takes all": lambda table: table.clear(),
    "opens a column": lambda table: table["delay"].setflags(write=True),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_function_that_changes_its_table_and_fails_tells_nothing(holdout, change):
    function = after(CHANGES[change])
    assert holdout.ask(mean(function)).charged == 100
    assert holdout.ask(gradient(lambda t: function(t)[:, None], dimension=1, clip=1.0)).charged == 100
    assert holdout.ask(low_sensitivity(lambda t: float(function(t).sum()), 0.01)).charged == 100


def test_a_function_that_adds_to_its_table_is_the_same_on_every_part(holdout):
    def scaled(table):
        assert "scale" not in table
        table["scale"] = 3.0
        return np.clip(table["delay"] / table["scale"], 0, 1)

    assert holdout.ask(mean(scaled)).charged == 100


def test_sealed_columns_stay_as_they_are(holdout):
    def vandal(table):
        table["delay"].setflags(write=True)
        table["delay"][:] = 0.0
        return np.zeros(len(table["delay"]))

    holdout.ask(mean(lambda t: vandal(t) if is_sealed(t) else np.zeros(len(t["delay"]))))
    assert holdout._executor.sealed.table(["delay"])["delay"][7] == 1e6


def test_an_interrupt_carries_no_words_of_the_function():
    def shout(_table):
        raise KeyboardInterrupt("row 7 holds 1000000")

    with pytest.raises(KeyboardInterrupt) as caught:
        values_or_none(shout, {}, (1,))
    assert caught.value.args == ()
    assert caught.value.__context__ is None


UNNAMED = [
    gradient(lambda t: t["delay"][:, None], dimension=1, clip=1.0),
    low_sensitivity(lambda t: float(len(t)), 0.5),
    mean(lambda t: t["delay"] > 0),
]


@pytest.mark.parametrize("query", UNNAMED, ids=lambda query: type(query).__name__)
def test_another_function_is_another_query(query):
    assert dataclasses.replace(query, function=lambda t: t["delay"] > 1)._token != query._token


def test_another_loss_is_another_query():
    one = risk(np.zeros(ROWS), loss=lambda p, y: (p - y) ** 2, high=1.0)
    assert dataclasses.replace(one, loss=lambda p, y: abs(p - y))._token != one._token


def test_candidates_that_share_an_array_are_all_made_before_one_is_looked_at(holdout):
    shared = np.zeros(ROWS, dtype=int)

    def filled():
        for label in (0, 1):
            shared[:] = label
            yield error(shared)

    choice = PrivateChoiceQuery(filled(), "lowest", 100).purchase(holdout._executor.compiler)
    assert len({bound.query for bound in choice.bound}) == 1


class Watching(str):
    """Text that would see what it is compared with."""

    __slots__ = ()
    seen: ClassVar[list[object]] = []

    def __hash__(self):
        return super().__hash__()

    def __eq__(self, other):
        self.seen.append(other)
        return super().__eq__(other)


class WatchingMatrix(QueryMatrix):
    def totals(self, histogram):
        raise ValueError(f"the sealed rows are {histogram}")


class WatchingUniverse(Universe):
    def histogram(self, rows):
        raise ValueError(f"the sealed rows are {rows}")


def test_no_code_of_the_analysts_meets_the_sealed_rows_of_a_synthesis(holdout):
    columns = (ListedColumn("carrier", (Watching("AA"), Watching("UA"))),)
    cells = WatchingUniverse(columns)
    Watching.seen.clear()
    query = SynthesisQuery(cells, WatchingMatrix(np.eye(3)))
    purchase = query.purchase(holdout._executor.compiler)
    Watching.seen.clear()
    purchase.evaluate(holdout._executor.sealed, holdout.mechanism.unit)
    assert not Watching.seen
    answer = holdout.ask(query)
    assert answer.table is not None
    plain = SynthesisQuery(Universe((ListedColumn("carrier", ("AA", "UA")),)), QueryMatrix(np.eye(3)))
    assert holdout.ask(plain).repeated


def test_marginals_that_nobody_could_list_are_refused_at_once():
    universe = Universe(tuple(ListedColumn(f"c{i}", ("a",), rest="a") for i in range(60)))
    with pytest.raises(ValueError, match="too many to store"):
        universe.marginals(30)


HUGE = 10**5_000
SOON = {
    "clip too small": lambda: gradient(np.asarray, dimension=1, clip=5e-324),
    "clip too large": lambda: gradient(np.asarray, dimension=1, clip=1e308),
    "clip no float": lambda: gradient(np.asarray, dimension=1, clip=HUGE),
    "name of bytes": lambda: gradient(np.asarray, dimension=1, clip=1.0, name=b"x"),
    "half a character": lambda: low_sensitivity(len, 0.1, name="\ud800"),
    "long name": lambda: low_sensitivity(len, 0.1, name="x" * 2_000),
    "sensitivity beyond the range": lambda: low_sensitivity(len, 1e308),
    "sensitivity no float": lambda: low_sensitivity(len, HUGE),
    "range no float": lambda: low_sensitivity(len, 0.1, high=HUGE),
    "probe no table": lambda: low_sensitivity(len, 0.1, probe=5),
    "probe of matrices": lambda: low_sensitivity(len, 0.1, probe={"x": [[1]]}),
}


@pytest.mark.parametrize("wanted", SOON)
def test_numbers_and_names_that_cannot_be_kept_are_refused_in_words(wanted):
    with pytest.raises(ValueError, match=r"expected|Pass"):
        SOON[wanted]()


LATER = {
    "price": AboveQuery(["delay > 3"], 0.5, HUGE),
    "threshold": AboveQuery(["delay > 3"], HUGE),
    "queries are one number": AboveQuery(5, 0.5),
    "queries run out": AboveQuery(iter(["delay > 3"]), 0.5),
    "candidates are none": private_choose(None, loss=error),
    "bins": PrivateQuantileQuery("delay", 0.5, 0, 1, HUGE),
    "bins are a truth": PrivateQuantileQuery("delay", 0.5, 0, 1, True),
    "columns are a number": gradient(np.asarray, dimension=1, clip=1.0, columns=5),
    "columns without an order": gradient(np.asarray, dimension=1, clip=1.0, columns={"delay"}),
}


@pytest.mark.parametrize("wanted", LATER)
def test_what_no_holdout_can_answer_is_refused_in_words(holdout, wanted):
    for ask in (holdout.ask, holdout.quote):
        with pytest.raises(QueryRejected):
            ask(LATER[wanted])
    assert len(holdout.transcript()) == 0


@pytest.mark.parametrize("name", [[], {}, HUGE, None], ids=["list", "dict", "huge", "none"])
def test_what_is_no_name_has_no_allotment(holdout, name):
    with pytest.raises(QueryRejected, match="no allotment"):
        holdout.analyst(name)
