"""Width of the monitor by Rogers et al. 2020, Guaranteed Validity for Empirical Approaches to Adaptive Data Analysis.

The authors are Rogers, Roth, Smith, Srebro, Thakkar and Woodworth; the argument is Russo and Zou's of 2016.

Why the rate of information is ``rho = 1/(8 n^2 sigma^2)`` and not the ``1/(2 n^2 sigma^2)`` of zero-concentrated
privacy: the latter compares the two worst rows, mutual information compares a row with the average row. Rows are
independent, so ``I(X; pi) <= sum_i I(X_i; pi | X_{-i})``. Given the other rows and the answers so far, the next
answer is Gaussian with standard deviation sigma around a value in which ``f(X_i)/n`` alone is random; the mean
divergence from the Gaussian at its conditional mean is ``Var(f(X_i)) / (2 n^2 sigma^2)``, and a variable with values
in [0, 1] has variance at most 1/4 under every posterior. Hence ``I(X; pi) <= rho k n`` nats. Nothing else of
concentrated privacy is used. The same holds for discrete Gaussian noise.

The monitor: the transcript alone chooses the worst query. For a query chosen by the transcript, the law of
``f(X) - f(P)`` under independence is sub-Gaussian with variance proxy ``1/(4n)``, and the variational formula gives
``E (f(X) - f(P))^2 <= (2 I - ln(1-l)) / (4 n l)`` for every l in (0, 1). Markov at beta/2 and the noise at beta/2.
"""

from __future__ import annotations

import math

import scipy

from everhold.arguments import fraction, positive
from everhold_lab.published.bound import (
    BoundOfSource,
    StatementOfSource,
    check_count,
    check_session,
    whole_rows,
)

_NAME = "rogers_2020_monitor"


def rogers_width(rows: int, *, queries: int, scale: float, confidence: float) -> float:
    """Return the half-width for k Gaussian answers of a given noise scale, all at once.

    ``sqrt( (1/(2 n beta)) min_{0<l<1} (2 rho k n - ln(1-l))/l ) + sigma sqrt(2 ln(4k/beta))``,
    ``rho = 1/(8 n^2 sigma^2)`` (derived at the top of this module).

    Args:
        rows: Number n of independent rows.
        queries: Number k of adaptively chosen queries.
        scale: sigma, in units of the query.
        confidence: 1 - beta, in (0, 1).

    Returns:
        The half-width, in units of the query; from 1 on it says nothing.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Rogers et al. 2020; Russo and Zou 2016.
    """
    check_count("rows", rows)
    check_count("queries", queries)
    positive(scale, "scale")
    beta = 1.0 - fraction(confidence, "confidence")
    information = queries / (4.0 * rows * scale**2)
    odds = 1.0 + information + math.sqrt(2.0 * information)
    for _ in range(50):  # Newton steps to the odds > 1 with odds - ln odds = 1 + information
        step = (odds - math.log(odds) - 1.0 - information) / (1.0 - 1.0 / odds) if odds > 1.0 else 0.0
        odds -= step
        if abs(step) <= 1e-15 * odds:
            break
    return math.sqrt(odds / (2.0 * rows * beta)) + scale * math.sqrt(2.0 * math.log(4.0 * queries / beta))


def rogers_2020_monitor(
    rows: float, /, *, queries: int, surprises: int, confidence: float, slack: float
) -> BoundOfSource:
    """Return the radius for k Gaussian answers at the best noise scale, proportional to ``1/sqrt(n)``.

    Arguments and errors are those of every `SessionBound`; rows are independent.

    Source: Rogers et al. 2020; see :func:`rogers_width`.
    """
    check_session(queries=queries, surprises=surprises, confidence=confidence, slack=slack, rows=rows)
    width, scale = _scale_free(queries, 1.0 - confidence)
    radius = width / math.sqrt(rows)
    parameters = {"scale": scale / math.sqrt(rows)}
    return BoundOfSource(_NAME, radius if radius < 1.0 else math.inf, rows, parameters)


def rogers_2020_monitor_rows(
    radius: float, /, *, queries: int, surprises: int, confidence: float, slack: float
) -> BoundOfSource:
    """Return the rows for a requested radius, the inverse of :func:`rogers_2020_monitor`."""
    check_session(queries=queries, surprises=surprises, confidence=confidence, slack=slack, radius=radius)
    width, scale = _scale_free(queries, 1.0 - confidence)
    rows = whole_rows((width / radius) ** 2)
    return BoundOfSource(_NAME, radius, rows, {"scale": scale / math.sqrt(rows)})


def _scale_free(queries: int, beta: float) -> tuple[float, float]:
    """Return the least half-width and its noise scale, both times sqrt(n)."""
    quantile = math.sqrt(2.0 * math.log(4.0 * queries / beta))

    def scale_at(log_excess: float) -> float:
        excess = math.exp(log_excess)
        return math.sqrt(queries / (4.0 * (excess - math.log1p(excess))))

    def width_at(log_excess: float) -> float:
        return math.sqrt((1.0 + math.exp(log_excess)) / (2.0 * beta)) + scale_at(log_excess) * quantile

    bounds = (-12.0, math.log(queries) + 12.0)
    best = scipy.optimize.minimize_scalar(width_at, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    return float(best.fun), scale_at(float(best.x))


ROGERS_2020_MONITOR = StatementOfSource(
    _NAME,
    "Rogers et al. 2020, mutual information with a monitor",
    rogers_2020_monitor,
    rogers_2020_monitor_rows,
    colour="#a6761d",
)
