"""Base class of all mechanisms: fixed parameters, a small state, and pure steps from evaluations to replies.

A mechanism never sees rows, files or clocks. The ledger stores its `State` in the same transaction as the reply, so a
crash, a restart or a second process changes nothing. Code that plans, certifies or draws charts asks the mechanism for
its facts, and never depends on a mechanism's name.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from everhold.arguments import as_float, as_whole, brief, fraction
from everhold.dependence import DependenceModel, Independent
from everhold.errors import DependenceError
from everhold.guarantees.intervals.base import Procedure
from everhold.guarantees.intervals.means import Chernoff, Hoeffding, OfMeans
from everhold.mechanisms.accounting import Accounting
from everhold.mechanisms.records import REFUSED, Presentation, Promise, Quote, Replies, Source, State, Traits
from everhold.randomness import LARGEST_SCALE, Noise
from everhold.values.evaluation import UNIT

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.mechanisms.records import Evaluations
    from everhold.values.base import BoundQuery


__all__ = [
    "MOST_GRID_STEPS", "MOST_ROWS", "REFUSED", "Mechanism", "Promise", "Quote", "Replies", "Source", "State",
    "Traits", "finest_unit", "usable_scales", "whole",
]  # fmt: skip

AnyProcedure = TypeVar("AnyProcedure", bound=Procedure)

MOST_GRID_STEPS = 2**56
"""Largest ``rows * unit``: sums and their noise stay far inside 64 bits."""

MOST_ROWS = 2**36
"""The most rows that can be sealed in one holdout: of more, rounding to the grid would take what they add."""

FINEST = -1
"""Stands for as many grid steps as the rows allow; see `finest_unit`."""


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """Base of all mechanisms, which turn sealed values into answers, with the parameters that all share.

    Attributes:
        rows: Number of sealed rows n.
        queries: Planned number m of queries.
        confidence: 1 - beta, in (0, 1).
        dependence: How the rows depend on each other.
        unit: Grid steps between the row values 0 and 1 (theory, section 6); by default as many as the number of rows
            allows.
    """

    rows: int
    queries: int
    confidence: float = 0.95
    dependence: DependenceModel = field(default_factory=Independent)
    unit: int = FINEST

    name: ClassVar[str]
    statement: ClassVar[str] = "S1"
    presentation: ClassVar[Presentation]
    largest: ClassVar[Mapping[str, int]] = {
        "rows": MOST_ROWS,
        "queries": 10**9,
        "unit": 2**56,
    }  # in use; for hostile files
    traits: ClassVar[Traits] = Traits()
    accounting: ClassVar[type[Accounting[Any]]] = Accounting

    def __post_init__(self) -> None:
        whole(self, "rows", "queries")
        if self.rows > MOST_ROWS:
            raise ValueError(f"rows is {brief(self.rows)}. Pass at most {MOST_ROWS:,}.")
        if self.unit == FINEST:
            object.__setattr__(self, "unit", finest_unit(self.rows))
        whole(self, "unit")
        fraction(self.confidence, "confidence")
        if int(self.rows) * int(self.unit) > MOST_GRID_STEPS:
            raise ValueError(
                f"rows is {brief(self.rows)}. Pass at most {MOST_GRID_STEPS // self.unit:,} with unit={self.unit}."
            )
        if self.statement_confidence >= 1.0:
            raise DependenceError(
                f"The dependence model fails with probability {self.statement_confidence - self.confidence:.3g}, and "
                f"the promise may fail with probability {1.0 - self.confidence:.3g} at most. Leave a larger gap to "
                "the training rows, fit the model to more rows, or pass a smaller confidence."
            )

    @classmethod
    def recommendable(cls) -> bool:
        """Return whether a plan may choose the mechanism although nobody named it.

        It has to allow adaptive queries, two-sided answers, and rows of any laws.
        """
        return cls.traits.adaptive and not cls.traits.one_sided and not cls.traits.one_law

    @classmethod
    @abstractmethod
    def tuned(cls, *, rows: int, queries: int, confidence: float = 0.95, **shared: Any) -> Self:
        """Return the mechanism with the smallest radius for a request.

        Args:
            rows: Number of sealed rows.
            queries: Number of adaptive queries.
            confidence: 1 - beta, in (0, 1).
            **shared: ``dependence`` and ``unit``, as in the constructor, and keywords of some mechanisms only.

        Raises:
            ValueError: If the request is not valid for the mechanism.
        """

    @classmethod
    def for_request(cls, *, surprises: int, slack: float, training_rows: int = 0, **request: Any) -> Self:
        """Return `tuned` for a planner's request. Mechanisms that check no guesses ignore surprises and slack."""
        return cls.tuned(**request)

    @property
    def statement_confidence(self) -> float:
        """Confidence at which the statement has to hold, so that the promise holds with the holdout's confidence.

        A dependence model that was learned may be wrong, and training rows may depend on sealed rows (S3). The
        probabilities of both are subtracted from beta. S1 counts the training rows in the leakage instead.
        """
        apart = 0.0 if self.traits.leakage else self.dependence.training_distance()
        return self.confidence + self.dependence.miss + apart

    @cached_property
    def beta(self) -> float:
        """Probability with which the mechanism's statement may fail: 1 minus `statement_confidence`."""
        return 1.0 - self.statement_confidence

    @cached_property
    def steps(self) -> int:
        """Number of grid units in the sum over all rows if the mean is 1."""
        return self.rows * self.unit

    @cached_property
    def row_step(self) -> float:
        """Upper bound on the error of a mean when each row value is rounded down to the grid."""
        return 1.0 / self.unit

    @cached_property
    def rounding(self) -> float:
        """Half-width that rounding rows to the grid and noise to whole steps adds (docs/theory, the grid)."""
        return 2.0 * self.row_step

    @cached_property
    def accounts(self) -> Accounting[Any]:
        """The mechanism's `Accounting`: its rules for counts of queries and charges in a ledger."""
        return self.accounting(self)

    def with_first(self, number: int) -> Self:
        """Return the mechanism with more failure probability for its first ``number`` queries.

        The default is itself.
        """
        return self

    @cached_property
    def parts(self) -> int:
        """Number of disjoint parts of the sealed rows, each of which answers one query.

        It is 1 if all rows answer each query.
        """
        return 1

    @cached_property
    def bets(self) -> bool:
        """Whether intervals use the spread of values on the training rows (S8), and not the widest possible spread."""
        return self.traits.unsealable

    @property
    def endless(self) -> bool:
        """Whether queries are still answered when the budget is used up."""
        return False

    @property
    def planned_surprises(self) -> int | None:
        """Number of planned surprises, or None if answers are not compared with guesses."""
        return None

    def start(self, noise: Noise) -> State:
        """Return the state before the first query."""
        return State()

    def answer(self, state: State, evaluation: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """Answer one query, by `answer_many` with a batch of one."""
        return self.answer_many(state, evaluation, noise)

    @abstractmethod
    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """Answer queries in order, as if they were asked one after the other.

        If a batch is one step of the mechanism (S9), all queries have the levels of its start instead.
        """

    @abstractmethod
    def promise(self) -> Promise:
        """Return the promise for all answers at once."""

    def expected_radius(self, at: float, alike: float | None = None) -> float:
        """Return the half-width to expect with honest guesses if the population's value is ``at``.

        It is an expectation and not a bound: half the length of the part of [0, 1] that the interval procedure leaves.
        If answers do not depend on guesses, it is computed from the radius of the promise.

        Args:
            at: The population's value of a yes-or-no query.
            alike: Correlation of two rows of one sealed group, in [0, 1], if bets are made on sums of groups. None
                otherwise.
        """
        radius = self.promise().radius
        return (min(at + radius, 1.0) - max(at - radius, 0.0)) / 2.0

    def _promised(self, radius: float, details: dict[str, float], **more: Any) -> Promise:
        return Promise(self.statement, radius, self.confidence, self.assumptions(), details, **more)

    def assumptions(self) -> tuple[str, ...]:
        """Return the assumptions about the rows on which the promise rests, in plain words."""
        return (self.dependence.describe(),)

    def why_not(self, bound: BoundQuery) -> str:
        """Return the reason why the mechanism cannot answer this kind of query, or an empty text if it can."""
        return ""

    def surely_answers(
        self, state: State, most: int, procedures: Sequence[Procedure] | None = (), *, silent: bool = False
    ) -> int:
        """Return how many of the next ``most`` new queries are answered, whatever the sealed rows say.

        It is computed from public state alone, so whether a query is refused does not depend on the sealed rows. It is
        0 if and only if the next query is refused, for any ``most`` of at least 1.

        Args:
            state: The public state before the query.
            most: Largest number to return.
            procedures: Interval procedures of the queries, if known, with which more queries may be certain to be
                answered. None for challenges, whose intervals are not told.
            silent: Whether the queries are silent: registered, with nothing told before the study is unsealed.
        """
        return min(most, max(self.queries - state.asked, 0))

    def quote(self, state: State, *, guess: float | None = None, procedure: Procedure | None = None) -> Quote:
        """Return price and width of the next query from public state alone. Here every answer has the same price.

        Args:
            state: The public state before the query.
            guess: The query's guess in units of a mean, if known.
            procedure: The query's interval procedure, if known.
        """
        if not self.surely_answers(state, 1):
            return REFUSED
        radius = self.promise().radius
        return Quote(radius, radius, self.traits.most_charged, self.traits.most_charged, refused=False)

    def outlook(self, state: State) -> dict[str, float]:
        """Return by name the half-widths that later yes-or-no answers would have after some events; here none."""
        return {}

    def procedure_at(self, procedure: Procedure, guess: float, nats: float) -> Procedure:
        """Return the interval procedure to use at this guess and level.

        By default it is the procedure of `in_force`.
        """
        return self.in_force(procedure)

    def in_force(self, procedure: Procedure) -> Procedure:
        """Return the procedure that makes the interval: the given one, or `procedure` if it needs more than means."""
        return procedure if isinstance(procedure, OfMeans) else self.procedure

    def remaining(self, state: State) -> dict[str, int]:
        """Return the remaining budget, by name."""
        return {"queries": max(self.queries - state.asked, 0)}

    @cached_property
    def procedure(self) -> OfMeans:
        """Interval procedure for the mean of any row values in [0, 1] (S5)."""
        rows = self.effective_rows(self.rows)
        return Chernoff(rows, rows) if self.dependence.independent else Hoeffding(rows, rows)

    @property
    def yes_no_procedure(self) -> OfMeans:
        """Interval procedure for yes-or-no queries."""
        return self.procedure

    @property
    def failing_rows_procedure(self) -> Procedure | None:
        """Interval procedure for the share of rows on which a model fails, or None if it is not told."""
        return None

    def procedures_of(self, evaluations: Evaluations) -> Sequence[Procedure]:
        """Return one interval procedure for each query."""
        return evaluations.procedures or [self.procedure] * len(evaluations)

    def not_excluded(
        self, procedures: Sequence[Procedure], low: NDArray[np.float64], high: NDArray[np.float64], nats: ArrayLike
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return both ends of the population values that are possible if the sealed means are from ``low`` to ``high``.

        Each end has the shape (queries,). Procedures that need more than the mean are replaced by `procedure`.
        """
        lows, highs = np.empty(len(low)), np.empty(len(high))
        for procedure, places in alike([self.in_force(each) for each in procedures]):
            if not isinstance(procedure, OfMeans):
                raise TypeError(f"The intervals of {procedure.name} do not depend on the mean alone.")
            lows[places], highs[places] = procedure.span(low[places], high[places], np.asarray(nats)[places])
        return lows - self.rounding, highs + self.rounding

    def effective_rows(self, rows: int) -> float:
        """Return how many independent rows would have the same concentration as ``rows`` sealed rows (S5)."""
        return self._concentration_of_rows * rows / self.rows

    @cached_property
    def _concentration_of_rows(self) -> float:
        return self.dependence.concentration(self.rows)

    def parameters(self) -> dict[str, Any]:
        """Return the mechanism's own parameters, by name."""
        shared = {f.name for f in dataclasses.fields(Mechanism)}
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in shared}

    def to_dict(self) -> dict[str, Any]:
        """Return the mechanism as plain data, for the settings and the certificate."""
        return {
            "mechanism": self.name,
            "rows": self.rows,
            "queries": self.queries,
            "confidence": self.confidence,
            "unit": self.unit,
            "parameters": self.parameters(),
        }


def alike(procedures: Sequence[AnyProcedure]) -> Iterator[tuple[AnyProcedure, NDArray[np.intp]]]:
    """Yield each distinct procedure once, with the indices at which it occurs in the sequence."""
    places: dict[AnyProcedure, list[int]] = {}
    for place, procedure in enumerate(procedures):
        places.setdefault(procedure, []).append(place)
    yield from ((procedure, np.array(where)) for procedure, where in places.items())


def finest_unit(rows: int) -> int:
    """Return the number of grid steps between 0 and 1: a power of two, at most `UNIT`, with sums in 64 bits.

    From 2^26 rows on the grid is coarser than `UNIT`. The rounding error is part of every half-width
    (`Mechanism.rounding`), and is far smaller than the sampling error of so many rows.

    Examples:
        >>> finest_unit(20_000) == 2**30, finest_unit(1_000_000_000) == 2**26, finest_unit(20_000_000_000) == 2**21
        (True, True, True)
    """
    return min(UNIT, MOST_GRID_STEPS >> (int(rows) - 1).bit_length())


def whole(mechanism: Mechanism, *names: str) -> None:
    """Raise an error unless the named parameters are whole numbers of at least 1."""
    for name in names:
        value = getattr(mechanism, name)
        if (as_whole(value) or 0) < 1:
            raise ValueError(f"{name} is {brief(value)}. Pass a whole number of at least 1.")


def usable_scales(mechanism: Mechanism, *names: str) -> None:
    """Raise an error unless the named noise scales are positive and noise of this scale can be drawn."""
    for name in names:
        value = getattr(mechanism, name)
        if not 0.0 < as_float(value) <= LARGEST_SCALE / mechanism.steps:
            raise ValueError(
                f"{name} is {brief(value)}. Pass a positive number of at most {LARGEST_SCALE / mechanism.steps:.3g}."
            )


# Base of mechanisms whose queries come with guesses, and the plans that these share.


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
