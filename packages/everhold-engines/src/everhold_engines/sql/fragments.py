"""Pieces of SQL that are written once and used by their numbers, whatever the engine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from everhold.values.expressions.tree import ColumnKind, Operation

if TYPE_CHECKING:
    from everhold.values.expressions.tree import Node
    from everhold_engines.sql.dialects import Dialect

Part: TypeAlias = str | int
"""Text, or the number of a piece."""

CompiledParts: TypeAlias = tuple[Part, Part]
"""Two of each node: where a condition is true and where it is false; of all else the value and where it is there."""

_PLACE = re.compile(r"\{(\d)\}")


@dataclass(slots=True)
class SqlFragments:
    """Pieces of SQL, each written once and known by its number: text in which earlier pieces stand by their numbers."""

    dialect: Dialect
    _pieces: dict[tuple[Part, ...], int] = field(default_factory=dict)

    def _put(self, *parts: Part) -> int:
        return self._pieces.setdefault(parts, len(self._pieces))

    def _joined(
        self, between: str, parts: Sequence[Part], *, before: Sequence[Part] = "(", after: Sequence[Part] = ")"
    ) -> int:
        inside: list[Part] = [between] * (2 * len(parts) - 1)
        inside[::2] = parts
        return self._put(*before, *inside, *after)

    def _logic(self, node: Node, inputs: Sequence[CompiledParts]) -> CompiledParts | None:
        """Result of conditions in Kleene's logic; None for any other node."""
        ones, others = map(list, zip(*inputs, strict=True))
        match node.operation:
            case Operation.NOT:
                return others[0], ones[0]
            case Operation.AND:
                return self._joined(" AND ", ones), self._joined(" OR ", others)
            case Operation.OR:
                return self._joined(" OR ", ones), self._joined(" AND ", others)
            case Operation.EQUAL if node.operands[0].kind is ColumnKind.BOOLEAN:
                (true, false), (also_true, also_false) = inputs
                return (
                    self._put("((", true, " AND ", also_true, ") OR (", false, " AND ", also_false, "))"),
                    self._put("((", true, " AND ", also_false, ") OR (", false, " AND ", also_true, "))"),
                )
        return None

    def _filled(self, template: str, *operands: Part) -> int:
        """A piece from a template in which ``{0}``, ``{1}``, ... stand for the operands."""
        written = _PLACE.split(template)
        return self._put(*(operands[int(part)] if odd % 2 else part for odd, part in enumerate(written) if part))

    def _uses(self, results: Sequence[int]) -> dict[int, int]:
        """Number of uses of each piece that the results need."""
        uses = dict.fromkeys(results, 0)
        for parts, piece in reversed(self._pieces.items()):
            if piece in uses:
                for part in parts:
                    if isinstance(part, int):
                        uses[part] = uses.get(part, 0) + 1
        return uses
