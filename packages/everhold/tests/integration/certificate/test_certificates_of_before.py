"""Certificates that an earlier everhold signed still verify, one of every mechanism, words and numbers included.

They were made with real noise when the mechanisms had come to know their own words, and those of all mechanisms but
guess-and-check are the ones that were signed then. Those of guess-and-check had to be signed anew, and two were added,
while its statement S8 and its words still changed; from here on none may be. Its certificates of before S8 are in
``superseded``: they cannot be computed anew, and verification says so.
"""

import json
from pathlib import Path

import pytest
from certificate_samples import replaced, signed_again, written

from everhold.certificate import Certificate, verify_certificate
from everhold.mechanisms import MECHANISMS
from everhold.sealing.keys import StewardKey

HERE = Path(__file__).parent
EARLIER = sorted((HERE / "earlier").iterdir())
SUPERSEDED = sorted((HERE / "superseded").iterdir())


@pytest.mark.parametrize("path", EARLIER, ids=lambda path: path.name)
def test_a_certificate_of_before_still_verifies(path):
    report = verify_certificate(path, public_key=Certificate.load(path).public_key)
    assert report.findings == ()
    assert report.unchecked == ()


@pytest.mark.parametrize("path", [path for path in EARLIER if path.suffix == ".html"], ids=lambda path: path.name)
@pytest.mark.parametrize(("found", "put"), [
    (".everhold-certificate .promise {", ".everhold-certificate .promise { display: none;"),
    ("</style>\n<article", "</style>\n<style>.promise { display: none; }</style>\n<article"),
    ("<body>\n", "<body>\n<p>Nothing was asked.</p>\n"),
])  # fmt: skip
def test_a_style_of_before_hides_nothing(tmp_path, path, found, put):
    altered = tmp_path / path.name
    page = path.read_text()
    assert found in page
    altered.write_text(page.replace(found, put, 1))
    (finding,) = verify_certificate(altered, public_key=Certificate.load(path).public_key).findings
    assert finding.startswith("the page's text differs from the signed content")


def test_there_is_one_of_every_mechanism():
    signed = {Certificate.load(path).to_dict()["mechanism"]["name"] for path in EARLIER if path.suffix == ".json"}
    assert signed == set(MECHANISMS)


def test_guess_and_check_signed_all_that_its_accounts_can_hold():
    accounts = [
        document["account"]
        for document in (Certificate.load(path).to_dict() for path in EARLIER)
        if document["mechanism"]["name"] == "guess_and_check"
    ]
    assert any(account["by_source"]["holdout"] and account["labels"] for account in accounts)
    assert any(account["by_source"].get("silent") for account in accounts)
    assert any(account.get("unsealed", {}).get("answers") for account in accounts)
    assert any(gate["promotions"] for account in accounts for gate in account.get("gates", ()))


@pytest.mark.parametrize("path", SUPERSEDED, ids=lambda path: path.name)
def test_a_certificate_of_another_statement_is_not_verified_and_not_called_altered(path):
    report = verify_certificate(path, public_key=Certificate.load(path).public_key)
    assert not report.ok
    assert report.findings == ()
    (unchecked,) = report.unchecked
    assert unchecked.startswith("the signature holds, and it says that an earlier version of everhold made it")
    assert "in which guess_and_check rested on another statement, S3; here it rests on S8" in unchecked
    assert ("the page around what was signed" in unchecked) is (path.suffix == ".html")
    assert "check it with the version of everhold that made it (it names '0.1.0') and with no other" in unchecked
    assert report.to_dict()["unchecked"] == [unchecked]
    assert "nothing is wrong" not in str(report)


@pytest.mark.parametrize("path", SUPERSEDED, ids=lambda path: path.name)
def test_another_statement_hides_no_alteration(path, tmp_path):
    document = replaced(Certificate.load(path).to_dict(), ("promise", "radius"), lambda radius: radius / 2)
    (unchecked,), findings = _found(tmp_path, document)
    assert "the section 'promise' was altered: it is not the one that was signed" in findings
    assert "the signature holds" not in unchecked


@pytest.mark.parametrize(("path", "lie", "finding"), [
    (("account", "asked"), 1, "counts of queries"),
    (("rows", "columns"), [], "rows have no columns"),
    (("issue", "software"), "otherhold", "another software"),
    (("account", "charged"), 0, "what was charged"),
])  # fmt: skip
def test_what_no_statement_changes_is_checked_as_ever(tmp_path, path, lie, finding):
    document = replaced(Certificate.load(SUPERSEDED[0]).to_dict(), path, lambda _: lie)
    _, findings = _found(tmp_path, signed_again(document, StewardKey.create(tmp_path / "steward.key")))
    assert any(finding in what for what in findings)
    assert not any("altered" in what for what in findings)


def test_a_statement_that_the_mechanism_never_rested_on_is_a_lie(tmp_path):
    key = StewardKey.create(tmp_path / "steward.key")
    document = Certificate.load(HERE / "earlier" / "guess_and_check.json").to_dict()
    for statements in (("S8", "S3"), ("S1", "S1"), ("P9", "P9")):
        document["promise"]["statement"], document["theorem"]["statement"] = statements
        unchecked, findings = _found(tmp_path, signed_again(document, key))
        assert unchecked == ()
        assert any("statement is not the one that proves the promise" in what for what in findings)


def _found(folder, document):
    report = verify_certificate(written(folder / "c.json", json.loads(json.dumps(document))))
    assert not report.ok
    return report.unchecked, report.findings
