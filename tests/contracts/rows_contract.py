"""What every engine has to give: the integers of the embedded one on the same rows, element by element.

::

    class TestMine(RowsContract):
        @pytest.fixture
        def engine(self):
            yield Mine(table_of(columns_of_rows()))
"""

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everhold import QueryRejected, accuracy, brier, difference, mean
from everhold.sealing import sums, table
from everhold.sealing.engines.embedded import Embedded
from everhold.sealing.table import StoredRows
from everhold.values.base import BoundQuery, Pair, Schema
from everhold.values.expressions import ColumnKind

ROWS = 2_000
UNITS = [256, 2**20, 2**30]
KINDS = {
    "id": ColumnKind.NUMBER, "x": ColumnKind.NUMBER, "share": ColumnKind.NUMBER, "late": ColumnKind.NUMBER,
    "kind": ColumnKind.STRING, "patient": ColumnKind.NUMBER,
}  # fmt: skip
SCHEMA = Schema(ROWS, 0, KINDS, label="late", label_kind="binary", row_id="id")
TEXTS = [
    mean("x > 0"), mean("x", low=-60, high=180), mean("share * share", low=0, high=1), mean("kind = 'ü' or x is null"),
    mean("late = 1 and share > 0.25"), mean("x / share", low=-1e9, high=1e9),
]  # fmt: skip


def columns_of_rows(rows=ROWS):
    """Numbers with what is missing or out of range, groups of many sizes, a label; ids beyond 2^53, in no order."""
    rng = np.random.default_rng(15)
    x = rng.normal(0.0, 50.0, rows)
    x[:8] = [np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, -0.0, 5e-324]
    return {
        "id": rng.permutation(rows) * 3 + 10**17,
        "x": x,
        "share": rng.random(rows),
        "late": rng.integers(0, 2, rows),
        "kind": rng.choice(np.array(["a", "b", "ü"]), rows),
        "patient": rng.integers(0, 40, rows) ** 2 // 7,
    }


def asked(*queries):
    return [query.bind(SCHEMA) for query in queries]


def joined(how, first, second):
    """Two questions as one, as their makers bind it."""
    pair = Pair(how, *asked(first, second))
    return BoundQuery({}, how, pair=pair)


def same(one, other):
    """Whether two things that procedures are shown are equal, element by element."""
    return type(one) is type(other) and all(
        np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in dataclasses.fields(one)
    )


