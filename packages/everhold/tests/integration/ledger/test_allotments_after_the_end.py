"""What the entries say of the end of a study, replayed by whoever verifies it."""

import pytest

from everhold.errors import IntegrityError
from everhold.ledger.acts import ACT, RECOVERY, UNSEALING, Accounts

LINES = [[1, 0.5, 0.25, 0.75], [4, 0.0, 0.0, 1.0]]


def unsealed(lines=LINES, charged=0):
    accounts = Accounts()
    said = accounts.replay({"kind": UNSEALING}, {"source": UNSEALING, "disclosed": lines}, charged)
    return accounts, said


def test_the_end_is_in_the_state_and_is_no_query():
    accounts, said = unsealed()
    assert said is None
    state = accounts.into({"mechanism": {}})
    again = Accounts.from_state(state)
    assert (again.closed, again.unsealings, again.queries_among(5)) == (True, 1, 4)
    assert again.agree_with(state)
    assert not Accounts().agree_with(state)
    assert not again.agree_with({"mechanism": {}})


@pytest.mark.parametrize(
    "lines",
    [None, {}, [[1]], [[1, 0.5, 0.25, 1.5]], [[1, 0.5, 0.25, None]], [[1, 0, 0.25, 0.75]], [*LINES, LINES[0]], [7]],
)
def test_a_malformed_end_is_found_and_closes_the_study_all_the_same(lines):
    accounts, said = unsealed(lines)
    assert said == "the unsealing is malformed"
    assert accounts.closed
    assert unsealed(charged=1)[1] == "the unsealing is malformed"


@pytest.mark.parametrize(
    ("description", "source"),
    [({"kind": "mean"}, "holdout"), ({"kind": "mean"}, "silent"),
     ({"kind": ACT, "analyst": "a", "queries": 1, "charges": 1}, ACT)],
)  # fmt: skip
def test_whatever_comes_after_the_end_is_found(description, source):
    accounts, _ = unsealed()
    assert "after the study had been unsealed" in accounts.replay(description, {"source": source}, 0)
    assert accounts.parts == {}


def test_a_second_end_is_found_and_a_recovery_that_lost_one_closes():
    accounts, _ = unsealed()
    assert "unsealed twice" in accounts.replay({}, {"source": UNSEALING, "disclosed": LINES}, 0)
    lost = {"queries": 0, "charges": 0, "generation": 1, "closed": True}
    accounts = Accounts()
    assert accounts.replay(lost, {"source": RECOVERY}, 0) is None
    assert (accounts.closed, accounts.unsealings) == (True, 0)
    assert accounts.replay({}, {"source": UNSEALING, "disclosed": LINES}, 0) is None  # the others can still be told
    assert accounts.unsealings == 1


@pytest.mark.parametrize("unsealings", [-1, True, "1", None, 1.0])
def test_an_altered_end_in_the_state_is_an_error(unsealings):
    stored = {"acts": 0, "analysts": [], "unsealed": unsealings}
    with pytest.raises(IntegrityError, match="was altered or is damaged"):
        Accounts.from_state({"allotments": stored})
