"""BLR: the law against enumeration, privacy of all neighbours, utility, refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import lambertw
from synthetic_samples import all_histograms, matrix_of, neighbours, plain_universe, random_family

from everhold.randomness import SecureNoise, SeededNoise
from everhold.values.evaluation import UNIT
from everhold.values.universe import QueryFamily
from everhold_privacy.mechanisms.selection import ExponentialMechanism
from everhold_privacy.synthetic import BLR, candidate_tables, small_table_error

HISTOGRAM = np.array([3, 0, 2, 1])


def maker(*, size=3, epsilon=0.8, rows=6, cells=4, queries=5, seed=0, **others):
    family = random_family(queries, cells, seed)
    return BLR(universe=plain_universe(cells), queries=family, rows=rows, epsilon=epsilon, size=size, **others)


def largest_error(family, table, histogram):
    """With fractions, from the definition."""
    queries = [[Fraction(v) for v in row] for row in matrix_of(family)]

    def mean(row, counts):
        return sum(v * int(c) for v, c in zip(row, counts, strict=True)) / int(sum(counts))

    return max(abs(mean(row, table) - mean(row, histogram)) for row in queries)


def enumerated(blr, histogram):
    """The law by its definition: table as a tuple of counts to probability."""
    weights = {
        tuple(table.tolist()): math.exp(
            -blr.epsilon * blr.rows * float(largest_error(blr.queries, table, histogram)) / 2
        )
        for table in all_histograms(blr.size, blr.universe.cells)
    }
    total = math.fsum(weights.values())
    return {table: weight / total for table, weight in weights.items()}


# Law ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 4, 6])
@pytest.mark.parametrize("epsilon", [0.1, 2.0])
def test_the_law_is_the_enumerated_one(size, epsilon):
    blr = maker(size=size, epsilon=epsilon)
    law, expected = blr.selection.law(blr.losses(HISTOGRAM)), enumerated(blr, HISTOGRAM)
    assert len(law) == blr.candidates == len(expected) == math.comb(4 + size - 1, size)
    seen = {tuple(blr.table(index).tolist()): p for index, p in enumerate(law)}
    assert seen.keys() == expected.keys()
    for table, p in expected.items():
        assert seen[table] == pytest.approx(p, rel=1e-10)


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(3)], ids=["secure", "seeded"])
def test_draws_follow_the_enumerated_law(noise):
    blr = maker(size=2, epsilon=1.5)
    expected = enumerated(blr, HISTOGRAM)
    counts = dict.fromkeys(expected, 0)
    for _ in range(2500):
        weights = blr.learned(blr.release(HISTOGRAM, noise))
        counts[tuple(np.rint(weights * 2).astype(int).tolist())] += 1
    observed = np.array([counts[table] for table in expected])
    assert stats.chisquare(observed, 2500 * np.array(list(expected.values()))).pvalue > 1e-6
    other = enumerated(maker(size=2, epsilon=0.5), HISTOGRAM)
    assert stats.chisquare(observed, 2500 * np.array(list(other.values()))).pvalue < 1e-6


def test_large_families_are_read_in_blocks(monkeypatch):
    whole = maker(size=5).losses(HISTOGRAM)
    monkeypatch.setattr("everhold_privacy.synthetic._BLOCK", 30)
    np.testing.assert_array_equal(maker(size=5).losses(HISTOGRAM), whole)


# Privacy --------------------------------------------------------------------------------------------------------------

EPSILONS = np.array([0.0, 0.2, 0.5, 0.8, 1.0])


def worst_divergence(blr, law):
    laws = {tuple(h.tolist()): law(h) for h in all_histograms(blr.rows, blr.universe.cells)}
    worst, largest_loss = np.zeros(len(EPSILONS)), 0.0
    for histogram, one in laws.items():
        for other in neighbours(np.array(histogram)):
            two = laws[tuple(other.tolist())]
            gaps = np.maximum(one - np.exp(EPSILONS)[:, None] * two, 0).sum(axis=1)
            worst, largest_loss = np.maximum(worst, gaps), max(largest_loss, float(np.log(one / two).max()))
    return worst, largest_loss


@pytest.mark.parametrize("size", [2, 5])
def test_one_row_tells_no_more_than_the_curve_by_enumeration(size):
    blr = maker(size=size, epsilon=1.0, rows=3)
    worst, loss = worst_divergence(blr, lambda histogram: blr.selection.law(blr.losses(histogram)))
    assert np.all(worst <= blr.curve().delta(EPSILONS) + 1e-14)
    assert 0.2 < loss <= 1.0 + 1e-12
    wrong = ExponentialMechanism(1.0, sensitivity=UNIT)  # forgets that losses are multiplied by the size
    worst, loss = worst_divergence(blr, lambda histogram: wrong.law(blr.losses(histogram)))
    assert np.any(worst > blr.curve().delta(EPSILONS))
    assert loss > 1.0


# Utility --------------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), size=st.integers(1, 6), queries=st.integers(1, 8), cells=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_some_small_table_is_as_close_as_promised(seed, size, queries, cells):
    histogram = np.random.default_rng(seed).multinomial(6, np.full(cells, 1 / cells))
    blr = maker(size=size, cells=cells, queries=queries, seed=seed)
    best = blr.losses(histogram).min() / (6 * size * UNIT)
    assert best <= small_table_error(queries=queries, cells=cells, size=size) + 1e-12


def test_the_rounding_bound_is_attained():
    """Two cells of equal weight and a table of one row: half of the weight has to move."""
    blr = maker(size=1, cells=2, queries=2, rows=2)
    assert small_table_error(queries=2, cells=2, size=1) == 0.5
    identity = BLR(universe=blr.universe, queries=blr.universe.marginals(1), rows=2, epsilon=1.0, size=1)
    assert identity.losses([1, 1]).min() / (2 * UNIT) == 0.5


@pytest.mark.parametrize("beta", [0.05, 0.5])
@pytest.mark.parametrize("epsilon", [3.0, 30.0])
def test_the_expected_excess_is_at_most_r_by_enumeration(beta, epsilon):
    blr = maker(size=4, epsilon=epsilon)
    alpha, exceedance = blr.sampling(beta)
    worst = 0.0
    for histogram in all_histograms(6, 4):
        errors = blr.losses(histogram) / (6 * 4 * UNIT)
        worst = max(worst, float(blr.selection.law(blr.losses(histogram)) @ np.maximum(errors - alpha, 0)))
    assert 0.0 < worst <= exceedance


def test_the_exceedance_is_attained():
    """All rows in one cell, tables of one row: every other candidate is wrong by 1, at the worst epsilon for that."""
    cells, rows = 50, 20
    worst = 1 + float(lambertw((cells - 1) / math.e).real)
    universe = plain_universe(cells)
    blr = BLR(universe=universe, queries=universe.marginals(1), rows=rows, epsilon=2 * worst / rows, size=1)
    histogram = np.eye(1, cells, dtype=int)[0] * rows
    losses = blr.losses(histogram)
    regret = float(blr.selection.law(losses) @ losses) / (rows * UNIT)
    assert blr.sampling(0.999)[1] == pytest.approx(regret, rel=1e-6)


# Refusals -------------------------------------------------------------------------------------------------------------


class ManyQueries(QueryFamily):
    """More than fit into memory together."""

    count, cells = 10**5, 1000

    def block(self, start, stop):
        return np.zeros((stop - start, self.cells), dtype=bool)


def test_too_many_candidates_are_refused_with_their_number():
    assert candidate_tables(50, 10) == math.comb(59, 10)
    with pytest.raises(ValueError, match=f"There are {math.comb(59, 10):,} candidate tables.*limit of 1,048,576"):
        maker(size=10, cells=50)
    with pytest.raises(ValueError, match=r"about 10\^"):
        maker(size=200, cells=300)
    assert maker(size=2, cells=50, limit=1275).candidates == 1275
    with pytest.raises(ValueError, match="1,275"):
        maker(size=2, cells=50, limit=1274)
    with pytest.raises(ValueError, match=r"rows times size is [\d,]+\. Pass a smaller size, so that it is at most"):
        maker(rows=2**26, size=200, cells=2)
    with pytest.raises(ValueError, match="100,000 queries about 1,000 cells"):
        BLR(universe=plain_universe(1000), queries=ManyQueries(), rows=10, epsilon=1.0, size=1)


WRONG = [{"epsilon": 0.0}, {"epsilon": math.nan}, {"size": 0}, {"size": 2.5}, {"rows": 0}, {"rows": True}]


@pytest.mark.parametrize("wrong", [*WRONG, {"limit": 0}], ids=str)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(ValueError, match=rf"^{next(iter(wrong))} is .*Pass"):
        maker(**wrong)


def test_queries_about_other_cells_and_wrong_histograms_are_refused():
    with pytest.raises(ValueError, match="about 3 cells"):
        BLR(universe=plain_universe(4), queries=random_family(2, 3), rows=6, epsilon=1.0, size=2)
    for histogram in ([1, 2, 3], [1, 2, 3, 1], [1.0, 2.0, 3.0, 0.0]):
        with pytest.raises(ValueError, match="histogram"):
            maker().release(histogram, SeededNoise(1))
    with pytest.raises(ValueError, match="index"):
        maker().table(10**6)
