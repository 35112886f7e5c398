"""Rows of a series that arrive: they follow the sealed ones, in the steps that the model was declared for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.dependence.series import row_checks
from everhold.errors import DependenceError, HoldoutRejected
from everhold.sealing.intake.files import SealedFiles
from everhold.sealing.intake.structure import FileStructure

if TYPE_CHECKING:
    from pathlib import Path

    from everhold.dependence.series.base import SeriesModel
    from everhold.sealing.arrivals.arriving import EarlierFiles

__all__ = ["check_follows"]


def check_follows(folder: Path, model: SeriesModel, earlier: EarlierFiles, *, arriving: Path, rows: int) -> None:
    """Check that rows go on where the sealed ones of one series end.

    Args:
        folder: Private folder of the rows, for what does not fit into memory.
        model: Of the series.
        earlier: Files of the holdout's rows.
        arriving: File of the rows that arrive.
        rows: Number of the rows that arrive.

    Raises:
        HoldoutRejected: If they do not. Nothing was appended.
    """
    schema = earlier.schema
    facts = SealedFiles(
        rows=rows, training_rows=schema.rows, columns=dict(schema.columns), label_kind=None, label_classes=None,
        fingerprint="", training_fingerprint="",
    )  # fmt: skip
    try:
        with FileStructure(folder, facts, {"holdout": [arriving], "training": [*earlier.sealed]}) as structure:
            row_checks.check_follows(model, structure)
        if earlier.training:
            with FileStructure(folder, facts, {"holdout": [arriving], "training": [*earlier.training]}) as structure:
                row_checks.check_training_before(model, structure)
    except DependenceError as error:
        raise HoldoutRejected(
            f"the rows that arrive do not go on with the series: {error}; nothing was appended"
        ) from None
