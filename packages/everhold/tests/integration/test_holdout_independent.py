"""Columns that the steward declares independent: no warning, and an assumption that everyone can read."""

import json
import warnings

import numpy as np
import pytest

import everhold as eh
from everhold.certificate.verification import verify_certificate

CLINICS, VISITS = 1_000, 4
ASSUMED = "rows with equal or neighbouring values of 'clinic' are taken to be independent"


def visits(seed, first):
    """Visits in 1,000 clinics, in any order: the chance of being late is another one in each clinic."""
    rng = np.random.default_rng(seed)
    clinic = rng.permutation(np.repeat(np.arange(CLINICS), VISITS))
    late = (rng.random(len(clinic)) < rng.beta(1, 2, CLINICS)[clinic]).astype(int)
    return {
        "clinic": np.char.add(f"c{first}-", clinic.astype(str)).astype(object),
        "u": rng.random(len(late)),
        "late": late,
    }


def created(folder, *, training=True, **wanted):
    settings = {"dependence": None, **wanted}
    return eh.Holdout.create(
        folder / "h.db", "h", holdout=visits(0, 0), training=visits(2, 1) if training else None, label="late",
        mechanism="guess_and_check", queries=20, surprises=3, **settings,
    )  # fmt: skip


def dependence_warnings(folder, **wanted):
    folder.mkdir()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        created(folder, **wanted).close()
    return [str(each.message) for each in caught if issubclass(each.category, eh.DependenceWarning)]


def test_the_warning_says_what_it_would_cost_and_both_acts(tmp_path):
    (text,) = dependence_warnings(tmp_path / "a")
    assert "are promised" in text
    assert "The radius would then be about" in text
    assert "dependence=eh.Groups('clinic')" in text
    assert "declare rows=eh.Rows(independent=['clinic'])" in text
    assert not dependence_warnings(tmp_path / "b", rows=eh.Rows(independent=["clinic"]))
    assert dependence_warnings(tmp_path / "c", rows=eh.Rows(independent=["u"])) == [text]


def test_the_assumption_and_its_cost_are_named_wherever_the_promise_is(tmp_path):
    with created(tmp_path, rows=eh.Rows(independent=["clinic"])) as holdout:
        found, status, sentence = holdout.diagnose(), holdout.status(), holdout.promise.sentence
        certificate = holdout.certificate()
    finding = found.finding("clinic")
    worth = round(CLINICS * VISITS * finding.measured_share)
    assert 1_900 < worth < 2_700  # the correlation is 1/4 in clinics of 4: 4,000 rows are worth 4,000 / 1.75
    said = f"{ASSUMED}, though the 4,000 training rows are worth about {worth:,} if they are not"
    assert f"Here {said}." in sentence
    assert status["assumed"] == [said]
    document = certificate.in_words()
    assert document["rows"]["independent"] == [["clinic", worth, 4_000]]
    assert said in document["assumptions"]["always"]
    assert f"That {said}." in certificate.to_text()
    certificate.save(tmp_path / "c.json")
    assert verify_certificate(tmp_path / "c.json", public_key=certificate.public_key).ok
    assert found.suspects == ()
    assert finding.clear
    assert "yes, assumed independent" in str(found)
    assert f"Assumed: {said}." in str(found)
    assert found.to_dict()["findings"][0]["assumed_independent"] is True


def test_without_a_contradiction_the_assumption_has_no_cost(tmp_path):
    wanted = {"rows": eh.Rows(independent=["clinic", "u"]), "dependence": eh.Groups("clinic")}
    with pytest.raises(eh.HoldoutRejected, match="'clinic' cannot be declared independent: it is declared"):
        created(tmp_path, **wanted)
    with created(tmp_path, rows=eh.Rows(independent=["u"]), dependence=eh.Groups("clinic")) as holdout:
        said = "rows with equal or neighbouring values of 'u' are taken to be no more dependent than is declared"
        assert holdout.status()["assumed"] == [said]


def test_without_training_rows_it_is_an_assumption_of_which_nothing_is_known(tmp_path):
    with created(tmp_path, training=False, rows=eh.Rows(independent=["clinic"])) as holdout:
        assert holdout.status()["assumed"] == [ASSUMED]


@pytest.mark.parametrize(
    ("names", "error", "said"),
    [
        (
            ["klinik"],
            eh.HoldoutRejected,
            "'klinik' cannot be declared independent: it is not there. Name one of clinic, u",
        ),
        (["clinic", "late"], eh.HoldoutRejected, "'late' cannot be declared independent: it is the label"),
        ("clinic", ValueError, r"Pass a list of names of columns, as in \['clinic'\]"),
        ([3], ValueError, "Pass a list of names of columns"),
        (5, ValueError, "Pass a list of names of columns"),
    ],
)
def test_a_column_that_cannot_be_declared_is_refused_and_nothing_is_created(tmp_path, names, error, said):
    with pytest.raises(error, match=said):
        created(tmp_path, rows=eh.Rows(independent=names))
    assert not (tmp_path / "h.db").exists()
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_certificate_with_an_altered_assumption_is_found_out(tmp_path):
    with created(tmp_path, rows=eh.Rows(independent=["clinic"])) as holdout:
        document = holdout.certificate().to_dict()
    for altered in ([["clinic", 4_001, 4_000]], [["late", 3, 4_000]], [["other", None, 4_000]]):
        document["rows"]["independent"] = altered
        (tmp_path / "altered.json").write_text(json.dumps(document))
        found = verify_certificate(tmp_path / "altered.json").findings
        assert any("said to be independent" in each for each in found)


def test_queries_are_not_judged_by_such_a_column(tmp_path):
    """A query whose values go by clinic is warned of, but not where clinics were declared independent."""
    counts = []
    for place, independent in enumerate(([], ["clinic"])):
        folder = tmp_path / str(place)
        folder.mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", eh.DependenceWarning)
            holdout = created(folder, rows=eh.Rows(independent=independent))
        with holdout, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            holdout.ask("late = 1 and u < 0.9")
        counts.append(sum(issubclass(each.category, eh.DependenceWarning) for each in caught))
    assert counts == [1, 0]


def test_the_same_rows_with_another_assumption_are_another_holdout(tmp_path):
    created(tmp_path, rows=eh.Rows(independent=["clinic"])).close()
    created(tmp_path, rows=eh.Rows(independent=["clinic"]), exist_ok=True).close()
    with pytest.raises(eh.HoldoutRejected, match="created with other independent"):
        created(tmp_path, rows=eh.Rows(independent=["u", "clinic"]), exist_ok=True)
