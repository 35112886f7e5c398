"""Variance, deviation, Sharpe ratio, covariance, correlation: the right row values, and the range over the box."""

import math

import narwhals as nw
import numpy as np
import polars as pl
import pytest
from expression_frames import frame_totals
from hypothesis import given, settings
from hypothesis import strategies as st

from everhold import QueryRejected
from everhold.queries.makers import mean
from everhold.queries.means.distribution import (
    correlation,
    covariance,
    sharpe_ratio,
    standard_deviation,
    variance,
)
from everhold.queries.means.plans import Estimate
from everhold.values.base import Schema
from everhold.values.evaluation import UNIT
from everhold.values.expressions import ColumnKind

SCHEMA = Schema(8, 0, {"x": ColumnKind.NUMBER, "y": ColumnKind.NUMBER, "late": ColumnKind.BOOLEAN})
FRAME = pl.DataFrame(
    {
        "x": [1.0, -50.0, 7.5, None, math.nan, math.inf, 3.0, -4.0],
        "y": [2.0, 9.0, -1.0, 0.5, 4.0, None, 11.0, 3.0],
        "late": [True, False, None, True, True, False, False, True],
    }
)
X = np.clip([1.0, -50.0, 7.5, -10.0, -10.0, 10.0, 3.0, -4.0], -10, 10)
Y = np.clip([2.0, 9.0, -1.0, 0.5, 4.0, 0.0, 11.0, 3.0], 0, 8)
LATE = np.array([1, 0, 0, 1, 1, 0, 0, 1.0])


def exactly(query):
    """The parameter of the rows of FRAME, from exact means."""
    bound = query.bind(SCHEMA)
    values = [part.bind(SCHEMA).row_value for part in bound.parts]
    means = np.array(frame_totals(nw.from_native(FRAME), values)) / (UNIT * len(FRAME))
    return bound.combine([Estimate(m, m, m) for m in means])


LITERALS = ", ".join(map(str, range(600)))
RANGES = {"low": -10, "high": 10, "other_low": 0, "other_high": 8}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (variance("x", low=-10, high=10), X.var()),
        (variance("late"), LATE.var()),
        (standard_deviation("x", low=-10, high=10), X.std()),
        (sharpe_ratio("x", low=-10, high=10), X.mean() / X.std()),
        (sharpe_ratio("late"), LATE.mean() / LATE.std()),
        (variance("x > 2"), np.var([0, 0, 1, 0, 0, 1, 1, 0])),
        (covariance("x", "y", **RANGES), np.cov(X, Y, bias=True)[0, 1]),
        (covariance("late", "x", other_low=-10, other_high=10), np.cov(LATE, X, bias=True)[0, 1]),
        (covariance("late", "x > 2"), np.cov(LATE, [0, 0, 1, 0, 0, 1, 1, 0], bias=True)[0, 1]),
        (covariance("x", "x", low=-10, high=10, other_low=-10, other_high=10), X.var()),
        (correlation("x", "y", **RANGES), np.corrcoef(X, Y)[0, 1]),
        (correlation("late", "y", other_low=0, other_high=8), np.corrcoef(LATE, Y)[0, 1]),
        (correlation("late", "not late"), np.corrcoef(LATE, [0, 1, 0, 0, 0, 1, 1, 0])[0, 1]),
    ],
)
def test_exact_means_give_the_exact_parameter_with_missing_values_as_low(query, expected):
    found = exactly(query)
    assert found.value == pytest.approx(expected, abs=2e-7 * max(1.0, abs(expected)))
    assert found.low <= found.value <= found.high
    assert found.high - found.low < 1e-6


def test_the_number_of_queries_and_what_they_share():
    schema_parts = {
        query: [part.bind(SCHEMA).query for part in query.parts(SCHEMA)]
        for query in (
            variance("late"), variance("x", low=0, high=1), covariance("late", "x > 2"),
            correlation("late", "x > 2"), correlation("late", "x", other_low=0, other_high=1),
            correlation("x", "y", low=0, high=1, other_low=0, other_high=1),
        )
    }  # fmt: skip
    assert [len(parts) for parts in schema_parts.values()] == [1, 2, 3, 3, 4, 5]
    assert mean("x", low=0, high=1).bind(SCHEMA).query == schema_parts[variance("x", low=0, high=1)][0]
    assert set(schema_parts[variance("x", low=0, high=1)]) < set(
        schema_parts[correlation("late", "x", other_low=0, other_high=1)]
    )


