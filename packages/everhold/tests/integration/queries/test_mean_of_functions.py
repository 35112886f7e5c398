"""Identity of functions and of texts, ranges of numbers, and the grid."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold import QueryRejected, mean
from everhold.mechanisms.records import Evaluations
from everhold.values.base import Schema
from everhold.values.evaluation import UNIT, clip_to_grid, to_grid
from everhold.values.expressions import ColumnKind

SCHEMA = Schema(3, 0, {"x": ColumnKind.NUMBER, "flag": ColumnKind.BOOLEAN})


def fingerprint(query):
    return query.bind(SCHEMA).query


def test_functions_are_one_query_if_name_and_content_are_the_same():
    named, nameless = mean(np.sign, name="sign"), mean(np.sign)
    assert fingerprint(named) == fingerprint(mean(np.sign, name="sign"))
    assert fingerprint(named) != fingerprint(mean(np.abs, name="sign"))
    assert fingerprint(nameless) == fingerprint(nameless)
    assert len({fingerprint(q) for q in (named, nameless, mean(np.sign), mean(np.sign, name="abs"))}) == 4


def test_the_range_belongs_to_the_query_of_a_number_only():
    assert fingerprint(mean("x", low=0, high=1)) != fingerprint(mean("x", low=0, high=2))
    assert fingerprint(mean("x", low=0, high=1)) == fingerprint(mean(" X ", low=0.0, high=1.0))


@pytest.mark.parametrize(
    ("low", "high"), [(0, None), (None, 1), (1, 1), (2, 1), (math.nan, 1), (0, math.inf), (-1e308, 1e308)]
)
def test_a_range_that_is_none_is_rejected(low, high):
    with pytest.raises(QueryRejected):
        mean("x", low=low, high=high).bind(SCHEMA)


def test_a_number_needs_a_range_unless_it_cannot_leave_one():
    with pytest.raises(QueryRejected, match="Pass low and high"):
        mean("x").bind(SCHEMA)
    assert mean("case when x > 1 then 0.5 when flag then 1 else 0 end").bind(SCHEMA).at_one == 1.0
    with pytest.raises(QueryRejected, match="Pass low and high"):
        mean("case when x > 1 then 0.5 else 2 end").bind(SCHEMA)


def test_a_number_with_a_range_may_be_asked_among_some_rows():
    both, share = mean("x", low=-1, high=3, given="flag").parts(SCHEMA)
    assert (both.bind(SCHEMA).pair.how, share.bind(SCHEMA).yes_no) == ("within", True)
    with pytest.raises(QueryRejected, match="Pass both ends of the range"):
        mean("x", low=0, given="flag").parts(SCHEMA)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0, 1))
def test_units_go_there_and_back(low, width, share):
    bound = mean("x", low=low, high=low + width).bind(SCHEMA)
    assert bound.to_mean(bound.from_mean(share)) == pytest.approx(share, abs=1e-6)


@given(st.lists(st.floats(0, 1), min_size=1), st.sampled_from([1, 2, 4, UNIT]))
def test_both_grids_agree_inside_the_range_and_round_down(values, unit):
    grid = to_grid(values, unit=unit)
    assert grid.tolist() == clip_to_grid(np.array(values), unit=unit).tolist() == [math.floor(v * unit) for v in values]


def test_the_grid_refuses_public_values_and_clips_sealed_ones():
    for bad in ([math.nan], [1.1], [-0.1], [math.inf], ["1"], [1j], [None]):
        with pytest.raises(QueryRejected):
            to_grid(bad)
    assert clip_to_grid(np.array([math.nan, math.inf, -math.inf, 1e308, -0.0, 0.5]), unit=4).tolist() == [
        0,
        4,
        0,
        4,
        0,
        2,
    ]
    assert clip_to_grid(np.array([True, False]), unit=4).tolist() == [4, 0]


def test_totals_are_not_shown():
    evaluations = Evaluations(totals=np.array([[123456]]), guesses=np.array([5]), rows=3)
    assert len(evaluations) == 1
    assert "123456" not in repr(evaluations)
