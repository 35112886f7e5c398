"""The list of all queries, groups beside rows, weights, missing values, percentage points, and noise that is none."""

import re
import warnings

import holdout_samples as samples
import numpy as np
import pytest
from certificate_samples import make_sample, replaced, signed_again, written

import everhold as eh
from everhold.certificate import Certificate, verify_certificate
from everhold.certificate.summary import margin_of
from everhold.dependence import Groups
from everhold.mechanisms import MECHANISMS
from everhold.sealing.storage import StewardKey

PATIENTS = 240
ROWS = 5 * PATIENTS


def visits(seed):
    """Five visits of each patient."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=ROWS)
    return {
        "patient": np.repeat([f"{seed}-{number}" for number in range(PATIENTS)], 5).astype(object),
        "score": score,
        "ill": (score + rng.normal(size=ROWS) > 0).astype(int),
    }


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """A study of patients with several queries, also a difference, and a gate."""
    storage = f"sqlite:///{tmp_path_factory.mktemp('clinic')}/s.db"
    with warnings.catch_warnings(action="ignore"), eh.Holdout.create(
        storage, "clinic", holdout=visits(1), training=visits(2), label="ill", dependence=Groups("patient"),
        queries=60, surprises=5, planning=eh.Planning(allow_vacuous=True),
    ) as made:  # fmt: skip
        made.ask("score > 0")
        made.ask(eh.difference("score > 0.8", "score > 0.9"))
        made.ask(eh.mean("score", low=-4, high=4))
        made.ask(eh.error("score > 0"))
        made.ask("score > 1", silent=True)
        made.gate("accuracy", champion="score > 3", name="nightly", margin=0.01).challenge("score > 0")
        yield made


@pytest.fixture(scope="module")
def certificate(clinic):
    return clinic.certificate()


def test_the_certificate_lists_all_queries_with_their_numbers_in_their_own_units(certificate):
    queries = certificate.to_dict()["account"]["queries"]
    assert [query["asked"] for query in queries] == [
        "mean of score > 0", "mean of score > 0.8 minus mean of score > 0.9",
        "mean of score; values below -4 count as -4, and above 4 as 4 (none of the training rows)",
        "error of the rule score > 0", "mean of score > 1",
        "gate 'nightly': accuracy of the rule score > 0 against the champion, the rule score > 3",
    ]  # fmt: skip
    share, difference, mean, error, silent, challenge = queries
    assert 0.4 < share["value"] < 0.6
    assert abs(difference["value"]) < 0.1
    assert difference["measure"] == "points"
    assert mean["low"] < 0 < mean["high"]
    assert error["measure"] == "wrong"
    assert error["low"] < 0.4
    assert silent["value"] is challenge["value"] is None
    assert sum(query["charged"] for query in queries) == certificate.to_dict()["account"]["charged"]


def test_the_list_is_folded_on_the_page_and_verified(certificate, tmp_path):
    page = certificate.to_html()
    assert "<summary>Queries 1 to 6 of 6</summary>" in page
    assert re.search(r"<td class=\"number\">-?[0-9.]+ percentage points</td>", page)
    for ending in ("json", "html"):
        certificate.save(tmp_path / f"c.{ending}")
        report = verify_certificate(tmp_path / f"c.{ending}", public_key=certificate.public_key)
        assert report.ok
        assert any("all answers are listed" in note for note in report.notes)


def test_a_long_list_is_folded_by_the_hundred(tmp_path):
    sample, key = make_sample(tmp_path)
    query = {"asked": "mean of x", "measure": "share", "source": "training", "value": 0.5, "low": 0.4, "high": 0.6}
    many = [{**query, "entry": entry, "charged": 0} for entry in range(1, 251)]
    document = replaced(sample.to_dict(), ("account", "queries"), lambda _: many)
    page = Certificate(signed_again(document, key)).to_html()
    titles = re.findall("<summary>(.*?)</summary>", page)
    assert titles == ["Queries 1 to 100 of 250", "Queries 101 to 200 of 250", "Queries 201 to 250 of 250"]


def test_the_list_can_be_left_out_and_the_page_says_so(clinic, tmp_path):
    certificate = clinic.certificate(queries=False)
    assert "queries" not in certificate.to_dict()["account"]
    assert "does not list the queries" in certificate.to_html()
    assert "listed further down" not in certificate.in_words()["summary"]["asked"]
    certificate.save(tmp_path / "c.json")
    assert verify_certificate(tmp_path / "c.json", public_key=certificate.public_key).ok


def test_of_more_queries_than_a_certificate_lists_it_says_where_they_are(clinic, monkeypatch):
    monkeypatch.setattr("everhold.asking.reports.certifying.MOST_LISTED", 3)
    assert "does not list the queries" in clinic.certificate().to_html()


@pytest.mark.parametrize(("path", "lie", "finding"), [
    (("account", "queries"), lambda queries: queries[1:], "as many of each source"),
    (("account", "queries"), lambda queries: queries[::-1], "not in the order of the ledger"),
    (("account", "queries", 0, "source"), lambda _: "guess", "as many of each source"),
    (("account", "queries", 0, "charged"), lambda _: 7, "do not add up"),
    (("account", "queries", 0, "low"), lambda _: 0.99, "wrong way round"),
    (("account", "queries", 0, "high"), lambda _: 1.5, "larger than there can be"),
    (("account", "queries", 5, "entry"), lambda _: 900, "not in it"),
])  # fmt: skip
def test_a_list_that_is_not_whole_or_cannot_be_is_found(certificate, tmp_path, path, lie, finding):
    document = replaced(certificate.to_dict(), path, lie)
    document = signed_again(document, StewardKey.create(tmp_path / "steward.key"))
    findings = verify_certificate(written(tmp_path / "c.json", document)).findings
    assert any(finding in what for what in findings), findings


def test_groups_stand_beside_rows(certificate):
    beside = "1,200 sealed rows of 240 groups (equal values of the column 'patient')"
    document = certificate.in_words()
    assert any(beside in text for text in document["summary"]["means"])
    rows = {row["item"]: row["value"] for row in certificate.to_rows()}
    assert rows["groups of sealed rows"] == "240 groups (equal values of the column 'patient'), of 5 rows"
    assert "1,200 sealed rows of 240 groups" in re.search('<p class="made">(.*?)</p>', certificate.to_html())[1]


def test_the_certificate_says_how_rows_are_weighted_and_what_missing_values_count_as(certificate, tmp_path):
    said = certificate.in_words()["promise"]["explanation"]
    assert any("Every sealed row has the same weight. So a group counts in proportion" in text for text in said)
    assert said[-2].startswith("A query that has no value in some training rows was refused")
    assert "A missing number counts as the low end of its range." in said[-1]
    assert "Every sealed row has the same weight." in make_sample(tmp_path)[0].in_words()["promise"]["explanation"]


def test_missing_values_count_as_the_certificate_says(tmp_path):
    x, other = (np.random.default_rng(seed).uniform(10.0, 20.0, 2_000) for seed in (1, 2))
    sealed, training = {"x": x, "by": np.arange(2_000) % 2}, {"x": other, "by": np.ones(2_000)}
    mechanism = samples.guess_and_check(2_000)
    with samples.create(tmp_path, holdout=sealed, training=training, label=None, mechanism=mechanism) as holdout:
        for query in ("x / by > 15", "not (x / by > 15)", eh.mean("x / by", low=8, high=20)):
            holdout.ask(query)
        sealed = [row["sealed"] for row in holdout.unseal().to_rows()]
        assert sealed == pytest.approx([0.25, 0.25, 0.5 * 8 + 0.5 * 15], abs=0.2)


def test_differences_of_rates_and_margins_are_in_percentage_points(certificate, clinic):
    (gate,) = [text for text in certificate.in_words()["summary"]["found"] if text.startswith("The gate 'nightly'")]
    assert "by more than 1 percentage point;" in gate
    assert margin_of({"metric": "brier", "margin": 0.01}) == "0.01"
    assert margin_of({"metric": "accuracy", "margin": 0.005}) == "0.5 percentage points"
    shown = clinic.certificate({"gap": eh.difference("score > 0.8", "score > 0.9")}).in_words()["summary"]["sentences"]
    assert "percentage points" in shown[0]


def test_rates_of_two_kinds_differ_in_percentage_points(tmp_path):
    with samples.create(tmp_path, queries=40, surprises=10, allow_vacuous=True) as holdout:
        answer = holdout.ask(eh.difference(eh.accuracy("delay > 15"), "delay > 10"))
        (fact,) = holdout.certificate({"gap": answer}).to_dict()["summary"]["answers"]
    assert fact["measure"] == "points"


@pytest.mark.parametrize("simulation", [False, True])
@pytest.mark.parametrize("name", ["guess_and_check", "gaussian"])
def test_no_noise_is_spoken_of_where_there_is_none(tmp_path, name, simulation):
    mechanism = MECHANISMS[name].for_request(
        rows=20_000, queries=1_000, surprises=10, slack=0.0, confidence=0.95, training_rows=20_000
    )
    sample = make_sample(tmp_path, mechanism, simulation=simulation)[0]
    text = " ".join(row["value"] for row in sample.to_rows()) + " ".join(sample.in_words()["issue"]["banner"] or ())
    spoken = re.findall(r"[^.]*\bnoise\b[^.]*\.", text)
    honest = [said for said in spoken if "No noise is added" in said or "no noise is added" in said]
    without = [said for said in spoken if "Without noise" in said]
    assert (len(spoken) > len(honest + without)) is (name == "gaussian"), spoken


def test_the_first_page_names_the_bounds_of_clipped_values_whether_or_not_it_has_room(tmp_path):
    with samples.create(tmp_path, queries=40, surprises=10, allow_vacuous=True) as holdout:
        holdout.ask(eh.mean("delay", low=0, high=20))
        for answers in range(1, 7):
            page = holdout.certificate(queries=False, answers=[*range(1, answers + 1)]).to_html()
            assert "delay: " in page if answers <= 4 else "delay; values below 0 count as 0, and above 20 as 20" in page
            assert "above 20 as 20" in page
            holdout.ask(f"delay > {answers}.5")
