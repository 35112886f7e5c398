"""A server keeps few holdouts open: others are let go, and whoever works with one goes on."""

import gc
import weakref

import numpy as np
import pytest

import everhold as eh
from everhold_server import open_holdouts
from everhold_server.open_holdouts import OpenHoldouts
from everhold_server.principals import Principal, Role

HOST = Principal(Role.STEWARD, "host", None)


@pytest.fixture
def holdouts(tmp_path, monkeypatch):
    monkeypatch.setattr(open_holdouts, "_MOST_OPEN", 2)
    storage, rng = f"sqlite:///{tmp_path}/s.db", np.random.default_rng(0)
    for name in ("one", "two", "three"):
        eh.Holdout.create(storage, name, holdout={"x": rng.normal(size=4_000)}, queries=20).close()
    found = OpenHoldouts(storage)
    yield found
    found.close()


def test_the_one_that_was_used_longest_ago_is_let_go_and_still_answers(holdouts):
    one, two = holdouts.whole("one", HOST), holdouts.whole("two", HOST)
    assert holdouts.whole("one", HOST) is one
    holdouts.whole("three", HOST)
    assert holdouts.whole("one", HOST) is one
    assert holdouts.whole("two", HOST) is not two
    assert two.ask("x > 0", guess=0.5).low is not None
    assert holdouts.whole("two", HOST).ask("x > 0", guess=0.5).repeated
    gone = weakref.ref(two._executor.sealed)
    del two
    gc.collect()
    assert gone() is None
