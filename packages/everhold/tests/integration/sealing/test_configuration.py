"""What is refused at creation leaves nothing behind; what is accepted comes back as it was."""

import math
import stat
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from holdout_samples import ROWS, create, files, guess_and_check, rows

from everhold import (
    AuthError,
    Empirical,
    GaussianMechanism,
    Holdout,
    HoldoutRejected,
    IntegrityError,
    NonAdaptiveWarning,
    SampleSplitting,
    SmallHoldoutWarning,
    VacuousGuaranteeWarning,
)
from everhold.mechanisms import GuessAndCheck, base
from everhold.mechanisms.records import TEXT_BITS
from everhold.planning import PlanRequest, best_mechanism
from everhold.sealing.configuration import mechanism_from


@dataclass(frozen=True, kw_only=True)
class Strange(Empirical):
    name: ClassVar[str] = "strange"


def without(column):
    return {name: values for name, values in rows(0).items() if name != column}


LABEL = np.arange(ROWS, dtype=float)
BAD_WISHES = {
    "queries 0": ({"mechanism": "gaussian", "queries": 0}, ValueError),
    "queries 1.5": ({"mechanism": None, "queries": 1.5}, ValueError),
    "queries text": ({"mechanism": "gaussian", "queries": "5"}, ValueError),
    "surprises above queries": ({"mechanism": None, "queries": 5, "surprises": 6}, ValueError),
    "confidence 1": ({"mechanism": "gaussian", "confidence": 1.0}, ValueError),
    "confidence nan": ({"mechanism": "gaussian", "confidence": math.nan}, ValueError),
    "slack 1": ({"mechanism": None, "slack": 1.0}, ValueError),
    "unknown mechanism": ({"mechanism": "nope"}, ValueError),
    "number for a mechanism": ({"mechanism": 5}, ValueError),
    "mechanism for other rows": ({"mechanism": guess_and_check(ROWS - 1)}, HoldoutRejected),
    "mechanism without a name": ({"mechanism": Strange(rows=ROWS, queries=1)}, HoldoutRejected),
    "too many parts": ({"mechanism": "sample_splitting", "queries": ROWS + 1}, ValueError),
    "negative seed": ({"seed": -1}, ValueError),
    "broken seed": ({"seed": 1.5}, TypeError),
    "label unknown": ({"label": "nothing"}, HoldoutRejected),
    "label of other case": ({"label": "LATE"}, HoldoutRejected),
    "label missing in a row": ({"label": "delay", "holdout": {**rows(0), "delay": LABEL * np.nan}}, HoldoutRejected),
    "label missing in training": (
        {"label": "carrier", "training": {**rows(1), "carrier": np.array([None, *"a" * (ROWS - 1)], dtype=object)}},
        HoldoutRejected,
    ),
    "label of dates": ({"label": "day", "training": None, "holdout": {"day": LABEL.astype("M8[D]")}}, HoldoutRejected),
    "row ids unknown": ({"row_id": "nothing"}, HoldoutRejected),
    "row ids shared": (
        {"row_id": "id", "holdout": {**rows(0), "id": LABEL}, "training": {**rows(1), "id": LABEL + ROWS - 1}},
        HoldoutRejected,
    ),
    "empty holdout": ({"holdout": rows(0, 0)}, HoldoutRejected),
    "empty training": ({"training": rows(1, 0)}, HoldoutRejected),
    "no columns": ({"holdout": {}, "training": None}, HoldoutRejected),
    "training lacks a column": ({"training": without("carrier")}, HoldoutRejected),
    "holdout lacks a column": ({"holdout": without("carrier")}, HoldoutRejected),
    "other types": ({"training": {**rows(1), "carrier": LABEL}}, HoldoutRejected),
    "a reserved name": ({"holdout": {**rows(0), "File_Row_Number": LABEL}, "training": None}, HoldoutRejected),
    "names that differ in case": ({"holdout": {**rows(0), "Delay": LABEL}, "training": None}, HoldoutRejected),
    "not a table": ({"holdout": [1, 2]}, HoldoutRejected),
    "no file": ({"holdout": "none.parquet"}, HoldoutRejected),
    "training no file": ({"training": "none.csv"}, HoldoutRejected),
}


@pytest.mark.parametrize("wanted", BAD_WISHES)
def test_nothing_is_created_by_a_bad_request(tmp_path, wanted):
    bad, error = BAD_WISHES[wanted]
    with pytest.raises(error):
        create(tmp_path, **bad)
    assert files(tmp_path) == []


def test_a_bad_request_leaves_the_other_holdouts_alone(tmp_path):
    create(tmp_path, "good").close()
    before = files(tmp_path)
    with pytest.raises(HoldoutRejected):
        create(tmp_path, "bad", label="nothing")
    with pytest.raises(HoldoutRejected, match="named 'good' exists"):
        create(tmp_path, "good")
    assert files(tmp_path) == before
    Holdout.open(f"sqlite:///{tmp_path}/study.db", "good").close()


