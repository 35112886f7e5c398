import copy
import pickle
import sqlite3
import threading
import time

import pytest
import sqlalchemy as sa
from ledger_samples import KEY, SECRET, ask, committed_by, new_study, query, spend, start_state

from everhold.errors import EverholdError, HoldoutNotFound, HoldoutRejected, IntegrityError, Unavailable
from everhold.ledger import EntryDraft, Ledger, LedgerStore, Outcome, verify
from everhold.ledger.ledger import MOVE_HEAD, _Appended


def refuse_to_run(state, indices):
    raise AssertionError("the step must not run")


def test_a_created_holdout_is_found_by_name(store, record):
    assert store.record("study") == record
    assert store.names() == ["study"]
    head = store.head(record.id)
    assert (head.sequence, head.asked, head.charged, head.state) == (0, 0, 0, start_state())


def test_a_name_is_taken_once(store, record):
    with pytest.raises(HoldoutRejected, match="A holdout named 'study' exists"):
        store.create("study", {}, {"other": 1}, seal_key=KEY)
    assert store.head(record.id).state == start_state()


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, "nul\0"])
def test_a_name_that_cannot_be_shown_is_rejected(store, name):
    with pytest.raises(HoldoutRejected, match="printable"):
        store.create(name, {}, {}, seal_key=KEY)
    assert store.names() == []


def test_an_unknown_name_lists_those_that_exist(store, record):
    with pytest.raises(HoldoutNotFound, match="'study'") as caught:
        store.record("flights")
    assert caught.value.data["names"] == ["study"]


def test_an_unknown_holdout_cannot_be_asked(store, record):
    with pytest.raises(HoldoutNotFound):
        committed_by(Ledger(store.database, "0" * 32, KEY), [query(1)], refuse_to_run)


def test_answers_come_in_the_order_asked_and_repeats_are_free(store, record):
    ask(store, record, 1)
    seen = []

    def step(state, indices):
        seen.append(indices)
        return spend(state, indices)

    committed = ask(store, record, 5, 1, 6, 5, 7, step=step)
    assert seen == [[0, 2, 4]]
    assert [c.sequence for c in committed] == [2, 1, 3, 2, 4]
    assert [c.charged for c in committed] == [1, 0, 1, 0, 1]
    assert [c.repeated for c in committed] == [False, True, False, True, False]
    assert [c.answer["value"] for c in committed] == [1 / 7, 0.0, 2 / 7, 1 / 7, 3 / 7]
    assert Ledger(store.database, record.id, KEY).head().state == start_state() | {"spent": 4}
    assert store.head(record.id).charged == 4


def test_repeats_alone_do_not_run_the_step(store, record):
    first = ask(store, record, 1, 2)
    again = ask(store, record, 2, 1, step=refuse_to_run)
    assert [c.answer for c in again] == [c.answer for c in reversed(first)]
    assert ask(store, record, step=refuse_to_run) == []


def test_the_first_answer_equals_its_repeat_exactly(store, record):
    def step(state, indices):
        return state, [Outcome({"pair": (0.1, 1e-320), "3": 2**70, "nested": {"z": None, "a": True}}, 0)]

    (first,), (again,) = ask(store, record, 1, step=step), ask(store, record, 1)
    assert first.answer == again.answer == {"pair": [0.1, 1e-320], "3": 2**70, "nested": {"z": None, "a": True}}
    assert (first.charged, first.repeated, again.repeated) == (0, False, True)


def test_a_failing_step_leaves_no_trace(store, record):
    ask(store, record, 1)
    before = store.head(record.id)
    failure = RuntimeError("no")

    def step(state, indices):
        state["spent"] = 10**6
        raise failure

    with pytest.raises(RuntimeError) as caught:
        ask(store, record, 1, 2, step=step)
    assert caught.value is failure
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert store.head(record.id) == before
    assert Ledger(store.database, record.id, KEY).find(query(2).fingerprint) is None
    assert ask(store, record, 2)[0].sequence == 2


