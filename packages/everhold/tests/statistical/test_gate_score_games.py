"""Games about gates that compare scores by name, at a probability of failure of .2.

Labels are drawn anew on rows whose chances the analyst knows. So each true score is known, and no challenger is truly
better than the champion. A longer run: ``python packages/everhold/tests/statistical/test_gate_score_games.py 40``; its
numbers are in docs/theory/gates.md.
"""

import math
import sys

import numpy as np
import pytest
import scipy.stats
from test_score_games import ROWS, SETTINGS, chances, predictions, true_score

import everhold as eh
from everhold.guarantees.intervals.gains import ClassGains, SeenClasses
from everhold.guarantees.intervals.ranking import RankDifference, SeenScores
from everhold.mechanisms import GuessAndCheck, Source, State
from everhold.mechanisms.records import Evaluations
from everhold.queries.metrics.measures import measure_of
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.score_parts import Judged, Sized
from everhold.randomness import SeededNoise

BETA, GROUP = 0.2, 6
POPULATIONS = ("fair", "skewed", "rare", "tied", "clustered")
OF_PARTS = ("balanced_accuracy", "matthews_corrcoef", "r2", "neg_root_mean_squared_error", "neg_mean_absolute_error")
SCORED = (*OF_PARTS, "f1_weighted", "f1_macro", "roc_auc")


def true_area(scores, p):
    ranks = scipy.stats.rankdata(scores) / len(p)
    return float(p @ ranks / p.sum()) / (1.0 - p.mean())  # but for a constant


def true_of(name, outputs, p):
    """The true score, the higher the better; of an AUC all but a constant."""
    if name == "roc_auc":
        return true_area(outputs, p)
    zero, one = METRICS[name].ends(SETTINGS)
    return math.copysign(1.0, one - zero) * true_score(measure_of(METRICS[name]), outputs, p, SETTINGS)


def reader(name, labels, challenger, champion, groups):
    """Procedure of the gain and its input, of public predictions."""
    if name == "roc_auc":
        apart = (scipy.stats.rankdata(challenger) - scipy.stats.rankdata(champion)) / ROWS
        reach, positive = max(float(np.abs(apart).max()), 1.0 / ROWS), labels == 1.0
        share = float(positive.mean())
        mean = (1.0 + apart[positive].mean() / (1.0 - share)) / 2.0 if 0.0 < share < 1.0 else 0.5
        seen = SeenScores(mean, (1.0 + apart[positive] / reach) / 2.0, share)
        return RankDifference(share * ROWS, None, ROWS, 0.2, reach), seen
    if name.startswith("f1"):
        procedure = ClassGains("f1", ROWS, name == "f1_weighted")
        return procedure, SeenClasses.of(labels, challenger, champion, 2)
    kind, zero_one = measure_of(METRICS[name]), METRICS[name].ends(SETTINGS)
    both = (challenger, champion) if zero_one[1] > zero_one[0] else (champion, challenger)
    reach, largest = kind.reach(*both, SETTINGS), 1.0 if groups is None else float(GROUP)

    def see(told):
        rows = [Judged(each, told, groups) for each in both]
        return kind.see_difference(*rows, SETTINGS, largest, reach=reach)

    planned = see(np.round(np.clip(champion, 0.0, 1.0)))
    return kind.procedure(planned, SETTINGS, Sized(ROWS, ROWS, ROWS, largest), reach=reach), see(labels)


