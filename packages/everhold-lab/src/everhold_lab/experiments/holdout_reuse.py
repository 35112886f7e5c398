"""An analyst who selects attributes by training rows and a holdout, and reports how well their vote does.

As in Dwork et al. 2015: correlations with the label are estimated on the training rows and asked of the holdout; kept
are the attributes for which both have the same sign and are at least ``1/sqrt(rows)``; the k that are largest on the
training rows vote with their signs. Then the holdout is asked for the accuracy of the vote, for every k. Where the
holdout refuses, the analyst goes on with the estimate from the training rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.mechanisms.evaluations import Evaluations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.mechanisms import Mechanism
    from everhold.randomness import Noise
    from everhold_lab.experiments.correlated_attributes import Attributes, AttributeSample


@dataclass(frozen=True, slots=True)
class Reuse:
    """Result of one analyst's use of one holdout; the arrays have one entry for each k.

    Attributes:
        selected: Attributes that voted.
        training: Accuracy on the training rows.
        reported: Accuracy as the holdout answered; nan where it refused.
        attribute_error: Largest distance of an answer about a single attribute from the population's value.
        releases: Answers for which the holdout was charged.
    """

    selected: NDArray[np.int64]
    training: NDArray[np.float64]
    reported: NDArray[np.float64]
    fresh: NDArray[np.float64]
    attribute_error: float
    releases: int
    refused: int

    def lines(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """One line for each k; nan becomes None."""
        return [
            {
                "k": k,
                "training": float(self.training[place]),
                "reported": None if np.isnan(self.reported[place]) else float(self.reported[place]),
                "fresh": float(self.fresh[place]),
                "error": _largest([self.reported[place] - self.fresh[place], self.attribute_error]),
                "selected": int(self.selected[place]),
                "releases": self.releases,
                "refused": self.refused,
            }
            for place, k in enumerate(numbers)
        ]


def reuse_holdout(
    mechanism: Mechanism,
    noise: Noise,
    *,
    law: Attributes,
    training: AttributeSample,
    holdout: AttributeSample,
    numbers: Sequence[int],
) -> Reuse:
    """Ask about every attribute, then about the vote of the best k for every k.

    Args:
        mechanism: What stands between the analyst and the holdout.
        noise: Its noise.
        law: The law of one record.
        training: Rows that the analyst sees.
        holdout: The sealed rows, ``mechanism.rows`` of them; as many are in `training`.
        numbers: The numbers k of attributes.
    """
    rows, unit = mechanism.rows, mechanism.unit
    if not rows == training.rows == holdout.rows:
        raise ValueError(f"there are {training.rows} training and {holdout.rows} sealed rows; expected {rows} of each")
    state = mechanism.start(noise)

    def ask(totals: NDArray[np.int64], guesses: NDArray[np.int64]) -> tuple[NDArray[np.float64], int, int]:
        nonlocal state
        batch = Evaluations(totals=totals[:, None], guesses=guesses, rows=rows, unit=unit)
        state, replies = mechanism.answer_many(state, batch, noise)
        return replies.values, int(replies.charged.sum()), int(np.isnan(replies.values).sum())

    known = training.agreeing
    answers, first_releases, first_refused = ask(holdout.agreeing * unit, known * unit)
    estimate = known / rows
    weights, selected = select(
        2.0 * estimate - 1.0,
        2.0 * np.where(np.isnan(answers), estimate, answers) - 1.0,
        least=1.0 / math.sqrt(rows),
        numbers=numbers,
    )
    right = training.right_votes(weights)
    reported, releases, refused = ask(holdout.right_votes(weights) * (unit // 2), right * (unit // 2))
    return Reuse(
        selected=selected,
        training=right / (2.0 * rows),
        reported=reported,
        fresh=np.array([law.accuracy(weights[:, place]) for place in range(len(numbers))]),
        attribute_error=_largest(answers - law.truth),
        releases=first_releases + releases,
        refused=first_refused + refused,
    )


def select(
    training: NDArray[np.float64], holdout: NDArray[np.float64], *, least: float, numbers: Sequence[int]
) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """The votes of the k attributes that are largest in training, among those that the holdout confirms.

    Args:
        training: Correlation of each attribute with the label on the training rows, shape (attributes,).
        holdout: The same as the holdout answered.
        least: Size that both must have at least.
        numbers: The numbers k; where fewer are confirmed, all of them vote.

    Returns:
        Weights -1, 0 or 1, shape (attributes, numbers), and how many are not 0 for each k.

    Examples:
        >>> select(np.array([0.3, -0.5, 0.4]), np.array([0.2, -0.1, -0.4]), least=0.1, numbers=[1, 2])[0].tolist()
        [[0, 1], [-1, -1], [0, 0]]
    """
    confirmed = (np.sign(training) == np.sign(holdout)) & (np.minimum(np.abs(training), np.abs(holdout)) >= least)
    order = np.argsort(-np.abs(training), kind="stable")
    order = order[confirmed[order]]
    weights = np.zeros((len(training), len(numbers)), dtype=np.int8)
    for place, k in enumerate(numbers):
        weights[order[:k], place] = np.sign(training[order[:k]])
    return weights, np.count_nonzero(weights, axis=0).astype(np.int64)


def _largest(errors: NDArray[np.float64] | Sequence[float]) -> float:
    """The largest absolute error of what was answered, 0 if nothing was."""
    sizes = np.abs(np.asarray(errors, dtype=np.float64))
    return float(np.max(sizes[~np.isnan(sizes)], initial=0.0))
