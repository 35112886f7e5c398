import copy
import json
import os

import pytest
from certificate_samples import make_sample, places, replaced, signed_again, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everhold.certificate import Certificate, verify_certificate
from everhold.certificate.form import MOST_BYTES, SECTIONS, SOURCES
from everhold.mechanisms import GuessAndCheck, State
from everhold.sealing.storage import StewardKey
from everhold_competitions.ladder import Ladder
from everhold_privacy.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget
from everhold_privacy.mechanisms.thresholdout import Thresholdout


def otherwise(leaf):
    """Another value, of the same type where there is one."""
    if isinstance(leaf, bool):
        return not leaf
    if isinstance(leaf, int):
        return leaf + 1
    if isinstance(leaf, float):
        return leaf * (1 + 1e-15) if leaf else 1e-300
    if isinstance(leaf, str) and leaf:
        return leaf[:-1] + ("1" if leaf[-1] == "0" else "0")
    return "something" if leaf is None or leaf == "" else "not empty"


def section_of(path):
    """The section that a finding should name."""
    return path[2] if path[:2] == ("signature", "digests") else path[0]


def test_any_altered_leaf_is_found_and_its_section_named(tmp_path, document):
    leaves = list(places(document))
    assert len(leaves) > 80
    for path in leaves:
        altered = replaced(document, path, otherwise)
        report = verify_certificate(written(tmp_path / "c.json", altered))
        expected = "format" if path == ("everhold_certificate",) else section_of(path)
        assert any(expected in finding for finding in report.findings), path


def test_an_altered_leaf_blames_no_other_section(tmp_path, document):
    for path in places(document):
        if path[0] in SECTIONS:
            altered = replaced(document, path, otherwise)
            findings = verify_certificate(written(tmp_path / "c.json", altered)).findings
            blamed = {name for name in SECTIONS for finding in findings if f"section {name!r} was altered" in finding}
            assert blamed <= {path[0]}, path


def test_the_same_number_written_as_another_type_is_found(tmp_path, document):
    altered = replaced(document, ("mechanism", "rows"), float)
    assert any("'mechanism'" in finding for finding in verify_certificate(written(tmp_path / "c", altered)).findings)


def test_anything_that_is_missing_or_added_is_found(tmp_path, document):
    outer = [(), *((name,) for name in document if name != "everhold_certificate")]
    for path in outer:
        names = document if path == () else document[path[0]]
        for name in names:
            altered = copy.deepcopy(document)
            del (altered if path == () else altered[path[0]])[name]
            assert not verify_certificate(written(tmp_path / "c.json", altered)).ok, (path, name)
        altered = copy.deepcopy(document)
        (altered if path == () else altered[path[0]])["extra"] = 1
        assert not verify_certificate(written(tmp_path / "c.json", altered)).ok, path


def test_a_name_that_occurs_twice_is_found_even_if_the_last_one_is_right(tmp_path, signed):
    certificate, _ = signed
    path = tmp_path / "c.json"
    path.write_text(certificate.to_json().replace('"radius":', '"radius": 0.001, "radius":', 1))
    assert verify_certificate(path).findings == ("the document has 'radius' twice in one object",)


def test_a_field_that_a_certificate_does_not_have_is_found_even_if_it_is_signed(tmp_path, signed):
    certificate, key = signed
    document = replaced(certificate.to_dict(), ("issue", "version"), lambda _: "0.0.1")
    document["promise"]["approved"] = "by everybody"
    report = verify_certificate(written(tmp_path / "c.json", signed_again(document, key)))
    assert any("do not belong there" in finding for finding in report.findings)


def test_deep_nesting_is_refused_before_anything_walks_down_it(tmp_path, document):
    document["assumptions"]["dependence"]["deep"] = json.loads("[" * 100 + "]" * 100)
    report = verify_certificate(written(tmp_path / "c.json", document))
    assert report.findings == ("the document is nested too deeply",)
    assert "Pass the .html or .json file" in report.notes[0]


def test_capital_digits_make_another_file_and_are_found(tmp_path, document):
    altered = replaced(document, ("signature", "value"), str.upper)
    assert not verify_certificate(written(tmp_path / "c.json", altered)).ok


