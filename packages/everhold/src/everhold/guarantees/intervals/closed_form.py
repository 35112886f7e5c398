"""Closed form of a bet's interval: for plans and explanations, a little wider than the bet itself (S7, S8).

Units are independent with ``0 <= Y_k <= n_k``. For centres ``c_k <= n_k`` and rates ``lambda_k`` with
``u_k = lambda_k (n_k - c_k) < 1``,

    P[ sum lambda_k (E Y_k - Y_k) >= L + sum lambda_k^2 psi(u_k) (Y_k - c_k)^2 ] <= exp(-L),
    psi(u) = (-u - ln(1 - u)) / u^2 .

*Proof.* ``ln(1 + x) >= x - psi(u) x^2`` for ``x >= -u``. With ``x_k = lambda_k (c_k - Y_k) >= -u_k``,
``E exp(x_k - psi(u_k) x_k^2) <= 1 + E x_k <= exp(lambda_k (c_k - E Y_k))``; multiply, and Markov.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_SMALL = 1e-3


def psi(u: ArrayLike) -> NDArray[np.float64]:
    """Return ``(-u - ln(1 - u)) / u^2`` for ``u < 1``, growing from 1/2 at 0, shape (...)."""
    u = np.asarray(u, dtype=np.float64)
    series = 0.5 + u / 3.0 + u**2 / 4.0 + u**3 / 5.0 + u**4 / 6.0
    safe = np.where(np.abs(u) < _SMALL, 0.5, u)
    return np.where(np.abs(u) < _SMALL, series, (-safe - np.log1p(-safe)) / safe**2)


def shortfall(
    values: NDArray[np.float64],
    sizes: NDArray[np.float64],
    centres: NDArray[np.float64],
    *,
    stake: float,
    nats: float,
    cap: float = 0.9,
) -> float:
    """Return how far the sum of expectations can exceed the sum of values, except with probability exp(-nats) (S7).

    Units so large that ``stake (n_k - c_k)`` would exceed the cap get the rate ``cap / (n_k - c_k)`` instead, and for
    the rest of the stake the most that they can fall short, ``n_k - Y_k``.

    Args:
        values: Shape (units,): Y_k.
        sizes: Shape (units,): n_k.
        centres: Shape (units,): c_k < n_k, decided before.
        stake: lambda, positive, decided before.
        nats: L of this side.
        cap: In (0, 1).

    Examples:
        >>> half = np.full(100, 0.5)
        >>> round(shortfall(half, np.ones(100), half, stake=0.5, nats=3.0), 6)
        6.0
    """
    room = sizes - centres
    rates = np.minimum(stake, cap / room)
    paid = nats + np.sum(rates**2 * psi(rates * room) * (values - centres) ** 2)
    return float((paid + np.sum((stake - rates) * (sizes - values))) / stake)


def planned_radius(*, spread: float, total: float, largest: float, nats: float) -> float:
    """Estimate the half-width of one side of a bet's interval at the best stake, for plans.

    It is ``min over lambda of (L / lambda + lambda psi(lambda N) V) / n``, near ``sqrt(2 L V) / n``.

    Args:
        spread: V, the predicted sum of squared distances of the units from their centres.
        total: n, the number of rows, or of rows in the denominator.
        largest: N, the farthest that a unit can lie above its centre.
        nats: L of this side.

    Examples:
        >>> round(planned_radius(spread=20_000 * 0.07**2, total=20_000, largest=0.8, nats=12.1), 6)
        0.002768
    """
    u = np.linspace(0.0, 1.0, 1002)[1:-1]
    radii = (nats * largest / u + u * psi(u) * spread / largest) / total
    return float(np.min(radii))
