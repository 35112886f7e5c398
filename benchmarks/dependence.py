"""What dependence costs in seconds: leakage of long series and large networks, influences beside another engine.

Promised are less than 1 s and 500 MB for a chain of a million rows with ten states, and less than 10 s for trees with
100,000 rows in 1,000 components. An influence on a chain is compared with pyAgrum on the same chain.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.timing import compare, seconds
from everhold.dependence import MarkovChain
from everhold.display import text_table
from everhold_privacy.curves import GaussianCurve
from everhold_privacy.leakage import leakage
from everhold_privacy.networks.factors import Factor, FactorModel
from everhold_privacy.networks.models import BayesianNetwork
from everhold_privacy.networks.quilts import influence_bound

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["measure"]

_EPSILONS = np.geomspace(1e-6, 20.0, 200)
_CHAIN = np.array([[0.9, 0.1], [0.2, 0.8]])
_LENGTH = 1_000


def measure() -> list[dict[str, Any]]:
    """One line for each task."""
    tasks: dict[str, Callable[[], object]] = {
        "leakage, chain of 1,000,000 rows and 10 states": _long_chain(slow=False),
        "the same, second eigenvalue above 0.99": _long_chain(slow=True),
        "leakage, 1,000 trees of 100 rows": _forest,
        "6 x 6 grid: influence from corner to corner": _grid,
    }
    lines = [
        {"task": name, "seconds": round(seconds(task), 3), "peak (MB)": _peak(), "peer (s)": None, "ratio": None}
        for name, task in tasks.items()
    ]
    return [*lines, _conditional()]


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _long_chain(*, slow: bool) -> Callable[[], object]:
    transition = np.random.default_rng(0).dirichlet(np.ones(10), 10)
    if slow:
        transition = 0.005 * transition + 0.995 * np.eye(10)
    return lambda: leakage(MarkovChain(transition), GaussianCurve(0.01), 1_000_000).delta(_EPSILONS)


def _forest() -> object:
    rng = np.random.default_rng(0)
    first, step = [0.6, 0.4], [[0.9, 0.1], [0.3, 0.7]]
    nodes = {
        f"{tree}.{node}": (2, [f"{tree}.{rng.integers(node)}"], step) if node else (2, [], first)
        for tree in range(1_000)
        for node in range(100)
    }
    return BayesianNetwork(nodes).leakage(GaussianCurve(0.01), 100_000).delta(_EPSILONS)


def _grid() -> object:
    at = np.arange(36).reshape(6, 6)
    edges = np.concatenate(
        [np.stack([at[:-1], at[1:]], -1).reshape(-1, 2), np.stack([at[:, :-1], at[:, 1:]], -1).reshape(-1, 2)]
    )
    attraction = np.array([[2.0, 1.0], [1.0, 2.0]])
    model = FactorModel((2,) * 36, tuple(Factor((int(a), int(b)), attraction) for a, b in edges))
    return influence_bound(model, [35], 0).value


def _conditional() -> dict[str, Any]:
    """Influence of a row on two others, one on either side; pyAgrum answers with its engine already built."""
    import pyagrum as gum

    network = gum.BayesNet()
    for node in range(_LENGTH):
        network.add(gum.LabelizedVariable(str(node), "", 2))
    for node in range(1, _LENGTH):
        network.addArc(node - 1, node)
        network.cpt(node).fillWith(_CHAIN.ravel().tolist())
    network.cpt(0).fillWith([2 / 3, 1 / 3])
    middle, quilt = _LENGTH // 2, (_LENGTH // 2 - 3, _LENGTH // 2 + 4)
    engine = gum.LazyPropagation(network)
    steps = (Factor((row, row + 1), _CHAIN) for row in range(_LENGTH - 1))
    chain = FactorModel((2,) * _LENGTH, (Factor((0,), np.array([2 / 3, 1 / 3])), *steps))
    times = compare(
        lambda: influence_bound(chain, quilt, middle).value,
        lambda: engine.evidenceJointImpact([str(node) for node in quilt], [str(middle)]),
        rounds=9,
    )
    return {
        "task": f"two-sided influence, chain of {_LENGTH:,} rows (beside pyAgrum)",
        "seconds": float(f"{times['ours']:.2g}"), "peak (MB)": _peak(), "peer (s)": f"{times['peer']:.2g}",
        "ratio": f"{times['ratio']:.2g}",
    }  # fmt: skip


if __name__ == "__main__":
    print(text_table(measure()))
