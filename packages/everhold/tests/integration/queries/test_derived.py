"""Shares of a share, and shares that sum to 1."""

import itertools
import math

import narwhals as nw
import numpy as np
import polars as pl
import pytest
from expression_frames import frame_totals
from hypothesis import given, settings
from hypothesis import strategies as st

from everhold import QueryRejected, mean
from everhold.queries.means.distribution import histogram, summed_to_one
from everhold.queries.means.plans import Estimate, estimate_between, share_of
from everhold.values.base import Schema
from everhold.values.evaluation import UNIT
from everhold.values.expressions import ColumnKind

SCHEMA = Schema(6, 0, {"x": ColumnKind.NUMBER, "kind": ColumnKind.STRING})
SHARES = st.tuples(*[st.floats(0, 1)] * 3).map(sorted)


@settings(max_examples=300, deadline=None)
@given(both=SHARES, selecting=SHARES, truth=st.data())
def test_the_interval_of_a_ratio_contains_every_ratio_of_values_in_both_intervals(both, selecting, truth):
    found = share_of(Estimate(both[1], both[0], both[2]), Estimate(selecting[1], selecting[0], selecting[2]))
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0
    below = truth.draw(st.floats(selecting[0], selecting[2]))
    above = truth.draw(st.floats(both[0], both[2]))
    if below > 0.0 and above <= below:
        assert found.low <= above / below <= found.high


def test_the_ends_of_a_ratio_are_attained():
    found = share_of(Estimate(0.2, 0.1, 0.3), Estimate(0.5, 0.4, 0.6))
    assert (found.low, found.high) == pytest.approx((0.1 / 0.6, 0.3 / 0.4), abs=1e-15)
    assert share_of(Estimate(0.0, 0.0, 0.1), Estimate(0.0, 0.0, 0.1)).high == 1.0


def test_an_interval_is_moved_outwards_and_kept_inside_its_range():
    assert estimate_between(0.5, 0.4, 0.6, least=0.0, most=1.0, slack=0.1) == Estimate(0.5, 0.4 - 0.1, 0.7)
    assert estimate_between(0.9, 0.0, 0.2, least=0.0, most=0.25, slack=0.1) == Estimate(0.25, 0.0, 0.25)
    for low, high in [(0.6, 0.4), (math.nan, math.nan)]:
        assert estimate_between(0.5, low, high, least=0.0, most=1.0, slack=1e-9) == Estimate(0.5, 0.0, 1.0)


def test_the_parts_of_a_conditional_mean_are_plain_queries():
    both, given_share = mean("x > 0", given="kind = 'a'").parts(SCHEMA)
    assert both.bind(SCHEMA).query == mean("kind = 'a' and x > 0").bind(SCHEMA).query
    assert given_share == mean("kind = 'a'")


# Histograms -----------------------------------------------------------------------------------------------------------

FRAME = pl.DataFrame(
    {"x": [-5.0, 0.0, 3.0, 10.0, 20.0, None], "kind": ["a", "b", "it's", None, "c", "a"]},
    schema={"x": pl.Float64, "kind": pl.String},
)


def counts(query):
    parts = query.shares(SCHEMA)
    totals = frame_totals(nw.from_native(FRAME), [part.bind(SCHEMA).row_value for part in parts.values()])
    return {name: total // UNIT for name, total in zip(parts, totals, strict=True)}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            histogram("x", [0, 3, 10]),
            {"below 0": 1, "[0.0, 3.0)": 1, "[3.0, 10.0]": 2, "above 10": 1, "missing": 1},
        ),
        (
            histogram("x", [-math.inf, 0, math.inf], missing=False),
            {"(-inf, 0.0)": 1, "[0.0, inf)": 4},
        ),
        (histogram("x", [-math.inf, math.inf]), {"(-inf, inf)": 5, "missing": 1}),
        (histogram("x + 0.5", np.array([1, 4])), {"below 1": 2, "[1.0, 4.0]": 1, "above 4": 2, "missing": 1}),
        (histogram("kind", ["a", "it's"]), {"a": 2, "it's": 1, "other": 2, "missing": 1}),
    ],
)
def test_every_row_is_in_exactly_one_bin(query, expected):
    assert counts(query) == expected
    assert sum(expected.values()) == (len(FRAME) if query.missing else 5)


@pytest.mark.parametrize(
    ("bins"),
    [
        [],
        [1],
        [1, 1],
        [2, 1],
        [0, math.nan],
        ["a", "a"],
        ["a", 1],
        ["other"],
        [None, 1],
        list(range(300)),
        [0, 10**400],
    ],
)
def test_what_are_no_bins_is_rejected(bins):
    with pytest.raises(QueryRejected):
        histogram("x", bins)


@pytest.mark.parametrize(("text", "bins"), [("kind", [0, 1]), ("x", ["a"]), ("unknown", [0, 1]), ("x > 1", [0, 1])])
def test_bins_that_do_not_fit_the_text_are_rejected(text, bins):
    with pytest.raises(QueryRejected):
        histogram(text, bins).parts(SCHEMA)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**9), missing=st.booleans())
def test_shares_that_sum_to_one_make_each_other_narrower_and_stay_true(seed, missing):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(4, 0.5))
    shares = shares if missing else shares * rng.random()
    lows = np.maximum(shares - 0.3 * rng.random(4), 0.0)
    highs = np.minimum(shares + 0.3 * rng.random(4), 1.0)
    ends = summed_to_one(lows.tolist(), highs.tolist(), missing=missing)
    for share, before_low, before_high, (low, high) in zip(shares, lows, highs, ends, strict=True):
        assert before_low <= low <= share + 1e-14
        assert share - 1e-14 <= high <= before_high


def test_the_narrowed_ends_are_attained():
    lows, highs = [0.5, 0.0, 0.1], [0.6, 0.3, 0.2]
    grid = np.linspace(0, 1, 101)
    sums = [
        shares
        for shares in itertools.product(grid, grid, grid)
        if abs(sum(shares) - 1) < 1e-9
        and all(low - 1e-9 <= s <= high + 1e-9 for low, s, high in zip(lows, shares, highs, strict=True))
    ]
    for place, (low, high) in enumerate(summed_to_one(lows, highs, missing=True)):
        assert low == pytest.approx(min(shares[place] for shares in sums), abs=1e-9)
        assert high == pytest.approx(max(shares[place] for shares in sums), abs=1e-9)


def test_shares_that_contradict_each_other_are_left_alone():
    assert summed_to_one([0.9, 0.9], [1.0, 1.0], missing=True) == [(0.9, 1.0), (0.9, 1.0)]