def test_an_error_of_the_drivers_kind_from_the_step_is_not_taken_for_our_own(store, record):
    def step(state, indices):
        raise sqlite3.OperationalError("of another database")

    with pytest.raises(sqlite3.OperationalError, match="of another database"):
        ask(store, record, 1, step=step)


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        ([], "one for each"),
        ([Outcome({}, 1), Outcome({}, 1)], "one for each"),
        ([Outcome({}, -1)], "whole number of at least 0"),
        ([Outcome({}, True)], "whole number of at least 0"),
        ([Outcome({}, 0.5)], "whole number of at least 0"),
        ([Outcome({"value": float("nan")}, 1)], "plain JSON"),
        ([Outcome({"value": {1, 2}}, 1)], "plain JSON"),
        ([Outcome({"value": "\ud800"}, 1)], "plain JSON"),
        ([Outcome({"low": [{9: 0, 10: 1}]}, 1)], "plain JSON"),
    ],
)
def test_a_malformed_outcome_is_refused_and_nothing_recorded(store, record, outcomes, message):
    with pytest.raises(ValueError, match=message):
        ask(store, record, 1, step=lambda state, indices: (state, outcomes))
    assert store.head(record.id).sequence == 0


@pytest.mark.parametrize("fingerprint", ["", "0" * 63, "A" * 64, "0" * 64 + "\n"])
def test_a_malformed_fingerprint_is_refused(store, record, fingerprint):
    with pytest.raises(ValueError, match="SHA-256"):
        committed_by(Ledger(store.database, record.id, KEY), [EntryDraft(fingerprint, {})], refuse_to_run)


def test_another_key_cannot_spend(store, record):
    with pytest.raises(IntegrityError, match="not sealed with this key"):
        committed_by(Ledger(store.database, record.id, b"another key"), [query(1)], refuse_to_run)


def test_nothing_is_built_on_an_altered_state(store, record, path):
    ask(store, record, 1)
    with sqlite3.connect(path) as raw:
        raw.execute("DROP TRIGGER head_only_forward")
        raw.execute("UPDATE head SET state = replace(state, ?, ?)", (str(SECRET), str(SECRET - 1)))
    raw.close()
    with pytest.raises(IntegrityError, match="everhold ledger verify") as caught:
        ask(store, record, 2, step=refuse_to_run)
    assert str(SECRET - 1) not in str(caught.value)


def test_entries_are_read_in_pages_and_slices(store, record, monkeypatch):
    monkeypatch.setattr("everhold.ledger.ledger._PAGE_SIZE", 3)
    ask(store, record, *range(10))
    numbers = range(1, 11)
    for start in range(12):
        for limit in [None, 0, 1, 3, 4, 20]:
            got = [entry.sequence for entry in Ledger(store.database, record.id, KEY).entries(start, limit)]
            assert got == list(numbers[start:][:limit])


def test_an_entry_says_what_was_asked_and_answered(store, record):
    (committed,) = ask(store, record, 1)
    entry = Ledger(store.database, record.id, KEY).find(query(1).fingerprint)
    assert [entry] == list(Ledger(store.database, record.id, KEY).entries())
    assert (entry.description, entry.answer, entry.charged) == (query(1).description, committed.answer, 1)


def test_holdouts_in_one_file_do_not_mix(store, record):
    other = new_study(store, "other")
    ask(store, record, 1, 2)
    assert ask(store, other, 2)[0].repeated is False
    assert (store.head(record.id).sequence, store.head(other.id).sequence) == (2, 1)


def test_state_and_answers_stay_out_of_reprs(store, record):
    committed = ask(store, record, 1)
    head = store.head(record.id)
    entries = list(Ledger(store.database, record.id, KEY).entries())
    values = [committed, head, entries, store, record, spend(start_state(), [0])[1]]
    assert head.state["threshold"] == committed[0].answer["secret"] == SECRET
    assert all(str(SECRET) not in repr(value) for value in values)


