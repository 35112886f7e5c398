"""The end of a study: all sealed numbers are told at once, and the study never goes on."""

import base64
import json
import math
import shutil
import sqlite3
import struct
from contextlib import closing

import numpy as np
import pytest
from holdout_samples import create, guess_and_check, rows
from prepared_processes import prepared_processes
from sealed_copies import copy_of
from unsealing_children import unseal_between_queries

from everhold import (
    EverholdWarning,
    GaussianMechanism,
    Holdout,
    IntegrityError,
    Ladder,
    MarkovChain,
    QueryRejected,
    correlation,
    histogram,
    mean,
    variance,
    verify_certificate,
)
from everhold.ledger import verify
from everhold.ledger.store import all_entries
from everhold.strict_json import canonical

COUNT = 997  # so that no mean is a short number
OPEN, OFF, SILENT = "delay > 15", "delay > 0", "delay > 5"
QUERIES = (OPEN, OFF, SILENT)
TOLD = ("sealed", "sealed_low", "sealed_high")


def test_tables_of_several_answers_have_the_unsealed_numbers(tmp_path):
    with asked(tmp_path) as holdout:
        bins = histogram("delay", [0, 15])
        before = holdout.ask(bins)
        assert "sealed" not in before.to_rows()[0]
        holdout.unseal()
        after = holdout.ask(bins)
        for name, row in zip(after.answers, after.to_rows(), strict=True):
            assert [row[each] for each in TOLD] == [getattr(after[name], each) for each in TOLD]
        assert "sealed_low" in after._repr_html_()
        assert "sealed_low" in str(after)


def sealed_rows():
    return rows(0, COUNT)


def asked(folder, name="study", **wanted):
    """A study with a confirmed answer, a surprise and a silent query."""
    wanted = {"holdout": sealed_rows(), "mechanism": guess_and_check(COUNT), "training": rows(1, 1_003), **wanted}
    study = create(folder, name, **wanted)
    study.ask(OPEN)
    study.ask(OFF, guess=0.99)
    study.ask(SILENT, silent=True)
    return study


@pytest.fixture
def study(tmp_path):
    with copy_of(tmp_path, asked) as made:
        yield made


def opened(folder, **how):
    return Holdout.open(folder / "study.db", "study", **how)


def truth(text):
    return float(np.mean(sealed_rows()["delay"] > int(text.split()[-1])))


def findings(study):
    executor = study._executor
    found = verify(
        executor.store, executor.record.name, seal_key=executor.key.seal_key, head_file=executor.ledger.head_file
    ).findings
    return [finding.what for finding in found]


def stored(folder):
    """The answers of all entries, as the database holds them."""
    with closing(sqlite3.connect(folder / "study.db")) as database:
        return [json.loads(text) for (text,) in database.execute("SELECT answer FROM entries ORDER BY sequence")]


def everything(study):
    return study._executor.ledger.head(), study.status(), list(study.transcript().to_rows())


# what is told


def test_every_query_gets_what_the_sealed_rows_say_with_a_narrower_interval(study):
    before = {row["asked"]: row for row in study.transcript().to_rows()}
    told = {row["asked"]: row for row in study.unseal().to_rows()}
    for text in QUERIES:
        row, answer = told[f"mean of {text}"], before[f"mean of {text}"]
        assert row["sealed"] == pytest.approx(truth(text), abs=1e-9)
        assert row["sealed_low"] < row["sealed"] < row["sealed_high"]
        if text != SILENT:
            assert row["sealed_high"] - row["sealed_low"] < answer["high"] - answer["low"]
    assert (before[f"mean of {SILENT}"]["value"], before[f"mean of {OPEN}"]["source"]) == (None, "training")
    assert before[f"mean of {OFF}"]["charged"] == 1


