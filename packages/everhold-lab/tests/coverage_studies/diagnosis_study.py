"""The long form of the study of the diagnosis: 200 games of every family.

Run `python -m coverage_studies.diagnosis_study` in `packages/everhold-lab/tests`; it writes
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

from .diagnosis_families import (
    ADVISED,
    CONFIDENCE,
    FAMILIES,
    QUERIES,
    SURPRISES,
    WITHOUT_A_NUMBER,
    Game,
    most_alarms,
    play,
)  # fmt: skip

PAGE = Path(__file__).parents[4] / "docs" / "theory" / "coverage-of-diagnosis.md"
PLAYED = (*FAMILIES, *WITHOUT_A_NUMBER, *ADVISED)

TEXT = """# Coverage of the diagnosis

This page answers whether everhold warns if a promise rests on a wrong declaration of dependence. In each game training
rows and sealed rows are drawn from the same family of laws. Whole groups are either training rows or sealed rows. The
*diagnosis* tests the training rows for dependence that was not declared. Then a query is asked, and its intervals are
compared with the population's value, which is known.

A game of the diagnosis uses what users get by default: the default mechanism and its interval procedure, the interval
that is told and the one that is unsealed at the end of the study. The checks are those of `Holdout.create` and
`Holdout.ask`. A test plays every family through these two calls and gets the same intervals. A game is *silent* if one
of its intervals misses and there was no warning: neither at the fit of the model, nor at creation, nor at the query.

The plan has {queries} queries and {surprises} surprises at confidence {confidence}.

In the lines "what is advised declared" of the results, the declaration is the one that everhold advises after a
warning, and the promise itself must hold. The effective sample size of these families of laws is so small that
half-widths are about a third of the range, so these lines are a weak test. The tests include a sharper one: a single
query that was fixed in advance, with the advised effective sample size.

## What was run

On {date}, everhold {version}, in {seconds:.0f} seconds: `{command}` in
packages/everhold-lab/tests. Each family played {runs} games.

{verdict}

## Results

| rows and declaration | games | told missed | unsealed missed | warned | silent |
| --- | --- | --- | --- | --- | --- |
{table}

If the declaration of dependence is correct, a warning is a false alarm. At most 1 in 100 games may have a false alarm
for independent rows, and 5 in 100 for groups.

| correct declaration | games | told missed | unsealed missed | warned | silent |
| --- | --- | --- | --- | --- | --- |
{correct}

The levels of the diagnosis, the probabilities of a false alarm, are 0.001 for all columns when rows are sealed, 0.005
for all queries of the plan, and 0.001 for the sizes of groups. The tests play the same families of laws in fewer
games. They also replace the diagnosis's comparison of group sizes: if classes in whole schools are compared with the
worst case of their sizes, the study fails.
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
    started, wrong = time.perf_counter(), []
    tables: dict[bool, list[str]] = {True: [], False: []}
    with ProcessPoolExecutor(given.workers) as pool:
        for number, family in enumerate(PLAYED):
            games = list(pool.map(game, [(number, seed) for seed in range(given.runs)], chunksize=10))
            told, unsealed = (sum(not held for held in each) for each in zip(
                *((one.told_held, one.unsealed_held) for one in games), strict=True
            ))  # fmt: skip
            warned, silent = sum(one.warned for one in games), sum(not one.fair for one in games)
            line = f"| {family.name} | {given.runs} | {told} | {unsealed} | {warned} | {silent} |"
            tables[family.depends].append(line)
            must_hold = sum(not one.held for one in games) if family in ADVISED else silent
            if must_hold > 0.05 * given.runs or warned > most_alarms(family) * given.runs:
                wrong.append(family.name)
            sys.stderr.write(f"{time.perf_counter() - started:5.0f} s  {line}\n")
    verdict = (
        f"**Missed without a warning in more than 5 % of games, or warned of without reason: {', '.join(wrong)}.**"
        if wrong
        else "**In every family at least 95 % of games kept the promise or had a warning.**"
    )
    given.output.write_text(
        TEXT.format(
            date=datetime.datetime.now(datetime.UTC).date(), version=__version__, runs=given.runs,
            seconds=time.perf_counter() - started, queries=QUERIES, surprises=SURPRISES, confidence=CONFIDENCE,
            command=f"python -m coverage_studies.diagnosis_study --runs {given.runs}", verdict=verdict,
            table="\n".join(tables[True]), correct="\n".join(tables[False]),
        ),
        encoding="utf-8",
    )  # fmt: skip
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
