"""The bound for approximate privacy: every step of its proof on tiny worlds, and its result on hundreds of rows."""

import itertools
import math
import re

import numpy as np
import pytest
from scipy.stats import binom

from everhold_lab.published.post_selection import (
    dwork_theorem_20,
    exact_max_information,
    max_information_of_curve,
    rogers_2016,
    zhao_theorem_3,
)
from everhold_privacy.curves import GaussianCurve, PureCurve


def hockey_stick(law, other, epsilon):
    return float(np.maximum(law - math.exp(epsilon) * other, 0.0).sum(axis=-1).max())


def curve_of(kernel, epsilon):
    """Largest divergence of data sets that differ in one row; kernel of shape (values, ..., values, outputs)."""
    rows = kernel.ndim - 1
    found = 0.0
    for row in range(rows):
        moved = np.moveaxis(kernel, row, 0)
        found = max(found, *(hockey_stick(one, other, epsilon) for one, other in itertools.permutations(moved, 2)))
    return found


def worlds(count=60):
    """Laws of up to three independent rows, and kernels, some with outputs that give rows away."""
    rng = np.random.default_rng(11)
    for number in range(count):
        rows, values, outputs = int(rng.integers(1, 4)), int(rng.integers(2, 4)), int(rng.integers(2, 5))
        laws = rng.dirichlet(np.full(values, 0.7), size=rows)
        kernel = np.exp(rng.normal(0.0, [0.1, 0.5, 1.5][number % 3], (values,) * rows + (outputs,)))
        if number % 2:
            kernel[rng.random(kernel.shape) < 0.2] = 0.0  # impossible outputs: no pure privacy
            kernel[..., 0] += 0.05
        yield laws, kernel / kernel.sum(axis=-1, keepdims=True)


def posterior_ratios(laws, kernel, row):
    """r = P[x_i | y, x_<i] / P[x_i] of shape (earlier, values, outputs) and P[y, x_<i] of shape (earlier, outputs)."""
    rows, values = laws.shape
    table = kernel
    for later in range(rows - 1, row, -1):
        table = np.tensordot(table, laws[later], axes=(later, 0))
    table = table.reshape(-1, values, kernel.shape[-1])
    mixture = np.einsum("evo,v->eo", table, laws[row])
    before = np.ones(1)
    for earlier in range(row):
        before = np.outer(before, laws[earlier]).ravel()
    return np.divide(table, mixture[:, None], out=np.ones_like(table), where=mixture[:, None] > 0), before[
        :, None
    ] * mixture


@pytest.mark.parametrize("cap", [0.05, 0.3, 1.0, 2.5])
def test_each_step_of_the_proof_holds_on_tiny_worlds(cap):
    for laws, kernel in worlds():
        for row, law in enumerate(laws):
            ratio, weight = posterior_ratios(laws, kernel, row)
            with np.errstate(divide="ignore"):
                clipped = np.clip(np.log(ratio), -cap, cap)
            gain = np.einsum("evo,evo,v->eo", ratio, clipped, law)
            short = np.einsum("evo,v->eo", np.maximum(math.exp(-cap) - ratio, 0.0), law)
            assert np.all(gain <= cap * math.tanh(cap / 2) + cap * math.exp(cap) / math.sinh(cap) * short + 1e-12)
            assert (weight * short).sum() <= math.exp(-cap) * curve_of(kernel, cap) + 1e-12
            beyond = (weight * np.einsum("evo,evo,v->eo", ratio, ratio > math.exp(cap) * (1 + 1e-9), law)).sum()
            for epsilon in (0.2 * cap, 0.7 * cap):
                assert beyond <= curve_of(kernel, epsilon) / -math.expm1(epsilon - cap) + 1e-12


def test_the_gain_of_one_row_is_attained_and_needs_the_term_of_impossible_outputs():
    cap = 0.7
    high = 1.0 / (1.0 + math.exp(cap))
    law, ratio = np.array([high, 1.0 - high]), np.array([math.exp(cap), math.exp(-cap)])
    assert law @ ratio == pytest.approx(1.0)
    assert law @ (ratio * np.log(ratio)) == pytest.approx(cap * math.tanh(cap / 2))
    law, ratio = np.array([math.exp(-cap), 1.0 - math.exp(-cap)]), np.array([math.exp(cap), 0.0])
    gain = law[0] * ratio[0] * cap
    assert gain > 1.5 * cap * math.tanh(cap / 2)  # without the term the step is false
    assert gain == pytest.approx(cap * math.tanh(cap / 2) + cap / math.sinh(cap) * law[1])


def joint_of(laws, kernel):
    rows = np.ones(1)
    for law in laws:
        rows = np.outer(rows, law).ravel()
    return rows[:, None] * kernel.reshape(len(rows), -1)


@pytest.mark.parametrize("failure", [0.01, 0.1, 0.5])
def test_the_bound_covers_the_exact_max_information_of_tiny_worlds(failure):
    finite = 0
    for laws, kernel in worlds():
        exact = exact_max_information(joint_of(laws, kernel), failure=failure)
        for epsilon in (0.1, 0.5, 2.0):
            bound = rogers_2016(len(laws), epsilon=epsilon, delta=min(0.99, curve_of(kernel, epsilon)), failure=failure)
            finite += bound.bits < math.inf
            assert exact <= bound.bits + 1e-12
    assert finite > 30


