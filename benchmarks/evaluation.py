"""Evaluating a prepared accuracy query on 1,000,000 sealed rows, beside NumPy's ``mean(predictions == labels)``."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.timing import compare
from everhold import accuracy
from everhold.sealing.configuration import schema_from
from everhold.sealing.intake.files import seal_rows
from everhold.sealing.intake.request import SealRequest
from everhold.sealing.rows.embedded import Embedded
from everhold.sealing.rows.table import StoredRows
from everhold.sealing.storage import HOLDOUT_FILE

ROWS = 1_000_000


def measure() -> list[dict[str, object]]:
    """One line for each type of label; times in milliseconds, target ratio 1.3."""
    return [_line(kind) for kind in (np.int64, np.float64, np.bool_)]


def _line(kind: type[np.generic]) -> dict[str, object]:
    rng = np.random.default_rng(1)
    labels, predictions = (rng.integers(0, 2, ROWS).astype(kind) for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        sealed = seal_rows(Path(folder), SealRequest(holdout={"late": labels}, label="late"))
        schema = schema_from(
            {
                "rows": ROWS, "training_rows": 0, "columns": [["late", sealed.columns["late"].value]],
                "label": "late", "label_kind": sealed.label_kind, "label_classes": None, "row_id": None,
                "features": "sealed",
            }
        )  # fmt: skip
        engine = Embedded(Path(folder) / HOLDOUT_FILE)
        rows = StoredRows(engine, schema, rows=ROWS, sealed=True)
        query = accuracy(predictions).bind(schema)
        times = compare(lambda: rows.totals([query]), lambda: np.mean(predictions == labels), rounds=50)
        rows.close()
    return {
        "labels": kind.__name__,
        "everhold ms": times["ours"] * 1e3,
        "NumPy ms": times["peer"] * 1e3,
        "ratio": times["ratio"],
        "target": 1.3,
    }
