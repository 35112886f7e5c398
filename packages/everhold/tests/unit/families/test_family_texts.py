"""The prefix code of text expressions: its weights sum to at most 1, and all spellings of a query have one of them."""

import math
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.families.texts import expression_nats, number_nats
from everhold.values.expressions import ColumnKind, Expression, parse
from everhold.values.expressions.tree import Node, Operation

COLUMNS = {"x": ColumnKind.NUMBER, "y": ColumnKind.NUMBER, "c": ColumnKind.STRING, "b": ColumnKind.BOOLEAN}
CATEGORIES = {"c": ("AA", "UA")}


def nats(text):
    return expression_nats(parse(text, COLUMNS), COLUMNS, CATEGORIES)


def weight(root):
    return math.exp(-expression_nats(Expression(root), COLUMNS, CATEGORIES))


def test_the_weights_of_numbers_sum_to_at_most_one():
    numbers = {0.0} | {
        sign * digits * 10.0**exponent for sign in (1, -1) for digits in range(1, 1_000) for exponent in range(-6, 7)
    }
    total = sum(math.exp(-number_nats(number)) for number in numbers)
    assert 0.6 < total <= 1.0


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_has_a_finite_price(number):
    assert 0.0 < number_nats(number) < math.inf


def test_infinite_numbers_share_what_is_left_for_them():
    assert 3 * math.exp(-number_nats(math.inf)) <= 1.0 / 16.0


def _conditions():
    """All conditions over these columns with at most two parts, and numbers of one digit."""
    x, y, c, b = (Node(Operation.COLUMN, kind, value=name) for name, kind in COLUMNS.items())
    numbers = [Node.literal(float(number)) for number in (0, 1, 15)]
    texts = [Node.literal(text) for text in ("AA", "UA", "B")]
    values = [x, y, *numbers]
    simple = {b, Node.literal(True), Node.literal(False)}
    simple |= {Node.of(Operation.LESS, one, other) for one, other in product(values, values)}
    simple |= {Node.of(Operation.EQUAL, one, other) for one, other in product(values, values)}
    simple |= {Node.of(Operation.EQUAL, c, text) for text in texts} | {Node.of(Operation.IS_NULL, c)}
    simple |= {Node.of(Operation.MEMBER, c, *some) for some in combinations(texts, 2)}
    negated = {Node.of(Operation.NOT, each) for each in simple}
    joined = {Node.of(how, *some) for how in (Operation.AND, Operation.OR) for some in combinations(simple, 2)}
    return simple | negated | joined


def test_the_weights_of_conditions_sum_to_at_most_one():
    """Of thousands of different expressions, those that are likely among them."""
    roots = {root for root in _conditions() if root.kind is ColumnKind.BOOLEAN}
    total = sum(map(weight, roots))
    assert len(roots) > 2_000
    assert 0.05 < total <= 0.8  # the rest is for numbers


@pytest.mark.parametrize(
    ("one", "other"),
    [("x > 15", "not (x <= 15.0)"), ("c = 'AA' and x > 1", "1 < x and c = 'AA'"),
     ("c = 'AA' or c = 'UA'", "c in ('UA', 'AA')")],
)  # fmt: skip
def test_spellings_of_one_query_have_one_price(one, other):
    assert nats(one) == nats(other)


def test_what_is_longer_or_stranger_is_dearer():
    bits = [nats(text) / math.log(2.0) for text in ("b", "x > 15", "x > 15.25", "x > 15 and c = 'AA'")]
    assert bits == sorted(bits)
    assert nats("c = 'AA'") < nats("c = 'XX'")
    assert 14.0 < bits[1] < 18.0


def test_a_column_costs_the_number_of_columns_of_its_kind():
    many = {**COLUMNS, **{f"x{number}": ColumnKind.NUMBER for number in range(6)}}
    assert expression_nats(parse("x > 5", many), many, {}) == pytest.approx(nats("x > 5") + math.log(8 / 2))
