"""Rows in blocks of a fixed length: anything may happen within a block, and blocks are independent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from everhold.dependence import DependenceModel
from everhold.dependence.base import require_rows
from everhold.errors import DependenceError

__all__ = ["Blocks"]


@dataclass(frozen=True, slots=True)
class Blocks(DependenceModel):
    """Blocks of at most `length` rows, such as the readings of one day; no column has to name them."""

    kind: ClassVar[str] = "blocks"
    title: ClassVar[str] = "blocks of a fixed length"
    rows_are: ClassVar[str] = "rows in blocks"
    how_to_tell: ClassVar[tuple[str, ...]] = (
        "The assumption is wrong if rows of different blocks depend on each other. Compare the variance of the means "
        "of blocks with that of the means of pairs of blocks. Choose a greater length then.",
    )
    entries: ClassVar[Mapping[str, str]] = {"length": "the most rows of a block"}

    length: int

    def __post_init__(self) -> None:
        if isinstance(self.length, bool) or not isinstance(self.length, int) or self.length < 1:
            raise DependenceError(f"length is {self.length!r}. Pass a whole number of at least 1.")

    def concentration(self, rows: int) -> float:
        """Hoeffding's inequality for the sums of blocks: ``n^2 / sum k^2``, at least ``n / length`` (S5)."""
        require_rows(rows)
        return rows / self.length

    def describe(self) -> str:
        """The assumption in one sentence."""
        return f"the sealed rows come in blocks of at most {self.length} rows, and blocks are independent of each other"

    def to_dict(self) -> dict[str, Any]:
        """The model as plain data."""
        return {"kind": self.kind, "length": self.length}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Blocks:
        """The inverse of `to_dict`."""
        return cls(data["length"])
