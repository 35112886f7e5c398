import math

import pytest

from everhold.guarantees.published.thresholdout import (
    dwork_lemma_24,
    dwork_n_0,
    dwork_n_1,
    dwork_theorem_25,
    dwork_theorem_25_calibration,
    dwork_theorem_25_rows,
)
from everhold.privacy.curves import PureCurve
from everhold_lab.theory.thresholdout import dwork_lemma_23_approximate, dwork_lemma_23_pure


def test_pure_privacy_is_the_sum_over_the_three_noises():
    scale, rows, overfits = 0.01, 500, 7
    threshold, comparison, answer = 1 / (2 * scale), 2 / (4 * scale), 1 / scale
    assert dwork_lemma_23_pure(rows, overfits=overfits, scale=scale) == pytest.approx(
        overfits * (threshold + comparison + answer) / rows
    )


@pytest.mark.parametrize("overfits", [1, 10, 1000])
@pytest.mark.parametrize("delta", [0.5, 1e-2, 1e-8])
@pytest.mark.parametrize("share", [0.01, 0.3, 1.0])
def test_approximate_privacy_covers_the_exact_composition_where_it_is_accepted(overfits, delta, share):
    top = share * math.sqrt(8 * math.log(2 / delta) / overfits) * (1 - 1e-12)
    printed = dwork_lemma_23_approximate(1000, overfits=overfits, scale=2 / (1000 * top), delta=delta)
    assert printed == pytest.approx(math.sqrt(32 * overfits * math.log(2 / delta)) * top / 2)
    assert PureCurve(top, times=overfits).epsilon(delta) <= printed


def test_approximate_privacy_is_refused_where_it_is_false():
    overfits, top, delta = 100, 10.0, 0.5
    printed = math.sqrt(32 * overfits * math.log(2 / delta)) * top / 2
    # Loss of the released answers alone, in [-5, 5] each: variance by Bhatia-Davis, tail by Cantelli.
    shift = top / 2
    mean = shift - 1 + math.exp(-shift)
    variance = overfits * (shift - mean) * (shift + mean)
    margin = 7.0
    gap = overfits * mean - printed - margin
    true_delta = (1 - variance / (variance + gap**2)) * -math.expm1(-margin)
    assert true_delta > delta
    with pytest.raises(ValueError, match="advanced composition"):
        dwork_lemma_23_approximate(1000, overfits=overfits, scale=2 / (1000 * top), delta=delta)


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
    bound = dwork_theorem_25_rows(0.1, queries=1000, overfits=10, confidence=0.95)
    assert bound.rows == math.ceil(pure)
    assert bound.parameters["scale"] == pytest.approx(scale)
    assert bound.parameters["threshold"] == pytest.approx(0.075)
    assert dwork_theorem_25_calibration(0.1, queries=1000, confidence=0.95).scale == pytest.approx(scale)


def test_theorem_25_uses_the_square_root_form_for_many_overfits():
    session = {"queries": 10**7, "confidence": 0.95}
    few, many = (dwork_theorem_25_rows(0.1, overfits=overfits, **session).rows for overfits in (1_000_000, 4_000_000))
    assert many == pytest.approx(2 * few, rel=1e-6)


def test_theorem_25_serves_no_slack_above_one_half():
    session = {"queries": 100, "overfits": 5, "confidence": 0.95, "slack": 0.6}
    assert dwork_theorem_25(10**9, **session).radius == math.inf
    assert dwork_theorem_25_rows(0.1, **session).rows == math.inf
    assert "slack" in dwork_theorem_25(10**9, **session).note


@pytest.mark.parametrize(
    "call",
    [
        lambda: dwork_lemma_23_pure(0, overfits=1, scale=1.0),
        lambda: dwork_lemma_23_approximate(10, overfits=0, scale=1.0, delta=0.1),
        lambda: dwork_lemma_23_approximate(10, overfits=1, scale=1.0, delta=0.0),
        lambda: dwork_lemma_24(1, 0.0, 0.1, 0.1),
        lambda: dwork_n_1(1, 0.1, 1.5, 0.1),
        lambda: dwork_theorem_25_calibration(0.1, queries=0, confidence=0.9),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises(ValueError, match="expected"):
        call()
