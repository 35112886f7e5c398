"""Ways in which a holdout can answer for correlations of attributes with the label and for accuracies."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from everhold.mechanisms.evaluations import Evaluations
from everhold.values.evaluation import UNIT
from everhold_lab.experiments.linear_attributes import clipped_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.mechanisms import Mechanism
    from everhold.randomness import Noise
    from everhold_lab.experiments.linear_attributes import AttributeLaw, LinearSample


@dataclass(frozen=True, slots=True)
class Reported:
    """Answers for accuracies; every array has the shape (classifiers,).

    Attributes:
        values: The answers; nan where refused.
        lows: Lower ends of the stated intervals; nan where none is stated.
        highs: Upper ends.
    """

    values: NDArray[np.float64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]

    @classmethod
    def bare(cls, values: NDArray[np.float64]) -> Reported:
        """Answers without intervals."""
        nothing = np.full(len(values), np.nan)
        return cls(values, nothing, nothing)


class AttributeHoldout(ABC):
    """One holdout for one analyst; first it is asked for all correlations, then for the accuracies."""

    @abstractmethod
    def correlations(self, training: LinearSample, holdout: LinearSample) -> NDArray[np.float64]:
        """Shape (attributes,): answers for the correlation of each attribute with the label; nan where refused."""

    @abstractmethod
    def accuracies(self, training: NDArray[np.int64], holdout: NDArray[np.int64], *, rows: int) -> Reported:
        """Answers for accuracies, from how many of the training rows and of the sealed rows are classified rightly."""


class PlainHoldout(AttributeHoldout):
    """The averages of the sealed rows, used again and again."""

    def correlations(self, training: LinearSample, holdout: LinearSample) -> NDArray[np.float64]:
        """The sealed correlations themselves."""
        return holdout.correlations

    def accuracies(self, training: NDArray[np.int64], holdout: NDArray[np.int64], *, rows: int) -> Reported:
        """The sealed accuracies themselves."""
        return Reported.bare(holdout / rows)


@dataclass(frozen=True, slots=True)
class PublishedThresholdout(AttributeHoldout):
    """Thresholdout as in the published experiment of Dwork et al. 2015: a rule of thumb without a budget.

    An answer is the training value while the two differ by at most ``4/sqrt(n)`` plus noise, else the sealed value
    plus noise; both noises are normal with standard deviation ``1/sqrt(n)`` and drawn anew for every query. So much
    for the experiment: the algorithm that the paper proves something about has Laplace noise and keeps the noisy
    threshold. Nothing is promised here.
    """

    rows: int
    generator: np.random.Generator = field(repr=False)

    def correlations(self, training: LinearSample, holdout: LinearSample) -> NDArray[np.float64]:
        """Each query with noise of its own."""
        return self._answers(training.correlations, holdout.correlations)

    def accuracies(self, training: NDArray[np.int64], holdout: NDArray[np.int64], *, rows: int) -> Reported:
        """The same rule with the same threshold."""
        return Reported.bare(self._answers(training / rows, holdout / rows))

    def _answers(self, training: NDArray[np.float64], holdout: NDArray[np.float64]) -> NDArray[np.float64]:
        scale = 1.0 / math.sqrt(self.rows)
        compared, added = scale * self.generator.standard_normal((2, len(training)))
        surprise = np.abs(training - holdout) > 4.0 * scale + compared
        return np.where(surprise, holdout + added, training)


class PromisingHoldout(AttributeHoldout):
    """A mechanism of everhold: every correlation and every accuracy is a statistical query with the training guess.

    A correlation is asked for as the mean of ``(clipped product + clip) / (2 clip)``, which lies in [0, 1]; what is
    promised is the population value of that.

    Args:
        mechanism: With its plan.
        clip: Products are clipped to ``[-clip, clip]``, as in the totals of the samples.
        noise: Of the mechanism.
    """

    def __init__(self, mechanism: Mechanism, *, clip: float, noise: Noise) -> None:
        self.mechanism = mechanism
        self._clip, self._noise = clip, noise
        self._state = mechanism.start(noise)
        self._correlations = Reported.bare(np.empty(0))

    def correlations(self, training: LinearSample, holdout: LinearSample) -> NDArray[np.float64]:
        """In one batch: no query depends on an answer."""
        self._correlations = self._ask(training.totals, holdout.totals, rows=self.mechanism.rows)
        return np.asarray((2.0 * self._correlations.values - 1.0) * self._clip)

    def accuracies(self, training: NDArray[np.int64], holdout: NDArray[np.int64], *, rows: int) -> Reported:
        """In one batch: the classifiers depend on the correlations alone."""
        return self._ask(training * UNIT, holdout * UNIT, rows=rows)

    def _ask(self, guesses: NDArray[np.int64], totals: NDArray[np.int64], *, rows: int) -> Reported:
        evaluations = Evaluations(totals=totals[:, None], guesses=guesses, rows=rows)
        self._state, replies = self.mechanism.answer_many(self._state, evaluations, self._noise)
        return Reported(replies.values, replies.lows, replies.highs)

    def correlations_hold(self, law: AttributeLaw) -> bool:
        """Check that every answer for a correlation is as near to its population value as was promised and stated."""
        population = (clipped_mean(law.shifts(), clip=self._clip) / self._clip + 1.0) / 2.0
        told = self._correlations
        answered = ~np.isnan(told.values)
        near = np.abs(told.values - population) <= self.mechanism.promise().radius
        inside = (told.lows <= population) & (population <= told.highs)
        return bool(np.all((near & inside)[answered]))
