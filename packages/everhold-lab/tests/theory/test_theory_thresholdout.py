import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold_lab.published.thresholdout import (
    blanket_price,
    dwork_lemma_23_approximate,
    dwork_lemma_23_pure,
    independent_price,
    quilt_price,
    zhao_lemma_1,
    zhao_lemma_2,
    zhao_lemma_3,
    zhao_n_sharp,
    zhao_n_star,
    zhao_privacy,
    zhao_theorem_2,
    zhao_theorem_2_calibration,
    zhao_theorem_2_rows,
    zhao_theorem_2_rows_as_printed,
)
from everhold_privacy.curves import PureCurve

SESSION = {"queries": 1000, "surprises": 10, "confidence": 0.95, "slack": 1 / 3}


def test_theorem_2_evaluates_the_definition_of_n_sharp():
    calibration = zhao_theorem_2_calibration(0.2, queries=50, confidence=0.9, slack=0.25)
    definition = zhao_n_sharp(5, calibration.scale, 0.75 * 0.2 / 4, 0.1 / 100)
    bound = zhao_theorem_2_rows(0.2, queries=50, surprises=5, confidence=0.9, slack=0.25)
    assert bound.rows == math.ceil(definition)


def test_the_printed_form_asks_for_too_few_rows():
    printed = zhao_theorem_2_rows_as_printed(0.1, **SESSION)
    by_hand = 9 * 10 / (4 * zhao_theorem_2_rows(0.1, **SESSION).parameters["scale"] * (0.1 / 3))
    assert printed == pytest.approx(by_hand)
    assert printed < zhao_theorem_2_rows(0.1, **SESSION).rows


def test_privacy_of_algorithm_1_is_the_sum_over_the_three_noises():
    scale, rows, surprises = 0.01, 500, 7
    threshold, comparison, answer = 1 / scale, 2 / (2 * scale), 1 / (4 * scale)
    assert zhao_privacy(rows, surprises=surprises, scale=scale) == pytest.approx(
        surprises * (threshold + comparison + answer) / rows
    )


def test_theorem_1_is_where_the_privacy_allowed_by_lemma_1_is_met():
    rows = math.ceil(zhao_n_star(10, 0.001, 0.1, 0.05))
    epsilon = zhao_privacy(rows, surprises=10, scale=0.001)
    assert zhao_lemma_1(rows, tolerance=0.1, epsilon=epsilon) <= 0.05


def test_theorem_1_second_term_is_the_concentration_of_lemma_1():
    rows = zhao_n_star(1, 10.0, 0.1, 0.05)
    assert rows == pytest.approx(9 * math.log(80) / 0.01)
    assert zhao_lemma_1(math.ceil(rows), tolerance=0.1, epsilon=0.0) == pytest.approx(0.05, rel=1e-3)


def test_dependence_makes_both_sample_sizes_larger():
    independent = zhao_n_star(10, 0.001, 0.1, 0.05)
    assert zhao_n_sharp(10, 0.001, 0.1, 0.05) == independent
    assert zhao_n_star(10, 0.001, 0.1, 0.05, blanket_influence=0.005) == pytest.approx(22500 / (0.1 / 3 - 0.02))
    assert zhao_n_sharp(10, 0.001, 0.1, 0.05, nearby=2, quilt_influence=0.005) == pytest.approx(
        3 * 22500 / (0.1 / 3 - 0.02)
    )


def test_a_quilt_with_too_much_influence_does_not_count():
    assert zhao_n_sharp(10, 0.001, 0.1, 0.05, quilt_influence=0.1 / 12) == math.inf
    assert zhao_n_star(10, 0.001, 0.1, 0.05, blanket_influence=1.0) == math.inf


def test_prices_agree_for_independent_rows():
    assert independent_price(0.3) == pytest.approx(10.0)
    assert quilt_price(0.3) == blanket_price(0.3) == pytest.approx(10.0)


