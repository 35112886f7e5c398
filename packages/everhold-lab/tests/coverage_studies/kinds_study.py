"""The long form of the study by kind of query: every analyst against every kind, with and without protection.

Run `python -m coverage_studies.kinds_study` in `packages/everhold-lab/tests`; it writes
docs/theory/coverage-of-intervals.md.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import beta, binom

from everhold import __version__
from everhold_lab.audit.audit import ANALYSTS, entry_of

from .audited_kinds import KINDS, AuditedKind, KindOutcome, Removed, play_kind, usual_procedure

PAGE = Path(__file__).parents[4] / "docs" / "theory" / "coverage-of-intervals.md"
ROWS, ROWS_IN_GROUPS, QUERIES, SURPRISES, CONFIDENCE = 512, 1_600, 64, 3, 0.8
UNPROTECTED = "climbing"  # who plays where protection is taken away
FEWER = 5  # of those games there are so many times fewer

TEXT = """# Coverage of the intervals

This page answers how often an interval of guess and check (the default mechanism) misses, for every kind of query.
Every row has a fair coin, and the row value of a query lies above or below 1/2 by a distance that depends on the
kind, so that every population value is exactly 1/2. There are five kinds of queries. *Spread*: one value in twenty is
0 or 1, the others are within .04 of the middle. *Difference*: two models differ in one row of ten. *Ratio*: the mean
over a quarter of the rows. *Gate*: every challenger is exactly as good as the champion, and a promotion is a
violation. *Groups*: rows of a group share their coin with the intraclass correlation (ICC) that is named, and a rule
predicts the same for all of them. Unequal groups have from 1 to 18 rows.

A game of an analyst with one kind of query is a *violation* if any of its intervals misses 1/2, told or unsealed: at
most a share of {beta:.1f} of the games may be violations. In the results, *half-width* is the mean half-width of
confirmed answers, and *plain* is the half-width if it were only known that values lie in [0, 1] (Chernoff's or, for
groups, Hoeffding's bound). *Worst error* is the largest distance of any answer from 1/2. In the last two columns a
protection is removed, and the climbing analyst plays: *no tree* gives every query the level of a single one and tells
every answer at no cost, and *no groups* counts rows of a group as independent.

There are {rows} sealed rows ({grouped} in groups), {queries} planned queries and {surprises} planned surprises.

## What was run

On {date}, everhold {version}, in {seconds:.0f} seconds: `{command}` in
packages/everhold-lab/tests. Every pair of a kind and an analyst played {runs}
games, and {fewer} without protection.

{verdict}

## Results

| queries | analyst | games | violations | 95 % interval | half-width | plain | worst error | no tree | no groups |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
{table}

The tests play the same kinds of queries in fewer games.
"""


@dataclass(frozen=True)
class Line:
    """All games of one analyst with queries of one kind."""

    kind: AuditedKind
    analyst: str
    games: tuple[KindOutcome, ...]
    without: dict[str, tuple[KindOutcome, ...]]

    @property
    def violations(self) -> int:
        return violations(self.games)

    @property
    def consistent(self) -> bool:
        """Whether so many violations happen with at least one chance in a thousand if the promise is kept."""
        return self.violations <= int(binom.ppf(0.999, len(self.games), 1.0 - CONFIDENCE))

    def row(self) -> str:
        bad, many = self.violations, len(self.games)
        low = beta.ppf(0.025, bad, many - bad + 1) if bad else 0.0
        high = beta.ppf(0.975, bad + 1, many - bad) if bad < many else 1.0
        shown = [shown_mean([getattr(game, name) for game in self.games]) for name in ("half_width", "plain")]
        if self.kind.shape == "ratio":
            shown[1] = "-"  # of other rows
        worst = max(game.worst_error for game in self.games)
        fails = [
            f"{violations(self.without[name])} of {len(self.without[name])}" if name in self.without else "-"
            for name in ("tree", "groups")
        ]
        cells = [self.kind.name, self.analyst, str(many), str(bad), f"{low:.3f} to {high:.3f}", *shown]
        return f"| {' | '.join([*cells, f'{worst:.3f}' if worst else '-', *fails])} |"


def violations(games: Sequence[KindOutcome]) -> int:
    return sum(game.violated for game in games)


def shown_mean(values: Sequence[float]) -> str:
    numbers = [value for value in values if not np.isnan(value)]
    return f"{np.mean(numbers):.3f}" if numbers else "-"


def play_line(name: str, analyst: str, runs: int, seed: int = 0) -> Line:
    """All games of a pair; where protection is taken away, only of the hill climber."""
    kind = KINDS[name]
    rows = ROWS_IN_GROUPS if kind.grouped else ROWS
    mechanism = kind.tuned(rows=rows, queries=QUERIES, surprises=SURPRISES, confidence=CONFIDENCE)
    played, rules = entry_of(analyst, mechanism, procedure=usual_procedure(kind, mechanism))

    def games(many: int, removed: Removed = "") -> tuple[KindOutcome, ...]:
        return tuple(
            play_kind(kind, mechanism, played, rules=rules, seed=seed + run, removed=removed) for run in range(many)
        )

    removals: list[Removed] = ["tree", "groups"] if kind.grouped else ["tree"]
    fewer = max(runs // FEWER, 1)
    without = {removed: games(fewer, removed) for removed in removals} if analyst == UNPROTECTED else {}
    return Line(kind, analyst, games(runs), without)


def verdict(lines: Sequence[Line]) -> str:
    wrong = [f"{line.kind.name} against {line.analyst}" for line in lines if not line.consistent]
    bad, many = sum(line.violations for line in lines), sum(len(line.games) for line in lines)
    said = f"inconsistent: {', '.join(wrong)}" if wrong else "all pairs are consistent"
    return f"**{bad:,} violations in {many:,} games of {len(lines)} pairs; {said}.**"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="games of each pair (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=PAGE, help="the page to write")
    given = parser.parse_args()
    started, lines = time.perf_counter(), []
    with ProcessPoolExecutor(given.workers) as pool:
        waiting = [pool.submit(play_line, name, analyst, given.runs) for name in KINDS for analyst in ANALYSTS]
        for pair in waiting:
            lines.append(pair.result())
            sys.stderr.write(f"{time.perf_counter() - started:5.0f} s  {lines[-1].row()}\n")
    given.output.write_text(
        TEXT.format(
            date=datetime.datetime.now(datetime.UTC).date(), version=__version__, runs=given.runs,
            beta=1.0 - CONFIDENCE, fewer=max(given.runs // FEWER, 1), seconds=time.perf_counter() - started,
            queries=QUERIES, surprises=SURPRISES,
            rows=ROWS, grouped=f"{ROWS_IN_GROUPS:,}", verdict=verdict(lines),
            command=f"python -m coverage_studies.kinds_study --runs {given.runs}",
            table="\n".join(line.row() for line in lines),
        ),
        encoding="utf-8",
    )  # fmt: skip
    return int(not all(line.consistent for line in lines))


if __name__ == "__main__":
    raise SystemExit(main())
