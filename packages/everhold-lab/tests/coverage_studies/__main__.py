"""The long form of the coverage studies: every mechanism against every analyst, at several sizes.

Run `python -m coverage_studies` in `packages/everhold-lab/tests`; it writes docs/theory/coverage.md. With
`--only independent` or `--only dependent` it plays one part, and leaves the other part of the page as it is.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from everhold.mechanisms import MECHANISMS
from everhold_lab.audit.audit import ANALYSTS, Audit, AuditLine, audit
from everhold_lab.audit.coverage import CoverageStudy

from .dependent_cases import CASES, DependentCase

PAGE = Path(__file__).parents[4] / "docs" / "theory" / "coverage.md"
GREEDY_SHARE = 3  # greedy games are slow: a third of them


@dataclass(frozen=True)
class Setting:
    """Rows n, queries m, surprises B, failure rate beta, and who promises less than half the range there."""

    rows: int
    queries: int
    surprises: int
    beta: float
    mechanisms: tuple[str, ...]

    def play(self, analyst: str, runs: int) -> Audit | None:
        mechanisms = [name for name in self.mechanisms if analyst != "probing" or MECHANISMS[name].traits.needs_guess]
        if not mechanisms:
            return None
        return audit(
            rows=self.rows, queries=self.queries, surprises=self.surprises, confidence=1.0 - self.beta,
            mechanisms=mechanisms, analysts=[analyst],
            runs=greedy_games(runs) if analyst == "greedy" else runs,
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

This page answers how often simulated analysts break a promise if the true value is known exactly. In a game, every
label is a fair coin, so the population value of every query is 1/2. The rows are the points of a cube. The rules that
an analyst asks about are parities of coordinates, which are orthogonal, and this is the attackers' best case. A game
counts as a *violation* if 1/2 is outside the interval of any of its answers, if an answer is farther from 1/2 than
the promised radius, or if budget was spent against the promise. At most a share $\\beta$ of games may be
violations.

| analyst | what it does |
| --- | --- |
| honest | scores a fixed list of rules and reports the best |
| climbing | lets all rules vote with the log-odds of their score, round after round (boosting attack) |
| greedy | adds to the vote, one at a time, the rule that raises its reported score most |
| fingerprinting | weighs every rule, and random variants of its current vote, by the answer less 1/2 |
| probing | climbs with guesses at the edge of the range that the mechanism confirms |

Two columns of the results judge a line. *Worst error* is the largest error in any game: if it is near the radius, no
much smaller radius is possible. *Unprotected* is the share of games in which the same analyst, with the bare averages
of the same rows, exceeds the same radius. If this share is 0, the attack is too weak at this size, and the line shows
little. The honest analyst does not attack.

## What was run

On {date}, everhold {version}, in {seconds:.0f} seconds: `{command}` in
packages/everhold-lab/tests. Each pair of a mechanism and an analyst played
{runs} games, with the greedy analyst {greedy}. A pair is *consistent* if at least its number of violations has a
probability of at least one in a thousand under the promise.

{verdict}

## Results

{table}

The command `everhold audit` plays the same games as this coverage study against any configuration. The tests include
shorter forms of the studies.
"""

DEPENDENT_HEADING = "## Dependent rows"  # what follows is written by its own part of the study

DEPENDENT_TEXT = """## Dependent rows

In the games of this section the same analysts play, and rows copy each other. A record is a point of the cube and a
label, all fair coins. Each row has a record, and several rows may have the same one. The law of each single row is
uniform, so the population value of every query is still 1/2. Training rows are another draw of the same population,
independent of the sealed ones.

| population | who carries whose record | right model |
| --- | --- | --- |
| groups of k | all rows of a group carry one record | `Groups(k)` |
| loose groups | each row carries its group's record with probability 0.8, else one of its own | `Groups(k)` |
| families of 6 | the mother's haplotype; 4 children get one of her two each (Mendel) | `Groups(6)` or `pedigree` |
| chain, correlation r | each row repeats the one before with probability r, else a new record | `MarkovChain` |

Every pair of a mechanism and an analyst is played twice on the same rows: with the mechanism tuned for the right
model of dependence, and tuned as if the rows were independent. *Worth* is the effective number of independent rows
under the right model (statement S5). Bare averages (*empirical*) have a promise only for queries that were fixed in
advance, so only the honest analyst plays them. For chains the cube of rows has 64 points, so that the 128 states
(points with labels) fit into a matrix. For the other populations it has 16,384 points.

### What was run on dependent rows

On {date}, everhold {version}, in {seconds:.0f} seconds: `{command}` in packages/everhold-lab/tests. Each pair of a
mechanism and an analyst played {runs} games with each of the two models, with the greedy analyst {greedy}.

{verdict}

### Results on dependent rows

{table}
"""

