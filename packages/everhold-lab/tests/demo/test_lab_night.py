"""A night against a bare score and one against a gate: the first climbs on luck, the second cannot."""

from itertools import pairwise

import numpy as np
import pytest

from everhold_lab.charts import night_chart
from everhold_lab.demo.night import Model, Night, play

SMALL = Night(rows=1_500, fresh=20_000, features=5, proposals=250, ideas=0.04)


@pytest.fixture(scope="module")
def nights():
    moments = play(SMALL)
    judges = list(dict.fromkeys(moment.judge for moment in moments))
    return [[moment for moment in moments if moment.judge == judge] for judge in judges]


def test_a_rule_is_the_model():
    table = Night().table(500, part=7)
    model = Model({"f0": 1.0, "f1": -0.25}, (("f2", 0.0, 0.5), ("f2", 0.25, 1.0)))
    turned = (table["f2"] >= 0.0) & (table["f2"] < 0.25) | (table["f2"] > 0.5) & (table["f2"] <= 1.0)
    assert np.array_equal(model.predict(table), (table["f0"] - 0.25 * table["f1"] > 0) ^ turned)
    assert model.rule() == (
        "((1.0 * f0 + -0.25 * f1 > 0) <> (f2 between 0.0 and 0.5)) <> (f2 between 0.25 and 1.0)"
    )  # fmt: skip


def test_the_features_that_matter_are_a_setting():
    alike, usual = (night.table(20_000, part=7) for night in (Night(matter=(1.0,) * 5), Night()))
    signs = [2.0 * table["label"] - 1.0 for table in (alike, usual)]
    counts = [np.mean(table["f4"] * sign) for table, sign in zip((alike, usual), signs, strict=True)]
    assert counts == pytest.approx([np.sqrt(2 / np.pi / 6), 0.0], abs=0.02)  # one of six shares of the score


def test_a_bare_score_climbs_away_from_the_truth(nights):
    """The protection removed: the same agent on the same rows, told the score."""
    bare, _ = nights
    assert sum(moment.promoted for moment in bare) > 10
    assert all(after.reported >= before.reported for before, after in pairwise(bare))
    assert bare[-1].reported - bare[-1].truth > bare[0].reported - bare[0].truth + 0.02
    lost = [before.truth > after.truth for before, after in pairwise(bare) if after.promoted]
    assert np.mean(lost) > 0.5  # of what the score liked


def test_every_promotion_of_the_gate_is_a_real_step_and_nobody_is_told_a_score(nights):
    _, gate = nights
    assert all(moment.reported is None for moment in gate)
    promoted = [place for place, moment in enumerate(gate) if moment.promoted]
    assert promoted
    assert all(gate[place].truth > gate[place - 1].truth for place in promoted)
    assert gate[-1].proposals == SMALL.proposals


def test_the_picture_has_a_panel_for_each_judge_and_a_dot_for_each_promotion(nights):
    drawn = night_chart([*nights[0], *nights[1]]).to_dict()
    values = next(iter(drawn["datasets"].values())) if "datasets" in drawn else drawn["data"]["values"]
    assert {value["judge"] for value in values} == {"a bare test set", "a gate on the same rows"}
    assert "promoted" in str(drawn)