def test_dependent_rows_are_labelled_as_not_fully_proved():
    dependent = zhao_theorem_2_rows(0.1, **SESSION, price=lambda tau: quilt_price(tau, nearby=2))
    assert not dependent.proof_complete
    assert dependent.rows == pytest.approx(3 * zhao_theorem_2_rows(0.1, **SESSION).rows, rel=1e-6)
    impossible = zhao_theorem_2(10**9, **SESSION, price=lambda tau: quilt_price(tau, quilt_influence=1.0))
    assert impossible.radius == math.inf


def test_lemma_1_refuses_a_choice_that_is_not_private_enough():
    with pytest.raises(ValueError, match="Pass a smaller epsilon"):
        zhao_lemma_1(100, tolerance=0.3, epsilon=0.11)


def test_lemma_1_takes_a_general_sensitivity():
    assert zhao_lemma_1(100, tolerance=9.0, epsilon=0.0, sensitivity=0.1) == pytest.approx(
        4 * math.exp(-81 / (9 * 100 * 0.01))
    )


@given(
    epsilon=st.floats(0.01, 5),
    nearby=st.integers(0, 20),
    influence=st.floats(0, 3),
)
def test_lemmas_2_and_3_invert_the_privacy_the_paper_prescribes(epsilon, nearby, influence):
    leakage = zhao_lemma_2(epsilon, nearby=nearby, quilt_influence=influence)
    assert (leakage - 4 * influence) / (nearby + 1) == pytest.approx(epsilon)
    assert zhao_lemma_3(epsilon, blanket_influence=influence) == epsilon + 4 * influence
    assert zhao_lemma_2(epsilon) == epsilon


def test_pure_privacy_is_the_sum_over_the_three_noises():
    scale, rows, surprises = 0.01, 500, 7
    threshold, comparison, answer = 1 / (2 * scale), 2 / (4 * scale), 1 / scale
    assert dwork_lemma_23_pure(rows, surprises=surprises, scale=scale) == pytest.approx(
        surprises * (threshold + comparison + answer) / rows
    )


@pytest.mark.parametrize("surprises", [1, 10, 1000])
@pytest.mark.parametrize("delta", [0.5, 1e-2, 1e-8])
@pytest.mark.parametrize("share", [0.01, 0.3, 1.0])
def test_approximate_privacy_covers_the_exact_composition_where_it_is_accepted(surprises, delta, share):
    top = share * math.sqrt(8 * math.log(2 / delta) / surprises) * (1 - 1e-12)
    printed = dwork_lemma_23_approximate(1000, surprises=surprises, scale=2 / (1000 * top), delta=delta)
    assert printed == pytest.approx(math.sqrt(32 * surprises * math.log(2 / delta)) * top / 2)
    assert PureCurve(top, times=surprises).epsilon(delta) <= printed


def test_approximate_privacy_is_refused_where_it_is_false():
    surprises, top, delta = 100, 10.0, 0.5
    printed = math.sqrt(32 * surprises * math.log(2 / delta)) * top / 2
    # Loss of the released answers alone, in [-5, 5] each: variance by Bhatia-Davis, tail by Cantelli.
    shift = top / 2
    mean = shift - 1 + math.exp(-shift)
    variance = surprises * (shift - mean) * (shift + mean)
    margin = 7.0
    gap = surprises * mean - printed - margin
    true_delta = (1 - variance / (variance + gap**2)) * -math.expm1(-margin)
    assert true_delta > delta
    with pytest.raises(ValueError, match="advanced composition"):
        dwork_lemma_23_approximate(1000, surprises=surprises, scale=2 / (1000 * top), delta=delta)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: dwork_lemma_23_pure(0, surprises=1, scale=1.0),
            "rows is 0. Pass a whole number of at least 1, such as 1000.",
        ),
        (
            lambda: dwork_lemma_23_approximate(10, surprises=0, scale=1.0, delta=0.1),
            "surprises is 0. Pass a whole number of at least 1, such as 1000.",
        ),
        (
            lambda: dwork_lemma_23_approximate(10, surprises=1, scale=1.0, delta=0.0),
            "delta is 0.0. Pass a number strictly between 0 and 1, such as 0.05 or 0.95.",
        ),
    ],
)
def test_bad_arguments_are_refused(call, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        call()
