"""Protocol of an experiment: settings, one repetition as a pure function of a seed, a summary, pictures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from altair import TopLevelMixin

__all__ = ["Experiment", "Picture", "Row", "Setting"]

Setting = dict[str, Any]
"""Parameters that tell one series of repetitions from another; plain JSON data, such as ``{"signal": True}``."""

Row = dict[str, Any]
"""One measured line, or one line of a summary: plain numbers, texts and truth values by name."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart for the report.

    Attributes:
        name: Of its file, without a suffix.
        title: What it shows.
        caption: In one or two sentences, how to read it.
        chart: The chart.
    """

    name: str
    title: str
    caption: str
    chart: TopLevelMixin


class Experiment(ABC):
    """Frozen parameters and pure functions; files, processes and progress belong to the runner.

    A subclass is a frozen dataclass whose fields, all with defaults, are the sizes of the experiment: the defaults are
    those of the paper, smaller ones serve tests.

    Attributes:
        name: As on the command line.
        title: For people.
        source: The paper and figure that it follows, or what of ours it shows.
        about: What is done and what is to be seen, a paragraph.
        repetitions: How many there are by default.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    about: ClassVar[str]
    repetitions: ClassVar[int] = 100

    @abstractmethod
    def settings(self) -> Sequence[Setting]:
        """Every setting, each to be repeated."""

    @abstractmethod
    def play(self, setting: Setting, seed: int) -> list[Row]:
        """One repetition of one setting; the same seed gives the same rows, in any process."""

    @abstractmethod
    def summary(self, rows: Sequence[Row]) -> list[Row]:
        """The lines that are printed, from the rows of all repetitions; each of those carries its setting, too."""

    @abstractmethod
    def findings(self, summary: Sequence[Row], rows: Sequence[Row]) -> Mapping[str, bool]:
        """Findings that the experiment has to show, in words with the measured numbers, and whether each holds."""

    def pictures(self, summary: Sequence[Row], rows: Sequence[Row]) -> list[Picture]:
        """Charts for the report, which need the extra ``[plots]``; none where the table says it."""
        return []
