"""Row values are rounded down to the grid: every interval has room for the whole step that a row may have lost."""

from dataclasses import replace

import numpy as np
import pytest

from everhold.ledger import Committed
from everhold.mechanisms import GuessAndCheck
from everhold.mechanisms.base import Mechanism
from everhold.mechanisms.records import Evaluations
from everhold.queries.interval_planner import Prepared
from everhold.queries.means.plans import OneMean
from everhold.queries.query import ExecutionResult
from everhold.randomness import SeededNoise
from everhold.values.base import BoundQuery, Schema
from everhold.values.evaluation import clip_to_grid
from everhold_competitions.ladder import Ladder
from everhold_privacy.guarantees import transferred_interval
from everhold_privacy.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from everhold_privacy.mechanisms.averages import Empirical, SampleSplitting
from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget, VectorNoise
from everhold_privacy.mechanisms.selection import PaidSelection
from everhold_privacy.mechanisms.subsampling import RandomRows, Subsampling
from everhold_privacy.mechanisms.thresholdout import Thresholdout
from everhold_privacy.queries.gradient import vectors_to_grid

UNIT = 4  # so coarse that a lost step is far larger than every half-width below
PLAN = {"rows": 20_000, "queries": 4, "unit": UNIT}
DISCREET = (
    GaussianMechanism.tuned(**PLAN),
    LaplaceMechanism.tuned(**PLAN),
    PrivacyBudget.tuned(**PLAN),
    Subsampling.tuned(**PLAN, draws=2**20),
    Thresholdout.tuned(**PLAN, surprises=4),
)
ALL = (
    *DISCREET,
    RandomRows.tuned(**PLAN),
    Empirical.tuned(**PLAN),
    SampleSplitting.tuned(**PLAN),
    GuessAndCheck.tuned(**PLAN, surprises=4),
    Ladder.tuned(**PLAN),
    Ladder.tuned(**PLAN, better="higher"),
)


def name_of(mechanism):
    return f"{mechanism.name} {getattr(mechanism, 'better', '')}".strip()


def evaluated(mechanism, value, *, guess):
    """One query whose value is the same on every row."""
    sizes = np.array([len(range(part, mechanism.rows, mechanism.parts)) for part in range(mechanism.parts)])
    total = sizes * clip_to_grid(np.array([value]), unit=mechanism.unit)[0]
    return Evaluations(total[None, :], np.array([round(guess * mechanism.steps)]), mechanism.rows, mechanism.unit)


def interval(mechanism, value, *, guess=1.0):
    mechanism, noise = replace(mechanism), SeededNoise(7)  # a new one, which remembers no step
    _, replies = mechanism.answer(mechanism.start(noise), evaluated(mechanism, value, guess=guess), noise)
    return replies.lows[0], replies.highs[0]


def without(monkeypatch):
    monkeypatch.setattr(Mechanism, "row_step", 0.0)


@pytest.mark.parametrize("value", [0.2499, 0.4999])
@pytest.mark.parametrize("mechanism", ALL, ids=name_of)
def test_rows_just_below_a_grid_point_are_missed_only_if_the_step_is_left_out(monkeypatch, mechanism, value):
    low, high = interval(mechanism, value)
    assert low <= value <= high
    without(monkeypatch)
    low, high = interval(mechanism, value)
    assert not low <= value <= high


@pytest.mark.parametrize("mechanism", ALL, ids=name_of)
def test_rows_just_below_one_are_promised_up_to_one(monkeypatch, mechanism):
    assert interval(mechanism, 0.9999)[1] >= 0.9999
    without(monkeypatch)
    assert interval(mechanism, 0.9999)[1] < 0.9999


@pytest.mark.parametrize("mechanism", DISCREET, ids=name_of)
@pytest.mark.parametrize("rounded", [0.0, 0.25, 0.5, 0.75])
def test_the_upper_end_moves_by_a_whole_step_after_the_inversion_of_S2(monkeypatch, mechanism, rounded):
    """For the rounded query S2 gives an interval as it stands; the query itself is up to a step above."""
    low, high = interval(mechanism, rounded)
    without(monkeypatch)
    rounded_low, rounded_high = interval(mechanism, rounded)
    assert low <= rounded_low
    assert high >= min(rounded_high + 1.0 / UNIT, 1.0) - 1e-12


