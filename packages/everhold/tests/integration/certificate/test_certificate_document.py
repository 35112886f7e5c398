import json
import sys

import numpy as np
import pytest
from certificate_samples import FOLDER, SEED, make_sample

import everhold
from everhold.asking.creation import settings_from
from everhold.certificate import Certificate, verify_certificate
from everhold.certificate.form import SECTIONS
from everhold.errors import IntegrityError
from everhold.ledger import LedgerStore, verify
from everhold.mechanisms import answering


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(7)
    return {"holdout": {"delay": rng.normal(5, 30, 2_000)}, "training": {"delay": rng.normal(5, 30, 2_000)}}


@pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning")
@pytest.mark.parametrize("name", answering())
def test_a_holdout_of_every_mechanism_gives_a_certificate_that_holds(tmp_path, rows, name):
    storage = tmp_path / "study.db"
    with everhold.Holdout.create(
        storage, "study", **settings_from({**rows, "surprises": 2}), mechanism=name, queries=3
    ) as holdout:
        holdout.ask_many([f"delay > {limit}" for limit in range(5)])
        holdout.ask("delay > 40", guess=1.0)
        certificate, status = holdout.certificate(), holdout.status()
    stated = certificate.to_dict()
    assert stated["account"]["asked"] == sum(stated["account"]["by_source"].values()) == status["queries_asked"]
    assert stated["account"]["charged"] == status["charged"]
    assert stated["account"]["left"] == status["remaining"]
    assert stated["promise"]["radius"] == certificate.radius == status["radius"]
    for ending in ("json", "html"):
        certificate.save(tmp_path / f"study.{ending}")
        report = verify_certificate(tmp_path / f"study.{ending}", public_key=certificate.public_key)
        assert report.findings == ()
        assert report.ok
        assert report.certificate.to_dict() == stated


def test_a_ledger_can_be_held_against_an_earlier_certificate(tmp_path, rows):
    url = f"sqlite:///{tmp_path / 'study.db'}"
    with everhold.Holdout.create(url, "study", **settings_from({**rows, "surprises": 2}), queries=50) as holdout:
        unused = holdout.certificate()
        holdout.ask("delay > 15")
        certificate = holdout.certificate()
        holdout.ask("delay > 16")
    with LedgerStore.open(url, create=False) as store:
        for head in (unused.ledger_head, certificate.ledger_head):
            assert verify(store, "study", seal_key=None, expected_head=head).ok
        assert not verify(store, "study", seal_key=None, expected_head=(1, "0" * 64)).ok


def test_of_a_long_ledger_it_says_from_where_on_entries_were_read(tmp_path, rows, monkeypatch):
    monkeypatch.setattr(sys.modules[verify.__module__], "READ_AGAIN", 3)
    with everhold.Holdout.create(
        tmp_path / "study.db", "study", **settings_from({**rows, "surprises": 2}), queries=50
    ) as holdout:
        for minutes in range(4):
            holdout.ask(f"delay > {minutes}")
        whole = holdout.certificate()
        holdout.ask("delay > 15")
        later = holdout.certificate({"the last": 5, "the first": 1})
    assert "checkpoint" not in whole.to_dict()["ledger_head"]
    assert later.to_dict()["ledger_head"]["checkpoint"]["sequence"] == 4
    assert later.to_dict()["account"]["asked"] == 5
    assert "Entries up to number 4 were checked before" in later.to_html()
    assert "checked before" not in whole.to_html()
    later.save(tmp_path / "later.json")
    assert verify_certificate(tmp_path / "later.json", public_key=later.public_key).ok


def test_a_holdout_without_training_rows_has_a_certificate(tmp_path, rows):
    with everhold.Holdout.create(
        tmp_path / "s.db", "s", holdout=rows["holdout"], mechanism="gaussian", queries=2
    ) as holdout:
        certificate = holdout.certificate()
    certificate.save(tmp_path / "s.html")
    assert verify_certificate(tmp_path / "s.html").ok
    assert {"section": "For which rows", "item": "training rows, open", "value": "none"} in certificate.to_rows()


@pytest.mark.parametrize("ending", ["json", "html", "HTML"])
def test_what_is_saved_is_what_is_loaded(tmp_path, signed, ending):
    certificate, _ = signed
    certificate.save(tmp_path / f"c.{ending}")
    loaded = Certificate.load(tmp_path / f"c.{ending}")
    assert loaded.to_dict() == certificate.to_dict()
    assert loaded.to_html() == certificate.to_html()
    assert loaded.to_json() == certificate.to_json()


def test_indentation_order_of_names_and_line_ends_do_not_matter(tmp_path, signed):
    certificate, key = signed
    backwards = json.dumps(dict(reversed(certificate.to_dict().items())), indent=7).replace("\n", "\r\n")
    (tmp_path / "c.json").write_bytes(backwards.encode())
    (tmp_path / "c.html").write_bytes(certificate.to_html().replace("\n", "\r\n").encode())
    for name in ("c.json", "c.html"):
        assert verify_certificate(tmp_path / name, public_key=key.public_key.upper()).ok
        assert Certificate.load(tmp_path / name).to_html() == certificate.to_html()


def test_another_ending_cannot_be_saved(tmp_path, signed):
    with pytest.raises(ValueError, match=r"Pass a name that ends in \.json or \.html"):
        signed[0].save(tmp_path / "certificate.pdf")


def test_what_is_no_certificate_cannot_be_loaded(tmp_path):
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(IntegrityError, match="not a certificate"):
        Certificate.load(tmp_path / "c.json")
    with pytest.raises(IntegrityError, match="no such file"):
        Certificate.load(tmp_path / "other.json")


def test_a_certificate_keeps_its_document_to_itself(signed):
    certificate, _ = signed
    certificate.to_dict()["promise"]["radius"] = 0.0
    assert certificate.to_dict()["promise"]["radius"] > 0.0


def test_the_seed_the_state_and_the_folder_stay_secret(tmp_path):
    certificate, _ = make_sample(tmp_path, simulation=True)
    for text in (certificate.to_json(), certificate.to_html(), repr(certificate), certificate.to_text()):
        assert str(SEED) not in text
        assert FOLDER not in text


def test_rows_are_in_the_order_of_the_page(signed):
    certificate, _ = signed
    page = certificate.to_html()
    titles = list(dict.fromkeys(row["section"] for row in certificate.to_rows()))
    assert titles[0] == "In plain words"
    assert len(titles) == len(SECTIONS) + 3  # the list of queries, what is not promised, and the signature
    positions = [page.index('id="everhold-summary"'), *(page.index(f". {title}</h2>") for title in titles[1:])]
    assert positions == sorted(positions)


def test_the_words_on_the_certificate_stand_in_the_order_that_people_expect(signed):
    expected = (
        "summary",
        "promise",
        "rows",
        "assumptions",
        "mechanism",
        "theorem",
        "account",
        "ledger_head",
        "privacy",
    )
    assert (*expected, "issue") == SECTIONS
    assert list(signed[0].to_dict())[1:-1] == list(SECTIONS)
