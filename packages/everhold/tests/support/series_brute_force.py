"""Tiny series whose leakage can be computed by going through every path."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from everhold_privacy.curves import PrivacyCurve
from everhold_privacy.leakage import leakage

EPSILONS = np.concatenate([[0.0], np.geomspace(1e-3, 12.0, 30)])


def random_matrix(rng, states, *, sticky=0.0):
    matrix = rng.dirichlet(np.full(states, rng.choice([0.3, 1.0, 5.0])), states) * 0.98 + 0.02 / states
    return (1.0 - sticky) * matrix + sticky * np.eye(states)


def stationary_law(matrix):
    return np.linalg.matrix_power(matrix, 1 << 14)[0]


def joint_law(matrix, initial, rows):
    """``P[x_1, ..., x_rows]``, shape (states,) * rows."""
    joint = np.asarray(initial)
    for _ in range(rows - 1):
        joint = joint[..., None] * matrix
    return joint


def joint_with_training(matrix, initial, *, training, gap, rows):
    """The same with training rows first, and ``gap`` rows summed out between."""
    first = joint_law(matrix, initial, training)
    leap = np.linalg.matrix_power(matrix, gap + 1)
    joint = first[..., None] * leap
    for _ in range(rows - 1):
        joint = joint[..., None] * matrix
    return joint


def noisy_sum(states, rows, level):
    """``P[y | x]`` of the number of rows that are not in state 0, plus geometric noise, clamped to 0..rows."""
    values = np.arange(states) > 0
    total = sum(np.meshgrid(*[values.astype(int)] * rows, indexing="ij"))
    return _geometric(rows, level)[total]


def _geometric(rows, level):
    """``P[y | sum]``, shape (rows + 1, rows + 1)."""
    decay = np.exp(-level)
    distance = np.abs(np.subtract.outer(np.arange(rows + 1), np.arange(rows + 1)))
    chance = (1.0 - decay) / (1.0 + decay) * decay**distance
    chance[:, 0] = decay ** np.arange(rows + 1) / (1.0 + decay)
    chance[:, -1] = chance[::-1, 0]
    return chance


@dataclass(frozen=True)
class SumCurve(PrivacyCurve):
    """The exact curve of `noisy_sum` about any number of rows."""

    kind: ClassVar[str] = "noisy sum"
    rows: int
    level: float
    differ: int = 1

    def _log_delta(self, epsilon):
        chance = _geometric(self.rows, self.level)
        near = [(s, t) for s in range(self.rows + 1) for t in range(self.rows + 1) if abs(s - t) <= self.differ]
        excess = [np.maximum(chance[s] - np.exp(epsilon)[:, None] * chance[t], 0.0).sum(axis=1) for s, t in near]
        with np.errstate(divide="ignore"):
            return np.log(np.max(excess, axis=0))

    def group(self, rows):
        return SumCurve(self.rows, self.level, min(self.differ * rows, self.rows))

    def _parameters(self):
        return {"rows": self.rows, "level": self.level, "differ": self.differ}


def exact_leak(joint, outputs, *, training=0, epsilons=EPSILONS):
    """``leak(eps)`` of (training rows, output) about one sealed row, averaged over rows; shape (points,)."""
    states, rows = joint.shape[0], joint.ndim - training
    parts = [_leak_about(joint, outputs, training, row, states, epsilons) for row in range(rows)]
    return np.mean(parts, axis=0)


def _leak_about(joint, outputs, training, row, states, epsilons):
    sealed = tuple(range(training, joint.ndim))
    seen = joint[..., None] * outputs  # broadcasts over the training rows
    axis = training + row
    rest = tuple(place for place in sealed if place != axis)
    told = np.moveaxis(seen.sum(axis=rest), training, 0).reshape(states, -1)
    law = told.sum(axis=1)
    told = told / law[:, None]
    leak = np.zeros(len(epsilons))
    for x in range(states):
        for other in range(states):
            excess = np.maximum(told[x] - np.exp(epsilons)[:, None] * told[other], 0.0).sum(axis=1)
            leak += law[x] * law[other] * excess
    return leak


def worst_excess(model, joint, *, training=0, level=1.0):
    """By how much the exact leakage exceeds what the model says; at most rounding if the model is right."""
    rows, states = joint.ndim - training, joint.shape[0]
    exact = exact_leak(joint, noisy_sum(states, rows, level), training=training)
    said = leakage(model, SumCurve(rows, level), rows).delta(EPSILONS)
    return float(np.max(exact - said))
