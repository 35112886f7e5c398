import itertools
import math
import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from everhold_lab.published.classical import (
    azuma_failure,
    blr_error,
    exponential_utility,
    hoeffding_failure,
    ladder_excess,
    ladder_radius,
    mcsherry_bias,
    small_database_rows,
)
from everhold_lab.published.splitting import hoeffding_radius


@pytest.mark.parametrize("rows", [5, 40, 300])
@pytest.mark.parametrize("probability", [0.5, 0.2])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_hoeffding_covers_the_exact_binomial_tail(rows, probability, confidence):
    radius = hoeffding_radius(rows, confidence=confidence)
    far = np.abs(np.arange(rows + 1) / rows - probability) >= radius
    tail = binom.pmf(np.arange(rows + 1), rows, probability)[far].sum()
    assert tail <= 1 - confidence
    assert hoeffding_failure(rows, radius=radius) == pytest.approx(1 - confidence)


def test_a_small_radius_says_nothing():
    assert hoeffding_failure(10, radius=0.01) == 1.0


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("probability", [0.5, 0.1])
def test_mcsherry_covers_every_choice_after_randomised_response(rows, epsilon, probability):
    """The largest bias over all maps from transcripts to {f, 1 - f}: the sum of absolute contributions."""
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    bias = 0.0
    for seen in product([0, 1], repeat=rows):
        contribution = 0.0
        for bits in product([0, 1], repeat=rows):
            law = math.prod(probability if bit else 1 - probability for bit in bits)
            law *= math.prod(keep if bit == copy else 1 - keep for bit, copy in zip(bits, seen, strict=True))
            contribution += law * (sum(bits) / rows - probability)
        bias += abs(contribution)
    assert 0 < bias <= mcsherry_bias(epsilon)
    assert bias <= math.tanh(epsilon / 4)  # part (ii) of the proof of S1, and below the slides' epsilon
    if rows == 1:
        assert bias == pytest.approx(2 * probability * (1 - probability) * math.tanh(epsilon / 2))


def test_mcsherry_by_hand_and_the_weaker_form_of_the_slides():
    assert mcsherry_bias(0.5, delta=0.1) == pytest.approx(math.exp(0.5) - 0.9)
    assert all(mcsherry_bias(epsilon, delta=0.01) <= 2 * epsilon + 0.01 for epsilon in np.linspace(0, 1, 101))


@pytest.mark.parametrize("epsilon", [0.05, 0.2, 0.49])
@pytest.mark.parametrize("delta", [1e-12, 1e-6])
def test_the_bound_with_high_probability_of_the_slides_is_false_without_its_constants(epsilon, delta):
    """P8 as printed, ``P[|h(S) - h(P)| > eps] <= delta^eps``: one fair coin, and a query fixed in advance."""
    outcomes = (0, 1)
    probability = sum(0.5 for bit in outcomes if abs(bit - 0.5) > epsilon)
    assert probability > delta**epsilon


@given(
    rows=st.integers(10, 10**8),
    submissions=st.integers(1, 10**6),
    step=st.floats(1e-3, 1.0),
    failure=st.floats(1e-9, 0.99),
)
def test_ladder_excess_is_that_of_the_failure(rows, submissions, step, failure):
    excess = ladder_excess(rows, submissions=submissions, step=step, failure=failure)
    tree = (1 / step + 2) * math.log(4 * submissions / step) + 1
    assert math.exp(tree - 2 * excess**2 * rows) == pytest.approx(failure, rel=1e-6)
    assert ladder_excess(rows + 1, submissions=submissions, step=step, failure=failure) <= excess
    assert ladder_excess(rows, submissions=submissions + 1, step=step, failure=failure) >= excess


@pytest.mark.parametrize("rows", [5_000, 100_000, 10**7])
@pytest.mark.parametrize("submissions", [1, 1000])
def test_the_ladder_step_is_at_its_best(rows, submissions):
    bound = ladder_radius(rows, submissions=submissions, confidence=0.95)
    grid = [
        step + ladder_excess(rows, submissions=submissions, step=step, failure=0.05)
        for step in np.geomspace(1e-5, 1.0, 2000)
    ]
    assert bound.radius == pytest.approx(min(grid), rel=1e-4)
    assert bound.radius == pytest.approx(bound.parameters["step"] + bound.parameters["excess"])


def test_a_ladder_on_few_rows_promises_nothing():
    assert ladder_radius(10, submissions=100, confidence=0.95).radius == math.inf


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("scores", [[0, 1, 2, 3], [0, 0, 0, 0, 0, 5], [4]])
def test_the_exponential_mechanism_keeps_its_utility_exactly(epsilon, confidence, scores):
    weights = np.exp(epsilon * np.array(scores) / 2)
    law = weights / weights.sum()
    shortfall = exponential_utility(len(scores), sensitivity=1.0, epsilon=epsilon, confidence=confidence)
    worse = max(scores) - np.array(scores) > shortfall
    assert law[worse].sum() <= 1 - confidence
    assert shortfall == pytest.approx(2 / epsilon * math.log(len(scores) / (1 - confidence)))