def test_another_key_is_found_only_by_whoever_knows_the_right_one(tmp_path, signed):
    certificate, key = signed
    other = StewardKey.create(tmp_path / "other.key")
    path = written(tmp_path / "c.json", signed_again(certificate.to_dict(), other))
    blind = verify_certificate(path)
    assert blind.ok
    assert any(other.public_key in note for note in blind.notes)
    assert verify_certificate(path, public_key=key.public_key).findings == (
        "it was signed with another key than the one expected",
    )


@pytest.mark.parametrize("key", ["", "abc", "g" * 64])
def test_an_expected_key_that_is_none_is_a_bad_argument(tmp_path, key):
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        verify_certificate(tmp_path / "c.json", public_key=key)


LIES = [
    (("promise", "radius"), 0.01, "half-width is not the one"),
    (("promise", "radius"), None, "half-width is not the one"),
    (("promise", "confidence"), 0.99, "probability of the promise"),
    (("promise", "queries"), 10**6, "planned queries or surprises"),
    (("promise", "surprises"), 1000, "planned queries or surprises"),
    (("promise", "statement"), "S1", "statement is not the one"),
    (("promise", "spends_only_beyond"), 0.09, "distance beyond which"),
    (("promise", "sentence"), "Every answer is true.", "do not belong there"),
    (("assumptions", "stated"), ["nothing"], "assumptions are not those"),
    (("assumptions", "dependence"), {"kind": "whatever"}, "cannot be computed anew"),
    (("theorem", "statement"), "P9", "statement is not the one"),
    (("theorem", "numbers"), {}, "numbers that enter"),
    (("privacy", "epsilon"), 0.1, "privacy is not the one"),
    (("mechanism", "parameters"), {}, "cannot be computed anew"),
    (("mechanism", "name"), "magic", "cannot be computed anew"),
    (("mechanism", "queries"), 10**12, "cannot be computed anew"),
    (("rows", "rows"), 10**6, "number of sealed rows"),
    (("account", "asked"), 1, "counts of queries"),
    (("account", "charged"), 0, "what was charged"),
    (("account", "left"), {"queries": 9, "surprises": 9}, "what is left"),
    (("ledger_head", "sequence"), 9, "counts of queries"),
    (("ledger_head", "checkpoint"), {"sequence": 6, "made_at": "2026-11-22T10:00:00+00:00"}, "not one of the entries"),
    (("ledger_head", "checkpoint"), {"sequence": 0, "made_at": "2026-11-22T10:00:00+00:00"}, "not one of the entries"),
    (("account", "lost"), {"recoveries": 0, "queries": 0, "charges": 0}, "no act of the steward"),
    (("account", "allotments"), {"acts": 0, "analysts": []}, "no act of the steward"),
    (("rows", "columns"), [], "rows have no columns"),
    (("rows", "columns"), [["late", "boolean"], ["flight", "number"], ["late", "number"]], "two of the same name"),
    (("rows", "label"), "nothing", "none of the columns"),
    (("rows", "row_id"), "nothing", "none of the columns"),
    (("rows", "row_id"), "late", "both the label and the row id"),
    (("rows", "fingerprint"), "zz", "is no SHA-256"),
    (("rows", "training_fingerprint"), "zz", "is no SHA-256"),
    (("rows", "training_fingerprint"), None, "training rows without a fingerprint"),
    (("rows", "training_rows"), 0, "answers of training rows"),
    (("rows", "also_sealed_as"), [], "other holdouts with the same rows"),
    (("rows", "also_sealed_as"), ["flights"], "other holdouts with the same rows"),
    (("rows", "also_sealed_as"), ["trains", "boats"], "other holdouts with the same rows"),
    (("rows", "also_sealed_as"), ["boats", "boats"], "other holdouts with the same rows"),
]


@pytest.mark.parametrize(("path", "lie", "finding"), LIES)
def test_a_signed_lie_is_found(tmp_path, signed, path, lie, finding):
    certificate, key = signed
    lying = signed_again(replaced(certificate.to_dict(), path, lambda _: lie), key)
    report = verify_certificate(written(tmp_path / "c.json", lying), public_key=key.public_key)
    assert any(finding in found for found in report.findings)
    assert not any("signature" in found or "altered" in found for found in report.findings)


def test_public_features_without_a_column_of_labels_are_a_lie(tmp_path):
    mechanism = LaplaceMechanism(rows=1_000, queries=10, scale=0.05)
    certificate, key = make_sample(tmp_path, mechanism, features="public")
    assert not said_again(tmp_path, certificate, key)
    found = said_again(tmp_path, certificate, key, rows={"label": "nothing"})
    assert found == ("the label or the row id is none of the columns",)


