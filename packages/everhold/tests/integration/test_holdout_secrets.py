"""Whatever goes wrong, no text that leaves the house shows a sealed value."""

import traceback
import warnings

import numpy as np
import pytest
from holdout_samples import ROWS, copied, rows

from everhold import EverholdError, Holdout, HoldoutRejected, accuracy, brier, mean
from everhold.mechanisms import State
from everhold.mechanisms.records import Evaluations

NUMBER, TEXT = 987654.321, "CANARY"


def poisoned():
    """Sealed rows in which every column but the label holds a canary."""
    sealed = rows(0)
    sealed["delay"][7] = NUMBER
    sealed["carrier"] = np.where(np.arange(ROWS) == 7, TEXT, sealed["carrier"])
    return sealed


@pytest.fixture
def holdout(tmp_path):
    with copied(tmp_path, holdout=poisoned()) as made:
        yield made


def everything_said(error):
    """All texts of an exception and of what hangs on it."""
    seen, queue, texts = set(), [error], list(traceback.format_exception(error))
    while queue:
        one = queue.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        texts += [str(one), repr(one), repr(one.args), repr(getattr(one, "data", ""))]
        queue += [one.__cause__, one.__context__]
    return "\n".join(texts)


def assert_silent(text):
    assert TEXT not in text
    assert "987654" not in text


class Nosy:
    """An estimator that is fine on public rows and quotes sealed ones."""

    def predict(self, features):
        values = np.asarray(features).astype(str)
        if (values == TEXT).any():
            raise ValueError(f"found {TEXT} {NUMBER}")
        return np.zeros(len(values), dtype=int)


def fails_on_sealed_rows(how):
    def function(table):
        if (table["carrier"] == TEXT).any():
            return how(table)
        return np.zeros(len(table["delay"]))

    return function


def shout(kind):
    def raise_it(_table):
        raise kind(f"found {TEXT} {NUMBER}")

    return raise_it


class OddError(BaseException):
    pass


def warn(table):
    warnings.warn(f"found {TEXT}", stacklevel=1)
    return np.zeros(len(table["delay"]))


FAULTS = {
    "error": shout(ValueError),
    "exit": shout(SystemExit),
    "odd": shout(OddError),
    "length": lambda table: table["delay"][:3] * 0,
    "text": lambda table: table["carrier"],
    "two-dimensional": lambda table: np.zeros((len(table["delay"]), 2)),
    "nothing": lambda _table: None,
    "nan": lambda table: np.full(len(table["delay"]), np.nan),
    "below": lambda table: np.full(len(table["delay"]), -5.0),
    "complex": lambda table: np.full(len(table["delay"]), 1j),
    "write": lambda table: table["delay"].sort(),
    "warning": warn,
    "float warning": lambda table: np.log(table["delay"] * 0) * 0,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_function_that_fails_on_sealed_rows_only_counts_as_zero(holdout, fault, capfd, recwarn):
    answer = holdout.ask(mean(fails_on_sealed_rows(FAULTS[fault]), name="f"))
    zero = holdout.ask(mean(lambda table: np.zeros(len(table["delay"])), name="zero"))
    assert (answer.value, answer.source, answer.charged) == (zero.value, "training", 0)
    assert not recwarn.list
    assert_silent("".join(capfd.readouterr()))


def test_an_answer_does_not_depend_on_the_filters_of_warnings(holdout):
    noisy = mean(lambda table: np.where(np.log(np.abs(table["delay"]) * 0 + 1) == 0, 1.0, 0.0), name="one")
    filters = list(warnings.filters)
    assert holdout.ask(noisy).value == 1.0
    assert warnings.filters == filters


def test_an_estimator_that_fails_on_sealed_rows_only_is_not_observable(holdout):
    answer = holdout.ask(accuracy(Nosy()))
    assert answer.value is not None
    assert_silent(str(answer) + answer.explain() + str(answer.to_dict()))


def test_interrupts_pass(holdout):
    with pytest.raises(KeyboardInterrupt):
        holdout.ask(mean(fails_on_sealed_rows(shout(KeyboardInterrupt))))
    assert len(holdout.transcript()) == 0


BAD_QUERIES = [
    "unknown > 1",
    "delay / 0 > 'x'",
    "carrier = delay",
    "delay",
    mean("delay", low=0),
    mean("delay", low=1, high=1),
    mean("delay", low=float("nan"), high=1),
    mean("delay", low=-1e308, high=1e308),
    accuracy(np.zeros(3)),
    accuracy(np.array(["x"] * ROWS)),
    brier(np.full(ROWS, 2.0)),
    mean(lambda table: table["delay"]),
    mean(lambda table: table["none"]),
]


@pytest.mark.parametrize("query", BAD_QUERIES)
def test_rejections_are_silent(holdout, query):
    for ask in (holdout.ask, holdout.quote):
        with pytest.raises(EverholdError) as caught:
            ask(query)
        assert_silent(everything_said(caught.value))
    assert len(holdout.transcript()) == 0


def test_no_repr_shows_a_value(holdout):
    holdout.ask(f"carrier <> '{'X'}' and delay < 1e6", guess=0.2)
    state = State(3, 1, 987654)
    shown = [
        holdout,
        holdout._executor.sealed,
        holdout._executor.key,
        state,
        holdout._executor.store,
        holdout._executor.record,
        holdout.schema,
    ]
    evaluations = Evaluations(totals=np.array([[987654]]), guesses=np.array([1]), rows=ROWS)
    for thing in [*shown, evaluations, holdout.transcript(), holdout.status(), holdout.promise, holdout.mechanism]:
        for text in (repr(thing), str(thing)):
            assert_silent(text)
            assert holdout._executor.key._private.private_bytes_raw().hex() not in text


def test_a_broken_engine_says_nothing(holdout, tmp_path):
    file = next(tmp_path.glob("study.rows/*/holdout.parquet"))
    content = file.read_bytes()
    file.chmod(0o600)
    file.write_bytes(content[: len(content) // 2])
    for query in ("delay > 1", mean(lambda table: table["delay"] > 1, name="x")):
        with pytest.raises(EverholdError) as caught:
            holdout.ask(query)
        assert_silent(everything_said(caught.value))


def test_a_failed_creation_is_silent(tmp_path):
    mixed = np.array([1.0] * 2000 + [TEXT, {"a": NUMBER}, b"\xff"], dtype=object)
    lines = "a,b\n" + "1,2\n" * 30_000 + f"{TEXT},{NUMBER},3,4,5\n"
    (tmp_path / "rows.csv").write_text(lines)
    for source in ({"a": mixed}, tmp_path / "rows.csv"):
        with pytest.raises(HoldoutRejected) as caught:
            Holdout.create(f"sqlite:///{tmp_path}/study.db", holdout=source, mechanism="gaussian").close()
        assert_silent(everything_said(caught.value))


def test_stored_columns_cannot_be_changed(holdout):
    kept = {}
    holdout.ask(mean(lambda table: kept.update(table) or table["late"] == 1, name="thief"))
    for column in kept.values():
        with pytest.raises(ValueError, match="read-only"):
            column[0] = column[1]
