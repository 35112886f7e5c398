"""From the table to the population (S1, S5): exactly on a tiny world, by simulation, and what the table says."""

import json
import math

import numpy as np
import pytest
from scipy import stats
from synthetic_samples import matrix_of, plain_universe, random_family

from everhold.dependence import Groups
from everhold.errors import DependenceError
from everhold.privacy import PureCurve, SeededNoise
from everhold.synthetic import BLR, MWEM, QueryMatrix, SyntheticTable
from everhold.synthetic.base import uniform_deviation
from everhold.values.evaluation import UNIT

SHARE = 0.3


def two_cells(rows, epsilon, **others):
    return BLR(
        universe=plain_universe(2), queries=QueryMatrix([[True, False]]), rows=rows, epsilon=epsilon, size=10, **others
    )


def exact_errors(blr):
    """Law of ``|f(y) - f(P)|`` with independent rows: errors of the candidates, and their probabilities."""
    ones = np.arange(blr.rows + 1)
    laws = np.array([blr.law([k, blr.rows - k]) for k in ones])
    values = np.array([blr.table(index)[0] / blr.size for index in range(blr.candidates)])
    return np.abs(values - SHARE), stats.binom.pmf(ones, blr.rows, SHARE) @ laws


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("rows", [20, 200])
def test_S1_holds_exactly_on_two_cells(rows, epsilon):
    blr = two_cells(rows, epsilon, confidence=0.8)
    errors, law = exact_errors(blr)
    assert law[errors > blr.bound().radius].sum() <= 0.2
    alpha, exceedance = blr.sampling(blr.beta)
    for point in (0.0, 0.1, epsilon / 2, epsilon):
        excess = law @ np.maximum(errors - alpha - math.tanh(point / 4), 0)
        assert excess <= exceedance + blr.curve().delta(point)


def test_S1_without_the_leakage_is_refuted():
    """With a large epsilon the table repeats the rows, whose error the population's bound must not forget."""
    blr = two_cells(10, 50.0)
    errors, law = exact_errors(blr)
    alpha, exceedance = 0.05, 10 * 2 / 500 * math.exp(-0.05 * 500 / 20)
    assert law @ np.maximum(errors - alpha, 0) > exceedance
    assert law @ np.maximum(errors - alpha - math.tanh(50 / 4), 0) <= exceedance


def largest_errors(maker, population, *, runs):
    """The worst question of the family: no analyst who chooses among them can do worse."""
    questions, errors = matrix_of(maker.queries), []
    for run in range(runs):
        histogram = np.random.default_rng(run).multinomial(maker.rows, population)
        errors.append(np.abs(questions @ (maker.weights(histogram, SeededNoise(run)) - population)).max())
    return np.array(errors)


@pytest.mark.slow
def test_no_choice_of_questions_breaks_the_promise_of_BLR():
    population = np.array([0.4, 0.3, 0.2, 0.1])
    blr = BLR.tuned(
        universe=plain_universe(4), queries=random_family(50, 4, binary=True), rows=2000, confidence=0.8, limit=5000
    )
    errors = largest_errors(blr, population, runs=100)
    assert blr.bound().radius < 0.25
    assert np.mean(errors > blr.bound().radius) <= 0.2
    noisy = BLR(universe=blr.universe, queries=blr.queries, rows=2000, epsilon=1e-4, size=blr.size)
    assert np.mean(largest_errors(noisy, population, runs=20) > blr.bound().radius) > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("fixed", [False, True])
def test_no_choice_of_questions_breaks_the_promise_of_MWEM(fixed):
    population = np.arange(1, 17) / 136
    mwem = MWEM.tuned(
        universe=plain_universe(16), queries=random_family(200, 16, binary=True), rows=200_000, confidence=0.8,
        most_rounds=100, fixed_questions=fixed, rho=1e-3,
    )  # fmt: skip
    assert mwem.bound().radius < 0.25
    assert np.mean(largest_errors(mwem, population, runs=40) > mwem.bound().radius) <= 0.2


@pytest.mark.slow
def test_questions_chosen_from_the_exact_histogram_break_it():
    """What the table protects from: with the rows in sight, "is one of these cells" is wrong by nearly 1."""
    cells, rows = 4096, 200
    histogram = np.random.default_rng(0).multinomial(rows, np.full(cells, 1 / cells))
    seen = histogram > 0
    assert histogram[seen].sum() / rows - seen.mean() > 0.9
    mwem = MWEM.concentrated(
        rho=0.05, rounds=20, rows=rows, universe=plain_universe(cells), queries=random_family(40, cells, binary=True)
    )
    weights = mwem.weights(histogram, SeededNoise(1))
    heavy = weights > 1 / cells  # the same attack on what was released
    assert weights[heavy].sum() - heavy.mean() < 0.7


