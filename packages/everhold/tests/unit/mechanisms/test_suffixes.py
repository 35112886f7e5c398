"""S13: trees of suffixes. Counting, opening and choosing, and the worst analyst of a tiny tree by exhaustion."""

from functools import cache
from math import exp, inf

import pytest

from everhold.guarantees.description_length import QueryTree
from everhold.mechanisms import GuessAndCheck, State
from everhold.mechanisms.suffixes import Suffix, narrowest, opens, radius_of, share_of, since, together, tree_of

PLACES, LABELS = 7, 3


def worst(*, place_of_others=1, label_of_others=1 / LABELS):
    """Largest sum of the weights of all events of one tree, over all analysts, who may let other trees answer.

    Args:
        place_of_others: Places that an answer of another tree takes in this one.
        label_of_others: What a label of another tree counts for here, of `LABELS` equally likely ones.
    """
    tree = QueryTree(queries=PLACES)

    @cache
    def weight(place, surprises):
        return exp(-float(tree.log_inverse_weight(asked=place, surprises=surprises)))

    @cache
    def total(asked, surprises, left):
        if not left or asked >= PLACES:
            return 0.0
        surprises = min(surprises, asked)
        quiet, mark = total(asked + 1, surprises, left - 1), total(asked + 1, surprises + 1, left - 1)
        own = weight(asked + 1, surprises) + quiet + mark  # all courses of its labels sum to 1
        other_quiet = total(asked + place_of_others, surprises, left - 1)
        other_mark = total(asked + place_of_others, surprises + place_of_others, left - 1)
        return max(own, other_quiet + LABELS * label_of_others * other_mark)

    return total(0, 0, PLACES + 4)


def test_no_analyst_has_more_levels_than_the_tree():
    assert 0.5 < worst() <= 1.0


@pytest.mark.parametrize(
    "broken", [{"place_of_others": 0}, {"label_of_others": 1.0}], ids=["no place", "labels for nothing"]
)
def test_answers_of_other_trees_have_to_be_paid_for(broken):
    assert worst(**broken) > 1.0


def test_all_trees_together_have_the_probability_of_failure():
    assert sum(share_of(k) for k in range(1, 10_000)) < 1.0
    mechanism = GuessAndCheck.tuned(rows=2_000, queries=100, surprises=5).sharing(0.5)
    betas = [tree_of(mechanism, Suffix(k), rows=2_000, training_rows=0).beta for k in range(1, 500)]
    assert sum(betas) <= 0.05 * (1.0 + 1e-9)
    assert betas[0] == mechanism.beta == pytest.approx(0.025)


def test_a_holdout_that_was_not_made_to_grow_has_one_tree_with_all_of_it():
    mechanism = GuessAndCheck.tuned(rows=2_000, queries=100, surprises=5)
    assert tree_of(mechanism, Suffix(1), rows=2_000, training_rows=0) == mechanism
    more = tree_of(mechanism, Suffix(1), rows=4_000, training_rows=0)
    assert more.beta == mechanism.beta
    assert radius_of(more, State(10, 2)) < radius_of(mechanism, State(10, 2))


def test_counting_since_a_tree_opened():
    state, before = State(10, 3, 0, 7_000), State(4, 1, 0, 2_000)
    assert since(state, before) == State(6, 2, 0, 5_000)
    assert together(since(state, before), before) == state
    assert since(state, State()) is state


@pytest.mark.parametrize(
    ("charged", "rows", "expected"),
    [(0, 4_000, False), (1, 4_000, True), (1, 2_500, False)],
    ids=["nothing saved", "pays", "too few rows since"],
)
def test_a_tree_opens_where_it_pays(charged, rows, expected):
    latest = Suffix(2, 1, 2_000, State(5, 0))
    assert opens(latest, State(9, charged), rows=rows, arriving=100) is expected


def test_the_narrowest_tree_answers():
    mechanism = GuessAndCheck.tuned(rows=2_000, queries=100, surprises=5, training_rows=2_000).sharing(0.5)
    state = State(60, 10, 0, 45_000_000)
    late = Suffix(2, 3, 2_000, state)
    trees = [
        (tree_of(mechanism, tree, rows=rows, training_rows=2_000), tree)
        for tree, rows in ((Suffix(1), 5_000), (late, 3_000))
    ]
    assert narrowest(trees, state) == 1
    assert narrowest(trees[:1], state) == 0
    quiet = State(3, 0)
    young = [(trees[0][0], Suffix(1)), (trees[1][0], Suffix(2, 3, 2_000, quiet))]
    assert narrowest(young, quiet) == 0


def test_a_tree_that_refuses_is_never_the_narrowest():
    mechanism = GuessAndCheck.tuned(rows=40, queries=5, surprises=2)
    assert radius_of(mechanism, State(5, 5, 0, 10**9)) == inf


def test_trees_are_kept_as_numbers():
    tree = Suffix(3, 7, 12_345, State(40, 5, 0, 9_999))
    assert Suffix.read(tree.stored()) == tree
    for broken in ([1, 2, 3], [1, 0, 0, 0, 0, -1], [1, 0, 0, 0, 0, 0.5]):
        with pytest.raises(ValueError, match="cannot be read"):
            Suffix.read(broken)
