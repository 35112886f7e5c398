"""Rows in order whose state follows a Markov chain: weather, visits, machines, patients over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from everhold.arguments import names_keywords
from everhold.dependence.blocks import warn_of_long_memory
from everhold.dependence.series.base import SEEN_ROWS, SeriesModel
from everhold.dependence.series.chain_arguments import (
    MOST_STATES,
    checked_law,
    checked_matrix,
    checked_radii,
    named_states,
)
from everhold.dependence.series.chain_law import ChainLaw
from everhold.dependence.series.fitting import as_text, bound_transitions, count_transitions, missed, ordered_runs
from everhold.dependence.series.mixing import chain_influences
from everhold.dependence.series.settings import (
    UNDECLARED,
    SeriesSettings,
    declare,
    described,
    plain_settings,
    read_settings,
)
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Unpack

    from numpy.typing import NDArray

    from everhold.dependence.base import RowStructure

_MOST_CHECKED = 8  # states whose shares are held against the fit


@dataclass(frozen=True, init=False)
class MarkovChain(SeriesModel):
    """A row's state follows from the state before by a fixed matrix; the row given its state is free of all others.

    Args:
        transition: ``P[next state | state]``, shape (states, states).
        states: Names of the states as text, one per row of the matrix; by default "0", "1", ...
        initial: ``"stationary"``, or the law of the first row of a series. Any law but the stationary one is treated as
            unknown, which needs more rows.
        order_by: Column that puts the rows of a series in order.
        state: Column of the state; None if the state is not observed.
        groups: Column whose equal values make a series; series are independent of each other.
        gap: Number of rows left out between the training rows and the sealed rows of a series that no analyst has
            seen; ``math.inf`` if they are independent of each other.
        uncertainty: L1 radius of every row of the matrix, or one for all: the true chain is any within them.
        miss: Probability that the true chain is not; see `fit`.
        lengths: Pairs (length, number of series), looked up when rows are sealed.

    Raises:
        DependenceError: If an argument is not valid.

    Examples:
        >>> chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
        >>> round(chain.concentration(20_000))
        3529
        >>> chain.stationary.round(3)
        array([0.667, 0.333])
    """

    kind: ClassVar[str] = "markov_chain"
    title: ClassVar[str] = "Markov chain"
    rows_are: ClassVar[str] = "rows in a Markov chain"
    how_to_tell: ClassVar[tuple[str, ...]] = (
        SEEN_ROWS,
        "The assumption is wrong if the past tells more about the next state than the present state does, if the "
        "transition probabilities change with time (seasons, trends), or if rows share more than their state.",
        "To check, compare the transition counts of early and late training rows, and count pairs of steps: given the "
        "present state, the next one must not depend on the one before.",
        "If it is wrong, the intervals may be too narrow. Let the state tell more, split at larger gaps, or declare "
        "blocks of time as groups.",
    )
    entries: ClassVar[Mapping[str, str]] = {
        **SeriesModel.entries,
        "transition": "chances of the next state, one list for each state",
        "states": "states",
        "initial": "law of the first row of a series",
        "uncertainty": "how far each row of the matrix may be off in all",
    }
    value_words: ClassVar[Mapping[tuple[str, str], str]] = {
        **SeriesModel.value_words,
        ("initial", "stationary"): "the stationary one",
    }

    transition: tuple[tuple[float, ...], ...]
    states: tuple[str, ...]
    initial: Literal["stationary"] | tuple[float, ...]
    uncertainty: tuple[float, ...] | None

    @names_keywords(SeriesSettings, UNDECLARED)
    def __init__(
        self,
        transition: Iterable[Iterable[float]],
        *,
        states: Sequence[str] | None = None,
        initial: Literal["stationary"] | Iterable[float] = "stationary",
        uncertainty: float | Iterable[float] | None = None,
        **settings: Unpack[SeriesSettings],
    ) -> None:
        matrix = checked_matrix(transition)
        size = len(matrix)
        names = tuple(map(str, range(size))) if states is None else tuple(named_states(states))
        if len(set(names)) != size or len(names) != size:
            raise DependenceError(f"there are {len(names)} names for {size} states; expected one each, all different")
        first: Literal["stationary"] | tuple[float, ...] = "stationary"
        if isinstance(initial, str):
            if initial != "stationary":
                raise DependenceError(f"initial is {initial!r}; expected 'stationary' or a probability for each state")
        else:
            first = checked_law(initial, "the initial law", states=size)
        object.__setattr__(self, "transition", matrix)
        object.__setattr__(self, "states", names)
        object.__setattr__(self, "initial", first)
        object.__setattr__(self, "uncertainty", checked_radii(uncertainty, size))
        declare(self, settings)

    @classmethod
    def fit(
        cls,
        table: Any,
        order_by: str,
        state: str,
        *,
        groups: str | None = None,
        gap: float | None = None,
        states: Sequence[str] | None = None,
        confidence: float = 0.99,
    ) -> Self:
        """Learn the chain from training rows that follow each other by one step.

        The true matrix is within ``uncertainty`` with probability at least ``confidence``, whatever the chain; what it
        lacks to 1 is part of `miss` and of every promise. That there are no other states is assumed. Only pairs of rows
        that are one usual step (the median) apart count. The fit is then held against the averages of long blocks.

        Args:
            table: Data frame that narwhals understands (pandas, Polars, Arrow, ...), or mapping of names to arrays.
            order_by: Column that puts the rows of a series in order.
            state: Column of the state: text, whole numbers or truth values.
            groups: Column whose equal values make a series.
            gap: Number of rows left out between these rows and the sealed rows of a series that no analyst has
                seen.
            states: All states as text; by default those that occur.
            confidence: In (0, 1).

        Raises:
            DependenceError: If values are missing, rows are tied or have no even steps, there are too many states, or
                one was never left.
            ValueError: If `confidence` is outside (0, 1).

        Warns:
            DependenceWarning: If the rows remember longer than the chain, as noisy records of a slow state do.

        Examples:
            >>> rows = {"day": range(400), "rain": [day // 2 % 2 for day in range(400)]}
            >>> MarkovChain.fit(rows, order_by="day", state="rain").transition
            ((0.5, 0.5), (0.497..., 0.502...))
        """
        miss = missed(confidence)
        runs, step = ordered_runs(table, order_by=order_by, value=state, groups=groups)
        series = [as_text(rows) for rows in runs]
        names = sorted(set().union(*series)) if states is None else named_states(states)
        if len(names) < 2:
            raise DependenceError(f"there is {len(names)} state in column {state!r}; expected at least two")
        if len(names) > MOST_STATES:
            raise DependenceError(_too_many(len(names), sum(map(len, series)), state))
        bound = bound_transitions(count_transitions(series, names), miss=miss)
        model = cls(
            bound.transition.tolist(),
            states=names,
            order_by=order_by,
            state=state,
            groups=groups,
            gap=gap,
            uncertainty=bound.radii.tolist(),
            miss=miss,
            step=step,
        )
        rows = np.concatenate(series)
        common = sorted(names, key=lambda name: -int(np.sum(rows == name)))[:_MOST_CHECKED]
        warn_of_long_memory(model, [(rows == name).astype(np.float64) for name in common], state=state)
        return model

    @property
    def stationary(self) -> NDArray[np.float64]:
        """The stationary law of the matrix, shape (states,)."""
        return self.law.chain.stationary.copy()

    @property
    def spectral_gap(self) -> float:
        """1 minus the second largest absolute eigenvalue of the matrix (P6)."""
        return self.law.chain.spectral_gap

    @property
    def is_reversible(self) -> bool:
        """True if the stationary series looks the same in both directions of time."""
        return self.law.chain.is_reversible

    @cached_property
    def law(self) -> ChainLaw:
        """The chain alone: what couplings depend on."""
        return ChainLaw(self.transition, self.initial, self.uncertainty)

    def influences(self, distances: int) -> tuple[str, Mapping[str, NDArray[np.float64]]]:
        """The max-influence of a row on rows at a distance; only of stationary chains."""
        return f"a stationary Markov chain of {len(self.states):,} states", chain_influences(self, distances)

    def check_state(self, structure: RowStructure) -> None:
        """Refuse rows with a state that the chain does not have."""
        if self.state is None:
            return
        unknown = structure.unknown_values(self.state, frozenset(self.states))
        if unknown:
            unnamed = self.states == tuple(map(str, range(len(self.states))))
            raise DependenceError(
                f"{unknown} sealed and training rows have a value in column {self.state!r} that is no state of the "
                f"chain; the chain's states are {_listed(self.states)}; "
                + ("name them with states=[...]" if unnamed else "add the missing states to the chain"),
                rows=unknown,
            )

    def describe(self) -> str:
        """The assumption in one plain sentence."""
        of = "the state" if self.state is None else f"the state in column {self.state!r}"
        chain = f"{of} follows a Markov chain of {len(self.states)} states"
        if self.initial == "stationary":
            chain += " in its stationary law"
        if self.uncertainty is not None:
            chain += f" whose matrix is known up to {max(self.uncertainty):.3g} in total per row"
        return described(self, f"{chain}, and a row given its state is independent of all others")

    def to_dict(self) -> dict[str, Any]:
        """The model as plain data."""
        return {
            "kind": self.kind,
            "transition": [list(row) for row in self.transition],
            "states": list(self.states),
            "initial": self.initial if isinstance(self.initial, str) else list(self.initial),
            "uncertainty": None if self.uncertainty is None else list(self.uncertainty),
            **plain_settings(self),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; ``{"kind": "markov_chain", "transition": [[...]]}`` is enough."""
        return cls(
            data["transition"],
            states=data.get("states"),
            initial=data.get("initial", "stationary"),
            uncertainty=data.get("uncertainty"),
            **read_settings(data),
        )


def _too_many(states: int, rows: int, column: str) -> str:
    told = "every row has a state of its own: " if states == rows else ""
    return (
        f"{told}{states:,} states in {rows:,} rows of column {column!r}; expected at most {MOST_STATES}; cut the "
        "column into a few classes"
    )


def _listed(states: tuple[str, ...]) -> str:
    shown = ", ".join(map(repr, states[:8]))
    return shown if len(states) <= 8 else f"{shown}, ... ({len(states)} states)"