# The bound ------------------------------------------------------------------------------------------------------------


def test_fixed_questions_have_the_smaller_of_two_bounds():
    shared = {"universe": plain_universe(4), "queries": random_family(50, 4), "rows": 5000, "epsilon": 1.0, "size": 10}
    free, fixed = BLR(**shared).bound(), BLR(**shared, fixed_questions=True).bound()
    assert (free.statement, fixed.statement) == ("S1", "S5")
    assert fixed.radius < free.radius
    private = {**shared, "epsilon": 0.01}
    assert BLR(**private, fixed_questions=True).bound().radius <= BLR(**private).bound().radius


@pytest.mark.parametrize("maker", [BLR, MWEM])
def test_for_fixed_questions_the_privacy_has_to_be_wished_for(maker):
    with pytest.raises(ValueError, match="without any privacy"):
        maker.tuned(universe=plain_universe(4), queries=random_family(5, 4), rows=5000, fixed_questions=True)


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
    with pytest.raises(DependenceError, match="wish for less confidence"):
        two_cells(3000, 0.1, confidence=0.95, dependence=model)


class Trained(Groups):
    """Rows that depend on each other with the training rows."""

    def training_distance(self):
        return 0.02


def test_the_training_rows_take_from_beta_where_the_leakage_does_not_look_at_them():
    near, apart = Trained(1), Groups(1)
    for fixed, statement in ((False, "S1"), (True, "S5")):
        with_training, without = (
            two_cells(3000, 1.0, dependence=model, fixed_questions=fixed).bound() for model in (near, apart)
        )
        assert with_training.statement == without.statement == statement
        assert (with_training.radius > without.radius) == fixed


def test_intervals_reach_the_radius_in_the_middle_and_less_far_near_the_ends():
    data = two_cells(10_000, 1.0).draw([0, 10_000], SeededNoise(1)).to_dict()
    tables = [SyntheticTable.from_dict({**data, "weights": [share, 1 - share]}) for share in np.linspace(0, 1, 201)]
    reach = [table.interval([True, False])[1] - table.mean([True, False]) for table in tables]
    assert max(reach) == pytest.approx(data["radius"], abs=1e-3)
    assert reach[0] < data["radius"] - 0.05


# The table ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def table():
    return two_cells(3000, 0.1).draw([1000, 2000], SeededNoise(3))


def test_a_table_answers_for_ever_and_says_what_it_promises(table):
    question = [True, False]
    assert table.mean(question) == table.weights[0] == table.means(QueryMatrix([question]))[0]
    low, high = table.interval(question)
    assert 0 <= low < table.mean(question) < high <= 1
    assert max(high - table.mean(question), table.mean(question) - low) <= table.radius + 1e-12
    assert (table.statement, table.privacy, table.simulated) == ("S1", (0.1, 0.0), True)
    assert str(table.weights) not in repr(table)


def test_a_table_is_shown_like_everything_else(table):
    assert table.to_pandas()["weight"].sum() == pytest.approx(1)
    assert table.to_arrow().column_names == ["cell", "weight"]
    assert "weight" in table.to_text()
    assert "<table>" in table._repr_html_()
    again = SyntheticTable.from_dict(json.loads(json.dumps(table.to_dict())))
    assert again.to_dict() == table.to_dict()


def test_sampled_rows_follow_the_weights(table):
    rows = table.sample(4000, seed=1)
    assert rows == table.sample(4000, seed=1) != table.sample(4000, seed=2)
    counts = table.universe.histogram(rows)
    assert stats.binomtest(int(counts[0]), 4000, float(table.weights[0])).pvalue > 1e-6
    with pytest.raises(ValueError, match="rows"):
        table.sample(0, seed=1)


def test_weights_cannot_be_changed_and_wrong_questions_are_refused(table):
    with pytest.raises(ValueError, match="read-only"):
        table.weights[0] = 0.5
    for question in ([1], [2, 0], [math.nan, 0]):
        with pytest.raises(ValueError, match="expected a number in"):
            table.mean(question)
    with pytest.raises(ValueError, match="about 3 cells"):
        table.means(random_family(1, 3))
    with pytest.raises(ValueError, match="weights"):
        SyntheticTable.from_dict({**table.to_dict(), "weights": [0.5, 0.6]})


def test_rounding_to_the_grid_is_in_the_radius():
    blr = two_cells(100, 1e6)
    assert blr.bound().radius >= 3 / UNIT
