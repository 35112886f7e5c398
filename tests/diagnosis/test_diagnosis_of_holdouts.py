"""`Holdout.diagnose` and the warning at creation; nothing of the sealed rows enters either."""

import warnings

import numpy as np
import pytest
from diagnosis_samples import households, plain

from everhold import Groups, Holdout, Independent
from everhold.errors import DependenceError, DependenceWarning


def sealed(folder, training, holdout=None, name="study", **wish):
    """A holdout whose sealed rows are independent, unless others are given."""
    wish = {"queries": 50, "overfits": 2, "label": "late", **wish}
    rows = plain(99) if holdout is None else holdout
    if training is not None:
        rows = {column: rows.get(column, np.arange(2_000)) for column in training}
    return Holdout.create(f"sqlite:///{folder}/study.db", name, holdout=rows, training=training, **wish)


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
    with pytest.warns(DependenceWarning, match="'home'.*silence DependenceWarning"):
        sealed(tmp_path, households(), dependence=Independent()).close()


def test_a_declaration_that_explains_what_is_seen_is_not_warned_of(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apart = households() | {"home": households()["home"] + 10_000}
        sealed(tmp_path, apart, households(), name="groups", dependence=Groups("home")).close()
        sealed(tmp_path, plain(), name="plain").close()
        sealed(tmp_path, None, name="alone", label=None, again=True).close()


@pytest.mark.filterwarnings("ignore::everhold.errors.DependenceWarning")
@pytest.mark.filterwarnings("ignore::everhold.errors.DependenceWarning")
def test_the_radius_is_that_of_the_holdout_declared_so(tmp_path):
    with sealed(tmp_path, households(), dependence=Independent(), mechanism="guess_and_check") as holdout:
        found = holdout.diagnose()
        assert found.radius == holdout.promise.radius
    apart = households() | {"home": households()["home"] + 10_000}
    with sealed(
        tmp_path, apart, households(), name="groups", dependence=Groups("home"), mechanism="guess_and_check"
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
    with sealed(tmp_path, None) as holdout, pytest.raises(DependenceError, match="no training rows"):
        holdout.diagnose()


@pytest.mark.filterwarnings("ignore::everhold.errors.DependenceWarning")
@pytest.mark.filterwarnings("ignore::everhold.errors.DependenceWarning")
def test_the_ledger_does_not_notice(tmp_path):
    with sealed(tmp_path, households(), dependence=Independent()) as holdout:
        before = holdout.status()
        holdout.diagnose()
        assert holdout.status() == before
