"""S3: the tree of questions by counting, its weights in exact fractions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.guarantees.description_length import QuestionTree, log_tree_size


def histories(length, overfits, grid):
    """All histories of ``length`` answers: None for a confirmed guess, else the released value."""
    for history in itertools.product([None, *range(grid)], repeat=length):
        if sum(value is not None for value in history) <= overfits:
            yield history


@pytest.mark.parametrize("queries", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("overfits", [0, 1, 2, 5])
@pytest.mark.parametrize("grid", [1, 2, 3])
def test_tree_size_is_the_number_of_histories(queries, overfits, grid):
    counted = sum(1 for length in range(queries) for _ in histories(length, overfits, grid))
    assert math.exp(log_tree_size(queries=queries, overfits=overfits, grid=grid)) == pytest.approx(counted, rel=1e-12)


@given(queries=st.integers(1, 60), overfits=st.integers(0, 60), grid=st.integers(1, 50))
def test_tree_size_is_at_most_the_cruder_count_of_the_theory(queries, overfits, grid):
    crude = queries * sum(math.comb(queries, b) * grid**b for b in range(overfits + 1))
    assert log_tree_size(queries=queries, overfits=overfits, grid=grid) <= math.log(crude) + 1e-9


def exact_weight(tree, asked, released):
    """w(node) in exact fractions, from the definition."""
    size = sum(math.comb(tree.queries, f + 1) * tree.grid**f for f in range(tree.overfits + 1))
    planned = Fraction(1, size) if asked <= tree.queries and released <= tree.overfits else Fraction(0)
    paths = math.comb(asked - 1, released) * tree.grid**released
    return (planned + Fraction(1, asked * (asked + 1) * (released + 1) * (released + 2) * paths)) / 2


TREES = [QuestionTree(queries=m, overfits=b, grid=g) for m, b, g in [(1, 1, 1), (5, 2, 3), (12, 12, 2), (30, 4, 10)]]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_weights_of_all_nodes_sum_to_at_most_one(tree):
    total = sum(exact_weight(tree, j, f) * math.comb(j - 1, f) * tree.grid**f for j in range(1, 41) for f in range(j))
    assert Fraction(4, 5) < total <= 1  # the rest lies beyond 40 questions


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_the_library_uses_these_weights(tree):
    nodes = [(j, f) for j in range(1, 41) for f in range(j)]
    asked, released = np.array(nodes).T
    exact = np.array([float(-math.log(exact_weight(tree, j, f))) for j, f in nodes])
    np.testing.assert_allclose(tree.log_inverse_weight(asked=asked, released=released), exact, rtol=1e-11)


@given(queries=st.integers(1, 5000), overfits=st.integers(1, 40), grid=st.integers(1, 200), data=st.data())
def test_pay_as_you_go_is_never_worse_than_the_plan_by_more_than_ln_2(queries, overfits, grid, data):
    tree = QuestionTree(queries=queries, overfits=overfits, grid=grid)
    asked = data.draw(st.integers(1, queries))
    released = data.draw(st.integers(0, min(overfits, asked - 1)))
    price = float(tree.log_inverse_weight(asked=asked, released=released))
    assert price <= log_tree_size(queries=queries, overfits=overfits, grid=grid) + math.log(2) + 1e-9


@given(queries=st.integers(1, 500), overfits=st.integers(0, 9), grid=st.integers(1, 50), asked=st.integers(1, 900))
def test_the_price_never_falls_as_questions_and_surprises_go_on(queries, overfits, grid, asked):
    tree = QuestionTree(queries=queries, overfits=overfits, grid=grid)
    price = tree.log_inverse_weight(asked=asked, released=np.arange(min(asked, 12)))
    quiet = tree.log_inverse_weight(asked=asked + 1, released=np.arange(min(asked, 12)))
    surprised = tree.log_inverse_weight(asked=asked + 1, released=1 + np.arange(min(asked, 12)))
    assert np.all(quiet >= price - 1e-9)
    assert np.all(surprised >= price - 1e-9)
