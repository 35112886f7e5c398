"""The README's line as a user writes it, durable: text and array queries on 20,000 sealed and 20,000 training rows.

Beside it runs Optuna's ``tell`` on a durable SQLite storage. All steps take turns, five each, and the ratios are
medians over the rounds. Every text is a new expression, so its dependence on the training rows is tested. "Repeat" asks
one of them again. "Rows apart" is what a text takes besides the evaluation of its row values.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna

from benchmarks.timing import seconds
from everhold import Holdout, accuracy
from everhold.sealing.rows.table import StoredRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

ROWS, ROUNDS, STEPS = 20_000, 60, 5
_ASKS = 4 * (ROUNDS + 1) * STEPS
_EVALUATIONS = ("evaluate", "totals", "block_totals", "each_grid")


def measure() -> list[dict[str, object]]:
    """One line for each step, with its ratios to Optuna's."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")
        steps, in_rows = _steps(folder, stack)
        rounds = []
        for _ in range(ROUNDS + 1):
            line = {}
            for name, step in steps.items():
                before = in_rows[0]
                line[name] = *_timed(step), (in_rows[0] - before) / STEPS
            rounds.append(line)
    del rounds[0]
    return [
        {
            "step": name,
            "ms": statistics.median(taken[name][0] for taken in rounds) * 1e3,
            "rows apart": statistics.median(taken[name][0] - taken[name][2] for taken in rounds) * 1e3,
            "of the processor": statistics.median(taken[name][1] for taken in rounds) * 1e3,
            "ratio to tell": statistics.median(taken[name][0] / taken["Optuna tell"][0] for taken in rounds),
            "processor's ratio": statistics.median(taken[name][1] / taken["Optuna tell"][1] for taken in rounds),
        }
        for name in steps
    ]


def _timed(step: Callable[[], object]) -> tuple[float, float]:
    """Seconds of one step on the wall's clock and on the processor's."""
    before = time.process_time()
    taken = seconds(lambda: [step() for _ in range(STEPS)])
    return taken / STEPS, (time.process_time() - before) / STEPS


def _steps(folder: str, stack: ExitStack) -> tuple[dict[str, Callable[[], object]], list[float]]:
    rng = np.random.default_rng(2)
    sealed, training = ({"delay": rng.normal(5.0, 30.0, ROWS), "y": rng.integers(0, 2, ROWS)} for _ in range(2))
    holdout = stack.enter_context(
        Holdout.create(
            f"sqlite:///{folder}/headline.db", "headline", holdout=sealed, training=training, label="y", queries=_ASKS,
        )
    )  # fmt: skip
    in_rows = _time_in_rows(stack)
    cuts, changed = iter(np.linspace(-60.0, 60.0, _ASKS)), _changed(rng.integers(0, 2, ROWS))
    guessed, trained = _changed(rng.integers(0, 2, ROWS)), rng.integers(0, 2, ROWS)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage=f"sqlite:///{folder}/optuna.db", direction="maximize")
    trials = iter([study.ask() for _ in range((ROUNDS + 1) * STEPS)])
    holdout.ask("delay > 15")
    steps: dict[str, Callable[[], object]] = {
        "text": lambda: holdout.ask(f"delay > {next(cuts):.6f}", strict=True),
        "array, with training": lambda: holdout.ask(accuracy(next(changed), training=trained), strict=True),
        "array": lambda: holdout.ask(accuracy(next(guessed)), guess=0.5, strict=True),
        "repeat": lambda: holdout.ask("delay > 15"),
        "Optuna tell": lambda: study.tell(next(trials), 0.5),
    }
    return steps, in_rows


def _time_in_rows(stack: ExitStack) -> list[float]:
    """Seconds spent in evaluations of rows from now on, the only item of a list."""
    spent, depth = [0.0], [0]

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **more: Any) -> Any:
            depth[0] += 1
            before = time.perf_counter()
            try:
                return method(*arguments, **more)
            finally:
                depth[0] -= 1
                if not depth[0]:
                    spent[0] += time.perf_counter() - before

        return run

    for name in _EVALUATIONS:
        if (method := StoredRows.__dict__.get(name)) is not None:
            setattr(StoredRows, name, timed(method))
            stack.callback(setattr, StoredRows, name, method)
    return spent


def _changed(predictions: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """New predictions every time."""
    for place in range(ROWS):
        predictions[place] ^= 1
        yield predictions
