"""What flights are worth that move together: exact small cases, and a split in which no hour is on both sides."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.asking.creation import settings_from
from everhold.dependence import Groups, Independent
from everhold.errors import DependenceError
from everhold.holdout import Holdout
from everhold_lab.demo.flights import (
    ASSUMPTIONS,
    DEPARTURE,
    EACH_FLIGHT,
    ONE_HOUR,
    Flights,
    correlation_left,
    correlation_within,
    split_flights,
    with_departures,
    worth_of,
)


@pytest.fixture(scope="module")
def parts(flight_table):
    return split_flights(flight_table, sealed=1_500, training=1_500, seed=1)


@pytest.fixture(scope="module")
def by_hour(parts):
    return with_departures(parts)


def correlation_of_pairs(late, wanted) -> float | None:
    """By definition: over all ordered pairs of different rows for which ``wanted`` holds."""
    centred = (late - np.mean(late)) / np.std(late)
    products = [centred[i] * centred[j] for i, j in itertools.permutations(range(len(late)), 2) if wanted(i, j)]
    return float(np.mean(products)) if products else None


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=2, max_size=12))
def test_correlation_within_is_that_of_all_pairs(rows):
    late, groups = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    if late.std() == 0.0:
        return
    expected = correlation_of_pairs(late, lambda i, j: groups[i] == groups[j])
    found = correlation_within(late, groups)
    assert found == (None if expected is None else pytest.approx(expected))


def test_correlation_left_is_that_of_other_groups_on_the_same_day(parts):
    few = parts.training.take(np.arange(150))
    day, groups = few.features[:, 0], few.features[:, 2] % 3
    expected = correlation_of_pairs(few.late, lambda i, j: day[i] == day[j] and groups[i] != groups[j])
    assert correlation_left(few, groups.astype(int)) == pytest.approx(expected)


def test_correlation_left_looks_at_the_next_day_where_groups_are_days(parts):
    few = parts.training.take(np.arange(150))
    day = few.features[:, 0].astype(int)
    expected = correlation_of_pairs(few.late, lambda i, j: day[j] == day[i] + 1)
    assert correlation_left(few, day) == pytest.approx(expected)


def test_effective_rows_follow_from_the_sizes_of_the_groups(parts):
    for line, assumption in zip(worth_of(parts, queries=20, surprises=2), ASSUMPTIONS, strict=True):
        columns = list(assumption.columns) or ["flight"]  # numbers of made-up flights are all different
        sizes = parts.sealed.table.groupby(columns).size()
        assert (line.groups, line.largest) == (len(sizes), sizes.max())
        assert line.effective_rows == pytest.approx(1_500**2 / (sizes**2).sum())


def test_larger_groups_promise_less(parts):
    lines = {line.assumption: line for line in worth_of(parts, queries=20, surprises=2)}
    assert isinstance(EACH_FLIGHT.model_of(parts.sealed), Independent)
    assert lines["each flight alone"].within is None
    assert lines["each flight alone"].radius < lines["one hour, one airport"].radius < lines["one day"].radius


def test_lateness_of_sealed_flights_is_not_looked_at(parts):
    turned = Flights(
        sealed=type(parts.sealed)(
            table=parts.sealed.table.assign(late=0), keys=parts.sealed.keys,
            late=~parts.sealed.late, features=parts.sealed.features,
        ),
        training=parts.training,
        fresh=parts.fresh,
    )  # fmt: skip
    assert worth_of(turned, queries=20, surprises=2) == worth_of(parts, queries=20, surprises=2)


def test_no_hour_is_on_both_sides(by_hour):
    sealed, training, fresh = (set(part.table[DEPARTURE]) for part in (by_hour.sealed, by_hour.training, by_hour.fresh))
    assert not sealed & training
    assert not fresh & training
    assert sealed & fresh  # hours of sealed flights are part of the truth


@pytest.mark.filterwarnings("ignore::everhold.DependenceWarning")  # flights of a day share more than an hour
def test_training_flights_of_sealed_hours_are_refused(parts, by_hour, tmp_path):
    settings = {"label": "late", "queries": 20, "surprises": 2, "dependence": Groups(DEPARTURE)}
    hours = by_hour.sealed.table[DEPARTURE]
    stray = by_hour.training.table.assign(**{DEPARTURE: [hours[0], *by_hour.training.table[DEPARTURE][1:]]})
    with pytest.raises(DependenceError, match="1 group of"):
        Holdout.create(tmp_path / "a.db", holdout=by_hour.sealed.table, training=stray, **settings_from(settings))
    with Holdout.create(
        tmp_path / "b.db", holdout=by_hour.sealed.table, training=by_hour.training.table, **settings_from(settings)
    ) as holdout:
        assert holdout.status()["queries_asked"] == 0


def test_the_sealed_flights_stay_the_same(by_hour, parts):
    assert np.array_equal(by_hour.sealed.keys, parts.sealed.keys)
    assert by_hour.sealed.table.drop(columns=DEPARTURE).equals(parts.sealed.table)
    assert set(by_hour.training.keys) <= set(parts.training.keys)


def test_equal_departures_are_the_groups_of_an_hour(by_hour):
    names, numbers = by_hour.sealed.table[DEPARTURE], ONE_HOUR.groups_of(by_hour.sealed)
    assert len(set(zip(names, numbers, strict=True))) == names.nunique() == numbers.max() + 1


def test_training_flights_come_hour_by_hour(by_hour):
    names = by_hour.training.table[DEPARTURE].to_numpy()
    assert 1 + np.count_nonzero(names[1:] != names[:-1]) == len(set(names)) < len(names)
