"""The champions of gates follow from the entries alone, and anything else is found out."""

from functools import partial

import numpy as np
import pytest

import everhold as eh
from everhold.errors import IntegrityError
from everhold.gates.records import Gates, OpenChallenges
from everhold.ledger.acts import GATE, KEPT, PROMOTED, Accounts

A, B, C = ("a" * 64, "b" * 64, "c" * 64)
OPENED = {"gate": "night", "metric": {"kind": "accuracy"}, "margin": 0.0, "challenges": 2, "champion": A}


def challenge(champion, challenger):
    return {"gate": "night", "champion": champion, "challenger": challenger}


def opened():
    gates = Gates()
    gates.replay(OPENED, GATE)
    return gates


def test_a_promotion_makes_the_next_champion_and_kept_does_not():
    gates = opened()
    gates.settle(challenge(A, B), KEPT, 0)
    assert gates.by_name["night"].champion == A
    gates.settle(challenge(A, C), PROMOTED, 1)
    night = gates.by_name["night"]
    assert (night.champion, night.before, night.first, night.challenges, night.promotions) == (C, A, A, 2, 1)
    assert night.left == 0


def test_gates_survive_their_way_through_the_state():
    gates = opened()
    gates.settle(challenge(A, B), PROMOTED, 1)
    state = gates.into({"mechanism": {}})
    assert Gates.from_state(state) == gates
    assert gates.agree_with(state)
    assert not opened().agree_with(state)
    assert Gates().into({"mechanism": {}}) == {"mechanism": {}}
    assert Accounts.from_state(state).into({"mechanism": {}}) == state


def test_a_thread_that_looks_for_another_extension_disturbs_nobody_who_reads_the_accounts():
    """Threads of a service share the head that was read last, and with it its accounts."""
    accounts = Accounts.from_state(opened().into({"mechanism": {}}))
    read = iter(accounts.extensions.values())
    assert next(read).entries == 1
    assert accounts.of(OpenChallenges).entries == 0
    assert list(read) == []


@pytest.mark.parametrize(
    ("description", "source", "fault"),
    [
        (challenge(B, C), PROMOTED, "not the champion"),
        (challenge(A, "b"), KEPT, "malformed"),
        ({**challenge(A, B), "gate": "day"}, KEPT, "malformed"),
        (OPENED, GATE, "twice"),
        ({**OPENED, "gate": "day", "margin": 1.5}, GATE, "malformed"),
        ({**OPENED, "gate": "day", "challenges": 0}, GATE, "malformed"),
        ({**OPENED, "gate": "", "champion": A}, GATE, "malformed"),
    ],
)
def test_what_is_never_written_is_refused(description, source, fault):
    gates = opened()
    take = gates.replay if source == GATE else partial(gates.settle, charged=int(source == PROMOTED))
    with pytest.raises(ValueError, match=fault):
        take(description, source)


def test_more_challenges_than_the_limit_are_refused():
    gates = opened()
    for challenger in (B, C):
        gates.settle(challenge(A, challenger), KEPT, 0)
    with pytest.raises(ValueError, match="limit"):
        gates.settle(challenge(A, "d" * 64), KEPT, 0)


def test_a_promotion_at_another_price_is_found_out():
    accounts = Accounts(extensions={"gates": opened()})
    assert "the charge of a verdict is wrong" in str(accounts.replay(challenge(A, B), {"source": PROMOTED}, 0))
    assert "the charge of a verdict is wrong" in str(accounts.replay(challenge(A, B), {"source": KEPT}, 1))
    assert accounts.replay(challenge(A, B), {"source": PROMOTED}, 1) is None


@pytest.mark.parametrize(
    "stored",
    [[], 7, [["night"]], [["night", {}, 0.0, 2, A, B, "", 1, 1]], [["night", {}, 0.0, 2, A, A, "", 3, 0]],
     [["night", {}, -0.5, 2, A, A, "", 0, 0]]],
)  # fmt: skip
def test_a_state_with_impossible_gates_is_refused(stored):
    with pytest.raises(IntegrityError):
        Gates.from_state({"gates": stored})


def test_a_champion_that_was_put_into_the_database_is_found_out(url, alter):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 1_000)
    with eh.Holdout.create(
        url, "study", holdout={"x": rng.normal(size=1_000), "late": labels}, label="late",
        mechanism="guess_and_check", queries=20, surprises=2,
    ) as holdout:  # fmt: skip
        gate = holdout.gate("accuracy", champion=np.zeros(1_000, dtype=int))
        first = gate.champion
    alter(f"UPDATE head SET state = replace(state, '{first}', '{A}')")
    with pytest.raises(IntegrityError):
        eh.Holdout.open(url, "study")
