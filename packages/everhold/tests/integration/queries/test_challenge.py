"""Paired gains, and which procedure judges them: decided by public facts before anybody looks."""

import numpy as np
import pytest

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.gates.candidates import Candidate, metric_of, paired
from everhold.guarantees.intervals.betting import Betting, GroupBetting
from everhold.guarantees.intervals.means import Chernoff, Hoeffding, SignTest

ROWS = 1_800


def made(folder, *, label="binary", dependence=None, training=True):
    rng = np.random.default_rng(0)
    kinds = {
        "binary": lambda: rng.integers(0, 2, ROWS),
        "text": lambda: rng.choice(np.array(["a", "b", "c"]), ROWS),
        "number": lambda: rng.normal(size=ROWS),
    }

    def table(first):
        day = np.arange(ROWS) // 3 + first
        return {"x": rng.normal(size=ROWS), "day": day, "y": kinds[label]()}

    later = 0 if dependence is None else 10_000  # whole days on one side only where they are declared

    return eh.Holdout.create(
        f"sqlite:///{folder}/s.db",
        "s",
        holdout=table(0),
        training=table(later) if training else None,
        label="y",
        mechanism="guess_and_check",
        queries=50,
        **settings_from(
            {
                **({} if dependence is None else {"dependence": dependence}),
                "surprises": 3,
                "classes": ["a", "b", "c"] if label == "text" else None,
            }
        ),
    )


def procedure(holdout, metric, champion, challenger, *, training=(None, None)):
    compiler, measure = holdout._executor.compiler, metric_of(metric)
    first, second = (
        Candidate.prepared(measure, candidate, trained, compiler)
        for candidate, trained in zip((champion, challenger), training, strict=True)
    )
    kept = first.as_champion(holdout._executor.sealed, unit=holdout._executor.mechanism.unit)
    return second.against(kept, measure, compiler).procedure


CLASSES = np.arange(ROWS) % 2


def test_two_public_arrays_for_two_classes_have_the_sign_test_on_where_they_differ(tmp_path):
    other = CLASSES.copy()
    other[:40] = 1 - other[:40]
    with made(tmp_path) as holdout:
        found = procedure(holdout, "accuracy", CLASSES, other)
    assert isinstance(found, SignTest)
    assert found.differing == 40


def test_gains_on_training_rows_are_bet_on(tmp_path):
    with made(tmp_path) as holdout:
        found = procedure(holdout, "brier", 0.5 + 0.0 * CLASSES, 0.4 + 0.0 * CLASSES, training=(CLASSES, 1 - CLASSES))
        assert isinstance(found, Betting)
        assert found.training.counts.sum() == ROWS
        assert 0.2 * ROWS < found.prediction.spread(0.5) <= 0.25 * ROWS + 1.0


def test_two_public_arrays_say_how_far_gains_can_spread(tmp_path):
    with made(tmp_path, training=False) as holdout:
        near = procedure(holdout, "brier", np.full(ROWS, 0.5), np.full(ROWS, 0.51))
        far = procedure(holdout, "brier", np.full(ROWS, 0.1), np.full(ROWS, 0.9))
        assert isinstance(near, Betting)
        assert near.worth > 100.0 * far.worth
        assert isinstance(procedure(holdout, "accuracy", CLASSES, 1 - CLASSES), SignTest)


def test_more_classes_are_bet_on_where_predictions_differ(tmp_path):
    with made(tmp_path, label="text", training=False) as holdout:
        names = np.array(["a", "b", "c"])
        first, second = names[np.arange(ROWS) % 3], names[np.arange(ROWS) % 3].copy()
        second[:30] = np.roll(second, 1)[:30]
        found = procedure(holdout, "accuracy", first, second)
        assert isinstance(found, Betting)
        assert found.prediction.mean == pytest.approx(0.5)
        assert found.prediction.spread(0.5) < 0.1 * ROWS


def test_without_any_public_spread_it_is_chernoff(tmp_path):
    with made(tmp_path, label="number", training=False) as holdout:
        found = procedure(holdout, lambda p: eh.risk(p, "squared", high=4.0), np.zeros(ROWS), np.ones(ROWS))
        assert isinstance(found, Chernoff)


def test_groups_are_bet_on_by_their_sums_and_without_training_rows_hoeffding_holds(tmp_path):
    groups = eh.Groups("day")
    with made(tmp_path, dependence=groups) as holdout:
        found = procedure(holdout, "brier", np.full(ROWS, 0.5), np.full(ROWS, 0.4), training=(CLASSES, 1 - CLASSES))
        assert isinstance(found, GroupBetting)
        assert found.sizes == ((3, ROWS // 3),)
        assert isinstance(procedure(holdout, "accuracy", CLASSES, 1 - CLASSES), Hoeffding)
        assert not holdout.gate("accuracy", champion=CLASSES).challenge(1 - CLASSES).promoted


@pytest.mark.parametrize("rises", [True, False])
def test_paired_values_are_half_at_equality_and_rounded_down(rises):
    rng = np.random.default_rng(1)
    unit = 7
    challenger, champion = rng.integers(0, unit + 1, (2, 500))
    values = paired(challenger, champion, rises=rises, unit=unit)
    exact = (1.0 + (challenger - champion) / unit * (1 if rises else -1)) / 2.0
    assert np.all((values / unit <= exact) & (exact < (values + 1) / unit))
    assert np.all((values >= 0) & (values <= unit))
