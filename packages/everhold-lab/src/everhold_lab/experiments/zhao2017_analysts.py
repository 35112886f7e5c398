"""Mechanisms in front of a holdout of dependent rows in Figures 2 and 3, and the claims of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.dependence import Independent
from everhold.mechanisms import GuessAndCheck
from everhold_lab.audit.dependent_boards import CopiedInOrder
from everhold_lab.published import zhao_theorem_2_rows
from everhold_lab.releases import thresholdout_zhao2017
from everhold_privacy.mechanisms.averages import Empirical
from everhold_privacy.mechanisms.thresholdout import Thresholdout

if TYPE_CHECKING:
    from everhold.dependence import DependenceModel
    from everhold.mechanisms import Mechanism
    from everhold_lab.audit.dependent_boards import Population
    from everhold_lab.experiments.correlated_attributes import Attributes

PROTECTED = ("thresholdout_tuned", "guess_and_check_tuned")
"""Those whose promise is proven for dependent rows."""

_SLACK = 1.0 / 3.0  # c of Theorem 2


@dataclass(frozen=True, slots=True)
class Case:
    """A population and how many rows are drawn of it, for training and for the holdout each.

    Attributes:
        name: In words, such as "chain 0.5".
        rows: n.
        population: Who carries whose record; its points only say how many kinds of rows the declared chain has.
    """

    name: str
    rows: int
    population: Population


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """Game that a mechanism is planned for.

    Attributes:
        queries: m, queries about attributes and about votes.
        surprises: B.
        tolerance: tau, the half-width that Theorem 2's calibration is after.
        confidence: 1 - beta.
    """

    case: Case
    law: Attributes
    queries: int
    surprises: int
    tolerance: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Contender:
    """A mechanism and the claim that is made for it.

    Attributes:
        radius: Half-width that is claimed for all its answers.
        rows_needed: Rows that the claim needs by Theorem 2; None where another statement stands behind it.
    """

    name: str
    mechanism: Mechanism
    radius: float
    rows_needed: int | None = None


@lru_cache(maxsize=256)
def contender(game: Game, name: str) -> Contender:
    """One of the analysts; planned once in each process.

    The radius of common reuse is what independent rows would give to queries that were fixed beforehand (P9).

    Raises:
        KeyError: If there is no analyst of this name.
    """
    true, independent = game.case.population.dependence(), Independent()
    if name == "common":
        return _promised(name, Empirical.tuned(**_request(game, independent)))
    if name == "thresholdout_theorem2":
        calibrated = thresholdout_zhao2017(
            **_request(game, true), surprises=game.surprises, tolerance=game.tolerance, slack=_SLACK
        )
        return Contender(name, calibrated, game.tolerance, rows_of_theorem_2(game))
    kinds: dict[str, tuple[Any, DependenceModel]] = {
        "thresholdout_tuned": (Thresholdout, true),
        "guess_and_check_tuned": (GuessAndCheck, true),
        "thresholdout_iid": (Thresholdout, independent),
        "guess_and_check_iid": (GuessAndCheck, independent),
    }
    mechanism, declared = kinds[name]
    return _promised(name, mechanism.tuned(**_request(game, declared), surprises=game.surprises))


def _promised(name: str, mechanism: Mechanism) -> Contender:
    return Contender(name, mechanism, mechanism.promise().radius)


def _request(game: Game, declared: DependenceModel) -> dict[str, Any]:
    """Rows, queries, the declared model, and the confidence that makes up for what the model leaves out.

    Any two different records of a chain that copies are ``P^h(x, .)`` and ``P^h(x', .)`` apart by the same ``rho^h``,
    whatever the number of possible records, which is astronomical here. A declared chain of S states gives the same
    norm (S5) and, in S4, the same law of H for unequal states; only it takes two draws to be equal with probability
    ``1/S``. So its leakage is at least ``1 - 1/S`` times the true one, and S1 at ``beta (1 - 1/S)`` for the declared
    chain implies S1 at beta for the true one.
    """
    failure = 1.0 - game.confidence
    population = game.case.population
    if isinstance(population, CopiedInOrder) and not declared.independent:
        failure *= 1.0 - 1.0 / (2 * population.points)
    return {
        "rows": game.case.rows,
        "queries": game.queries,
        "confidence": 1.0 - failure,
        "dependence": declared,
    }


def rows_of_theorem_2(game: Game) -> int:
    """Rows that Theorem 2 needs for its tolerance with the quilts of the population (P2; published, proof incomplete).

    A row of a group has an empty quilt, and its group is nearby. A row of a chain has the quilts ``{i-h, i+h}``. Their
    influence is a ratio of probabilities of single records, ``1 + rho^h / ((1 - rho^h) p)`` with the least probability
    p of a record, so the paper's price grows with the number of attributes.
    """

    def price(tolerance: float) -> float:
        population, epsilon = game.case.population, tolerance / 3.0
        if isinstance(population, CopiedInOrder):
            return _chain_price(epsilon, correlation=population.correlation, log_least=game.law.log_least)
        return population.dependence().bayesian_price(epsilon, game.case.rows)

    return int(
        zhao_theorem_2_rows(
            game.tolerance, queries=game.queries, surprises=game.surprises, confidence=game.confidence, slack=_SLACK,
            price=price,
        ).rows
    )  # fmt: skip


def _chain_price(epsilon: float, *, correlation: float, log_least: float) -> float:
    """``min_h (2h - 1)/(eps - 8 b(h))`` with ``b(h) = ln(1 + rho^h / ((1 - rho^h) p))`` (P5)."""
    enough = (log_least - math.log(epsilon) + 40.0) / -math.log(correlation)  # there b is below e^-40 eps
    steps = np.arange(1, math.ceil(enough) + 1)
    kept = steps * math.log(correlation)
    influence = np.logaddexp(0.0, kept - np.log(-np.expm1(kept)) + log_least)
    left = epsilon - 8.0 * influence
    prices = np.divide(2.0 * steps - 1.0, left, out=np.full(len(steps), math.inf), where=left > 0.0)
    return float(prices.min())