def test_spellings_share_a_digest_and_kinds_do_not():
    def fingerprint(query):
        bound = query.bind(SCHEMA)
        parts = getattr(bound, "parts", None)
        return bound.query if parts is None else bound.query([part.bind(SCHEMA).query for part in parts])

    assert fingerprint(variance("X", low=0, high=1)) == fingerprint(variance(" x ", low=0.0, high=1.0))
    different = [
        variance("x", low=0, high=1), variance("x", low=0, high=2), covariance("late", "x > 2"),
        correlation("late", "x > 2"), variance("late"), mean("late"), mean("late", given="x > 2"),
        standard_deviation("x", low=0, high=1), sharpe_ratio("x", low=0, high=1),
    ]  # fmt: skip
    assert len({fingerprint(query) for query in different}) == len(different)


@pytest.mark.parametrize(
    "query",
    [
        variance("x"),
        variance("late", low=0, high=2),
        variance("x", low=1, high=0),
        variance("x", low=-1e200, high=1e200),
        variance("x", low=0, high=1e-160),
        covariance("late", "x"),
        correlation("unknown", "late"),
        correlation("x", "y", low=0, high=1),
        variance("+".join(["x"] * 199), low=0, high=1),
        covariance(f"x in ({LITERALS})", f"y in ({LITERALS.replace(', ', '.5, ')})"),
    ],
)
def test_what_cannot_be_asked_is_rejected(query):
    with pytest.raises(QueryRejected):
        query.bind(SCHEMA)


def test_expressions_that_are_long_by_themselves_can_be_asked():
    assert len(variance("+".join(["x"] * 150), low=0, high=1).parts(SCHEMA)) == 2
    assert len(variance(f"x in ({LITERALS})").parts(SCHEMA)) == 1


# The range over the box -----------------------------------------------------------------------------------------------

PLAIN = Schema(8, 0, {"u": ColumnKind.NUMBER, "v": ColumnKind.NUMBER})
UNIT_RANGES = {"low": 0, "high": 1, "other_low": 0, "other_high": 1}
KINDS = {
    "variance": variance("u", low=0, high=1),
    "standard_deviation": standard_deviation("u", low=0, high=1),
    "sharpe_ratio": sharpe_ratio("u - 0.4", low=-0.4, high=0.6),
    "covariance": covariance("u", "v", **UNIT_RANGES),
    "correlation": correlation("u", "v", **UNIT_RANGES),
}


def law(rng, points=6):
    """A law on the unit square, often near its corners, and the means of the five parts."""
    p = rng.dirichlet(np.full(points, rng.choice([0.2, 1.0])))
    u, v = rng.beta(*rng.choice([0.2, 1.0, 5.0], 2), (2, points))
    if rng.random() < 0.3:
        v = u if rng.random() < 0.5 else 1.0 - u
    means = {
        "u": p @ u, "v": p @ v, "product": (p @ ((2 * u - 1) * (2 * v - 1)) + 1) / 2,
        "spread_u": p @ (4 * u * (1 - u)), "spread_v": p @ (4 * v * (1 - v)),
    }  # fmt: skip
    centred_u, centred_v = u - means["u"], v - means["v"]
    deviations = math.sqrt(p @ centred_u**2), math.sqrt(p @ centred_v**2)
    truth = {"variance": deviations[0] ** 2, "covariance": p @ (centred_u * centred_v)}
    if min(deviations) > 1e-6:
        truth["standard_deviation"], truth["sharpe_ratio"] = deviations[0], (means["u"] - 0.4) / deviations[0]
        truth["correlation"] = truth["covariance"] / math.prod(deviations)
    return means, truth


PARTS = {
    "variance": ("u", "spread_u"),
    "standard_deviation": ("u", "spread_u"),
    "sharpe_ratio": ("u", "spread_u"),
    "covariance": ("u", "v", "product"),
    "correlation": ("u", "v", "product", "spread_u", "spread_v"),
}


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9), reach=st.sampled_from([0.0, 1e-6, 0.01, 0.1, 0.5]))
def test_the_interval_contains_the_parameter_of_every_law_whose_means_are_in_the_box(seed, reach):
    rng = np.random.default_rng(seed)
    means, truth = law(rng)
    for kind, expected in truth.items():
        box = []
        for name in PARTS[kind]:
            low = max(means[name] - reach * rng.random(), 0.0)
            high = min(means[name] + reach * rng.random(), 1.0)
            box.append(Estimate(rng.uniform(low, high), low, high))
        found = KINDS[kind].bind(PLAIN).combine(box)
        small = kind in ("variance", "covariance") or reach > 0.0  # the others divide by what rounding has moved
        room = 1e-12 if small else 1e-9 * max(1.0, expected**2)
        assert found.low - room <= expected <= found.high + room
        assert found.low <= found.value <= found.high


