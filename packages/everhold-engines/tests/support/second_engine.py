"""An engine that is not the embedded one, for tests: DuckDB on a file without positions, which lists its statements."""

import threading

import numpy as np

from everhold.sealing.intake.duckdb_files import POSITION
from everhold.sealing.rows.embedded import SEALED, Embedded
from everhold_engines.remote import Sealable
from everhold_engines.sql.dialects import DUCKDB


class SecondEngine(Sealable, Embedded):
    """Its rows have no order; whole numbers beyond 64 bits come as ints, as the protocol says."""

    kind = "second"
    title = "a second DuckDB"
    dialect = DUCKDB
    most_expressions = 100

    def __init__(self, path, *, most_expressions=100):
        super().__init__(path)
        self.most_expressions = most_expressions
        self.statements = []
        self.interrupted = threading.Event()

    def beside(self, table):
        raise NotImplementedError

    def to_dict(self):
        return {"kind": self.kind, "table": self.path.name, "place": "second://", "snapshot": None}

    def pinned(self, facts):
        return self

    @property
    def source(self):
        return f"(SELECT * EXCLUDE ({POSITION}) FROM {SEALED})"

    def rows(self, statement):
        self.statements.append(statement)
        return super().rows(statement)

    def arrays(self, statement):
        self.statements.append(statement)
        types = dict(row[:2] for row in super().rows(f"DESCRIBE {statement}"))
        if "HUGEINT" not in types.values():
            return super().arrays(statement)
        columns = zip(*super().rows(statement), strict=True)  # as doubles they would be rounded
        return {name: np.array(column, dtype=object) for name, column in zip(types, columns, strict=True)}

    def interrupt(self):
        self.interrupted.set()
        super().interrupt()
