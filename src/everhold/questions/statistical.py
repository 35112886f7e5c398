"""Questions as Python functions, for analysts who are trusted with code."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from everhold.arguments import brief, is_text
from everhold.errors import QueryRejected
from everhold.questions.identity import content_digest
from everhold.values.base import BoundQuery, Query, RowFunction, Schema

__all__ = ["StatisticalQuery"]

_LONGEST_NAME = 1_000


@dataclass(frozen=True, slots=True)
class StatisticalQuery(Query):
    """The mean over rows of a vectorised function.

    The function gets a `Table` (columns by name, NumPy arrays) and returns one value in [0, 1] per row. Each value must
    be computed from its own row alone: a function that looks across rows is not a statistical query, and no promise
    holds for it. Before it meets sealed rows it is tried on the training rows (without a training set on rows of zeros
    and of ones), where every fault is reported. On sealed rows faults are never reported, because a report would be a
    free answer: nan counts as 0, values are clipped, and a row on which the function fails counts as 0.

    Attributes:
        function: From a table to one value in [0, 1] per row.
        name: Functions of one name that are made of the same code and data, and give the same for public rows, are one
            question (`everhold.questions.identity`). Without a name every new object is a new question.

    Examples:
        >>> late = StatisticalQuery(lambda table: table["arr_delay"] > 15, name="late")
    """

    function: RowFunction
    name: str | None = None
    _token: str = field(default_factory=lambda: secrets.token_hex(16), init=False, repr=False)

    def bind(self, schema: Schema) -> BoundQuery:
        """The function, for sealed and training rows alike."""
        if self.name is not None and not is_text(self.name, longest=_LONGEST_NAME):
            raise QueryRejected(
                f"name is {brief(self.name)}; expected a text of at most {_LONGEST_NAME:,} characters, or None; "
                "nothing was charged"
            )
        identity = {"token": self._token} if self.name is None else {"name": self.name}
        content = content_digest(self.function) or self._token
        return BoundQuery(
            description={"kind": "function", **identity, "content": content},
            shown=f"mean of the function {self.name or 'without a name'}",
            sealed=self.function,
            training=self.function,
            reads=tuple(schema.asked),
        )
