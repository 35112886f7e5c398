"""1,000 sequential durable asks on 100,000 rows, beside Optuna's ``tell`` of 1,000 trials on SQLite."""

from __future__ import annotations

import tempfile
import warnings

import numpy as np
import optuna

from benchmarks.timing import seconds
from everhold import Holdout, accuracy

ROWS, ASKS = 100_000, 1_000


def measure() -> list[dict[str, object]]:
    """One line; both write one durable transaction (or more) per step to SQLite on the same disk."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, peer = _everhold(folder), _optuna(folder)
    return [
        {
            "steps": ASKS,
            "everhold ask ms": ours / ASKS * 1e3,
            "Optuna tell ms": peer / ASKS * 1e3,
            "ratio": ours / peer,
        }
    ]


def _everhold(folder: str) -> float:
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 2, 2 * ROWS)
    predictions = [rng.integers(0, 2, ROWS) for _ in range(10)]
    with Holdout.create(
        f"{folder}/asks.db", "asks", holdout={"y": labels[:ROWS]}, label="y", queries=ASKS, overfits=10,
        mechanism="guess_and_check", allow_vacuous=True,
    ) as holdout:  # fmt: skip

        def ask_all() -> None:
            for step in range(ASKS):
                changed = predictions[step % 10].copy()
                changed[step] ^= 1  # a new question every time
                holdout.ask(accuracy(changed), guess=0.5)

        return seconds(ask_all)


def _optuna(folder: str) -> float:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage=f"sqlite:///{folder}/optuna.db", direction="maximize")
    trials = [study.ask() for _ in range(ASKS)]
    return seconds(lambda: [study.tell(trial, 0.5) for trial in trials])
