"""Every kind of query arrives as the query that it was, and what is no query is refused in words."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_samples import LABELS, SEALED, WITHOUT_NOISE, create, queries

import everhold as eh
from everhold.errors import QueryRejected
from everhold.queries import DETAILS, KINDS, Form
from everhold.queries.predictions.arrays import PredictionTable
from everhold.queries.query import Query
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind
from everhold.values.universe import universe_from
from everhold_server.wire.queries import written
from everhold_server.wire.reading import check_marginals, query_from

SCHEMA = Schema(9, 0, {"id": ColumnKind.NUMBER, "x": ColumnKind.NUMBER, "y": ColumnKind.NUMBER}, "y", "binary", "id")


@pytest.fixture(scope="module")
def holdout(tmp_path_factory):
    with create(tmp_path_factory.mktemp("wire")) as made:
        yield made


def prepared(holdout, query):
    """Which entries a query is, and what it costs at most."""
    try:
        ready = holdout._executor.compiler.compile(query, None, None)
    except QueryRejected as refusal:
        return str(refusal)
    return (
        [entry.fingerprint for entry in ready.asked],
        [entry.description for entry in ready.asked],
        ready.pricing.most,
    )


def test_every_kind_has_a_sample_but_those_that_run_code():
    assert set(queries()) == {kind.name for kind in KINDS if kind.form is not Form.CODE}


@pytest.mark.parametrize("kind", queries())
def test_a_query_arrives_as_the_same_query(kind, holdout):
    for query in queries()[kind]:
        told, tables = written(query)
        travelled = json.loads(json.dumps(told, allow_nan=False))
        arrived = query_from(travelled, holdout.schema, tables)
        assert prepared(holdout, arrived) == prepared(holdout, query)
        assert written(arrived)[0] == told


def test_most_samples_can_be_asked(holdout):
    """Otherwise the comparison above would be one of refusals."""
    noisy = [several for kind, several in queries().items() if kind not in WITHOUT_NOISE]
    asked = [prepared(holdout, query) for several in noisy for query in several]
    assert sum(isinstance(found, str) for found in asked) <= 2


def test_what_differs_is_another_query(holdout):
    told, tables = written(eh.mean("x", low=-3, high=3))
    assert prepared(holdout, query_from({**told, "high": 2}, holdout.schema, tables)) != prepared(
        holdout, query_from(told, holdout.schema, tables)
    )


def test_predictions_by_id_are_the_same_in_an_object_and_in_a_file(holdout):
    by_id = {str(name): int(label) for name, label in zip(SEALED["id"], LABELS, strict=True)}
    inline = query_from({"kind": "accuracy", "of": by_id}, holdout.schema)
    table = PredictionTable({"id": SEALED["id"][::-1], "a": LABELS[::-1], "b": LABELS * 0})
    of_file = {"kind": "accuracy", "of": {"file": "mine.csv", "column": "a"}}
    found = query_from(of_file, holdout.schema, {"mine.csv": table})
    assert prepared(holdout, inline) == prepared(holdout, found) == prepared(holdout, eh.accuracy(LABELS))
    assert written(found)[0]["of"] == {"file": "predictions-1", "column": "a"}


class Model:
    """An estimator that counts as one."""

    def predict(self, features):
        return np.zeros(len(features))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (eh.mean(lambda table: table["x"] > 0), "Python function"),
        (eh.gradient(lambda table: table["x"], dimension=1, clip=1.0), "Python function"),
        (eh.low_sensitivity(lambda table: 0.0, low=0, high=1, sensitivity=0.1), "Python function"),
        (eh.risk([0.5], lambda one, other: one - other, high=1), "Python function"),
        (eh.accuracy(Model()), "estimator is not sent to a service"),
        (eh.ratio(eh.accuracy(Model()), "x > 0"), "estimator is not sent to a service"),
        (
            eh.private_synthesize(eh_universe := queries()["synthesize"][0].universe, eh_universe.marginals(2)),
            "cannot be sent to a service",
        ),
        (eh.accuracy(7), "one for each row"),
        (eh.mean("x", low=-math.inf, high=1), "finite"),
        (7, "a text or a query"),
        (eh.choose("x > 0"), "a list"),
    ],
)
def test_what_cannot_travel_says_what_to_do_instead(query, said):
    with pytest.raises(QueryRejected, match=said):
        written(query)


DEEP = "x > 0"
for _ in range(2_000):
    DEEP = {"kind": "ratio", "of": DEEP, "given": "x > 0"}


WIDE = {"columns": [{"name": name, "edges": [*range(120)]} for name in ("x", "y", "id")]}


def test_so_many_marginals_are_counted_before_they_are_made():
    universe = universe_from({"columns": [{"name": name, "values": [1, 2], "rest": 1} for name in "abcd"]}, called="of")
    values = {width: universe.cells * universe.marginals(width).count for width in (1, 2, 3, 4)}
    for width, count in values.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("everhold_server.wire.reading._MOST_VALUES", count)
            check_marginals(universe, width)
            patch.setattr("everhold_server.wire.reading._MOST_VALUES", count - 1)
            with pytest.raises(QueryRejected, match=f"{count:,} values"):
                check_marginals(universe, width)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (7, "a text or an object"),
        (None, "a text or an object"),
        ([], "a text or an object"),
        ({}, "kind of query is None"),
        ({"kind": "sum"}, "Pass one of mean, accuracy"),
        ({"kind": ["mean"]}, "kind of query"),
        ({"kind": "gradient", "of": "os:system", "dimension": 1, "clip": 1}, "runs? beside the sealed rows"),
        ({"kind": "low_sensitivity", "of": "f.py:f"}, "runs? beside the sealed rows"),
        ({"kind": "mean"}, "lacks 'of'"),
        ({"kind": "mean", "of": 7}, "of is 7"),
        ({"kind": "mean", "of": "x", "lwo": 1}, "'lwo'. Pass only .*given, high, kind, low, of"),
        ({"kind": "mean", "of": "x", "low": "0"}, "low is '0'"),
        ({"kind": "mean", "of": "x", "low": True}, "low is True"),
        ({"kind": "mean", "of": "x", "low": math.nan}, "low is nan"),
        ({"kind": "mean", "of": "x", "high": math.inf}, "high is inf"),
        ({"kind": "mean", "of": "x", "high": 10**400}, "high is 10000"),
        ({"kind": "mean", "of": "\ud800"}, "of is"),
        ({"kind": "mean", "of": "x", "name": "f"}, "'name'"),
        ({"kind": "private_quantile", "of": "x"}, "lacks 'low' and 'high'"),
        ({"kind": "private_quantile", "of": "x", "low": 0, "high": 1, "bins": 1.5}, "bins is 1.5"),
        ({"kind": "private_quantile", "of": "x", "low": 0, "high": 1, "bins": 10**400}, "bins is"),
        ({"kind": "auc", "of": [1] * 9, "positives": 4}, "lacks 'negatives'"),
        ({"kind": "auc", "of": [1] * 9, "positives": 0, "negatives": 1}, "positives is 0"),
        ({"kind": "covariance", "of": "x"}, "lacks 'with'"),
        ({"kind": "choose", "of": "lowest"}, "lacks 'queries'"),
        ({"kind": "choose", "of": "lowest", "queries": "x"}, "queries is 'x'"),
        ({"kind": "difference", "queries": ["x", "y", "x"]}, "3 queries. Pass two queries"),
        ({"kind": "difference", "queries": ["x", "y"], "of": True}, "'of'"),
        ({"kind": "difference", "queries": [{"kind": "histogram", "of": "x", "edges": [0, 1]}, "y"]}, "no mean"),
        ({"kind": "histogram", "of": "x", "edges": [0, [1]]}, "an item of edges"),
        ({"kind": "histogram", "of": "x", "edges": [0] * 10_001}, "at most 10,000"),
        ({"kind": "histogram", "of": "x", "edges": [0, math.nan]}, "an item of edges"),
        ({"kind": "accuracy", "of": 7}, "an object from row ids"),
        ({"kind": "accuracy", "of": [[1]]}, "A prediction is"),
        ({"kind": "accuracy", "of": {"1": {"a": 1}}}, "A prediction is"),
        ({"kind": "accuracy", "of": {"one": 1}}, "numbers as ids"),
        ({"kind": "accuracy", "of": [1] * 1_000}, "1,000 predictions"),
        ({"kind": "accuracy", "of": ["x" * 2_000]}, "2,000 characters"),
        ({"kind": "accuracy", "of": {"file": "../../etc/passwd"}}, "no file was sent"),
        ({"kind": "accuracy", "of": {"file": ["a"]}}, "name of the file"),
        ({"kind": "risk", "of": [1] * 9, "loss": "cubic"}, "loss is 'cubic'"),
        ({"kind": "synthesize", "of": {"columns": [{"name": "x", "edges": [0, 1e999]}]}}, "finite"),
        ({"kind": "synthesize", "of": {"columns": [{"name": "x", "values": [[1]]}]}}, "no universe"),
        ({"kind": "synthesize", "of": {"columns": [{"name": f"x{i}", "values": [1]} for i in range(60)]}}, "cells"),
        ({"kind": "synthesize", "of": 3}, "no universe"),
        ({"kind": "synthesize", "of": WIDE}, "values over all cells"),
        ({"kind": "synthesize", "of": WIDE, "marginals": 10**9}, "columns at a time are asked for"),
        (DEEP, "levels of queries in queries. Pass at most"),
    ],
)  # fmt: skip
def test_what_is_no_query_is_refused_in_words(told, said):
    with pytest.raises(QueryRejected, match=said) as refusal:
        query_from(told, SCHEMA, {})
    assert len(str(refusal.value)) < 2_000


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from(["x > 0", "x", "y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.sampled_from(["file"]), inner),
    max_leaves=6,
)
_KEYS = st.sampled_from(["of", "queries", "tolerance", *(name.rstrip("_") for name in DETAILS)])


def answered(told):
    """The query, or why there is none."""
    try:
        return query_from(told, SCHEMA, {})
    except QueryRejected as refusal:
        return str(refusal)


@given(st.sampled_from([kind.name for kind in KINDS]), st.dictionaries(_KEYS, _VALUES, max_size=5))
def test_whatever_is_written_is_a_query_or_is_refused(kind, rest):
    found = answered({"kind": kind, **rest})
    assert isinstance(found, Query) or len(found) > 10
