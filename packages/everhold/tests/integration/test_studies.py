"""Sealed rows dealt to studies: each opens its own part, and the promise covers all of them."""

import pickle
import tempfile
from collections import Counter
from itertools import permutations
from pathlib import Path

import duckdb
import numpy as np
import pytest

import everhold as eh
from everhold.certificate.verification import dealt_findings
from everhold.errors import HoldoutRejected, IntegrityError, QueryRejected
from everhold.ledger.store import LedgerStore
from everhold.sealing.configuration import digest_of_parts
from everhold.sealing.intake.request import SealRequest
from everhold.sealing.intake.splitting import dealt_files
from everhold.sealing.storage import rows_folder
from everhold.studies import STUDY_FILE

RNG = np.random.default_rng(5)
TABLE = {"visit": np.arange(9_000), "patient": np.arange(9_000) // 3, "late": RNG.integers(0, 2, 9_000)}
SEALED = {name: column[:6_000] for name, column in TABLE.items()}
TRAINING = {name: column[6_000:] for name, column in TABLE.items()}
DEPENDENCE = eh.Groups("patient")


def dealt(storage, **settings):
    settings = {
        "holdout": SEALED,
        "training": TRAINING,
        "queries": 50,
        "studies": 3,
        "dependence": DEPENDENCE,
    } | settings
    return eh.Holdout.create(storage, "clinic", **settings)


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('studies')}/clinic.db"
    dealt(url).close()
    return url


def parts_of(storage):
    with LedgerStore.open(storage) as store:
        return store.records()


def test_each_row_is_in_one_part_and_groups_are_whole(storage):
    parts = []
    for record in parts_of(storage):
        file = rows_folder(storage) / record.configuration["folder"] / "holdout.parquet"
        parts.append(duckdb.read_parquet(str(file)).fetchnumpy())
    assert sorted(np.concatenate([part["visit"] for part in parts])) == list(range(6_000))
    patients = [set(part["patient"].tolist()) for part in parts]
    assert sum(map(len, patients)) == len(set.union(*patients)) == 2_000
    assert max(map(len, patients)) - min(map(len, patients)) <= 1
    assert any(np.diff(sorted(group)).max() > 1 for group in patients)  # chance deals, not the order of the rows


class AsIfDrawn:
    """A generator that draws the permutation it is given."""

    def __init__(self, drawn):
        self.drawn = drawn

    def permutation(self, units):
        assert units == len(self.drawn)
        return np.array(self.drawn)


