"""A second DuckDB behind the protocol of engines, for tests of whatever does not care which engine it is."""

import hashlib
import re
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import numpy as np
import pytest

from everhold.errors import HoldoutRejected, Unavailable
from everhold.sealing.intake.duckdb_files import column_kinds
from everhold.sealing.rows.embedded import errors_hidden
from everhold.sealing.rows.row_store import TABLES
from everhold.values.expressions.tree import quoted
from everhold_engines import tables
from everhold_engines.conformance import Conformance
from everhold_engines.remote import Sealable
from everhold_engines.sql.dialects import DUCKDB

SCHEME = "pond"
PASSWORD = "swordfish"
_HIDDEN = errors_hidden(lambda _: Unavailable("The pond cannot be reached. Nothing was charged, so try again."))


@pytest.fixture(autouse=True)
def tried_before(monkeypatch):
    """What a pond makes of made-up rows is known, and takes seconds to find out again."""
    monkeypatch.setattr(tables, "conformance", lambda engine: Conformance(engine.kind, 1, 1, ()))


def served(monkeypatch):
    """Let addresses such as ``pond://user:password@/folder/file.db`` name tables of DuckDB files."""
    monkeypatch.setitem(TABLES.own, SCHEME, "pond_samples:Pond")


class Pond(Sealable):
    """A table of a DuckDB file; a new connection for each statement, so that others may write to it in between."""

    kind = "pond"
    title = "Pond"
    most_expressions = 16

    def __init__(self, file, table, *, password=None):
        self.file, self.table, self._password = Path(file), table, password
        self.statements = []

    @classmethod
    def from_url(cls, url, table):
        parts = urlsplit(url)
        if parts.password not in (None, PASSWORD):
            raise Unavailable("The pond does not accept you. Check user and password.")
        return cls(parts.path, table, password=parts.password)

    def __repr__(self):
        return f"Pond({self.table!r})"

    dialect = DUCKDB

    @property
    def source(self):
        return quoted(self.table)

    def columns(self):
        with self._connected() as connection:
            try:
                return column_kinds(connection.table(self.source))
            except duckdb.Error:
                raise HoldoutRejected(f"There is no table {self.table!r}. Check its name.") from None

    def beside(self, table):
        other = type(self)(self.file, table, password=self._password)
        other.statements = self.statements
        return other

    def rows(self, statement):
        self.statements.append(statement)
        with _HIDDEN, self._connected() as connection:
            return connection.execute(statement).fetchall()

    def arrays(self, statement):
        self.statements.append(statement)
        with _HIDDEN, self._connected() as connection:
            found = connection.execute(statement).fetchnumpy()
        return {name: _as_agreed(column) for name, column in found.items()}

    def batches(self, statement):
        whole = self.arrays(statement)
        length = len(next(iter(whole.values())))
        for start in range(0, max(length, 1), 1_000):
            yield {name: column[start : start + 1_000] for name, column in whole.items()}

    def reading(self):
        return nullcontext()

    def contents(self, key=""):
        columns = self.columns()
        cells = " || ".join(f"coalesce(hex({quoted(name)}::VARCHAR), '-') || ','" for name in columns)
        total = f"sum(('0x' || left(sha256('{key}' || {cells}), 15))::BIGINT::HUGEINT)"
        ((count, digest),) = self.rows(f"SELECT count(*), {total} FROM {self.source}")
        return hashlib.sha256(f"{list(columns)}:{count}:{digest}".encode()).hexdigest()

    def to_dict(self):
        return {"kind": self.kind, "table": self.table, "place": f"pond://{self.file}", "snapshot": None}

    def pinned(self, facts):
        return self

    def interrupt(self):
        """Nothing runs for long."""

    def close(self):
        """Nothing stays open."""

    def _connected(self):
        if not self.file.is_file():
            raise Unavailable("The pond is not there. Nothing was charged, so try again.")
        connection = duckdb.connect(str(self.file), config={"threads": "1"})
        names = [name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
        connection.execute(f"SET disabled_optimizers = '{','.join(names)}'")  # one of them drops the test for nan
        return connection


def _as_agreed(column):
    if column.dtype.kind == "M":
        return column.astype("datetime64[us]")
    return column.astype(np.int64) if column.dtype.kind in "iu" else column


def poured(file, table, frame):
    """A pond with a table that holds the rows of a frame."""
    with duckdb.connect(str(file)) as connection:
        connection.register("frame", frame)
        connection.execute(f"CREATE OR REPLACE TABLE {quoted(table)} AS SELECT * FROM frame")
    return Pond(file, table)


def stirred(pond, *statements):
    """Change the file of a pond behind everhold's back."""
    with duckdb.connect(str(pond.file)) as connection:
        for statement in statements:
            connection.execute(statement)


def secrets_in(text):
    """Whether a password of a pond is in a text."""
    return re.search(PASSWORD, text) is not None
