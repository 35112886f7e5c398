"""Training rows that are sealed rows are found; rows that are equal by chance are not taken for them."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

from everhold.errors import DependenceWarning, HoldoutRejected
from everhold.sealing.intake.files import seal_rows
from everhold.sealing.intake.request import Rows, SealRequest
from everhold.sealing.splits import Repetitions, excess_by_chance, more_pairs_than_chance

COUNT = 4_000


def measured(seed, count=COUNT):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=count), "y": rng.normal(size=count), "late": rng.integers(0, 2, count)}


def tossed(seed, count=COUNT):
    return {"y": np.random.default_rng(seed).integers(0, 2, count)}


def counted(seed, count=COUNT):
    """A long tail: half of the rows are there more than once."""
    rng = np.random.default_rng(seed)
    return {"a": rng.zipf(1.3, count) % 10**9, "b": rng.integers(0, 3, count)}


def copied(into, source, share, seed=9):
    """The first table, with some of its rows taken from the second."""
    count = len(next(iter(into.values())))
    taken = np.random.default_rng(seed).random(count) < share
    return {name: np.where(taken, np.resize(source[name], count), column) for name, column in into.items()}


def doubled(rows):
    return {name: np.tile(column[: len(column) // 2], 2) for name, column in rows.items()}


def seal(folder, holdout, training, **wanted):
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    return seal_rows(folder, SealRequest(holdout=holdout, training=training, rows=Rows(**wanted)))


@pytest.mark.parametrize("share", [0.01, 0.05, 1.0])
def test_training_rows_that_are_sealed_rows_are_found_without_a_row_id(tmp_path, share):
    training = measured(1)
    sealed = copied(measured(0), training, share)
    words = r"of the sealed rows \(.*%\) equal a training row.*Remove the equal rows"
    with pytest.raises(HoldoutRejected, match=words) as found:
        seal(tmp_path / "s", sealed, training)
    assert found.value.data["share"] == np.mean(sealed["x"] == training["x"])


@pytest.mark.parametrize("make", [measured, tossed, counted])
@pytest.mark.parametrize("many", [1, 9])
def test_rows_that_are_equal_by_chance_are_sealed(tmp_path, make, many):
    assert seal(tmp_path / "s", make(0), make(1, many * COUNT)).rows == COUNT


def test_a_hundred_pairs_of_samples_of_one_population_are_sealed(tmp_path):
    for seed in range(100):
        seal(tmp_path / "s", counted(2 * seed, 300), counted(2 * seed + 1, 900))


def test_half_the_rows_may_be_there_twice_on_one_side(tmp_path):
    seal(tmp_path / "s", measured(0), doubled(measured(1)))
    seal(tmp_path / "s", doubled(measured(0)), doubled(measured(1)))


def test_a_column_that_numbers_the_rows_hides_no_copies_and_makes_none(tmp_path):
    numbers = {"number": np.arange(COUNT)}
    training = measured(1)
    with pytest.raises(HoldoutRejected, match="equal a training row"):
        seal(
            tmp_path / "s",
            {**numbers, **copied(measured(0), training, 0.05)},
            {"number": numbers["number"] + 7, **training},
        )
    for place in (np.arange(COUNT), 0.1 * np.arange(COUNT), np.arange(COUNT).astype("M8[D]")):
        seal(tmp_path / "s", {"place": place, **tossed(0)}, {"place": place, **tossed(1)})


def test_copies_under_new_names_are_found(tmp_path):
    training = measured(1)
    sealed = copied(measured(0), training, 0.05)
    named = [{"id": np.array([f"{side}{row}" for row in range(COUNT)])} for side in "ab"]
    with pytest.raises(HoldoutRejected, match="equal a training row"):
        seal(tmp_path / "s", {**named[0], **sealed}, {**named[1], **training})
    with pytest.raises(HoldoutRejected, match="equal a training row"):
        seal(tmp_path / "s", {**named[0], **sealed}, {**named[1], **training}, row_id="id")


def test_missing_values_and_other_types_of_the_same_numbers_are_equal(tmp_path):
    x = [(None, float("nan"), 0.5)[row % 3] for row in range(600)]
    y = np.random.default_rng(0).integers(0, 200, 600)
    real = pa.array(x, pa.float64(), from_pandas=False)
    holdout = pa.table({"x": real, "y": pa.array(y, pa.int16()), "z": pa.array(np.zeros(600))})
    training = pa.table({"x": real, "y": pa.array(y + 0.0), "z": pa.array(np.full(600, -0.0))})
    with pytest.raises(HoldoutRejected, match="equal a training row"):
        seal(tmp_path / "s", holdout, training)


def test_rows_that_were_doubled_before_a_random_split_are_warned_of(tmp_path):
    both = {name: np.tile(column, 2) for name, column in measured(0).items()}
    order = np.random.default_rng(3).permutation(2 * COUNT)
    halves = [{name: column[part] for name, column in both.items()} for part in (order[:COUNT], order[COUNT:])]
    with pytest.warns(DependenceWarning, match="more rows occur twice than by chance"):
        seal(tmp_path / "s", *halves)


def test_chance_that_makes_pairs_is_not_taken_for_doubling():
    for seed in range(300):
        rng = np.random.default_rng(seed)
        values = rng.integers(0, 10 ** rng.integers(2, 6), 2_000)
        sizes = np.unique(np.unique(values, return_counts=True)[1], return_counts=True)
        spectrum = {int(size): (int(count), 0) for size, count in zip(*sizes, strict=True)}
        assert not more_pairs_than_chance(Repetitions(1_000, 1_000, spectrum, 0))


def test_the_bound_is_the_coins_own_for_pairs():
    ten = Repetitions(sealed=1_000, training=1_000, sizes={1: (1_980, 0), 2: (10, 10)}, shared=10)
    assert excess_by_chance(ten) == pytest.approx(2.0**-10, rel=0.01)
    even = Repetitions(sealed=1_000, training=1_000, sizes={2: (10, 5)}, shared=5)
    assert excess_by_chance(even) == 1.0


def test_nothing_is_said_about_tables_without_content(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seal(tmp_path / "s", {"number": np.arange(50)}, {"number": np.arange(50)})


def test_a_design_that_repeats_its_settings_is_said_to_be_one(tmp_path):
    """All settings on both sides, each with an outcome tossed anew: chance alone would not have put them so."""
    settings = {"dose": np.repeat(np.arange(50), 40), "batch": np.tile(np.arange(40), 50)}
    sides = [{**settings, **tossed(seed, 2_000)} for seed in (0, 1)]
    with pytest.raises(HoldoutRejected, match="equal_rows=True"):
        seal(tmp_path / "refused", *sides)
    assert seal(tmp_path / "said", *sides, equal_rows=True).rows == 2_000
