"""What every SQL engine has to give besides the contract of `everhold.testing.rows`.

::

    class TestMine(EngineContract):
        @pytest.fixture
        def engine(self):
            yield Mine(table_of(columns_of_rows()))
"""

import numpy as np
import pytest

from everhold import QueryRejected, mean
from everhold.testing.rows import KINDS, ROWS, RowsContract, asked, columns_of_rows, joined
from everhold_engines import remote_rows
from everhold_engines.remote_rows import RemoteRows

__all__ = ["ROWS", "EngineContract", "asked", "columns_of_rows", "joined"]


class EngineContract(RowsContract):
    """Inherit it, with a fixture `engine` on a table of `columns_of_rows`."""

    @pytest.fixture
    def table(self, engine):
        return engine

    def test_columns_are_known_by_kind(self, engine):
        assert engine.columns() == KINDS

    def test_a_batch_takes_no_more_statements_than_it_has_to(self, here, there, monkeypatch):
        ran, plain = [], RemoteRows._fetch
        monkeypatch.setattr(RemoteRows, "_fetch", lambda *of: ran.append(1) or plain(*of))
        bound = asked(*(mean(f"share > {k / 150}") for k in range(150)))
        totals = there.totals(bound)
        assert len(ran) == -(-150 // there.engine.most_expressions)
        assert np.array_equal(totals, here.totals(bound))

    def test_without_row_ids_there_is_no_order(self, store):
        stored = store(row_id=None)
        for refused in (lambda: stored.totals(asked(mean("x > 0")), parts=2), lambda: stored.table(["x"])):
            with pytest.raises(QueryRejected, match=r"Use a holdout .* row_id"):
                refused()
        assert stored.totals(asked(mean("x > 0"))).tolist() > [[0]]

    def test_no_more_than_a_public_number_of_cells_is_read(self, store, monkeypatch):
        monkeypatch.setattr(remote_rows, "MOST_CELLS", 2 * ROWS)
        stored = store()
        stored.table(["x", "share"])
        ran, plain = [], RemoteRows._fetch_arrays
        monkeypatch.setattr(RemoteRows, "_fetch_arrays", lambda *of: ran.append(1) or plain(*of))
        with pytest.raises(QueryRejected, match=r"3 columns of 2,000 rows.*limit of 4,000 values"):
            stored.table(["late", "kind", "patient"])
        assert ran == []
        stored.table(["late", "kind"])
        assert set(stored._arrays) == {"late", "kind"}  # memory stays below the number, too
        assert set(stored.table(["kind", "x"])) == {"kind", "x"}  # one is known, and makes room for itself
