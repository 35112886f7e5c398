"""`Holdout.diagnose` and the warning at creation; nothing of the sealed rows enters either."""

import warnings

import numpy as np
import pytest
from diagnosis_samples import households, plain

from everhold import Groups, Holdout, Independent
from everhold.asking.creation import settings_from
from everhold.errors import DependenceError, DependenceWarning, VacuousGuaranteeWarning
from everhold.sealing.intake.files import seal_rows
from everhold.sealing.intake.request import SealRequest
from everhold.sealing.intake.structure import FileStructure


def sealed(folder, training, holdout=None, name="study", **wanted):
    """A holdout whose sealed rows are independent, unless others are given."""
    wanted = {"queries": 50, "surprises": 2, "label": "late", **wanted}
    rows = plain(99) if holdout is None else holdout
    if training is not None:
        rows = {column: rows.get(column, np.arange(2_000)) for column in training}
    return Holdout.create(
        f"sqlite:///{folder}/study.db", name, holdout=rows, training=training, **settings_from(wanted)
    )


def test_creation_warns_once_and_at_the_line_that_created(tmp_path):
    with pytest.warns(DependenceWarning, match="'home'.*eh.Groups") as caught:
        sealed(tmp_path, households()).close()
    assert len(caught) == 1
    sealed_rows = plain(99) | {"home": np.arange(2_000)}
    with pytest.warns(DependenceWarning) as caught:
        Holdout.create(tmp_path / "b.db", holdout=sealed_rows, training=households(), label="late", queries=50).close()
    assert caught[0].filename == __file__


def test_a_warning_that_is_an_error_leaves_nothing_behind(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DependenceWarning):
            sealed(tmp_path, households())
    assert list(tmp_path.iterdir()) == []


def test_declared_or_not_independence_is_held_against_the_training_rows(tmp_path):
    with pytest.warns(DependenceWarning, match=r"'home'.*independent=\['home'\]"):
        sealed(tmp_path, households(), dependence=Independent()).close()


