"""The sealed files of a holdout: which there are, and what each has to be.

The files of the creation are bound by the holdout's configuration, and those of an arrival by its entry in the ledger.
Whoever opens, checks, backs up or restores a holdout takes its files from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.sealing.fingerprints import check_fingerprint
from everhold.sealing.rows.engines.embedded import Embedded
from everhold.sealing.storage import HOLDOUT_FILE, TRAINING_FILE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["SealedFile", "rows_file", "sealed_files", "training_file"]


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A file of rows and what it has to be.

    Attributes:
        path: Where it is.
        fingerprint: SHA-256 of its content, in hex.
        what: How messages call its rows, "holdout" or "training".
    """

    path: Path
    fingerprint: str
    what: str

    def check(self) -> None:
        """Check that it is byte for byte what was sealed.

        Raises:
            IntegrityError: If it is missing or differs.
        """
        check_fingerprint(self.path, self.fingerprint, what=self.what)

    def opened(self) -> Embedded:
        """A reader of the file.

        Raises:
            IntegrityError: If it is missing or differs.
        """
        return Embedded(self.path, fingerprint=self.fingerprint, what=self.what)


def rows_file(folder: Path, number: int) -> Path:
    """The file with the sealed rows of an arrival; of number 0 those of the holdout's creation."""
    return folder / (f"arrival-{number:06}.parquet" if number else HOLDOUT_FILE)


def training_file(folder: Path, number: int) -> Path:
    """The file with the training rows of an arrival; of number 0 those of the holdout's creation."""
    return folder / (f"arrived-training-{number:06}.parquet" if number else TRAINING_FILE)


def sealed_files(
    folder: Path, configuration: Mapping[str, Any], arrival: Mapping[str, Any] | None = None
) -> dict[str, SealedFile]:
    """The files of the creation or of one arrival, by the side of their rows; sealed rows in an engine have none.

    Args:
        folder: Private folder of the holdout.
        configuration: Of the holdout.
        arrival: Description in the ledger's entry of the arrival; None for the creation.
    """
    facts, number = (configuration, 0) if arrival is None else (arrival, int(arrival["arrival"]))
    files = {}
    if configuration.get("engine") is None and facts["fingerprint"] is not None:
        files["holdout"] = SealedFile(rows_file(folder, number), facts["fingerprint"], "holdout")
    if facts["training_fingerprint"] is not None:
        files["training"] = SealedFile(training_file(folder, number), facts["training_fingerprint"], "training")
    return files
