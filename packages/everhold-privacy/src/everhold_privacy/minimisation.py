"""Minimisation of a convex loss over a continuous parameter: projected gradient descent on sealed rows.

Each step is one `gradient` query, so the search sees the sealed rows only through noisy answers. The regret follows
from the answers and their promise: docs/theory, vectors and low sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import brief, positive, whole
from everhold.display import Display, at_most, rounded
from everhold.errors import QueryRejected
from everhold_privacy.queries.gradient import GradientPurchase, GradientQuery, VectorAnswer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.holdout import Holdout
    from everhold.queries.query import CompileContext

Derivative = Callable[..., Any]
"""From a table and a parameter of shape (dimension,) to one gradient per row, shape (rows, dimension)."""

_SHOWN = 3
_MOST_TRIED = 10_000  # training rows
_TOLERATED = 1e-9  # of the length, for rounding


@dataclass(frozen=True, slots=True)
class Minimum(Display):
    """A parameter found by gradient descent, with a bound on its excess loss over the best parameter.

    Attributes:
        parameter: Mean of the parameters of all steps, shape (dimension,), read-only.
        regret: Bound on the population's mean loss at `parameter` minus the least mean loss in the ball that was
            searched, in the units of the loss. It holds together with all other answers of the holdout, if the loss is
            convex in the parameter and no row's gradient is longer than the clipping length.
        steps: Number of gradients that were answered, fewer than requested if the budget ended before.
        charged: Credits (units of the privacy budget) that all steps cost; repeated steps are free.
        remaining: Remaining budget, by name.
        confidence: Probability with which all statements of the holdout hold together.
        about: What the regret is about if it is not the population: labels drawn anew on these very rows.
    """

    parameter: NDArray[np.float64]
    regret: float
    steps: int
    charged: int
    remaining: dict[str, int]
    confidence: float
    about: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes by name, the parameter as a list, and `about` only if it is set."""
        every = Display.to_dict(self)
        return {name: value for name, value in every.items() if value is not None or name != "about"}

    def __str__(self) -> str:
        shown = ", ".join(rounded(value) for value in self.parameter[:_SHOWN])
        more = f", ... ({len(self.parameter):,} numbers)" if len(self.parameter) > _SHOWN else ""
        return f"({shown}{more}), at most {at_most(self.regret)} above the least loss, {self.steps} steps"


def minimise(
    holdout: Holdout, derivative: Derivative, *, start: ArrayLike, radius: float, steps: int, clip: float,
    tolerance: float | None = None, name: str | None = None, columns: Sequence[str] | None = None,
) -> Minimum:  # fmt: skip
    """Minimise the population's mean loss by gradient descent, with noisy gradients of the sealed rows.

    The parameter is searched in a ball around a start.

    The loss of a row must be convex in the parameter, with gradients of Euclidean length at most `clip` for every row
    that can occur and every parameter in the ball. The caller claims that; it is not checked for sealed rows. If a
    training row has a longer gradient, the step is refused before it is asked. The step size adapts to the answers, and
    any step size is valid.

    Args:
        holdout: A holdout that was created with the mechanism ``"privacy_budget"``, planned for at least `steps`
            queries.
        derivative: Function from a table (columns by name, NumPy arrays) and a parameter to each row's gradient, shape
            (rows, dimension). It must compute the gradient of a row from this row alone.
        start: Centre of the ball, shape (dimension,), chosen without the sealed rows.
        radius: Euclidean radius of the ball, in the units of the parameter.
        steps: Number of gradients to ask for, at least 1.
        clip: Largest length of a row's gradient, in units of the loss per unit of the parameter.
        tolerance: Euclidean half-width requested in each gradient; by default the planned noise.
        name: With a name, equal steps are repeated queries and free.
        columns: Columns that the derivative reads; None for all but the row ids.

    Returns:
        The mean of the parameters of all steps, with its regret (a bound on its excess loss in the population). If the
        budget ends early, fewer steps were taken.

    Raises:
        ValueError: If an argument is out of its range.
        QueryRejected: If the derivative cannot be asked, or a training row's gradient is longer than `clip`. Earlier
            steps stay in the ledger.
        BudgetExhausted: If the budget does not cover a single step. Nothing was charged.

    Source: docs/theory, vectors and low sensitivity (minimisation).
    """
    if not callable(derivative):
        raise ValueError(f"derivative is {brief(derivative)}. Pass a function of a table and a parameter.")
    try:
        centre = np.array(start, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"start is {brief(start)}. Pass one finite number for each coordinate.") from None
    if centre.ndim != 1 or not len(centre) or not np.all(np.isfinite(centre)):
        raise ValueError(
            f"start has shape {centre.shape} or is not finite. Pass one finite number for each coordinate."
        )
    positive(radius, "radius")
    whole(steps, "steps")
    places: list[NDArray[np.float64]] = []
    answers: list[VectorAnswer] = []
    place = centre.copy()
    while len(answers) < steps:
        at_place = partial(derivative, parameter=place.copy())
        step = _GradientStep(at_place, len(centre), clip=clip, name=name, columns=columns)
        answer = holdout.ask(step, tolerance=tolerance, strict=not answers)
        if answer.values is None:
            break
        places.append(place)
        answers.append(answer)
        place = _moved(place, centre, radius, [found.values for found in answers if found.values is not None])
    regret = gradient_regret(
        places,
        [found.values for found in answers if found.values is not None],
        [found.within or 0.0 for found in answers],
        start=centre,
        radius=radius,
        clip=clip,
    )
    parameter = np.mean(places, axis=0)
    parameter.flags.writeable = False
    last = answers[-1]
    return Minimum(
        parameter=parameter, regret=regret, steps=len(answers), charged=sum(found.charged for found in answers),
        remaining=dict(last.remaining), confidence=last.confidence, about=last.about,
    )  # fmt: skip