class RowsContract:
    """Inherit it, with a fixture `engine` on a table of `columns_of_rows`."""

    @pytest.fixture
    def there(self, engine):
        return StoredRows(engine, rows=ROWS, columns=(*KINDS,), sealed=True, label="late", row_id="id")

    @pytest.fixture(scope="class")
    @classmethod
    def here(cls, tmp_path_factory):
        """The embedded engine on the same rows, in the order of their ids."""
        path = tmp_path_factory.mktemp("here") / "rows.parquet"
        pq.write_table(pa.table(columns_of_rows()).sort_by("id"), path)
        stored = StoredRows(Embedded(path), rows=ROWS, columns=(*KINDS,), sealed=True, label="late", row_id="id")
        yield stored
        stored.close()

    def test_columns_are_known_by_kind(self, engine):
        assert engine.columns() == KINDS
        assert engine.kind
        assert not engine.embedded
        assert engine.path is None

    @pytest.mark.parametrize("unit", UNITS)
    def test_totals_are_the_same_integers(self, here, there, unit):
        drifting = mean("share + x / 90", low=0, high=1)
        bound = [
            *asked(*TEXTS, difference(TEXTS[2], drifting), difference("x > 9", "share > 0.5")),
            joined("within", TEXTS[2], TEXTS[1]),
        ]  # fmt: skip
        assert np.array_equal(there.totals(bound, unit=unit), here.totals(bound, unit=unit))

    def test_a_batch_takes_no_more_statements_than_it_has_to(self, here, there, monkeypatch):
        ran, plain = [], StoredRows._fetch
        monkeypatch.setattr(StoredRows, "_fetch", lambda *of, **how: ran.append(1) or plain(*of, **how))
        bound = asked(*(mean(f"share > {k / 150}") for k in range(150)))
        totals = there.totals(bound)
        assert len(ran) == -(-150 // there.engine.most_expressions)
        assert np.array_equal(totals, here.totals(bound))

    @pytest.mark.parametrize("parts", [2, 7])
    def test_parts_follow_the_row_ids(self, here, there, parts):
        bound = asked(*TEXTS)
        assert np.array_equal(there.totals(bound, parts=parts), here.totals(bound, parts=parts))

    @pytest.mark.parametrize("unit", UNITS)
    @pytest.mark.parametrize("most_kinds", [2**20, 20], ids=["told apart", "in cells"])
    def test_procedures_are_shown_the_same(self, here, there, unit, most_kinds, monkeypatch):
        monkeypatch.setattr(sums, "MOST_KINDS", most_kinds)
        means, ratio = asked(*TEXTS), joined("ratio", TEXTS[2], TEXTS[1])
        yes_no = joined("ratio", TEXTS[4], TEXTS[0])
        bound = [*means, *means, joined("difference", TEXTS[1], TEXTS[2]), ratio, ratio, yes_no, yes_no]
        needs = ["cells"] * 6 + ["groups"] * 6 + ["cells", "pairs", "group_pairs", "pairs", "group_pairs"]
        found, expected = (stored.look(bound, needs, group_by="patient", unit=unit) for stored in (there, here))
        assert np.array_equal(found[0], expected[0])
        assert all(same(one, other) for one, other in zip(found[1], expected[1], strict=True))
        counted = [int(np.sum(expected[1][place].counts)) for place in (0, 6, 13)]
        assert counted[0] == counted[2] == ROWS

    def test_code_meets_the_rows_in_the_order_of_their_ids(self, here, there):
        shares = columns_of_rows()["share"][np.argsort(columns_of_rows()["id"])]
        bound = asked(mean(lambda rows: np.where(rows["x"] > 0, rows["share"], 0.25)), brier(shares),
                      accuracy((shares > 0.5).astype(int)))  # fmt: skip
        assert np.array_equal(there.totals(bound), here.totals(bound))
        mixed = [joined("difference", mean(lambda rows: rows["share"]), TEXTS[1])]
        (seen,), (expected,) = (stored.look(mixed, ["cells"])[1] for stored in (there, here))
        assert same(seen, expected)
        assert all(np.array_equal(there.table([name])[name], here.table([name])[name], equal_nan=name != "kind")
                   for name in ("x", "kind", "late"))  # fmt: skip

    def test_row_ids_are_exact(self, here, there):
        ids = there.row_ids("id")
        assert ids == here.row_ids("id") == sorted(columns_of_rows()["id"].tolist())
        assert all(type(one) is int for one in ids)

    def test_without_row_ids_there_is_no_order(self, engine):
        stored = StoredRows(engine, rows=ROWS, columns=(*KINDS,), sealed=True, label="late")
        for refused in (lambda: stored.totals(asked(TEXTS[0]), parts=2), lambda: stored.table(["x"])):
            with pytest.raises(QueryRejected, match=r"expected a holdout .* row_id.*nothing was charged"):
                refused()
        assert stored.totals(asked(TEXTS[0])).tolist() > [[0]]

    def test_no_more_than_a_public_number_of_cells_is_read(self, engine, monkeypatch):
        monkeypatch.setattr(table, "MOST_CELLS", 2 * ROWS)
        stored = StoredRows(engine, rows=ROWS, columns=(*KINDS,), sealed=True, label="late", row_id="id")
        stored.table(["x", "share"])
        ran, plain = [], StoredRows._fetch
        monkeypatch.setattr(StoredRows, "_fetch", lambda *of, **how: ran.append(1) or plain(*of, **how))
        with pytest.raises(QueryRejected, match=r"3 columns of 2,000 rows.*at most 4,000 cells.*nothing was charged"):
            stored.table(["late", "kind", "patient"])
        assert ran == []
        stored.table(["late", "kind"])
        assert set(stored._arrays) == {"late", "kind"}  # memory stays below the number, too
