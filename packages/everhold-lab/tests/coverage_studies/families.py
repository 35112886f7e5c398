"""A population of families, for studies of rows that depend on each other."""

from dataclasses import dataclass

import numpy as np

from everhold.dependence import Groups
from everhold_lab.audit.boards import Population


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedInFamilies(Population):
    """Population of families whose children inherit one of the mother's two haplotypes.

    A record is a haplotype, a block of a chromosome that is inherited as a whole. The haplotypes of mother and father
    are carried by no other family. A child carries one of its mother's two haplotypes, each with probability 1/2. So a
    child carries the same record as its mother with probability 1/2, and so do two children of one mother.

    Attributes:
        children: Children of each family.
    """

    children: int = 4

    @property
    def size(self):
        """Number of members of a family."""
        return self.children + 2

    def sources(self, rows, rng):
        """Return the haplotype of each row, among the mother's two and the father's."""
        if rows % self.size:
            raise ValueError(
                f"rows is {rows}, which families of {self.size} do not divide. Pass a multiple of {self.size}."
            )
        families = np.arange(rows // self.size)[:, None]
        handed_down = rng.integers(0, 2, (len(families), self.children))
        members = np.column_stack([np.tile([0, 2], (len(families), 1)), handed_down])
        return np.asarray(3 * families + members, dtype=np.int64).reshape(-1)

    def dependence(self):
        """Return the model of families as groups."""
        return Groups(self.size)