def leaky_responses(rows, epsilon, delta):
    """Law of the loss ln P[x, y] / (P[x] P[y]): each fair bit is told with odds e^eps, or given away with delta.

    The session is (eps, delta)-private. Its loss depends on two counts only: bits given away and bits told wrongly.
    """
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    given, wrong = np.meshgrid(np.arange(rows + 1), np.arange(rows + 1), indexing="ij")
    possible = given + wrong <= rows
    given, wrong = given[possible], wrong[possible]
    chances = binom.pmf(given, rows, delta) * binom.pmf(wrong, rows - given, 1 - keep)
    losses = given * math.log(2) + wrong * math.log(2 * (1 - keep)) + (rows - given - wrong) * math.log(2 * keep)
    order = np.argsort(losses)
    return losses[order], chances[order]


def largest_information(losses, law, failure):
    """Exact approximate max-information in bits, from the law of the loss under P."""
    gained = np.cumsum(law[::-1])
    reference = np.cumsum((law * np.exp(-losses))[::-1])
    return math.log2(np.max((gained - failure) / np.maximum(reference, 1e-300)))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_on_hundreds_of_rows_the_bound_holds_and_without_its_terms_it_does_not(delta):
    rows, epsilon, failure = 400, 0.4, 0.01
    losses, law = leaky_responses(rows, epsilon, delta)
    exact = largest_information(losses, law, failure)
    bound = rogers_2016(rows, epsilon=epsilon, delta=delta, failure=failure)
    assert exact <= bound.bits < 20 * exact
    spread = epsilon * math.sqrt(2 * rows * math.log(1 / failure)) / math.log(2)
    drift = rows * epsilon * math.tanh(epsilon / 2) / math.log(2)
    assert exact > 0.2 * spread  # a bound with a fifth of the fluctuation, and no drift, is false
    assert exact > 0.2 * drift


def test_a_session_that_gives_a_rare_row_away_breaks_the_bound_without_its_failure():
    """With probability delta a row is published; k is then unbounded, and only the failure can pay for that."""
    delta, prior = 0.02, 1e-6
    joint = np.array([[(1 - prior) * (1 - delta), (1 - prior) * delta, 0.0], [prior * (1 - delta), 0.0, prior * delta]])
    told = np.zeros((2000, 2001))  # a row of 2,000 equally likely values
    told[:, 0] = (1 - delta) / 2000
    told[np.arange(2000), np.arange(1, 2001)] = delta / 2000
    assert exact_max_information(joint, failure=delta) <= rogers_2016(1, epsilon=0.1, delta=delta, failure=0.3).bits
    kept = rogers_2016(1, epsilon=0.1, delta=delta, failure=0.3)
    assert exact_max_information(told, failure=0.3) <= kept.bits
    assert exact_max_information(told, failure=0.001) > kept.bits  # the same bits with hardly any failure: false
    assert rogers_2016(1, epsilon=0.1, delta=delta, failure=0.001).bits == math.inf


def test_the_bound_implies_the_published_order():
    """At c = 2 eps, in nats: at most (2 + 2 sqrt(2)) eps^2 n + n sqrt(delta/eps)."""
    for rows, epsilon, delta in itertools.product((1_000, 100_000), (0.02, 0.1, 0.5), (1e-30, 1e-20)):
        failure = math.exp(-(epsilon**2) * rows) + 4 * rows * math.sqrt(delta / epsilon)
        if failure < 1:
            nats = (2 + 2 * math.sqrt(2)) * epsilon**2 * rows + rows * math.sqrt(delta / epsilon)
            assert rogers_2016(rows, epsilon=epsilon, delta=delta, failure=failure).bits <= 1.001 * nats / math.log(2)


def test_pure_privacy_is_between_the_theorems_for_pure_privacy():
    for rows, epsilon in itertools.product((100, 10_000), (0.01, 0.1)):
        ours = rogers_2016(rows, epsilon=epsilon, delta=0.0, failure=0.05).bits
        assert dwork_theorem_20(rows, epsilon=epsilon, failure=0.05) < ours
        assert ours < zhao_theorem_3(rows, leakage=epsilon, failure=0.05)
        assert max_information_of_curve(PureCurve(epsilon), rows=rows, failure=0.05).bits <= ours * (1 + 1e-12)


def test_a_curve_is_at_least_as_good_as_each_of_its_points():
    curve = GaussianCurve(0.01)
    whole = max_information_of_curve(curve, rows=5_000, failure=0.05)
    points = [
        rogers_2016(5_000, epsilon=float(epsilon), delta=float(curve.delta(epsilon)), failure=0.05).bits
        for epsilon in np.linspace(0.03, 0.08, 12)
    ]
    assert whole.bits <= 1.01 * min(points) < math.inf
    assert whole.epsilon <= whole.cap


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"rows": 0}, "rows is 0. Pass a whole number of at least 1"),
        ({"epsilon": -0.1}, "epsilon is -0.1. Pass a number of at least 0."),
        ({"delta": 1.0}, "delta is 1.0. Pass a number of at least 0 and below 1."),
        ({"delta": -0.1}, "delta is -0.1. Pass a number of at least 0 and below 1."),
        ({"failure": 0.0}, "failure is 0.0. Pass a number strictly between 0 and 1"),
        ({"failure": 1.0}, "failure is 1.0. Pass a number strictly between 0 and 1"),
    ],
)
def test_bad_arguments_are_refused(wrong, says):
    chosen = {"rows": 10, "epsilon": 0.1, "delta": 0.0, "failure": 0.1} | wrong
    with pytest.raises(ValueError, match=re.escape(says)):
        rogers_2016(chosen.pop("rows"), **chosen)
