"""The Markov Quilt Mechanism (Song, Wang, Chaudhuri 2017): one number released from rows that depend on each other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from everhold.arguments import positive
from everhold.dependence.series.markov_chain import MarkovChain
from everhold.display import Display
from everhold.errors import DependenceError
from everhold_lab.releases import chain_quilts
from everhold_lab.releases.network_quilts import remote_rows, tree_quilts
from everhold_lab.releases.one_shot import NoiseGrid, Release
from everhold_privacy.networks.base import Network
from everhold_privacy.networks.factors import FactorModel
from everhold_privacy.networks.quilts import Quilt, quilt_influence, quilts_by_distance

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from everhold.dependence import DependenceModel
    from everhold.randomness import Noise

MOST_ROWS = 1_000_000
"""Most rows of one release: the quilt of every row is found and kept."""

_FIRST_NEARBY = 16


class _QuiltSearch(Protocol):
    """The best quilt of every row; see `ChainSearch`."""

    @property
    def influence(self) -> NDArray[np.float64]: ...

    @property
    def scale(self) -> NDArray[np.float64]: ...

    @property
    def count(self) -> NDArray[np.int64]: ...

    def quilt(self, row: int) -> Quilt: ...


@dataclass(frozen=True, slots=True)
class ActiveQuilt:
    """The quilt of a row that needs the least noise.

    Attributes:
        quilt: The row, the rows nearby and the quilt around them.
        influence: Max-influence of the row on the quilt, with no side information; rounded up.
        scale: ``(nearby rows + 1) / (epsilon - influence)``.
    """

    quilt: Quilt
    rows: int
    influence: float
    scale: float

    def to_dict(self) -> dict[str, Any]:
        """``{"row", "nearby", "quilt", "remote", "influence", "scale"}``; the nearby rows without the row itself."""
        return {
            "row": self.quilt.row,
            "nearby": list(self.quilt.nearby),
            "quilt": list(self.quilt.quilt),
            "remote": list(remote_rows(self.quilt, self.rows)),
            "influence": self.influence,
            "scale": self.scale,
        }


@dataclass(frozen=True)
class MarkovQuiltMechanism(Display):
    """Laplace noise for one Lipschitz query on a Markov chain or a network, with Pufferfish privacy.

    The noise scale is ``lipschitz * max_i min_Q (|N_i| + 1)/(epsilon - I(X_Q <~ X_i))`` over the quilts Q of row i with
    the nearby rows N_i, where I is the max-influence of the row on its quilt; quilts whose influence reaches epsilon do
    not count, and the empty one, with all rows that depend on each other nearby and no influence, always does.

    Args:
        model: A `MarkovChain`, a `BayesianNetwork`, a `MarkovNetwork` or a `FactorModel`. Several series of a chain are
            treated as one, which needs at least as much noise; a chain known up to radii as all chains within them.
        rows: Number of rows, in the order of the chain, at most 1,000,000; for networks, the number of nodes. Latent
            nodes count as rows, which can only raise the noise.
        epsilon: Privacy loss.
        lipschitz: How much the query changes at most when one row changes.
        search: ``exact`` looks at every quilt of a chain whose rows are within 2,048 of the row, and at quilts by
            distance of a network. ``approximate`` is for stationary chains: it bounds the influences by the norm of the
            kernel and the least stationary probability (`MQMApprox`).

    Raises:
        DependenceError: If the model is no chain and no network, or does not fit the rows or the search.
        ValueError: If a number is not valid.

    Source: Song, Wang, Chaudhuri 2017, Pufferfish privacy mechanisms for correlated data, Theorem 4.3.

    Examples:
        >>> from everhold.dependence.series.markov_chain import MarkovChain
        >>> chain = MarkovChain([[0.8, 0.2], [0.3, 0.7]])
        >>> mechanism = MarkovQuiltMechanism(chain, rows=1_000, epsilon=1.0)
        >>> round(mechanism.scale, 3), mechanism.quilt_of(500).quilt.quilt
        (10.12, (496, 504))
    """

    model: DependenceModel | FactorModel
    rows: int
    epsilon: float
    lipschitz: float = 1.0
    search: Literal["exact", "approximate"] = "exact"

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, (int, np.integer)) or self.rows < 1:
            raise ValueError(f"rows is {self.rows!r}; expected a whole number of at least 1")
        if self.rows > MOST_ROWS:
            raise ValueError(f"rows is {self.rows:,}; expected at most {MOST_ROWS:,}, each with a quilt of its own")
        positive(self.epsilon, "epsilon")
        positive(self.lipschitz, "lipschitz")
        if self.search not in ("exact", "approximate"):
            raise ValueError(f"search is {self.search!r}; expected 'exact' or 'approximate'")

    @cached_property
    def found(self) -> _QuiltSearch:
        """The best quilt of every row."""
        return _searched(self)

    @property
    def scale(self) -> float:
        """Scale of the Laplace noise, in the units of the query."""
        return self.lipschitz * float(np.max(self.found.scale))

    def quilt_of(self, row: int) -> ActiveQuilt:
        """The quilt of a row, numbered from 0.

        Raises:
            ValueError: If there is no such row.
        """
        if not 0 <= row < self.rows:
            raise ValueError(f"there is no row {row}; expected 0 to {self.rows - 1}")
        return ActiveQuilt(
            self.found.quilt(row), self.rows, float(self.found.influence[row]), float(self.found.scale[row])
        )

    @property
    def quilts(self) -> Iterator[ActiveQuilt]:
        """The quilts of all rows, in order."""
        return map(self.quilt_of, range(self.rows))

    def loss(self, releases: int = 1) -> float:
        """Privacy loss of several releases with this noise, each of any query with this Lipschitz constant.

        It is ``max_i I_i + releases (|N_i| + 1)/scale``, at most ``releases * epsilon``, and the queries may be chosen
        from the outputs before.
        """
        scale = float(np.max(self.found.scale))
        return float(np.max(self.found.influence + self.found.count * (releases / scale)))

    @property
    def statement(self) -> str:
        """Promise of a release, in words."""
        return (
            f"if the rows follow the model ({_law(self.model)}), then for every row and any two values that it can "
            f"have, every output is at most e^{self.epsilon:g} times as likely under one value as under the other, for "
            f"whoever knows the model and no row (Pufferfish privacy with epsilon {self.epsilon:g}); nothing is said "
            "about an adversary who knows other rows"
        )

    def release(self, value: float, noise: Noise) -> Release:
        """Release the value of a query once; every further release costs `epsilon` again.

        Args:
            value: The query's value on the rows, evaluated to within half a step of `Release.step`.
            noise: `SecureNoise()` for real rows.

        Raises:
            ValueError: If the value is not finite, or the noise cannot be drawn.
        """
        grid = NoiseGrid.of(sensitivity=self.lipschitz, multiple=float(np.max(self.found.scale)))
        return grid.release(
            value,
            noise,
            stream="markov_quilt",
            epsilon=self.epsilon,
            statement=self.statement,
            source="Song, Wang, Chaudhuri 2017, Theorem 4.3",
        )

    def to_dict(self) -> dict[str, Any]:
        """``{"scale", "rows": [a quilt for each row]}``."""
        return {"scale": self.scale, "rows": [quilt.to_dict() for quilt in self.quilts]}

    def to_rows(self) -> list[dict[str, Any]]:
        """One table row for each row: how many rows are nearby, and which are the quilt."""
        return [self.row_of(row) for row in range(self.rows)]

    def row_of(self, row: int) -> dict[str, Any]:
        """The table row of one row; quick even where many rows are nearby."""
        return {
            "row": row,
            "nearby": int(self._counts[row]) - 1,
            "quilt": list(_ends(self.found, row)),
            "influence": float(self.found.influence[row]),
            "scale": float(self.found.scale[row]),
        }

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        return self.found.count


def _ends(found: _QuiltSearch, row: int) -> tuple[int, ...]:
    """The quilt of a row; that of a chain without its rows nearby, which may be thousands."""
    if not isinstance(found, chain_quilts.ChainSearch):
        return found.quilt(row).quilt
    left, right = int(found.left[row]), int(found.right[row])
    return (row - left,) * (left > 0) + (row + right,) * (right > 0)


def _law(model: DependenceModel | FactorModel) -> str:
    """Assumption of a release about the rows, in words: nothing about columns, sealed rows or training rows."""
    if isinstance(model, MarkovChain):
        start = "in its stationary law" if model.initial == "stationary" else "that starts in a given law"
        said = f"a Markov chain of {len(model.states):,} states {start}, one row per step"
        if model.uncertainty is not None and any(model.uncertainty):
            said += f", any one whose matrix is within {max(model.uncertainty):.3g} in total per row of the given one"
        if model.fit_miss:
            said += f"; the true chain is one of them with confidence {1.0 - model.fit_miss:.6g}"
        return said
    if isinstance(model, Network):
        return f"a given {model.kind.replace('_', ' ')} of {len(model.names):,} nodes, digest {model.digest[:12]}"
    return f"a given network of {model.nodes:,} nodes" if isinstance(model, FactorModel) else model.kind


def composed_epsilon(mechanisms: Sequence[MarkovQuiltMechanism]) -> float:
    """Privacy loss of one release of each mechanism on the same rows: the sum of their losses.

    It holds because every row has the same quilt each time: its influence is paid once and each release adds
    ``(|N_i| + 1)/scale`` at most, ``epsilon - influence``. `MarkovQuiltMechanism.loss` says more for equal mechanisms.

    Raises:
        DependenceError: If models, numbers of rows or quilts differ.
        ValueError: If there is no mechanism.

    Source: Song, Wang, Chaudhuri 2017, Theorem 4.4.
    """
    if not mechanisms:
        raise ValueError("there is no mechanism; expected at least one")
    first, *others = mechanisms
    if any((other.model, other.rows) != (first.model, first.rows) for other in others):
        raise DependenceError("the releases are of different models or rows; expected the same for all of them")
    for other in {other.epsilon: other for other in others if not _same_search(first, other)}.values():
        differs = next((row for row in range(first.rows) if first.found.quilt(row) != other.found.quilt(row)), None)
        if differs is not None:
            raise DependenceError(
                f"row {differs} has different quilts in two releases; expected the same each time; use one epsilon for "
                "all releases",
                row=differs,
            )
    return math.fsum(mechanism.epsilon for mechanism in mechanisms)


def _same_search(first: MarkovQuiltMechanism, other: MarkovQuiltMechanism) -> bool:
    return (first.epsilon, first.search) == (other.epsilon, other.search)


def _searched(mechanism: MarkovQuiltMechanism) -> _QuiltSearch:
    model, rows, epsilon = mechanism.model, mechanism.rows, mechanism.epsilon
    exact = mechanism.search == "exact"
    if isinstance(model, MarkovChain):
        return chain_quilts.search(model, rows=rows, epsilon=epsilon, exact=exact)
    law = model.model if isinstance(model, Network) else model
    if not isinstance(law, FactorModel):
        raise DependenceError(
            f"the model is {law.kind.replace('_', ' ')!r}; expected a Markov chain or a network of discrete states; "
            "other models have no quilts with a finite influence",
            kind=law.kind,
        )
    if not exact:
        raise DependenceError("the approximate search is for chains; expected search='exact' for a network")
    if law.nodes != rows:
        raise DependenceError(
            f"the network has {law.nodes} nodes and there are {rows} rows; expected as many", nodes=law.nodes, rows=rows
        )
    return _network(law, epsilon=epsilon)


@dataclass(frozen=True, slots=True)
class _NetworkSearch:
    quilts: tuple[Quilt, ...]
    influence: NDArray[np.float64]
    scale: NDArray[np.float64]

    @property
    def count(self) -> NDArray[np.int64]:
        return np.array([len(quilt.nearby) + 1 for quilt in self.quilts])

    def quilt(self, row: int) -> Quilt:
        return self.quilts[row]


def _network(model: FactorModel, *, epsilon: float) -> _NetworkSearch:
    found = [_best_quilt(model, row, epsilon) for row in range(model.nodes)]
    quilts, influence, scale = zip(*found, strict=True)
    return _NetworkSearch(quilts, np.array(influence), np.array(scale))


def _best_quilt(model: FactorModel, row: int, epsilon: float) -> tuple[Quilt, float, float]:
    """The best quilt of a row among those by distance; a quilt with more nearby rows than the best allows is no better.

    Nearby rows are added step by step, so that far quilts of large networks are not even built.
    """
    quilts_of = tree_quilts if model.graph.is_forest() else quilts_by_distance
    nearby = _FIRST_NEARBY
    seen: set[Quilt] = set()
    best: tuple[Quilt, float, float] | None = None
    while True:
        for quilt in quilts_of(model.graph, row, most_nearby=nearby):
            count = len(quilt.nearby) + 1
            if quilt in seen or (best is not None and count >= best[2] * epsilon):
                continue
            seen.add(quilt)
            influence = quilt_influence(model, quilt) if quilt.quilt else 0.0
            if influence < epsilon and (best is None or count / (epsilon - influence) < best[2]):
                best = quilt, influence, count / (epsilon - influence)
        if best is not None and nearby + 1 >= min(best[2] * epsilon, model.nodes):
            return best
        nearby *= 2
