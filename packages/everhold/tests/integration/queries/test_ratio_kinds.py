"""Every kind of mean as numerator and as denominator of a ratio is what NumPy computes, on every way to an answer."""

import json
from itertools import product

import client_samples
import numpy as np
import pytest

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.values.expressions.tree import CombinedValue, RowValue
from everhold_engines.sql.compiler import row_values_sql
from everhold_server.wire.queries import written
from everhold_server.wire.reading import query_from

ROWS = 3_000

pytestmark = pytest.mark.filterwarnings(
    "ignore::everhold.NonAdaptiveWarning", "ignore::everhold.VacuousGuaranteeWarning"
)


def rows(seed):
    """Rows of which those that the rule `x > 25` misses have other labels and numbers than those that it gets right."""
    rng = np.random.default_rng(seed)
    x = rng.normal(10.0, 40.0, ROWS)
    y = (x + rng.normal(0.0, 30.0, ROWS) > 20.0).astype(np.int64)
    return {
        "id": np.arange(ROWS) + seed * ROWS, "x": x, "y": y, "p": np.clip(0.5 + x / 200.0, 0.0, 1.0),
        "site": rng.integers(0, 600, ROWS),
    }  # fmt: skip


TRAINED, SEALED = rows(1), rows(2)


class Above:
    """A fitted estimator: label 1 above a threshold of the first feature."""

    feature_names_in_ = ("x",)

    def __init__(self, at):
        self.at = at

    def predict(self, features):
        return (np.asarray(features)[:, 0] > self.at) * 1

    def predict_proba(self, features):
        chance = np.clip(0.5 + np.asarray(features)[:, 0] / 200.0, 0.0, 1.0)
        return np.stack([1.0 - chance, chance], axis=1)

    classes_ = np.array([0, 1])


def said(table):
    return (table["x"] > 25) * 1


def of(maker, column=said, **given):
    """A query about predictions as arrays."""
    return maker(column(SEALED), training=column(TRAINED), **given)


def right(table):
    return (table["x"] > 25) == table["y"]


NUMERATORS = {
    "text": (lambda: eh.mean("y = 1"), lambda t: t["y"]),
    "number": (lambda: eh.mean("x", low=-60, high=180), lambda t: np.clip(t["x"], -60, 180)),
    "accuracy": (lambda: of(eh.accuracy), right),
    "error": (lambda: of(eh.error), lambda t: ~right(t)),
    "error of an estimator": (lambda: eh.error(Above(25)), lambda t: ~right(t)),
    "error of a rule": (lambda: eh.error("x > 25"), lambda t: ~right(t)),
    "brier": (lambda: of(eh.brier, lambda t: t["p"]), lambda t: (t["p"] - t["y"]) ** 2),
    "risk": (
        lambda: of(eh.risk, lambda t: t["p"], loss="absolute", low=-1, high=3), lambda t: np.abs(t["p"] - t["y"]),
    ),
    "function": (lambda: eh.mean(lambda t: np.clip(t["x"] / 100, 0, 1), name="f"),
                 lambda t: np.clip(t["x"] / 100, 0, 1)),
    "difference of errors": (
        lambda: eh.difference(of(eh.error), of(eh.error, lambda t: (t["x"] > 0) * 1)),
        lambda t: (~right(t)).astype(float) - ((t["x"] > 0) != t["y"]),
    ),
}  # fmt: skip

DENOMINATORS = {
    "text": (lambda: "x > 0", lambda t: t["x"] > 0),
    "complement of a text": (lambda: "not (x > 0)", lambda t: t["x"] <= 0),
    "accuracy": (lambda: of(eh.accuracy), right),
    "error": (lambda: of(eh.error), lambda t: ~right(t)),
    "accuracy of an estimator": (lambda: eh.accuracy(Above(25)), right),
    "error of an estimator": (lambda: eh.error(Above(25)), lambda t: ~right(t)),
    "accuracy of a rule": (lambda: eh.accuracy("x > 25"), right),
    "error of a rule": (lambda: eh.error("x > 25"), lambda t: ~right(t)),
    "boolean function": (lambda: eh.mean(lambda t: t["x"] > 0, name="g"), lambda t: t["x"] > 0),
}
BOTH = list(product(NUMERATORS, DENOMINATORS))


def asked(numerator, denominator):
    return eh.ratio(NUMERATORS[numerator][0](), DENOMINATORS[denominator][0]())


def by_hand(numerator, denominator, table):
    return float(np.mean(NUMERATORS[numerator][1](table)[DENOMINATORS[denominator][1](table)]))


