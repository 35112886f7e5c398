"""Ledger verify, and certificates shown, saved and verified."""

import csv
import io
import json
import sqlite3

import pytest
from authority_samples import Authority, answering

from everhold.certificate import Certificate
from everhold.certificate.document import signed_message
from everhold.holdout import Holdout
from everhold.sealing.storage import KEY_FILE, StewardKey
from everhold.strict_json import digest

ASK = ["ask", "s.db", "flights", "--mean"]
VERIFY = ["ledger", "verify", "s.db", "flights", "--format", "json"]


def sealed_file(study, name):
    return next((study / "s.rows").glob(f"flights-*/{name}"))


def alter(statement):
    with sqlite3.connect("s.db") as database:
        for (trigger,) in database.execute("select name from sqlite_master where type = 'trigger'").fetchall():
            database.execute(f"drop trigger {trigger}")
        database.execute(statement)
    database.close()


def test_a_sound_ledger_is_accepted(study, everhold):
    everhold(*ASK, "delay > 15")
    result = json.loads(everhold(*VERIFY).stdout)
    assert result == {
        "name": "flights", "ok": True, "entries": 1, "findings": [],
        "checked": ["hashes", "sums", "seals", "newest head", "rows"],
    }  # fmt: skip
    assert everhold("ledger", "verify", "s.db", "flights").stdout.split()[:2] == ["field", "value"]


def test_without_the_key_the_seals_are_left_out(study, everhold):
    sealed_file(study, "steward.key").unlink()
    assert json.loads(everhold(*VERIFY).stdout)["checked"] == ["hashes", "sums", "rows"]
    assert "steward" in everhold("status", "s.db", "flights", code=8).stderr


ALTERATIONS = [
    "update entries set answer = '{}' where sequence = 2",
    "update entries set charged = 1 where sequence = 1",
    "delete from entries where sequence = 3",
    "update head set charged = 7",
    'update head set state = \'{"asked": 0, "surprises": 0, "carried_noise": 0}\'',
    "update holdouts set created = '2020-01-01'",
    "update holdouts set configuration = '{}'",
    "update holdouts set configuration = replace(configuration, '\"queries\":20', '\"queries\":99')",
]


@pytest.mark.parametrize("statement", ALTERATIONS)
def test_an_altered_ledger_is_found(study, everhold, statement):
    for threshold in (1, 2, 3):
        everhold(*ASK, f"delay > {threshold}")
    alter(statement)
    result = json.loads(everhold(*VERIFY, code=7).stdout)
    assert not result["ok"]
    assert result["findings"]


@pytest.mark.parametrize("name", ["holdout.parquet", "training.parquet", "steward.key"])
def test_an_altered_file_is_found(study, everhold, name):
    file = sealed_file(study, name)
    file.chmod(0o600)
    file.write_bytes(file.read_bytes()[::-1])
    assert json.loads(everhold(*VERIFY, code=7).stdout)["findings"]
    everhold("status", "s.db", "flights", code=8 if name == "steward.key" else 7)


def test_an_older_copy_is_found_by_a_certificate(study, everhold):
    before = (study / "s.db").read_bytes()
    everhold(*ASK, "delay > 15")
    everhold("certificate", "save", "s.db", "flights", "--output", "c.json")
    checked = json.loads(everhold(*VERIFY, "--certificate", "c.json").stdout)["checked"]
    assert checked == ["hashes", "sums", "seals", "newest head", "rows", "certificate"]
    for log in study.glob("s.db-*"):
        log.unlink()
    (study / "s.db").write_bytes(before)
    assert "set back" in everhold(*VERIFY, code=7).stdout  # the file beside the key tells it as well
    assert "expected head" in everhold(*VERIFY, "--certificate", "c.json", code=7).stdout


def test_another_holdouts_certificate_is_found(study, everhold):
    with Holdout.create(
        "s.db", "other", holdout="sealed.csv", mechanism="gaussian", queries=1, allow_resealing=True
    ) as other:
        other.certificate().save("other.json")
    assert "another holdout" in everhold(*VERIFY, "--certificate", "other.json", code=7).stdout


def test_an_altered_certificate_is_no_witness(study, everhold):
    everhold("certificate", "save", "s.db", "flights", "--output", "c.json")
    (study / "c.json").write_text((study / "c.json").read_text().replace("flights", "fl1ghts"))
    assert "the certificate: " in everhold(*VERIFY, "--certificate", "c.json", code=7).stdout


def test_show_is_the_certificate_in_every_format(study, everhold):
    show = ["certificate", "show", "s.db", "flights"]
    document = json.loads(everhold(*show, "--format", "json").stdout)
    with Holdout.open("s.db", "flights") as holdout:
        certificate = holdout.certificate()
    assert document["promise"] == certificate.to_dict()["promise"]
    lines = list(csv.DictReader(io.StringIO(everhold(*show, "--format", "csv").stdout)))
    assert list(lines[0]) == ["section", "item", "value"]
    table = everhold(*show, "--output", "c.html")
    assert certificate.promise in table.stdout
    assert table.stderr == "saved c.html\n"
    assert Certificate.load("c.html").promise == certificate.promise


@pytest.mark.parametrize("name", ["c.json", "c.html"])
def test_a_saved_certificate_is_verified_anywhere(study, everhold, tmp_path, monkeypatch, name):
    everhold("certificate", "save", "s.db", "flights", "--output", name)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (study / name).rename(elsewhere / name)
    monkeypatch.chdir(elsewhere)
    result = json.loads(everhold("certificate", "verify", name, "--format", "json").stdout)
    assert result["ok"]
    key = result["public_key"]
    everhold("certificate", "verify", name, "--public-key", key.upper())
    everhold("certificate", "verify", name, "--public-key", "0" * 64, code=7)
    everhold("certificate", "verify", name, "--public-key", "mine", code=2)