@pytest.mark.parametrize(("groups", "share", "ways"), [(None, 0.5, 6), ("patient", 0.5, 6), ("patient", 0.75, 4)])
def test_every_way_to_deal_is_as_likely_as_every_other(groups, share, ways, tmp_path):
    patients = [3, 0, 1, 2] if groups is None else [3, 0, 0, 1, 2, 3]
    request = SealRequest(holdout={"patient": np.array(patients)})
    seen = Counter()
    for order in permutations(range(4)):
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            shares = [share, 1.0 - share]
            paths, part = dealt_files(request, Path(folder), shares, groups=groups, rng=AsIfDrawn(order))
            first, second = (duckdb.read_parquet(str(path)).fetchnumpy()["patient"].tolist() for path in paths)
        assert [first, second] == [np.array(patients)[part == side].tolist() for side in (0, 1)]
        assert sorted(first + second) == sorted(patients)
        seen[frozenset(first)] += 1
    assert len(seen) == ways  # four choose two, or three
    assert set(seen.values()) == {24 // ways}


def test_the_studies_share_the_probability_of_failure(storage):
    missed = [1.0 - record.configuration["mechanism"]["confidence"] for record in parts_of(storage)]
    assert len(missed) == 3
    assert sum(missed) == pytest.approx(0.05)


def test_a_study_is_silent_and_ends_by_opening_its_own_part(tmp_path):
    with dealt(f"sqlite:///{tmp_path}/clinic.db") as holdout:
        with pytest.raises(QueryRejected, match=r"dealt into 3 studies.*holdout.study"):
            holdout.ask("late = 1")
        with holdout.study("spring") as spring:
            assert spring.ask("late = 1").value is None
            assert [answer.value for answer in spring.ask_many(["visit > 50", "visit > 70"])] == [None, None]
            with pytest.raises(QueryRejected, match="a gate tells its verdict at once"):
                spring.gate(champion="visit > 50")
        assert spring.result.rows[0]["sealed_low"] < 0.5 < spring.result.rows[0]["sealed_high"]
        assert spring.ask("late = 1").sealed == spring.result.rows[0]["sealed"]
        with pytest.raises(QueryRejected, match="accepts no new queries"):
            spring.ask("visit > 60")
        autumn = holdout.study("autumn")
        assert autumn.result is None
        assert pickle.loads(pickle.dumps(autumn)).ask("late = 1").value is None
        assert holdout.studies == {"spring": "clinic.1", "autumn": "clinic.2"}
    with eh.Holdout.open(f"sqlite:///{tmp_path}/clinic.db", "clinic") as holdout:
        assert holdout.study("spring").result.rows == spring.result.rows
        with pytest.raises(RuntimeError), holdout.study("autumn") as autumn:
            raise RuntimeError("the power went off")
        assert autumn.result is None
        with holdout.study("autumn") as autumn:
            pass
        assert len(autumn.result) == 1


def test_parts_go_to_one_study_each_whoever_asks(tmp_path):
    url = f"sqlite:///{tmp_path}/clinic.db"
    dealt(url).close()
    with eh.Holdout.open(url, "clinic") as first, eh.Holdout.open(url, "clinic") as second:
        for holdout, name in ((first, "a"), (second, "b"), (first, "b"), (second, "c")):
            holdout.study(name)
        assert first.studies == second.studies == {"a": "clinic.1", "b": "clinic.2", "c": "clinic.3"}
        with pytest.raises(QueryRejected, match="All 3 parts of 'clinic' are taken, by 'a', 'b', 'c'"):
            first.study("d")
    note = rows_folder(url) / parts_of(url)[0].configuration["folder"] / STUDY_FILE
    note.chmod(0o600)
    note.write_bytes(note.read_bytes().replace(b"a", b"d", 1))
    with eh.Holdout.open(url, "clinic") as holdout, pytest.raises(IntegrityError, match=STUDY_FILE):
        holdout.study("a")


def test_nothing_is_created_if_one_part_cannot_be(tmp_path, monkeypatch):
    url, create = f"sqlite:///{tmp_path}/clinic.db", LedgerStore._create
    monkeypatch.setattr(
        LedgerStore, "_create",
        lambda store, connection, new: (_ for _ in ()).throw(HoldoutRejected("disk full")) if new.name[-1] == "3"
        else create(store, connection, new),
    )  # fmt: skip
    with pytest.raises(HoldoutRejected, match="disk full"):
        dealt(url)
    assert parts_of(url) == []
    assert not rows_folder(url).exists() or not any(rows_folder(url).iterdir())


def test_certificates_of_two_parts_name_the_same_whole_and_cannot_be_of_one_part(storage, tmp_path):
    documents = []
    for part in (1, 2):
        with eh.Holdout.open(storage, f"clinic.{part}") as study:
            certificate = study.certificate()
        documents.append(certificate.to_dict()["rows"])
        certificate.save(tmp_path / f"{part}.json")
        assert eh.verify_certificate(tmp_path / f"{part}.json").ok
        assert "no row is in two of them" in certificate.to_html()
    first, second = (rows["dealt"] for rows in documents)
    assert (first["of"], first["part"], second["part"]) == ("clinic", 1, 2)
    assert first["whole"] == second["whole"] == digest_of_parts(first["all"])
    assert first["all"] == [
        [each.name, each.configuration["rows"], each.configuration["fingerprint"]] for each in parts_of(storage)
    ]
    for change in ({"part": 2}, {"whole": "0" * 64}, {"all": first["all"][:1] * 3}, {"all": first["all"][:2]}):
        found = list(dealt_findings({**documents[0], "dealt": {**first, **change}}))
        assert found, change


def test_what_chance_cannot_deal_is_refused(storage, tmp_path):
    url = f"sqlite:///{tmp_path}/new.db"
    for settings, message in (
        ({"dependence": eh.InOrder("visit")}, "cannot be dealt by chance"),
        ({"dependence": eh.Groups(3)}, "cannot be dealt by chance"),
        ({"dependence": eh.Groups("doctor")}, "no column 'doctor'"),
        ({"mechanism": eh.GuessAndCheck.tuned(rows=2_000, queries=10, surprises=2)}, "Pass the name of a mechanism"),
        ({"planning": eh.Planning(grows=True)}, "Leave grows= out"),
        ({"studies": 3_000}, "from 2 to 100"),
        ({"studies": 1}, "from 2 to 100"),
    ):
        with pytest.raises((HoldoutRejected, ValueError), match=message):
            dealt(url, **settings)
    with pytest.raises(HoldoutRejected, match="A holdout named 'clinic' exists"):
        dealt(storage)
    with pytest.raises(HoldoutRejected, match="already sealed in this storage"):
        eh.Holdout.create(storage, "again", holdout=SEALED, training=TRAINING, dependence=DEPENDENCE)


def test_rows_are_dealt_only_where_studies_can_be_asked_and_unsealed(tmp_path):
    table = {"late": SEALED["late"]}
    given = {"holdout": table, "studies": 2, "queries": 5}
    with pytest.raises(HoldoutRejected, match="which gaussian cannot do"):
        eh.Holdout.create(tmp_path / "n.db", "noisy", mechanism="gaussian", **given)
    with eh.Holdout.create(tmp_path / "n.db", "plain", **given) as holdout, holdout.study("first") as study:
        study.ask("late > 0")
        study.allot("ada", queries=1)
        with study.analyst("ada") as hers:
            hers.ask("late < 1")
            assert pickle.loads(pickle.dumps(hers)).remaining == hers.remaining == {"queries": 0, "surprises": 1}
        assert hers.result is None  # the steward ends the study
    assert len(study.result.rows) == 2


def test_rows_that_were_dealt_are_not_dealt_or_sealed_again(tmp_path):
    table = {"delay": np.random.default_rng(1).normal(size=2_000)}
    given = {"queries": 5, "mechanism": "guess_and_check"}
    eh.Holdout.create(tmp_path / "d.db", "dealt", holdout=table, studies=8, **given).close()
    for again in ({"holdout": table, "studies": 8}, {"holdout": {"delay": table["delay"][:400]}}):
        with pytest.raises(HoldoutRejected, match=r"already sealed in this storage, as 'dealt\.1', 'dealt\.2'"):
            eh.Holdout.create(tmp_path / "d.db", "again", **given, **again)
    other = {"delay": np.random.default_rng(2).normal(size=2_000)}
    eh.Holdout.create(tmp_path / "d.db", "other", holdout=other, studies=8, **given).close()
