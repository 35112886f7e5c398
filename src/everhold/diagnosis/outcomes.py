"""In what rows may resemble each other: the label, and all other columns of numbers, truth values and classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everhold.diagnosis.orders import is_order
from everhold.diagnosis.resemblance import scores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from everhold.diagnosis.columns import Column, OpenRows

__all__ = ["Outcome", "outcomes_of"]

_FEWEST_OTHERS = 20  # an outcome that is rarer says nothing
_MOST_CLASSES = 3  # of a column of text, the most common ones


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Something in which rows may resemble each other.

    Attributes:
        name: The column, or one of its classes.
        column: Its column.
        of_label: Whether that is the label.
        present: Which rows have a value, shape (rows,).
        values: Middle ranks of these, with mean 0 and variance 1.
        states: Number of different values.
    """

    name: str
    column: str
    of_label: bool
    present: NDArray[np.bool_]
    values: NDArray[np.float64]
    states: int


def outcomes_of(rows: OpenRows, *, label: str | None, most: int) -> list[Outcome]:
    """The label's outcomes, and then those of so many other columns."""
    named = rows.column(label) if label is not None else None
    found = [] if named is None else list(_of_column(named, of_label=True))
    others = [column for column in rows.columns if column.name != label and not is_order(column)]
    for column in others[:most]:
        found += _of_column(column, of_label=False)
    return found


def _of_column(column: Column, *, of_label: bool) -> Iterator[Outcome]:
    if column.kind in ("whole", "number"):
        yield from _outcome(column.name, column, column.ranks, of_label=of_label)
    elif column.kind == "text":
        for rank, name in _classes(column, of_label=of_label):
            is_class = np.where(column.ranks < 0, -1, column.ranks == rank)
            yield from _outcome(name, column, is_class, of_label=of_label)


def _classes(column: Column, *, of_label: bool) -> list[tuple[int, str]]:
    if of_label:
        return [(rank, f"{column.name} = {text}") for rank, text in column.values.items()]
    counts = np.bincount(column.ranks[column.ranks >= 0])
    return [(int(rank), column.name) for rank in np.argsort(-counts, kind="stable")[:_MOST_CLASSES]]


def _outcome(name: str, column: Column, ranks: NDArray[np.int64], *, of_label: bool) -> Iterator[Outcome]:
    present = ranks >= 0
    counts = np.bincount(ranks[present], minlength=1)
    values = scores(ranks[present]) if counts.sum() - counts.max() >= _FEWEST_OTHERS else None
    if values is not None:
        yield Outcome(name, column.name, of_label, present, values, int(column.ranks.max()) + 1)
