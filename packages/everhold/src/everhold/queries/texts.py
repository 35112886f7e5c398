"""Text expressions of analysts: how they are read, and how they are shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from everhold.errors import QueryRejected
from everhold.values.expressions import parse

if TYPE_CHECKING:
    from everhold.values.base import Schema
    from everhold.values.expressions import Expression

__all__ = ["in_one_line", "parsed"]

_QUOTED_OR_SPACE = re.compile(r"""('[^']*'|"[^"]*")|\s+""")


def parsed(text: str, schema: Schema) -> Expression:
    """A text expression over the columns of a holdout, without the row ids.

    Raises:
        QueryRejected: If it is none, or reads the row ids. Nothing is charged.
    """
    expression = parse(text, schema.columns)
    if schema.row_id in expression.columns():
        raise QueryRejected(
            f"the question reads {schema.row_id!r}, the column of row ids; expected a question about other columns: "
            "ids are public and name these very rows, so that no answer to it is about others; nothing was charged"
        )
    return expression


def in_one_line(text: str) -> str:
    """An expression as people read it: with single spaces, except in what is quoted."""
    return _QUOTED_OR_SPACE.sub(lambda found: found[1] or " ", text).strip()