def promoted(mechanism, state, procedure, seen):
    """The state after a challenge of a margin of 0, and whether it was promoted."""
    asked = Evaluations(
        totals=np.array([[mechanism.steps // 2]]), guesses=np.array([-1]), rows=ROWS, unit=mechanism.unit,
        procedures=[procedure], seen=[seen], margins=np.array([0.5 + mechanism.row_step]),
    )  # fmt: skip
    state, told = mechanism.answer_many(state, asked, SeededNoise(0))
    return state, told.sources[0] == Source.PROMOTED


def sealed_gain(procedure, seen):
    """The gain of the sealed rows."""
    if isinstance(procedure, ClassGains):
        return procedure.gain(seen)
    return 2.0 * seen.score - 1.0


def lost(seed, name, population, *, challenges, protected=True, sealed=False):
    """True if a challenger is promoted that is no better.

    Without protection each one has all of the probability, or is judged by the gain of the sealed rows.
    """
    rng, clustered = np.random.default_rng([seed, 7]), population == "clustered"
    size = GROUP if clustered else 1
    p = chances(rng, "tied" if clustered else population)
    p, groups = np.repeat(p[::size], size), np.arange(ROWS) // size if clustered else None
    labels = np.repeat(rng.random(ROWS // size) < p[::size], size).astype(float)
    kind = measure_of(METRICS["neg_brier_score" if name == "roc_auc" else name])
    mechanism, state = GuessAndCheck.tuned(rows=ROWS, queries=challenges, confidence=1.0 - BETA), State()
    champion = np.repeat(predictions(rng, kind, p)[::size], size)
    for _ in range(challenges):
        changed = np.repeat(rng.random(ROWS // size) < 0.3, size)
        anew = 1.0 - champion if population == "fair" else np.repeat(predictions(rng, kind, p)[::size], size)
        other = np.where(changed, anew, champion)  # of fair labels as good as the champion, but for F1
        better = true_of(name, other, p) > true_of(name, champion, p)
        both = (champion, other) if better else (other, champion)  # the first one is no better
        procedure, seen = reader(name, labels, *both, groups)
        if sealed:
            won = sealed_gain(procedure, seen) > 0.0
        elif protected:
            state, won = promoted(mechanism, state, procedure, seen)
        else:
            won = procedure.interval(seen, -math.log(BETA) - math.log(2.0))[0] > 0.5
        if won:
            return True
    return False


def played(name):
    """Populations of a score: rows of groups only for those that follow from parts."""
    return POPULATIONS if name in OF_PARTS else POPULATIONS[:-1]


@pytest.mark.parametrize("name", SCORED)
def test_no_challenger_is_promoted_that_is_no_better(name):
    assert sum(lost(seed, name, population, challenges=6) for population in played(name) for seed in range(2)) <= 5


@pytest.mark.parametrize("name", ["roc_auc", "r2", "neg_mean_absolute_error"])
def test_without_levels_for_each_challenge_games_are_lost(name):
    """The protection removed: adaptivity has no price."""
    assert sum(lost(seed, name, "fair", challenges=100, protected=False) for seed in range(3)) >= 2


@pytest.mark.parametrize("name", SCORED)
def test_judged_by_the_sealed_rows_alone_games_are_lost(name):
    """The protection removed: no limit, but the gain itself."""
    assert sum(lost(seed, name, "fair", challenges=8, sealed=True) for seed in range(4)) >= 3


@pytest.mark.parametrize("name", ["roc_auc", "neg_mean_absolute_error"])
@pytest.mark.parametrize("protected", [True, False])
def test_luck_is_promoted_by_a_gate_without_protection_alone(tmp_path, monkeypatch, name, protected):
    """Predictions that say nothing of fair labels. Without protection nearly any gain of the sealed rows is enough."""
    rng = np.random.default_rng(5)
    rows = {"x": rng.normal(size=600), "y": rng.integers(0, 2, 600)}
    with eh.Holdout.create(
        f"sqlite:///{tmp_path}/s.db", "s", holdout=rows, label="y", mechanism="guess_and_check", queries=60,
        confidence=1.0 - BETA, rows=eh.Rows(features="public"),
    ) as holdout:  # fmt: skip
        gate = holdout.gate(name, champion=rng.random(600))
        if not protected:
            monkeypatch.setattr(GuessAndCheck, "nats", lambda _, asked, *__: np.full(np.shape(asked), 0.1))
        promotions = sum(gate.challenge(rng.random(600)).promoted for _ in range(60))
    assert (promotions == 0) is protected


def main():
    """Play longer games and print how many were lost."""
    games = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    for name in SCORED:
        many = played(name)
        kept = [lost(seed, name, many[seed % len(many)], challenges=30) for seed in range(games)]
        bare = [lost(seed, name, "fair", challenges=100, protected=False) for seed in range(max(games // 10, 1))]
        sys.stdout.write(f"{name}: lost {sum(kept)} of {len(kept)}; without levels {sum(bare)} of {len(bare)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
