"""Test of whether games broke more promises than chance allows: all together, and those of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scipy.stats import binom

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

_CHANCE = 0.999  # of no false alarm


def promises_kept(
    games: Iterable[tuple[Hashable, bool]], *, confidence: float, played: str = "games"
) -> dict[str, bool]:
    """The finding that promises were kept, also by the kind of game that broke most of them.

    A promise of one mechanism that is always broken would be lost among the games of many that keep theirs.

    Args:
        games: Of every game its kind and whether it broke a promise.
        confidence: Probability with which each game keeps its promise.
        played: What is counted, in words.
    """
    kinds: dict[Hashable, list[bool]] = {}
    for kind, broken in games:
        kinds.setdefault(kind, []).append(broken)
    many, bad = sum(len(kind) for kind in kinds.values()), sum(sum(kind) for kind in kinds.values())
    most = int(binom.ppf(_CHANCE, many, 1.0 - confidence))
    each = 1.0 - (1.0 - _CHANCE) / max(len(kinds), 1)
    counts = [(sum(kind), len(kind), int(binom.ppf(each, len(kind), 1.0 - confidence))) for kind in kinds.values()]
    worst, of, may = max(counts, key=lambda count: count[0] - count[2], default=(0, 0, 0))
    return {
        f"{bad:,} of {many:,} {played} broke a promise, where up to {most:,} may; of one kind {worst:,} of {of:,}, "
        f"where up to {may:,} may": bad <= most and worst <= may
    }
