"""Finals of competitions: 50 teams by macro F1, a submission, and what ten competitions leave in memory.

5,000 sealed rows, and one file of each team. "Final" is `unseal` with all scores and comparisons, in seconds of the
processor; "submission" is the median of the teams' arrays in a process, by the clock, each durable; "file" that of ten
CSV files that a worker reads first, as in a service. Memory is what the process holds after the holdout is closed; the
first competition loads what all of them use.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import everhold as eh
from everhold.display import text_table
from everhold_server.untrusted.files import read_untrusted

__all__ = ["measure"]

_ROWS, _TEAMS, _CONTESTS, _FILES = 5_000, 50, 10, 10


def measure() -> list[dict[str, Any]]:
    """One line for each competition that is held after the other."""
    return [_held(number) for number in range(1, _CONTESTS + 1)]


def _held(number: int) -> dict[str, Any]:
    rng = np.random.default_rng(number)
    truth = rng.integers(0, 2, _ROWS)
    terms = eh.Competition(metric="f1_macro", teams=_TEAMS, submissions=1)
    with tempfile.TemporaryDirectory() as folder, eh.Holdout.create(
        f"sqlite:///{folder}/s.db", "contest", holdout={"y": truth}, label="y", rows=eh.Rows(features="public"),
        competition=terms,
    ) as holdout:  # fmt: skip
        took: dict[bool, list[float]] = {True: [], False: []}
        for team in range(_TEAMS):
            right = rng.random(_ROWS) < 0.9 - 0.002 * team
            predictions, path = np.where(right, truth, 1 - truth), Path(folder) / "team.csv"
            path.write_text("prediction\n" + "\n".join(map(str, predictions)))
            as_file, begun = team < _FILES, time.perf_counter()
            handed_in = read_untrusted(path, holdout.schema, name="team.csv") if as_file else predictions
            holdout.competition.submit(handed_in, team=f"team {team}")
            took[as_file].append(1_000.0 * (time.perf_counter() - begun))
        processor = time.process_time()
        holdout.unseal()
        final, board = time.process_time() - processor, holdout.competition.leaderboard()
    return {
        "competition": number, "submission (ms)": round(median(took[False]), 1),
        "file (ms)": round(median(took[True]), 1),
        "final (processor s)": round(final, 1), "pairs": len(board.comparisons),
        "ms a pair": round(1_000.0 * final / len(board.comparisons), 1), "memory (MB)": round(_memory(), 1),
    }  # fmt: skip


def _memory() -> float:
    """Return the memory that this process holds, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    print(text_table(measure()))
