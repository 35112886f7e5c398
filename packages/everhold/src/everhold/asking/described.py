"""Descriptions of texts on a holdout that was created without a word about them: their levels, from public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everhold.families.texts import BoundTexts
    from everhold.mechanisms.guess_and_check import GuessAndCheck
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.values.base import BoundQuery

__all__ = ["DescribedTexts"]


@dataclass(frozen=True)
class DescribedTexts:
    """Levels of texts by their description.

    Attributes:
        compiler: What is known of the holdout.
        mechanism: The one that answers.
    """

    compiler: QueryCompiler
    mechanism: GuessAndCheck

    def __call__(self, bound: BoundQuery) -> float | None:
        """ln(1 / level) of a text; None for any other query."""
        nats = self._texts.nats(bound)
        return None if nats is None else self.mechanism.of_text(nats)

    @cached_property
    def _texts(self) -> BoundTexts:
        from everhold.families.texts import BoundTexts

        return BoundTexts(float(self.mechanism.text_bits), _Categories(self.compiler), self.compiler.schema)

    @property
    def most_nats(self) -> float:
        """ln(1 / level) of the longest text."""
        return self.mechanism.of_text(self.mechanism.text_bits * math.log(2.0))


class _Categories(dict[str, tuple[Any, ...]]):
    """Categories of columns, each read from the training rows when it is asked for first."""

    def __init__(self, compiler: QueryCompiler) -> None:
        super().__init__()
        self._compiler = compiler

    def get(self, name: str, default: Any = ()) -> Any:
        """The categories of a column, or the default where they are unknown."""
        from everhold.families.base import categories_of

        if name not in self:
            self.update({name: (), **categories_of(self._compiler, [name])})
        return self[name] or default
