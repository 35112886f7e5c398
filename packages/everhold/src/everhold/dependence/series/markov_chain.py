"""The model of rows whose state follows a Markov chain: weather, visits, machines, patients over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, Unpack

import numpy as np

from everhold.arguments import names_keywords
from everhold.dependence.blocks import warn_of_long_memory
from everhold.dependence.series import base, mixing
from everhold.dependence.series.coupling import ChainCoupling, Coupling, UniformCoupling
from everhold.dependence.series.fitting import as_text, bound_transitions, count_transitions, missed, ordered_runs
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.dependence.base import RowStructure

_MOST_CHECKED = 8  # states whose shares are held against the fit


@dataclass(frozen=True, init=False)
class MarkovChain(base.SeriesModel):
    """A model of a time series: a row's state depends on the state before by a fixed matrix of probabilities.

    A state is one of a few values of a column, such as rain or no rain. Given its state, a row is independent of all
    other rows.

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
        uncertainty: How far the true matrix may be from ``transition``: the largest L1 distance of each of its rows, or
            one number for all. Promises hold for every matrix within it.
        miss: Probability that the true matrix is farther away, if it was estimated; see `fit`.
        step: Usual distance of neighbouring rows in ``order_by``, which `fit` sets.
        lengths: Pairs (length, number of series), looked up when rows are sealed.

    Raises:
        DependenceError: If an argument is outside its range, or two arguments contradict each other.

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
        base.SEEN_ROWS,
        "The assumption is wrong if the past tells more about the next state than the present state does, if the "
        "transition probabilities change with time (seasons, trends), or if rows share more than their state.",
        "To check, compare the transition counts of early and late training rows, and count pairs of steps: given the "
        "present state, the next one must not depend on the one before.",
        "If it is wrong, the intervals may be too narrow. Let the state tell more, split at larger gaps, or declare "
        "blocks of time as groups.",
    )
    entries: ClassVar[Mapping[str, str]] = {
        **base.SeriesModel.entries,
        "transition": "chances of the next state, one list for each state",
        "states": "states",
        "initial": "law of the first row of a series",
        "uncertainty": "how far each row of the matrix may be off in all",
    }
    value_words: ClassVar[Mapping[tuple[str, str], str]] = {
        **base.SeriesModel.value_words,
        ("initial", "stationary"): "the stationary one",
    }

    transition: tuple[tuple[float, ...], ...]
    states: tuple[str, ...]
    initial: Literal["stationary"] | tuple[float, ...]
    uncertainty: tuple[float, ...] | None

    @names_keywords(base.SeriesSettings, base.UNDECLARED)
    def __init__(
        self,
        transition: Iterable[Iterable[float]],
        *,
        states: Sequence[str] | None = None,
        initial: Literal["stationary"] | Iterable[float] = "stationary",
        uncertainty: float | Iterable[float] | None = None,
        **settings: Unpack[base.SeriesSettings],
    ) -> None:
        matrix = checked_matrix(transition)
        size = len(matrix)
        names = tuple(map(str, range(size))) if states is None else tuple(named_states(states))
        if len(set(names)) != size or len(names) != size:
            raise DependenceError(
                f"There are {len(names)} names for {size} states. Pass one name for each state, all different."
            )
        first: Literal["stationary"] | tuple[float, ...] = "stationary"
        if isinstance(initial, str):
            if initial != "stationary":
                raise DependenceError(f"initial is {initial!r}. Pass 'stationary', or a probability for each state.")
        else:
            first = checked_law(initial, "initial", states=size)
        object.__setattr__(self, "transition", matrix)
        object.__setattr__(self, "states", names)
        object.__setattr__(self, "initial", first)
        object.__setattr__(self, "uncertainty", checked_radii(uncertainty, size))
        base.declare(self, settings)

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
        """Estimate the chain from training rows that follow each other by one step.

        Whatever the true matrix is, it is within ``uncertainty`` of the estimate with probability at least
        ``confidence``. The rest, 1 - confidence, is part of `miss`, for which every promise allows. It is assumed that
        there are no other states. Only pairs of rows that are one usual step (the median) apart count. Averages of long
        blocks of rows are then compared with what the estimate allows.

        Args:
            table: Data frame that narwhals understands (pandas, Polars, Arrow, ...), or mapping of names to arrays.
            order_by: Column that puts the rows of a series in order.
            state: Column of the state: text, whole numbers or truth values.
            groups: Column whose equal values make a series.
            gap: Number of rows left out between these rows and the sealed rows of a series that no analyst has
                seen.
            states: Names of all states as text; by default the states that occur in the rows.
            confidence: Probability, in (0, 1), with which the true matrix is within the returned model's
                ``uncertainty``.

        Raises:
            DependenceError: If values are missing, rows are tied or have no even steps, there are too many states, or
                one was never left.
            ValueError: If `confidence` is outside (0, 1).

        Warns:
            DependenceWarning: If rows far apart are more alike than the chain allows, as noisy records of a state that
                changes slowly are.

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
            raise DependenceError(
                f"There is {len(names)} state in column {state!r}. Use a column with at least two values."
            )
        if len(names) > MOST_STATES:
            count = sum(map(len, series))
            told = "Every row has a state of its own. " if len(names) == count else ""
            raise DependenceError(
                f"{told}There are {len(names):,} states in {count:,} rows of column {state!r}, more than "
                f"{MOST_STATES}. Cut the column into a few classes."
            )
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
        """Probability of each state in the long run (the stationary law of the matrix), shape (states,)."""
        return self.law.chain.stationary.copy()

    @property
    def spectral_gap(self) -> float:
        """1 minus the second largest absolute eigenvalue of the matrix (for Statement P6 of docs/theory)."""
        return self.law.chain.spectral_gap

    @property
    def is_reversible(self) -> bool:
        """Whether the stationary series looks the same in both directions of time."""
        return self.law.chain.is_reversible

    @cached_property
    def law(self) -> ChainLaw:
        """The law of the chain, without the columns and the gap."""
        return ChainLaw(self.transition, self.initial, self.uncertainty)

    def influences(self, distances: int) -> tuple[str, Mapping[str, NDArray[np.float64]]]:
        """Return a chart's title, and the max-influence (nats) of a row on rows at each distance, for its lines.

        It is computed for a stationary chain only.

        Args:
            distances: The largest distance in rows.
        """
        return f"a stationary Markov chain of {len(self.states):,} states", self.law.influences(distances)

    def check_state(self, structure: RowStructure) -> None:
        """Raise DependenceError unless the column of the state has one of the chain's states in every row.

        Args:
            structure: Columns and order of the sealed rows and of the training rows.
        """
        if self.state is None:
            return
        unknown = structure.unknown_values(self.state, frozenset(self.states))
        if unknown:
            unnamed = self.states == tuple(map(str, range(len(self.states))))
            raise DependenceError(
                f"{unknown} sealed and training rows have a value in column {self.state!r} that is no state of the "
                f"chain. Its states are {_listed(self.states)}. "
                + ("Name the states with states=[...]." if unnamed else "Add the missing states to the chain."),
                rows=unknown,
            )

    def describe(self) -> str:
        """Return the assumption as one plain sentence."""
        of = "the state" if self.state is None else f"the state in column {self.state!r}"
        chain = f"{of} follows a Markov chain of {len(self.states)} states"
        if self.initial == "stationary":
            chain += " in its stationary law"
        if self.uncertainty is not None:
            chain += f" whose matrix is known up to {max(self.uncertainty):.3g} in total per row"
        return base.described(self, f"{chain}, and a row given its state is independent of all others")

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain JSON data with its ``kind``, as the certificate holds it."""
        return {
            "kind": self.kind,
            "transition": [list(row) for row in self.transition],
            "states": list(self.states),
            "initial": self.initial if isinstance(self.initial, str) else list(self.initial),
            "uncertainty": None if self.uncertainty is None else list(self.uncertainty),
            **base.plain_settings(self),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build the model from plain data, such as ``{"kind": "markov_chain", "transition": [[...]]}``."""
        return cls(
            data["transition"],
            states=data.get("states"),
            initial=data.get("initial", "stationary"),
            uncertainty=data.get("uncertainty"),
            **base.read_settings(data),
        )


def _listed(states: tuple[str, ...]) -> str:
    """Return the first states as a text, and the number of states if there are more."""
    shown = ", ".join(map(repr, states[:8]))
    return shown if len(states) <= 8 else f"{shown}, ... ({len(states)} states)"


# The law of a Markov chain, or of all chains near one: couplings, forgetting, and prices of quilts.

_QUILT_STEPS = 4096


@dataclass(frozen=True)
class ChainLaw(base.SeriesLaw):
    """Law of a Markov chain: its matrix, the initial law, and the uncertainty of each row of the matrix."""

    transition: tuple[tuple[float, ...], ...]
    initial: Literal["stationary"] | tuple[float, ...]
    uncertainty: tuple[float, ...] | None

    @property
    def uncertain(self) -> bool:
        """Whether the transition matrix is known only up to a set of matrices."""
        return self.uncertainty is not None

    @cached_property
    def chain(self) -> mixing.Chain:
        """The chain with the given matrix."""
        return mixing.Chain(self.transition)

    @cached_property
    def contraction(self) -> mixing.Contraction:
        """The rate at which all chains of the set forget their first state."""
        return mixing.Contraction(self.chain, np.array(self.uncertainty or (0.0,) * len(self.transition)))

    @property
    def known(self) -> bool:
        """Whether the law is known exactly: the matrix is exact and the chain starts in its stationary law."""
        return self.initial == "stationary" and self.contraction.exact

    def coupling(self) -> Coupling:
        """Return the couplings of two series that differ in one row. Equal chains share a cached coupling."""
        return _shared_coupling(self)

    def influences(self, distances: int) -> dict[str, NDArray[np.float64]]:
        """Return the max-influence of a row on rows at the distances 1, 2, ..., as arrays by name.

        Returns:
            Upper bounds, exact for a known chain: on one later row, on one earlier row, on both; for a known chain also
            the bound for both from the spectral gap.

        Raises:
            DependenceError: If the chain is not declared to be stationary, so that influence depends on the place in
                the series.
        """
        before, after = self.sides(distances)
        found = {
            "both sides": (before + after).max(axis=(1, 2)),
            "one row later": after.max(axis=(1, 2)),
            "one row earlier": before.max(axis=(1, 2)),
        }
        if self.uncertainty is None:
            norm, least = mixing.mixing_of(self.chain)
            bound = mixing.influence_bound(np.arange(1, distances + 1), norm=norm, least=least)
            found["bound from the spectral gap"] = 2.0 * bound
        return found

    def sides(self, reach: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the influences of a row on an earlier and on a later row, by distance.

        Returns:
            Two arrays of shape (reach, states, states), for the distances 1, 2, ... and the pairs of states of the row;
            of shape (reach, 1, 1) for a set of chains, for which the bound is the same for all pairs of states.

        Raises:
            DependenceError: If the chain is not stationary, so that influence depends on the place in the series.
        """
        if self.initial != "stationary":
            raise DependenceError("The chain does not start in its stationary distribution. Leave initial out.")
        if not self.contraction.radii.any():
            return mixing.stationary_sides(self.chain.transition, self.chain.stationary, reach)
        contraction = self.contraction.at(1, reach + 1) * mixing.OUTWARD
        growth = mixing.set_growth(self.chain.transition, self.contraction.radii, contraction)
        later = (np.log1p(growth) * mixing.OUTWARD)[:, None, None]
        return 2.0 * later, later

    def refuse_memory(self) -> None:
        """Raise DependenceError unless all chains of the set forget their first state in the long run."""
        if self.contraction.exact and self.chain.fault is not None:
            raise DependenceError(
                f"The chain never forgets its first state, because {self.chain.fault}. Model the parts one by one, or "
                "declare Groups."
            )
        if not self.contraction.exact and self.contraction.rate >= 1.0:
            raise DependenceError(
                "The matrix is too uncertain to show that the chain forgets its first state. Fit it to more rows, "
                "join rare states, or declare Groups."
            )

    def distance(self, steps: int) -> float:
        """Return ``E_s TV(P^steps(s, .), law of that row)``, or ``(1 - 1/S) d(steps)`` if the chain is not known."""
        if self.known and self.chain.fault is None:
            return self.chain.distance_to_stationary(steps)
        return float(self.contraction.at(steps, 2)[1]) * (1.0 - 1.0 / len(self.transition))

    @property
    def norm(self) -> float:
        """A bound on the norm of the kernel on mean-zero functions."""
        if self.known:
            return self.chain.norm
        if self.initial == "stationary" and len(self.transition) == 2:
            # every chain of two states is reversible, and its one other eigenvalue is at most d(1) in absolute value
            return min(float(self.contraction.at(1, 2)[1]) * (1.0 + 1e-12), 1.0)
        return 1.0

    def bayesian_price(self, epsilon: float, longest: int) -> float:
        """Return the least price over quilts {i-a, i+b} around a row (P5).

        The price is ``min (a+b-1)/(epsilon - 4 (ln-ratio of P^b + ln-ratio of P*^a))``.

        A row is identified with its state, as in the paper. Near an end of the series, a quilt on one side is cheaper,
        so rows far from both ends decide the price. The search tries all a and b up to 64 and fewer beyond, which can
        only raise the price.
        """
        worst = longest / epsilon
        if not self.known or self.chain.fault is not None:
            return worst
        farthest = min(longest, _QUILT_STEPS)
        near = np.arange(1, min(farthest, 64) + 1)  # and some of those that are farther
        steps = np.unique(np.concatenate([near, np.geomspace(near[-1], farthest, 200).astype(np.int64)]))
        ahead, behind = (_influences(chain, steps) for chain in (self.chain, self.chain.reversal))
        left = epsilon - 4.0 * (ahead[:, None] + behind[None, :])
        size = np.minimum(steps[:, None] + steps[None, :] - 1, longest)
        prices = np.divide(size, left, out=np.full(left.shape, math.inf), where=left > 0.0)
        return float(min(prices.min(), worst))


@lru_cache(maxsize=16)
def _shared_coupling(law: ChainLaw) -> Coupling:
    """Return the cached coupling of a law, after a check that the chain forgets its first state."""
    law.refuse_memory()
    return ChainCoupling(law.chain) if law.known else UniformCoupling(law.contraction, len(law.transition))


def _influences(chain: mixing.Chain, steps: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return ``ln max P^h(x, y)/P^h(x', y)`` for each number of steps h, infinite if a probability is 0."""
    result = np.full(len(steps), math.inf)
    power, done = np.eye(chain.states), 0
    for place, step in enumerate(steps.tolist()):
        power, done = power @ np.linalg.matrix_power(chain.transition, step - done), step
        least, most = power.min(axis=0), power.max(axis=0)
        if np.all(least > 0.0):
            result[place] = math.log(float(np.max(most / least)))
    return result


# Checks of a Markov chain's arguments: transition matrix, laws, names of states, radii of a fit.

MOST_STATES = 128


def checked_matrix(transition: Iterable[Iterable[float]]) -> tuple[tuple[float, ...], ...]:
    """Check that each row is a law, and return the transition matrix as nested tuples, shape (states, states)."""
    try:
        rows = list(transition)
    except TypeError:
        raise DependenceError(f"transition is {transition!r}. Pass a list of rows, one for each state.") from None
    size = len(rows)
    if not 1 <= size <= MOST_STATES:
        raise DependenceError(f"transition has {size} rows. Pass one row for each of 1 to {MOST_STATES} states.")
    return tuple(checked_law(row, f"row {number} of transition", states=size) for number, row in enumerate(rows, 1))


def checked_law(given: Iterable[float], name: str, *, states: int) -> tuple[float, ...]:
    """Check that probabilities of `states` states add up to 1, and return them as a tuple."""
    try:
        law = tuple(map(float, [] if isinstance(given, str) else given))
    except (TypeError, ValueError):
        raise DependenceError(f"{name} holds something that is not a number. Pass probabilities.") from None
    if len(law) != states:
        raise DependenceError(f"{name} has {len(law)} entries. Pass {states}, one for each state.")
    for chance in law:
        if not 0.0 <= chance <= 1.0:
            wrong = "is not a number" if math.isnan(chance) else "is negative" if chance < 0.0 else "is above 1"
            raise DependenceError(f"{name} has the entry {chance}, which {wrong}. Pass probabilities.")
    total = math.fsum(law)
    if abs(total - 1.0) > 1e-9:
        raise DependenceError(f"{name} sums to {total:.12g}. Pass probabilities that sum to 1.")
    return law


def named_states(states: Sequence[Any]) -> list[str]:
    """Return states as texts in the form that rows have, with booleans as "true" and "false"."""
    return [str(name) for name in as_text(np.array(list(states), dtype=object))]


def checked_radii(uncertainty: float | Iterable[float] | None, states: int) -> tuple[float, ...] | None:
    """Return the L1 radius of each row of a fitted matrix as a tuple, or None if the matrix is exact."""
    if uncertainty is None:
        return None
    given = (float(uncertainty),) * states if isinstance(uncertainty, int | float) else tuple(map(float, uncertainty))
    if len(given) != states or not all(0.0 <= radius <= 2.0 for radius in given):
        raise DependenceError(
            f"uncertainty has {len(given)} radii for {states} states, or one outside [0, 2]. Pass an L1 distance from "
            "0 to 2 for every row of the matrix."
        )
    return given
