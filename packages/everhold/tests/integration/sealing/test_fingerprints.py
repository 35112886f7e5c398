"""A sealed file that is replaced or changed after it was opened is found before it is answered from."""

import os
import shutil

import duckdb
import numpy as np
import pytest
from holdout_samples import ROWS, create

from everhold import IntegrityError, accuracy, error, mean
from everhold.sealing.storage import HOLDOUT_FILE, TRAINING_FILE

QUERIES = {
    "an expression": lambda: "delay > 5",
    "a function": lambda: mean(lambda table: table["late"] > 0),
    "predictions": lambda: accuracy(np.zeros(ROWS, dtype=int)),
}


def sealed_file(folder, name=HOLDOUT_FILE):
    return next(folder.glob(f"study.rows/*/{name}"))


def replace_with_other_rows(path):
    other = path.with_name("other.parquet")
    with duckdb.connect() as writer:
        writer.execute(f"COPY (SELECT 1000.0 AS delay, 'AA' AS carrier, 1 AS late FROM range({ROWS})) TO '{other}'")
    other.replace(path)


def change_a_byte(path):
    path.chmod(0o600)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    before = path.stat()
    path.write_bytes(bytes(content))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # the time of change stays true


DEEDS = {"replaced": replace_with_other_rows, "changed": change_a_byte, "deleted": lambda path: path.unlink()}


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("query", QUERIES)
def test_a_sealed_file_that_was_replaced_after_opening_is_found(tmp_path, deed, query):
    with create(tmp_path, mechanism="gaussian", queries=5) as holdout:
        holdout.ask("delay > 0")
        holdout.ask(error(np.ones(ROWS, dtype=int)))  # the label is in memory now
        DEEDS[deed](sealed_file(tmp_path))
        for _ in range(2):
            with pytest.raises(IntegrityError, match="sealed holdout rows"):
                holdout.ask(QUERIES[query]())
        assert holdout.status()["charged"] == 2


def test_a_file_that_is_swapped_while_it_is_read_is_found(tmp_path):
    with create(tmp_path, mechanism="gaussian", queries=5, training=None) as holdout:
        path = sealed_file(tmp_path)
        shutil.copy2(path, path.with_name("kept.parquet"))

        def swap(table):
            if len(table["late"]) == ROWS:  # sealed rows: everything looks as before then, but for the times
                replace_with_other_rows(path)
                path.with_name("kept.parquet").replace(path)
            return table["late"] > 0

        with pytest.raises(IntegrityError, match="changed while it was read"):
            holdout.ask(mean(swap))
        assert holdout.status()["charged"] == 0


def test_replaced_training_rows_are_found_too(tmp_path):
    with create(tmp_path) as holdout:
        replace_with_other_rows(sealed_file(tmp_path, TRAINING_FILE))
        with pytest.raises(IntegrityError, match="sealed training rows"):
            holdout.ask("delay > 0")
        assert holdout.status()["queries_asked"] == 0


def test_a_backup_that_only_touches_the_file_is_no_fault(tmp_path):
    with create(tmp_path, mechanism="gaussian", queries=5) as holdout:
        path = sealed_file(tmp_path)
        holdout.ask("delay > 0")
        os.link(path, tmp_path / "link")
        os.utime(path)
        assert holdout.ask("delay > 1").charged == 1
        shutil.copy2(path, tmp_path / "copy")
        (tmp_path / "copy").replace(path)
        assert holdout.ask("delay > 2").charged == 1
