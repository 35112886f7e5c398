"""Checkpoints: what a certificate rests on them for, and what somebody with the whole database can do with them."""

import json
import sys

import pytest
from ledger_samples import KEY, ask, new_study

from everhold.errors import IntegrityError
from everhold.ledger import verify
from everhold.ledger.verification import check_unaltered

VERIFY = sys.modules[check_unaltered.__module__]  # the room has a function of that name
OTHER_KEY = b"another key of thirty-two bytes!"


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Five entries are many."""
    monkeypatch.setattr(VERIFY, "READ_AGAIN", 5)


@pytest.fixture
def long_study(store):
    """A ledger with a checkpoint at entry 8, and four entries after it."""
    record = new_study(store)
    ask(store, record, *range(8))
    assert verify(store, "study", seal_key=KEY).ok
    ask(store, record, *range(8, 12))
    return record


def checked(store, record, key=KEY):
    return check_unaltered(store, "study", store.head(record.id, seal_key=KEY), seal_key=key)


def kept(store):
    with store.snapshot("study") as snapshot:
        return snapshot.checkpoint


def findings(store):
    return [found.what for found in verify(store, "study", seal_key=KEY).findings]


ALTERED = "UPDATE entries SET answer = '{\"value\":0.5}' WHERE sequence = 3"


def test_a_certificate_reads_on_from_the_checkpoint(store, long_study):
    found = checked(store, long_study)
    assert found.since.sequence == 8
    assert sum(found.counts.sources.values()) == 12


def test_what_it_adds_up_to_is_what_all_entries_add_up_to(store, long_study, monkeypatch):
    from_checkpoint = checked(store, long_study).counts
    monkeypatch.setattr(VERIFY, "READ_AGAIN", 1_000)
    whole = checked(store, long_study)
    assert whole.since is None
    assert whole.counts == from_checkpoint


def test_an_entry_altered_before_the_checkpoint_is_found_by_verify_alone(store, long_study, alter):
    alter(ALTERED)
    assert checked(store, long_study).since.sequence == 8  # which is why a certificate says where it read on
    assert any("altered" in what for what in findings(store))


@pytest.mark.parametrize(
    "statement",
    [
        ALTERED.replace("= 3", "= 10"),
        "DELETE FROM entries WHERE sequence = 3",
        f"UPDATE entries SET query = '{'ab' * 32}' WHERE sequence = 3",
        "UPDATE entries SET asked_at = '2020' WHERE sequence = 1",
        "UPDATE holdouts SET configuration = '{\"rows\":7}'",
        "UPDATE entries SET entry_hash = previous_hash WHERE sequence = 8",
    ],
)
def test_what_a_certificate_still_finds(store, long_study, alter, statement):
    alter(statement)
    with pytest.raises(IntegrityError, match="was altered or is damaged"):
        checked(store, long_study)
    assert findings(store)


def test_a_forged_checkpoint_is_found(store, long_study, alter):
    content = json.loads(kept(store)["content"])
    content["charged"] = 0
    alter(f"UPDATE checkpoints SET content = '{json.dumps(content, sort_keys=True, separators=(',', ':'))}'")
    with pytest.raises(IntegrityError, match="the checkpoint was altered"):
        checked(store, long_study)
    alter("UPDATE checkpoints SET seal = 'ab'")
    assert findings(store) == ["the checkpoint was altered: it does not carry the seal of this key"]


def test_a_checkpoint_whose_sums_are_wrong_is_found(store, long_study, monkeypatch):
    """A sealed lie, as only the key's holder or a mistake of everhold could write."""
    found = checked(store, long_study).since
    lie = type(found)(found.sequence, found.entry_hash, 5, found.accounts, found.tally, found.made_at)
    lie.keep(store.database, holdout=long_study.id, seal_key=KEY)
    with pytest.raises(IntegrityError, match="charged"):
        checked(store, long_study)
    assert findings(store) == ["the checkpoint says something else than what the first 8 entries add up to"]


def test_an_older_checkpoint_that_is_put_back_is_true_too(store, long_study, alter):
    old = kept(store)
    assert verify(store, "study", seal_key=KEY).ok
    assert kept(store)["sequence"] == 12
    alter(f"UPDATE checkpoints SET sequence = 8, content = '{old['content']}', seal = '{old['seal']}'")
    assert checked(store, long_study).since.sequence == 8


def test_a_checkpoint_of_another_holdout_is_found(store, long_study, alter):
    other = new_study(store, "other")
    ask(store, other, *range(12))
    alter(f"UPDATE checkpoints SET holdout_id = '{other.id}'")
    head = store.head(other.id, seal_key=KEY)
    with pytest.raises(IntegrityError, match="the checkpoint was altered"):
        check_unaltered(store, "other", head, seal_key=KEY)


@pytest.mark.parametrize("sequence", [8, 20])
def test_a_sealed_checkpoint_that_the_chain_does_not_pass_through_is_not_used(store, long_study, sequence):
    """As after a database was set back behind it, and diverged, or was set back without it."""
    found = checked(store, long_study).since
    elsewhere = type(found)(sequence, "ab" * 32, found.charged, found.accounts, found.tally, found.made_at)
    elsewhere.keep(store.database, holdout=long_study.id, seal_key=KEY)
    assert checked(store, long_study).since is None
    assert findings(store) == []


def test_nobody_else_s_key_leaves_or_uses_a_checkpoint(store, long_study):
    before = kept(store)
    assert not verify(store, "study", seal_key=OTHER_KEY).ok
    assert verify(store, "study", seal_key=None).ok
    assert kept(store) == before


def test_a_short_ledger_has_none(store, monkeypatch):
    monkeypatch.setattr(VERIFY, "READ_AGAIN", 20_000)
    record = new_study(store)
    ask(store, record, 1, 2)
    assert checked(store, record).since is None
    assert kept(store) is None


def test_a_ledger_without_entries_is_checked_too(store):
    record = new_study(store)
    assert checked(store, record).counts.sources == {}
