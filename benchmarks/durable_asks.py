"""Sequential durable asks on 100,000 rows, beside Optuna's ``tell`` and what the disk itself takes, in one run.

All four take turns, five steps each, and the ratios are medians over the rounds. "Floor" is what no ledger of this kind
can do without: one bare commit to SQLite (write-ahead log, synchronous = FULL) and one write of 512 bytes to a file of
fixed length, each brought to the disk, for the budget is committed before an answer leaves, and the newest head is kept
outside the database. Optuna's ``tell`` is on SQLite, and brings something to the disk four times.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import tempfile
import time
import warnings
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import optuna

from benchmarks.timing import seconds
from everhold import Holdout, accuracy
from everhold.sealing.intake.request import Planning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS, ROUNDS, STEPS = 100_000, 60, 5
_sync = getattr(os, "fdatasync", os.fsync)


def measure() -> list[dict[str, object]]:
    """One line for each step, with its ratios to Optuna's."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")
        steps = {
            "everhold ask": _everhold(folder, stack),
            "Optuna tell": _optuna(folder),
            "floor: commit and head": _floor(folder, stack),
            "bare commit": _bare_commit(f"{folder}/bare.db", stack),
        }
        rounds = [{name: _timed(step) for name, step in steps.items()} for _ in range(ROUNDS + 1)][1:]
    return [
        {
            "step": name,
            "ms": statistics.median(taken[name][0] for taken in rounds) * 1e3,
            "of the processor": statistics.median(taken[name][1] for taken in rounds) * 1e3,
            "ratio to tell": statistics.median(taken[name][0] / taken["Optuna tell"][0] for taken in rounds),
            "processor's ratio": statistics.median(taken[name][1] / taken["Optuna tell"][1] for taken in rounds),
            "ratio to floor": statistics.median(
                taken[name][0] / taken["floor: commit and head"][0] for taken in rounds
            ),
        }
        for name in steps
    ]


def _timed(step: Callable[[], object]) -> tuple[float, float]:
    """Seconds of one step on the wall's clock and on the processor's."""
    before = time.process_time()
    taken = seconds(lambda: [step() for _ in range(STEPS)])
    return taken / STEPS, (time.process_time() - before) / STEPS


def _everhold(folder: str, stack: ExitStack) -> Callable[[], object]:
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 2, ROWS)
    holdout = stack.enter_context(
        Holdout.create(
            f"{folder}/asks.db", "asks", holdout={"y": labels}, label="y", queries=2 * ROUNDS * STEPS, surprises=10,
            mechanism="guess_and_check", planning=Planning(allow_vacuous=True),
        )
    )  # fmt: skip
    queries = _changed(rng.integers(0, 2, ROWS))
    return lambda: holdout.ask(accuracy(next(queries)), guess=0.5)


def _changed(predictions: np.ndarray) -> Iterator[np.ndarray]:
    """New predictions every time."""
    for place in range(ROWS):
        predictions[place] ^= 1
        yield predictions


def _optuna(folder: str) -> Callable[[], object]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage=f"sqlite:///{folder}/optuna.db", direction="maximize")
    trials = iter([study.ask() for _ in range((ROUNDS + 1) * STEPS)])
    return lambda: study.tell(next(trials), 0.5)


def _bare_commit(path: str, stack: ExitStack) -> Callable[[], object]:
    bare = stack.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
    for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "CREATE TABLE entries (text)"):
        bare.execute(statement)
    return lambda: bare.execute("INSERT INTO entries VALUES (?)", ("x" * 700,))


def _floor(folder: str, stack: ExitStack) -> Callable[[], object]:
    commit, path = _bare_commit(f"{folder}/floor.db", stack), Path(folder) / "floor.head"
    path.write_bytes(bytes(512))

    def step() -> None:
        commit()
        with path.open("r+b", buffering=0) as file:
            file.write(bytes(512))
            _sync(file.fileno())

    return step
