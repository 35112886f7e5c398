"""Tiny worlds of independent units, in full: every outcome, and its probability under any laws of the units."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

NATS = (0.0, 0.3, math.log(2), 1.5, 3.0, 6.0)
MARGIN = 1e-12


@dataclass(frozen=True)
class Outcomes:
    """All combinations of unit k having its support's value `choices[:, k]`."""

    choices: np.ndarray

    @classmethod
    def of(cls, units, kinds):
        return cls(np.array(list(itertools.product(range(kinds), repeat=units))))

    def probabilities(self, laws):
        """Of each outcome; laws of shape (units, kinds)."""
        return np.prod([law[choice] for law, choice in zip(laws, self.choices.T, strict=True)], axis=0)

    def of_units_alike(self, compute):
        """The result of each outcome where the order of the units does not matter: once for each set of choices."""
        known = {kind: compute(list(kind)) for kind in {tuple(sorted(choice)) for choice in self.choices.tolist()}}
        return [known[tuple(sorted(choice))] for choice in self.choices.tolist()]


def laws_of(units, kinds, rng, *, number):
    """Laws of units that are alike, unlike, and nearly certain; each of shape (units, kinds)."""
    for i in range(number):
        concentration = (0.1, 0.5, 1.0, 10.0)[i % 4]
        laws = rng.dirichlet(np.full(kinds, concentration), units)
        if i % 3 == 0:
            laws[:] = laws[0]
        yield laws
    for rare in (0.4, 0.1, 0.01):
        for often, seldom in itertools.permutations(range(kinds), 2):
            laws = np.zeros((units, kinds))
            laws[:, often], laws[:, seldom] = 1.0 - rare, rare
            yield laws
            laws = laws.copy()
            laws[1:] = np.eye(kinds)[often]
            yield laws


def misses(outcomes, laws, low, high, truth):
    """P[truth below the interval], P[truth above it]."""
    chances = outcomes.probabilities(laws)
    return chances @ (truth < low), chances @ (truth > high)
