"""What a dependence model learns about the arrangement of rows."""

import pytest

from everhold.errors import DependenceError
from everhold.sealing.intake.files import seal_rows
from everhold.sealing.intake.request import SealRequest
from everhold.sealing.intake.structure import FileStructure


@pytest.fixture
def structure(tmp_path):
    holdout = {
        "home": ["a", "a", "b", "c", "c", "c"],
        "day": [3, 4, 3, 5, 6, 6],
        "rain": ["no", "yes", "no", "no", "no", "yes"],
        "hole": [1.0, None, 2.0, 3.0, 4.0, 5.0],
    }
    training = {"home": ["a", "d"], "day": [1, 9], "rain": ["no", "snow"], "hole": [1.0, 2.0]}
    sealed = seal_rows(tmp_path, SealRequest(holdout=_frame(holdout), training=_frame(training)))
    with FileStructure(tmp_path, sealed) as made:
        yield made


def _frame(columns):
    import pandas as pd

    return pd.DataFrame(columns)


def test_sizes_of_groups(structure):
    assert structure.group_sizes("home") == {1: 1, 2: 1, 3: 1}


def test_groups_on_both_sides(structure):
    assert structure.shared_groups("home") == 1
    assert structure.shared_groups("rain") == 1


def test_one_series(structure):
    facts = structure.series("day", within=None)
    assert (facts.lengths, facts.ties, facts.training) == ({6: 1}, True, "among")


def test_a_series_for_each_group(structure):
    facts = structure.series("day", within="home")
    assert (facts.lengths, facts.ties) == ({1: 1, 2: 1, 3: 1}, True)
    assert facts.training == "before"  # of home a alone; home d is no sealed series


def test_steps_of_the_order(structure):
    facts = structure.series("day", within="home")
    assert (facts.step, facts.least_step, facts.training_step, facts.apart) == (1.0, 0.0, None, 2.0)
    assert structure.series("day", within=None).training_step == 8.0


def arranged(folder, *, holdout, training):
    frames = (
        _frame([{"home": home, "day": day} for home, days in side.items() for day in days])
        for side in (holdout, training)
    )
    sealed = seal_rows(folder, SealRequest(**dict(zip(("holdout", "training"), frames, strict=True))))
    with FileStructure(folder, sealed) as made:
        return made.series("day", within="home")


def test_the_usual_step_is_the_mean_of_those_within_a_tenth_of_the_median(tmp_path):
    facts = arranged(tmp_path, holdout={"a": [0, 10, 20, 31, 90]}, training={"b": [0, 28, 59, 90, 1_000]})
    assert facts.step == pytest.approx(31 / 3)
    assert facts.training_step == pytest.approx(30)
    assert (facts.least_step, facts.apart) == (10.0, None)


def test_how_far_apart_is_counted_in_the_steps_of_the_series(tmp_path):
    slow = {"holdout": {"a": [20, 21, 22], "b": [90, 100]}, "training": {"a": [0, 1], "b": [0, 10, 20, 60]}}
    facts = arranged(tmp_path, **slow)
    assert (facts.step, facts.apart) == (1.0, 3.0)


@pytest.mark.parametrize(("days", "apart"), [([0, 2], 6.0), ([2], None)])
def test_where_sealed_rows_are_alone_training_rows_show_the_step(tmp_path, days, apart):
    assert arranged(tmp_path, holdout={"a {0} 'b'": [14]}, training={"a {0} 'b'": days}).apart == apart


def test_which_columns_are_numbers(structure):
    assert structure.is_number("day")
    assert not structure.is_number("rain")
    with pytest.raises(DependenceError, match="does not exist"):
        structure.is_number("age")


def test_values_that_are_not_known(structure):
    assert structure.unknown_values("rain", frozenset({"no", "yes"})) == 1
    assert structure.unknown_values("rain", frozenset({"no"})) == 3
    assert structure.unknown_values("rain", frozenset({"no"}), side="sealed") == 2
    assert structure.unknown_values("rain", frozenset({"no"}), side="training") == 1


@pytest.mark.parametrize(("column", "reason"), [("age", "does not exist"), ("hole", "missing values")])
def test_columns_that_cannot_be_used(structure, column, reason):
    with pytest.raises(DependenceError, match=reason):
        structure.group_sizes(column)
