"""The split of the flights: nothing is lost, nothing is in two parts, and no label leaks into what is known before."""

from __future__ import annotations

import numpy as np
import pytest

from everhold_lab.demo.flights import CATEGORIES, KNOWN_BEFORE, load_flights, split_flights


@pytest.fixture
def parts(flight_table):
    return split_flights(flight_table, sealed=1_000, training=1_500, seed=1)


def test_the_three_parts_hold_every_flight_that_arrived_once(parts, flight_table):
    arrived = flight_table[flight_table["arr_delay"].notna()]
    numbers = np.concatenate([part.table["flight"] for part in (parts.sealed, parts.training, parts.fresh)])
    assert (len(parts.sealed), len(parts.training)) == (1_000, 1_500)
    assert sorted(numbers) == sorted(arrived["flight"])


def test_a_flight_is_late_beyond_fifteen_minutes(parts, flight_table):
    delay = flight_table.set_index("flight")["arr_delay"].loc[parts.fresh.table["flight"]]
    assert np.array_equal(parts.fresh.late, (delay > 15).to_numpy())
    assert np.array_equal(parts.fresh.table["late"], parts.fresh.late.astype(int))


def test_equal_seeds_are_equal_splits(parts, flight_table):
    again, other = (split_flights(flight_table, sealed=1_000, training=1_500, seed=seed) for seed in (1, 2))
    assert np.array_equal(parts.sealed.keys, again.sealed.keys)
    assert not np.array_equal(parts.sealed.keys, other.sealed.keys)


def test_a_flight_keeps_its_key_in_every_split(flight_table, parts):
    other = split_flights(flight_table, sealed=1_000, training=1_500, seed=2)
    keys = [dict(zip(half.fresh.table["flight"], half.fresh.keys, strict=True)) for half in (parts, other)]
    both = keys[0].keys() & keys[1].keys()
    assert len(both) > 1_000
    assert all(keys[0][flight] == keys[1][flight] for flight in both)


def test_only_the_last_feature_knows_the_delay(parts):
    features, delay = parts.fresh.features, parts.fresh.table["dep_delay"].to_numpy()
    assert features.shape[1] == KNOWN_BEFORE + 1
    assert np.array_equal(features[:, KNOWN_BEFORE], delay.astype(np.float32))
    assert max(len(np.unique(features[:, i])) for i in CATEGORIES) == 4


def test_some_flights_must_be_left(flight_table):
    with pytest.raises(ValueError, match="smaller together"):
        split_flights(flight_table, sealed=3_000, training=3_000, seed=1)


def test_without_the_package_the_message_names_the_extra(monkeypatch):
    monkeypatch.setattr("everhold_lab.demo.flights.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"everhold-lab"):
        load_flights()
