"""Champions are kept as they were, for their owner alone, and whoever alters them is found out."""

import numpy as np
import pytest

from everhold.errors import EverholdError, IntegrityError
from everhold.gates.records import Champion, ModelStore

DIGEST, OTHER = "a" * 64, "b" * 64


@pytest.fixture
def champions(tmp_path):
    return made(tmp_path)


def made(folder, *, holdout="one", key=b"key"):
    return ModelStore.of(folder, holdout=holdout, rows=3, seal_key=key)


def keep(champions, kept):
    champions.settle(champions.write(kept), kept.digest)


def champion(digest=DIGEST):
    return Champion(digest, np.array([0, 4, 2]), np.array([1, 2]), np.array(["a", "b", "c"]))


def test_a_champion_comes_back_in_another_process(champions, tmp_path):
    keep(champions, champion())
    found = made(tmp_path).champion(DIGEST)
    assert found.values.tolist() == [0, 4, 2]
    assert found.training.tolist() == [1, 2]
    assert found.predictions.tolist() == ["a", "b", "c"]
    assert found.by_position
    keep(champions, Champion(OTHER, np.array([1, 1, 1])))
    alone = made(tmp_path).champion(OTHER)
    assert (alone.training, alone.predictions, alone.by_position) == (None, None, False)


def test_nobody_else_can_open_it_and_nothing_is_left_beside_it(champions, tmp_path):
    keep(champions, champion())
    keep(champions, champion())
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o077 == 0


def test_row_values_are_in_no_text(champions):
    assert "4" not in repr(champion()).replace(DIGEST, "")
    keep(champions, champion())
    assert "array" not in repr(champions)


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b"", lambda b: b[:40] + b"x" + b[41:]])
def test_an_altered_file_is_found_out(champions, tmp_path, change):
    keep(champions, champion())
    (file,) = tmp_path.iterdir()
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(IntegrityError):
        made(tmp_path).champion(DIGEST)


def test_the_file_of_another_champion_holdout_or_key_is_found_out(champions, tmp_path):
    keep(champions, champion())
    (file,) = tmp_path.iterdir()
    for other in (made(tmp_path, holdout="two"), made(tmp_path, key=b"another")):
        with pytest.raises(IntegrityError, match="was altered"):
            other.champion(DIGEST)
    file.rename(tmp_path / f"champion-{OTHER}")
    with pytest.raises(IntegrityError, match="was altered"):
        made(tmp_path).champion(OTHER)
    with pytest.raises(IntegrityError, match="is missing"):
        made(tmp_path).champion(DIGEST)


def test_a_folder_that_is_gone_is_said_in_words(tmp_path):
    with pytest.raises(EverholdError, match="cannot be written"):
        keep(made(tmp_path / "gone"), champion())
