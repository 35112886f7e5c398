import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from everhold.guarantees.published import hoeffding_splitting
from everhold.guarantees.published.splitting import hoeffding_radius, hoeffding_splitting_rows
from everhold_lab.theory.classical import hoeffding_failure, mcsherry_bias


@pytest.mark.parametrize("rows", [5, 40, 300])
@pytest.mark.parametrize("probability", [0.5, 0.2])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_hoeffding_covers_the_exact_binomial_tail(rows, probability, confidence):
    radius = hoeffding_radius(rows, confidence=confidence)
    far = np.abs(np.arange(rows + 1) / rows - probability) >= radius
    tail = binom.pmf(np.arange(rows + 1), rows, probability)[far].sum()
    assert tail <= 1 - confidence
    assert hoeffding_failure(rows, radius=radius) == pytest.approx(1 - confidence)


def test_hoeffding_by_hand():
    assert hoeffding_radius(1000, queries=50, confidence=0.95) == pytest.approx(math.sqrt(math.log(2000) / 2000))
    assert hoeffding_failure(10, radius=0.01) == 1.0


def test_splitting_is_hoeffding_on_a_part():
    session = {"queries": 20, "overfits": 1, "confidence": 0.95, "slack": 0.0}
    assert hoeffding_splitting(10_000, **session).radius == pytest.approx(math.sqrt(20 * math.log(800) / (2 * 10_000)))
    assert hoeffding_splitting(10_019, **session).radius == hoeffding_splitting(10_000, **session).radius
    assert hoeffding_splitting(19, **session).radius == math.inf
    bound = hoeffding_splitting_rows(0.1, **session)
    assert bound.rows == 20 * math.ceil(math.log(800) / 0.02)
    assert bound.parameters["rows_per_part"] == bound.rows / 20


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


@pytest.mark.parametrize(
    "call",
    [
        lambda: hoeffding_radius(0, confidence=0.9),
        lambda: hoeffding_radius(10, queries=0, confidence=0.9),
        lambda: hoeffding_failure(10, radius=0.0),
        lambda: mcsherry_bias(-0.1),
        lambda: mcsherry_bias(0.1, delta=1.0),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises(ValueError, match="expected"):
        call()
