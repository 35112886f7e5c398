"""The long form of the coverage studies: every mechanism against every analyst, at several sizes.

Run `python -m tests.coverage_studies` in the root of the repository; it writes docs/theory/coverage.md.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from everhold.lab.audit import ANALYSTS, Audit, AuditLine, audit
from everhold.mechanisms import MECHANISMS

PAGE = Path(__file__).parents[2] / "docs" / "theory" / "coverage.md"
GREEDY_SHARE = 3  # greedy games are slow: a third of them


@dataclass(frozen=True)
class Setting:
    """Rows n, questions m, overfits B, failure rate beta, and who promises less than half the range there."""

    rows: int
    queries: int
    overfits: int
    beta: float
    mechanisms: tuple[str, ...]

    def play(self, analyst: str, runs: int) -> Audit | None:
        mechanisms = [name for name in self.mechanisms if analyst != "probing" or MECHANISMS[name].needs_guess]
        if not mechanisms:
            return None
        return audit(
            rows=self.rows, queries=self.queries, overfits=self.overfits, confidence=1.0 - self.beta,
            mechanisms=mechanisms, analysts=[analyst],
            runs=max(runs // GREEDY_SHARE, 1) if analyst == "greedy" else runs,
        )  # fmt: skip


SETTINGS = (
    Setting(16_384, 15_000, 3, 0.2, ("gaussian", "laplace")),
    Setting(4_096, 4_000, 3, 0.05, ("guess_and_check", "thresholdout", "gaussian")),
    Setting(4_096, 4_000, 1, 0.2, ("guess_and_check", "thresholdout", "gaussian")),
    Setting(16_384, 1_000, 10, 0.05, ("guess_and_check", "thresholdout", "gaussian", "laplace")),
    Setting(8_192, 500, 5, 0.2, ("laplace",)),
    Setting(1_024, 1_000, 1, 0.2, ("guess_and_check", "thresholdout")),
    Setting(4_096, 20, 1, 0.05, ("sample_splitting",)),
    Setting(4_096, 40, 1, 0.2, ("sample_splitting",)),
    Setting(1_024, 16, 1, 0.05, ("sample_splitting",)),
)

TEXT = """# Coverage studies

How often do simulated analysts break a promise where the truth is known exactly? Every label is a fair coin, so the
population value of every question is 1/2. The rows are the points of a cube, the rules are parities of coordinates:
orthogonal, and so the attackers' best case. A game counts as a *violation* if 1/2 is outside the interval of any of its
answers or farther from it than the promised radius, or if budget was spent against the promise (*needless*). At most a
share $\\beta$ of games may be violations.

| analyst | what it does |
| --- | --- |
| honest | scores a fixed list of rules and believes the best |
| climbing | lets all rules vote with the log-odds of their score, round after round (boosting attack) |
| greedy | adds to the vote, one at a time, the rule that raises its reported score most |
| fingerprinting | weighs every rule, and random votes around what it knows, with answer - 1/2 |
| probing | climbs with guesses at the edge of what the mechanism confirms |

*Tightness* is the radius divided by the worst error that was seen in any game: 1 would mean that nothing is given away.
*Unprotected* is the share of games in which the same analyst, with the bare averages of the same rows, exceeds the same
radius. Where it is 0 the attack is too weak at this size, and the line shows little; the honest analyst is no attack.

## What was run

On {date}, everhold {version}, in {seconds:.0f} seconds: `{command}`. Each pair of a mechanism and an analyst played
{runs} games, with the greedy analyst {greedy}. Intervals are exact (Clopper-Pearson, 95 %). A pair is *consistent* if
so many violations have at least one chance in a thousand where the promise is kept.

{verdict}

## Results

{table}

The command `everhold audit` plays the same games against any configuration. Shorter forms of these studies are part of
the tests.
"""

HEAD = (
    "mechanism", "analyst", "n", "m", "B", "β", "games", "violations", "95 % interval", "radius", "worst error",
    "tightness", "needless", "unprotected",
)  # fmt: skip


def table_row(setting: Setting, line: AuditLine) -> list[str]:
    low, high = line.study.clopper_pearson
    overfits = str(setting.overfits) if MECHANISMS[line.study.mechanism].needs_guess else "-"
    return [
        line.study.mechanism, line.study.analyst, f"{setting.rows:,}", f"{setting.queries:,}", overfits,
        f"{setting.beta:g}", str(line.study.runs), str(line.study.violations), f"{low:.3f} to {high:.3f}",
        f"{line.study.radius:.3f}", f"{line.study.worst_error:.3f}", f"{line.study.tightness or 0.0:.2f}",
        str(line.needless),
        f"{line.unprotected_violations / len(line.unprotected):.2f}",
    ]  # fmt: skip


def markdown(rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (HEAD, ["---"] * len(HEAD), *rows))


def verdict(lines: list[AuditLine]) -> str:
    games = sum(line.study.runs for line in lines)
    violations = sum(line.study.violations for line in lines)
    inconsistent = [
        f"{line.study.mechanism} against {line.study.analyst}" for line in lines if not line.study.consistent
    ]
    attacked = [line for line in lines if line.unprotected_violations > 0.9 * len(line.unprotected)]
    return (
        f"**{violations} violations in {games:,} games of {len(lines)} pairs; "
        f"{'all pairs are consistent' if not inconsistent else 'inconsistent: ' + ', '.join(inconsistent)}.** "
        f"In {len(attacked)} of\nthe pairs the unprotected averages exceed the radius in more than nine games of ten."
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.coverage_studies", description=__doc__)
    parser.add_argument("--runs", type=int, default=300, help="games of each pair (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=PAGE, help="the page to write")
    given = parser.parse_args()
    started = time.perf_counter()
    results: list[tuple[Setting, AuditLine]] = []
    with ProcessPoolExecutor(given.workers) as pool:
        waiting = [
            (setting, analyst, pool.submit(setting.play, analyst, given.runs))
            for setting in SETTINGS
            for analyst in ANALYSTS
        ]
        for setting, analyst, game in waiting:
            played = game.result()
            lines = played.lines if played is not None else ()
            results += [(setting, line) for line in lines]
            sys.stderr.write(f"{time.perf_counter() - started:5.0f} s  {setting.rows} rows, {analyst}\n")
    results.sort(key=lambda pair: list(MECHANISMS).index(pair[1].study.mechanism))
    lines = [line for _, line in results]
    given.output.write_text(
        TEXT.format(
            date=datetime.datetime.now(datetime.UTC).date(),
            version=version(),
            seconds=time.perf_counter() - started,
            command=f"python -m tests.coverage_studies --runs {given.runs}",
            runs=given.runs,
            greedy=max(given.runs // GREEDY_SHARE, 1),
            verdict=verdict(lines),
            table=markdown([table_row(setting, line) for setting, line in results]),
        ),
        encoding="utf-8",
    )
    return int(not all(line.study.consistent for line in lines))


def version() -> str:
    from everhold import __version__

    return __version__


if __name__ == "__main__":
    raise SystemExit(main())