HEAD = (
    "mechanism", "analyst", "n", "m", "B", "β", "games", "violations", "radius", "worst error", "unprotected",
)  # fmt: skip


DEPENDENT_HEAD = (
    "rows", "mechanism", "analyst", "n", "worth", "m", "B", "β", "games", "violations", "radius", "worst error",
    "radius if independent", "violations then",
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """One part of the page: its text, and whether all promises were kept."""

    text: str
    kept: bool


@dataclass(frozen=True)
class DependentLine:
    """One analyst against one mechanism, with the right model and as if the rows were independent."""

    population: str
    case: DependentCase
    analyst: str
    right: CoverageStudy
    independent: CoverageStudy

    @property
    def fails(self) -> bool:
        """Whether independence is refuted: violations are more frequent than promised, beyond chance."""
        return self.independent.clopper_pearson[0] > self.case.beta


def table_row(setting: Setting, line: AuditLine) -> list[str]:
    surprises = str(setting.surprises) if MECHANISMS[line.study.mechanism].traits.needs_guess else "-"
    return [
        line.study.mechanism, line.study.analyst, f"{setting.rows:,}", f"{setting.queries:,}", surprises,
        f"{setting.beta:g}", str(line.study.runs), str(line.study.violations),
        f"{line.study.radius:.3f}", f"{line.study.worst_error:.3f}",
        f"{line.unprotected_violations / len(line.unprotected):.2f}",
    ]  # fmt: skip


def dependent_row(line: DependentLine) -> list[str]:
    case, right, wrong = line.case, line.right, line.independent
    return [
        line.population, case.mechanism, line.analyst, f"{case.rows:,}",
        f"{case.tuned(independent=False).effective_rows(case.rows):,.0f}", f"{case.queries:,}",
        str(case.surprises) if MECHANISMS[case.mechanism].traits.needs_guess else "-", f"{case.beta:g}",
        str(right.runs), str(right.violations), f"{right.radius:.3f}", f"{right.worst_error:.3f}",
        f"{wrong.radius:.3f}", f"**{wrong.violations}**" if line.fails else str(wrong.violations),
    ]  # fmt: skip


def markdown(head: Sequence[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def kept_in(studies: Sequence[tuple[str, CoverageStudy]]) -> str:
    games = sum(study.runs for _, study in studies)
    violations = sum(study.violations for _, study in studies)
    inconsistent = [name for name, study in studies if not study.consistent]
    return (
        f"**{violations} violations in {games:,} games of {len(studies)} pairs; "
        f"{'all pairs are consistent' if not inconsistent else 'inconsistent: ' + ', '.join(inconsistent)}.**"
    )


def verdict(lines: list[AuditLine]) -> str:
    studies = [(f"{line.study.mechanism} against {line.study.analyst}", line.study) for line in lines]
    attacked = [line for line in lines if line.unprotected_violations > 0.9 * len(line.unprotected)]
    return (
        f"{kept_in(studies)} In {len(attacked)} of\nthe pairs of a mechanism and an analyst the "
        "unprotected averages exceed the radius in more than nine games of ten."
    )


def dependent_verdict(lines: list[DependentLine]) -> str:
    studies = [(f"{line.case.mechanism} against {line.analyst} on {line.population}", line.right) for line in lines]
    failing = [line for line in lines if line.fails]
    populations = dict.fromkeys(line.population for line in lines)
    counts = [
        f"{sum(line.population == name for line in failing)} of {sum(line.population == name for line in lines)} "
        f"on {name}"
        for name in populations
    ]
    said = (
        f"With the mechanism tuned for the right model: {kept_in(studies)}",
        f"Tuned as if the rows were independent, {len(failing)} pairs of a mechanism and an analyst break their "
        "promise beyond chance (in bold: the whole 95 % interval of Clopper and Pearson for the share of violations is "
        f"above β): {'; '.join(counts)}. In the other pairs the attack is too weak at this size, or the mechanism's "
        "radius is large enough for the dependence as well.",
    )
    return "\n\n".join(textwrap.fill(paragraph, 119) for paragraph in said)


def play_independent(pool: ProcessPoolExecutor, runs: int, progress: Callable[[str], None]) -> Part:
    started, results = time.perf_counter(), []
    waiting = [
        (setting, analyst, pool.submit(setting.play, analyst, runs)) for setting in SETTINGS for analyst in ANALYSTS
    ]
    for setting, analyst, game in waiting:
        played = game.result()
        results += [(setting, line) for line in (played.lines if played is not None else ())]
        progress(f"{setting.rows} rows, {analyst}")
    results.sort(key=lambda pair: list(MECHANISMS).index(pair[1].study.mechanism))
    lines = [line for _, line in results]
    text = TEXT.format(
        **about(started, runs),
        verdict=verdict(lines),
        table=markdown(HEAD, [table_row(setting, line) for setting, line in results]),
    )
    return Part(text, all(line.study.consistent for line in lines))


def play_case(population: str, mechanism: str, runs: int) -> list[DependentLine]:
    """All analysts against one mechanism on one population, in one process: a chain is tuned once."""
    case, lines = CASES[population, mechanism], []
    for analyst in case.analysts():
        games = greedy_games(runs) if analyst == "greedy" else runs
        right, wrong = (case.study(analyst, runs=games, independent=told) for told in (False, True))
        lines.append(DependentLine(population, case, analyst, right, wrong))
    return lines


def play_dependent(pool: ProcessPoolExecutor, runs: int, progress: Callable[[str], None]) -> Part:
    started, lines = time.perf_counter(), []
    waiting = [(key, pool.submit(play_case, *key, runs)) for key in CASES]
    for key, game in waiting:
        lines += game.result()
        progress(", ".join(key))
    text = DEPENDENT_TEXT.format(
        **about(started, runs, "--only dependent"),
        verdict=dependent_verdict(lines),
        table=markdown(DEPENDENT_HEAD, [dependent_row(line) for line in lines]),
    )
    return Part(text, all(line.right.consistent for line in lines))


def greedy_games(runs: int) -> int:
    return max(runs // GREEDY_SHARE, 1)


def about(started: float, runs: int, *arguments: str) -> dict[str, object]:
    """What the text says about a run."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date(),
        "version": version(),
        "seconds": time.perf_counter() - started,
        "command": " ".join(["python -m coverage_studies", *arguments, f"--runs {runs}"]),
        "runs": runs,
        "greedy": greedy_games(runs),
    }


PARTS = {"independent": play_independent, "dependent": play_dependent}


def old_parts(page: Path) -> dict[str, str]:
    """What the page says so far, by part."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    before, heading, after = text.partition(DEPENDENT_HEADING)
    return {"independent": before.strip(), "dependent": f"{heading}{after}".strip()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m coverage_studies", description=__doc__)
    parser.add_argument("--runs", type=int, default=300, help="games of each pair (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--only", choices=list(PARTS), help="play this part and leave the other one as it is")
    parser.add_argument("--output", type=Path, default=PAGE, help="the page to write")
    given = parser.parse_args()
    started, texts, kept = time.perf_counter(), old_parts(given.output), True
    with ProcessPoolExecutor(given.workers) as pool:
        for name in [given.only] if given.only else PARTS:
            part = PARTS[name](
                pool, given.runs, lambda what: sys.stderr.write(f"{time.perf_counter() - started:5.0f} s  {what}\n")
            )
            texts[name], kept = part.text.strip(), kept and part.kept
    given.output.write_text("\n\n".join(filter(None, texts.values())) + "\n", encoding="utf-8")
    return int(not kept)


def version() -> str:
    from everhold import __version__

    return __version__


if __name__ == "__main__":
    raise SystemExit(main())
