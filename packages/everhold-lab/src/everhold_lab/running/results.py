"""Results of an experiment: all measured rows, the summary, the findings; and its files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.charts import svg_text
from everhold.display import Display, columns_of, write_parquet

if TYPE_CHECKING:
    import pandas as pd

    from everhold_lab.experiments.base import Picture, Row

__all__ = ["Results", "SavedPicture", "save_pictures", "write_parquet", "write_text"]


@dataclass(frozen=True, slots=True)
class SavedPicture:
    """A picture beside the report.

    Attributes:
        title: What it shows.
        file: Name of its SVG file in the folder of results.
    """

    title: str
    caption: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Results(Display):
    """Results of an experiment.

    Attributes:
        source: The paper and figure that it follows.
        about: What was done.
        repetitions: Of each setting.
        rows: All measured rows; each carries its setting, its repetition and the seed of its task.
        summary: The lines that are printed.
        findings: What it had to show, and whether it does.
        pictures: That were drawn; None without the extra ``[plots]``.
    """

    experiment: str
    title: str
    source: str
    about: str
    parameters: Mapping[str, Any]
    repetitions: int
    seed: int
    rows: tuple[Row, ...]
    summary: tuple[Row, ...]
    findings: Mapping[str, bool]
    pictures: tuple[SavedPicture, ...] | None
    seconds: float
    machine: str
    version: str

    @property
    def kept(self) -> bool:
        """True if everything was shown that had to be."""
        return all(self.findings.values())

    def printed(self) -> dict[str, Any]:
        """The summary as ``everhold lab run --format json`` prints it."""
        return {"experiment": self.experiment, "rows": self.to_rows()}

    def to_dict(self) -> dict[str, Any]:
        """Everything but the single measured rows, as plain data."""
        drawn = self.pictures
        return {
            "experiment": self.experiment,
            "title": self.title,
            "source": self.source,
            "about": self.about,
            "parameters": dict(self.parameters),
            "repetitions": self.repetitions,
            "seed": self.seed,
            "seconds": self.seconds,
            "machine": self.machine,
            "everhold": self.version,
            "findings": [{"finding": finding, "kept": kept} for finding, kept in self.findings.items()],
            "pictures": None
            if drawn is None
            else [{"title": one.title, "caption": one.caption, "file": one.file} for one in drawn],
            "rows": self.to_rows(),
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """The summary, all lines with the same names; None where a line has no such number, or no finite one."""
        names = columns_of(self.summary)
        return [{name: _finite(row.get(name)) for name in names} for row in self.summary]

    def to_frame(self) -> pd.DataFrame:
        """All measured rows as a pandas data frame (needs pandas)."""
        import pandas

        return pandas.DataFrame(list(self.rows), columns=columns_of(self.rows))


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_text(path: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def save_pictures(experiment: str, pictures: Sequence[Picture], output: Path) -> tuple[SavedPicture, ...]:
    """Save every picture as SVG beside the report."""
    saved = []
    for picture in pictures:
        file = f"{experiment}-{picture.name}.svg"
        write_text(output / file, svg_text(picture.chart, title=picture.title))
        saved.append(SavedPicture(picture.title, picture.caption, file))
    return tuple(saved)