NAMES = ["", "a/b", "..", ".a", "a\\b", "é", "x" * 65, "a\n", "a\0b", " a", "-a", "a'b", "sqlite://"]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_a_file_system_could_misread_are_refused(tmp_path, name):
    with pytest.raises(HoldoutRejected, match="cannot be used"):
        create(tmp_path, name)
    assert files(tmp_path) == []


@pytest.mark.parametrize("name", ["a", "0", "A b.c_d-e", "x" * 64, "a.."])
def test_other_names_work(tmp_path, name):
    create(tmp_path, name).close()
    with Holdout.open(f"sqlite:///{tmp_path}/study.db", name) as holdout:
        assert holdout.status()["name"] == name


@pytest.mark.parametrize("storage", ["mysql://host/db", "ftp://x", "sqlite://", "sqlite:///:memory:"])
def test_storage_that_is_no_file_is_refused(tmp_path, monkeypatch, storage):
    monkeypatch.chdir(tmp_path)
    for use in (lambda: Holdout.create(storage, holdout=rows(0)), lambda: Holdout.open(storage)):
        with pytest.raises(ValueError, match="Pass the address of an SQLite file"):
            use()
    assert files(tmp_path) == []


def test_an_address_of_a_service_has_a_host_and_nothing_secret():
    for address in ("http:///x", "https://ada:secret@holdout.example", "https://holdout.example?token=1"):
        with pytest.raises(ValueError, match="has no host, or has a user, a query") as caught:
            Holdout.open(address)
        assert "secret" not in str(caught.value)


def test_storage_needs_a_folder_that_exists(tmp_path):
    with pytest.raises(HoldoutRejected, match="does not exist"):
        create(tmp_path / "none")
    (tmp_path / "study.rows").write_text("a file in the way")
    with pytest.raises(HoldoutRejected, match="is a file, or a folder with other files"):
        create(tmp_path)
    assert files(tmp_path) == ["study.rows"]


@pytest.mark.parametrize(
    ("wanted", "warning"),
    [
        ({"holdout": rows(0, 50), "mechanism": GaussianMechanism(rows=50, queries=1, scale=0.1)}, SmallHoldoutWarning),
        ({"mechanism": Empirical(rows=ROWS, queries=1)}, NonAdaptiveWarning),
        (
            {"mechanism": GaussianMechanism(rows=ROWS, queries=1, scale=1.0), "allow_vacuous": True},
            VacuousGuaranteeWarning,
        ),
    ],
)
def test_a_warning_that_is_an_error_leaves_nothing(tmp_path, wanted, warning):
    with pytest.raises(warning):
        create(tmp_path, **wanted)
    assert files(tmp_path) == []


def test_a_promise_of_nothing_is_refused_and_says_what_would_help(tmp_path):
    wanted = {"mechanism": "gaussian", "queries": 1_000}
    with pytest.raises(HoldoutRejected, match=r"promises nothing.*seal at least [\d,]+ rows") as found:
        create(tmp_path, **wanted)
    assert files(tmp_path) == []
    needed = found.value.data["rows_needed"]
    radii = [GaussianMechanism.tuned(rows=needed - less, queries=1_000).promise().radius for less in (0, 1)]
    assert radii[0] < 0.5 <= radii[1]
    with pytest.warns(VacuousGuaranteeWarning):
        create(tmp_path, **wanted, allow_vacuous=True).close()


def test_a_worst_case_of_nothing_is_sealed_with_a_warning_if_honest_guesses_are_answered_better(tmp_path):
    wanted = {"mechanism": "guess_and_check", "queries": 500, "holdout": rows(0, 120), "training": rows(1, 120)}
    with pytest.warns(VacuousGuaranteeWarning) as caught:
        holdout = create(tmp_path, **wanted)
    mechanism = holdout.mechanism
    holdout.close()
    radius, expected = mechanism.promise().radius, mechanism.expected_radius(0.9)
    assert expected < 0.3 < 0.5 < radius
    (said,) = (str(each.message) for each in caught)
    assert f"the radius {radius:.2f} is half the range or more" in said
    assert f"half-widths of {expected:.3f}"[:-1] in said
    few = {"holdout": rows(0, 40), "training": rows(1, 40)}
    with pytest.raises(HoldoutRejected, match="promises nothing: even if all guesses hold") as found:
        create(tmp_path, "few", **wanted | few)
    needed = found.value.data["rows_needed"]
    expected = [GuessAndCheck.tuned(rows=needed - less, queries=500, training_rows=40).expected_radius(0.9)
                for less in (0, 1)]  # fmt: skip
    assert expected[0] < 0.3 <= expected[1]


@pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning")
def test_few_rows_are_warned_of_with_what_can_be_seen_at_all(tmp_path):
    with pytest.warns(
        SmallHoldoutWarning, match=r"±0\.\d+ around 0\.9\. Of two models that disagree on 20 % of 80 rows"
    ):
        create(tmp_path, holdout=rows(0, 80), training=rows(1), mechanism="guess_and_check", queries=5, surprises=1,
               allow_vacuous=True).close()  # fmt: skip


def test_a_mechanism_that_would_do_better_when_tuned_is_told_so(tmp_path):
    loud = GaussianMechanism(rows=ROWS, queries=1, scale=1.0)
    with pytest.raises(HoldoutRejected, match="let the mechanism be tuned with mechanism='gaussian'"):
        create(tmp_path, mechanism=loud)


def test_too_many_rows_are_refused_before_anything_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "MOST_ROWS", ROWS - 1)
    with pytest.raises(ValueError, match="Pass at most 999"):
        create(tmp_path, mechanism="gaussian")
    assert files(tmp_path) == []


def test_the_best_mechanism_is_the_default(tmp_path):
    for training in (True, None):
        wanted = {"mechanism": None, "training": training, "queries": 40, "surprises": 2}
        with create(tmp_path, f"t{training}", **wanted, allow_resealing=True) as holdout:
            wanted = PlanRequest(rows=ROWS, queries=40, surprises=2, training_rows=ROWS if training else 0)
            best = best_mechanism(wanted)
            if isinstance(best, GuessAndCheck):
                best = replace(best, text_bits=TEXT_BITS)  # new holdouts have levels for short texts
            assert holdout.mechanism == best


def test_a_mechanism_by_name_and_with_integers_of_numpy(tmp_path):
    with create(tmp_path, "name", mechanism="gaussian", queries=7) as holdout:
        assert holdout.mechanism == GaussianMechanism.tuned(rows=ROWS, queries=7)
    mechanism = SampleSplitting(rows=np.int64(ROWS), queries=np.int32(2))
    with create(tmp_path, "numpy", mechanism=mechanism, seed=np.int64(3), allow_resealing=True) as holdout:
        assert holdout.mechanism == mechanism


@pytest.fixture
def sealed(tmp_path):
    create(tmp_path).close()
    create(tmp_path, "other", allow_resealing=True).close()
    (folder,) = tmp_path.glob("study.rows/study-*")
    return folder


def reopen(folder):
    Holdout.open(folder.parent.parent / "study.db", "study").close()


def test_sealed_files_are_private(sealed):
    assert stat.S_IMODE(sealed.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in sealed.iterdir()}
    assert modes.pop("ledger.head") == 0o600  # the one that is written again
    assert sorted(modes) == ["content.json", "holdout.parquet", "opened.json", "steward.key", "training.parquet"]
    assert set(modes.values()) == {0o400}
    reopen(sealed)


@pytest.mark.parametrize("file", ["holdout.parquet", "training.parquet"])
@pytest.mark.parametrize("place", [0, 0.5, -1])
def test_one_changed_byte_is_found(sealed, file, place):
    content = bytearray((sealed / file).read_bytes())
    content[int(len(content) * place) if place > 0 else place] ^= 1
    (sealed / file).chmod(0o600)
    (sealed / file).write_bytes(content)
    with pytest.raises(IntegrityError, match=f"fingerprint of {file} is not the recorded one"):
        reopen(sealed)


@pytest.mark.parametrize("file", ["holdout.parquet", "training.parquet"])
def test_a_missing_file_is_found(sealed, file):
    (sealed / file).unlink()
    with pytest.raises(IntegrityError, match="missing"):
        reopen(sealed)


def test_a_missing_or_swapped_key_is_found(sealed):
    (other,) = sealed.parent.glob("other-*")
    (sealed / "steward.key").unlink()
    with pytest.raises(AuthError):
        reopen(sealed)
    (other / "steward.key").rename(sealed / "steward.key")
    with pytest.raises(AuthError, match="another holdout"):
        reopen(sealed)


def test_equal_rows_have_different_fingerprints(sealed):
    (other,) = sealed.parent.glob("other-*")
    assert (sealed / "holdout.parquet").read_bytes() != (other / "holdout.parquet").read_bytes()


def test_a_mechanism_of_another_version_does_not_go_on():
    """Its surprises have told what this version would never let later queries pay for."""
    mechanism = GuessAndCheck.tuned(rows=1_000, queries=10, surprises=1)
    configuration = {"mechanism": mechanism.to_dict(), "dependence": mechanism.dependence.to_dict()}
    assert mechanism_from(configuration) == mechanism
    del configuration["mechanism"]["parameters"]["allowance"]
    with pytest.raises(IntegrityError, match="the version of everhold that created it"):
        mechanism_from(configuration)
