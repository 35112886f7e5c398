"""A Parquet file as everhold evaluates it: read by the locked engine, computed by NumPy."""

from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from everhold.sealing.rows.embedded import SEALED, fetched, locked_connection
from everhold.sealing.rows.table import ColumnStore, EmbeddedRows


@contextmanager
def embedded_rows(table, folder):
    """An evaluator of a file, or of an Arrow table that is written to a folder."""
    path = folder
    if isinstance(table, pa.Table):
        path = folder / "embedded.parquet"
        pq.write_table(table, path, row_group_size=16)
    with locked_connection(path, threads=1) as connection:
        rows = fetched(connection, f"SELECT count(*) FROM {SEALED}")[0][0]
        store = ColumnStore(lambda sql: fetched(connection, sql, as_arrays=True), SEALED, rows)
        yield EmbeddedRows(store, rows)
        store.close()


def grids_of(table, folder, values, unit=2**30):
    """Row values as lists of integers."""
    with embedded_rows(table, folder) as rows:
        return [grid.tolist() for grid in rows.grids(values, unit=unit)]
