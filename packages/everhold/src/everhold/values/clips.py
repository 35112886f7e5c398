"""Clips: what of a row counts as the end of a range, because one row must not be able to move a mean at will.

What counts for missing values is told in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["CLIPS", "MANY_BEYOND", "Clip", "clips_in_words", "kept_clips", "noted_clips"]

CLIPS = "clips"
"""Field of an entry's description, beside what identifies the query: its clips."""

MANY_BEYOND = 0.001
"""Where more training rows than this share lie beyond a clip, the clipped number is another one: everhold warns."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A range beyond which numbers of rows count as its nearer end.

    Attributes:
        what: What is clipped, such as ``"losses"``.
        low: Least number; None where nothing is clipped below.
        high: Largest number; None likewise.
        beyond: Share of training rows beyond; None where that is not known. Of a statistic of all rows 1 where its
            value on the training rows lies beyond, else 0.
        whole: Whether it is about a statistic of all rows, and not about each row.
        said: What becomes of it, where it is no range: the steward's rule for missing values.
    """

    what: str
    low: float | None
    high: float | None
    beyond: float | None = None
    whole: bool = False
    said: str = ""

    @property
    def is_often(self) -> bool:
        """True if so many training rows are clipped that the number is another one than its name says."""
        return not self.said and (self.beyond or 0.0) > MANY_BEYOND

    @property
    def named(self) -> str:
        """The clip in words.

        Examples:
            >>> Clip("losses", None, 6.5).named, Clip("values", 0.0, 60.0).named
            ('losses above 6.5 count as 6.5', 'values below 0 count as 0, and above 60 as 60')
        """
        if self.said:
            return f"{self.what} {self.said}"
        ends = [] if self.low is None else [f"below {self.low:.6g} count as {self.low:.6g}"]
        if self.high is not None:
            ends.append(f"above {self.high:.6g} {'count ' * (not ends)}as {self.high:.6g}")
        return f"{self.what} {', and '.join(ends)}"

    def __str__(self) -> str:
        if self.beyond is None:
            return f"{self.named} ({'whether' if self.whole else 'how many'} is not known)"
        if self.whole:
            return f"{self.named} (the training rows give one {'beyond' if self.beyond else 'within'})"
        share = f"{100.0 * self.beyond:.2g} %" if self.beyond else "none"
        return f"{self.named} ({share} of the training rows)"

    def to_list(self) -> list[Any]:
        """The clip as the ledger keeps it."""
        return [self.what, self.low, self.high, self.beyond, self.whole, *([self.said] if self.said else [])]


def noted_clips(clips: Sequence[Clip]) -> dict[str, Any]:
    """Clips as a field of an entry's description; empty without any."""
    return {CLIPS: [clip.to_list() for clip in clips]} if clips else {}


def kept_clips(description: Mapping[str, Any]) -> list[Clip]:
    """The clips that the ledger keeps of an entry."""
    return [Clip(*each) for each in description.get(CLIPS, ())]


def clips_in_words(clips: Sequence[Clip]) -> str:
    """Several clips in one sentence without an end; empty without any."""
    return "; ".join(dict.fromkeys(map(str, clips)))