def test_transcripts_and_repeats_carry_the_numbers_afterwards(study):
    assert not set(TOLD) & set(study.transcript().to_rows()[0])
    told = study.unseal().to_rows()
    shown = [{name: row[name] for name in TOLD} for row in study.transcript().to_rows()]
    assert shown == [{name: row[name] for name in TOLD} for row in told]
    for text, row in zip(QUERIES, told, strict=True):
        again = study.ask(text)
        assert (again.repeated, again.charged) == (True, 0)
        assert [getattr(again, name) for name in TOLD] == [row[name] for name in TOLD]
        assert {name: again.to_dict()[name] for name in TOLD} == {name: row[name] for name in TOLD}
        assert f"unsealed {again.sealed:.4g} in [" in str(again)
        assert "The study is unsealed" in again.explain()
    assert study.unseal().to_pandas().columns.tolist()[-3:] == list(TOLD)


def test_numbers_are_told_in_the_units_of_the_query(tmp_path):
    with create(tmp_path) as study:
        query = mean("delay", low=-20.0, high=40.0)
        study.ask(query)
        (row,) = study.unseal().to_rows()
        again = study.ask(query)
    assert again.sealed == pytest.approx(np.mean(np.clip(rows(0)["delay"], -20.0, 40.0)), abs=1e-5)
    assert [row[name] for name in TOLD] == [getattr(again, name) for name in TOLD]
    assert again.sealed_low < again.sealed < again.sealed_high


def test_what_is_made_of_several_queries_is_combined(tmp_path):
    parts = variance("delay", low=-100.0, high=100.0), histogram("delay", [0, 15])
    with create(tmp_path, mechanism=guess_and_check(queries=60, tolerance=0.3)) as study:
        before, _ = study.ask(parts[0]), study.ask(parts[1])
        silently = study.ask(correlation("late = 1", "delay > 30"), silent=True)
        assert (silently.source, silently.value, silently.refused) == ("silent", None, False)
        assert not study.quote(correlation("late = 1", "delay > 30")).refused
        study.unseal()
        after, shares = study.ask(parts[0]), study.ask(parts[1])
        whole = study.ask(correlation("late = 1", "delay > 30"))
    assert after.sealed == pytest.approx(np.var(np.clip(rows(0)["delay"], -100.0, 100.0)), rel=1e-3)
    assert before.high - before.low > after.sealed_high - after.sealed_low > 0.0
    assert sum(answer.sealed for answer in shares.answers.values()) == pytest.approx(1.0)
    assert (whole.value, whole.sealed_low < whole.sealed < whole.sealed_high) == (None, True)


# it is over


def test_a_second_unsealing_tells_the_same_and_writes_nothing(study, tmp_path):
    first, before = study.unseal(), everything(study)
    assert study.unseal() == first
    with opened(tmp_path) as other:
        assert other.unseal() == first
    assert everything(study) == before
    assert findings(study) == []
    assert study.status()["closed"]
    assert study.remaining == {"queries": 0, "surprises": 0}


@pytest.mark.parametrize(
    "use",
    [
        lambda study: study.ask("delay > 77"),
        lambda study: study.ask("delay > 77", silent=True),
        lambda study: study.ask("delay > 77", strict=True),
        lambda study: study.ask_many([OPEN, "delay > 77"]),
        lambda study: study.ask(variance("delay", low=0.0, high=1.0)),
        lambda study: study.quote("delay > 77"),
        lambda study: study.quote(),
        lambda study: study.analyst("team-a").ask("delay > 77"),
        lambda study: study.analyst("team-a").quote("delay > 77"),
        lambda study: study.allot("team-a", queries=5),
        lambda study: study.allot("team-b", queries=5),
        lambda study: study.gate("accuracy", champion=[0, 1] * 498 + [0]),
    ],
)
def test_nothing_new_is_answered_or_allotted_afterwards(study, use):
    study.allot("team-a", queries=3, charges=0)
    study.unseal()
    before = everything(study)
    with pytest.raises(QueryRejected, match=r"The study was unsealed.*accepts no new queries"):
        use(study)
    assert everything(study) == before
    assert study.ask_many([OPEN, OFF])[1].repeated
    assert study.quote(OPEN).answered_before
    assert study.analyst("team-a").remaining == {"queries": 0, "surprises": 0}