@pytest.mark.parametrize("answer", [0.0, 0.1, 0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("mechanism", DISCREET[:3], ids=name_of)
def test_no_value_that_S2_leaves_possible_is_excluded_by_rounding(mechanism, answer):
    margin, epsilon = 0.03, 2.0  # so that exp(-epsilon) is far below 1: near 1 the inversion shrinks the margin
    rounded, v = np.linspace(0.0, 1.0, 20_001), np.exp(epsilon)

    def bias(x):
        return x * (1 - x) * (v - 1) / (1 + x * (v - 1))

    possible = rounded[
        (answer - rounded <= margin + bias(rounded)) & (rounded - answer <= margin + bias(1.0 - rounded))
    ]
    low, high = mechanism.transferred(np.array([answer]), margin=margin, epsilon=epsilon)
    assert low[0] <= possible.min()
    assert high[0] >= min(possible.max() + 1.0 / UNIT, 1.0) - 1e-9


def test_a_step_inside_the_margin_is_not_a_step_after_the_inversion():
    """Where the interval had it before: near 1 the inversion leaves of it about ``e^-epsilon``."""
    wanted, step = {"margin": 0.0, "epsilon": 2.0}, 1e-3
    of_rounded, inside, after = (
        transferred_interval(0.95, **{**wanted, **given})[1] for given in ({}, {"margin": step}, {"rounded_down": step})
    )
    assert inside - of_rounded < 0.2 * step
    assert after - of_rounded == pytest.approx(step)


def test_an_upside_down_query_has_its_room_below():
    """An error is an accuracy turned round: the row value is rounded down, so the error is rounded up."""
    mechanism, accuracy = DISCREET[0], 0.4999
    low, high = interval(mechanism, accuracy)
    entry = Committed(
        sequence=1, charged=1, repeated=False,
        answer={"value": 0.25, "low": low, "high": high, "source": "holdout"},
    )  # fmt: skip
    error = BoundQuery({}, "error", at_zero=1.0, at_one=0.0)
    ready = OneMean([Prepared(error, -1, from_training=False)], Schema(rows=10, training_rows=0, columns={}), mechanism)
    answer = ready.present(ExecutionResult([entry], remaining={}, statement="S1", analyst=None))
    assert answer.low <= 1.0 - accuracy <= answer.high
    assert answer.low <= 1.0 - high


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_vector_is_rounded_towards_zero_and_has_room_on_both_sides(monkeypatch, sign):
    budget = DISCREET[2]
    vector = sign * np.array([[0.9999]])  # of length 1 at most; on this grid half a unit is two steps
    sums = vectors_to_grid(vector, clip=1.0, unit=UNIT)[0] * budget.rows

    def ends():
        budget, noise = replace(DISCREET[2]), SeededNoise(3)
        _, found = VectorNoise(budget, 1).answer(budget.start(noise), sums, noise, scale=budget.scale)
        return 2.0 * (found.lows[0] - 0.5), 2.0 * (found.highs[0] - 0.5)

    low, high = ends()
    assert low <= vector[0, 0] <= high
    without(monkeypatch)
    low, high = ends()
    assert not low <= vector[0, 0] <= high


def test_a_choice_between_losses_that_rounding_made_equal_has_room_for_the_step(monkeypatch):
    """Losses of 0.4999 and 0.25 on every row are the same on the grid, and either candidate may be chosen."""
    budget, noise = DISCREET[2], SeededNoise(5)
    losses = clip_to_grid(np.array([0.25, 0.4999]), unit=UNIT) * budget.rows
    _, choice = PaidSelection(budget).choose(budget.start(noise), losses, noise)
    assert losses[0] == losses[1]
    assert choice.regret >= 0.4999 - 0.25
    without(monkeypatch)
    assert PaidSelection(replace(budget)).regret(2) < 0.4999 - 0.25


@pytest.mark.parametrize("scale", [5, 10, 20])
def test_the_discrete_gaussian_is_counted_for_neighbours_as_far_as_the_full_range(scale):
    """Pointwise, where the proof needs it: privacy losses of the discrete and of the rounded Gaussian, one answer."""
    mechanism = GaussianMechanism(rows=250, queries=1, unit=UNIT, scale=scale / 1000)
    full_range = mechanism.steps
    nodes, weights = np.polynomial.legendre.leggauss(60)

    def factor(k):
        """The mass of an integer under the rounded law over that under the discrete one, up to a constant."""
        t = nodes / 2.0
        return np.log(weights @ (np.exp(-(t**2) / (2 * scale**2))[:, None] * np.cosh(np.outer(t, k) / scale**2)) / 2.0)

    k = np.arange(-40 * scale, 40 * scale + 1)
    lost = max(float(np.max(factor(k + shift) - factor(k))) for shift in (UNIT, full_range // 2, full_range))
    counted = mechanism.rounding - 2.0 / UNIT
    assert lost <= counted
    assert lost > 70.0 / scale**2  # what was counted before, for a neighbour that is hardly shifted
