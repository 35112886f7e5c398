"""Dependent rows: promises are kept where the dependence is declared, and broken where independence is."""

from __future__ import annotations

import dataclasses

import pytest
from dependent_cases import CASES, POPULATIONS, DependentCase

from everhold_lab.audit.boards import CopiedInOrder

CHAINS = {  # shorter cubes than those of the long study: their chains are tuned in a second
    "chain, correlation 0.5": CopiedInOrder(points=32, correlation=0.5),
    "chain, correlation 0.9": CopiedInOrder(points=32, correlation=0.9),
}
PLAYED = [
    ("guess_and_check", "climbing"),
    ("guess_and_check", "greedy"),
    ("gaussian", "climbing"),
    ("gaussian", "fingerprinting"),
    ("thresholdout", "climbing"),
    ("empirical", "honest"),
]
FAILING = [
    ("groups of 5", "guess_and_check", "honest"),
    ("groups of 5", "empirical", "honest"),
    ("groups of 50", "guess_and_check", "climbing"),
    ("groups of 50", "gaussian", "climbing"),
    ("groups of 50", "gaussian", "greedy"),
    ("groups of 50", "gaussian", "fingerprinting"),
    ("groups of 50, loose", "gaussian", "fingerprinting"),
    ("families of 6", "empirical", "honest"),
    ("chain, correlation 0.5", "empirical", "honest"),
    ("chain, correlation 0.9", "guess_and_check", "fingerprinting"),
    ("chain, correlation 0.9", "gaussian", "fingerprinting"),
    ("chain, correlation 0.9", "empirical", "honest"),
]
RUNS = 20

pytestmark = pytest.mark.slow


def short(population: str, mechanism: str) -> DependentCase:
    case = CASES[population, mechanism]
    return dataclasses.replace(case, population=CHAINS.get(population, case.population))


@pytest.mark.parametrize(("mechanism", "analyst"), PLAYED)
@pytest.mark.parametrize("population", POPULATIONS)
def test_promises_are_kept_where_the_dependence_is_declared(population, mechanism, analyst):
    study = short(population, mechanism).study(analyst, runs=RUNS)
    assert study.radius < 0.5
    assert study.consistent, study.to_text()


@pytest.mark.parametrize(("population", "mechanism", "analyst"), FAILING)
def test_the_same_rows_break_promises_that_were_made_for_independent_ones(population, mechanism, analyst):
    study = short(population, mechanism).study(analyst, runs=RUNS, independent=True)
    assert study.clopper_pearson[0] > 1.0 - study.confidence, study.to_text()


@pytest.mark.parametrize("population", POPULATIONS)
def test_the_right_model_costs_radius(population):
    for mechanism in ("guess_and_check", "gaussian", "empirical"):
        case = short(population, mechanism)
        told, untold = (case.tuned(independent=independent).promise().radius for independent in (False, True))
        assert told > 1.3 * untold
