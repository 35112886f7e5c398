"""Request to seal rows: the tables, and what is declared of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from everhold.arguments import as_whole, brief
from everhold.sealing.intake.checks import checked_classes
from everhold.sealing.intake.reading import check_most_rows
from everhold.sealing.intake.settings import Rows
from everhold.values.missing import checked_missing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.dependence import DependenceModel
    from everhold.sealing.intake.reading import RowSource
    from everhold.sealing.intake.settings import ExtensionSettings
    from everhold.sealing.rows.row_store import SealableTable

__all__ = ["SealRequest", "checked_seed"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SealRequest:
    """Tables to seal, and what the steward declares of them.

    Attributes:
        holdout: The rows to seal, or a table that stays where it is.
        training: Open rows of the same columns; beside a table that stays, another table of its engine may be given.
        label: Column that holds the truth, for accuracy and the like.
        rows: Further declarations about the rows.
        dependence: Declared dependence of the rows; None if nothing is declared.
        seed: For simulations only: noise that can be predicted.
        extensions: Settings of extensions by name.
        dealt: Of rows that were dealt for several studies, which part of which holdout they are.

    Raises:
        ValueError: If a declaration cannot be right for any rows.
        TypeError: If the seed is no whole number.
    """

    holdout: RowSource | SealableTable = field(repr=False)
    training: RowSource | SealableTable | None = field(default=None, repr=False)
    label: str | None = None
    rows: Rows = field(default_factory=Rows)
    dependence: DependenceModel | None = None
    seed: int | None = None
    extensions: Mapping[str, ExtensionSettings] = field(default_factory=dict)
    dealt: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        most_rows = check_most_rows(self.rows.most_rows)
        _check_columns(label=self.label, row_id=self.rows.row_id)
        object.__setattr__(self, "seed", checked_seed(self.seed))
        classes, missing = checked_classes(self.rows.classes), checked_missing(self.rows.missing)
        rows = replace(self.rows, most_rows=most_rows, classes=classes, missing=missing)
        object.__setattr__(self, "rows", rows)


def _check_columns(*, label: Any, row_id: Any) -> None:
    """Check that columns are named by their names.

    Raises:
        ValueError: If not.
    """
    for what, column in (("label", label), ("row id", row_id)):
        if column is not None and not isinstance(column, str):
            raise ValueError(f"the {what} column is {brief(column)}; expected its name; nothing was created")
    if label is not None and label == row_id:
        raise ValueError(
            f"{brief(label)} is both the label and the row id; expected two columns, because a row id names rows "
            "and says nothing about them; nothing was created"
        )


def checked_seed(seed: int | None) -> int | None:
    """A seed as a plain whole number.

    Raises:
        ValueError: If it is negative or a truth value.
        TypeError: If it is no whole number.
    """
    if seed is not None and (as_whole(seed) is None or seed < 0):
        wrong = ValueError if isinstance(seed, int) else TypeError
        raise wrong(f"seed is {brief(seed)}; expected a whole number of at least 0, or None for secure noise")
    return as_whole(seed)
