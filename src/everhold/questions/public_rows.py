"""What a function is tried on before it meets sealed rows: training rows, or made-up ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.errors import QueryRejected
from everhold.questions.priced import brief
from everhold.sealing.probe import made_up_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.questions.preparation import Preparation
    from everhold.values.base import Table

__all__ = ["columns_read", "public_rows"]


def columns_read(preparation: Preparation, names: Sequence[str] | None) -> tuple[str, ...]:
    """The columns that a function reads; where none are named, all but the row ids.

    Raises:
        QueryRejected: If one of them does not exist, or there is none. Nothing is charged.
    """
    known = preparation.schema.asked
    if names is None:
        return tuple(known)
    ordered = hasattr(names, "__len__") and hasattr(names, "__getitem__") and not isinstance(names, str)
    if not ordered or not len(names) or any(name not in known for name in names):
        raise QueryRejected(
            f"columns is {brief(names)}; expected a list of some of {', '.join(known)}, or None for all; "
            "nothing was charged"
        )
    return tuple(names)


def public_rows(preparation: Preparation, names: Sequence[str], *, most: int) -> Table:
    """The named columns of at most so many training rows; two made-up rows where there are none."""
    if preparation.training is not None:
        return {name: column[:most] for name, column in preparation.training.table(names).items()}
    made_up = made_up_rows(preparation.schema.columns)
    return {name: made_up[name] for name in names}
