"""The ends of scales: for every metric and a model that is as bad as can be, no interval ends where the truth does not.

A metric is on a scale from 0 to 1. Where the metric itself is unbounded, as R2, an end of the scale says nothing.
"""

import functools
import json
import math

import numpy as np
import pytest
from score_samples import CASES, RANGE, SEALED, TRAINED, amount, chances, classes, each_class, made, three

import everhold as eh
from everhold.queries.metrics.registry import METRICS

OPPOSITE = {
    classes: lambda table: 1 - classes(table),
    three: lambda table: np.array(["c", "a", "a"])[np.digitize(table["x"], [-0.5, 1.0])],
    chances: lambda table: 1.0 - chances(table),
    each_class: lambda table: each_class(table)[:, ::-1],
    amount: lambda table: -amount(table),
}
WIDE = {  # so that no loss is clipped, and scikit-learn's number is the one that is asked about
    "neg_log_loss": {"clip": 20.0}, "neg_mean_absolute_error": {"clip": 90.0}, "neg_mean_squared_error": {"clip": 8e3},
    "neg_root_mean_squared_error": {"clip": 8e3}, "r2": {"clip": 8e3}, "mape": {"clip": 5.0},
}  # fmt: skip


@pytest.mark.parametrize("label", ["y", "kind", "amount"])
def test_the_interval_of_every_metric_reaches_as_far_as_the_metric(tmp_path, label):
    with made(tmp_path, label) as holdout:
        asked = {}
        for name, (of, predict, score, numbers) in CASES.items():
            if of != label:
                continue
            worst = OPPOSITE[predict]
            numbers = {**numbers, **WIDE.get(name, {}), **(RANGE if label == "amount" else {})}
            query = eh.metric(name, worst(SEALED), training=worst(TRAINED), **numbers)
            quote, told = holdout.quote(query), holdout.ask(query)
            farthest = math.inf if told.low == -math.inf else max(told.value - told.low, told.high - told.value)
            assert quote.radius == pytest.approx(farthest) or (told.charged and math.isfinite(quote.radius)), name
            assert holdout.quote(query).radius == pytest.approx(farthest), name
            for said in (quote, told, holdout.quote(query)):
                json.dumps(said.to_dict(), allow_nan=False)
            asked[name] = query, told, float(score(SEALED[label], worst(SEALED)))
        holdout.unseal()
        for name, (query, told, true) in asked.items():
            assert told.low <= true <= told.high, name
            unsealed = holdout.ask(query)
            assert unsealed.sealed_low <= true + 1e-3 * abs(true), name
            assert true - 1e-3 * abs(true) <= unsealed.sealed_high, name
            if name == "r2":
                assert true < -1.0
                assert told.low == unsealed.sealed_low == unsealed.sealed == -math.inf
                assert "unsealed beyond the scale in [-inf, " in str(unsealed)
                (row,) = [each for each in holdout.unseal().rows if "r2" in each["asked"]]
                assert (row["sealed"], row["sealed_low"]) == (-math.inf, -math.inf)
                assert str(quote).startswith("within inf (about inf unsealed), costs")
                assert quote.to_dict()["radius"] is None
                assert told.to_dict()["low"] is unsealed.to_dict()["sealed_low"] is None
                listed = holdout.certificate().to_dict()["account"]["queries"]
                (row,) = [row for row in listed if "r2" in row["asked"]]
                assert (row["low"], row["unsealed"]["value"]) == ("-inf", "-inf")
                assert "beyond the scale</td>" in holdout.certificate().to_html().replace("</b>", "")
            else:
                assert math.isfinite(unsealed.sealed), name


def test_the_gain_of_a_gate_in_r2_has_no_ends(tmp_path):
    with made(tmp_path, "amount") as holdout:
        good, bad = (sign * SEALED["x"] for sign in (9.0, -9.0))
        gate = holdout.gate(lambda p: eh.metric("r2", p, **RANGE), champion=bad)
        assert gate.challenge(good).promoted
        (row,) = holdout.unseal().rows
        assert (row["sealed"], row["sealed_high"]) == (math.inf, math.inf)  # it is above 2, and not known
        assert 0.0 < row["sealed_low"] <= 2.0
        assert holdout.transcript().to_rows()[0]["sealed_high"] is None


@pytest.mark.parametrize("label", ["y", "amount"])
def test_the_unsealed_gain_of_every_gate_reaches_as_far_as_the_gain(tmp_path, label):
    """Both ways, as a gain and as a loss: an end of the scale at which a gain stops says nothing where it goes on."""
    with made(tmp_path, label) as holdout:
        gains = {}
        for name in METRICS.of_gates:
            of, predict, score, numbers = CASES.get(name, (None, None, None, None))
            if of != label:
                continue
            numbers = {**numbers, **WIDE.get(name, {}), **(RANGE if label == "amount" else {})}
            both = predict(SEALED), OPPOSITE[predict](SEALED)
            good, bad = (float(score(SEALED[label], each)) for each in both)
            for way, (first, second) in (("gain", both), ("loss", both[::-1])):
                metric = functools.partial(eh.metric, name, **numbers)
                holdout.gate(metric, champion=second, name=f"{name} {way}").challenge(first)
                sign = 1 if METRICS[name].greater else -1
                gains[f"gate '{name} {way}'"] = sign * (good - bad) * (1 if way == "gain" else -1)
        rows = {row["asked"].partition(":")[0]: row for row in holdout.unseal().rows}
        assert len(gains) > 4
        for gate, gain in gains.items():
            assert rows[gate]["sealed_low"] <= gain + 1e-3 * abs(gain), gate
            assert gain - 1e-3 * abs(gain) <= rows[gate]["sealed_high"], gate
