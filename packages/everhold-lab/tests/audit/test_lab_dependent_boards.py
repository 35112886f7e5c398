"""Populations that copy: each row for itself is uniform, and rows depend on each other as their model says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from coverage_studies.families import CopiedInFamilies

from everhold.dependence import Groups, MarkovChain
from everhold_lab.audit.boards import CopiedInGroups, CopiedInOrder, uniform_copying
from everhold_privacy.curves import GaussianCurve
from everhold_privacy.leakage import leakage

MANY = 1 << 40  # points: records that are not copied are different


def records(population, rows: int, seed: int = 0) -> np.ndarray:
    """One number for the point and the label of each row."""
    point, label = population.rows(rows, np.random.default_rng(seed))
    return 2 * point + (label > 0)


@pytest.mark.parametrize(
    "population",
    [CopiedInGroups(points=4, size=2), CopiedInOrder(points=4, correlation=0.5), CopiedInFamilies(points=4)],
    ids=repr,
)
def test_every_place_has_every_point_and_label_equally_often(population):
    drawn = np.stack([records(population, 6, seed) for seed in range(4_000)])
    for place in drawn.T:
        assert np.abs(np.bincount(place, minlength=8) / 4_000 - 1 / 8).max() < 0.025  # five standard errors


def test_rows_of_a_group_are_equal_and_groups_are_not():
    drawn = records(CopiedInGroups(points=MANY, size=4), 400).reshape(-1, 4)
    assert (drawn == drawn[:, :1]).all()
    assert len(set(drawn[:, 0])) == 100


def test_two_rows_of_a_loose_group_are_equal_with_the_square_of_the_share():
    drawn = records(CopiedInGroups(points=MANY, size=2, share=0.6), 40_000).reshape(-1, 2)
    assert np.mean(drawn[:, 0] == drawn[:, 1]) == pytest.approx(0.36, abs=0.017)


@pytest.mark.parametrize("correlation", [0.5, 0.9])
def test_rows_of_a_chain_are_equal_with_powers_of_the_correlation(correlation):
    drawn = records(CopiedInOrder(points=MANY, correlation=correlation), 100_000)
    for steps in (1, 2, 5):
        equal = np.mean(drawn[steps:] == drawn[:-steps])
        assert equal == pytest.approx(correlation**steps, abs=0.03)


def test_children_carry_a_haplotype_of_their_mother():
    drawn = records(CopiedInFamilies(points=MANY, children=3), 20_000 * 5).reshape(-1, 5)
    mother, father, *children = drawn.T
    for child in children:
        assert np.mean(child == mother) == pytest.approx(0.5, abs=0.018)
        assert not np.any(child == father)
    for one, other in itertools.combinations(children, 2):
        assert np.mean(one == other) == pytest.approx(0.5, abs=0.018)
    assert max(len(set(family)) for family in drawn.tolist()) == 3
    assert len(set(mother) | set(father)) == 40_000


def test_distances_of_the_copying_chain_are_powers_of_its_correlation():
    matrix = uniform_copying(6, 0.7)
    for steps in range(1, 6):
        power = np.linalg.matrix_power(matrix, steps)
        assert np.abs(power[0] - power[1]).sum() / 2 == pytest.approx(0.7**steps)
    assert np.sort(np.linalg.eigvalsh(matrix)) == pytest.approx([0.7] * 5 + [1.0])


def test_a_chain_of_two_states_is_not_the_model_of_a_chain_of_many():
    """Equal spectra, but pairs of equal states, which leak little, are rarer the more states there are."""
    two, many = (MarkovChain(uniform_copying(states, 0.9).tolist()) for states in (2, 16))
    assert two.concentration(1_000) == pytest.approx(many.concentration(1_000))
    leak_two, leak_many = (leakage(model, GaussianCurve(0.1), 1_000).delta(0.1) for model in (two, many))
    assert leak_two < 0.6 * leak_many
    assert CopiedInOrder(points=8, correlation=0.9).dependence().transition == many.transition


def test_groups_and_families_declare_their_size():
    assert CopiedInGroups(points=4, size=5).dependence() == Groups(5)
    assert CopiedInFamilies(points=4, children=3).dependence() == Groups(5)


def test_wrong_numbers_are_refused():
    with pytest.raises(ValueError, match="power of 2"):
        CopiedInGroups(points=6, size=2)
    for population in (CopiedInGroups(points=4, size=5), CopiedInFamilies(points=4, children=3)):
        with pytest.raises(ValueError, match=r"rows is 12, which .* do not divide"):
            population.rows(12, np.random.default_rng(0))


def test_a_balance_is_the_sum_of_labels_at_each_point():
    population = CopiedInOrder(points=8, correlation=0.5)
    point, label = population.rows(50, np.random.default_rng(3))
    expected = [label[point == where].sum() for where in range(8)]
    assert population.balance(50, np.random.default_rng(3)).tolist() == expected
