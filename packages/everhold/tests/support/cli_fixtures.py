import shutil

import pytest
from cli_samples import everhold, write_rows

from everhold.holdout import Holdout
from everhold.sealing.intake.request import Rows

__all__ = ["everhold", "sealed_study", "study"]


@pytest.fixture(scope="session")
def sealed_study(tmp_path_factory):
    """A folder with rows, predictions and one sealed holdout; never to be changed.

    It checks guesses, with room for four surprises at once, whatever they tell: a correlation has four parts.
    """
    folder = tmp_path_factory.mktemp("study")
    for number, name in enumerate(("sealed", "train")):
        write_rows(folder, name, rows=1_000, first_id=number * 10_000)
    Holdout.create(
        folder / "s.db", "flights", holdout=folder / "sealed.csv", training=folder / "train.csv", label="late",
        rows=Rows(row_id="id"), queries=20, surprises=8, mechanism="guess_and_check",
    ).close()  # fmt: skip
    return folder


@pytest.fixture
def study(sealed_study, tmp_path, monkeypatch):
    """A copy of the study as the current folder."""
    folder = tmp_path / "study"
    shutil.copytree(sealed_study, folder)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("EVERHOLD_STORAGE", raising=False)
    return folder
