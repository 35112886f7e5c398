import itertools

import numpy as np
import pytest
from networks_by_hand import EPSILONS, counting_mechanism, joint_law, true_leak

from everhold.dependence.units import Groups
from everhold.errors import DependenceError
from everhold_privacy.curves import PureCurve
from everhold_privacy.leakage import leakage
from everhold_privacy.networks.pedigree import pedigree

TRIO = {"Ann": (None, None), "Bob": (None, None), "Cem": ("Bob", "Ann")}


def child_by_alleles(father, mother, mutation):
    """P[genotype of a child] by drawing one allele of each parent, then mutating."""
    law = np.zeros(3)
    for first, second in itertools.product([1] * father + [0] * (2 - father), [1] * mother + [0] * (2 - mother)):
        for a, b in itertools.product([0, 1], repeat=2):
            chance = (mutation if a != first else 1 - mutation) * (mutation if b != second else 1 - mutation)
            law[a + b] += chance / 4
    return law


@pytest.mark.parametrize("mutation", [0.0, 0.01, 0.5])
def test_children_inherit_one_allele_of_each_parent(mutation):
    network = pedigree(TRIO, allele_frequency=0.3, mutation=mutation)
    table = network.tables[network.table_of[2]]
    for father, mother in itertools.product(range(3), repeat=2):
        np.testing.assert_allclose(table[father, mother], child_by_alleles(father, mother, mutation), atol=1e-15)


def test_a_parent_without_a_name_is_anyone():
    one = pedigree({"Ann": (None, None), "Cem": (None, "Ann")}, allele_frequency=0.3, mutation=0.02)
    both = pedigree(TRIO, allele_frequency=0.3, mutation=0.02)
    states, law = joint_law(both)
    expected = np.zeros((3, 3))
    np.add.at(expected, (states[:, 0], states[:, 2]), law)
    np.testing.assert_allclose(joint_law(one)[1].reshape(3, 3), expected, atol=1e-15)


def test_without_mutation_the_law_of_genotypes_stays():
    network = pedigree(TRIO, allele_frequency=0.3)
    states, law = joint_law(network)
    child = [law[states[:, 2] == x].sum() for x in range(3)]
    np.testing.assert_allclose(child, [0.49, 0.42, 0.09], atol=1e-15)


def test_families_are_components():
    people = TRIO | {"Dan": (None, None), "Eve": ("Dan", None)}
    assert pedigree(people, allele_frequency=0.1).components == (("Ann", "Bob", "Cem"), ("Dan", "Eve"))


def test_many_families_share_three_tables():
    people = {}
    for family in range(300):
        f, m = f"f{family}", f"m{family}"
        people |= {f: (None, None), m: (None, None), f"c{family}": (f, m), f"d{family}": (f, m)}
    network = pedigree(people, allele_frequency=0.2, mutation=1e-3, row="person")
    assert len(network.tables) == 2
    assert network.concentration(1200) >= 300.0
    assert leakage(network, PureCurve(0.01), 1200).delta(0.05) < PureCurve(0.04).delta(0.0)


@pytest.mark.parametrize("mutation", [0.0, 0.1])
@pytest.mark.parametrize("level", [0.1, 1.0])
def test_the_curve_of_a_family_is_above_the_true_leak(mutation, level):
    people = TRIO | {"Dan": ("Bob", "Ann"), "Eve": (None, "Cem")}
    network = pedigree(people, allele_frequency=0.3, mutation=mutation, latent=["Ann"])
    truth = true_leak(network, counting_mechanism(level))
    assert np.all(leakage(network, PureCurve(level), network.rows).delta(EPSILONS) >= truth - 1e-12)


@pytest.mark.parametrize(
    ("people", "reason"),
    [
        ({"a": ("b", None), "b": ("a", None)}, "own ancestor"),
        ({"a": ("a", None)}, "own ancestor"),
        ({"a": ("b", "c"), "b": ("a", None), "c": (None, None), "d": ("a", "c")}, "'[ab]' is their own ancestor"),
        ({"a": ("x", None)}, "is not in the pedigree"),
        ({"a": (None, None), "b": ("a", "a")}, "both parents"),
        ({"a": "xy"}, "not a pair"),
        ({"a": (None,)}, "not a pair"),
        ({}, "none"),
    ],
)
def test_impossible_families_are_refused(people, reason):
    with pytest.raises(DependenceError, match=reason):
        pedigree(people, allele_frequency=0.3)


@pytest.mark.parametrize("numbers", [{"allele_frequency": 0.0}, {"allele_frequency": 0.3, "mutation": 0.6}])
def test_numbers_out_of_range_are_refused(numbers):
    with pytest.raises(DependenceError, match="frequency"):
        pedigree(TRIO, **numbers)


def test_families_without_mutation_count_like_groups_as_in_the_coverage_studies():
    """A child tells its parents' genotypes apart for certain, so a family of six is a group of six."""
    people = {}
    for family in range(20):
        parents = f"f{family}", f"m{family}"
        people |= dict.fromkeys(parents, (None, None)) | {f"c{family}.{child}": parents for child in range(4)}
    families, groups, curve = pedigree(people, allele_frequency=0.3), Groups(6), PureCurve(0.05, times=3)
    assert families.concentration(120) == pytest.approx(groups.concentration(120))
    leaks = [leakage(model, curve, 120).delta(EPSILONS) for model in (families, groups)]
    np.testing.assert_allclose(*leaks, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("rates", [{"allele_frequency": "x"}, {"allele_frequency": 0.3, "mutation": "a"}])
def test_rates_that_are_no_numbers(rates):
    with pytest.raises(DependenceError, match="allele_frequency is"):
        pedigree(TRIO, **rates)
