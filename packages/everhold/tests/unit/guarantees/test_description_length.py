"""S8: the weights of the tree of queries in exact fractions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.guarantees.description_length import QueryTree

SHARE = Fraction(9, 10)


def exact_weight(queries, asked, surprises):
    """w(node) in exact fractions, from the definition, without labels."""
    placed = Fraction(1, (surprises + 1) * (surprises + 2))
    planned = SHARE / math.comb(queries, surprises + 1) if surprises < asked <= queries else Fraction(0)
    return placed * (planned + (1 - SHARE) / (asked * (asked + 1) * math.comb(asked - 1, surprises)))


@pytest.mark.parametrize("queries", [1, 2, 5, 12, 30])
def test_weights_of_all_nodes_sum_to_at_most_one(queries):
    total = sum(exact_weight(queries, j, f) * math.comb(j - 1, f) for j in range(1, 61) for f in range(j))
    assert SHARE * queries / (queries + 1) < total <= 1


@pytest.mark.parametrize("labels", [(1,), (3, 1), (5, 3, 2)])
def test_labels_of_any_prior_leave_the_sum_as_it_is(labels):
    """Nodes by their whole history: nothing, or a label whose prior depends on how many surprises there were."""
    priors = [[Fraction(1, n + 1)] * n for n in labels]
    total = Fraction(0)
    for j in range(1, 6):
        kinds = [None, *range(max(labels))]
        for history in itertools.product(kinds, repeat=j - 1):
            told = [label for label in history if label is not None]
            if all(label < len(priors[turn % len(priors)]) for turn, label in enumerate(told)):
                share = math.prod((priors[turn % len(priors)][label] for turn, label in enumerate(told)), start=1)
                total += share * exact_weight(4, j, len(told))
    assert 0 < total <= 1


@pytest.mark.parametrize("queries", [1, 4, 30])
def test_the_library_uses_these_weights(queries):
    nodes = [(j, f) for j in range(1, 41) for f in range(j)]
    asked, surprises = np.array(nodes).T
    exact = np.array([-math.log(exact_weight(queries, j, f)) for j, f in nodes])
    tree = QueryTree(queries=queries)
    np.testing.assert_allclose(tree.log_inverse_weight(asked=asked, surprises=surprises), exact, rtol=1e-11)
    dearer = tree.log_inverse_weight(asked=asked, surprises=surprises, labels=7.5)
    np.testing.assert_allclose(dearer, exact + 7.5, rtol=1e-11)


@given(queries=st.integers(1, 500), asked=st.integers(1, 900))
def test_the_price_never_falls_as_queries_go_on(queries, asked):
    tree, surprises = QueryTree(queries=queries), np.arange(min(asked, 12))
    price = tree.log_inverse_weight(asked=asked, surprises=surprises)
    assert np.all(tree.log_inverse_weight(asked=asked + 1, surprises=surprises) >= price - 1e-9)


def test_more_surprises_than_earlier_queries_are_impossible():
    assert QueryTree(queries=9).log_inverse_weight(asked=3, surprises=3) == math.inf


def test_sharper_than_the_uniform_tree_for_whoever_behaves():
    quiet = float(QueryTree(queries=1000).log_inverse_weight(asked=1000, surprises=0))
    assert quiet == pytest.approx(math.log(2000 / 0.9), abs=0.02)
