"""The Markov Quilt Mechanism (Song, Wang, Chaudhuri 2017): quilts of networks and chains, and one number released."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from everhold.arguments import positive, whole
from everhold.dependence.series.markov_chain import MarkovChain
from everhold.dependence.series.mixing import TINY, influence_bound, log_ratios, mixing_of, powers_of
from everhold.display import Display
from everhold.errors import DependenceError
from everhold_lab.releases.one_shot import NoiseGrid, Release
from everhold_privacy.networks.factors import FactorModel
from everhold_privacy.networks.models import Network
from everhold_privacy.networks.quilts import Quilt, quilt_influence, quilts_behind, quilts_by_distance, spheres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from everhold.dependence import DependenceModel
    from everhold.randomness import Noise
    from everhold_privacy.networks.factors import Graph


_MOST_QUILTS = 1_000_000


def remote_rows(quilt: Quilt, rows: int) -> tuple[int, ...]:
    """Return the rows behind a quilt, increasing, among ``rows`` rows."""
    named = {quilt.row, *quilt.nearby, *quilt.quilt}
    return tuple(node for node in range(rows) if node not in named)


def chain_quilts(row: int, rows: int, *, most_nearby: int | None = None) -> tuple[Quilt, ...]:
    """Return all quilts of a row of a chain, two-sided {i-a, i+b}, one-sided and empty, by nearby rows.

    Args:
        row: Position i of the row, counted from 0.
        rows: Number of rows of the chain.
        most_nearby: Leave out quilts with more nearby rows; the empty one always stays.

    Raises:
        DependenceError: If the row does not exist, or there are more than a million quilts.

    Examples:
        >>> [quilt.quilt for quilt in chain_quilts(1, 4)]
        [(0, 2), (0, 3), (2,), (0,), (3,), ()]
    """
    if not 0 <= row < rows:
        raise DependenceError(f"Row {row} does not exist. The rows are 0 to {rows - 1}.", row=row)
    limit = rows - 1 if most_nearby is None else most_nearby
    lefts = [*range(row - 1, max(row - limit - 2, -1), -1), *([-1] if row <= limit else [])]
    ends = [*range(row + 1, min(row + limit + 2, rows)), *([rows] if rows - 1 - row <= limit else [])]
    quilts = sum(max(min(ends[-1], left + limit + 2) - row, 0) for left in lefts) if ends else 0
    if quilts > _MOST_QUILTS:
        raise DependenceError(
            f"Row {row} of {rows} has {quilts} quilts, more than the limit of {_MOST_QUILTS}. Pass a smaller "
            "most_nearby.",
            quilts=quilts,
        )
    pairs = [(left, end) for left in lefts for end in ends if end - left - 2 <= limit]
    pairs = sorted({*pairs, (-1, rows)}, key=lambda pair: (pair[1] - pair[0], -pair[0]))
    return tuple(
        Quilt(
            row,
            (*range(left + 1, row), *range(row + 1, end)),
            tuple(node for node in (left, end) if 0 <= node < rows),
        )
        for left, end in pairs
    )


def tree_quilts(graph: Graph, row: int, *, most_nearby: int | None = None) -> tuple[Quilt, ...]:
    """Return quilts of a row of a forest, sorted by number of nearby rows, always including the empty one.

    For each radius r two of them: all rows at distance r; and the same without those behind which at most r rows lie,
    which are cheaper to take in than to have in the quilt.

    Args:
        graph: A graph whose components are trees.
        row: Position of the row that the quilts protect.
        most_nearby: Leave out quilts with more nearby rows; the empty one always stays.

    Raises:
        DependenceError: If the graph has a cycle or the row does not exist.
    """
    if not graph.is_forest():
        raise DependenceError("The graph has a cycle. Use quilts_by_distance, or pass a tree.")
    found = []
    for radius, sphere in spheres(graph, row, most_nearby):
        found.append(sphere)
        small = {node for node in sphere if _fewer_behind(graph, sphere[node], node, radius)}
        found.append({node: back for node, back in sphere.items() if node not in small})
    return quilts_behind(graph, row, found, most_nearby)


def _fewer_behind(graph: Graph, back: int, node: int, limit: int) -> bool:
    """Return whether the subtree of ``node``, in a tree entered from ``back``, has at most ``limit`` nodes."""
    order = [(node, back)]
    for here, came in order:
        order += [(other, here) for other in graph.adjacency[here] if other != came]
        if len(order) > limit:
            return False
    return True


MOST_ROWS_FROM_A_LAW = 1000
"""Most rows of a chain that does not start in its stationary law: every row is searched on its own."""

REACH = 2048
"""Quilts further away than this are not looked at; the scale is right without them, though perhaps not the smallest."""

_FIRST_REACH = 16


@dataclass(frozen=True, slots=True)
class ChainSearch:
    """The best quilt of every row of a chain, in arrays of shape (rows,).

    Attributes:
        left: Distance of the quilt's row before this one; 0 without one.
        right: Distance of the quilt's row after this one; 0 without one.
        influence: Max-influence of the row on its quilt.
        scale: ``(nearby rows + 1) / (epsilon - influence)``.
    """

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    influence: NDArray[np.float64]
    scale: NDArray[np.float64]

    @property
    def count(self) -> NDArray[np.int64]:
        """Number of nearby rows of each row, including itself."""
        rows = len(self.scale)
        place = np.arange(rows)
        before = np.where(self.left > 0, self.left - 1, place)
        after = np.where(self.right > 0, self.right - 1, rows - 1 - place)
        return before + after + 1

    def quilt(self, row: int) -> Quilt:
        """Return the quilt of one row."""
        left, right = int(self.left[row]), int(self.right[row])
        first = row - left + 1 if left else 0
        last = row + right - 1 if right else len(self.scale) - 1
        return Quilt(row, (*range(first, row), *range(row + 1, last + 1)), self.ends(row))

    def ends(self, row: int) -> tuple[int, ...]:
        """Return the rows of one row's quilt, without listing its nearby rows."""
        left, right = int(self.left[row]), int(self.right[row])
        return (row - left,) * (left > 0) + (row + right,) * (right > 0)


