"""Cost of one query of embedded rows as rows and queries grow, in seconds of the processors.

The time is the processors' (of all threads), so it says what has to be bought, and other work on the machine matters
little. Peak is what the process held while that query was looked at. ``EVERHOLD_BENCH_ROWS`` is the largest table;
it and the smaller ones are made once (`benchmarks.engines`). `docs/growth_picture.py` draws ``benchmarks/growth.json``,
which this writes.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.engines import made_rows
from benchmarks.timing import seconds
from everhold.sealing.rows.embedded import Embedded
from everhold.sealing.rows.table import ColumnStore, EmbeddedRows
from everhold.values.evaluation import UNIT
from everhold.values.expressions import ColumnKind, RowValue, parse

__all__ = ["measure"]

_KINDS = {"late": ColumnKind.BOOLEAN, "delay": ColumnKind.NUMBER, "distance": ColumnKind.NUMBER}
_MANY = (1, 8, 64)
_FEWER_FROM = 100_000_000  # rows; from there on one query, once
_PICTURE = Path(__file__).with_suffix(".json")


def measure() -> list[dict[str, Any]]:
    """One line for each size of the table and number of queries."""
    largest = int(float(os.environ.get("EVERHOLD_BENCH_ROWS", "1e7")))
    sizes = [rows for rows in (10**place for place in range(5, 11)) if rows <= largest]
    lines = [_line(rows, many) for rows in sizes for many in (_MANY if rows < _FEWER_FROM else _MANY[:1])]
    _PICTURE.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
    return lines


def _line(rows: int, many: int) -> dict[str, Any]:
    engine = Embedded(made_rows(rows))
    values = [RowValue(parse(f"delay > {level} and late", _KINDS)) for level in range(many)]
    evaluator = EmbeddedRows(ColumnStore(engine.arrays, engine.source, rows), rows)
    evaluator.totals(values[:1], unit=UNIT)
    _forget_peak()
    used, elapsed = list[float](), list[float]()
    for _ in range(1 if rows >= _FEWER_FROM else 5):
        before = time.process_time()
        elapsed.append(seconds(lambda: evaluator.totals(values, unit=UNIT)))
        used.append(time.process_time() - before)
    evaluator.close()
    engine.close()
    spent = statistics.median(used)
    return {
        "rows": rows, "queries": many, "processor s": spent, "elapsed s": statistics.median(elapsed),
        "ns a row and query": 1e9 * spent / rows / many, "peak MB": _peak(),
    }  # fmt: skip


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024
