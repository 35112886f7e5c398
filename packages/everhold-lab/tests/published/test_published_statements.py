"""What holds for every statement about a whole session."""

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everhold_lab.published import STATEMENTS

NAMES = ["zhao_theorem_2", "dwork_theorem_25", "jung_2020", "rogers_2020_monitor", "hoeffding_splitting"]
SESSION = {"queries": 1000, "surprises": 10, "confidence": 0.95, "slack": 1 / 3}
EVERY = pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS.keys())
OPTIMISER = 1e-4  # relative accuracy of the numerical optimum; the other statements are exact

sessions = st.builds(
    lambda queries, share, failure, slack: {
        "queries": queries,
        "surprises": max(1, int(share * queries)),
        "confidence": 1 - failure,
        "slack": slack,
    },
    st.integers(1, 100_000),
    st.floats(0, 1),
    st.floats(1e-6, 0.5),
    st.floats(0.01, 0.5),
)


def test_the_planner_finds_its_statements():
    assert list(STATEMENTS) == NAMES
    assert all(statement.name == name for name, statement in STATEMENTS.items())


@EVERY
@settings(max_examples=25, deadline=None)
@given(session=sessions, radius=st.floats(0.005, 0.9))
def test_radius_and_rows_invert_each_other(statement, session, radius):
    bound = statement.rows_needed(radius, **session)
    assert bound.statement == statement.name
    assert bound.rows == math.floor(bound.rows)
    assert statement.radius(bound.rows, **session).radius <= radius * (1 + OPTIMISER)
    fewer = math.floor(0.99 * bound.rows)
    if fewer >= 1:
        assert statement.radius(fewer, **session).radius >= radius * (1 - OPTIMISER)


@EVERY
@settings(max_examples=25, deadline=None)
@given(session=sessions, radius=st.floats(0.005, 0.8), factor=st.floats(1, 1.2))
def test_more_rows_are_needed_for_more(statement, session, radius, factor):
    rows = statement.rows_needed(radius, **session).rows * (1 - OPTIMISER)
    assert statement.rows_needed(radius / factor, **session).rows >= rows
    for harder in (
        session | {"queries": int(session["queries"] * factor)},
        session | {"surprises": min(session["queries"], int(session["surprises"] * factor))},
        session | {"confidence": 1 - (1 - session["confidence"]) / factor},
    ):
        assert statement.rows_needed(radius, **harder).rows >= rows


@EVERY
@settings(max_examples=25, deadline=None)
@given(session=sessions, rows=st.integers(1, 10**9), factor=st.floats(1, 10))
def test_more_rows_never_widen_the_radius(statement, session, rows, factor):
    wide = statement.radius(rows, **session).radius
    narrow = statement.radius(math.ceil(rows * factor), **session).radius
    assert 0 < narrow <= wide * (1 + OPTIMISER) or math.isinf(wide)
    assert wide < 1 or math.isinf(wide)


@EVERY
def test_too_few_rows_promise_nothing(statement):
    assert statement.radius(10, **SESSION).radius == math.inf


@EVERY
def test_one_evaluation_is_fast(statement):
    statement.radius(10**6, **SESSION)  # the first one may import SciPy's optimizers
    started = time.process_time()
    for _ in range(3):
        statement.radius(10**6, **SESSION)
        statement.rows_needed(0.1, **SESSION)
    assert (time.process_time() - started) / 6 < 0.05


@EVERY
@pytest.mark.parametrize(
    "wrong",
    [{"queries": 0}, {"surprises": 1001}, {"surprises": 0}, {"confidence": 1.0}, {"confidence": 0.0}, {"slack": -0.1}],
)
def test_bad_sessions_are_refused(statement, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        statement.radius(1000, **SESSION | wrong)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        statement.rows_needed(0.1, **SESSION | wrong)


@EVERY
@pytest.mark.parametrize("rows", [0, -5, 10.5, math.nan])
def test_bad_rows_are_refused(statement, rows):
    with pytest.raises(ValueError, match="rows"):
        statement.radius(rows, **SESSION)


@EVERY
@pytest.mark.parametrize("radius", [0.0, 1.0, -0.1, math.nan])
def test_bad_radii_are_refused(statement, radius):
    with pytest.raises(ValueError, match="radius"):
        statement.rows_needed(radius, **SESSION)
