"""Base of mechanisms whose queries come with guesses, and the plans that these share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from everhold.arguments import as_float, as_whole, brief
from everhold.mechanisms.base import Mechanism, Traits

Gridded = TypeVar("Gridded", bound=Mechanism)

_USUAL_SURPRISES = 10
_GRIDS = np.unique(np.geomspace(1, 4096, 200).astype(int)).tolist()


@dataclass(frozen=True, kw_only=True)
class ChecksGuesses(Mechanism):
    """Mechanism in which every query has a guess, and only a surprise is paid from the budget.

    Attributes:
        surprises: Planned number of surprises B, which are answered from the holdout.
    """

    surprises: int

    traits: ClassVar[Traits] = Traits(
        needs_guess=True, sources=("training", "guess", "holdout"), charged_in="surprises"
    )
    largest: ClassVar[Mapping[str, int]] = {**Mechanism.largest, "surprises": 10**6}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_surprises(self.surprises, self.queries)

    @property
    def planned_surprises(self) -> int:
        """Number of planned surprises, which is `surprises`."""
        return self.surprises

    @classmethod
    def for_request(cls, *, surprises: int, slack: float, training_rows: int = 0, **request: Any) -> Self:
        """Return `tuned` with the number of surprises and the slack of a request."""
        return cls.tuned(surprises=surprises, slack=slack, **request)


def with_best_grid(with_grid: Callable[[int], Gridded], radius: Callable[[Gridded], float]) -> Gridded:
    """Return the mechanism with the smallest radius over all numbers of grid steps."""
    coarse = int(min(_GRIDS, key=lambda grid: radius(with_grid(grid))))
    around = range(max(coarse - coarse // 20 - 1, 1), coarse + coarse // 20 + 2)
    return min(map(with_grid, around), key=radius)


def planned_surprises(surprises: int | None, queries: int) -> int:
    """Return a requested number of surprises, by default 10, or the number of queries if that is less."""
    if surprises is not None:
        return surprises
    return min(_USUAL_SURPRISES, queries) if isinstance(queries, (int, np.integer)) else _USUAL_SURPRISES


def check_surprises(surprises: int, queries: int) -> None:
    """Check a requested number of surprises against the number of queries."""
    if not 1 <= (as_whole(surprises) or 0) <= queries:
        raise ValueError(
            f"surprises is {brief(surprises)}. Pass a whole number from 1 to {queries}, the number of queries."
        )


def check_slack(slack: float) -> None:
    """Check the slack: the share of the tolerance within which a guess must not cost budget."""
    if not 0.0 <= as_float(slack) < 1.0:
        raise ValueError(f"slack is {brief(slack)}. Pass a number of at least 0 and below 1.")
