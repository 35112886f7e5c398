"""Contract of a row store: the same integers as for the rows in a file, element by element.

An extension inherits it, on a table with the rows of `columns_of_rows`::

    class TestMine(RowsContract):
        @pytest.fixture
        def table(self):
            yield MyTable(filled_with(columns_of_rows()))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everhold import accuracy, brier, difference, mean
from everhold.sealing.rows import sums
from everhold.sealing.rows.embedded import Embedded
from everhold.sealing.rows.evaluated_rows import RowStore
from everhold.sealing.rows.row_store import SealableTable, is_table
from everhold.sealing.rows.table import StoredRows
from everhold.values.base import BoundQuery, Pair, Schema
from everhold.values.expressions import ColumnKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.query import RowwiseQuery

ROWS = 2_000
KINDS = {
    "id": ColumnKind.NUMBER, "x": ColumnKind.NUMBER, "share": ColumnKind.NUMBER, "late": ColumnKind.NUMBER,
    "kind": ColumnKind.STRING, "patient": ColumnKind.NUMBER,
}  # fmt: skip
"""Columns of the table, by name."""
SCHEMA = Schema(ROWS, 0, KINDS, label="late", label_kind="binary", row_id="id")
_UNITS = [256, 2**20, 2**30]
_ORDER_KEY = bytes(range(32))
_TEXTS = [
    mean("x > 0"), mean("x", low=-60, high=180), mean("share * share", low=0, high=1), mean("kind = 'ü' or x is null"),
    mean("late = 1 and share > 0.25"), mean("x / share", low=-1e9, high=1e9),
]  # fmt: skip


def columns_of_rows(rows: int = ROWS) -> dict[str, NDArray[Any]]:
    """Return columns with missing and infinite numbers, groups of many sizes, a label and unordered large ids."""
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


def asked(*queries: RowwiseQuery) -> list[BoundQuery]:
    """Return queries bound to the rows."""
    return [query.bind(SCHEMA) for query in queries]


def joined(
    how: Literal["difference", "within", "outside", "ratio"], first: RowwiseQuery, second: RowwiseQuery
) -> BoundQuery:
    """Return two queries combined into one, as query classes bind such a pair."""
    one, other = asked(first, second)
    return BoundQuery({}, how, pair=Pair(how, one, other))


def _same(one: object, other: object) -> bool:
    """Return whether two statistics are equal, element by element."""
    return type(one) is type(other) and all(
        np.array_equal(getattr(one, field.name), getattr(other, field.name))
        for field in dataclasses.fields(one)  # type: ignore[arg-type]  # statistics are dataclasses
    )


class RowsContract:
    """Contract suite of a row store. Needs a fixture ``table``: a `SealableTable` of `columns_of_rows`."""

    @pytest.fixture
    def store(self, table: SealableTable) -> Callable[..., RowStore]:
        """Return the function that opens the sealed rows, with changes to the schema as arguments."""

        def of(**changes: Any) -> RowStore:
            return table.sealed_rows(dataclasses.replace(SCHEMA, **changes), order_key=_ORDER_KEY)

        return of

    @pytest.fixture
    def there(self, store: Callable[..., RowStore]) -> RowStore:
        """Return the store of the extension."""
        return store()

    @pytest.fixture(scope="class")
    @classmethod
    def here(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RowStore]:
        """Yield a reference store: the same rows in a file, in the order of their ids."""
        path = tmp_path_factory.mktemp("here") / "rows.parquet"
        pq.write_table(pa.table(columns_of_rows()).sort_by("id"), path)
        stored = StoredRows(Embedded(path), SCHEMA, rows=ROWS, sealed=True, order_key=_ORDER_KEY)
        yield stored
        stored.close()

    def test_the_table_is_recognised_and_known_again_by_public_facts(self, table: SealableTable) -> None:
        """A table is sealable, and its facts are texts that name its kind."""
        assert is_table(table)
        facts = table.to_dict()
        assert facts["kind"] == table.kind
        assert all(isinstance(facts[name], str) for name in ("kind", "table", "place"))
        assert table.pinned(facts).to_dict() == facts

    @pytest.mark.parametrize("unit", _UNITS)
    def test_totals_are_the_same_integers(self, here: RowStore, there: RowStore, unit: int) -> None:
        """Sums of expressions, differences and pairs are the same integers as for the rows in a file."""
        drifting = mean("share + x / 90", low=0, high=1)
        bound = [
            *asked(*_TEXTS, difference(_TEXTS[2], drifting), difference("x > 9", "share > 0.5")),
            joined("within", _TEXTS[2], _TEXTS[1]),
        ]
        assert np.array_equal(there.totals(bound, unit=unit), here.totals(bound, unit=unit))

    @pytest.mark.parametrize("parts", [2, 7])
    def test_parts_follow_the_row_ids(self, here: RowStore, there: RowStore, parts: int) -> None:
        """Row i by row ids belongs to part i modulo the number of parts."""
        bound = asked(*_TEXTS)
        assert np.array_equal(there.totals(bound, parts=parts), here.totals(bound, parts=parts))

    @pytest.mark.parametrize("unit", _UNITS)
    @pytest.mark.parametrize("most_kinds", [2**20, 20], ids=["told apart", "in cells"])
    def test_procedures_are_shown_the_same(
        self, here: RowStore, there: RowStore, unit: int, most_kinds: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Histograms, sums of groups and pairs of ratios, counted one by one or in cells, are those of the file."""
        monkeypatch.setattr(sums, "MOST_KINDS", most_kinds)
        means, ratio = asked(*_TEXTS), joined("ratio", _TEXTS[2], _TEXTS[1])
        yes_no = joined("ratio", _TEXTS[4], _TEXTS[0])
        among_some = joined("ratio", _TEXTS[2], _TEXTS[0])
        bound = [*means, *means, joined("difference", _TEXTS[1], _TEXTS[2]), ratio, ratio, yes_no, yes_no, among_some]
        needs: list[Any] = ["cells"] * 6 + ["groups"] * 6 + ["cells", *["pairs", "group_pairs"] * 2, "pairs"]
        found, expected = (stored.evaluate(bound, needs, group_by="patient", unit=unit) for stored in (there, here))
        assert np.array_equal(found[0], expected[0])
        assert all(_same(one, other) for one, other in zip(found[1], expected[1], strict=True))
        counted = [int(np.sum(expected[1][place].counts)) for place in (0, 6, 13)]
        assert counted[0] == counted[2] == ROWS

    def test_code_meets_the_rows_in_the_order_of_their_ids(self, here: RowStore, there: RowStore) -> None:
        """Functions, arrays of predictions, columns and row values get the rows in the order of their ids."""
        shares = columns_of_rows()["share"][np.argsort(columns_of_rows()["id"])]
        bound = asked(
            mean(lambda rows: np.where(rows["x"] > 0, rows["share"], 0.25)),
            brier(shares),
            accuracy((shares > 0.5).astype(int)),
        )
        assert np.array_equal(there.totals(bound), here.totals(bound))
        assert np.array_equal(there.row_values(bound[0]), here.row_values(bound[0]))
        mixed = [joined("difference", mean(lambda rows: rows["share"]), _TEXTS[1])]
        (seen,), (expected,) = (stored.evaluate(mixed, ["cells"])[1] for stored in (there, here))
        assert _same(seen, expected)
        for name in ("x", "kind", "late"):
            found, other = there.table([name])[name], here.table([name])[name]
            met, other_met = there.code.table([name])[name], here.code.table([name])[name]
            assert np.array_equal(found, other, equal_nan=name != "kind")
            assert np.array_equal(met, other_met, equal_nan=name != "kind")
            assert not found.flags.writeable
            assert not met.flags.writeable

    def test_code_meets_the_rows_in_the_secret_order(self, there: RowStore) -> None:
        """A function that tells the position of a row learns nothing, because rows come in a secret order."""
        values = there.code.values(lambda rows: np.arange(len(rows["x"])) / ROWS, ["x"])
        assert sorted(values.tolist()) == (np.arange(ROWS) / ROWS).tolist()
        assert not np.array_equal(values, np.sort(values))

    def test_row_values_that_are_known_are_summarised_alike(self, here: RowStore, there: RowStore) -> None:
        """Statistics of row values that the caller has computed are the same as for the rows in a file."""
        grid = here.row_values(asked(_TEXTS[2])[0])
        for need in ("total", "cells", "groups"):
            found, expected = (stored.summary(need, grid, group_by="patient") for stored in (there, here))
            assert found[0] == expected[0]
            assert need == "total" or _same(found[1], expected[1])

    def test_row_ids_are_exact(self, here: RowStore, there: RowStore) -> None:
        """Ids beyond 2^53 are whole numbers, in order."""
        ids = there.row_ids("id")
        assert ids == here.row_ids("id") == sorted(columns_of_rows()["id"].tolist())
        assert all(type(one) is int for one in ids)