def scanned(kind, box, steps):
    """Least and largest value of the formula over a grid of the box, where some law could have these means."""
    axes = [np.linspace(part.low, part.high, steps) for part in box]
    a, *rest = np.meshgrid(*axes, indexing="ij")
    if kind == "variance":
        found = a * (1 - a) - rest[0] / 4
        return found[found >= 0]
    if kind in ("standard_deviation", "sharpe_ratio"):
        square = a * (1 - a) - rest[0] / 4
        deviation = np.sqrt(square[square > 0])
        return deviation if kind == "standard_deviation" else (a[square > 0] - 0.4) / deviation
    b, w = rest[:2]
    cov = (2 * w - 1 - (2 * a - 1) * (2 * b - 1)) / 4
    fits = (cov <= np.minimum(a * (1 - b), b * (1 - a))) & (cov >= -np.minimum(a * b, (1 - a) * (1 - b)))
    if kind == "covariance":
        return cov[fits]
    var_u, var_v = a * (1 - a) - rest[2] / 4, b * (1 - b) - rest[3] / 4
    fits &= (var_u > 0) & (var_v > 0) & (cov**2 <= var_u * var_v)
    return cov[fits] / np.sqrt(var_u[fits] * var_v[fits])


@pytest.mark.parametrize(
    ("kind", "middle"),
    [
        ("variance", (0.5, 0.6)), ("variance", (0.1, 0.3)), ("variance", (0.97, 0.1)),
        ("standard_deviation", (0.5, 0.6)), ("standard_deviation", (0.8, 0.2)),
        ("sharpe_ratio", (0.5, 0.6)), ("sharpe_ratio", (0.41, 0.6)), ("sharpe_ratio", (0.2, 0.3)),
        ("covariance", (0.5, 0.5, 0.6)), ("covariance", (0.1, 0.2, 0.8)), ("covariance", (0.03, 0.9, 0.1)),
        ("covariance", (0.05, 0.5, 0.55)), ("covariance", (0.05, 0.5, 0.45)), ("covariance", (0.5, 0.95, 0.55)),
        ("correlation", (0.5, 0.5, 0.6, 0.6, 0.7)), ("correlation", (0.3, 0.6, 0.5, 0.5, 0.4)),
        ("correlation", (0.3, 0.6, 0.35, 0.5, 0.4)), ("correlation", (0.5, 0.5, 0.85, 0.2, 0.3)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("reach", [0.01, 0.05])
def test_the_interval_is_no_wider_than_a_scan_of_the_box_finds(kind, middle, reach):
    box = [Estimate(m, max(m - reach, 0.0), min(m + reach, 1.0)) for m in middle]
    found = KINDS[kind].bind(PLAIN).combine(box)
    values = scanned(kind, box, 9 if kind == "correlation" else 81)
    tolerance = 0.06 * (values.max() - values.min())
    assert found.low == pytest.approx(values.min(), abs=tolerance)
    assert found.high == pytest.approx(values.max(), abs=tolerance)
    assert found.low <= values.min() + 1e-12
    assert found.high >= values.max() - 1e-12


def test_the_middle_of_the_range_is_cheaper_than_through_the_mean_square():
    """At E u = 1/2 an error r of each mean moves the variance by r/4, through E u^2 by 2 r."""
    r = 0.01
    found = KINDS["variance"].bind(PLAIN).combine([Estimate(0.5, 0.5 - r, 0.5 + r), Estimate(0.8, 0.8 - r, 0.8 + r)])
    assert found.high - found.low == pytest.approx(2 * r / 4, abs=2 * r**2)


def test_boxes_that_no_law_fits_say_nothing():
    certain = [Estimate(0.0, 0.0, 0.0), Estimate(1.0, 1.0, 1.0)]
    assert KINDS["variance"].bind(PLAIN).combine(certain).value == 0.0
    assert KINDS["standard_deviation"].bind(PLAIN).combine(certain).value == 0.0
    found = KINDS["sharpe_ratio"].bind(PLAIN).combine(certain)
    assert (found.low, found.value) == (-math.inf, found.value)
    impossible = [*(Estimate(m, m, m) for m in (0.0, 1.0, 1.0))]
    found = KINDS["covariance"].bind(PLAIN).combine(impossible)
    assert (found.low, found.high) == pytest.approx((-0.25, 0.25), abs=1e-12)
    constant = [Estimate(m, m, m) for m in (0.5, 0.5, 0.5, 1.0, 0.5)]
    found = KINDS["correlation"].bind(PLAIN).combine(constant)
    assert (found.low, found.high) == (-1.0, 1.0)


def test_queries_are_shown_in_one_line_with_their_quotes_as_they_are():
    schema = Schema(8, 0, {"x": ColumnKind.NUMBER, "two  words": ColumnKind.STRING})
    text = " x > 1\n  and \"two  words\" = 'it''s  so' "
    assert mean(text).bind(schema).shown == "mean of x > 1 and \"two  words\" = 'it''s  so'"
    parts = covariance(text, "x\n< 2").bind(schema).parts
    assert parts[2].bind(schema).shown == "mean of the product of x > 1 and \"two  words\" = 'it''s  so' and x < 2"
