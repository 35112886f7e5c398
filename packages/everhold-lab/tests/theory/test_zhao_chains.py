"""Theorems 1 and 2 for Markov chains: Lemma 4 puts 1/h in place of the quilts' price (P2 with P6, erratum 7)."""

import math

import pytest

from everhold_lab.published import zhao_theorem_2, zhao_theorem_2_rows
from everhold_lab.published.bayesian_privacy import chain_leakage_from, chain_privacy_for
from everhold_lab.published.thresholdout import zhao_lemma_1, zhao_n_sharp, zhao_privacy, zhao_theorem_2_calibration

SESSION = {"queries": 1000, "surprises": 10, "confidence": 0.95, "slack": 1 / 3}
CHAIN = {"gap": 0.6, "least": 0.4}


def price(tolerance, chain=CHAIN, rows=10**9):
    prescribed = chain_privacy_for(tolerance / 3, rows=rows, **chain)
    return 1 / prescribed if prescribed else math.inf


def test_rows_by_hand():
    """tau = 0.1: tau' = 1/60, h at eps = tau'/3 = 1/180 with one written-out c."""
    epsilon = 0.1 / 18
    at_c = max(h_by_hand(k / 60_000, epsilon) for k in range(1, 10_000))
    sigma = zhao_theorem_2_calibration(0.1, queries=1000, confidence=0.95, slack=1 / 3).scale
    assert zhao_theorem_2_rows(0.1, **SESSION, price=price).rows == pytest.approx(90 / (4 * sigma * at_c), rel=1e-4)


def h_by_hand(c, epsilon):
    d = math.ceil(math.log((math.exp(c * epsilon) + 1) / (0.4 * (math.exp(c * epsilon) - 1))) / 0.6)
    s = math.floor(math.log((math.exp(epsilon / 6) + 1) / (0.4 * (math.exp(epsilon / 6) - 1))) / 0.6)
    return min((1 - 6 * c) * epsilon / (2 * d - 1), (1 / 3 - 2 * c) * epsilon / (d + s))


def test_radius_and_rows_are_inverse_and_labelled():
    bound = zhao_theorem_2_rows(0.1, **SESSION, price=price)
    assert not bound.proof_complete
    assert zhao_theorem_2(bound.rows, **SESSION, price=price).radius == pytest.approx(0.1, rel=1e-6)
    assert bound.rows > 20 * zhao_theorem_2_rows(0.1, **SESSION).rows  # a chain pays for its memory


def test_at_these_rows_lemma_4_gives_the_bayesian_privacy_that_lemma_1_allows():
    bound = zhao_theorem_2_rows(0.1, **SESSION, price=price)
    loss = zhao_privacy(bound.rows, surprises=10, scale=bound.parameters["scale"])
    tolerance = (2 / 3) * 0.1 / 4
    leakage = chain_leakage_from(loss, rows=bound.rows, **CHAIN)
    assert leakage == pytest.approx(tolerance / 3, rel=1e-6)
    assert leakage <= tolerance / 3 * (1 + 1e-9)
    assert zhao_lemma_1(bound.rows, tolerance=tolerance, epsilon=leakage) <= 0.05 / 2000


def test_theorem_1_with_lemma_4_is_theorem_1_with_one_wide_quilt():
    tolerance = 0.2
    needed = 9 * 5 * price(tolerance) / (4 * 0.01)
    quilt = zhao_n_sharp(5, 0.01, tolerance, 0.05, nearby=round(price(tolerance) * tolerance / 3) - 1)
    assert needed == pytest.approx(quilt, rel=0.02)


@pytest.mark.parametrize("slower", [{"gap": 0.3, "least": 0.4}, {"gap": 0.6, "least": 0.1}])
def test_a_longer_memory_needs_more_rows(slower):
    rows = zhao_theorem_2_rows(0.1, **SESSION, price=price).rows
    assert zhao_theorem_2_rows(0.1, **SESSION, price=lambda tau: price(tau, slower)).rows > rows


def test_too_few_rows_for_the_lemma_promise_nothing():
    short = zhao_theorem_2(10**9, **SESSION, price=lambda tau: price(tau, {"gap": 1e-8, "least": 0.4}, 10**6))
    assert short.radius == math.inf
