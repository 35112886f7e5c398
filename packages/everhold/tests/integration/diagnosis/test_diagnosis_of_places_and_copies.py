"""Places on a map, noisy copies of rows, and items that declared groups share."""

import numpy as np
import pytest
from diagnosis_samples import diagnosed, plain, planned

from everhold import Groups
from everhold.diagnosis.further_checks import NEAR_COPIES

ROWS = 4_000


def coin(rng, chance):
    return (rng.random(len(chance)) < chance).astype(int)


def on_a_map(seed, *, names=("lat", "lon"), hills=True):
    rng = np.random.default_rng(seed)
    places, tops, heights = rng.random((ROWS, 2)), rng.random((40, 2)), rng.normal(size=40)
    near = np.exp(-np.sum((places[:, None] - tops[None]) ** 2, axis=2) / 0.03) @ heights
    return {names[0]: places[:, 0], names[1]: places[:, 1], "late": coin(rng, 0.5 + 0.4 * hills * np.tanh(near))}


def copied(seed, *, copies, noise=0.01):
    rng = np.random.default_rng(seed)
    original = rng.permutation(np.repeat(np.arange(ROWS // copies), copies))
    measured = rng.normal(size=(ROWS // copies, 4))[original] + noise * rng.normal(size=(len(original), 4))
    label = rng.integers(0, 2, ROWS // copies)[original]
    return {**{f"m{place}": measured[:, place] for place in range(4)}, "late": label}


def rated(seed, *, spread, nested=False):
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(200), 20)
    item = rng.integers(0, 25, 200)[user] if nested else rng.integers(0, 25, ROWS)
    luck = rng.normal(size=200)[user] + spread * rng.normal(size=25)[item]
    return {"user": user, "item": item.astype(str).astype(object), "late": coin(rng, 1 / (1 + np.exp(-luck)))}


def of_users(table):
    sizes = {20: 200}
    mechanism = planned(dependence=Groups.of_counts(sizes, column="user"))
    return diagnosed(table, mechanism=mechanism)


@pytest.mark.parametrize("names", [("lat", "lon"), ("Latitude", "Longitude"), ("easting", "northing")])
def test_neighbours_on_a_map_that_are_alike_are_warned_of(names):
    found = diagnosed(on_a_map(0, names=names))
    assert f"{names[0]!r} and {names[1]!r}" in {each.column for each in found.suspects}
    assert "blocks of the map" in found.to_text()


def test_places_that_mean_nothing_are_not_warned_of():
    assert not any(diagnosed(on_a_map(seed, hills=False)).suspects for seed in range(20))


@pytest.mark.parametrize("copies", [2, 4])
def test_noisy_copies_are_warned_of(copies):
    found = diagnosed(copied(0, copies=copies)).finding(NEAR_COPIES)
    assert found.suspect
    assert found.design_effect == pytest.approx(copies, rel=0.1)
    assert "original" in found.suggestion()


def test_rows_with_much_noise_or_without_copies_are_not_warned_of():
    for seed in range(10):
        assert not diagnosed(copied(seed, copies=1)).suspects
        assert not diagnosed(copied(seed, copies=4, noise=2.0)).suspects


def test_rows_on_a_line_are_no_copies():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        place = rng.random(ROWS)
        table = {"a": place, "b": place**2, "c": np.sin(place), "late": coin(rng, place)}
        assert not diagnosed(table).suspects


@pytest.mark.parametrize("nested", [False, True])
def test_items_of_several_users_that_matter_are_warned_of(nested):
    found = of_users(rated(1, spread=1.0, nested=nested))
    assert found.finding("item").suspect
    assert "across the declared groups" in found.finding("item").claim("", "", "")


def test_items_that_do_not_matter_are_not_warned_of():
    assert not any(of_users(rated(seed, spread=0.0)).suspects for seed in range(20))


def test_items_are_attributes_as_long_as_no_groups_are_declared():
    assert diagnosed(rated(1, spread=1.0)).finding("item").role == "attribute"


def test_the_usual_independent_rows_raise_none_of_these():
    assert not any(diagnosed(plain(seed)).suspects for seed in range(10))