def test_an_altered_certificate_is_refused_and_says_what(study, everhold):
    everhold("certificate", "save", "s.db", "flights", "--output", "c.json")
    document = json.loads((study / "c.json").read_text())
    document["promise"]["radius"] /= 2
    (study / "c.json").write_text(json.dumps(document))
    result = json.loads(everhold("certificate", "verify", "c.json", "--format", "json", code=7).stdout)
    assert any("promise" in finding for finding in result["findings"])


@pytest.fixture
def of_another_version(study, everhold):
    """The study's certificate, signed by its own key under another version's number and with a false assumption."""
    everhold("certificate", "save", "s.db", "flights", "--output", "c.json")
    document = json.loads((study / "c.json").read_text())
    document["issue"]["version"] = "0.0.1"
    document["assumptions"]["stated"] = ["Every answer is true."]
    signature = document["signature"]
    signature["digests"] = {section: digest(document[section]) for section in signature["digests"]}
    key = StewardKey.load(sealed_file(study, KEY_FILE), public_key=signature["public_key"])
    signature["value"] = key.sign(signed_message(document))
    (study / "c.json").write_text(json.dumps(document))


@pytest.mark.usefixtures("of_another_version")
def test_words_of_another_version_have_an_exit_code_of_their_own(everhold):
    result = json.loads(everhold("certificate", "verify", "c.json", "--format", "json", code=10).stdout)
    assert result["ok"] is False
    assert result["findings"] == []
    assert "were not checked by this version" in result["unchecked"][0]
    assert "were not checked by this version" in everhold("certificate", "verify", "c.json", code=10).stdout


@pytest.mark.usefixtures("of_another_version")
def test_a_certificate_of_another_version_is_still_a_witness_of_the_ledger(everhold):
    everhold(*ASK, "delay > 3")
    assert json.loads(everhold(*VERIFY, "--certificate", "c.json").stdout)["ok"]


def test_chosen_answers_stand_on_the_first_page(study, everhold):
    everhold(*ASK, "delay > 15")
    query = json.loads(everhold(*ASK, "delay > 25", "--format", "json").stdout)["query"]
    save = ["certificate", "save", "s.db", "flights", "--output", "c.html"]
    everhold(*save, "--answer", "1=Late flights", "--answer", f"{query[:12]}=Very late ones = 25 minutes")
    page = (study / "c.html").read_text()
    assert "Late flights: " in page
    assert "Very late ones = 25 minutes: " in page
    assert json.loads(everhold("certificate", "verify", "c.html", "--format", "json").stdout)["ok"]
    (study / "c.html").write_text(page.replace("Late flights: ", "Late flights, at most: ", 1))
    everhold("certificate", "verify", "c.html", code=7)
    shown = everhold("certificate", "show", "s.db", "flights", "--answer", "1=Late flights", "--format", "csv").stdout
    assert next(csv.DictReader(io.StringIO(shown)))["item"] == "Late flights"


@pytest.mark.parametrize(("answer", "code", "said"), [
    ("1", 2, "Pass ID=NAME"), ("=x", 2, "Pass ID=NAME"), ("1=", 2, "Pass ID=NAME"),
    ("9=late", 5, "has no entry 9"), ("abcdef12=late", 5, "belongs to 0 entries"), ("1= late", 2, "cannot be used"),
])  # fmt: skip
def test_an_answer_that_is_not_there_is_not_shown(study, everhold, answer, code, said):
    everhold(*ASK, "delay > 15")
    save = ["certificate", "save", "s.db", "flights", "--output", "c.html"]
    assert said in everhold(*save, "--answer", answer, code=code).stderr
    assert not (study / "c.html").exists()


def test_a_trusted_time_is_saved_and_verified(study, everhold):
    authority, other = Authority(), Authority()
    (study / "roots.pem").write_bytes(authority.roots)
    (study / "others.pem").write_bytes(other.roots)
    (study / "nothing.pem").write_text("nothing")
    with answering(authority.reply) as url:
        saved = everhold("certificate", "save", "s.db", "flights", "--output", "c.json", "--timestamp", url)
    assert "2026-11-21T12:30:00+00:00" in saved.stdout
    verify = ["certificate", "verify", "c.json", "--format", "json"]
    assert "was not checked against the root" in str(json.loads(everhold(*verify).stdout)["notes"])
    trusted = json.loads(everhold(*verify, "--timestamp-roots", "roots.pem").stdout)
    assert trusted["trusted_time"] == "2026-11-21T12:30:00+00:00"
    refused = json.loads(everhold(*verify, "--timestamp-roots", "others.pem", code=7).stdout)
    assert "not to be trusted" in refused["findings"][0]
    assert "no certificates" in everhold(*verify, "--timestamp-roots", "nothing.pem", code=2).stderr
    assert "no file" in everhold(*verify, "--timestamp-roots", "missing.pem", code=2).stderr
    everhold("certificate", "save", "s.db", "flights", "--output", "plain.json")
    verify[2] = "plain.json"
    assert "no trusted time" in everhold(*verify, "--timestamp-roots", "roots.pem", code=7).stdout


def test_without_a_trusted_time_nothing_is_saved(study, everhold):
    save = ["certificate", "save", "s.db", "flights", "--output", "c.json", "--timestamp"]
    with answering(lambda request: b"", status=503) as url:
        assert "failed: status 503" in everhold(*save, url, code=1).stderr
    assert "begins with http" in everhold(*save, "tsa.example", code=2).stderr
    assert not (study / "c.json").exists()
