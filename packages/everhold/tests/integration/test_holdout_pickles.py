"""A holdout travels by storage and name: nothing secret, and nothing that is read there."""

import copy
import os
import pickle

import pytest
from holdout_samples import create
from prepared_processes import prepared_processes

from everhold import Holdout, HoldoutNotFound


def test_a_pickle_holds_the_address_and_the_names_alone(tmp_path):
    with create(tmp_path) as holdout:
        frozen = pickle.dumps(holdout)
        key = next(tmp_path.rglob("*key*")).read_bytes()
        assert len(frozen) < 300 + len(str(tmp_path))
        assert key[:16] not in frozen
        with pickle.loads(frozen) as other:
            holdout.ask("delay > 0")
            assert other.ask("delay > 0").repeated


def test_a_relative_path_is_found_from_anywhere(tmp_path, monkeypatch):
    create(tmp_path).close()
    monkeypatch.chdir(tmp_path)
    with Holdout.open("sqlite:///study.db", "study") as holdout:
        frozen = pickle.dumps(holdout)
    monkeypatch.chdir(os.sep)
    with pickle.loads(frozen) as other:
        assert other.remaining["queries"] == 60


def test_an_analyst_stays_one(tmp_path):
    with create(tmp_path) as holdout:
        holdout.allot("ann", queries=2, charges=1)
        with pickle.loads(pickle.dumps(holdout.analyst("ann"))) as other:
            assert other.remaining["queries"] == 2
            other.ask("delay > 0")
        assert holdout.analyst("ann").remaining["queries"] == 1


def test_copies_are_handles_of_the_same_holdout(tmp_path):
    with create(tmp_path) as holdout:
        assert copy.deepcopy({"holdout": holdout})["holdout"] is holdout
        copy.copy(holdout).ask("delay > 0")
        assert holdout.ask("delay > 0").repeated


def test_workers_ask_the_same_budget(tmp_path):
    with create(tmp_path) as holdout:
        with prepared_processes.Pool(1) as pool:
            asked = pool.apply(_ask, (holdout,))
        assert holdout.ask("delay > 0").value == asked
        assert holdout.remaining["queries"] == 59


def test_a_holdout_that_is_gone_is_not_found(tmp_path):
    with create(tmp_path) as holdout:
        frozen = pickle.dumps(holdout)
    (tmp_path / "study.db").unlink()
    with pytest.raises(HoldoutNotFound):
        pickle.loads(frozen)


def _ask(holdout):
    with holdout:
        return holdout.ask("delay > 0").value
