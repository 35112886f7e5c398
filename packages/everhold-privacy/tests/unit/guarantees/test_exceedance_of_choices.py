"""Regret of choices on the sealed rows, held against exact laws."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everhold_lab.releases.one_shot import PermuteAndFlip
from everhold_privacy.guarantees import exponential_exceedance, permute_and_flip_exceedance
from everhold_privacy.mechanisms.selection import ExponentialMechanism

EXCEEDANCES = {ExponentialMechanism: exponential_exceedance, PermuteAndFlip: permute_and_flip_exceedance}
BOTH = pytest.mark.parametrize("kind", EXCEEDANCES)
UNIT = 1000  # grid units in one scale b = 2 Delta / epsilon, for Delta = 500 and epsilon = 1


def mean_excess(kind, gaps, alpha):
    """``E(gap - alpha)_+`` by the law, in scales."""
    law = kind(1.0, sensitivity=UNIT // 2).law(np.asarray(gaps))
    return float(law @ np.maximum(np.asarray(gaps) / UNIT - alpha, 0.0))


@BOTH
@given(gaps=st.lists(st.integers(0, 8 * UNIT), min_size=0, max_size=9), alpha=st.floats(0, 4))
@settings(max_examples=150, deadline=None)
def test_no_losses_exceed_the_exceedance(kind, gaps, alpha):
    bound = EXCEEDANCES[kind](alpha=alpha, scale=1.0, candidates=len(gaps) + 1)
    assert mean_excess(kind, [0, *gaps], alpha) <= bound * (1 + 1e-9) + 1e-15


@BOTH
@pytest.mark.parametrize("others", [1, 3, 40])
@pytest.mark.parametrize("alpha", [0.0, 0.7, 5.0])
def test_the_exceedance_is_attained_by_equally_bad_candidates(kind, others, alpha):
    bound = EXCEEDANCES[kind](alpha=alpha, scale=1.0, candidates=others + 1)
    found = max(mean_excess(kind, [0] + [gap] * others, alpha) for gap in range(0, 12 * UNIT, 20))
    assert (1 - 1e-3) * bound <= found <= bound


@given(alpha=st.floats(0, 50), candidates=st.integers(1, 10**9), scale=st.floats(1e-6, 10))
@settings(deadline=None)
def test_permute_and_flip_is_the_smaller_and_P11_the_larger(alpha, candidates, scale):
    shared = {"scale": scale, "candidates": candidates}
    flip = permute_and_flip_exceedance(alpha=alpha * scale, **shared)
    exponential = exponential_exceedance(alpha=alpha * scale, **shared)
    assert flip <= exponential * (1 + 1e-9)
    assert exponential <= candidates * scale * math.exp(-alpha)  # the tail R e^{-x/b}, integrated
    assert permute_and_flip_exceedance(alpha=(alpha + 0.1) * scale, **shared) <= flip


def test_far_in_the_tail_permute_and_flip_has_half_the_exceedance():
    shared = {"alpha": 20.0, "scale": 1.0, "candidates": 1000}
    assert permute_and_flip_exceedance(**shared) == pytest.approx(exponential_exceedance(**shared) / 2, rel=1e-3)
    assert permute_and_flip_exceedance(alpha=0.0, scale=1.0, candidates=1) == 0.0


@BOTH
@pytest.mark.parametrize("wrong", [{"alpha": -1.0}, {"alpha": math.nan}, {"scale": 0.0}, {"candidates": 0}])
def test_wrong_arguments_are_refused(kind, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        EXCEEDANCES[kind](**{"alpha": 0.1, "scale": 1.0, "candidates": 3} | wrong)
