"""Plain records of mechanisms: state, replies, promises and quotes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Self

import numpy as np

from everhold.display import Display, html_record, html_sentences

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure


class Source(IntEnum):
    """Where an answer came from."""

    GUESS = 1
    HOLDOUT = 2
    REFUSED = 3
    STANDING = 4  # the best so far, which the query does not beat
    SILENT = 5  # nothing is told before the study is unsealed
    PROMOTED = 6  # a challenger that is proved to be better
    KEPT = 7  # one that is not; nothing else is told of it
    CHOSEN = 8  # a forced label of the sealed rows, such as the best of many; always told, and never a surprise (S9)
    DECLARED = 9  # a member of a declared family, answered by its description (S10)


@dataclass(frozen=True, slots=True)
class State:
    """What a mechanism remembers between two queries.

    Attributes:
        asked: Queries answered so far; refused ones do not count.
        charged: What was spent so far, in the mechanism's unit (`Traits.charged_in`).
        carried_noise: Noise that stays in force from query to query (a noisy threshold), in grid units. Secret.
        labels: What the surprises so far have told costs every later query, in millionths of a nat (S8); public.
    """

    asked: int = 0
    charged: int = 0
    carried_noise: int = field(default=0, repr=False)
    labels: int = 0

    def after(self, *, asked: int = 1, charged: int, labels: int = 0) -> State:
        """Return the state after so many more answers and charges."""
        return replace(self, asked=self.asked + asked, charged=self.charged + charged, labels=self.labels + labels)

    def to_dict(self) -> dict[str, int]:
        """Return the state as plain data for the ledger, with the charges as ``surprises``."""
        told = {"labels": self.labels} if self.labels else {}
        return {"asked": self.asked, "surprises": self.charged, "carried_noise": self.carried_noise, **told}

    @classmethod
    def from_dict(cls, data: Mapping[str, int]) -> Self:
        """Rebuild the state from what `to_dict` returned."""
        return cls(data["asked"], data["surprises"], data["carried_noise"], data.get("labels", 0))


@dataclass(frozen=True, slots=True)
class Replies:
    """Answers to a batch of queries. Every array has the shape (queries,).

    Attributes:
        values: Released answers in [0, 1]; nan where refused.
        lows: Lower ends of the intervals; nan where refused.
        highs: Upper ends of the intervals; nan where refused.
        sources: `Source` of each answer.
        charged: What each was charged; 0 where the sealed rows were not the source.
        sealed: Shape (queries, 3): sealed mean, and both ends of what it leaves possible, told when the study is
            unsealed; nan where nothing can be. Secret.
        nats: ln(1 / level) of each interval; nan where queries have no level of their own.
        procedures: How each interval was made, shape (queries,); None where the mechanism decided alone.
        failing: Value, low and high of the share of failing rows (S16), by position; of queries that have one.
    """

    values: NDArray[np.float64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    sources: NDArray[np.int8]
    charged: NDArray[np.int64]
    sealed: NDArray[np.float64] = field(repr=False)
    nats: NDArray[np.float64]
    procedures: list[Procedure | None]
    failing: dict[int, tuple[float, float, float]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def refused(cls, count: int) -> Self:
        """Return ``count`` refusals, to be filled in where there is an answer."""
        values, lows, highs, nats = np.full((4, count), np.nan)
        sources, charged = np.full(count, Source.REFUSED, np.int8), np.zeros(count, np.int64)
        return cls(values, lows, highs, sources, charged, np.full((count, 3), np.nan), nats, [None] * count)

    def put(
        self,
        where: slice | NDArray[np.bool_],
        values: NDArray[np.float64],
        interval: tuple[NDArray[np.float64], NDArray[np.float64]],
        source: Source,
    ) -> None:
        """Fill in answers of one source, clipped to [0, 1]. Those from the holdout are charged 1."""
        self.values[where] = np.clip(values, 0.0, 1.0)
        self.lows[where] = np.clip(interval[0], 0.0, 1.0)
        self.highs[where] = np.clip(interval[1], 0.0, 1.0)
        self.sources[where] = source
        self.charged[where] = source is Source.HOLDOUT

    def release_nothing(self, position: int, source: Source) -> None:
        """Fill in an answer without a number."""
        self.values[position] = self.lows[position] = self.highs[position] = np.nan
        self.sources[position] = source


@dataclass(frozen=True, slots=True)
class Promise(Display):
    """What a mechanism promises before the first query.

    Attributes:
        statement: Number of the statement in docs/theory that proves it.
        radius: Half-width that holds for every answer at once, in the units of a mean over [0, 1]; for a mechanism with
            one-sided answers that of the best answer so far, and for guess-and-check of every confirmed mean, as other
            answers are told with intervals of their own.
        confidence: Probability with which all of it holds, 1 - beta.
        assumptions: In plain words, what has to be true.
        details: Numbers that enter the statement, by name.
        privacy: ``(epsilon, delta)`` of differential privacy towards every sealed row; None where no noise is added.
        spends_only_beyond: Within the plan, budget is spent only on queries whose guess is at least this far from the
            population's value; None where nothing is promised about that.
        expected: Half-width that answers around 0.9 are expected to have while guesses hold, by the procedure in
            force; no bound, and None where it was not computed. Of groups it rests on the public training rows.
        sentence: The promise of a holdout in one sentence, as its certificate says it; None of a mechanism alone.
        budget: The initial budget of a holdout, by name; for an analyst, the allotment.
    """

    statement: str
    radius: float
    confidence: float
    assumptions: tuple[str, ...]
    details: dict[str, float]
    privacy: tuple[float, float] | None = None
    spends_only_beyond: float | None = None
    expected: float | None = None
    sentence: str | None = None
    budget: dict[str, int] | None = None

    def _repr_html_(self) -> str:
        promised = {name: value for name, value in self.to_dict().items() if name != "assumptions"}
        return html_record(promised) + html_sentences(*self.assumptions)


@dataclass(frozen=True, slots=True)
class Quote:
    """Price and expected widths of the next query.

    Attributes:
        radius: If the answer is the guess, the population's value lies within this distance of it; a bound.
        radius_if_charged: The same if the answer comes from the holdout, whatever the sealed rows say. Of a ratio,
            if the share of rows that count is as the training rows say.
        charged_if_confirmed: What is charged if the guess holds.
        charged_at_most: What is charged at most.
        refused: Whether the next query would be refused.
        radius_unsealed: Half-width to be expected when the study is unsealed; None where it cannot be.
        confirmed: The interval itself if the guess holds, where it is known; it need not lie evenly about the guess.
    """

    radius: float | None
    radius_if_charged: float | None
    charged_if_confirmed: int
    charged_at_most: int
    refused: bool
    radius_unsealed: float | None = None
    confirmed: tuple[float, float] | None = None


REFUSED = Quote(None, None, 0, 0, refused=True)
