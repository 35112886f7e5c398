"""Differences of two public arrays: each end holds at its level under every law of the labels, by enumeration (D1)."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from worlds import MARGIN, Outcomes, laws_of, misses

import everhold as eh
from everhold.dependence import Independent
from everhold.guarantees.intervals.means import DisagreementBetting, DisagreementSigns, RowRanges
from everhold.mechanisms import Traits
from everhold.queries.predictions.public import apart_procedure, set_apart
from everhold.sealing.rows.sums import cells_of
from everhold.values.base import Schema
from everhold.values.evaluation import UNIT, clip_to_grid
from everhold.values.expressions import ColumnKind

ROWS = 5
SCHEMA = Schema(ROWS, 0, {"y": ColumnKind.NUMBER}, label="y", label_kind="binary")
MECHANISM = SimpleNamespace(unit=UNIT, traits=Traits(adds_noise=False), dependence=Independent())
FIRST = np.array([0.9, 0.2, 0.6, 0.6, 0.1])
SECOND = np.array([0.1, 0.7, 0.5, 0.6, 0.4])
CLASSES = (np.array([1, 0, 1, 1, 0]), np.array([0, 1, 0, 1, 1]))
LABELS = Outcomes.of(ROWS, 2)


def bound_to(first, second, metric=eh.brier, schema=SCHEMA):
    return set_apart(eh.difference(metric(first), metric(second)).bind(schema), schema, MECHANISM)


def grid_of(bound, labels):
    """Row values of the difference, as the sealed rows are evaluated."""
    one, other = (
        clip_to_grid(np.asarray(each.sealed({"y": labels})), unit=UNIT)
        for each in (bound.pair.first, bound.pair.second)
    )
    return (UNIT + one - other) // 2


def seen_of(bound, labels):
    apart = bound.pair.apart
    return cells_of(apart.shares(grid_of(bound, labels)), unit=2 * apart.reach)


def greatest_miss(bound, procedure, nats, *, number=60):
    """The greatest probability of a miss on one side, over laws of independent labels."""
    ends = [procedure.interval(seen_of(bound, labels.astype(float)), nats) for labels in LABELS.choices]
    low, high = np.array(ends).T + np.array([[-2.0], [2.0]]) / UNIT
    by_label = [grid_of(bound, np.full(ROWS, label)) / UNIT for label in (0.0, 1.0)]
    found = []
    for laws in laws_of(ROWS, 2, np.random.default_rng(1), number=number):
        truth = float(np.mean(laws[:, 0] * by_label[0] + laws[:, 1] * by_label[1]))
        found.append(max(misses(LABELS, laws, low, high, truth)))
    return max(found)


def made(bound, kind, guess=None):
    apart = bound.pair.apart
    found = apart_procedure(bound, apart, SCHEMA, None, own_guess=True, guess=guess)
    if kind is RowRanges:
        return RowRanges(ROWS, len(apart.rows), 2 * apart.reach / UNIT, apart.squares)
    return found


@pytest.mark.parametrize("nats", [0.7, 2.0])
@pytest.mark.parametrize(
    ("first", "second", "metric", "kind"),
    [
        (FIRST, SECOND, eh.brier, None),
        (FIRST, SECOND, eh.brier, RowRanges),
        (FIRST, SECOND, lambda p: eh.risk(p, "log", high=2), None),
        (*CLASSES, eh.accuracy, None),
    ],
)
def test_each_end_holds_at_half_the_level_for_unlike_labels(first, second, metric, kind, nats):
    bound = bound_to(first, second, metric)
    assert greatest_miss(bound, made(bound, kind), nats) <= math.exp(-nats) / 2 + MARGIN


def test_a_reach_or_ranges_that_are_too_small_are_caught():
    """The protection removed: gains beyond the reach, and ranges of half the length."""
    bound = bound_to(FIRST, SECOND)
    apart = bound.pair.apart
    small = replace(bound, pair=replace(bound.pair, apart=replace(apart, reach=apart.reach // 4)))
    assert greatest_miss(small, made(small, None), 1.5) > math.exp(-1.5) / 2
    narrow = replace(made(bound, RowRanges), squares=apart.squares / 4)
    assert greatest_miss(bound, narrow, 1.5, number=2_000) > math.exp(-1.5) / 2


def test_rows_that_are_nearly_alike_count():
    """The protection removed: rows are left out although their predictions differ by a little."""
    first, second = np.full(ROWS, 0.5), np.where(np.arange(ROWS) < 1, 1.0, 0.7)
    bound = bound_to(first, second)
    apart = bound.pair.apart
    assert len(apart.rows) == ROWS
    fewer = replace(bound, pair=replace(bound.pair, apart=replace(apart, rows=apart.rows[:1])))
    assert greatest_miss(fewer, made(fewer, None), 1.5) > math.exp(-1.5) / 2
    assert greatest_miss(bound, made(bound, None), 1.5) <= math.exp(-1.5) / 2


@pytest.mark.parametrize(
    ("metric", "low", "high"),
    [("squared", 0.0, 9.0), ("squared", 2.0, 9.0), ("absolute", 0.0, 3.0), ("absolute", 1.0, 3.0)],
)
def test_no_label_moves_a_gain_beyond_its_range(metric, low, high):
    rng = np.random.default_rng(3)
    first = rng.normal(0, 2, 300)
    second = first + rng.normal(0, 1, 300) * (rng.random(300) < 0.7)
    schema = Schema(300, 0, {"y": ColumnKind.NUMBER}, label="y", label_kind="number")
    bound = bound_to(first, second, lambda p: eh.risk(p, metric, low=low, high=high), schema)
    apart, furthest = bound.pair.apart, 0
    assert set(apart.rows) == set(np.flatnonzero(first != second))
    edge = math.sqrt(high) if metric == "squared" else high
    for labels in (
        first,
        second,
        first + edge,
        first - edge,
        second + edge,
        second - edge,
        *rng.normal(0, 4, (20, 300)),
    ):
        away = np.abs(grid_of(bound, labels) - UNIT // 2)
        assert not away[first == second].any()
        furthest = max(furthest, int(away.max()))
    assert 0.98 * apart.reach < furthest <= apart.reach


def test_which_procedure_is_taken():
    assert isinstance(made(bound_to(*CLASSES, eh.accuracy), None), DisagreementSigns)
    assert isinstance(made(bound_to(FIRST, SECOND), None), RowRanges | DisagreementBetting)
    same = bound_to(FIRST, FIRST)
    assert made(same, None).interval(seen_of(same, np.zeros(ROWS)), 3.0) == (0.5, 0.5)
    assert made(same, None).expected(0.5, 3.0) == (0.5, 0.5)
    assert made(same, None).standard_error(0.5) == 0.0


def test_predictions_as_large_as_numbers_can_be():
    schema = Schema(ROWS, 0, {"y": ColumnKind.NUMBER}, label="y", label_kind="number")
    huge = np.array([1e308, -1e308, 0.0, 5e-324, 1.0])
    bound = bound_to(huge, -huge, lambda p: eh.risk(p, "squared", high=1.0), schema)
    apart = bound.pair.apart
    found = apart_procedure(bound, apart, schema, np.array([1e308, -1e308]), own_guess=True, guess=0.4)
    low, high = found.expected(0.4, 3.0)
    assert 0.0 <= low < high <= 1.0


def test_differences_of_other_kinds_are_left_as_they_are():
    def loss(predictions, labels):
        return np.abs(predictions - labels)

    grouped = SimpleNamespace(unit=UNIT, traits=Traits(adds_noise=False), dependence=SimpleNamespace(independent=False))
    asked = eh.difference(eh.brier(FIRST), eh.brier(SECOND)).bind(SCHEMA)
    assert set_apart(asked, SCHEMA, grouped).pair.apart is None
    stratified = replace(SCHEMA, stratified="y")
    assert set_apart(asked, stratified, MECHANISM).pair.apart is None
    assert bound_to(FIRST, SECOND, lambda p: eh.risk(p, loss, high=1)).pair.apart is None
    assert bound_to(FIRST, SECOND, lambda p: eh.risk(p, "squared", high=1)).pair.apart is not None


def test_only_differing_rows_move_the_mean_and_by_no_more_than_the_reach():
    assert RowRanges(100, 20, 0.5, 1.0).frame == pytest.approx((0.45, 0.55))  # half of the reach on a fifth of the rows
