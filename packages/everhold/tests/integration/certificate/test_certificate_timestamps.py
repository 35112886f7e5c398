"""A trusted time beside the signature: what is believed, what is refused, what is said where nothing was checked."""

import base64
import builtins
import copy
import json
import random
from datetime import timedelta

import pytest
from authority_samples import NOW, SEQUENCE, YEAR, Authority, answering, der, whole
from certificate_samples import SHOWN, make_sample, replaced, signed_again, written

from everhold.certificate import Certificate, TimestampAuthority, verify_certificate
from everhold.certificate.document import stamped_digest
from everhold.errors import EverholdError, IntegrityError

TIME = "2026-11-21T12:30:00+00:00"


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def stamped(tmp_path, authority):
    """A certificate with a trusted time, and its key."""
    return make_sample(tmp_path, answers=SHOWN, timestamp=authority)


def verified(folder, document, **options):
    return verify_certificate(written(folder / "c.json", document), **options)


def restamped(document, **change):
    changed = copy.deepcopy(document)
    changed["timestamp"] |= change
    return changed


@pytest.mark.parametrize("ending", ["json", "html"])
def test_a_trusted_time_is_believed_for_its_root(tmp_path, stamped, authority, ending):
    certificate, key = stamped
    path = tmp_path / f"c.{ending}"
    certificate.save(path)
    report = verify_certificate(path, public_key=key.public_key, timestamp_roots=authority.roots)
    assert report.ok
    assert report.trusted_time == certificate.claimed_time == Certificate.load(path).claimed_time == TIME
    assert any(f"that you trust states that it was signed by {TIME}" in note for note in report.notes)
    assert report.to_dict()["trusted_time"] == TIME


def test_without_a_root_it_is_said_that_nothing_was_checked(tmp_path, stamped):
    report = verified(tmp_path, stamped[0].to_dict())
    assert report.ok
    assert report.trusted_time is None
    assert any(f"its trusted time, {TIME}, was not checked" in note for note in report.notes)


def test_the_token_is_about_the_signature_and_so_about_everything_that_was_signed(stamped):
    document = stamped[0].to_dict()
    assert stamped_digest(document) == stamped_digest({**document, "timestamp": None})
    for path in (("signature", "value"), ("signature", "public_key"), ("signature", "digests", "promise")):
        assert stamped_digest(replaced(document, path, lambda _: "0")) != stamped_digest(document)


def test_the_page_states_the_time_and_how_to_check_it(stamped):
    page = stamped[0].to_html()
    assert page.count(TIME) == 3  # the first page, the last section, the document
    assert "everhold certificate verify FILE --timestamp-roots ROOTS" in page


REFUSED = {
    "the token of another certificate": (Authority(lifts=lambda digest: bytes(32)), "about something else"),
    "a certificate that had ended": (Authority(ends=NOW - timedelta(days=1)), "not to be trusted"),
    "a certificate for other things": (Authority(stamps=False), "not to be trusted"),
}


@pytest.mark.parametrize(("clock", "finding"), REFUSED.values(), ids=REFUSED)
def test_a_planted_token_is_refused(tmp_path, clock, finding):
    certificate, key = make_sample(tmp_path, answers=SHOWN)
    document = certificate.to_dict()
    token = base64.b64encode(clock(stamped_digest(document))).decode()
    planted = {**document, "timestamp": {"token": token, "time": TIME}}
    report = verified(tmp_path, planted, public_key=key.public_key, timestamp_roots=clock.roots)
    assert [what for what in report.findings if finding in what] == list(report.findings) != []
    assert report.trusted_time is None


def test_a_sound_token_of_this_certificate_can_be_added_by_anybody(tmp_path, authority):
    document = make_sample(tmp_path)[0].to_dict()
    token = base64.b64encode(authority(stamped_digest(document))).decode()
    planted = {**document, "timestamp": {"token": token, "time": TIME}}
    assert verified(tmp_path, planted, timestamp_roots=authority.roots).trusted_time == TIME