def test_a_declaration_that_explains_what_is_seen_is_not_warned_of(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apart = households() | {"home": households()["home"] + 10_000}
        sealed(tmp_path, apart, households(1), name="groups", dependence=Groups("home")).close()
        sealed(tmp_path, plain(), name="plain").close()
        sealed(tmp_path, None, name="alone", label=None, allow_resealing=True).close()


@pytest.mark.filterwarnings("ignore::everhold.errors.DependenceWarning")
@pytest.mark.filterwarnings("ignore::everhold.errors.DependenceWarning")
def test_the_radius_is_that_of_the_holdout_declared_so(tmp_path):
    with sealed(tmp_path, households(), dependence=Independent(), mechanism="guess_and_check") as holdout:
        found = holdout.diagnose()
        assert found.radius == holdout.promise.radius
    apart = households() | {"home": households()["home"] + 10_000}
    (tmp_path / "groups").mkdir()
    with sealed(
        tmp_path / "groups", apart, households(), dependence=Groups("home"), mechanism="guess_and_check"
    ) as holdout:
        assert found.finding("home").radius == holdout.promise.radius


def test_sealed_rows_never_enter(tmp_path):
    twisted = households(5)  # sealed households, and training rows without any
    with sealed(tmp_path, twisted | plain(1) | {"home": plain(1)["age"]}, twisted, name="one") as holdout:
        found = holdout.diagnose()
    with sealed(tmp_path, twisted | plain(1) | {"home": plain(1)["age"]}, plain(7), name="two") as holdout:
        assert holdout.diagnose() == found
    assert not found.suspects


@pytest.mark.filterwarnings("ignore::everhold.errors.DependenceWarning")
@pytest.mark.filterwarnings("ignore::everhold.errors.DependenceWarning")
def test_the_sealed_file_is_not_even_opened(tmp_path):
    with sealed(tmp_path, households(), dependence=Independent()) as holdout:
        next(tmp_path.rglob("holdout.parquet")).unlink()
        assert holdout.diagnose().suspects


def test_without_training_rows_there_is_nothing_to_look_at(tmp_path):
    with sealed(tmp_path, None) as holdout, pytest.raises(DependenceError, match="this holdout has none"):
        holdout.diagnose()


@pytest.mark.filterwarnings("ignore::everhold.errors.DependenceWarning")
@pytest.mark.filterwarnings("ignore::everhold.errors.DependenceWarning")
def test_the_ledger_does_not_notice(tmp_path):
    with sealed(tmp_path, households(), dependence=Independent()) as holdout:
        before = holdout.status()
        holdout.diagnose()
        assert holdout.status() == before


def hospitals(groups, *, shared=False, ids=None, rows=4_500, seed=0):
    """Rows of whole hospitals in any order, on both sides; patients are older in some, and the label is tossed."""
    rng = np.random.default_rng(seed)
    hospital = rng.permutation(np.arange(2 * rows) % (2 * groups))
    old = (rng.normal(size=2 * groups)[hospital] + 0.5 * rng.normal(size=2 * rows) > 0).astype(int)
    table = {"hospital": hospital, "old": old, "late": rng.integers(0, 2, 2 * rows)}
    if ids is not None:
        table["hospital"] = ids(table["hospital"])
    first = np.arange(2 * rows) < rows if shared else hospital < groups
    return [{name: column[side] for name, column in table.items()} for side in (first, ~first)]


IDS = (None, lambda ids: ids.astype(float), lambda ids: np.array([f"h{code}" for code in ids], dtype=object))


@pytest.mark.parametrize("label", ["late", None])
@pytest.mark.parametrize("groups", [30, 12])
@pytest.mark.parametrize("ids", IDS)
def test_shuffled_clusters_that_are_on_one_side_each_are_warned_of_whatever_is_alike(tmp_path, groups, ids, label):
    training, holdout = hospitals(groups, ids=ids)
    with pytest.warns(DependenceWarning, match=r"'hospital' resemble.*'old'.*eh.Groups\('hospital'\).*both sides"):
        sealed(tmp_path, training, holdout, label=label).close()


def test_shuffled_clusters_on_both_sides_may_be_attributes_and_are_not_warned_of(tmp_path):
    training, holdout = hospitals(30, shared=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sealed(tmp_path, training, holdout).close()


def test_clusters_on_one_side_in_which_nothing_is_alike_are_warned_of_by_structure_alone(tmp_path):
    rng = np.random.default_rng(0)
    training, holdout = (table | {"old": rng.permutation(table["old"])} for table in hospitals(12))
    with pytest.warns(DependenceWarning, match="'hospital' is among both") as caught:
        sealed(tmp_path, training, holdout).close()
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", VacuousGuaranteeWarning)
        declared = {"dependence": Groups("hospital"), "allow_vacuous": True}
        sealed(tmp_path, training, holdout, name="declared", allow_resealing=True, **declared).close()


def test_whether_values_stand_on_both_sides_is_asked_in_every_type(tmp_path):
    day = np.datetime64("2020-01-01") + np.arange(4)
    sides = {
        "training": {"id": [1, 1, 2, 2], "part": [0.5, np.nan, 1.5, 0.5], "shared": [1, 2, 3, 4], "day": day,
                     "name": ["a", "b", "a", "b"], "sure": [True] * 4, "late": [0, 1, 0, 1]},
        "holdout": {"id": [3, 3, 4, 4], "part": [2.5, np.nan, 2.5, 3.5], "shared": [9, 2, 9, 9], "day": day + 4,
                    "name": ["c", "d", "c", "d"], "sure": [False] * 4, "late": [0, 1, 1, 1]},
    }  # fmt: skip
    found = seal_rows(tmp_path, SealRequest(**{side: as_arrays(table) for side, table in sides.items()}, label="late"))
    with FileStructure(tmp_path, found) as structure:
        assert structure.apart() == {"id", "part", "day", "name"}


def as_arrays(table):
    return {
        name: np.array(column, dtype=object if isinstance(column[0], str) else None) for name, column in table.items()
    }
