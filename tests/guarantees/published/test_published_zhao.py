import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.guarantees.published import zhao_theorem_2, zhao_theorem_2_rows
from everhold.guarantees.published.thresholdout import independent_price, zhao_theorem_2_calibration
from everhold_lab.theory.thresholdout import (
    blanket_price,
    quilt_price,
    zhao_lemma_1,
    zhao_lemma_2,
    zhao_lemma_3,
    zhao_n_sharp,
    zhao_n_star,
    zhao_privacy,
    zhao_theorem_2_rows_as_printed,
)

SESSION = {"queries": 1000, "overfits": 10, "confidence": 0.95, "slack": 1 / 3}


def test_theorem_2_needs_the_rows_computed_by_hand():
    sigma = (2 / 3) * 0.1 / (12 * math.log(4 * 1000 / 0.05))
    by_hand = 9 * 10 / (4 * sigma * (0.1 / 6 / 3))

    bound = zhao_theorem_2_rows(0.1, **SESSION)

    assert bound.rows == pytest.approx(8.23e6, rel=0.01)
    assert bound.rows == math.ceil(by_hand)
    assert bound.parameters["scale"] == pytest.approx(4.921e-4, rel=1e-3)
    assert bound.parameters["threshold"] == pytest.approx(2 / 30)
    assert bound.proof_complete


def test_theorem_2_evaluates_the_definition_of_n_sharp():
    calibration = zhao_theorem_2_calibration(0.2, queries=50, confidence=0.9, slack=0.25)
    definition = zhao_n_sharp(5, calibration.scale, 0.75 * 0.2 / 4, 0.1 / 100)
    bound = zhao_theorem_2_rows(0.2, queries=50, overfits=5, confidence=0.9, slack=0.25)
    assert bound.rows == math.ceil(definition)


def test_the_printed_form_asks_for_too_few_rows():
    printed = zhao_theorem_2_rows_as_printed(0.1, **SESSION)
    by_hand = 9 * 10 / (4 * zhao_theorem_2_rows(0.1, **SESSION).parameters["scale"] * (0.1 / 3))
    assert printed == pytest.approx(by_hand)
    assert printed < zhao_theorem_2_rows(0.1, **SESSION).rows


FAILURES = [1e-6, 0.05, 0.5, 0.999]
SLACKS = [1e-6, 1 / 3, 0.99]
COUNTS = [2, 3, 10, 10**6]


def noise_failure(*, queries, failure, slack, moved):
    """P2's noise with at most m overfits: some epoch's threshold, some comparison or some release too far off.

    Half a beta is set aside for it. ``moved`` goes, in units of sigma, from the comparison's share to the threshold's.
    """
    tau = 0.5
    sigma = zhao_theorem_2_calibration(tau, queries=queries, confidence=1 - failure, slack=slack).scale
    room, log = (1 - slack) * tau / 4, math.log(4 * queries / failure)
    threshold = sigma * (log + moved)
    parts = math.exp(-threshold / sigma), math.exp(-(room - threshold) / (2 * sigma))
    return queries * sum((*parts, math.exp(-(3 + slack) * tau / 4 / (4 * sigma))))


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("queries", COUNTS)
def test_theorem_2_stands_when_18_adds_the_two_probabilities(queries, failure, slack):
    """Erratum 9: the printed proof takes the larger of them."""
    repaired = noise_failure(queries=queries, failure=failure, slack=slack, moved=2 / 3 * math.log(2))
    assert repaired <= failure / 2 * (1 + 1e-12)


def test_the_split_of_theorem_2_as_printed_does_not_leave_room_for_the_sum():
    assert noise_failure(queries=2, failure=0.5, slack=1e-6, moved=0.0) > 0.25


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("slack", SLACKS)
def test_theorem_2_stands_for_a_single_question_by_the_exact_tail(failure, slack):
    q = failure / 4
    released = q ** (0.75 * (3 + slack) / (1 - slack))
    assert (4 * q**1.5 - q**3) / 3 + released <= failure / 2


def test_privacy_is_the_sum_over_the_three_noises():
    scale, rows, overfits = 0.01, 500, 7
    threshold, comparison, answer = 1 / scale, 2 / (2 * scale), 1 / (4 * scale)
    assert zhao_privacy(rows, overfits=overfits, scale=scale) == pytest.approx(
        overfits * (threshold + comparison + answer) / rows
    )


def test_theorem_1_is_where_the_privacy_allowed_by_lemma_1_is_met():
    rows = math.ceil(zhao_n_star(10, 0.001, 0.1, 0.05))
    epsilon = zhao_privacy(rows, overfits=10, scale=0.001)
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
    with pytest.raises(ValueError, match="add noise"):
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


@pytest.mark.parametrize("slack", [0.0, 1.0])
def test_theorem_2_needs_a_slack_strictly_inside(slack):
    with pytest.raises(ValueError, match="slack"):
        zhao_theorem_2(1000, queries=10, overfits=1, confidence=0.95, slack=slack)
