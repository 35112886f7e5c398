"""Games about the AUC of groups at a probability of failure of .2, against an analyst who knows the population.

500 games of each kind: ``python packages/everhold/tests/statistical/test_area_of_groups_games.py`` (theory, AUC).
"""

import itertools
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from everhold.guarantees.intervals.ranking import GroupBlockBetting, SeenBlocks, blocks_of_four, seen_blocks
from everhold.mechanisms import GuessAndCheck, State
from everhold.mechanisms.records import Evaluations
from everhold.randomness import SeededNoise

PATIENTS = 120
VISITS = np.repeat([1, 2, 3, 6], PATIENTS // 4)
FRAIL = np.repeat([0.1, 0.3, 0.3, 0.7], PATIENTS // 4)  # the chance that a patient is frail depends on the visits
BY_FRAILTY, BY_LABEL = np.array([0.8, -0.4, 0.0]), np.array([0.9, 0.4, 0.0])
ILL = np.array([0.15, 0.7])  # the chance of label 1 of a visit, by frailty
MECHANISM = GuessAndCheck.tuned(rows=int(VISITS.sum()), queries=6, surprises=3, confidence=0.8)


def true_area(direction):
    """Of rows of different patients."""
    kind = np.stack([1.0 - FRAIL, FRAIL])
    positive, negative = VISITS * kind * ILL[:, None], VISITS * kind * (1.0 - ILL[:, None])
    pairs = np.outer(positive.sum(axis=1), negative.sum(axis=1)) - positive @ negative.T
    apart = BY_LABEL @ direction + (BY_FRAILTY @ direction) * np.array([[0.0, -1.0], [1.0, 0.0]])
    return float(np.sum(pairs * scipy.stats.norm.cdf(apart / np.sqrt(2.0))) / pairs.sum())


def sealed_rows(rng):
    """Features, labels and patients of a file that is sorted by the outcome."""
    frail = rng.random(PATIENTS) < FRAIL
    patient = np.repeat(np.arange(PATIENTS), VISITS)
    positive = rng.random(len(patient)) < ILL[frail[patient].astype(int)]
    features = rng.normal(size=(len(patient), 3)) + BY_FRAILTY * frail[patient, None] + BY_LABEL * positive[:, None]
    order = np.argsort(positive + 1e-3 * features[:, 0])
    return features[order], positive[order], patient[order]


def one_dealing_by_value(scores, positive, patient):
    """Pairs of patients whose scores are next to each other, and no others."""
    groups = np.argsort(np.argsort(np.bincount(patient, scores) / VISITS))[patient]
    pairs = [seen_blocks([scores[two]], positive[two], groups[two] % 2, np.arange(two.sum()))
             for two in (groups // 2 == number for number in range(PATIENTS // 2))]  # fmt: skip
    parts = [pair.units for pair in pairs]
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("sizes", "values", "counts")}
    return SeenBlocks(replace(parts[0], **joined), 0.1)


def game(rng, protection):
    """Whether some interval, told or unsealed, misses."""
    directions = [d / np.linalg.norm(d) for d in (BY_LABEL, *rng.normal(size=(4, 3)))]
    features, positive, patient = sealed_rows(rng)
    order, state = rng.permutation(len(patient)), State()
    for number, direction in enumerate(directions):
        scores, true = features @ direction, true_area(direction)
        if protection == "by value":
            seen = one_dealing_by_value(scores, positive, patient)
        else:
            seen = seen_blocks([scores], positive, patient, order)
        if protection == "multiplied":
            blocks = float(blocks_of_four(PATIENTS).shape[1])
            units = replace(seen.units, counts=seen.units.counts * blocks / seen.units.counts.sum())
            seen = replace(seen, units=units)
        guess = min(max(true + (0.0, -0.25)[number % 2], 0.0), 1.0)  # each second one is to be a surprise
        asked = Evaluations(
            totals=np.array([[int(seen.score * MECHANISM.steps)]]), guesses=np.array([round(guess * MECHANISM.steps)]),
            rows=MECHANISM.rows, unit=MECHANISM.unit, seen=[seen],
            procedures=[GroupBlockBetting.planned_by(None, sealed=MECHANISM.rows, planned=0, guess=guess)],
        )  # fmt: skip
        state, told = MECHANISM.answer_many(state, asked, SeededNoise(0))
        low, high = max(told.lows[0], told.sealed[0, 1]), min(told.highs[0], told.sealed[0, 2])
        if not low <= true <= high:
            return True
    return False


def failures(games, protection="kept", *, seed=1):
    rng = np.random.default_rng(seed)
    return sum(game(rng, protection) for _ in range(games))


def test_intervals_hold():
    assert failures(8) <= 4  # 5 of 8 have probability .01 at the bound


@pytest.mark.parametrize("removed", ["multiplied", "by value"])
def test_removed_protections_break_them(removed):
    """Capital multiplied over blocks that share groups; pairs of patients that were chosen by their scores."""
    assert failures(8, removed) >= 5


def patients(rng, likely, number=1_500):
    """Labels, scores of two models and patients, with correlations of .4 between visits of one patient."""
    patient = np.repeat(np.arange(number), np.maximum(rng.poisson(3, number), 1))

    def alike():
        return np.sqrt(0.4) * rng.normal(size=number)[patient] + np.sqrt(0.6) * rng.normal(size=len(patient))

    positive = alike() < scipy.stats.norm.ppf(likely)
    scores = 1.2 * positive + alike()
    return [scores, scores + 0.6 * rng.normal(size=len(scores))], positive, patient


def widths(draws=5):
    """Half-widths of one AUC and of a difference, and that of a cluster-robust interval with the same level."""
    for likely, nats in itertools.product((0.3, 0.1), (6.2, 12.1)):
        found = []
        for draw in range(draws):
            rng, made = np.random.default_rng(draw), []
            for _ in range(2):
                models, positive, patient = patients(rng, likely)
                order = rng.permutation(len(patient))
                made.append([seen_blocks(which, positive, patient, order) for which in (models[:1], models)])
            for training, sealed in zip(*made, strict=True):
                low, high = GroupBlockBetting.planned_by(training, sealed=1, planned=1).interval(sealed, nats)
                found += [(high - low) / 2.0, sealed.error * scipy.stats.norm.isf(np.exp(-nats) / 2.0)]
        one, robust, apart, robust_apart = np.reshape(found, (draws, 4)).mean(axis=0) * (1.0, 1.0, 2.0, 2.0)
        said = f"{one:.3f} | {robust:.3f} | {one / robust:.1f} | {apart:.3f} | {robust_apart:.3f}"
        sys.stdout.write(f"| {likely:g} | {nats:g} | {said} |\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["widths"]:
        widths()
    else:
        for protection in ("kept", "multiplied", "by value"):
            sys.stdout.write(f"{protection}: {failures(500, protection)} of 500\n")