class _FoundQuilt(NamedTuple):
    scale: float
    left: int
    right: int
    influence: float


def chain_search(model: MarkovChain, *, rows: int, epsilon: float, exact: bool = True) -> ChainSearch:
    """Return the best Markov quilts for a known chain.

    If ``exact`` is False, or the model is a set of chains, influences are bounded instead of computed, and the quilts
    are good but perhaps not the best.

    Raises:
        DependenceError: If that is not possible for the model.
    """
    if model.initial != "stationary":
        if not exact or model.law.contraction.radii.any():
            raise DependenceError(
                "The chain does not start in its stationary law. Leave the initial law out for an approximate "
                "search, and for a matrix that is known only up to radii."
            )
        law = np.array(model.initial)
        return search_from_law(model.law.chain.transition, law / law.sum(), rows=rows, epsilon=epsilon)
    if exact or model.law.contraction.radii.any():
        return best_quilts(model.law.sides, rows=rows, epsilon=epsilon)
    norm, least = mixing_of(model.law.chain)
    return spectral_search(norm=norm, least=least, rows=rows, epsilon=epsilon)


def spectral_search(*, norm: float, least: float, rows: int, epsilon: float) -> ChainSearch:
    """Return good quilts of a stationary chain from two numbers alone (`MQMApprox`).

    Args:
        norm: Norm of the kernel on mean-zero functions of L2(pi): one minus the spectral gap of a reversible chain, and
            the square root of the second eigenvalue of ``P* P`` of any other. Rounded up.
        least: Least stationary probability. Rounded down.
        rows: Length of the chain.
        epsilon: Privacy loss of the release.

    Source: Song, Wang, Chaudhuri 2017, section 4.4, with the constants of the guide on releases for dependent rows.
    """

    def sides(reach: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        bound = influence_bound(np.arange(1, reach + 1), norm=norm, least=least)[:, None, None]
        return bound, bound

    return best_quilts(sides, rows=rows, epsilon=epsilon)


def search_from_law(
    transition: NDArray[np.float64], law: NDArray[np.float64], *, rows: int, epsilon: float
) -> ChainSearch:
    """Return the best quilts of a chain whose first row has a given law.

    Raises:
        DependenceError: If there are more than 1,000 rows.
    """
    if rows > MOST_ROWS_FROM_A_LAW:
        raise DependenceError(
            f"The chain has {rows:,} rows and does not start in its stationary law, so every row has its own quilts. "
            f"Use at most {MOST_ROWS_FROM_A_LAW:,} rows, or let it start stationary.",
            rows=rows,
        )
    laws, possible = [law], law > 0.0
    for _ in range(rows - 1):
        laws.append(laws[-1] @ transition)
        possible = (possible.astype(np.float64) @ (transition > 0.0)) > 0.0
        if np.any(laws[-1][possible] < TINY):
            raise DependenceError(
                "A state of the chain has a positive probability below 1e-290. Merge the rarest states."
            )
    forward, possible = powers_of(transition, rows - 1)
    right = log_ratios(forward, possible)
    found = []
    for row, here in enumerate(laws):
        kept = here > 0.0
        pairs = kept[:, None] & kept
        before = np.array(laws[:row][::-1]).reshape(row, 1, len(law))
        backward = forward[:row].transpose(0, 2, 1) * before / np.where(kept, here, 1.0)[:, None]
        left = log_ratios(backward, possible[:row].transpose(0, 2, 1) & (before > 0.0))
        sides = np.where(pairs, left, -math.inf), np.where(pairs, right[: rows - 1 - row], -math.inf)
        found.append(_best_of_row(*sides, row=row, rows=rows, epsilon=epsilon))
    return _collected(found)


def _best_of_row(
    left: NDArray[np.float64], right: NDArray[np.float64], *, row: int, rows: int, epsilon: float
) -> _FoundQuilt:
    """Return the best quilt of one row of a chain, by a search whose range grows only while it can improve."""
    choices = [_FoundQuilt(rows / epsilon, 0, 0, 0.0)]
    choices += _one_sided(left, others=rows - 1 - row, epsilon=epsilon, before=True)
    choices += _one_sided(right, others=row, epsilon=epsilon, before=False)
    best = min(choices)
    reach = _FIRST_REACH
    while left.size and right.size:
        table, influence = _two_sided(left[:reach], right[:reach], epsilon=epsilon)
        a, b = np.unravel_index(np.argmin(table), table.shape)
        best = min(best, _FoundQuilt(float(table[a, b]), int(a) + 1, int(b) + 1, float(influence[a, b])))
        if reach >= min(best.scale * epsilon, max(len(left), len(right))):
            break
        reach *= 2
    return best


def best_quilts(
    sides: Callable[[int], tuple[NDArray[np.float64], NDArray[np.float64]]], *, rows: int, epsilon: float
) -> ChainSearch:
    """Return the best quilt of every row of a chain whose influences depend only on the distance.

    A quilt with a row beyond the reach has at least ``reach`` rows nearby and a scale of ``reach/epsilon`` or more; the
    reach is doubled until no row's best is above that.
    """
    if rows == 1:
        return _collected([_FoundQuilt(1.0 / epsilon, 0, 0, 0.0)])
    reach = min(_FIRST_REACH, rows - 1)
    while True:
        found = _within(*sides(reach), rows=rows, epsilon=epsilon)
        if reach >= min(float(np.max(found.scale)) * epsilon, rows - 1, REACH):
            return found
        reach = min(2 * reach, rows - 1, REACH)


def _within(left: NDArray[np.float64], right: NDArray[np.float64], *, rows: int, epsilon: float) -> ChainSearch:
    """Return the best quilt of every row, among quilts at most as far as the tables reach."""
    reach = len(left)
    table, influence = _two_sided(left, right, epsilon=epsilon)
    order = np.argsort(table, axis=None, kind="stable")
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    first = np.minimum.accumulate(np.minimum.accumulate(rank.reshape(table.shape), axis=0), axis=1)

    def best(row: int) -> _FoundQuilt:
        before, after = min(row, reach), min(rows - 1 - row, reach)
        choices = [_FoundQuilt(rows / epsilon, 0, 0, 0.0)]
        if before and after:
            a, b = divmod(int(order[first[before - 1, after - 1]]), reach)
            choices.append(_FoundQuilt(float(table[a, b]), a + 1, b + 1, float(influence[a, b])))
        if row <= reach:
            choices += _one_sided(right[:after], others=row, epsilon=epsilon, before=False)
        if rows - 1 - row <= reach:
            choices += _one_sided(left[:before], others=rows - 1 - row, epsilon=epsilon, before=True)
        return min(choices)

    alike = range(reach + 1, rows - reach - 1)
    inner = best(alike[0]) if alike else None
    return _collected([inner if inner and row in alike else best(row) for row in range(rows)])


def _one_sided(pairs: NDArray[np.float64], *, others: int, epsilon: float, before: bool) -> list[_FoundQuilt]:
    """Return the quilt of one row, on one side of the protected row, that needs the least noise.

    All `others` rows on the other side are nearby. `pairs[k]` holds the influences on a quilt at distance k + 1, for
    each pair of values of the protected row. `before` says whether the quilt's row precedes the protected row.
    """
    if not pairs.size:
        return []
    influence = pairs.max(axis=(1, 2))
    scale = _scale(others + np.arange(1, len(pairs) + 1), influence, epsilon)
    at = int(np.argmin(scale))
    return [_FoundQuilt(float(scale[at]), (at + 1) * before, (at + 1) * (not before), float(influence[at]))]


def _two_sided(
    left: NDArray[np.float64], right: NDArray[np.float64], *, epsilon: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scale and influence of the quilts ``{i-a, i+b}``, both of shape (a, b)."""
    influence = np.array([(side + right).max(axis=(1, 2)) for side in left])
    count = np.add.outer(np.arange(len(left)), np.arange(len(right))) + 1
    return _scale(count, influence, epsilon), influence


def _scale(count: NDArray[np.int64], influence: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        return np.where(influence < epsilon, count / np.maximum(epsilon - influence, 0.0), math.inf)


def _collected(found: list[_FoundQuilt]) -> ChainSearch:
    scale, left, right, influence = (np.array(part) for part in zip(*found, strict=True))
    return ChainSearch(left, right, influence, scale)


MOST_ROWS = 1_000_000
"""Most rows of one release: the quilt of every row is found and kept."""

_FIRST_NEARBY = 16


@dataclass(frozen=True, slots=True)
class ActiveQuilt:
    """The quilt of a row that needs the least noise, with its influence and noise scale.

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
        """Return plain data: row, nearby (without the row itself), quilt, remote, influence and scale."""
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
    """Mechanism that adds Laplace noise to one Lipschitz query on a chain or network, with Pufferfish privacy.

    The noise scale is ``lipschitz * max_i min_Q (|N_i| + 1)/(epsilon - I(X_Q <~ X_i))`` over the quilts Q of row i with
    the nearby rows N_i, where I is the max-influence of the row on its quilt; quilts whose influence reaches epsilon do
    not count, and the empty one, with all rows that depend on each other nearby and no influence, always does.

    Args:
        model: A `MarkovChain`, a `BayesianNetwork`, a `MarkovNetwork` or a `FactorModel`. Several series of a chain are
            treated as one, which needs at least as much noise; a chain known up to radii as all chains within them.
        rows: Number of rows, in the order of the chain, at most 1,000,000; for networks, the number of nodes. Latent
            nodes count as rows, which can only raise the noise.
        epsilon: Privacy loss of the release.
        lipschitz: Largest change of the query when one row changes.
        search: ``exact`` looks at every quilt of a chain whose rows are within 2,048 of the row, and at quilts by
            distance of a network. ``approximate`` is for stationary chains: it bounds the influences by the norm of the
            kernel and the least stationary probability (`MQMApprox`).

    Raises:
        DependenceError: If the model is neither a chain nor a network, or does not fit the rows or the search.
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
        whole(self.rows, "rows", most=MOST_ROWS)
        positive(self.epsilon, "epsilon")
        positive(self.lipschitz, "lipschitz")
        if self.search not in ("exact", "approximate"):
            raise ValueError(f"search is {self.search!r}. Pass 'exact' or 'approximate'.")

    @cached_property
    def found(self) -> ChainSearch | _NetworkSearch:
        """The best quilt of every row."""
        model, rows, epsilon = self.model, self.rows, self.epsilon
        exact = self.search == "exact"
        if isinstance(model, MarkovChain):
            return chain_search(model, rows=rows, epsilon=epsilon, exact=exact)
        law = model.model if isinstance(model, Network) else model
        if not isinstance(law, FactorModel):
            raise DependenceError(
                f"The model is {law.kind.replace('_', ' ')!r}, which has no quilts with a "
                "finite influence. Pass a Markov chain or a network of discrete states.",
                kind=law.kind,
            )
        if not exact:
            raise DependenceError("The approximate search is for chains. Pass search='exact' for a network.")
        if law.nodes != rows:
            raise DependenceError(
                f"The network has {law.nodes} nodes, and there are {rows} rows. "
                "Pass a network with one node for each row.",
                nodes=law.nodes,
                rows=rows,
            )
        found = [_best_quilt(law, row, epsilon) for row in range(law.nodes)]
        quilts, influence, scale = zip(*found, strict=True)
        return _NetworkSearch(quilts, np.array(influence), np.array(scale))

    @property
    def scale(self) -> float:
        """Scale of the Laplace noise, in the units of the query."""
        return self.lipschitz * float(np.max(self.found.scale))

    def quilt_of(self, row: int) -> ActiveQuilt:
        """Return the quilt of a row, numbered from 0.

        Raises:
            ValueError: If there is no such row.
        """
        if not 0 <= row < self.rows:
            raise ValueError(f"There is no row {row}. The rows are 0 to {self.rows - 1}.")
        return ActiveQuilt(
            self.found.quilt(row), self.rows, float(self.found.influence[row]), float(self.found.scale[row])
        )

    @property
    def quilts(self) -> Iterator[ActiveQuilt]:
        """Yield the quilts of all rows, in order."""
        return map(self.quilt_of, range(self.rows))

    def loss(self, releases: int = 1) -> float:
        """Return the privacy loss of several releases of any queries with this Lipschitz constant.

        It is ``max_i I_i + releases (|N_i| + 1)/scale``, at most ``releases * epsilon``, and the queries may be chosen
        from the outputs before.
        """
        scale = float(np.max(self.found.scale))
        return float(np.max(self.found.influence + self.found.count * (releases / scale)))

    @property
    def statement(self) -> str:
        """The promise of a release in words."""
        return (
            f"if the rows follow the model ({_law(self.model)}), then for every row and any two values that it can "
            f"have, every output is at most e^{self.epsilon:g} times as likely under one value as under the other, "
            f"for whoever knows the model and no row (Pufferfish privacy with epsilon {self.epsilon:g}). Nothing is "
            "said about an adversary who knows other rows"
        )

    def release(self, value: float, noise: Noise) -> Release:
        """Release the value of a query once. Every further release costs `epsilon` again.

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
        """Return plain data: the noise scale, and a quilt for each row."""
        return {"scale": self.scale, "rows": [quilt.to_dict() for quilt in self.quilts]}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dictionary for each row, with its number of nearby rows and its quilt."""
        return [self.row_of(row) for row in range(self.rows)]

    def row_of(self, row: int) -> dict[str, Any]:
        """Return the dictionary of one row, quickly even where many rows are nearby."""
        return {
            "row": row,
            "nearby": int(self._counts[row]) - 1,
            "quilt": list(self.found.ends(row)),
            "influence": float(self.found.influence[row]),
            "scale": float(self.found.scale[row]),
        }

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        return self.found.count


def _law(model: DependenceModel | FactorModel) -> str:
    """Return a text that says which law of the rows a release assumes."""
    if isinstance(model, MarkovChain):
        start = "in its stationary law" if model.initial == "stationary" else "that starts in a given law"
        said = f"a Markov chain of {len(model.states):,} states {start}, one row per step"
        if model.uncertainty is not None and any(model.uncertainty):
            said += f", any one whose matrix is within {max(model.uncertainty):.3g} in total per row of the given one"
        if model.fit_miss:
            said += f", of which the true chain is one with confidence {1.0 - model.fit_miss:.6g}"
        return said
    if isinstance(model, Network):
        return f"a given {model.kind.replace('_', ' ')} of {len(model.names):,} nodes, digest {model.digest[:12]}"
    return f"a given network of {model.nodes:,} nodes" if isinstance(model, FactorModel) else model.kind


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

    def ends(self, row: int) -> tuple[int, ...]:
        return self.quilts[row].quilt


def _best_quilt(model: FactorModel, row: int, epsilon: float) -> tuple[Quilt, float, float]:
    """Return the best quilt of a row of a network, among quilts by distance, with its influence and scale.

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
