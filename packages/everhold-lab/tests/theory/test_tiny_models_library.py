"""The library's own models of the 500 tiny ones: influences, leakage and prices against the exact laws."""

import functools
import itertools
import math

import numpy as np
import pytest
from tiny_models import blanket, models, quilts, randomised_response
from tiny_sessions import session, sessions

from everhold.dependence.series.markov_chain import MarkovChain
from everhold_lab.published.bayesian_privacy import (
    bayesian_privacy,
    chain_privacy_for,
    enumerated_influence,
    enumerated_quilt_influence,
)
from everhold_privacy.curves import PureCurve
from everhold_privacy.leakage import leakage
from everhold_privacy.networks.factors import Factor, FactorModel
from everhold_privacy.networks.models import BayesianNetwork, MarkovNetwork
from everhold_privacy.networks.quilts import Quilt, conditional_quilt_influence, influence_bound, quilt_influence

ROUNDING = 1e-8
EPSILONS = np.array([0.0, 0.2, 0.7, 2.0])
NAMES = "abcde"


def network(model):
    """The same model, as a user would declare it."""
    named = [("".join(NAMES[row] for row in rows), table) for rows, table in model.factors]
    if model.kind == "loop":
        return MarkovNetwork(dict(zip(NAMES, model.states, strict=False)), named)
    nodes = {scope[-1]: (table.shape[-1], tuple(scope[:-1]), table) for scope, table in named}
    return BayesianNetwork(dict(sorted(nodes.items())))


@functools.cache
def networks():
    return [network(model) for model in models()]


def test_influences_are_those_of_enumeration():
    for model in models()[::2]:
        law, joint = FactorModel(model.states, tuple(itertools.starmap(Factor, model.factors))), model.joint()
        for row in range(model.rows):
            around = blanket(model.edges(), row)
            assert close(influence_bound(law, around, row).value, enumerated_influence(joint, row=row, targets=around))
            for nearby, quilt in quilts(model.edges(), row, model.rows):
                found = Quilt(row, nearby, quilt)
                assert close(quilt_influence(law, found), enumerated_influence(joint, row=row, targets=quilt))
                expected = enumerated_quilt_influence(joint, row=row, quilt=quilt, nearby=nearby)
                conditional = conditional_quilt_influence(law, found)
                assert conditional.exact
                assert close(conditional.value, expected)


def close(found, expected):
    """Equal but for rounding, which must be upwards."""
    if math.isinf(expected):
        return found == expected
    return expected - 1e-12 <= found <= expected + ROUNDING


def test_the_leakage_of_networks_is_never_too_small():
    for held, declared in zip(sessions(), networks(), strict=True):
        bound = leakage(declared, PureCurve(held.loss, 2), held.model.rows).delta(EPSILONS)
        assert all(held.leak(epsilon) <= most + ROUNDING for epsilon, most in zip(EPSILONS, bound, strict=True))


def test_a_network_with_tables_that_are_too_weak_is_caught():
    """Every second table forgets the parents."""
    caught = 0
    for held in sessions()[:100]:
        weak = []
        for number, (scope, table) in enumerate(held.model.factors):
            mean = table.mean(axis=tuple(range(table.ndim - 1)), keepdims=True)
            weak.append((scope, mean + 0.0 * table if number % 2 else table))
        declared = network(type(held.model)(held.model.kind, held.model.states, tuple(weak)))
        bound = leakage(declared, PureCurve(held.loss, 2), held.model.rows).delta(EPSILONS)
        caught += any(held.leak(epsilon) > most + 1e-3 for epsilon, most in zip(EPSILONS, bound, strict=True))
    assert caught > 0


@pytest.mark.parametrize("wanted", [0.3, 2.0])
def test_noise_at_the_price_of_networks_gives_the_wanted_bayesian_privacy(wanted):
    for model, declared in zip(models(), networks(), strict=True):
        if math.prod(model.states) <= 48:
            law = randomised_response(model.states, 1 / declared.bayesian_price(wanted, model.rows))
            assert bayesian_privacy(model.joint(), law).leakage <= wanted + ROUNDING


# Chains ---------------------------------------------------------------------------------------------------------------


@functools.cache
def stationary_chains():
    """Tiny chains in their stationary law, with the library's model of them."""
    found = []
    for seed, model in enumerate(models()):
        if model.kind == "chain":
            transition = model.factors[1][1] + 1e-4
            transition /= transition.sum(axis=1, keepdims=True)
            declared = MarkovChain(transition.tolist(), order_by="time", lengths=[(model.rows, 1)])
            tables = [((0,), declared.stationary), *((scope, transition) for scope, _ in model.factors[1:])]
            found.append((session(seed, type(model)("chain", model.states, tuple(tables))), declared))
    return found


def test_the_leakage_of_chains_is_never_too_small():
    for held, declared in stationary_chains():
        bound = leakage(declared, PureCurve(held.loss, 2), held.model.rows).delta(EPSILONS)
        assert all(held.leak(epsilon) <= most + ROUNDING for epsilon, most in zip(EPSILONS, bound, strict=True))


@pytest.mark.parametrize("wanted", [0.3, 2.0])
def test_noise_at_the_price_of_chains_gives_the_wanted_bayesian_privacy(wanted):
    for held, declared in stationary_chains():
        if math.prod(held.model.states) <= 48:
            law = randomised_response(held.model.states, 1 / declared.bayesian_price(wanted, held.model.rows))
            assert bayesian_privacy(held.model.joint(), law).leakage <= wanted + ROUNDING


@pytest.mark.parametrize("wanted", [0.01, 0.3, 2.0])
def test_quilts_with_exact_influences_are_never_dearer_than_lemma_4(wanted):
    """So the price of a chain needs no Lemma 4."""
    compared, rows = 0, 100_000
    for _, declared in stationary_chains():
        if declared.is_reversible:
            chain = MarkovChain(declared.transition, order_by="time", lengths=[(rows, 1)])
            lemma = chain_privacy_for(wanted, rows=rows, gap=chain.spectral_gap, least=float(chain.stationary.min()))
            assert lemma <= 1 / chain.bayesian_price(wanted, rows)
            compared += lemma > 0
    assert compared > 20
