"""Families: genotypes that children inherit from their parents."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import DependenceError
from everhold_privacy.networks.models import BayesianNetwork

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from numpy.typing import NDArray

    from everhold_privacy.networks.models import NodeSettings


def pedigree(
    people: Mapping[str, tuple[str | None, str | None]],
    *,
    allele_frequency: float,
    mutation: float = 0.0,
    **settings: Unpack[NodeSettings],
) -> BayesianNetwork:
    """Return a Bayesian network of the genotypes of relatives at one locus: 0, 1 or 2 copies of an allele.

    Founders, people without parents, have two alleles drawn independently (Hardy-Weinberg). Each parent passes one of
    its two alleles, either with probability 1/2 (Mendel); it turns into the other kind with the probability
    ``mutation``. A parent who is not named is drawn from the population. Families without common members are
    independent.

    Args:
        people: Each person to (father, mother); None for a parent who is not named.
        allele_frequency: Frequency of the allele among founders, strictly between 0 and 1.
        mutation: Probability, in [0, 1/2], that a passed allele turns into the other kind. 0 rules some
            genotypes of relatives out, so that influences on them are infinite.
        **settings: ``row``, the column that names the person of each row, ``latent``, people who have no row, and
            ``training``, as in `BayesianNetwork`.

    Raises:
        DependenceError: If somebody is their own ancestor or has an unknown parent, or a number is out of range.

    Examples:
        >>> trio = pedigree({"Ann": (None, None), "Bob": (None, None), "Cem": ("Bob", "Ann")}, allele_frequency=0.3)
        >>> trio.components
        (('Ann', 'Bob', 'Cem'),)
        >>> trio.tables[0].round(2).tolist()
        [0.49, 0.42, 0.09]
    """
    numbers = all(isinstance(rate, (int, float, np.number)) for rate in (allele_frequency, mutation))
    if not numbers or not 0.0 < allele_frequency < 1.0 or not 0.0 <= mutation <= 0.5:
        raise DependenceError(
            f"allele_frequency is {allele_frequency!r} and mutation is {mutation!r}. Pass "
            "a frequency between 0 and 1, and a mutation rate from 0 to 1/2."
        )
    for name, parents in people.items():
        if not isinstance(parents, (tuple, list)) or len(parents) != 2:
            raise DependenceError(
                f"The parents of {name!r} are not a pair. Pass (father, mother), with None for "
                "a parent who is not named."
            )
        unknown = [parent for parent in parents if parent is not None and parent not in people]
        if unknown:
            raise DependenceError(
                f"{unknown[0]!r}, a parent of {name!r}, is not in the pedigree. Add "
                f"{unknown[0]!r} as a founder (None, None), or pass None as this parent.",
                person=name,
            )
        if parents[0] is not None and parents[0] == parents[1]:
            raise DependenceError(
                f"{name!r} has the same person as both parents. Pass two different people.", person=name
            )
    try:
        TopologicalSorter(
            {name: [parent for parent in pair if parent is not None] for name, pair in people.items()}
        ).prepare()
    except CycleError as fault:
        raise DependenceError(f"{fault.args[1][0]!r} is their own ancestor. Correct the parents.") from None
    passed = np.array([mutation, 0.5, 1.0 - mutation])  # by a parent with 0, 1, 2 copies
    anyone = allele_frequency * (1.0 - mutation) + (1.0 - allele_frequency) * mutation
    tables = {
        0: _genotypes(np.array(allele_frequency), np.array(allele_frequency)),
        1: _genotypes(passed, np.array(anyone)),
        2: _genotypes(passed[:, None], passed),
    }
    nodes: dict[str, Any] = {}
    for name, parents in people.items():
        named = tuple(parent for parent in parents if parent is not None)
        nodes[name] = 3, named, tables[len(named)]
    return BayesianNetwork(nodes, **settings)


def _genotypes(father: NDArray[np.float64], mother: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of 0, 1 and 2 copies of an allele, from the probabilities for each parent."""
    none, both = (1.0 - father) * (1.0 - mother), father * mother
    one = father * (1.0 - mother) + (1.0 - father) * mother
    return np.stack(np.broadcast_arrays(none, one, both), axis=-1)
