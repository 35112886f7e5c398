"""Error probabilities of expressions by the length of their text, if larger than by their place in the tree (S10).

An expression takes a place of the tree like any other query. Its interval has the level of the place or that of its
description. Public facts decide which. Levels of descriptions are no part of the weights of the tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everhold.arguments import as_whole, brief

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure

TEXT_BITS = 100
"""Longest text, in bits, that a holdout checks at the level of its description, unless its mechanism was handed in."""

MOST_TEXT_BITS = 1_000

USUAL_TEXT_BITS = 20
"""Such as ``delay > 15``."""


@dataclass(frozen=True, slots=True)
class Description:
    """Level and interval procedure that a query has because of its description, not of its place in the order.

    Attributes:
        nats: ln(1 / level).
        procedure: Interval procedure; it follows from the query, the schema and the training rows.
    """

    nats: float
    procedure: Procedure


def narrower(procedure: Procedure, nats: float, described: Description | None) -> tuple[Procedure, float]:
    """Return the query's procedure and ln(1 / level), or those of its description if the level is larger."""
    if described is None or described.nats >= nats:
        return procedure, nats
    return described.procedure, described.nats


def all_narrower(
    procedures: Sequence[Procedure], nats: NDArray[np.float64], described: Sequence[Description | None]
) -> tuple[list[Procedure], NDArray[np.float64]]:
    """Return `narrower` for each query of a step.

    Args:
        procedures: Procedures of the queries by their places in the order.
        nats: ln(1 / level) of the places, shape (queries,).
        described: Description of each query or None; it may be longer than the step.
    """
    chosen = [narrower(*each) for each in zip(procedures, nats.tolist(), described, strict=False)]
    return [procedure for procedure, _ in chosen], np.array([level for _, level in chosen])


def check_text_bits(bits: int) -> None:
    """Raise ValueError unless ``bits`` is a whole number from 0 to `MOST_TEXT_BITS`."""
    if not 0 <= (-1 if (whole := as_whole(bits)) is None else whole) <= MOST_TEXT_BITS:
        raise ValueError(f"text_bits is {brief(bits)}. Pass a whole number of bits from 0 to {MOST_TEXT_BITS}.")
