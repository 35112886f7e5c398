"""Small worlds in which statements of the sources are evaluated exactly or shown at work."""

from __future__ import annotations

import math
import tempfile
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import everhold as eh
from everhold.randomness import SeededNoise
from everhold_lab.published.classical import minimisation_radius
from everhold_lab.published.post_selection import exact_max_information
from everhold_lab.releases import PermuteAndFlip
from everhold_privacy.curves import GaussianCurve
from everhold_privacy.guarantees import gaussian_exceedance, transfer_radius
from everhold_privacy.mechanisms.privacy_budget import VectorNoise
from everhold_privacy.mechanisms.sparse_vector import SparseVector
from everhold_privacy.minimisation import gradient_regret
from everhold_privacy.networks.factors import Factor, FactorModel

INDEPENDENT = [[0.25, 0.25], [0.25, 0.25]]
"""Two independent fair bits."""

CORRELATED = [[0.45, 0.05], [0.05, 0.45]]
"""Two bits that are equal in nine of ten cases."""


def told_with_odds(odds: float) -> list[list[list[float]]]:
    """Return the law of an output that reports each of two bits correctly with these odds, shape (2, 2, 4)."""
    right = odds / (1.0 + odds)
    bits = ([right, 1.0 - right], [1.0 - right, right])
    return [[[a * b for a in one for b in other] for other in bits] for one in bits]


def responses(rows: int, epsilon: float) -> NDArray[np.float64]:
    """Return the joint law of `rows` fair bits and their randomised responses, shape (2^n, 2^n)."""
    keep = 1.0 / (1.0 + math.exp(-epsilon))
    joint: NDArray[np.float64] = np.ones((1, 1))
    for _ in range(rows):
        one = np.array([[keep, 1.0 - keep], [1.0 - keep, keep]]) / 2.0
        joint = np.asarray(np.kron(joint, one), dtype=np.float64)
    return joint


def _shares(rows: int) -> NDArray[np.float64]:
    return np.asarray(np.array(list(product((0, 1), repeat=rows))).mean(axis=1), dtype=np.float64)


def highest_likelihood_bits(rows: int, *, epsilon: float) -> float:
    """Return the least k of Lemma 6 (beta = 0) minus the exact max-information, for randomised response."""
    joint = responses(rows, epsilon)
    ratio = joint / np.outer(joint.sum(axis=1), joint.sum(axis=0))
    return abs(math.log2(float(ratio.max())) - exact_max_information(joint))


def resampling_gap(rows: int, *, epsilon: float) -> float:
    """Return the largest difference of the laws of (D, transcript) and (D' from the posterior, transcript)."""
    joint = responses(rows, epsilon)
    posterior = joint / joint.sum(axis=0)
    resampled = np.einsum("dt,et->et", joint, posterior)
    return float(np.abs(resampled - joint).max())


def posterior_ratio(rows: int, *, epsilon: float) -> float:
    """Return the largest posterior mean of the share of ones divided by its prior mean, at most e^eps."""
    joint = responses(rows, epsilon)
    return float((_shares(rows) @ (joint / joint.sum(axis=0))).max() / 0.5)


def selected_bias(rows: int, *, epsilon: float) -> float:
    """Return ``E h(S) - E h(P)``, with h the share of ones or of zeros, whichever looks larger in the responses."""
    joint, shares = responses(rows, epsilon), _shares(rows)
    chosen = shares > 0.5
    return float((joint * np.where(chosen[None, :], shares[:, None], 1.0 - shares[:, None])).sum() - 0.5)


def doob_steps(rows: int, *, epsilon: float) -> float:
    """Return the largest step of the Doob martingale of g(x) = ln P[y|x] / P[y] for independent rows."""
    joint = responses(rows, epsilon)
    loss = np.log(joint / np.outer(joint.sum(axis=1), joint.sum(axis=0)))[:, 0].reshape((2,) * rows)
    steps, before = [], loss
    for _ in range(rows):
        after = before.mean(axis=-1)
        steps.append(np.abs(before - after[..., None]).max())
        before = after
    return float(max(steps))


def sum_of_tails(queries: int, *, failure: float) -> float:
    """Return the sum of the three tail bounds in Theorem 2's proof, divided by the beta/2 for them (erratum 9)."""
    share = failure / (4.0 * queries)
    return queries * share * (math.pow(2, -2 / 3) + math.pow(2, 1 / 3) + math.pow(share, 1.25)) / (failure / 2.0)


def chosen_on_the_sample(rows: int) -> tuple[float, float]:
    """Return ``h(S)`` and ``h(P)`` of the indicator of the sample, for rows uniform on [0, 1]."""
    rng = np.random.default_rng(1)
    sample = set(rng.random(rows).tolist())
    return float(np.mean([value in sample for value in sample])), float(
        np.mean([value in sample for value in rng.random(rows).tolist()])
    )


def failure_of_one_coin(*, epsilon: float) -> float:
    """Return ``P[|h(S) - h(P)| > eps]`` for one fair coin and a fixed h."""
    return float(epsilon < 0.5)


def first_above(values: tuple[int, ...], *, threshold: int, epsilon: float) -> int:
    """Return the index of the first value that AboveThreshold reports, with seeded noise."""
    noise = SeededNoise(1)
    stream = SparseVector.sparse(epsilon=epsilon, tops=1, threshold=threshold, sensitivity=1)
    found = stream.first(list(values), noise)
    return -1 if found is None else found


