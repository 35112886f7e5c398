"""Clips: every answer about a clipped number names the clip, and the share of training rows beyond it."""

import warnings

import numpy as np
import pytest

import everhold as eh
from everhold.errors import ClippingWarning


def rows(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=2_000)
    y = (x + rng.normal(size=2_000) > 0.0).astype(int)
    return {"x": x, "y": y, "cost": rng.lognormal(0.0, 1.0, 2_000)}


SEALED, TRAINED = rows(0), rows(1)


def sure(table):
    """Chances of 1 or 0, of which a tenth or so is wrong."""
    return (table["x"] > 0.0).astype(float)


QUERIES = {
    "neg_log_loss": ("y", lambda: eh.metric("neg_log_loss", sure(SEALED), training=sure(TRAINED)), "losses above 6.9"),
    "mean": ("y", lambda: eh.mean("cost", low=0, high=2), "values below 0 count as 0, and above 2 as 2"),
    "unit": ("y", lambda: eh.mean("cost", low=0, high=1), "values below 0 count as 0, and above 1 as 1"),
    "given": ("y", lambda: eh.mean("cost", low=0, high=2, given="x > 0"), "above 2 as 2"),
    "rule": ("cost", lambda: eh.risk("x", "squared", high=1.0), "losses above 1"),
    "labels": ("cost", lambda: eh.metric("neg_mean_absolute_error", SEALED["x"], training=TRAINED["x"], low=0, high=1),
               "labels below 0 count as 0, and above 1 as 1"),
    "r2": ("cost", lambda: eh.metric("r2", SEALED["x"], training=TRAINED["x"], low=-9, high=60, clip=1.0),
           "squared errors above 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
def test_every_answer_names_its_clip_and_warns_where_rows_lie_beyond(tmp_path, name):
    label, make, clip = QUERIES[name]
    with eh.Holdout.create(
        tmp_path / "s.db", "x", holdout=SEALED, training=TRAINED, label=label, queries=20
    ) as holdout:
        with pytest.warns(ClippingWarning, match="of the training rows"):
            told = holdout.ask(make())
        assert clip in told.clipped
        assert "% of the training rows" in told.clipped
        for said in (str(told), told.explain(), told.to_dict()["clipped"]):
            assert clip in said
        assert any(clip in query["asked"] for query in holdout.certificate().to_dict()["account"]["queries"])
        with warnings.catch_warnings():
            warnings.simplefilter("error", ClippingWarning)
            assert holdout.ask(make()).clipped == told.clipped  # a repeat names it, and warns no more


def test_a_range_that_holds_all_rows_is_named_without_a_warning(tmp_path):
    with (
        eh.Holdout.create(tmp_path / "s.db", "x", holdout=SEALED, training=TRAINED, label="y", queries=9) as holdout,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error", ClippingWarning)
        assert "(none of the training rows)" in holdout.ask(eh.mean("cost", low=0, high=1_000)).clipped
        code = holdout.ask(eh.mean(lambda table: table["y"] / 2.0))
        assert code.clipped == "values below 0 count as 0, and above 1 as 1 (none of the training rows)"
        assert holdout.ask(eh.mean(lambda table: table["x"] > 0.0)).clipped == ""
        assert holdout.ask("cost > 1").clipped == ""
        for moment in (eh.variance("cost", low=0, high=1_000), eh.covariance("cost", "y > 0", low=0, high=1_000)):
            told = "values below 0 count as 0, and above 1000 as 1000 (none of the training rows)"
            assert holdout.ask(moment).clipped == told
        assert holdout.ask(eh.accuracy(sure(SEALED), training=sure(TRAINED))).clipped == ""
