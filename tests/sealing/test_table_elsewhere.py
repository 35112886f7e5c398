"""Rows in an engine that is not the embedded one: it counts itself, says nothing of its own, and can be interrupted."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from contracts.rows_contract import RowsContract, columns_of_rows
from contracts.second_engine import SecondEngine


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("elsewhere") / "rows.parquet"
    pq.write_table(pa.table(columns_of_rows()), path)
    return path


class TestSecondEngine(RowsContract):
    @pytest.fixture
    def engine(self, path):
        engine = SecondEngine(path)
        yield engine
        engine.close()
