"""Which submission of a team is final follows from the entries alone, and anything else is found out."""

import pytest

from everhold.errors import IntegrityError
from everhold.ledger.acts import Accounts
from everhold_competitions.teams import CLOSING, SUBMISSION, Submissions, Team

A, B = "a" * 64, "b" * 64


def received(team, predictions, *, final=True):
    return {"team": team, "predictions": predictions, "final": final}


def made(*descriptions):
    submissions = Submissions()
    for description in descriptions:
        submissions.replay(description, SUBMISSION)
    return submissions


def test_the_last_one_is_final_unless_it_says_that_it_is_not():
    submissions = made(received("owls", A), received("larks", A), received("owls", B))
    assert submissions.teams["owls"] == Team("owls", final=B, latest=B, received=2)
    submissions.replay(received("owls", A, final=False), SUBMISSION)
    assert submissions.teams["owls"] == Team("owls", final=B, latest=A, received=3)
    assert made(received("owls", A, final=False)).teams["owls"].final == A  # a team always has one
    assert submissions.entries == 4


def test_they_survive_their_way_through_the_state_with_all_other_accounts():
    submissions = made(received("owls", A), received("larks", B))
    submissions.replay({}, CLOSING)
    state = submissions.into({"mechanism": {}})
    assert Submissions.from_state(state) == submissions
    assert submissions.agree_with(state)
    assert not made(received("owls", A)).agree_with(state)
    assert Submissions().into({"mechanism": {}}) == {"mechanism": {}}
    accounts = Accounts.from_state(state)
    assert accounts.into({"mechanism": {}}) == state
    assert accounts.queries_among(10) == 7  # three entries are no queries
    accounts.allot("owls", 5, 5)
    assert Accounts.from_state(accounts.into({"mechanism": {}})).of(Submissions) == submissions


@pytest.mark.parametrize(
    ("description", "source", "fault"),
    [
        (received("", A), SUBMISSION, "malformed"),
        (received("owls", "a"), SUBMISSION, "malformed"),
        (received("owls", A.upper()), SUBMISSION, "malformed"),
        ({"team": "owls", "predictions": A}, SUBMISSION, "malformed"),
        (received("owls", A, final=1), SUBMISSION, "malformed"),
        ({}, CLOSING, "twice"),
        (received("owls", A), SUBMISSION, "after the end"),
    ],
)
def test_what_is_never_written_is_refused(description, source, fault):
    submissions = made(received("owls", A))
    if fault != "malformed":
        submissions.replay({}, CLOSING)
    with pytest.raises(ValueError, match=fault):
        submissions.replay(description, source)


@pytest.mark.parametrize(
    "stored",
    [
        {"teams": [["owls", A, A, 0]], "closed": False},
        {"teams": [["owls", "a", A, 1]], "closed": False},
        {"teams": [["owls", A, A, 1], ["owls", B, B, 1]], "closed": False},
        {"teams": [["owls", A, A, 1]], "closed": 1},
        {"teams": [["owls", A, A, 1]]},
        {"teams": [["owls", A]], "closed": False},
        7,
    ],
)
def test_an_altered_head_is_an_error(stored):
    with pytest.raises(IntegrityError, match="ledger's record of submissions"):
        Submissions.from_state({"submissions": stored})


def test_a_submission_that_is_told_nothing_is_spent_of_an_allotment():
    accounts = Accounts()
    accounts.allot("owls", 1, 0)
    described = {**received("owls", A), "analyst": "owls"}
    assert accounts.replay(described, {"source": SUBMISSION}, 0) is None
    assert accounts.parts["owls"].asked == 1
    assert "more than the allotment" in accounts.replay(described, {"source": SUBMISSION}, 0)
    assert "never charged" in accounts.replay(received("owls", A), {"source": SUBMISSION}, 1)
    accounts.unseal()
    assert "after the study had been unsealed" in accounts.replay(received("owls", A), {"source": SUBMISSION}, 0)
