"""From the table to the population (S1, S5): exactly on a tiny world, and by simulation."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from mwem_runs import HISTOGRAM, drawn_weights, largest_error, maker
from scipy import stats
from synthetic_samples import matrix_of, plain_universe, random_family

from everhold.dependence import Groups
from everhold.errors import DependenceError
from everhold.privacy import PureCurve
from everhold.randomness import SeededNoise
from everhold.values.evaluation import UNIT
from everhold.values.universe import QueryMatrix
from everhold_lab.releases import TableRelease, tuned_blr, tuned_mwem
from everhold_lab.releases.synthetic_tables import small_tables, uniform_deviation
from everhold_lab.theory.classical import blr_error
from everhold_privacy.synthetic import BLR, MWEM, SyntheticTable

SHARE = 0.3


def two_cells(rows, epsilon, **others):
    family = QueryMatrix([[True, False]])
    return TableRelease(BLR(universe=plain_universe(2), queries=family, rows=rows, epsilon=epsilon, size=10), **others)


def exact_errors(release):
    """Law of ``|f(y) - f(P)|`` with independent rows: errors of the candidates, and their probabilities."""
    blr = release.maker
    ones = np.arange(blr.rows + 1)
    laws = np.array([blr.selection.law(blr.losses([k, blr.rows - k])) for k in ones])
    values = np.array([blr.table(index)[0] / blr.size for index in range(blr.candidates)])
    return np.abs(values - SHARE), stats.binom.pmf(ones, blr.rows, SHARE) @ laws


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("rows", [20, 200])
def test_S1_holds_exactly_on_two_cells(rows, epsilon):
    blr = two_cells(rows, epsilon, confidence=0.8)
    errors, law = exact_errors(blr)
    assert law[errors > blr.bound().radius].sum() <= 0.2
    alpha, exceedance = blr.maker.sampling(blr.beta)
    for point in (0.0, 0.1, epsilon / 2, epsilon):
        excess = law @ np.maximum(errors - alpha - math.tanh(point / 4), 0)
        assert excess <= exceedance + blr.maker.curve().delta(point)


def test_S1_without_the_leakage_is_refuted():
    """With a large epsilon the table repeats the rows, whose error the population's bound must not forget."""
    blr = two_cells(10, 50.0)
    errors, law = exact_errors(blr)
    alpha, exceedance = 0.05, 10 * 2 / 500 * math.exp(-0.05 * 500 / 20)
    assert law @ np.maximum(errors - alpha, 0) > exceedance
    assert law @ np.maximum(errors - alpha - math.tanh(50 / 4), 0) <= exceedance


def largest_errors(release, population, *, runs):
    """The worst query of the family: no analyst who chooses among them can do worse."""
    queries, errors = matrix_of(release.maker.queries), []
    for run in range(runs):
        histogram = np.random.default_rng(run).multinomial(release.maker.rows, population)
        errors.append(np.abs(queries @ (release.weights(histogram, SeededNoise(run)) - population)).max())
    return np.array(errors)


@pytest.mark.slow
def test_no_choice_of_queries_breaks_the_promise_of_BLR():
    population = np.array([0.4, 0.3, 0.2, 0.1])
    blr = tuned_blr(
        universe=plain_universe(4), queries=random_family(50, 4, binary=True), rows=2000, confidence=0.8, limit=5000
    )
    errors = largest_errors(blr, population, runs=100)
    assert blr.bound().radius < 0.25
    assert np.mean(errors > blr.bound().radius) <= 0.2
    noisy = TableRelease(replace(blr.maker, epsilon=1e-4))
    assert np.mean(largest_errors(noisy, population, runs=20) > blr.bound().radius) > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("fixed", [False, True])