def gradient_regret(
    places: ArrayLike, gradients: ArrayLike, within: ArrayLike, *, start: ArrayLike, radius: float, clip: float
) -> float:
    """Return a bound on the regret of the mean iterate, from gradients that are known up to a distance.

    For a convex loss it is the least of ``clip (|mean - start| + radius)`` and
    ``(sum <a_t, p_t - start> + radius |sum a_t| + sum w_t (|p_t - start| + radius)) / T``. It holds for every choice of
    the iterates, whenever each true gradient is within ``w_t`` of ``a_t``.

    Args:
        places: Iterates p_t, shape (T, dimension).
        gradients: Answers a_t, shape (T, dimension).
        within: Distances w_t, shape (T,).
        start: Centre of the ball, shape (dimension,).
        radius: Radius of the ball over which the loss is compared.
        clip: Largest length of a true gradient.

    Returns:
        The bound, in the units of the loss.

    Source: docs/theory, vectors and low sensitivity (minimisation).

    Examples:
        >>> gradient_regret([[0.0], [0.5]], [[-1.0], [0.0]], [0.0, 0.0], start=[0.0], radius=1.0, clip=1.0)
        0.5
    """
    moved = np.asarray(places, dtype=np.float64) - np.asarray(start, dtype=np.float64)
    answers = np.asarray(gradients, dtype=np.float64)
    reach = np.linalg.norm(moved, axis=1) + radius
    linear = float((answers * moved).sum()) + radius * float(np.linalg.norm(answers.sum(axis=0)))
    followed = (linear + float(np.asarray(within, dtype=np.float64) @ reach)) / len(moved)
    return min(followed, clip * (float(np.linalg.norm(moved.mean(axis=0))) + radius))


def _moved(
    place: NDArray[np.float64], centre: NDArray[np.float64], radius: float, answers: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return the next iterate: a step of ``sqrt(2) radius / sqrt(sum |a|^2)``, projected to the ball."""
    squares = float(np.square(answers).sum())
    if squares == 0.0:
        return place
    moved = place - math.sqrt(2.0) * radius / math.sqrt(squares) * answers[-1] - centre
    length = float(np.linalg.norm(moved))
    return centre + moved * min(1.0, radius / length) if length > 0.0 else centre.copy()


class _GradientStep(GradientQuery):
    """A gradient query that is refused if the vector of a training row would be clipped."""

    __slots__ = ()

    def purchase(self, compiler: CompileContext) -> GradientPurchase:
        """Return the gradient for one holdout, after checking vector lengths on training rows."""
        bought = GradientQuery.purchase(self, compiler)  # also reports what is wrong with the function
        if compiler.training is not None:
            table = compiler.public_rows(bought.names, most=_MOST_TRIED)
            vectors = np.asarray(self.function(table), dtype=np.float64)
            longest = float(np.max(np.linalg.norm(vectors, axis=1), initial=0.0))
            if longest > self.clip * (1.0 + _TOLERATED):
                raise QueryRejected(
                    f"A training row has a gradient of length {longest:.6g}, above clip = {self.clip:g}, so the "
                    "regret would not be proved. Pass a larger clip or a smaller radius, or scale the columns. This "
                    "step was not charged."
                )
        return bought
