"""The long form of the study of the diagnosis: 200 games of every family.

Run `python -m lab.tests.coverage_studies.diagnosis_study` in the root of the repository; it writes
docs/theory/coverage-of-diagnosis.md.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from everhold import __version__

from .diagnosis_families import ADVISED, CONFIDENCE, FAMILIES, OVERFITS, QUERIES, WITHOUT_A_NUMBER, Game, play

PAGE = Path(__file__).parents[3] / "docs" / "theory" / "coverage-of-diagnosis.md"
PLAYED = (*FAMILIES, *WITHOUT_A_NUMBER, *ADVISED)

TEXT = """# Coverage of the diagnosis

Does everhold say so where a promise rests on a wrong declaration? In each game training rows and sealed rows are two
independent draws of the same family. The training rows are diagnosed under the declaration, a question is asked, and
the interval is compared with the population's value, which is known. A game is *silent* if the interval misses it and
there was no warning: neither at the fit of the model, nor when rows were sealed, nor at the question.

The intervals are those of `guess_and_check` for {queries} questions and {overfits} overfits at confidence {confidence}.

What is advised was declared in the last lines: there the promise itself has to hold. The rows of the slow families are
worth so little that these intervals are about a third of the range to either side, so those lines are a weak test. A
sharper one, a single question fixed in advance with no more than the advised worth, is part of the tests.

## What was run

On {date}, everhold {version}, in {seconds:.0f} seconds: `{command}`. Each family played {runs} games.

{verdict}

## Results

| rows and declaration | games | missed | warned | silent |
| --- | --- | --- | --- | --- |
{table}

False alarms of the diagnosis are rarer than one in a hundred holdouts of independent rows by the levels that it uses:
0.001 for all columns when rows are sealed, 0.005 for all questions of the plan, and 0.001 for the sizes of groups. The
same families, in fewer games, are part of the tests.
"""


def game(task: tuple[int, int]) -> Game:
    family, seed = task
    return play(PLAYED[family], seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="games of each family (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=PAGE, help="the page to write")
    given = parser.parse_args()
    started, lines, wrong = time.perf_counter(), [], []
    with ProcessPoolExecutor(given.workers) as pool:
        for number, family in enumerate(PLAYED):
            games = list(pool.map(game, [(number, seed) for seed in range(given.runs)], chunksize=10))
            missed, warned = (sum(not each.held for each in games), sum(each.warned for each in games))
            silent = sum(not each.fair for each in games)
            lines.append(f"| {family.name} | {given.runs} | {missed} | {warned} | {silent} |")
            must_hold = missed if family in ADVISED else silent
            if must_hold > 0.05 * given.runs or (not family.depends and warned > 0.01 * given.runs):
                wrong.append(family.name)
            sys.stderr.write(f"{time.perf_counter() - started:5.0f} s  {lines[-1]}\n")
    verdict = (
        f"**Missed without a warning in more than 5 % of games, or warned of without reason: {', '.join(wrong)}.**"
        if wrong
        else "**In every family at least 95 % of games kept the promise or had a warning.**"
    )
    given.output.write_text(
        TEXT.format(
            date=datetime.datetime.now(datetime.UTC).date(), version=__version__, runs=given.runs,
            seconds=time.perf_counter() - started, queries=QUERIES, overfits=OVERFITS, confidence=CONFIDENCE,
            command=f"python -m lab.tests.coverage_studies.diagnosis_study --runs {given.runs}", verdict=verdict,
            table="\n".join(lines),
        ),
        encoding="utf-8",
    )  # fmt: skip
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
