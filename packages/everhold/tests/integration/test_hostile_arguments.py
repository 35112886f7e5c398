"""Whatever stands where a number, a text or a list is expected: the error says what was expected, and costs nothing."""

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from holdout_samples import ROWS, create, rows

import everhold as eh
from everhold import low_sensitivity
from everhold.asking.creation import settings_from
from everhold_privacy.queries.gradient import gradient

BEFORE_NUMPY_2_3 = "ignore:In future, it will be an error for 'np.bool':DeprecationWarning"
NASTY = {
    "10**400": 10**400,
    "-10**400": -(10**400),
    "more digits than Python writes": 10**5000,
    "2**63": 2**63,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": -float("inf"),
    "1e308": 1e308,
    "a half": 1.5,
    "minus one": -1,
    "Fraction": Fraction(1, 3),
    "Decimal": Decimal("0.3"),
    "signalling nan": Decimal("sNaN"),
    "complex": 1j,
    "True": True,
    "text": "0.5",
    "half a character": "\ud800",
    "bytes": b"1",
    "list": [None],
    "dict": {},
    "object": object(),
    "type": int,
    "array": np.array([0.5]),
    "two in an array": np.array([0.1, 0.2]),
    "array without dimensions": np.array(0.5),
    "masked": np.ma.masked,
    "moment": np.datetime64("2020-01-01"),
    "int8": np.int8(1),
    "float16": np.float16(0.5),
    "long double": np.longdouble(0.5),
    "bool of NumPy": np.bool_(True),
    "nan of NumPy": np.float64("nan"),
}


def half(table):
    return table["late"] * 0.5


def vector(table):
    return half(table)[:, None]


PREDICTIONS = np.zeros(ROWS, dtype=int)
QUERIES = {
    "guess": lambda free, _, value: free.ask("late = 1", guess=value),
    "guess in a range": lambda free, _, value: free.ask(eh.mean("delay", low=-60, high=180), guess=value),
    "guess of a quote": lambda free, _, value: free.quote("late = 1", guess=value),
    "guesses": lambda free, _, value: free.ask_many(["late = 1"], guesses=value),
    "one of the guesses": lambda free, _, value: free.ask_many(["late = 1"], guesses=[value]),
    "queries": lambda free, _, value: free.ask_many(value),
    "one of the queries": lambda free, _, value: free.ask_many([value]),
    "query": lambda free, _, value: free.ask(value),
    "text of a mean": lambda free, _, value: free.ask(eh.mean(value)),
    "low": lambda free, _, value: free.ask(eh.mean("delay", low=value, high=180)),
    "high": lambda free, _, value: free.ask(eh.variance("delay", low=-60, high=value)),
    "given": lambda free, _, value: free.ask(eh.mean("late = 1", given=value)),
    "bins": lambda free, _, value: free.ask(eh.histogram("delay", bins=value)),
    "one of the bins": lambda free, _, value: free.quote(eh.histogram("delay", bins=[-1e9, value])),
    "predictions": lambda free, _, value: free.ask(eh.accuracy(value)),
    "training predictions": lambda free, _, value: free.ask(eh.accuracy(PREDICTIONS, training=value)),
    "name": lambda free, _, value: free.ask(eh.mean(half, name=value)),
    "function": lambda free, _, value: free.ask(eh.mean(value)),
    "tolerance": lambda _, paid, value: paid.ask("late = 1", tolerance=value),
    "tolerance of a quote": lambda _, paid, value: paid.quote("late = 1", tolerance=value),
    "candidates": lambda _, paid, value: paid.ask(eh.private_choose(value)),
    "best": lambda _, paid, value: paid.ask(eh.private_choose(["late = 1", "late = 0"], best=value)),
    "price": lambda _, paid, value: paid.ask(eh.private_choose(["late = 1", "late = 0"], price=value)),
    "quantile": lambda _, paid, value: paid.ask(eh.private_quantile("delay", quantile=value, low=-60, high=180)),
    "low of a quantile": lambda _, paid, value: paid.ask(eh.private_quantile("delay", low=value, high=180)),
    "bins of a quantile": lambda _, paid, value: paid.ask(eh.private_quantile("delay", low=-60, high=180, bins=value)),
    "threshold": lambda _, paid, value: paid.ask(eh.private_first_above(["late = 1"], value)),
    "scanned": lambda _, paid, value: paid.ask(eh.private_first_above(value, 0.5)),
    "dimension": lambda _, paid, value: paid.ask(gradient(vector, dimension=value, clip=1.0)),
    "clip": lambda _, paid, value: paid.ask(gradient(vector, dimension=1, clip=value)),
    "sensitivity": lambda _, paid, value: paid.ask(low_sensitivity(lambda table: float(half(table).mean()), value)),
    "delta": lambda _, paid, value: paid.spent(delta=value),
    "analyst": lambda _, paid, value: paid.analyst(value),
    "limit of an analyst": lambda _, paid, value: paid.allot("a", queries=value),
    "name of an analyst": lambda _, paid, value: paid.allot(value, queries=1),
}