def test_the_token_of_another_certificate_of_the_same_steward_is_refused(tmp_path, authority):
    first, key = make_sample(tmp_path, timestamp=authority)
    other = signed_again(replaced(first.to_dict(), ("rows", "holdout"), lambda _: "another"), key)
    for roots in (None, authority.roots):
        report = verified(tmp_path, other, timestamp_roots=roots)
        assert "the trusted time is about something else: the token belongs to another certificate" in report.findings


def test_another_root_is_refused(tmp_path, stamped):
    report = verified(tmp_path, stamped[0].to_dict(), timestamp_roots=Authority().roots)
    assert any("no expected root stands behind it" in what for what in report.findings)


def test_a_root_of_the_same_name_is_another_root(tmp_path, authority):
    twin = Authority()
    assert twin.root.subject == authority.root.subject
    certificate, _ = make_sample(tmp_path, timestamp=twin)
    assert not verified(tmp_path, certificate.to_dict(), timestamp_roots=authority.roots).ok
    assert verified(tmp_path, certificate.to_dict(), timestamp_roots=authority.roots + twin.roots).ok


def test_a_certificate_that_ended_later_is_no_fault(tmp_path):
    clock = Authority(now=NOW - YEAR / 2, ends=NOW - YEAR / 4)
    certificate, _ = make_sample(tmp_path, timestamp=clock)
    assert verified(tmp_path, certificate.to_dict(), timestamp_roots=clock.roots).ok


def test_an_altered_byte_of_the_token_is_refused_or_says_the_same(tmp_path, stamped, authority):
    """An authority signs the digest and the time, but not the version number and the algorithm around them."""
    document, believed = stamped[0].to_dict(), 0
    token = base64.b64decode(document["timestamp"]["token"])
    places = random.Random(0).sample(range(len(token)), 150)
    for place in [0, 1, len(token) - 1, *places]:
        altered = bytearray(token)
        altered[place] ^= 1 << (place % 8)
        text = base64.b64encode(bytes(altered)).decode()
        report = verified(tmp_path, restamped(document, token=text), timestamp_roots=authority.roots)
        believed += report.ok
        assert report.trusted_time == (TIME if report.ok else None), place
        assert report.ok or all("trusted time" in what for what in report.findings), place
    assert believed < 20


def test_a_token_that_is_cut_off_or_goes_on_is_refused(tmp_path, stamped, authority):
    document = stamped[0].to_dict()
    token = base64.b64decode(document["timestamp"]["token"])
    for other in (token[:-1], token[:40], token + b"\x00", token + token, b"\x30", b"\x30\x84\xff\xff\xff\xff"):
        text = base64.b64encode(other).decode()
        for roots in (None, authority.roots):
            report = verified(tmp_path, restamped(document, token=text), timestamp_roots=roots)
            assert report.findings == ("the trusted time is no token of RFC 3161: it was altered",)


def test_another_time_beside_the_token_is_refused_without_any_root(tmp_path, stamped):
    earlier = restamped(stamped[0].to_dict(), time="2020-01-01T00:00:00+00:00")
    assert verified(tmp_path, earlier).findings == ("the trusted time is not the one in its token: it was altered",)


@pytest.mark.parametrize("stamp", [None, {}, [], {"token": "", "time": TIME}, {"token": "é", "time": TIME}])
def test_what_is_no_token_at_all_is_malformed(tmp_path, stamped, stamp):
    report = verified(tmp_path, {**stamped[0].to_dict(), "timestamp": stamp})
    assert report.findings == ("the token of the trusted time is malformed",)


def test_a_token_that_was_taken_away_is_missed_by_whoever_expects_one(tmp_path, stamped, authority):
    document = stamped[0].to_dict()
    del document["timestamp"]
    assert verified(tmp_path, document).ok
    report = verified(tmp_path, document, timestamp_roots=authority.roots)
    assert report.findings == ("there is no trusted time in it, and one was expected",)


def test_an_altered_certificate_has_no_trusted_time(tmp_path, stamped, authority):
    altered = replaced(stamped[0].to_dict(), ("promise", "radius"), lambda radius: radius / 2)
    report = verified(tmp_path, altered, timestamp_roots=authority.roots)
    assert report.trusted_time is None
    assert report.findings