def test_a_query_that_was_looked_at_before_the_end_is_refused_after_it(study, tmp_path, monkeypatch):
    """A long query is evaluated before its transaction; somebody else unseals in between."""
    monkeypatch.setattr("everhold.queries.means.plans._SHORT", 0)
    totals = type(study._executor.sealed).totals

    def unsealed_meanwhile(self, *arguments, **named):
        seen = totals(self, *arguments, **named)
        with opened(tmp_path) as other:
            other.unseal()
        return seen

    monkeypatch.setattr(type(study._executor.sealed), "totals", unsealed_meanwhile)
    with pytest.raises(QueryRejected, match="The study was unsealed"):
        study.ask("delay > 77", guess=0.5)
    assert len(study.transcript()) == len(QUERIES)


def test_a_short_query_is_refused_if_the_study_is_unsealed_before_its_transaction(study, tmp_path, monkeypatch):
    ledger = type(study._executor.ledger)
    repeated = ledger.repeated

    def unsealed_meanwhile(self, queries):
        found = repeated(self, queries)
        with opened(tmp_path) as other:
            other.unseal()
        return found

    monkeypatch.setattr(ledger, "repeated", unsealed_meanwhile)
    monkeypatch.setattr(type(study._executor.sealed), "totals", None)  # nothing is evaluated
    with pytest.raises(QueryRejected, match="The study was unsealed"):
        study.ask("delay > 77", guess=0.5)
    assert len(study.transcript()) == len(QUERIES)


def test_several_processes_unseal_once_and_whatever_was_answered_is_told(tmp_path):
    create(tmp_path).close()
    barrier, results = prepared_processes.Barrier(2), prepared_processes.Queue()
    storage = f"sqlite:///{tmp_path}/study.db"
    children = [
        prepared_processes.Process(target=unseal_between_queries, args=(storage, n, barrier, results)) for n in range(2)
    ]
    for child in children:
        child.start()
    reports = [results.get(timeout=60) for _ in children]
    for child in children:
        child.join()
    with opened(tmp_path) as study:
        told = study.unseal().to_dict()
        assert all(unsealed in (None, told) for unsealed, _ in reports)
        assert any(unsealed == told for unsealed, _ in reports)
        answered = {query for _, queries in reports for query in queries}
        assert answered == {row["query"] for row in told["entries"]}
        assert [answer["source"] for answer in stored(tmp_path)].count("unsealing") == 1
        assert findings(study) == []


def test_a_study_that_goes_on_is_found_by_whoever_verifies_it(study, monkeypatch):
    """Without the refusal the next query would be answered: this is what it would be found by."""
    study.unseal()
    everything = "everhold.asking.query_executor.affordable"
    monkeypatch.setattr(everything, lambda state, accounts, analyst, count, *, pricing: count)
    assert study.ask("delay > 77").value is not None
    assert [what[:48] for what in findings(study)] == ["it was written after the study had been unsealed"]
    with pytest.raises(IntegrityError, match="after the study had been unsealed"):
        study.certificate()


# before it is over


def texts(study, folder):
    """All that leaves the house, and the files of the ledger."""
    certificate = study.certificate()
    said = [
        certificate.to_json(), certificate.to_html(), str(study.status()), str(study.transcript()),
        str(study.transcript().to_dict()), str(study.allotments()), str(study.spent()),
        repr(study._executor.ledger.head()),
        repr(list(all_entries(study._executor.ledger))),
        *(str(told) for text in QUERIES for answer in [study.ask(text)]
          for told in (answer, repr(answer), answer.to_dict(), answer.explain(), answer.to_rows())),
    ]  # fmt: skip
    files = [file.read_bytes() for file in folder.glob("study.db*")] + [
        file.read_bytes() for file in folder.glob("study.rows/*/ledger.head")
    ]
    return [text.encode() for text in said] + files


