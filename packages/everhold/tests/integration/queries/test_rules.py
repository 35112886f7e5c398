"""A rule as a model: what it says of each row, what is refused, and that it is a candidate like any other."""

import numpy as np
import pytest

import everhold as eh
from everhold import Holdout, QueryRejected, accuracy, brier, error, mean
from everhold.asking.creation import settings_from
from everhold.queries.metrics.row_scores import risk
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind

COLUMNS = {"x": ColumnKind.NUMBER, "kind": ColumnKind.STRING, "late": ColumnKind.NUMBER, "id": ColumnKind.NUMBER}
ROWS = 4_000


def schema(label="late", label_kind="binary", **columns):
    return Schema(6, 0, {**COLUMNS, **columns}, label, label_kind, row_id="id")


def rows(seed, count=ROWS):
    """Some features are missing, and half the labels follow the others."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=count)
    late = (x + rng.normal(size=count) > 0).astype(int)
    return {"x": np.where(rng.random(count) < 0.1, np.nan, x), "z": rng.normal(size=count), "late": late}


class Written:
    """The rule x > 0 as an estimator."""

    feature_names_in_ = np.array(["x", "z"])

    def predict(self, features):
        return (features["x"] > 0).to_numpy().astype(int)

    def predict_proba(self, features):
        likely = np.where(features["x"] > 0, 0.8, 0.1)
        return np.column_stack([1 - likely, likely])


@pytest.fixture
def holdout(tmp_path):
    wanted = {"label": "late", "mechanism": "guess_and_check", "queries": 50, "surprises": 20}
    with Holdout.create(tmp_path / "s.db", "study", holdout=rows(0), training=rows(1), **settings_from(wanted)) as made:
        yield made


def test_a_rule_is_worth_what_it_says_of_each_row(holdout):
    """All queries are asked with guesses far off, so that sealed rows answer, to within the same sealed number."""
    pairs = [
        (accuracy("x > 0"), accuracy(Written())),
        (error("x > 0"), error(Written())),
        (accuracy("case when x > 0 then 1 else 0 end"), accuracy(Written())),
        (brier("case when x > 0 then 0.8 else 0.1 end"), brier(Written())),
    ]
    told = [(holdout.ask(rule, guess=0.99), holdout.ask(estimator, guess=0.99)) for rule, estimator in pairs]
    holdout.unseal()
    for (one, other), (rule, estimator) in zip(told, pairs, strict=True):
        sealed = holdout.ask(rule).sealed
        assert sealed == holdout.ask(estimator).sealed
        assert one.source == other.source == "holdout"
        assert one.low <= sealed <= one.high
        assert other.low <= sealed <= other.high
    assert [one.value for one, _ in told[:3]] == [other.value for _, other in told[:3]]  # cells do not depend on bets


def test_a_rule_that_says_nothing_of_a_row_is_wrong_there(holdout):
    """Nothing is gained by a division by zero: null is no label and no probability."""
    assert holdout.ask(accuracy("1 / (x - x)"), guess=0.5).value < 0.05
    assert holdout.ask(brier("1 / (x - x)"), guess=0.5).value > 0.95


def test_spellings_of_a_rule_are_one_query_and_metrics_are_not():
    def name(query):
        return query.bind(schema()).query

    assert name(accuracy("x > 0 and x < 9")) == name(error("(x<9) AND (0 < x)"))
    assert len({name(query) for query in (accuracy("x > 0"), accuracy("x > 1"), brier("x > 0"), mean("x > 0"))}) == 4


def test_labels_may_be_conditions_themselves():
    bound = accuracy("x > 0").bind(schema(label="yes", yes=ColumnKind.BOOLEAN))
    assert bound.columns == ("x", "yes")
    assert not bound.by_position
    assert brier("x > 0").bind(schema(label="yes", yes=ColumnKind.BOOLEAN)).at_fault == 1.0


@pytest.mark.parametrize(
    ("query", "label_kind", "said"),
    [
        (accuracy("late = 1"), "binary", "reads 'late', the label"),
        (accuracy("id > 3"), "binary", "column of row ids"),
        (accuracy("x >"), "binary", "not an expression"),
        (accuracy("'yes'"), "binary", "string"),
        (accuracy("unknown > 1"), "binary", "no column"),
        (brier("late"), "binary", "reads 'late'"),
        (brier("x"), "number", "Brier"),
        (risk("late", "squared", high=1), "binary", "reads 'late'"),
        (risk("x > 0", lambda predictions, labels: (predictions != labels) * 1.0, high=1), "binary", "takes no rules"),
    ],
)
def test_what_is_no_rule_is_refused_and_costs_nothing(query, label_kind, said):
    with pytest.raises(QueryRejected) as refused:
        query.bind(schema(label_kind=label_kind))
    assert said in refused.value.message


def test_a_rule_gives_labels_of_their_kind():
    with pytest.raises(QueryRejected, match="The labels are texts"):
        accuracy("x > 0").bind(schema(label="kind", label_kind="string"))
    with pytest.raises(QueryRejected, match="gives a number, and the labels are booleans"):
        accuracy("x").bind(schema(label="yes", yes=ColumnKind.BOOLEAN))


def test_a_rule_whose_values_are_no_predictions_is_refused_by_the_training_rows(holdout, tmp_path):
    """Its score would be right and mean nothing: every row would count as wrong."""
    for query in (accuracy("z"), error("2 * z"), eh.metric("f1", "z")):
        with pytest.raises(QueryRejected, match=r"gives values that are no labels, in 4,000 of 4,000 training rows"):
            holdout.ask(query)
    with pytest.raises(QueryRejected, match=r"not all in \[0, 1\]"):
        holdout.ask(brier("z"))
    with pytest.raises(QueryRejected, match="no labels"):
        holdout.gate("accuracy", champion="z")
    assert holdout.ask(accuracy("0 * z + 1")).value is not None
    signs = [{**each, "late": 2 * each["late"] - 1} for each in (rows(0), rows(1))]
    wanted = {"label": "late", "mechanism": "guess_and_check", "queries": 50, "surprises": 20}
    with Holdout.create(
        tmp_path / "signs.db", "study", holdout=signs[0], training=signs[1], **settings_from(wanted)
    ) as made:
        with pytest.raises(QueryRejected, match=r"is a condition.*-1, 1.*case when \.\.\. then 1 else -1 end"):
            made.ask(accuracy("x > 0"))
        assert made.ask(accuracy("case when x > 0 then 1 else -1 end")).value > 0.6


def test_a_better_rule_is_promoted_and_stays_about_the_population(holdout):
    gate = holdout.gate("accuracy", champion="z > 0")
    assert not gate.challenge("z > 1").promoted
    verdict = gate.challenge("x > 0")
    assert verdict.promoted
    assert verdict.about is None  # nobody saw the rows
    assert gate.challenge("0 < x").repeated
    assert not gate.challenge("x > 0 and z < 5").promoted
