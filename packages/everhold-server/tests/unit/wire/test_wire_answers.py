"""Every result arrives as the same class with the same fields, infinite numbers included."""

import json
import math
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from wire_samples import LABELS, WITHOUT_NOISE, create, queries

import everhold as eh
from everhold.display import Facts
from everhold.queries import KINDS, Form
from everhold_competitions.leaderboard import Comparison, Leaderboard, RankingRow
from everhold_server.wire.answers import result_from, told


@pytest.fixture(scope="module")
def holdout(tmp_path_factory):
    with create(tmp_path_factory.mktemp("wire"), queries=60) as made:
        yield made


@pytest.fixture(scope="module")
def without_noise(tmp_path_factory):
    with create(tmp_path_factory.mktemp("plain"), mechanism="guess_and_check", queries=60) as made:
        yield made


def same(one, other):
    """Whether two results are the same, also where they hold arrays."""
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.array_equal(one, other) and not other.flags.writeable
    if is_dataclass(one):
        return type(one) is type(other) and all(
            same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)
        )
    if isinstance(one, tuple) and isinstance(other, list):  # a field that is declared as a sequence
        return list(one) == other
    return type(one) is type(other) and one == other


def travelled(result):
    return result_from(json.loads(json.dumps(told(result), allow_nan=False)))


def check(result):
    arrived = travelled(result)
    assert same(result, arrived), (result, arrived)
    assert str(arrived) == str(result)
    assert arrived._repr_html_() == result._repr_html_()
    assert arrived.to_dict() == result.to_dict()
    if hasattr(result, "explain"):
        assert arrived.explain() == result.explain()


def test_two_answers_that_differ_are_not_the_same(holdout):
    """Otherwise `check` would hold of anything."""
    answer = holdout.ask("x > 0")
    assert not same(answer, replace(answer, narrower="x"))
    assert not same(answer, answer.to_dict())


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS if kind.form is not Form.CODE])
def test_the_answer_to_every_kind_of_query_arrives(kind, holdout, without_noise):
    holdout = without_noise if kind in WITHOUT_NOISE else holdout
    for query in queries()[kind][:1]:
        check(holdout.quote(query))
        check(holdout.ask(query))
        check(holdout.ask(query))


def test_the_answers_to_code_arrive(holdout):
    check(holdout.ask(eh.gradient(lambda table: table["x"][:, None], dimension=1, clip=1.0)))
    check(holdout.ask(eh.low_sensitivity(lambda table: 0.5, low=0, high=1, sensitivity=0.01)))
    check(holdout.ask(eh.mean(lambda table: table["x"] > 0.0)))


def test_refused_answers_arrive(tmp_path):
    with create(tmp_path, mechanism="gaussian", queries=1) as holdout:
        holdout.ask("x > 0")
        check(holdout.ask("x > 1"))
        check(holdout.ask(eh.histogram("arm", ["A"])))
        check(holdout.quote("x > 1"))


def test_everything_else_that_a_holdout_tells_arrives(holdout):
    holdout.allot("mia", queries=3)
    answer = holdout.analyst("mia").ask("x > 0.25")
    assert travelled(answer).analyst == "mia"
    for result in (
        answer,
        holdout.transcript(),
        holdout.status(),
        holdout.allotments(),
        holdout.spent(),
        holdout.promise,
    ):
        check(result)
    told_all = {"classes": ("A", 2.0), "categories": {"arm": ("A", "B"), "x": (1.0, math.inf)}, "stratified": "y"}
    for schema in (holdout.schema, replace(holdout.schema, **told_all, whole_groups=("arm",))):
        assert same(schema, travelled(schema))
    assert travelled(holdout.allot("mia", queries=4)).queries == 4
    certificate = holdout.certificate()  # says the second in which it was issued
    assert travelled(certificate).to_dict() == certificate.to_dict()


def test_gates_and_silent_answers_arrive(tmp_path):
    with create(tmp_path, mechanism="guess_and_check", surprises=2) as holdout:
        gate = holdout.gate("accuracy", champion="x > 5")
        check(gate.challenge("x > 0.1"))
        check(gate.status())
        check(holdout.ask("x > 0", silent=True))
        check(holdout.ask("x > 0.2"))
        check(holdout.unseal())
        check(holdout.transcript())
        check(holdout.ask("x > 0.2"))


def test_what_a_competition_tells_arrives(tmp_path):
    wanted = {"mechanism": None, "teams": 2, "submissions": 2}
    with create(tmp_path, feedback="score", **wanted) as holdout:
        check(holdout.competition.check(LABELS, team="a"))
        for result in (holdout.competition.submit(LABELS, team="a", guess=0.7), holdout.competition.leaderboard()):
            check(result)


def test_infinite_numbers_arrive_wherever_they_are(holdout):
    answer = replace(holdout.ask("x > 0"), high=math.inf)
    shares = holdout.ask(eh.histogram("arm", ["A"]))
    shares = replace(shares, answers={**shares.answers, "a/b~c": answer})
    document = told(shares)
    assert document["infinite"] == {"/answers/a~1b~0c/high": "inf"}
    assert travelled(shares).answers["a/b~c"].high == math.inf
    assert math.isnan(travelled(Facts(found=[1.0, math.nan]))["found"][1])


def test_data_that_looks_like_a_result_stays_data():
    facts = Facts(allotments={"result": {"result": "answer", "value": 1}})
    assert travelled(facts) == facts


def test_a_board_with_comparisons_arrives():
    board = Leaderboard(
        holdout="h", metric="accuracy", higher_is_better=True, feedback="score", final=True,
        standings=[RankingRow("a", 0.5, 0.4, 0.6, 1, 1)], comparisons=[Comparison("a", "b", 0.1, 0.0, 0.2, None)],
        confidence=0.95, statement="S1",
    )  # fmt: skip
    check(board)


@pytest.mark.parametrize("strange", [{}, [], 7, {"result": "holdout"}, {"result": "answer"}, {"result": [1]}])
def test_what_is_no_result_is_refused(strange):
    with pytest.raises(ValueError, match="cannot read the result of the service"):
        result_from(strange)


def test_what_is_no_result_is_not_told():
    with pytest.raises(TypeError, match="is not a result"):
        told({"value": 1})