def sparse_answers(values: tuple[int, ...], *, tops: int, threshold: int, epsilon: float) -> list[int]:
    """Return the verdicts of Algorithm Sparse with seeded noise: 0 for below, 1 for above, 2 after its end."""
    noise = SeededNoise(1)
    stream = SparseVector.sparse(epsilon=epsilon, tops=tops, threshold=threshold, sensitivity=1)
    _, verdicts = stream.ask(stream.start(noise), list(values), noise)
    return [int(verdict) for verdict in verdicts]


def common_child() -> tuple[int, ...]:
    """Return the neighbours of node 0 in the moral graph of 0 -> 2 <- 1: its child, and the other parent."""
    child = Factor((0, 1, 2), np.full((2, 2, 2), 0.5))
    return FactorModel((2, 2, 2), (child,)).graph.neighbours(0)


def remote_rows_of_a_chain(row: int, rows: int, *, a: int, b: int) -> tuple[int, int, int]:
    """Return the numbers of nearby, quilt and remote rows of the quilt {i-a, i+b} of a chain."""
    from everhold_lab.releases.markov_quilt import chain_quilts, remote_rows

    (quilt,) = [one for one in chain_quilts(row, rows) if set(one.quilt) == {row - a, row + b}]
    return len(quilt.nearby), len(quilt.quilt), len(remote_rows(quilt, rows))


def transferred_radius(rows: int, *, answers: int, scale: float) -> float:
    """Return the radius of S1 for Gaussian noise, at 95 %."""
    return transfer_radius(
        lambda alpha: gaussian_exceedance(alpha=alpha, scale=scale, answers=answers),
        GaussianCurve(math.sqrt(answers) / (rows * scale)),
        confidence=0.95,
    ).radius


def tuned_radius(mechanism: type[Any], **plan: Any) -> float:
    """Return the half-width that a mechanism promises for a plan, for all answers at once at 95 %."""
    return float(mechanism.tuned(**plan).promise().radius)


def mean_after_answers(queries: int, *, rows: int) -> tuple[float, float]:
    """Return the worst error of plain averages and the sealed radius, if the best-fitting query is picked.

    The analyst asks about random rules for fair labels, lets those with a score above one half vote, and asks for the
    score of the vote, which is one half in the population.
    """
    rng = np.random.default_rng(3)
    labels, rules = rng.integers(0, 2, rows), rng.integers(0, 2, (queries, rows), dtype=np.int8)
    lucky = rules[(rules == labels).mean(axis=1) > 0.5]
    plain = abs(((lucky.mean(axis=0) > 0.5) == labels).mean() - 0.5)
    return float(plain), eh.GuessAndCheck.tuned(rows=rows, queries=queries + 1, surprises=1).promise().radius


def median_by_gradients(rows: int, *, steps: int) -> tuple[float, float]:
    """Return the median of normal numbers around 0.3 by noisy gradients, and its promised regret.

    A simulation of `everhold.minimise` with seeded noise and constant steps.
    """
    rng = np.random.default_rng(4)
    numbers = rng.normal(0.3, 0.5, rows)
    budget = eh.PrivacyBudget.tuned(rows=rows, queries=steps)
    within = 2.0 * VectorNoise(budget, 1).radius_at(budget.scale)
    place, places, answers = 0.0, [], []
    for _ in range(steps):
        answer = float(np.sign(place - numbers).mean() + 2.0 * budget.scale * rng.normal())
        places.append([place])
        answers.append([answer])
        place = min(1.0, max(-1.0, place - answer / math.sqrt(steps)))
    regret = gradient_regret(places, answers, [within] * steps, start=[0.0], radius=1.0, clip=1.0)
    return float(np.mean(places)), regret


def regret_of_a_choice(rows: int, *, candidates: int, epsilon: float) -> float:
    """Return the population regret of the candidate that permute-and-flip chooses, at 95 %."""
    mechanism = PermuteAndFlip(epsilon)
    return minimisation_radius(
        lambda alpha: mechanism.exceedance(alpha, candidates=candidates, steps=rows * 2**30),
        mechanism.curve(),
        confidence=0.95,
    ).radius


def vector_radius(rows: int, *, queries: int, dimension: int) -> float:
    """Return the Euclidean half-width of a gradient, in units of twice the clipping length."""
    budget = eh.PrivacyBudget.tuned(rows=rows, queries=queries)
    return VectorNoise(budget, dimension).radius_at(budget.scale)


@lru_cache(maxsize=1)
def asked() -> dict[str, float]:
    """Return the answers of a sealed holdout to the examples of Lecture 23, all by confirmed guesses."""
    rng = np.random.default_rng(5)

    def part(count: int) -> dict[str, NDArray[np.float64]]:
        x = np.clip(rng.normal(0.0, 1.0, count), -3, 3)
        return {"x": x, "y": (x + rng.normal(0.0, 1.0, count) > 0).astype(np.float64)}

    with (
        tempfile.TemporaryDirectory() as folder,
        eh.Holdout.create(
            Path(folder) / "s.db", "examples", holdout=part(20_000), training=part(20_000), label="y", queries=50,
            mechanism="guess_and_check",
        ) as holdout,
    ):  # fmt: skip
        found = {
            "mean": holdout.ask(eh.mean("x", low=-3, high=3)),
            "variance": holdout.ask(eh.variance("x", low=-3, high=3)),
            "correlation": holdout.ask(eh.correlation("x", "y", low=-3, high=3, other_low=0, other_high=1)),
            "error": holdout.ask(eh.error("x > 0")),
        }
        entries = len(holdout.transcript())
    return {"entries": entries, **{name: float(answer.value or math.nan) for name, answer in found.items()}}


def answer(kind: str) -> float:
    """Return one number from the results of `asked`, such as ``mean``, ``variance`` or ``entries``."""
    return asked()[kind]
