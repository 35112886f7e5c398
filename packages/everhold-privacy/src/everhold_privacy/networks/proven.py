"""Bounds of a network that are computed once: couplings, quilts, and changes of expectations (S4, P5, S5)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from everhold_privacy.networks.bounds import NetworkParts, nearby_price, row_classes
from everhold_privacy.networks.changes import dobrushin_changes, forest_changes, proxy_variance

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from everhold.dependence.leakage import RowClass
    from everhold_privacy.networks.base import Network


class NetworkBounds:
    """Bounds of one network, each computed once.

    Args:
        network: The network.
        changes: Bounds D_i that the kind of network has beside those of all, for all nodes.
    """

    def __init__(
        self, network: Network, changes: Callable[[NetworkParts], list[NDArray[np.float64]]] = lambda _: []
    ) -> None:
        counted = np.ones(len(network.names), dtype=bool)
        counted[list(network.latent)] = False
        self.parts = NetworkParts(network.model, counted, network.table_of)
        self._changes = changes
        self._prices: dict[float, float] = {}

    @cached_property
    def classes(self) -> tuple[RowClass, ...]:
        """Bounds on the leakage about the rows."""
        return row_classes(self.parts)

    @cached_property
    def proxy(self) -> float:
        """Sum over components of the least of the bounds on their part of ``sum D_i^2`` (S5)."""
        bounds = [*self._changes(self.parts), forest_changes(self.parts), dobrushin_changes(self.parts)]
        return proxy_variance(self.parts, bounds)

    def price(self, epsilon: float) -> float:
        """See `DependenceModel.bayesian_price`."""
        if epsilon not in self._prices:
            self._prices[epsilon] = nearby_price(self.parts, epsilon)
        return self._prices[epsilon]
