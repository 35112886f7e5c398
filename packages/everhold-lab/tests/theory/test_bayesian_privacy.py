"""Bayesian privacy against plain loops and by hand; Lemmas 2 to 4 against each other and against a search over c."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import randomised_response

from everhold_lab.published.bayesian_privacy import (
    bayesian_leakage,
    bayesian_privacy,
    chain_leakage_from,
    chain_privacy_for,
    enumerated_influence,
    enumerated_quilt_influence,
    leakage_from,
    privacy_for,
)
from everhold_lab.published.thresholdout import blanket_price, quilt_price, zhao_lemma_2, zhao_lemma_3

COPIES = np.array([[0.4, 0.0], [0.0, 0.6]])


# By loops -------------------------------------------------------------------------------------------------------------


def probability(joint, fixed):
    """P[X_i = x_i for all i in ``fixed``]."""
    return sum(joint[x] for x in np.ndindex(joint.shape) if all(x[i] == value for i, value in fixed.items()))


def outcomes(joint, rows):
    """All values of some rows, as dictionaries."""
    values = itertools.product(*(range(joint.shape[row]) for row in rows))
    return [dict(zip(rows, value, strict=True)) for value in values]


def largest_log_ratio(table):
    """ln of the largest table[x]/table[x'] over x, x' and outcomes; 0/0 is skipped, c/0 is infinite."""
    largest = 0.0
    for one, other in itertools.permutations(table, 2):
        for top, bottom in zip(one, other, strict=True):
            if top > 0:
                largest = max(largest, math.inf if bottom == 0 else math.log(top / bottom))
    return largest


def influence_by_loops(joint, targets, row, given):
    worst = 0.0
    for context in outcomes(joint, given):
        table = []
        for x in range(joint.shape[row]):
            fixed = context | {row: x}
            mass = probability(joint, fixed)
            if mass > 0:
                table.append([probability(joint, fixed | target) / mass for target in outcomes(joint, targets)])
        worst = max(worst, largest_log_ratio(table))
    return worst


def leakage_by_loops(joint, law, row, known):
    with_output = joint[..., None] * law
    return influence_by_loops(with_output, [joint.ndim], row, known)


@st.composite
def small_joints(draw):
    shape = draw(st.sampled_from([(2,), (2, 2), (3, 2), (2, 2, 2), (2, 3, 2)]))
    weights = draw(st.lists(st.sampled_from([0, 0, 1, 2, 3, 7]), min_size=math.prod(shape), max_size=math.prod(shape)))
    joint = np.array(weights, dtype=float).reshape(shape)
    joint.flat[0] += 1
    return joint / joint.sum()


@given(joint=small_joints(), seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_the_leakage_is_that_of_plain_loops(joint, seed):
    law = np.random.default_rng(seed).integers(0, 3, size=(*joint.shape, 3)) + np.array([1, 0, 0])
    law = law / law.sum(axis=-1, keepdims=True)
    worst = 0.0
    for row in range(joint.ndim):
        others = [other for other in range(joint.ndim) if other != row]
        for known in itertools.chain.from_iterable(itertools.combinations(others, k) for k in range(joint.ndim)):
            expected = leakage_by_loops(joint, law, row, known)
            assert bayesian_leakage(joint, law, row=row, known=known) == pytest.approx(expected, abs=1e-12)
            worst = max(worst, expected)
    found = bayesian_privacy(joint, law)
    assert found.leakage == pytest.approx(worst, abs=1e-12)
    assert bayesian_leakage(joint, law, row=found.row, known=found.known) == found.leakage


@given(joint=small_joints(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_influence_is_that_of_plain_loops(joint, data):
    row, *others = data.draw(st.permutations(range(joint.ndim)))
    cut = data.draw(st.integers(0, len(others)))
    targets, conditions = others[:cut], others[cut:]
    expected = influence_by_loops(joint, targets, row, conditions)
    assert enumerated_influence(joint, targets=targets, row=row, given=conditions) == pytest.approx(expected, abs=1e-12)
    subsets = itertools.chain.from_iterable(itertools.combinations(conditions, k) for k in range(len(conditions) + 1))
    largest = max(influence_by_loops(joint, targets, row, subset) for subset in subsets)
    assert enumerated_quilt_influence(joint, row=row, quilt=targets, nearby=conditions) == pytest.approx(
        largest, abs=1e-12
    )


# By hand --------------------------------------------------------------------------------------------------------------


def test_independent_rows_have_just_their_differential_privacy():
    joint = np.einsum("a,b,c->abc", [0.2, 0.8], [0.5, 0.3, 0.2], [0.9, 0.1])
    assert bayesian_privacy(joint, randomised_response((2, 3, 2), 0.7)).leakage == pytest.approx(0.7)


@pytest.mark.parametrize("rows", [2, 3, 5])
def test_copies_of_a_row_are_told_once_for_each(rows):
    joint = np.zeros((2,) * rows)
    joint[(0,) * rows] = joint[(1,) * rows] = 0.5
    found = bayesian_privacy(joint, randomised_response((2,) * rows, 0.3))
    assert found.leakage == pytest.approx(0.3 * rows)
    assert found.known == ()  # who knows another copy learns nothing more


def test_what_is_told_for_certain_is_infinite():
    told = np.zeros((2, 2, 2))
    told[0, :, 0] = told[1, :, 1] = 1.0
    assert bayesian_leakage(COPIES, told, row=1) == math.inf
    assert bayesian_leakage(COPIES, told, row=1, known=(0,)) == 0.0
    assert bayesian_privacy(np.full((2, 2), 0.25), told).row == 0


def test_influence_by_hand():
    joint = np.array([[0.4, 0.1], [0.2, 0.3]])
    assert enumerated_influence(joint, targets=(1,), row=0) == pytest.approx(math.log(3))  # 0.6/0.2 against 0.8/0.4
    assert enumerated_influence(joint, targets=(), row=0) == 0.0
    assert enumerated_influence(COPIES, targets=(1,), row=0) == math.inf
    assert (
        enumerated_influence(np.array([[0.4, 0.6], [0.0, 0.0]]), targets=(1,), row=0) == 0.0
    )  # the row has one possible state


def test_knowing_more_can_raise_the_influence():
    """A common effect: without it the causes are independent, with it they are not; so b runs over all L."""
    joint = np.zeros((2, 2, 2))
    for a, b in np.ndindex(2, 2):
        joint[a, b, a ^ b] = 0.2
        joint[a, b, 1 - (a ^ b)] = 0.05
    assert enumerated_influence(joint, targets=(1,), row=0) == pytest.approx(0.0, abs=1e-12)
    assert enumerated_quilt_influence(joint, row=0, quilt=(1,), nearby=(2,)) == pytest.approx(math.log(4))


@pytest.mark.parametrize(
    ("joint", "law", "reason"),
    [
        ([0.5, 0.6], [[1.0], [1.0]], "does not sum to 1"),
        ([1.5, -0.5], [[1.0], [1.0]], "negative"),
        ([0.5, 0.5], [[1.0], [0.9]], "over the outputs"),
        ([0.5, 0.5], [[1.0], [1.0], [1.0]], "Pass a law with the axes"),
    ],
)
def test_tables_that_are_no_laws_are_refused(joint, law, reason):
    with pytest.raises(ValueError, match=reason):
        bayesian_privacy(joint, law)


@pytest.mark.parametrize(("row", "known"), [(2, ()), (0, (0,)), (0, (1, 1)), (-1, ())])
def test_rows_that_make_no_sense_are_refused(row, known):
    with pytest.raises(ValueError, match="different numbers from 0 to 1"):
        bayesian_leakage(COPIES, np.ones((2, 2, 1)), row=row, known=known)
    with pytest.raises(ValueError, match="different numbers"):
        enumerated_influence(COPIES, targets=known, row=row, given=(1,) if known == () else ())


# Lemmas 2 and 3 -------------------------------------------------------------------------------------------------------

options = st.lists(
    st.lists(st.tuples(st.integers(0, 20), st.floats(0, 3)), min_size=1, max_size=4), min_size=1, max_size=4
)


@given(options=options, privacy=st.floats(1e-3, 5))
def test_the_two_directions_are_inverse(options, privacy):
    assert privacy_for(leakage_from(privacy, options), options) == pytest.approx(privacy, rel=1e-9)


@given(nearby=st.integers(0, 20), b=st.floats(0, 0.2), privacy=st.floats(1e-3, 5), tolerance=st.floats(0.1, 3))
def test_they_are_the_published_lemmas(nearby, b, privacy, tolerance):
    assert leakage_from(privacy, [[(nearby, b)]]) == zhao_lemma_2(privacy, nearby=nearby, quilt_influence=b)
    assert leakage_from(privacy, [[(0, b)]]) == zhao_lemma_3(privacy, blanket_influence=b)
    prescribed = privacy_for(tolerance / 3, [[(nearby, b)]])
    price = quilt_price(tolerance, nearby=nearby, quilt_influence=b)
    assert (1 / prescribed if prescribed else math.inf) == pytest.approx(price)
    if nearby == 0:
        assert price == blanket_price(tolerance, blanket_influence=b)


def test_every_row_counts_with_its_best_quilt():
    rows = [[(9, 0.0), (2, 0.05), (0, math.inf)], [(1, 0.1)]]
    assert leakage_from(0.5, rows) == pytest.approx(max(min(5.0, 1.7), 1.4))
    assert privacy_for(1.0, rows) == pytest.approx(min(0.8 / 3, 0.6 / 2))
    assert privacy_for(0.3, [[(0, 0.1)]]) == 0.0


@pytest.mark.parametrize("rows", [[], [[]], [[(-1, 0.0)]], [[(0, -0.1)]], [[(0, math.nan)]]])
def test_options_that_make_no_sense_are_refused(rows):
    for function in (privacy_for, leakage_from):
        with pytest.raises(ValueError, match="Pass at least one pair"):
            function(1.0, rows)


# Lemma 4 --------------------------------------------------------------------------------------------------------------

chains = {
    "rows": st.integers(2, 10**6),
    "gap": st.floats(1e-3, 1.0),
    "least": st.floats(1e-3, 0.5),
}


def h_as_printed(c, epsilon, *, rows, gap, least):
    """Zhao's Lemma 4 for one c, word for word."""

    def distance(x):
        return math.log((math.exp(x) + 1) / (least * (math.exp(x) - 1))) / gap

    d, s = math.ceil(distance(c * epsilon)), math.floor(distance(epsilon / 6))
    return min((1 - 6 * c) * epsilon / (2 * d - 1), (1 / 3 - 2 * c) * epsilon / (d + s)) if rows >= 2 * d else 0.0


@given(epsilon=st.floats(1e-3, 20), **chains)
@settings(max_examples=150, deadline=None)
def test_h_is_the_printed_one_at_its_best_c(epsilon, rows, gap, least):
    chain = {"rows": rows, "gap": gap, "least": least}
    best = chain_privacy_for(epsilon, **chain)
    scanned = max(h_as_printed(c, epsilon, **chain) for c in np.linspace(0, 1 / 6, 3_000)[1:-1])
    assert scanned <= best * (1 + 1e-9)
    assert best <= scanned * 1.05 + 2e-3 * epsilon / (rows // 2)


@given(privacy=st.floats(1e-4, 3), **chains)
@settings(max_examples=60, deadline=None)
def test_lemma_4_is_inverted(privacy, rows, gap, least):
    chain = {"rows": rows, "gap": gap, "least": least}
    epsilon = chain_leakage_from(privacy, **chain)
    if math.isinf(epsilon):
        assert chain_privacy_for(1e6, **chain) == 0.0
    else:
        assert chain_privacy_for(epsilon, **chain) >= privacy
        assert chain_privacy_for(epsilon * (1 - 1e-9), **chain) < privacy


@given(epsilon=st.floats(1e-3, 20), factor=st.floats(1.0, 3.0), **chains)
@settings(max_examples=60, deadline=None)
def test_more_room_never_asks_for_more_noise(epsilon, factor, rows, gap, least):
    chain = {"rows": rows, "gap": gap, "least": least}
    noise = chain_privacy_for(epsilon, **chain)
    assert chain_privacy_for(factor * epsilon, **chain) >= noise
    assert chain_privacy_for(epsilon, **(chain | {"rows": 2 * rows})) >= noise
    assert noise <= epsilon


def test_a_chain_that_forgets_at_once_and_one_that_never_does():
    assert chain_privacy_for(1.0, rows=10**6, gap=1.0, least=0.5) > 0.03
    assert chain_privacy_for(1.0, rows=10**6, gap=1e-7, least=0.5) == 0.0
    assert chain_privacy_for(1.0, rows=5, gap=0.5, least=0.5) == 0.0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rows": 0}, "rows is 0"),
        ({"gap": 0.0}, "gap is 0"),
        ({"gap": 1.5}, "gap is 1.5"),
        ({"least": 0.0}, "least is 0"),
        ({"least": 1.0}, "least is 1"),
    ],
)
def test_chains_that_make_no_sense_are_refused(change, reason):
    for function in (chain_privacy_for, chain_leakage_from):
        with pytest.raises(ValueError, match=reason):
            function(1.0, **({"rows": 100, "gap": 0.5, "least": 0.3} | change))


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan])
def test_losses_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="epsilon is"):
        privacy_for(wrong, [[(0, 0.0)]])
    with pytest.raises(ValueError, match="epsilon is"):
        chain_privacy_for(wrong, rows=100, gap=0.5, least=0.3)
    with pytest.raises(ValueError, match="privacy is"):
        chain_leakage_from(wrong, rows=100, gap=0.5, least=0.3)
    with pytest.raises(ValueError, match="privacy is"):
        leakage_from(-1.0, [[(0, 0.0)]])
