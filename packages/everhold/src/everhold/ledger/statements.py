"""Statements on the entries and the head of one holdout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, insert, literal_column, select, update
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from everhold.ledger.chain import HASHED
from everhold.ledger.database import entries, head

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler

__all__ = ["ANSWERED", "BEGINNING", "CHARGED", "HEAD", "INSERT", "MOVE_HEAD", "PAGE"]


class _Listed(GenericFunction[str]):
    """The elements of a JSON array: one statement, however many there are."""

    name = "json_each"
    inherit_cache = True


@compiles(_Listed, "postgresql")
def _listed_by_postgres(element: _Listed, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_array_elements_text(CAST({compiler.process(element.clause_expr, **options)} AS JSON))"


_OF_HOLDOUT = entries.c.holdout_id == bindparam("holdout")
_ENTRIES = select(entries.c.holdout_id, *(entries.c[name] for name in (*HASHED, "entry_hash", "entry_seal")))
PAGE = (
    _ENTRIES.where(_OF_HOLDOUT, entries.c.sequence > bindparam("after"))
    .order_by(entries.c.sequence)
    .limit(bindparam("size"))
)
_WANTED = _Listed(bindparam("questions")).table_valued("value")
ANSWERED = _ENTRIES.where(_OF_HOLDOUT, entries.c.question.in_(select(_WANTED.c.value)))
CHARGED = (
    _ENTRIES.where(_OF_HOLDOUT, entries.c.charged > literal_column("0"))  # as the index of these entries says it
    .order_by(entries.c.sequence.desc())
    .limit(bindparam("size"))
)
BEGINNING = _ENTRIES.where(  # whatever follows is a hexadecimal digit
    _OF_HOLDOUT, entries.c.question >= bindparam("first"), entries.c.question < bindparam("end")
)
HEAD = select(head).where(head.c.holdout_id == bindparam("holdout"))
INSERT = insert(entries)
MOVE_HEAD = update(head).where(
    head.c.holdout_id == bindparam("holdout"),
    head.c.sequence == bindparam("from_sequence"),
    head.c.entry_hash == bindparam("from_hash"),
)
