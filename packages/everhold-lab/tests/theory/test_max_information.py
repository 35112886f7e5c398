import itertools
import math
import re

import numpy as np
import pytest

from everhold_lab.published.post_selection import (
    dwork_theorem_17,
    dwork_theorem_19,
    dwork_theorem_20,
    exact_max_information,
    p_value_threshold,
    theorems_19_and_3_cross_at,
    zhao_theorem_3,
)


def randomised_response(rows, epsilon, prior):
    """Joint law of the rows and their flipped copies, shape (2^n, 2^n)."""
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    one = np.array([[(1 - prior) * keep, (1 - prior) * (1 - keep)], [prior * (1 - keep), prior * keep]])
    joint = np.ones((1, 1))
    for _ in range(rows):
        joint = np.kron(joint, one)
    return joint


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("failure", [0.0, 0.05, 0.4])
def test_exact_max_information_is_the_worst_of_all_events(seed, failure):
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.full(9, 0.4)).reshape(3, 3)
    product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    events = (np.arange(1, 2**9)[:, None] >> np.arange(9)) & 1
    told, apart = events @ joint.ravel(), events @ product.ravel()
    worst = np.max((told[told > failure] - failure) / apart[told > failure])
    assert exact_max_information(joint, failure=failure) == pytest.approx(math.log2(worst))


def test_zhao_theorem_3_falls_below_theorem_19_only_while_the_loss_is_small():
    """The paper calls Theorem 19 weaker; with beta = .05 the order is the other way round from eps = .499 on."""
    for rows in (100, 10_000, 1_000_000):
        crossing = theorems_19_and_3_cross_at(rows, failure=0.05)
        assert crossing < 0.5
        for epsilon, weaker in ((0.9 * crossing, True), (1.1 * crossing, False)):
            ours = zhao_theorem_3(rows, leakage=epsilon, failure=0.05) < dwork_theorem_19(rows, epsilon=epsilon)
            assert ours is weaker
    assert theorems_19_and_3_cross_at(1_000_000, failure=0.05) == pytest.approx(0.4986, abs=1e-4)
    assert theorems_19_and_3_cross_at(5, failure=0.05) == 0.0  # so few rows that Theorem 19 is always smaller


CASES = list(itertools.product([1, 2, 3, 4], [0.1, 0.5, 1.5], [0.5, 0.2]))


@pytest.mark.parametrize(("rows", "epsilon", "prior"), CASES)
@pytest.mark.parametrize("failure", [0.01, 0.1])
def test_the_bounds_cover_randomised_response_exactly(rows, epsilon, prior, failure):
    joint = randomised_response(rows, epsilon, prior)
    exact = exact_max_information(joint, failure=failure)
    assert exact <= dwork_theorem_20(rows, epsilon=epsilon, failure=failure)
    assert exact <= zhao_theorem_3(rows, leakage=epsilon, failure=failure)
    assert exact <= dwork_theorem_17(2**rows, failure=failure)
    assert exact_max_information(joint) <= dwork_theorem_19(rows, epsilon=epsilon)


def test_theorem_19_is_close_to_tight_for_a_rare_value():
    joint = randomised_response(3, 1.0, 0.001)
    assert exact_max_information(joint) >= 0.99 * dwork_theorem_19(3, epsilon=1.0)


def test_the_formulas_by_hand():
    assert dwork_theorem_17(1024, failure=0.25) == pytest.approx(12.0)
    assert dwork_theorem_17(2**5000, failure=0.25) == pytest.approx(5002.0)
    assert dwork_theorem_19(100, epsilon=0.1 * math.log(2)) == pytest.approx(10.0)
    by_hand = (0.01**2 * 1000 / 2 + 0.01 * math.sqrt(1000 * math.log(40) / 2)) / math.log(2)
    assert dwork_theorem_20(1000, epsilon=0.01, failure=0.05) == pytest.approx(by_hand)
    zhao = (2 * 0.01**2 * 1000 + 0.01 * math.sqrt(2 * 1000 * math.log(40))) / math.log(2)
    assert zhao_theorem_3(1000, leakage=0.01, failure=0.05) == pytest.approx(zhao)


def test_p_value_threshold_spends_the_level_exactly():
    threshold = p_value_threshold(0.05, bits=7.3, failure=0.01)
    assert 2**7.3 * threshold + 0.01 == pytest.approx(0.05)


@pytest.mark.parametrize("failure", [0.0, 0.02])
def test_p_value_threshold_controls_false_rejections_after_selection(failure):
    """Rejecting for the worst rows of each transcript, of prior probability at most the threshold."""
    joint = randomised_response(4, 0.7, 0.5)
    bits = max(0.0, exact_max_information(joint, failure=failure))
    threshold = p_value_threshold(0.4, bits=bits, failure=failure)
    allowed = int(threshold * 16)
    rejected = sum(np.sort(joint[:, transcript])[::-1][:allowed].sum() for transcript in range(16))
    assert allowed >= 1
    assert rejected <= 0.4
    greedy = int(0.4 * 16)
    without = sum(np.sort(joint[:, transcript])[::-1][:greedy].sum() for transcript in range(16))
    assert without > 0.4


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: p_value_threshold(0.05, bits=1.0, failure=0.05),
            "failure is 0.05. Pass a number of at least 0 and below 0.05.",
        ),
        (
            lambda: p_value_threshold(0.05, bits=-1.0),
            "bits is -1.0. Pass a number of at least 0.",
        ),
        (
            lambda: exact_max_information([0.5, 0.5]),
            "joint has shape (2,), is negative or does not sum to 1. Pass probabilities of shape",
        ),
        (
            lambda: exact_max_information([[0.5, 0.6]]),
            "joint has shape (1, 2), is negative or does not sum to 1. Pass probabilities of shape",
        ),
        (
            lambda: exact_max_information([[1.5, -0.5]]),
            "joint has shape (1, 2), is negative or does not sum to 1. Pass probabilities of shape",
        ),
        (
            lambda: exact_max_information([[1.0]], failure=1.0),
            "failure is 1.0. Pass a number of at least 0 and below 1.",
        ),
        (
            lambda: theorems_19_and_3_cross_at(0, failure=0.1),
            "rows is 0. Pass a whole number of at least 1, such as 1000.",
        ),
        (
            lambda: dwork_theorem_17(0, failure=0.1),
            "transcripts is 0. Pass at least 1, the number of transcripts that can occur.",
        ),
        (lambda: dwork_theorem_19(0, epsilon=1.0), "rows is 0. Pass a whole number of at least 1, such as 1000."),
        (
            lambda: dwork_theorem_20(10, epsilon=-1.0, failure=0.1),
            "epsilon is -1.0. Pass a number of at least 0.",
        ),
        (
            lambda: zhao_theorem_3(10, leakage=1.0, failure=1.0),
            "failure is 1.0. Pass a number strictly between 0 and 1, such as 0.05 or 0.95.",
        ),
    ],
)
def test_bad_arguments_are_refused(call, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        call()