NEVER, LOST = "never answers and charges as much", "lost answers cannot have been charged"
GAUSSIAN = GaussianMechanism(rows=20_000, queries=20, scale=0.05)
THRESHOLDOUT = Thresholdout.tuned(rows=200_000, queries=20, surprises=3)
GUESS_AND_CHECK = GuessAndCheck.tuned(rows=20_000, queries=20, surprises=10)
LADDER = Ladder.tuned(rows=20_000, queries=20)
BUDGET = PrivacyBudget.tuned(rows=50_000, queries=20)
OVERSPENT = {
    "thresholdout: more surprises than planned": (THRESHOLDOUT, {"training": 3, "holdout": 4}, None, 0, NEVER),
    "thresholdout: more surprises lost than planned": (THRESHOLDOUT, {"holdout": 1}, (1, 4), 0, LOST),
    "guess and check: 10^6 surprises": (GUESS_AND_CHECK, {"training": 3, "holdout": 10**6}, None, 0, NEVER),
    "guess and check: 10^6 lost charges": (GUESS_AND_CHECK, {"training": 3, "holdout": 2}, (10**6, 10**6), 0, NEVER),
    "guess and check: more charges lost than answers": (GUESS_AND_CHECK, {"training": 3}, (1, 2), 0, LOST),
    "gaussian: more queries than planned": (GAUSSIAN, {"holdout": 21}, None, 0, NEVER),
    "gaussian: 500 lost charges": (GAUSSIAN, {"holdout": 3}, (17, 500), 0, LOST),
    "gaussian: lost answers for nothing": (GAUSSIAN, {"holdout": 3}, (5, 0), 0, LOST),
    "ladder: more new bests than scores": (LADDER, {"holdout": 2_000}, None, 0, NEVER),
    "ladder: a lost new best": (LADDER, {"holdout": 1}, (1, 1), 0, LOST),
    "ladder: standing from the first": (LADDER, {"standing": 2}, None, 0, "before there was one"),
    "budget: more credits lost than there are": (BUDGET, {"holdout": 1}, (1, 10**6), 0, LOST),
    "budget: what was lost is not charged": (BUDGET, {"holdout": 2}, (1, 100), -199, "credits that were charged"),
}


@pytest.mark.parametrize(("mechanism", "sources", "lost", "uncharged", "finding"), OVERSPENT.values(), ids=OVERSPENT)
def test_an_account_that_no_ledger_could_have_is_found(tmp_path, mechanism, sources, lost, uncharged, finding):
    """All other facts, the sums and the words agree with the lie."""
    found = said_again(tmp_path, *make_sample(tmp_path, mechanism), **spent(mechanism, sources, lost, uncharged))
    assert any(finding in what for what in found)


POSSIBLE = {
    "thresholdout: all surprises": (THRESHOLDOUT, {"training": 3, "holdout": 3}, None),
    "thresholdout: an epoch lost without a query": (THRESHOLDOUT, {"training": 3, "holdout": 2}, (0, 1)),
    "thresholdout: nobody knows what was lost": (THRESHOLDOUT, {"training": 19}, (1, 3)),
    "guess and check: only surprises": (GUESS_AND_CHECK, {"holdout": 10}, None),
    "guess and check: nothing asked": (GUESS_AND_CHECK, {}, None),
    "guess and check: beyond the plan": (GUESS_AND_CHECK, {"training": 21}, None),
    "gaussian: all queries, some lost": (GAUSSIAN, {"holdout": 3}, (17, 17)),
    "ladder: lost after the first": (LADDER, {"standing": 2, "holdout": 1}, (17, 0)),
    "budget: nobody knows what was lost": (BUDGET, {"holdout": 1}, (19, 1_900)),
}


@pytest.mark.parametrize(("mechanism", "sources", "lost"), POSSIBLE.values(), ids=POSSIBLE)
def test_an_account_that_a_ledger_could_have_is_believed(tmp_path, mechanism, sources, lost):
    assert not said_again(tmp_path, *make_sample(tmp_path, mechanism), **spent(mechanism, sources, lost))


