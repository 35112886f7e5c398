"""Every statement that bounds one mechanism's radius, and which of them is the promise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from everhold.mechanisms import Mechanism
from everhold_lab.published import (
    gaussian_sample_failure,
    hoeffding_splitting,
    jung_pure_radius,
    jung_radius,
    laplace_sample_failure,
    rogers_width,
)
from everhold_privacy.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from everhold_privacy.mechanisms.averages import SampleSplitting


@dataclass(frozen=True, slots=True)
class CandidateLoss:
    """A statement that was evaluated for a mechanism as it stands.

    Attributes:
        statement: Number or name of the statement.
        radius: Its half-width, rounding to the grid included, in the units of a mean over [0, 1].
        is_promise: Whether the certificate stands on it.
    """

    statement: str
    radius: float
    is_promise: bool


def best_radius(mechanism: Mechanism) -> tuple[CandidateLoss, ...]:
    """All statements that say something about a mechanism with these parameters, the promise first.

    The promise is always everhold's own statement (S1 or S3, for `Empirical` P9); published ones stand beside it for
    comparison and are left out for dependent rows, where they do not hold.

    Examples:
        >>> for candidate in best_radius(GaussianMechanism.tuned(rows=50_000, queries=1_000)):
        ...     print(candidate.statement, round(candidate.radius, 2), candidate.is_promise)
        S1 0.08 True
        jung_2020 0.22 False
        rogers_2020_monitor 0.15 False
    """
    promise = mechanism.promise()
    own = CandidateLoss(promise.statement, promise.radius, is_promise=True)
    if not mechanism.dependence.independent:
        return (own,)
    others = (CandidateLoss(name, radius + mechanism.rounding, False) for name, radius in _published(mechanism))
    return (own, *others)


def _published(mechanism: Mechanism) -> Iterator[tuple[str, float]]:
    """Published statements with their radius for exact averages and continuous noise."""
    confidence, queries = mechanism.confidence, mechanism.queries
    if isinstance(mechanism, GaussianMechanism):
        failure = gaussian_sample_failure(mechanism.scale, answers=queries)
        yield "jung_2020", jung_radius(failure, mechanism.curve(), confidence).radius
        width = rogers_width(mechanism.rows, queries=queries, scale=mechanism.scale, confidence=confidence)
        yield "rogers_2020_monitor", width
    elif isinstance(mechanism, LaplaceMechanism):
        failure = laplace_sample_failure(mechanism.scale, answers=queries)
        yield "jung_2020", jung_radius(failure, mechanism.curve(), confidence).radius
        pure = jung_pure_radius(
            failure, epsilon=mechanism.curve().epsilon(0.0), rows=mechanism.rows, confidence=confidence
        )
        yield "jung_2020_pure", pure.radius
    elif isinstance(mechanism, SampleSplitting):
        session = {"queries": queries, "surprises": 1, "confidence": confidence, "slack": 0.0}
        yield "hoeffding_splitting", hoeffding_splitting(mechanism.rows, **session).radius  # type: ignore[arg-type]
