"""Base of interval procedures: which values the sealed rows leave possible for one fixed query (S8).

A query's procedure is decided by public facts before anybody looks at the sealed rows: what its row values can be,
how the rows depend on each other, and how far its values spread on the training rows. Levels are given as
``nats = ln(1 / level)``, because the shares of a tree of queries are far too small for a float.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Needs: TypeAlias = Literal["total", "cells", "apart", "groups", "pairs", "group_pairs", "statistic"]
"""Statistics that a procedure needs of the rows; see `Procedure.needs`."""

CELLS = 256
"""Number of equal cells of [0, 1] in which row values are counted, along either axis where there are pairs."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """An exact histogram of row values over equal parts of [0, 1], the same from every engine.

    Attributes:
        counts: Number of rows whose value on the grid lies in each cell, shape (`CELLS`,). The value 1 belongs to the
            last cell. Numbers of planned rows may have fractions.
        sums: Sum of the values of the rows in each cell, in grid units, shape (`CELLS`,).
        unit: Grid steps between 0 and 1.
    """

    counts: NDArray[np.int64] | NDArray[np.float64] = field(repr=False)
    sums: NDArray[np.int64] | NDArray[np.float64] = field(repr=False)
    unit: int


@dataclass(frozen=True, slots=True, eq=False)
class GroupSums:
    """Sizes and sums of the groups of rows, in the order of their sizes and then of their sums.

    Attributes:
        sizes: Number of rows of a group of each kind, shape (kinds,).
        sums: Sum of row values of a group of each kind in grid units, shape (kinds,).
        counts: Number of groups of each kind, shape (kinds,). It can have fractions: if there are too many kinds,
            groups are split between two grid points.
        unit: Grid steps between 0 and 1.
    """

    sizes: NDArray[np.int64] = field(repr=False)
    sums: NDArray[np.int64] = field(repr=False)
    counts: NDArray[np.int64] | NDArray[np.float64] = field(repr=False)
    unit: int


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Units with a numerator U and a denominator V, ``0 <= U <= V <= size``: rows, or groups of rows.

    Attributes:
        sizes: Number of rows of a unit of each kind, shape (kinds,).
        numerators: Sum of u over a unit of each kind in grid units, shape (kinds,).
        denominators: Sum of v over a unit of each kind in grid units, shape (kinds,).
        counts: Number of units of each kind, shape (kinds,), perhaps with fractions as for `GroupSums`.
        unit: Grid steps between 0 and 1.
    """

    sizes: NDArray[np.int64] = field(repr=False)
    numerators: NDArray[np.int64] = field(repr=False)
    denominators: NDArray[np.int64] = field(repr=False)
    counts: NDArray[np.int64] | NDArray[np.float64] = field(repr=False)
    unit: int


@dataclass(frozen=True)
class Procedure(ABC):
    """Base of the procedures that make the interval of one fixed query. Public, and chosen before rows are evaluated.

    The promise of a procedure: for one fixed query and ``level = exp(-nats)``, under every law that the holdout admits,
    the population's value lies outside `interval` with probability at most the level (both sides together).

    Attributes:
        name: Name of the procedure in the ledger and in certificates, such as ``"clopper_pearson"``.
        title: Name of the procedure in words, such as "Clopper-Pearson".
        needs: What the interval is computed from: the exact ``"total"`` of the row values, their histogram in
            ``"cells"`` (`Cells`), the histogram of the rows ``"apart"``, on which two public arrays differ, sums of
            ``"groups"`` (`GroupSums`), ``"pairs"`` of numerator and denominator by row or ``"group_pairs"`` by group
            (`Pairs`), or a ``"statistic"`` of all rows, a number in [0, 1].
        why: One sentence for `explain` that says why the interval holds.
        width_is_known: True if level and guess determine the width of an interval, before the rows are evaluated.
        of_all_rows: True if the query is a mean over all rows, which a promised tolerance binds.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[Needs]
    why: ClassVar[str]
    width_is_known: ClassVar[bool] = False
    of_all_rows: ClassVar[bool] = True

    @abstractmethod
    def interval(self, seen: Any, nats: float) -> tuple[float, float]:
        """Return both ends of the interval at the level ``exp(-nats)``, within [0, 1] and rounded outwards: C_j(X).

        Args:
            seen: The summary of the sealed rows that the procedure `needs`; for a total the mean in [0, 1].
            nats: ln(1 / level) of both sides together.
        """

    @abstractmethod
    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """Return the interval that results if the sealed value equals the guess, predicted from public facts."""

    def widest(self, nats: float) -> float:
        """Return a half-width that no interval at the level ``exp(-nats)`` exceeds, whatever the sealed rows are."""
        return 0.5

    def widest_if_honest(self, nats: float) -> float:
        """Return `widest` if as many sealed rows count as training rows suggest. By default it is `widest`."""
        return self.widest(nats)

    @property
    def frame(self) -> tuple[float, float]:
        """The least and the greatest value that an interval can contain, from public facts."""
        return 0.0, 1.0

    @abstractmethod
    def standard_error(self, guess: float) -> float:
        """Return the expected distance of an honest guess from the sealed value."""

    def stakes(self, nats: float) -> dict[str, float]:
        """Return by name the public numbers, such as stakes, that a verifier needs to compute the interval again."""
        return {}

    @property
    @abstractmethod
    def worth(self) -> float:
        """Number of yes-or-no rows with the mean 1/2 whose share would have the same standard error."""
