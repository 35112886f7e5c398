"""The Markov chain as a model: declarations, concentration, Bayesian price, binding to rows."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from series_brute_force import joint_law, random_matrix, stationary_law

from everhold.dependence import DependenceModel
from everhold.dependence.base import SeriesFacts
from everhold.dependence.series.markov_chain import MarkovChain
from everhold.dependence.series.mixing import Chain
from everhold.errors import DependenceError, DependenceWarning
from everhold.testing import DependenceContract
from everhold_privacy.curves import GaussianCurve
from everhold_privacy.leakage import leakage

RAIN = ((0.8, 0.2), (0.3, 0.7))
CURVE = GaussianCurve(0.1)


class TestKnownChain(DependenceContract):
    def make(self):
        return MarkovChain(RAIN, states=["dry", "wet"], order_by="day", state="rain", gap=20)


class TestFittedChain(DependenceContract):
    def make(self):
        return MarkovChain(RAIN, uncertainty=[0.05, 0.02], miss=0.01, gap=30, lengths=[(100, 3), (5, 2)])


class TestChainFromAnywhere(DependenceContract):
    def make(self):
        return MarkovChain([[0.5, 0.4, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]], initial=[1, 0, 0], gap=math.inf)


@dataclass
class Rows:
    """Rows as a model sees them."""

    lengths: dict = field(default_factory=lambda: {100: 1})
    ties: bool = False
    training: str = "none"
    unknown: int = 0
    steps: dict = field(default_factory=dict)
    numbers: bool = True
    asked: list = field(default_factory=list)

    def series(self, order_by, *, within):
        self.asked.append((order_by, within))
        return SeriesFacts(self.lengths, self.ties, self.training, **self.steps)

    def is_number(self, column):
        return self.numbers

    def unknown_values(self, column, known, *, side="both"):
        self.asked.append((column, known))
        return self.unknown


def chain(**settings):
    return MarkovChain(RAIN, **{"states": ["dry", "wet"], "order_by": "day", "state": "rain", **settings})


def test_plain_data_may_be_short():
    assert MarkovChain.from_dict({"kind": "markov_chain", "transition": RAIN, "initial": "stationary"}) == MarkovChain(
        RAIN
    )
    assert MarkovChain.from_dict({"kind": "markov_chain", "transition": RAIN, "initial": [1, 0]}).initial == (1.0, 0.0)


def test_binding_looks_up_lengths_and_states():
    rows = Rows({4: 2, 10: 1})
    bound = chain(groups="city").bind(rows)
    assert bound.lengths == ((4, 2), (10, 1))
    assert rows.asked == [("day", "city"), ("rain", frozenset({"dry", "wet"}))]
    assert isinstance(bound, DependenceModel)
    assert bound.bind(rows) == bound


@pytest.mark.parametrize(
    ("settings", "rows", "message"),
    [
        ({"order_by": None}, Rows(), "in which order the rows are"),
        ({}, Rows(ties=True), "the same value in column 'day'"),
        ({"gap": 3}, Rows(training="among"), "Seal a later block"),
        ({}, Rows(training="before"), "gap=math.inf"),
        ({"miss": 0.01}, Rows(), "fitted to rows"),
        ({}, Rows(unknown=7), "7 sealed and training rows .* states are 'dry', 'wet'\\. Add the missing states"),
        ({"states": None}, Rows(unknown=7), r"Its states are '0', '1'. Name the states with states=\[...\]"),
        ({"gap": 3}, Rows(training="after", steps={"step": 2.0, "apart": 3.0}), "3 steps from a sealed row"),
        ({"gap": 3, "miss": 0.1}, Rows(steps={"step": 1.0, "training_step": 2.0}), "2 times as far apart"),
        ({"gap": math.inf, "miss": 0.1}, Rows(steps={"step": 1.0, "training_step": 2.0}), "2 times as far apart"),
        (
            {"gap": 3, "miss": 0.1},
            Rows(steps={"step": 1.0, "training_step": 1.0, "least_step": 0.4}),
            "only 0.4 steps apart .* Leave rows out",
        ),
    ],
)
def test_rows_that_do_not_match_are_refused(settings, rows, message):
    with pytest.raises(DependenceError, match=message):
        chain(**settings).bind(rows)


def test_training_rows_of_other_series_may_lie_anywhere_but_that_is_said():
    with pytest.warns(DependenceWarning, match=r"gap=math.inf says .* If they are of the same series"):
        assert chain(gap=math.inf).bind(Rows(training="among")).training_distance() == 0.0
    assert chain(gap=math.inf).bind(Rows(training="none")).training_distance() == 0.0
    assert chain(gap=5).bind(Rows(training="after")).training_distance() > 0.0
    assert MarkovChain(RAIN, order_by="day").bind(Rows(unknown=3)).state is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"transition": [[0.5, 0.4], [0.5, 0.5]]},
        {"transition": [[0.5, 0.5]]},
        {"transition": [[1.5, -0.5], [0.5, 0.5]]},
        {"transition": [[math.nan, 1.0], [0.5, 0.5]]},
        {"transition": []},
        {"transition": RAIN, "states": ["a"]},
        {"transition": RAIN, "states": ["a", "a"]},
        {"transition": RAIN, "initial": "uniform"},
        {"transition": RAIN, "initial": [1.0]},
        {"transition": RAIN, "uncertainty": [0.1]},
        {"transition": RAIN, "uncertainty": 3.0},
        {"transition": RAIN, "gap": -1},
        {"transition": RAIN, "gap": 1.5},
        {"transition": RAIN, "miss": 1.0},
        {"transition": RAIN, "lengths": [(0, 1)]},
        {"transition": RAIN, "lengths": []},
        {"transition": RAIN, "gap": True},
        {"transition": RAIN, "order_by": ""},
        {"transition": RAIN, "state": 3},
    ],
)
def test_declarations_that_make_no_sense_are_refused(wrong):
    with pytest.raises(DependenceError, match="Pass"):
        MarkovChain(**wrong)


@pytest.mark.parametrize(
    ("matrix", "reason"),
    [
        ([[1.0, 0.0], [0.0, 1.0]], "cannot be reached"),
        ([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]], "cannot be reached"),
        ([[0.0, 1.0], [1.0, 0.0]], "multiples of a fixed number"),
        ([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], "multiples of a fixed number"),
    ],
)
def test_chains_that_never_forget_are_refused(matrix, reason):
    for promise in (lambda model: leakage(model, CURVE, 50), lambda model: model.concentration(50)):
        for initial in ("stationary", [1.0] + [0.0] * (len(matrix) - 1)):
            with pytest.raises(DependenceError, match=reason):
                promise(MarkovChain(matrix, initial=initial))


def test_sets_that_may_not_forget_are_refused():
    with pytest.raises(DependenceError, match="too uncertain"):
        leakage(MarkovChain(RAIN, uncertainty=0.6), CURVE, 50)


def test_a_periodic_looking_chain_that_is_aperiodic_is_accepted():
    model = MarkovChain([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]])
    assert 1.0 <= model.concentration(10_000) < 10_000
    assert leakage(model, CURVE, 10_000).delta(0.5) > CURVE.delta(0.5)


def sum_law(matrix, initial, rows, values):
    """``P[sum = s]`` of integer values of the states, with the mean."""
    law = np.zeros((len(matrix), rows * max(values) + 1))
    for state, value in enumerate(values):
        law[state, value] = initial[state]
    for _ in range(rows - 1):
        law = np.array([np.roll(matrix[:, state] @ law, value) for state, value in enumerate(values)])
    total = law.sum(axis=0)
    return total, float(total @ np.arange(len(total)))


def tail_excess(model_rows, matrix, initial, rows):
    """The largest ``P[|average - mean| >= t] - 2 exp(-2 n_eff t^2)`` over t."""
    law, mean = sum_law(matrix, initial, rows, [int(state > 0) for state in range(len(matrix))])
    apart = np.abs(np.arange(len(law)) - mean) / rows
    tails = np.array([law[apart >= t - 1e-12].sum() for t in apart])
    return float(np.max(tails - 2.0 * np.exp(-2.0 * model_rows * apart**2)))


def some_chains(number=40):
    rng = np.random.default_rng(3)
    for trial in range(number):
        yield rng, random_matrix(rng, 2 + trial % 2, sticky=rng.choice([0.0, 0.6, 0.9]))


@pytest.mark.parametrize("rows", [1, 4, 30, 80])
def test_averages_concentrate_as_said(rows):
    for rng, matrix in some_chains():
        stationary = stationary_law(matrix)
        assert tail_excess(MarkovChain(matrix).concentration(rows), matrix, stationary, rows) <= 1e-12
        first = rng.dirichlet(np.full(len(matrix), 0.3))
        anywhere = MarkovChain(matrix, initial=first).concentration(rows)
        assert tail_excess(anywhere, matrix, first, rows) <= 1e-12


def test_as_many_independent_rows_would_concentrate_too_well():
    matrix = np.array([[0.95, 0.05], [0.05, 0.95]])
    assert tail_excess(80.0, matrix, [0.5, 0.5], 80) > 0.1
    too_fast = MarkovChain([[0.7, 0.3], [0.3, 0.7]]).concentration(80)
    assert tail_excess(too_fast, matrix, [0.5, 0.5], 80) > 0.1


def test_concentration_of_two_states_by_hand():
    assert MarkovChain(RAIN).concentration(3_000) == pytest.approx(1_000)
    assert MarkovChain(RAIN, uncertainty=0.1).concentration(4_000) == pytest.approx(4_000 * 0.4 / 1.6)
    assert MarkovChain(RAIN, initial=[1, 0]).concentration(100_000) == pytest.approx(25_000, rel=0.01)


def test_independent_series_are_worth_one_row_each_at_least():
    model = MarkovChain([[0.9999, 0.0001], [0.0001, 0.9999]], lengths=[(4, 500)])
    assert model.concentration(2_000) >= 500 * (1 - 1e-6)
    assert model.bayesian_price(0.5, 2_000) == 8.0


def test_norm_of_the_kernel_bounds_every_mean_zero_function():
    rng = np.random.default_rng(5)
    for _, matrix in some_chains():
        law, norm = stationary_law(matrix), Chain(matrix).norm
        functions = rng.normal(size=(100, len(matrix)))
        functions -= (functions @ law)[:, None]
        ratio = np.sqrt(((functions @ matrix.T) ** 2) @ law / ((functions**2) @ law))
        assert np.all(ratio <= norm + 1e-9)


def test_facts_about_the_chain():
    model = MarkovChain(RAIN)
    assert model.stationary == pytest.approx([0.6, 0.4])
    assert model.spectral_gap == pytest.approx(0.5)
    assert model.is_reversible
    assert not MarkovChain([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]]).is_reversible


def exact_price(matrix, rows, epsilon):
    """``max_i min_Q (|N|+1)/(epsilon - 4 b)`` over all chain quilts, influences from the joint law."""
    joint = joint_law(matrix, stationary_law(matrix), rows)
    prices = []
    for row in range(rows):
        choices = [(left, right) for left in [None, *range(row)] for right in [None, *range(row + 1, rows)]]
        nearby = [(rows if right is None else right) - (-1 if left is None else left) - 1 for left, right in choices]
        left_over = [epsilon - 4.0 * influence(joint, row, [q for q in quilt if q is not None]) for quilt in choices]
        prices.append(min(size / left for size, left in zip(nearby, left_over, strict=True) if left > 0))
    return max(prices)


def influence(joint, row, quilt):
    table = joint.sum(axis=tuple(place for place in range(joint.ndim) if place not in (row, *quilt)))
    given = np.moveaxis(table, sorted((row, *quilt)).index(row), 0).reshape(joint.shape[0], -1)
    given = given / given.sum(axis=1, keepdims=True)
    return math.log(float(np.max(given.max(axis=0) / given.min(axis=0))))


def test_bayesian_price_is_never_below_that_of_all_quilts():
    for _, matrix in some_chains(12):
        for epsilon in (0.3, 3.0, 20.0):
            exact = exact_price(matrix, 5, epsilon)
            assert MarkovChain(matrix).bayesian_price(epsilon, 5) >= exact * (1 - 1e-9)
    assert MarkovChain([[0.5, 0.5], [0.5, 0.5]]).bayesian_price(0.5, 5) == pytest.approx(2.0)


def test_bayesian_price_of_long_series_does_not_depend_on_their_length():
    model = MarkovChain(RAIN)
    assert model.bayesian_price(0.5, 10_000) == model.bayesian_price(0.5, 1_000_000) < 100
    assert model.bayesian_price(0.5, 7) <= 14.0


def test_it_says_the_gap_and_the_fit():
    said = chain(gap=14, miss=0.01, groups="city").describe()
    for word in ("'rain'", "'day'", "'city'", "14 rows are left out", "confidence 0.99"):
        assert word in said


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 0.0], [0.5, 0.4]], "row 2 of transition sums to 0.9"),
        ([[1.5, -0.5], [0.5, 0.5]], "row 1 of transition has the entry 1.5, which is above 1"),
        ([[0.5, 0.5], [-0.5, 1.5]], "row 2 of transition has the entry -0.5, which is negative"),
        ([[0.5, 0.5], ["x", 1.0]], "row 2 of transition holds something that is not a number"),
        ([[0.5, 0.5], [math.nan, 1.0]], "row 2 of transition has the entry nan, which is not a number"),
        ([[0.5, 0.5], [1.0]], "row 2 of transition has 1 entries. Pass 2"),
        (3, "transition is 3. Pass a list of rows"),
    ],
)
def test_a_matrix_that_is_none_is_told_where(matrix, message):
    with pytest.raises(DependenceError, match=message):
        MarkovChain(matrix)


@pytest.mark.parametrize("settings", [{}, {"uncertainty": 0.3}, {"initial": [1.0]}])
def test_a_chain_of_one_state_is_independent_rows(settings):
    alone = MarkovChain([[1.0]], gap=0, **settings)
    assert leakage(alone, CURVE, 50) is CURVE
    assert alone.concentration(50) == 50.0
    assert (alone.training_distance(), alone.miss) == (0.0, 0.0)


def test_a_fitted_chain_without_a_gap_says_so():
    assert "the gap to the sealed rows is not declared yet" in chain(miss=0.01).describe()
    assert "no training row belongs to the same series" in chain().describe()
    assert ", the state follows" in chain(state=None).describe()


def test_a_million_rows_are_bounded_from_above_in_proportion():
    short, long = (leakage(MarkovChain(RAIN), GaussianCurve(0.001), rows).delta(0.001) for rows in (10_000, 1_000_000))
    assert long == pytest.approx(short, rel=0.05)


@pytest.mark.parametrize("share", [0.05, 0.35, 0.39, 0.43, 0.45])
@pytest.mark.parametrize("radius", [1e-6, 0.004, 0.08])
def test_rows_of_a_set_of_chains_are_worth_no_more_than_those_of_any_of_them(share, radius):
    estimate = np.array([[1.0 - share, share], [share, 1.0 - share]])
    worth = MarkovChain(estimate, uncertainty=radius).concentration(20_000)
    for sign in (-1.0, 0.0, 1.0):
        shift = sign * radius / 2.0 * np.array([[1.0, -1.0], [-1.0, 1.0]])
        member = MarkovChain(np.clip(estimate + shift, 0.0, 1.0))
        norm = abs(1.0 - 2.0 * member.transition[0][1])
        assert worth <= 20_000 * (1.0 - norm) / (1.0 + norm) * (1.0 + 1e-9)


def test_an_upper_bound_on_forgetting_never_underflows():
    contraction = MarkovChain([[0.56, 0.44], [0.44, 0.56]], uncertainty=0.004).law.contraction
    assert contraction.rate >= 0.12
    assert np.all(contraction.at(1, 513) > 0.0)
    assert np.all(contraction.at(10**12, 3) > 0.0)


@pytest.mark.parametrize("radius", [1e-9, 0.02])
def test_far_steps_are_bounded_for_every_chain_of_the_set(radius):
    estimate = np.array([[0.999, 0.001], [0.002, 0.998]])
    contraction = MarkovChain(estimate, uncertainty=radius / 10).law.contraction
    slowest = estimate + radius / 20 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    for step in (1, 97, 600):
        members = Chain(slowest if radius < 0.01 else estimate).distances(step, 40)[0]
        assert np.all(contraction.at(step, 40) >= members * (1.0 - 1e-12))
        assert np.all(np.diff(contraction.at(step, 40)) <= 1e-15)
