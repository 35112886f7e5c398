import math
import re

import pytest

from everhold_lab.published.thresholdout import (
    dwork_lemma_24,
    dwork_n_0,
    dwork_n_1,
    dwork_theorem_25,
    dwork_theorem_25_calibration,
    dwork_theorem_25_rows,
    zhao_theorem_2,
    zhao_theorem_2_calibration,
    zhao_theorem_2_rows,
)

SESSION = {"queries": 1000, "surprises": 10, "confidence": 0.95, "slack": 1 / 3}


# Zhao 2017 ------------------------------------------------------------------------------------------------------------


def test_theorem_2_needs_the_rows_computed_by_hand():
    sigma = (2 / 3) * 0.1 / (12 * math.log(4 * 1000 / 0.05))
    by_hand = 9 * 10 / (4 * sigma * (0.1 / 6 / 3))

    bound = zhao_theorem_2_rows(0.1, **SESSION)

    assert bound.rows == pytest.approx(8.23e6, rel=0.01)
    assert bound.rows == math.ceil(by_hand)
    assert bound.parameters["scale"] == pytest.approx(4.921e-4, rel=1e-3)
    assert bound.parameters["threshold"] == pytest.approx(2 / 30)
    assert bound.proof_complete


FAILURES = [1e-6, 0.05, 0.5, 0.999]
SLACKS = [1e-6, 1 / 3, 0.99]
COUNTS = [2, 3, 10, 10**6]


def noise_failure(*, queries, failure, slack, moved):
    """P2's noise with at most m surprises: some epoch's threshold, some comparison or some release too far off.

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
def test_theorem_2_stands_for_a_single_query_by_the_exact_tail(failure, slack):
    q = failure / 4
    released = q ** (0.75 * (3 + slack) / (1 - slack))
    assert (4 * q**1.5 - q**3) / 3 + released <= failure / 2


@pytest.mark.parametrize("slack", [0.0, 1.0])
def test_theorem_2_needs_a_slack_strictly_inside(slack):
    with pytest.raises(ValueError, match="slack"):
        zhao_theorem_2(1000, queries=10, surprises=1, confidence=0.95, slack=slack)


# Dwork et al. 2015 ----------------------------------------------------------------------------------------------------


def test_lemma_24_by_hand():
    assert dwork_n_0(10, 0.01, 0.1, 0.06) == pytest.approx(2 * 10 / 0.001)
    assert dwork_n_0(1, 10.0, 0.1, 0.06) == pytest.approx(math.log(100) / 0.01)
    assert dwork_n_1(10, 0.01, 0.1, 0.01) == pytest.approx(80 * math.sqrt(10 * math.log(1000)) / 0.001)
    assert dwork_lemma_24(10, 0.01, 0.1, 0.05) == dwork_n_0(10, 0.01, 0.1, 0.05)
    many = 1_000_000
    assert dwork_lemma_24(many, 0.01, 0.1, 0.05) == dwork_n_1(many, 0.01, 0.1, 0.05)


def test_theorem_25_by_hand():
    scale = 0.1 / (96 * math.log(4 * 1000 / 0.05))
    pure = 2 * 10 / (scale * 0.1 / 8)
    bound = dwork_theorem_25_rows(0.1, queries=1000, surprises=10, confidence=0.95)
    assert bound.rows == math.ceil(pure)
    assert bound.parameters["scale"] == pytest.approx(scale)
    assert bound.parameters["threshold"] == pytest.approx(0.075)
    assert dwork_theorem_25_calibration(0.1, queries=1000, confidence=0.95).scale == pytest.approx(scale)


def test_theorem_25_uses_the_square_root_form_for_many_surprises():
    session = {"queries": 10**7, "confidence": 0.95}
    few, many = (
        dwork_theorem_25_rows(0.1, surprises=surprises, **session).rows for surprises in (1_000_000, 4_000_000)
    )
    assert many == pytest.approx(2 * few, rel=1e-6)


def test_theorem_25_serves_no_slack_above_one_half():
    session = {"queries": 100, "surprises": 5, "confidence": 0.95, "slack": 0.6}
    assert dwork_theorem_25(10**9, **session).radius == math.inf
    assert dwork_theorem_25_rows(0.1, **session).rows == math.inf
    assert "slack" in dwork_theorem_25(10**9, **session).note


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: dwork_lemma_24(1, 0.0, 0.1, 0.1), "scale is 0.0. Pass a finite number above 0, such as 1."),
        (
            lambda: dwork_n_1(1, 0.1, 1.5, 0.1),
            "tolerance is 1.5. Pass a number strictly between 0 and 1, such as 0.05 or 0.95.",
        ),
        (
            lambda: dwork_theorem_25_calibration(0.1, queries=0, confidence=0.9),
            "queries is 0. Pass a whole number of at least 1, such as 1000.",
        ),
    ],
)
def test_bad_arguments_are_refused(call, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        call()
