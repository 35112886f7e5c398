"""Rows of a result as a Parquet file."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """All names, in the order in which they first appear."""
    return list(dict.fromkeys(name for row in rows for name in row))


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as Parquet; a column is of truth values, whole numbers, numbers or text, lists become JSON text."""
    if not rows:
        raise ValueError("there are no rows to write; expected at least one")
    types = {name: _column_type([row.get(name) for row in rows]) for name in columns_of(rows)}
    lines = (json.dumps({name: _cell(row.get(name), kind) for name, kind in types.items()}) for row in rows)
    part = path.with_name(f"{path.name}.part")
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as database:
        source = Path(folder) / "rows.jsonl"
        source.write_text("\n".join(lines) + "\n", encoding="utf-8")
        read = database.read_json(str(source), columns=types, format="newline_delimited")
        read.write_parquet(str(part))
    part.replace(path)


def _column_type(values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= {bool}:
        return "BOOLEAN"
    if kinds and kinds <= {int}:
        return "BIGINT"
    return "DOUBLE" if kinds and kinds <= {int, float} else "VARCHAR"


def _cell(value: Any, kind: str) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number, DuckDB reads it from its name
    if kind == "VARCHAR" and value is not None and not isinstance(value, str):
        return json.dumps(value)
    return value
