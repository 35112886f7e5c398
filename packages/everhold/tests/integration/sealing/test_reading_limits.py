"""What unpacks to more than a machine holds is refused before it is read."""

import gzip
import time
import tracemalloc

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everhold.errors import HoldoutRejected
from everhold.sealing.intake.files import seal_rows
from everhold.sealing.intake.reading import MOST_COLUMNS, MOST_ROWS
from everhold.sealing.intake.request import Rows, SealRequest


def seal(folder, source, **wanted):
    (folder / "sealed").mkdir()
    return seal_rows(folder / "sealed", SealRequest(holdout=source, rows=Rows(**wanted)))


def rows_bomb(folder):
    with duckdb.connect() as writer:
        writer.execute(f"COPY (SELECT 1 AS x FROM range(100000000)) TO '{folder}/rows.parquet' (COMPRESSION zstd)")
    assert (folder / "rows.parquet").stat().st_size < 2**20
    return folder / "rows.parquet"


def packed_bomb(folder):
    with gzip.open(folder / "rows.csv.gz", "wb", compresslevel=1) as file:
        file.write(b"x\n")
        for _ in range(100):
            file.write(b"1\n" * 10**6)
    return folder / "rows.csv.gz"


def line_bomb(folder):
    with gzip.open(folder / "rows.csv.gz", "wb", compresslevel=1) as file:
        for _ in range(500):
            file.write(b"1" * 10**6)
    return folder / "rows.csv.gz"


def wide_text(folder):
    names = [f"c{number}" for number in range(100_000)]
    (folder / "rows.csv").write_text(",".join(names) + "\n" + ",".join("1" * len(names)) + "\n")
    return folder / "rows.csv"


def wide_parquet(folder):
    pq.write_table(pa.table({f"c{number}": [1] for number in range(MOST_COLUMNS + 1)}), folder / "rows.parquet")
    return folder / "rows.parquet"


BOMBS = {
    "100 million rows of Parquet": (rows_bomb, r"100,000,000 rows or more, above the limit of 67,108,864"),
    "100 million rows of packed CSV": (packed_bomb, r"rows or more, above the limit of 67,108,864"),
    "one endless line": (line_bomb, "longer than 4 MiB"),
    "100,000 columns of CSV": (wide_text, "100,000 columns, more than the limit of 16,384"),
    "columns of Parquet": (wide_parquet, "16,385 columns, more than the limit of 16,384"),
    "100,000 arrays": (lambda _: {str(name): [1] for name in range(100_000)}, "100,000 columns, more than the limit"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_fails_early_with_a_limit_that_is_named(tmp_path, bomb):
    make, message = BOMBS[bomb]
    source = make(tmp_path)
    tracemalloc.start()
    begin = time.process_time()
    with pytest.raises(HoldoutRejected, match=message):
        seal(tmp_path, source)
    used, peak = time.process_time() - begin, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < 5.0  # alone about one second
    assert peak < 100 * 2**20
    assert list((tmp_path / "sealed").iterdir()) == []


def test_the_limit_of_rows_can_be_raised_and_lowered(tmp_path):
    assert MOST_ROWS == 2**26
    rows = {"x": np.arange(11)}
    with pytest.raises(HoldoutRejected, match=r"11 rows or more, above the limit of 10.*raise most_rows"):
        seal(tmp_path, rows, most_rows=10)
    (tmp_path / "sealed" / "holdout.parquet").unlink()
    (tmp_path / "sealed").rmdir()
    assert seal(tmp_path, rows, most_rows=11).rows == 11
