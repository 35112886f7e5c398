"""An analyst takes the best of many thresholds: its F1 is in the interval, and its regret is what was told at most."""

import tempfile

import numpy as np
import pytest

import everhold as eh
from everhold.queries.selection.choice import CandidatePairs

ROWS, CUTS = 300, np.linspace(0.1, 0.9, 9)


def chance(x):
    """Nearly the same F1 at many thresholds, so that the sealed rows decide which one wins."""
    return 1.0 / (1.0 + np.exp(-x))


def truth():
    x = np.random.default_rng(0).normal(size=2_000_000)
    p, found = chance(x), []
    for cut in CUTS:
        said = p >= cut
        found.append(2.0 * p[said].sum() / (said.sum() + p.sum()))
    return np.array(found)


TRUE = truth()


class Scores:
    """A model that has learned nothing, and knows the law."""

    feature_names_in_, classes_ = np.array(["x"]), np.array([0, 1])

    def predict(self, rows):
        return (self.predict_proba(rows)[:, 1] > 0.5).astype(int)

    def predict_proba(self, rows):
        p = chance(np.asarray(rows["x"]))
        return np.column_stack([1.0 - p, p])


def played(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=2 * ROWS)
    y = (rng.random(2 * ROWS) < chance(x)).astype(int)
    sealed, training = ({"x": x[part], "y": y[part]} for part in (slice(ROWS), slice(ROWS, None)))
    with tempfile.TemporaryDirectory() as folder, eh.Holdout.create(
        f"sqlite:///{folder}/t.db", "t", holdout=sealed, training=training, label="y", queries=3,
        planning=eh.Planning(allow_vacuous=True),
    ) as holdout:  # fmt: skip
        best = holdout.ask(eh.choose(eh.at_thresholds("f1", Scores(), CUTS), best="highest"))
    assert best.index is not None
    inside = best.low <= TRUE[best.index] and best.high >= TRUE.max()
    return inside and TRUE.max() - TRUE[best.index] <= best.regret


@pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning")
def test_the_regret_of_the_best_threshold_holds():
    assert all(played(seed) for seed in range(5))


@pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning")
def test_a_regret_without_an_interval_is_seen_to_fail(monkeypatch):
    monkeypatch.setattr(CandidatePairs, "largest", lambda *given, **named: 1e-6)  # the protection removed
    monkeypatch.setattr(CandidatePairs, "expected", lambda *given, **named: 1e-6)
    assert not all(played(seed) for seed in range(4))