def made(folder, **wanted):
    wanted = {"mechanism": "guess_and_check", "surprises": 3, **wanted}
    later = 1_000 if "dependence" in wanted else 0  # whole sites on one side only where they are declared
    sealed = {**SEALED, "site": SEALED["site"] + later}
    return eh.Holdout.create(
        f"sqlite:///{folder}/study.db", "study", holdout=sealed, training=TRAINED, label="y", queries=300,
        **settings_from({**wanted, "row_id": "id"}),
    )  # fmt: skip


def _rows_counted(denominator):
    return np.asarray(DENOMINATORS[denominator][1](SEALED)).tobytes()


def _row_values(numerator):
    """Of an error those of the accuracy, which has the same entry and is told the other way round."""
    values = np.asarray(NUMERATORS[numerator][1](SEALED), dtype=float)
    return (1.0 - values if numerator.startswith("error") else values).tobytes()


WAYS = {"independent": {}, "groups": {"dependence": eh.Groups("site")}}


@pytest.mark.parametrize("way", WAYS)
def test_sealed_values_and_guesses_of_all_kinds_are_those_of_numpy_and_no_two_meanings_share_an_entry(tmp_path, way):
    entries = {}
    with made(tmp_path, **WAYS[way]) as holdout:
        for kinds in BOTH:
            ready = holdout._executor.compiler.compile(asked(*kinds), None, None)
            evaluations, (prepared,) = ready.evaluate(holdout._executor.sealed, [0])
            bound, steps = prepared.bound, holdout.mechanism.steps
            width = abs(bound.at_one - bound.at_zero)
            sealed = bound.from_mean(int(evaluations.totals[0, 0]) / steps)
            assert sealed == pytest.approx(by_hand(*kinds, SEALED), abs=width * 1e-8), kinds
            assert bound.from_mean(prepared.guess / steps) == pytest.approx(by_hand(*kinds, TRAINED), abs=width * 1e-8)
            entries.setdefault(bound.query, []).append(kinds)
    for same in entries.values():
        assert len({_rows_counted(denominator) for _, denominator in same}) == 1, same
        assert len({_row_values(numerator) for numerator, _ in same}) == 1, same
    assert len(entries) > 60


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("silent", [False, True])
def test_told_and_unsealed_answers_of_all_kinds_hold_for_the_sealed_value_of_numpy(tmp_path, way, silent):
    with made(tmp_path, **WAYS[way]) as holdout:
        for kinds in BOTH:
            answer = holdout.ask(asked(*kinds), silent=silent)
            if silent:
                assert answer.value is None
            else:
                assert answer.low <= by_hand(*kinds, SEALED) <= answer.high, kinds
        holdout.unseal()
        for kinds in BOTH:
            unsealed = holdout.ask(asked(*kinds))
            assert unsealed.sealed == pytest.approx(by_hand(*kinds, SEALED), abs=1e-6), kinds
            assert unsealed.sealed_low <= unsealed.sealed <= unsealed.sealed_high


@pytest.mark.parametrize("numerator", ["text", "error", "number"])
@pytest.mark.parametrize("denominator", ["accuracy", "error", "error of an estimator", "error of a rule"])
def test_two_means_of_a_mechanism_with_noise_mean_the_same(tmp_path, numerator, denominator):
    with made(tmp_path, mechanism="empirical", surprises=None) as holdout:
        answer = holdout.ask(asked(numerator, denominator))
        assert answer.value == pytest.approx(by_hand(numerator, denominator, SEALED), abs=1e-6)
        assert answer.low <= answer.value <= answer.high
        assert len(holdout.transcript()) == 2


def test_the_rate_among_missed_rows_is_no_repeat_of_the_rate_among_the_rest(tmp_path):
    with made(tmp_path) as holdout:
        among_right = holdout.ask(eh.ratio("y = 1", of(eh.accuracy)))
        among_missed = holdout.ask(eh.ratio("y = 1", of(eh.error)))
        assert (among_missed.repeated, among_missed.query == among_right.query) == (False, False)
        assert among_missed.low <= by_hand("text", "error", SEALED) <= among_missed.high
        assert abs(by_hand("text", "error", SEALED) - by_hand("text", "accuracy", SEALED)) > 0.05
        assert " over accuracy of " in among_right.shown
        assert " over error of " in among_missed.shown


