"""The mean of a Python function, for analysts who are trusted with code."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from everhold.arguments import brief, is_text
from everhold.errors import QueryRejected
from everhold.questions.identity import content_digest
from everhold.questions.means import Query
from everhold.values.base import BoundQuery, RowFunction, Schema

__all__ = ["StatisticalQuery"]

_LONGEST_NAME = 1_000


@dataclass(frozen=True, slots=True)
class StatisticalQuery(Query):
    """The mean over rows of a function; made by `mean`, which says what the attributes are."""

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
