"""Non-inferiority: the verdict of a comparison with a margin is what its interval proves, for no further charge."""

import itertools

import numpy as np
import pytest
from score_samples import SEALED, classes, made

import everhold as eh
from everhold.asking.model_scores import MarginVerdict


@pytest.fixture(scope="module")
def holdout(tmp_path_factory):
    with made(tmp_path_factory.mktemp("margins"), "y") as holdout:
        yield holdout


def test_a_verdict_is_never_wrong_where_the_interval_is_right(holdout):
    """All verdicts of all intervals on a grid, for every difference inside, and both directions of a metric."""
    answer = holdout.ask(eh.accuracy("x > 1"))
    from dataclasses import replace

    grid = [tick / 4 for tick in range(-4, 5)]
    for low, high, margin, greater in itertools.product(grid, grid, (0.0, 0.25, 0.5), (True, False)):
        if low > high:
            continue
        told = MarginVerdict.of(replace(answer, low=low, high=high), margin, greater=greater).verdict
        better = [apart if greater else -apart for apart in grid if low <= apart <= high]
        assert told != "not worse" or min(better) > -margin
        assert told != "worse" or max(better) < -margin
        assert told == "undecided" or min(better) > -margin or max(better) < -margin


def test_verdicts_of_models_and_losses(holdout):
    good, bad = classes(SEALED), 1 - classes(SEALED)
    for metric, first, second, expected in (
        ("accuracy", good, bad, "not worse"), ("accuracy", bad, good, "worse"), ("error", bad, good, "worse"),
        ("balanced_accuracy", good, bad, "not worse"),
    ):  # fmt: skip
        verdict = holdout.compare(first, second, metric, margin=0.02, guess=0.0)
        assert verdict.verdict == expected
        assert verdict.to_dict()["verdict"] == expected
    assert holdout.compare(good, np.roll(good, 1), "f1", margin=0.0, guess=0.3, where="x < 0.9").verdict == "undecided"


def test_margins_that_cannot_be_meant_cost_nothing(holdout):
    before, good = holdout.remaining, classes(SEALED)
    for margin, terms, words in (
        (-0.1, {}, "margin is -0.1"), (float("nan"), {}, "margin is nan"), (0.1, {"silent": True}, "silent comparison"),
    ):  # fmt: skip
        with pytest.raises(eh.QueryRejected, match=words):
            holdout.compare(good, 1 - good, margin=margin, guess=0.0, **terms)
    assert holdout.remaining == before


def test_an_unsealed_comparison_is_judged_by_its_narrower_interval(tmp_path):
    good, other = classes(SEALED), np.where(np.arange(len(classes(SEALED))) % 9, classes(SEALED), 1 - classes(SEALED))
    with made(tmp_path, "y") as holdout:
        told = holdout.compare(other, good, "accuracy", margin=0.0, guess=0.0).answer
        silent = holdout.compare(good, np.roll(good, 1), "accuracy", silent=True, guess=0.0)
        assert silent.value is None
        holdout.unseal()
        margin = -(told.low + holdout.compare(other, good, "accuracy", guess=0.0).sealed_low) / 2.0
        assert told.low < -margin  # which the told interval leaves open
        assert holdout.compare(other, good, "accuracy", margin=margin, guess=0.0).verdict == "not worse"
        assert holdout.compare(good, np.roll(good, 1), "accuracy", margin=0.9, guess=0.0).verdict == "not worse"