def test_an_entry_of_an_earlier_version_does_not_answer_the_rate_among_missed_rows(tmp_path, monkeypatch):
    """Versions before asked it as the rate among the rows that are predicted right."""
    from everhold.queries.means import combined as shares

    with made(tmp_path) as holdout:
        with monkeypatch.context() as before:
            before.setattr(shares, "_as_answered", lambda whole: whole)
            holdout.ask(eh.ratio("y = 1", of(eh.error)))
        assert holdout.ask(eh.ratio("y = 1", of(eh.accuracy))).repeated
        answer = holdout.ask(eh.ratio("y = 1", of(eh.error)))
        assert not answer.repeated
        assert answer.low <= by_hand("text", "error", SEALED) <= answer.high


def test_a_missed_row_is_one_on_which_the_estimator_fails(tmp_path):
    class Failing(Above):
        def predict(self, features):
            if np.any(np.asarray(features)[:, 0] == SEALED["x"][5]):
                raise ValueError("a sealed row")
            return Above.predict(self, features)

    with made(tmp_path) as holdout:
        ready = holdout._executor.compiler.compile(eh.ratio("y = 1", eh.error(Failing(25))), None, None)
        evaluations, _ = ready.evaluate(holdout._executor.sealed, [0])
        missed = ~right(SEALED)
        missed[5] = True
        assert int(evaluations.totals[0, 0]) / holdout.mechanism.steps == pytest.approx(np.mean(SEALED["y"][missed]))


def test_an_error_as_denominator_travels_and_is_answered_by_a_service(tmp_path):
    table = {"id": SEALED["id"], "said": said(SEALED)}
    trained = {"id": TRAINED["id"], "said": said(TRAINED)}
    queries = [eh.ratio("y = 1", maker(table, training=trained)) for maker in (eh.error, eh.accuracy)]
    with made(tmp_path) as holdout:
        here = [holdout.quote(query).query for query in queries]
        for query, fingerprint in zip(queries, here, strict=True):
            told, tables = written(query)
            arrived = query_from(json.loads(json.dumps(told)), holdout.schema, tables)
            assert holdout.quote(arrived).query == fingerprint
    with client_samples.serving(tmp_path) as service, service.connect(service.root) as there:
        answers = [there.ask(query) for query in queries]
    assert [answer.query for answer in answers] == here
    for answer, denominator in zip(answers, ("error", "accuracy"), strict=True):
        assert answer.low <= by_hand("text", denominator, SEALED) <= answer.high


def test_an_engine_computes_what_is_outside_as_everhold_does():
    import duckdb

    from everhold.values.expressions import ColumnKind, parse

    kinds = {"a": ColumnKind.NUMBER, "b": ColumnKind.NUMBER}
    parts = [RowValue(parse(f"{name} > 0", kinds)) for name in kinds]
    statement = row_values_sql([CombinedValue("outside", *parts)], "t", unit=4)
    with duckdb.connect() as engine:
        engine.execute("create table t as select * from (values (0, 0), (0, 1), (1, 0), (1, 1)) as v(a, b)")
        assert engine.execute(statement).fetchall() == [(0,), (0,), (4,), (0,)]


def test_a_difference_of_differences_is_asked_whatever_their_fingerprints(tmp_path):
    """Which operand of a difference is subtracted follows from fingerprints; that once decided about a refusal."""
    numbers = [eh.mean(text, low=0, high=1) for text in ("x / 100", "p", "y * 0.5", "y * 0.3 + p * 0.5")]
    values = [np.clip(each, 0, 1) for each in (
        SEALED["x"] / 100, SEALED["p"], SEALED["y"] * 0.5, SEALED["y"] * 0.3 + SEALED["p"] * 0.5
    )]  # fmt: skip
    with made(tmp_path) as holdout:
        found = {}
        for a, b, c, d in [p for p in product(range(4), repeat=4) if len(set(p)) == 4]:
            query = eh.difference(eh.difference(numbers[a], numbers[b]), eh.difference(numbers[c], numbers[d]))
            ready = holdout._executor.compiler.compile(query, None, None)
            evaluations, (prepared,) = ready.evaluate(holdout._executor.sealed, [0])
            bound, mean = prepared.bound, int(evaluations.totals[0, 0]) / holdout.mechanism.steps
            truth = np.mean(values[a] - values[b] - values[c] + values[d])
            assert bound.from_mean(mean) == pytest.approx(truth, abs=1e-7)
            assert mean - bound.to_mean(truth) <= bound.rounded_up / holdout.mechanism.unit + 1e-15
            found.setdefault(bound.query, set()).add(frozenset([frozenset([a, d]), frozenset([b, c])]))
        assert (len(found), {len(same) for same in found.values()}) == (6, {1})
        assert bound.rounded_up == 0.75
        assert bound.shown.count("(") == 2