def test_no_choice_of_queries_breaks_the_promise_of_MWEM(fixed):
    population = np.arange(1, 17) / 136
    mwem = tuned_mwem(
        universe=plain_universe(16), queries=random_family(200, 16, binary=True), rows=200_000, confidence=0.8,
        most_rounds=100, fixed_queries=fixed, rho=1e-3,
    )  # fmt: skip
    assert mwem.bound().radius < 0.25
    assert np.mean(largest_errors(mwem, population, runs=40) > mwem.bound().radius) <= 0.2


@pytest.mark.slow
def test_queries_chosen_from_the_exact_histogram_break_it():
    """What the table protects from: with the rows in sight, "is one of these cells" is wrong by nearly 1."""
    cells, rows = 4096, 200
    histogram = np.random.default_rng(0).multinomial(rows, np.full(cells, 1 / cells))
    seen = histogram > 0
    assert histogram[seen].sum() / rows - seen.mean() > 0.9
    mwem = MWEM.concentrated(
        rho=0.05, rounds=20, rows=rows, universe=plain_universe(cells), queries=random_family(40, cells, binary=True)
    )
    weights = drawn_weights(mwem, histogram, SeededNoise(1))
    heavy = weights > 1 / cells  # the same attack on what was released
    assert weights[heavy].sum() - heavy.mean() < 0.7


# The bound ------------------------------------------------------------------------------------------------------------


def test_fixed_queries_have_the_smaller_of_two_bounds():
    shared = {"universe": plain_universe(4), "queries": random_family(50, 4), "rows": 5000, "epsilon": 1.0, "size": 10}
    free, fixed = (TableRelease(BLR(**shared), fixed_queries=known).bound() for known in (False, True))
    assert (free.statement, fixed.statement) == ("S1", "S5")
    assert fixed.radius < free.radius
    private = BLR(**{**shared, "epsilon": 0.01})
    assert TableRelease(private, fixed_queries=True).bound().radius <= TableRelease(private).bound().radius


@pytest.mark.parametrize("tuned", [tuned_blr, tuned_mwem])
def test_for_fixed_queries_the_privacy_has_to_be_requested(tuned):
    with pytest.raises(ValueError, match="without any privacy"):
        tuned(universe=plain_universe(4), queries=random_family(5, 4), rows=5000, fixed_queries=True)


@pytest.mark.parametrize("beta", [0.05, 0.5])
def test_the_uniform_deviation_contains_hoeffdings_radius_and_little_more(beta):
    hoeffding = math.sqrt(math.log(2 * 30 / beta) / (2 * 400))
    assert hoeffding < uniform_deviation(30, rows=400, beta=beta) < 1.4 * hoeffding


def test_dependent_rows_and_other_releases_widen_the_radius():
    blr = two_cells(3000, 0.1)
    assert two_cells(3000, 0.1, dependence=Groups(3)).bound().radius > blr.bound().radius
    whole = PureCurve(0.5)
    assert blr.bound(whole).radius > blr.bound().radius
    assert blr.draw([1000, 2000], SeededNoise(1), leakage=whole).radius == blr.bound(whole).radius


class Learned(Groups):
    """A model that may be wrong."""

    miss = 0.06


def test_a_learned_model_takes_its_miss_from_beta():
    model = Learned(1)
    assert two_cells(3000, 0.1, confidence=0.9, dependence=model).beta == pytest.approx(0.04)
    with pytest.raises(DependenceError, match="Pass a smaller confidence"):
        two_cells(3000, 0.1, confidence=0.95, dependence=model)


class Trained(Groups):
    """Rows that depend on each other with the training rows."""

    def training_distance(self):
        return 0.02


def test_the_training_rows_take_from_beta_where_the_leakage_does_not_look_at_them():
    near, apart = Trained(1), Groups(1)
    for fixed, statement in ((False, "S1"), (True, "S5")):
        with_training, without = (
            two_cells(3000, 1.0, dependence=model, fixed_queries=fixed).bound() for model in (near, apart)
        )
        assert with_training.statement == without.statement == statement
        assert (with_training.radius > without.radius) == fixed