def test_roots_that_are_none_are_a_bad_argument(tmp_path, stamped):
    with pytest.raises(ValueError, match="The file of roots contains no certificates"):
        verified(tmp_path, stamped[0].to_dict(), timestamp_roots=b"nothing")


def test_without_the_package_the_time_is_not_read_and_the_certificate_not_called_sound(
    tmp_path, stamped, authority, monkeypatch
):
    document = stamped[0].to_dict()
    imported = builtins.__import__

    def without(name, *rest, **named):
        if name.startswith("rfc3161_client"):
            raise ModuleNotFoundError(name)
        return imported(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    report = verified(tmp_path, document)
    assert report.findings == ()
    assert not report.ok
    assert "pip install 'everhold[timestamp]'" in report.unchecked[0]
    for needs in (
        lambda: verified(tmp_path, document, timestamp_roots=authority.roots),
        lambda: TimestampAuthority("http://127.0.0.1"),
    ):
        with pytest.raises(EverholdError, match=r"pip install 'everhold\[timestamp\]'"):
            needs()


@pytest.mark.parametrize("token", [b"", b"nothing", None, "text", b"\x30\x03\x02\x01\x00"])
def test_a_time_stamp_that_gives_no_token_signs_nothing(tmp_path, token):
    with pytest.raises(IntegrityError, match="not an RFC 3161 token in DER"):
        make_sample(tmp_path, timestamp=lambda digest: token)


def test_a_time_stamp_about_something_else_signs_nothing(tmp_path, authority):
    with pytest.raises(IntegrityError, match="not about this certificate"):
        make_sample(tmp_path, timestamp=lambda digest: authority(bytes(32)))


def test_an_authority_on_the_network_is_asked_for_a_digest_and_no_more(tmp_path, authority):
    requests = []

    def reply(request):
        requests.append(request)
        return authority.reply(request)

    with answering(reply) as url:
        certificate, _ = make_sample(tmp_path, timestamp=TimestampAuthority(url))
        again, _ = make_sample(tmp_path, timestamp=TimestampAuthority(url))
    assert verified(tmp_path, certificate.to_dict(), timestamp_roots=authority.roots).ok
    first, second = requests
    assert stamped_digest(certificate.to_dict()) in first
    assert stamped_digest(again.to_dict()) in second
    assert {len(first), len(second)} == {69}
    assert first[-11:-3] != second[-11:-3]  # nonces


FAILURES = {
    "refusal": (lambda request: der(SEQUENCE, der(SEQUENCE, whole(2))), 200, "refused, with status 2|not a reply"),
    "an old answer": (
        lambda request: Authority().reply(request[:-11] + bytes(8) + request[-3:]),
        200,
        "another request",
    ),
    "no reply": (lambda request: b"<html>sign in</html>", 200, "not a reply of a time-stamping authority"),
    "much too long": (lambda request: bytes(2**20), 200, "not a reply of a time-stamping authority"),
    "fault": (lambda request: b"", 500, "failed: status 500"),
}


@pytest.mark.parametrize(("reply", "status", "said"), FAILURES.values(), ids=FAILURES)
def test_an_authority_that_fails_leaves_nothing_signed(tmp_path, reply, status, said):
    with answering(reply, status=status) as url, pytest.raises(EverholdError, match=said):
        make_sample(tmp_path, timestamp=TimestampAuthority(url))


def test_an_authority_that_is_not_there_is_named(tmp_path):
    with answering(lambda request: b"") as url:
        pass
    with pytest.raises(EverholdError, match="failed: no answer within 2 seconds"):
        make_sample(tmp_path, timestamp=TimestampAuthority(url, timeout=2.0))


@pytest.mark.parametrize("url", ["file:///etc/hosts", "ftp://host", "tsa.example", ""])
def test_only_addresses_of_the_web_are_asked(url):
    with pytest.raises(ValueError, match="begins with http:// or https://"):
        TimestampAuthority(url)


def test_a_trusted_time_leaves_everything_else_as_it_is(tmp_path, stamped):
    document = stamped[0].to_dict()
    assert list(document)[-1] == "timestamp"
    assert json.loads(stamped[0].to_json()) == document
    del document["timestamp"]
    assert verified(tmp_path, document).ok