def spent(mechanism, sources, lost, uncharged=0):
    """The facts of a ledger with these answers; an answer of a budget costs what a mean at its planned scale does."""
    queries, charges = lost or (0, 0)
    answered = sum(sources.values())
    asked, charged = (
        answered + queries,
        sources.get("holdout", 0) * mechanism.traits.most_charged + charges + uncharged,
    )
    labels = mechanism.accounts.labels_of(sources.get("holdout", 0))[0] + mechanism.accounts.labels_of(charges)[1]
    account = {
        "asked": asked, "charged": charged, "left": mechanism.remaining(State(asked, charged, labels=labels)),
        "by_source": {name: sources.get(name, 0) for name in SOURCES},
    }  # fmt: skip
    if labels:
        account["labels"] = labels
    if lost:
        account["lost"] = {"recoveries": 1, "queries": queries, "charges": charges}
    return {"account": account, "ledger_head": {"sequence": answered + bool(lost)}}


def said_again(folder, certificate, key, **changes):
    """Findings about other facts, with the signature as everhold would write it."""
    facts = certificate.to_dict()
    if "labels" not in changes.get("account", {"labels": 0}):
        facts["account"].pop("labels", None)
    for section, changed in changes.items():
        facts[section] |= changed
    report = verify_certificate(written(folder / "c.json", signed_again(facts, key)), public_key=key.public_key)
    assert not any("altered" in found for found in report.findings)
    return report.findings


CHEAP, DEAR = GUESS_AND_CHECK.accounts.labels_of(1)
LOST = GUESS_AND_CHECK.accounts.lost_labels_of(1)
LABELS = {  # of so many surprises and lost charges, with what they are said to have told, in millionths of a nat
    "nothing was told": (1, 0, 0, False),
    "less than any label": (2, 0, 2 * CHEAP - 1, False),
    "the cheapest": (2, 0, 2 * CHEAP, True),
    "the dearest": (2, 0, 2 * DEAR, True),
    "more than any label": (2, 0, 2 * DEAR + 1, False),
    "without a surprise": (0, 0, 1, False),
    "what was lost counts as the dearest": (1, 2, CHEAP + 2 * DEAR, True),
    "what was lost counts as less": (1, 2, CHEAP + 2 * LOST - 1, False),
    "beyond what was lost": (1, 2, 3 * DEAR + 1, False),
}


@pytest.mark.parametrize(("told", "lost", "labels", "sound"), LABELS.values(), ids=LABELS)
def test_labels_that_surprises_cannot_have_cost_are_found(tmp_path, told, lost, labels, sound):
    facts = spent(GUESS_AND_CHECK, {"training": 3, "holdout": told}, (lost, lost) if lost else None)
    account = facts["account"]
    account["left"] = GUESS_AND_CHECK.remaining(State(account["asked"], account["charged"], labels=labels))
    account["labels"] = labels
    if not labels:
        del account["labels"]
    found = said_again(tmp_path, *make_sample(tmp_path, GUESS_AND_CHECK), **facts)
    assert found == (() if sound else ("what surprises told cannot have cost what is said",))


def test_labels_of_a_mechanism_that_has_none_are_found(tmp_path):
    facts = spent(GAUSSIAN, {"holdout": 3}, None)
    facts["account"]["labels"] = 1
    found = said_again(tmp_path, *make_sample(tmp_path, GAUSSIAN), **facts)
    assert found == ("what surprises told cannot have cost what is said",)


def test_privacy_of_predictable_noise_is_a_lie(tmp_path):
    certificate, key = make_sample(tmp_path, LaplaceMechanism(rows=1_000, queries=10, scale=0.05))
    lying = replaced(certificate.to_dict(), ("issue", "simulation"), lambda _: True)
    findings = verify_certificate(written(tmp_path / "c.json", signed_again(lying, key))).findings
    assert any("privacy is not the one" in found for found in findings)


def of_another_version(document, version="0.0.1"):
    return replaced(document, ("issue", "version"), lambda _: version)


def test_the_facts_of_another_version_are_checked_and_sound(tmp_path, signed):
    certificate, key = signed
    older = signed_again(of_another_version(certificate.to_dict()), key)
    report = verify_certificate(written(tmp_path / "c.json", older))
    assert report.ok
    assert report.unchecked == ()