@pytest.fixture(scope="module")
def holdouts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    with (
        create(folder, "free") as free,
        create(folder, "paid", mechanism="privacy_budget", queries=40) as paid,
    ):
        yield free, paid


def fault_of(call):
    """What a call raises, or None."""
    try:
        call()
    except Exception as fault:
        return fault
    return None


def is_spoken(fault):
    """Whether an error is one of everhold's, or says what to do."""
    if fault is None or isinstance(fault, eh.EverholdError):
        return True
    said = re.search(r"expected|\. [A-Z][a-z]+ .*\.$", str(fault))
    return isinstance(fault, (TypeError, ValueError)) and said is not None


@pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning", BEFORE_NUMPY_2_3)
@pytest.mark.parametrize("query", QUERIES)
def test_arguments_of_queries_end_in_typed_errors(holdouts, query):
    for what, value in NASTY.items():
        before = [holdout.status()["charged"] for holdout in holdouts]
        fault = fault_of(lambda value=value: QUERIES[query](*holdouts, value))
        assert is_spoken(fault), (what, fault)
        assert len(str(fault)) < 1_000, what
        if fault is not None:
            assert [holdout.status()["charged"] for holdout in holdouts] == before, what


@pytest.mark.parametrize("guess", ["10**400", "Fraction", "Decimal", "True", "text", "nan", "bool of NumPy"])
def test_a_guess_that_is_no_number_is_rejected(holdouts, guess):
    with pytest.raises(eh.QueryRejected, match=r"Pass a number from"):
        holdouts[0].ask("late = 1", guess=NASTY[guess])


def test_guesses_of_numpy_are_numbers(holdouts):
    for number, guess in enumerate([np.int8(1), np.float16(0.5), np.float32(0.5), np.float64(0.5)]):
        assert holdouts[0].quote(f"delay > {number}", guess=guess).query


@pytest.mark.parametrize("guesses", [0.5, "0.5", np.array(0.5), {"late = 1": 0.5}])
def test_guesses_that_are_no_list_are_rejected(holdouts, guesses):
    with pytest.raises(eh.QueryRejected, match="Pass a list"):
        holdouts[0].ask_many(["late = 1"], guesses=guesses)


WISHES = (
    "queries",
    "confidence",
    "seed",
    "surprises",
    "slack",
    "label",
    "row_id",
    "mechanism",
    "dependence",
    "most_rows",
)


@pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning", BEFORE_NUMPY_2_3)
@pytest.mark.parametrize("wanted", WISHES)
def test_requests_end_in_typed_errors(tmp_path, monkeypatch, wanted):
    monkeypatch.chdir(tmp_path)
    for number, (what, value) in enumerate(NASTY.items()):
        requested = {"mechanism": "gaussian", "queries": 3, "allow_vacuous": True, "holdout": rows(0, 120)}
        if wanted in ("surprises", "slack"):
            requested |= {"mechanism": "guess_and_check", "training": rows(1, 120)}
        place = {"storage": f"{tmp_path}/s.db", "name": f"h{number}"}
        fault = fault_of(
            lambda requests={**requested, **place, wanted: value}: eh.Holdout.create(**settings_from(requests)).close()
        )
        assert is_spoken(fault), (what, fault)


@pytest.mark.parametrize("name", NASTY)
def test_what_cannot_be_a_name_is_not_found(tmp_path, name):
    create(tmp_path).close()
    with pytest.raises(eh.HoldoutNotFound):
        eh.Holdout.open(f"sqlite:///{tmp_path}/study.db", NASTY[name])


@pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning", BEFORE_NUMPY_2_3)
@pytest.mark.parametrize("wanted", ["rows", "queries", "confidence", "radius"])
def test_plans_end_in_typed_errors(wanted):
    usual = {"rows": None, "queries": 3, "radius": 0.1} if wanted == "radius" else {"rows": 1_000, "queries": 3}
    for what, value in NASTY.items():
        fault = fault_of(lambda requests={**usual, wanted: value}: eh.plan(**requests))
        assert is_spoken(fault), (what, fault)