def test_nothing_that_leaves_the_house_or_lies_in_the_database_tells_a_number_before(study, tmp_path):
    executor = study._executor
    entries = all_entries(executor.ledger)
    secret = [number for entry in entries for number in executor.ledger.sealed_of(entry.query, entry.answer)]
    assert len(secret) == 3 * len(QUERIES)
    before = texts(study, tmp_path)
    patterns = [
        pattern for number in secret
        for pattern in (f"{number:.9f}"[1:].encode(), struct.pack(">d", number), struct.pack("<d", number))
    ]  # fmt: skip
    before += [base64.b64decode(answer["sealed"]) for answer in stored(tmp_path)]
    assert [pattern for pattern in patterns for text in before if pattern in text] == []
    study.unseal()
    after = b"".join(texts(study, tmp_path))
    assert all(f"{number:.12f}"[1:11].encode() in after for number in secret)  # the search finds what is there


def test_all_envelopes_have_the_same_length_and_are_never_shown(study, tmp_path):
    answers = stored(tmp_path)
    assert {answer["source"] for answer in answers} == {"training", "holdout", "silent"}
    envelopes = [answer["sealed"] for answer in answers]
    assert len({len(envelope) for envelope in envelopes}) == 1
    assert len({*envelopes}) == len(QUERIES)
    assert not any(envelope.encode() in text for envelope in envelopes for text in texts(study, tmp_path)[:7])


def test_the_same_numbers_are_in_another_envelope_each_time(tmp_path):
    """Whoever compares copies of a database cannot see whether two answers have the same numbers."""
    create(tmp_path).close()
    shutil.copytree(tmp_path, tmp_path.with_name("copy"))
    envelopes = []
    for folder in (tmp_path, tmp_path.with_name("copy")):
        with opened(folder) as study:
            study.ask(OPEN)
        envelopes += [answer["sealed"] for answer in stored(folder)]
    assert len({*envelopes}) == 2


# who may not