def test_intervals_reach_the_radius_in_the_middle_and_less_far_near_the_ends():
    data = two_cells(10_000, 1.0).draw([0, 10_000], SeededNoise(1)).to_dict()
    tables = [SyntheticTable.from_dict({**data, "weights": [share, 1 - share]}) for share in np.linspace(0, 1, 201)]
    reach = [table.interval([True, False])[1] - table.mean([True, False]) for table in tables]
    assert max(reach) == pytest.approx(data["radius"], abs=1e-3)
    assert reach[0] < data["radius"] - 0.05


def test_rounding_to_the_grid_is_in_the_radius():
    blr = two_cells(100, 1e6)
    assert blr.bound().radius >= 3 / UNIT


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_the_error_of_MWEM_on_the_rows_stays_below_the_bound(confidence):
    mwem = maker(rounds=40, scale=0.02)
    bound = TableRelease(mwem, confidence=confidence).bound().on_rows
    errors = [largest_error(mwem, drawn_weights(mwem, HISTOGRAM, SeededNoise(seed)), HISTOGRAM) for seed in range(100)]
    assert np.mean(np.array(errors) > bound) <= 1 - confidence
    noisy = maker(rounds=2, scale=2.0, choice_epsilon=1e-3)
    errors = [largest_error(mwem, drawn_weights(noisy, HISTOGRAM, SeededNoise(seed)), HISTOGRAM) for seed in range(100)]
    assert np.mean(np.array(errors) > bound) > 1 - confidence  # the check can fail


def test_the_bound_of_BLR_on_the_rows_is_no_worse_than_the_published_one():
    blr = BLR(universe=plain_universe(8), queries=random_family(50, 8), rows=5000, epsilon=0.5, size=8)
    published = blr_error(
        5000, queries=50, universe=8, accuracy=math.sqrt(math.log(50) / 8), epsilon=0.5, confidence=0.95
    )
    assert TableRelease(blr).bound().on_rows < published


# Tuning ---------------------------------------------------------------------------------------------------------------


def test_sizes_of_P10_and_tuned_ones():
    shared = {"universe": plain_universe(4), "queries": random_family(9, 4), "rows": 20_000}
    small = small_tables(accuracy=0.3, epsilon=0.1, **shared)
    assert small.size == math.ceil(math.log(9) / 0.09)
    best = tuned_blr(limit=5000, **shared)
    assert best.maker.candidates <= 5000
    for epsilon, size in itertools.product((0.02, 0.05, 0.1, 0.3), (5, 15, 25)):
        near = TableRelease(BLR(epsilon=epsilon, size=size, **shared))
        assert best.bound().radius <= near.bound().radius + 1e-4
    fixed = tuned_blr(epsilon=0.1, limit=5000, **shared)
    assert fixed.maker.epsilon == 0.1
    assert fixed.bound().radius <= TableRelease(small).bound().radius


def test_tuned_rounds_are_as_good_as_anything_near():
    shared = {"universe": plain_universe(8), "queries": random_family(20, 8, binary=True), "rows": 10**6}
    best = tuned_mwem(most_rounds=300, **shared)
    for rho in (1e-4, 1e-3, 1e-2):
        for rounds in (10, 100, 300):
            near = TableRelease(MWEM.concentrated(rho=rho, rounds=rounds, **shared))
            assert best.bound().radius <= near.bound().radius * 1.01
    assert tuned_mwem(rho=0.01, most_rounds=50, **shared).maker.curve().rho == pytest.approx(0.01)


@pytest.mark.parametrize("confidence", [0.0, 1.0])
def test_a_confidence_that_is_none_is_refused(confidence):
    with pytest.raises(ValueError, match="confidence"):
        two_cells(100, 0.1, confidence=confidence)


def test_a_table_says_what_was_presupposed():
    table = two_cells(3000, 1.0, fixed_queries=True).draw([1000, 2000], SeededNoise(3))
    assert (table.statement, len(table.assumptions)) == ("S5", 2)