def test_the_integrated_tail_is_that_of_P11():
    at = exponential_utility(1000, sensitivity=1.0, epsilon=2.0, confidence=0.9)  # scale b = 1
    assert 1000 * math.exp(-at) == pytest.approx(0.1)


def test_the_utility_can_fail_when_the_shortfall_is_cut():
    law = np.exp(np.array([0.0] * 50 + [2.0]))
    law /= law.sum()
    shortfall = exponential_utility(51, sensitivity=1.0, epsilon=2.0, confidence=0.5)
    assert law[:50].sum() > 0.5
    assert shortfall >= 2.0


@pytest.mark.parametrize("accuracy", [0.3, 0.5])
def test_a_small_data_set_with_the_promised_accuracy_exists(accuracy):
    """All queries on three kinds of rows, every histogram of a large data set, every small data set."""
    queries = list(itertools.product([0, 1], repeat=3))
    size = small_database_rows(len(queries), accuracy=accuracy)
    kinds = range(3)
    small = [np.bincount(chosen, minlength=3) / size for chosen in itertools.combinations_with_replacement(kinds, size)]
    for first, second in itertools.product(np.linspace(0, 1, 8), repeat=2):
        if first + second <= 1:
            big = np.array([first, second, 1 - first - second])
            assert min(np.max(np.abs(np.array(queries) @ (big - candidate))) for candidate in small) <= accuracy


def test_blr_by_hand():
    assert small_database_rows(1000, accuracy=0.1) == math.ceil(math.log(1000) / 0.01)
    session = {"queries": 1000, "universe": 64, "epsilon": 0.5, "confidence": 0.95}
    by_hand = 0.1 + 2 / (0.5 * 10**6) * (691 * math.log(64) + math.log(20))
    assert blr_error(10**6, accuracy=0.1, **session) == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: hoeffding_failure(10, radius=0.0), "radius is 0.0. Pass a finite number above 0, such as 1."),
        (lambda: mcsherry_bias(-0.1), "epsilon is -0.1. Pass a number of at least 0."),
        (
            lambda: mcsherry_bias(0.1, delta=1.0),
            "delta is 1.0. Pass a number of at least 0 and below 1.",
        ),
        (
            lambda: ladder_excess(10, submissions=5, step=0.0, failure=0.1),
            "step is 0.0. Pass a number above 0 and at most 1, such as 0.01.",
        ),
        (
            lambda: ladder_excess(0, submissions=5, step=0.1, failure=0.1),
            "rows is 0. Pass a whole number of at least 1, such as 1000.",
        ),
        (
            lambda: ladder_radius(10, submissions=0, confidence=0.9),
            "submissions is 0. Pass a whole number of at least 1, such as 1000.",
        ),
        (
            lambda: exponential_utility(0, sensitivity=1.0, epsilon=1.0, confidence=0.9),
            "outcomes is 0. Pass at least 1, the number of outcomes that can be chosen.",
        ),
        (
            lambda: exponential_utility(5, sensitivity=0.0, epsilon=1.0, confidence=0.9),
            "sensitivity is 0.0. Pass a finite number above 0, such as 1.",
        ),
        (
            lambda: small_database_rows(1, accuracy=0.1),
            "queries is 1. Pass at least 2, or answer a single query with noise.",
        ),
    ],
)
def test_bad_arguments_are_refused(call, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        call()


@pytest.mark.parametrize("steps", [1, 10, 101])
def test_azuma_covers_the_exact_tail_of_a_fair_walk(steps):
    ends = 2 * np.arange(steps + 1) - steps
    for excess in range(1, steps + 1):
        tail = binom.pmf(np.arange(steps + 1), steps, 0.5)[ends >= excess].sum()
        assert tail <= azuma_failure(steps, size=1.0, excess=excess)
    assert binom.pmf(steps, steps, 0.5) > azuma_failure(steps, size=0.5, excess=steps)  # steps that are too small


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"steps": 0}, "steps is 0. Pass a whole number of at least 1"),
        ({"size": 0.0}, "size is 0.0. Pass a finite number above 0"),
        ({"excess": -1.0}, "excess is -1.0. Pass a finite number above 0"),
    ],
)
def test_azuma_refuses_bad_arguments(wrong, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        azuma_failure(**{"steps": 5, "size": 1.0, "excess": 1.0} | wrong)