@pytest.mark.parametrize(
    "mechanism",
    [
        GaussianMechanism(rows=1_000, queries=30, scale=0.02), Ladder(rows=1_000, queries=30, grid=20),
        "privacy_budget", "empirical", "sample_splitting",
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::everhold.NonAdaptiveWarning")
def test_mechanisms_whose_queries_have_no_interval_of_their_own_are_refused(tmp_path, mechanism):
    with create(tmp_path, mechanism=mechanism, queries=5) as study:
        study.ask(OPEN)
        before = everything(study)
        for use in (study.unseal, study.affected_holdouts):
            with pytest.raises(QueryRejected, match="can be unsealed"):
                use()
        with pytest.raises(QueryRejected, match="takes no silent queries"):
            study.ask("delay > 1", silent=True)
        with pytest.raises(QueryRejected, match="takes no silent queries"):
            study.ask_many(["delay > 1"], silent=True)
        assert everything(study) == before
        assert "sealed" not in stored(tmp_path)[0]


def test_neither_an_analyst_nor_a_study_without_queries_is_unsealed(tmp_path):
    with create(tmp_path) as study:
        study.allot("team-a", queries=3, charges=0)
        before = everything(study)
        with pytest.raises(QueryRejected, match="Ask queries first"):
            study.unseal()
        study.analyst("team-a").ask(OPEN, silent=True)
        with pytest.raises(QueryRejected, match="Only the steward can unseal"):
            study.analyst("team-a").unseal()
        assert study._executor.ledger.head().sequence == before[0].sequence + 1
        assert study.unseal().to_rows()[0]["analyst"] == "team-a"


def test_holdouts_with_the_same_rows_lose_their_promise_and_it_says_so_before(tmp_path):
    with asked(tmp_path) as study, create(tmp_path, "again", holdout=sealed_rows(), mechanism=guess_and_check(COUNT)):
        before = everything(study)
        with pytest.raises(EverholdWarning, match="sealed as 'again'"):  # warnings are errors here
            study.unseal()
        assert everything(study) == before
        (said,) = study.affected_holdouts()
        assert "nothing is promised there" in said
        with pytest.warns(EverholdWarning, match="sealed as 'again'"):
            study.unseal()
        assert len(study.unseal()) == len(QUERIES)  # no second warning


def test_other_blocks_of_a_series_are_named(tmp_path):
    chain = MarkovChain([[0.6, 0.4], [0.4, 0.6]], order_by="hour", gap=math.inf)

    def block(name, first):
        sealed = {**rows(first, 600), "hour": np.arange(first, first + 600)}
        return create(
            tmp_path, name, holdout=sealed, training=None, dependence=chain, allow_resealing=False, allow_vacuous=True,
            mechanism="guess_and_check", queries=5, surprises=1,
        )  # fmt: skip

    with block("study", 0) as study, block("next", 600):
        (said,) = study.affected_holdouts()
    assert "'next' may hold a block of the same series" in said


# silent queries


def test_a_silent_query_counts_costs_nothing_and_needs_no_guess(tmp_path):
    with create(tmp_path, training=None) as study:
        with pytest.raises(QueryRejected, match="needs a guess"):
            study.ask(OPEN)
        study.allot("team-a", queries=1, charges=0)
        team = study.analyst("team-a")
        assert team.ask("delay > 1", guess=0.5).refused  # it might cost a surprise
        answer = team.ask(OPEN, silent=True)
        assert (answer.source, answer.value, answer.low, answer.high) == ("silent", None, None, None)
        assert (answer.charged, answer.refused, answer.remaining["queries"]) == (0, False, 0)
        assert str(answer).startswith("silent: told when the study is unsealed, charged 0")
        assert "nothing is told of it before the study is unsealed" in answer.explain()
        assert study.status()["queries_asked"] == 1
        assert study._executor.state().charged == 0
        assert team.ask("delay > 2", silent=True).refused


def test_a_silent_query_asked_again_is_the_stored_one_and_an_open_one_stays_open(study):
    before = study._executor.ledger.head()
    again = [study.ask(SILENT), study.ask(SILENT, silent=True), study.ask(SILENT, guess=0.5)]
    assert {(answer.source, answer.value, answer.repeated) for answer in again} == {("silent", None, True)}
    assert study.ask(OPEN, silent=True).value == study.ask(OPEN).value is not None
    assert study.ask_many([OPEN, SILENT, "delay > 9"], silent=True)[2].source == "silent"
    assert study._executor.ledger.head().sequence == before.sequence + 1


def test_silent_queries_end_with_the_plan(tmp_path):
    mechanism = guess_and_check(queries=3, tolerance=0.08, grid=10, surprises=1)
    with create(tmp_path, mechanism=mechanism) as study:
        answers = study.ask_many([f"delay > {k}" for k in range(200)], silent=True)
        counted = sum(answer.source == "silent" for answer in answers)
        assert study.status()["queries_asked"] == counted < 200


# other ledgers


def restored(folder, copy):
    for ending in ("", "-wal", "-shm"):
        (folder / f"study.db{ending}").unlink(missing_ok=True)
    shutil.copy(copy, folder / "study.db")


def test_a_database_that_was_set_back_behind_the_end_stays_closed(tmp_path):
    asked(tmp_path).close()
    copy = shutil.copy(tmp_path / "study.db", tmp_path / "old.db")
    with opened(tmp_path) as study:
        first = study.unseal()
    restored(tmp_path, copy)
    with pytest.raises(IntegrityError, match="set back"):
        opened(tmp_path)
    with opened(tmp_path, recover=True) as study:
        assert study.status()["closed"]
        with pytest.raises(QueryRejected, match="The study was unsealed"):
            study.ask("delay > 77")
        assert study.ask(OPEN).sealed is None  # what it had told is lost with the entry that told it
        study.certificate().save(tmp_path / "closed.json")
        assert verify_certificate(tmp_path / "closed.json").findings == ()
        again = study.unseal()
        assert again.to_rows() == first.to_rows()
        study.certificate().save(tmp_path / "unsealed.json")
        assert verify_certificate(tmp_path / "unsealed.json").findings == ()
        assert findings(study) == []


def test_an_answer_that_the_ledger_lost_is_counted_and_the_others_are_told(tmp_path):
    asked(tmp_path).close()
    copy = shutil.copy(tmp_path / "study.db", tmp_path / "old.db")
    with opened(tmp_path) as study:
        study.ask("delay > 77")
    restored(tmp_path, copy)
    with opened(tmp_path, recover=True) as study:
        assert not study.status()["closed"]
        told = study.unseal()
        assert (len(told), told.lost, told.not_kept) == (3, 1, 0)
        assert "3 answers, 1 lost" in str(told)
        assert findings(study) == []


def test_a_ledger_whose_newest_head_is_gone_as_well_does_not_go_on(tmp_path):
    asked(tmp_path).close()
    (head,) = tmp_path.glob("study.rows/*/ledger.head")
    head.unlink()
    with pytest.raises(IntegrityError, match="cannot be recovered"):
        opened(tmp_path, recover=True)


def edit(folder, sequence, change):
    with closing(sqlite3.connect(folder / "study.db")) as database:
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        (text,) = database.execute("SELECT answer FROM entries WHERE sequence = ?", (sequence,)).fetchone()
        answer = json.loads(text)
        change(answer)
        database.execute("UPDATE entries SET answer = ? WHERE sequence = ?", (canonical(answer), sequence))
        database.commit()


@pytest.mark.parametrize("change", ["swapped", "gone", "flipped"])
def test_an_altered_envelope_is_an_error_and_nothing_is_told(tmp_path, change):
    asked(tmp_path).close()
    other = stored(tmp_path)[1]["sealed"]
    edits = {
        "swapped": lambda answer: answer.update(sealed=other),
        "gone": lambda answer: answer.pop("sealed"),
        "flipped": lambda answer: answer.update(sealed="A" + answer["sealed"][1:]),
    }
    if change == "flipped" and stored(tmp_path)[0]["sealed"].startswith("A"):
        edits["flipped"] = lambda answer: answer.update(sealed="B" + answer["sealed"][1:])
    edit(tmp_path, 1, edits[change])
    with opened(tmp_path) as study, pytest.raises(IntegrityError):
        study.unseal()
    assert [answer["source"] for answer in stored(tmp_path)] == ["training", "holdout", "silent"]


def test_altered_numbers_of_an_unsealing_are_never_told(tmp_path):
    with asked(tmp_path) as study:
        study.unseal()
    edit(tmp_path, 4, lambda answer: answer["disclosed"][0].__setitem__(1, 0.5))
    with opened(tmp_path) as study:
        for use in (study.unseal, study.transcript, study.certificate):
            with pytest.raises(IntegrityError):
                use()


# certificates


def test_certificates_verify_before_and_after(study, tmp_path):
    for name in ("before", "after"):
        if name == "after":
            study.unseal()
        certificate = study.certificate()
        for ending in ("json", "html"):
            certificate.save(tmp_path / f"{name}.{ending}")
            assert verify_certificate(tmp_path / f"{name}.{ending}").findings == ()
        account = certificate.to_dict()["account"]
        assert account["by_source"]["silent"] == 1
        said = [str(row["value"]) for row in certificate.to_rows()]
        assert any("The study is over" in text for text in said) == (name == "after")
    assert account["unsealed"] == {"acts": 1, "answers": 3}
    assert account["left"] == {"queries": 0, "surprises": 0}