def test_a_page_of_another_version_with_other_words_is_never_called_sound(tmp_path, signed):
    """A steward who writes a false sentence and another version's number: the page is not ok, and says why."""
    certificate, key = signed
    page = Certificate(signed_again(of_another_version(certificate.to_dict()), key)).to_html()
    (tmp_path / "c.html").write_text(page.replace("Until 1,000 queries", "Until 9,000 queries"))
    report = verify_certificate(tmp_path / "c.html", public_key=key.public_key)
    assert report.findings == ()
    assert not report.ok
    assert "were not checked by this version" in report.unchecked[0]
    assert "'promise'" in report.unchecked[0]
    assert "'0.0.1'" in report.unchecked[0]
    assert report.to_dict()["ok"] is False
    assert report.to_dict()["unchecked"] == list(report.unchecked)
    assert next(row["kind"] for row in report.to_rows()) == "unchecked"


@pytest.mark.parametrize(("path", "lie", "finding"), LIES)
def test_another_version_switches_no_check_off(tmp_path, signed, path, lie, finding):
    certificate, key = signed
    lying = of_another_version(replaced(certificate.to_dict(), path, lambda _: lie))
    report = verify_certificate(written(tmp_path / "c.json", signed_again(lying, key)), public_key=key.public_key)
    assert not report.ok
    assert any(finding in what for what in (report.unchecked if "assumptions are" in finding else report.findings))


@pytest.mark.parametrize("version", ["", "\x1b[2J" * 50, "0.1.0 ", "9" * 1_000, "<script>"])
def test_a_strange_version_is_shown_harmlessly_and_is_no_way_around(tmp_path, signed, version):
    certificate, key = signed
    lying = replaced(of_another_version(certificate.to_dict(), version), ("assumptions", "stated"), lambda _: [])
    report = verify_certificate(written(tmp_path / "c.json", signed_again(lying, key)))
    assert not report.ok
    assert all(what.isprintable() and len(what) < 500 for what in report.unchecked)


def test_another_software_is_found(tmp_path, signed):
    certificate, key = signed
    other = replaced(certificate.to_dict(), ("issue", "software"), lambda _: "otherhold")
    report = verify_certificate(written(tmp_path / "c.json", signed_again(other, key)))
    assert report.findings == ("it names another software than everhold",)


HOSTILE = {
    "empty": b"",
    "cut off": b'{"everhold_certificate": 1, "promise"',
    "no object": b"[1, 2]",
    "another version": b'{"everhold_certificate": 2}',
    "a version that is true": b'{"everhold_certificate": true}',
    "a name twice": b'{"everhold_certificate": 1, "everhold_certificate": 1}',
    "not a number": b'{"everhold_certificate": NaN}',
    "infinite": b'{"everhold_certificate": 1e999}',
    "very long number": b'{"everhold_certificate": ' + b"9" * 10_000 + b"}",
    "half a surrogate pair": b'{"everhold_certificate": "\\ud800"}',
    "deep": b"[" * 200_000,
    "deep and closed": b"[" * 500 + b"]" * 500,
    "deep objects": b'{"a":' * 200_000,
    "binary": bytes(range(256)),
    "huge": b" " * (MOST_BYTES + 1),
    "a page without a document": b"<!DOCTYPE html><html></html>",
    "half a document": b'<script type="application/json" id="everhold-document">{"everhold_certificate": 1}',
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_gives_findings_and_no_error(tmp_path, content):
    path = tmp_path / "c.json"
    path.write_bytes(content)
    report = verify_certificate(path)
    assert not report.ok
    assert report.certificate is None
    assert report.to_dict()["findings"]


def test_what_is_not_a_file_gives_findings(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "nothing", "null\0byte"):
        assert not verify_certificate(path).ok


STRANGE = [None, True, -1, 2**62, 10**300, 1e300, -0.5, "x", "\x00", "<b>", [], {}, [[]], {"": None}, ["a", "b"]]


def test_no_value_anywhere_makes_verification_fail_with_an_error(tmp_path, signed):
    certificate, key = signed
    document = certificate.to_dict()
    for path in (path for path in places(document) if path[0] in SECTIONS):
        for number, value in enumerate(STRANGE):
            strange = replaced(document, path, lambda _, value=value: value)
            if number % 3 == len(path) % 3:  # signed, so that nothing before the numbers stops it
                strange = signed_again(strange, key)
            report = verify_certificate(written(tmp_path / "c.json", strange))
            assert isinstance(report.ok, bool)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    ),
    st.sampled_from([*SECTIONS, "signature", "everhold_certificate"]),
)
def test_any_json_in_the_place_of_a_section_is_found(tmp_path, document, value, name):
    (tmp_path / "c.json").write_text(json.dumps({**document, name: value}))
    assert verify_certificate(tmp_path / "c.json").ok is (value == document[name] and type(value) is not bool)