def test_a_secret_that_is_not_json_stays_out_of_the_error(store, record):
    with pytest.raises(ValueError, match="plain JSON") as caught:
        ask(store, record, 1, step=lambda state, indices: ({"x": f"{SECRET}\ud800"}, [Outcome({}, 0)]))
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert str(SECRET) not in str(caught.value)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda store: pickle.loads(pickle.dumps(store))])
def test_a_copied_store_writes_to_the_same_ledger(store, record, duplicate):
    with duplicate(store) as other:
        ask(other, record, 1)
    assert store.head(record.id).sequence == 1


def test_all_who_write_to_a_file_take_turns_whichever_holdout_it_is_about(store, record, path, url):
    """SQLite itself lets those who wait sleep longer and longer, and serves whoever comes first."""
    with LedgerStore.open(url) as other, store.database.transaction(writing=True, turn=record.id):
        waiting = threading.Thread(target=lambda: other.create("another", {}, {}, seal_key=KEY))
        waiting.start()
        assert other.database.line("").locked()
        assert other.names() == ["study"]
    waiting.join()
    assert store.names() == ["another", "study"]


def test_threads_take_turns(store, record):
    threads = [threading.Thread(target=ask, args=(store, record, *range(k, 40, 4))) for k in range(4)]
    threads += [threading.Thread(target=lambda: [ask(store, record, n) for n in range(40)])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.head(record.id).charged == 40
    assert verify(store, "study", seal_key=KEY).ok


def asked_together(store, record, asks):
    """What each of the threads was told, or its error, when all wait for their turn at the same moment.

    A step may come with the record of another holdout, which it is for.
    """
    told = {}

    def tell(number, step):
        of, step = step if isinstance(step, tuple) else (record, step)
        try:
            told[number] = ask(store, of, number, step=step)[0]
        except Exception as error:
            told[number] = error

    threads, line = [], store.database.line(record.id)
    with store.database.transaction(writing=True, turn=record.id):
        for place, (number, step) in enumerate(asks.items(), 1):
            threads.append(threading.Thread(target=tell, args=(number, step)))
            threads[-1].start()
            while len(line) < place:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    return told


def test_those_who_wait_share_one_commit_and_one_that_fails_spoils_nothing(store, record, monkeypatch):
    """Each goes on from the state after the one before."""
    monkeypatch.setattr("everhold.ledger.database._LONGEST", 60.0)  # a slow machine shares no less
    ask(store, record, "known")
    commits = []

    def fail(state, indices):
        raise ZeroDivisionError

    sa.event.listen(store.database._engine, "commit", commits.append)
    told = asked_together(store, record, {1: spend, 2: spend, 3: fail, "known": spend, 4: spend})
    assert len(commits) == 2  # of the one for whom they waited, and theirs
    assert isinstance(told[3], ZeroDivisionError)
    assert [told[each].sequence for each in (1, 2, "known", 4)] == [2, 3, 1, 4]
    assert [told[each].answer["value"] for each in (1, 2, 4)] == [1 / 7, 2 / 7, 3 / 7]
    assert verify(store, "study", seal_key=KEY).ok
    assert store.head(record.id).charged == 4


def test_those_who_shared_a_commit_share_the_next_one_too(store, record, monkeypatch):
    """The first of them waits for the others, and later for fewer if they do not come."""
    monkeypatch.setattr("everhold.ledger.database._LONGEST", 60.0)
    monkeypatch.setattr("everhold.ledger.database._SOON", 60.0)
    asked_together(store, record, dict.fromkeys(range(3), spend))
    commits = []
    sa.event.listen(store.database._engine, "commit", commits.append)
    threads = [threading.Thread(target=ask, args=(store, record, number)) for number in range(3, 6)]
    for thread in threads:
        assert not commits  # of those who found too few others
        thread.start()
        time.sleep(0.02)
    for thread in threads:
        thread.join()
    assert len(commits) == 1
    monkeypatch.setattr("everhold.ledger.database._SOON", 0.0)
    for number in range(6, 9):
        ask(store, record, number)
    monkeypatch.setattr("everhold.ledger.database._SOON", "no number")  # nobody can wait so long
    ask(store, record, 9)  # alone for some time, so it waits for nobody
    assert store.head(record.id).charged == 10


def test_a_group_that_is_not_committed_is_told_nothing(store, record, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("everhold.ledger.ledger.MOVE_HEAD", MOVE_HEAD.where(sa.false()))
        told = asked_together(store, record, dict.fromkeys(range(4), spend))
    assert {type(error) for error in told.values()} == {Unavailable}
    assert len({id(error) for error in told.values()}) == 4
    assert (store.head(record.id).sequence, [*Ledger(store.database, record.id, KEY).entries()]) == (0, [])
    assert ask(store, record, 1)[0].repeated is False


def test_nobody_is_told_before_what_follows_from_the_commit(store, record, monkeypatch):
    """The head file is moved on for all of a group before any of them goes on."""

    def fail(_):
        raise EverholdError("the disk is full")

    monkeypatch.setattr("everhold.ledger.ledger._Appended.committed", fail)
    told = asked_together(store, record, dict.fromkeys(range(4), spend))
    assert [str(error) for error in told.values()] == ["the disk is full"] * 4
    assert store.head(record.id).sequence == 4


@pytest.mark.parametrize("method", ["write", "committed"])
def test_the_fault_of_one_holdout_is_told_to_nobody_who_asks_another(store, record, monkeypatch, method):
    damaged = new_study(store, "damaged")
    if store.database.line(damaged.id) is not store.database.line(record.id):
        pytest.skip("those who ask different holdouts of this database share nothing")
    right = getattr(_Appended, method)

    def fail(part, *given):
        right(part, *given)
        if part.ledger.holdout == damaged.id:
            raise IntegrityError("the ledger of the other one is damaged")

    with monkeypatch.context() as patched:
        patched.setattr(_Appended, method, fail)
        told = asked_together(store, record, {1: spend, 2: (damaged, spend), 3: spend, 4: (damaged, spend)})
    assert [type(told[each]) for each in (2, 4)] == [IntegrityError, IntegrityError]
    assert [told[each].sequence for each in (1, 3)] == [1, 2]
    assert store.head(record.id).charged == 2
    assert store.head(damaged.id).charged == (0 if method == "write" else 2)
    assert verify(store, "study", seal_key=KEY).ok
    assert verify(store, "damaged", seal_key=KEY).ok


def test_reading_does_not_hold_up_a_writer_nor_see_half_a_batch(url, record):
    with LedgerStore.open(url, patience=0.0) as other, other.snapshot("study") as snapshot:
        with LedgerStore.open(url, patience=0.0) as writer:
            ask(writer, record, 1, 2)
        assert list(snapshot.entries()) == []
        assert other.head(record.id).sequence == 2


def test_a_step_may_read_the_ledger(store, record):
    def step(state, indices):
        assert store.head(record.id).sequence == 0
        return spend(state, indices)

    ask(store, record, 1, step=step)


def test_ten_thousand_queries_with_repeats_in_one_batch(store, record):
    ask(store, record, *range(0, 4_000, 2))
    asked = [*range(9_000), *range(8_000, 9_000)]
    calls = []

    def step(state, indices):
        calls.append(len(indices))
        return spend(state, indices)

    committed = ask(store, record, *asked, step=step)
    assert calls == [7_000]
    assert sum(c.charged for c in committed) == 7_000
    assert [c.sequence for c in committed[8_000:9_000]] == [c.sequence for c in committed[9_000:]]
    assert len({c.sequence for c in committed}) == 9_000
    assert verify(store, "study", seal_key=KEY).ok
