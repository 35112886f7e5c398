"""Runs an experiment: seeds, processes, checkpoints and files, so that experiments are pure functions.

Every repetition of every setting is a task with a seed of its own. Tasks run in any number of processes; each process
computes with one thread, because sums of another number of threads may differ in their last digits.
"""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold_lab.charts import plots_available
from everhold_lab.running.checkpoint import (
    Finished,
    RunCheckpoint,
    Task,
    fingerprint_of,
    parameters_of,
    plain,
    task_seed,
)
from everhold_lab.running.results import Results, save_pictures, write_parquet, write_text
from everhold_lab.running.results_page import write_report

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from everhold_lab.experiments.base import Experiment, Row, Setting

    _Call = tuple[Experiment, Setting, Task, int]

__all__ = ["run"]

_EXTRA = "pip install 'everhold-lab'"
_MOST_SEED = 2**63


def run(
    experiment: Experiment,
    output: Path | str,
    *,
    repetitions: int | None = None,
    jobs: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Results:
    """Run an experiment, or continue a run that was interrupted, and write its files.

    Into the folder go ``NAME.parquet`` with all measured rows, ``NAME.json`` with everything else, the pictures as SVG
    and ``report.html`` about all experiments of this folder. Finished tasks are kept in ``checkpoints/``: the same call
    continues there; more repetitions are added to those that there are; other sizes or another seed start anew.

    Args:
        experiment: What is run.
        output: The folder; it is made if it does not exist.
        repetitions: Of each setting; by default as many as the experiment says.
        jobs: Processes; by default one for each core.
        seed: Of everything, from 0 to 2^63 - 1; the same seed gives the same rows with any number of jobs.
        progress: Called with the finished tasks and all tasks.

    Raises:
        ValueError: If a number is not valid.
        ModuleNotFoundError: If a package that the lab needs is not installed.
        OSError: If the folder cannot be written.
    """
    wanted = experiment.repetitions if repetitions is None else repetitions
    workers = (os.cpu_count() or 1) if jobs is None else jobs
    _check(repetitions=wanted, jobs=workers, seed=seed)
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    version = _version()
    checkpoint = RunCheckpoint.of(folder, experiment.name, fingerprint_of(experiment, seed=seed, version=version))
    settings = [dict(setting) for setting in experiment.settings()]
    tasks = [Task(setting, repetition) for setting in range(len(settings)) for repetition in range(wanted)]
    calls = [(experiment, settings[task.setting], task, task_seed(seed, task)) for task in tasks]
    _finish(calls, checkpoint, jobs=workers, progress=progress)
    finished = checkpoint.read()
    rows = [row for task in tasks for row in _rows_of(task, settings[task.setting], finished[task])]
    summary = experiment.summary(rows)
    drawn = save_pictures(experiment.name, experiment.pictures(summary, rows), folder) if plots_available() else None
    results = Results(
        experiment=experiment.name,
        title=experiment.title,
        source=experiment.source,
        about=experiment.about,
        parameters=parameters_of(experiment),
        repetitions=wanted,
        seed=seed,
        rows=tuple(rows),
        summary=tuple(json.loads(json.dumps(summary, default=plain))),
        findings={finding: bool(kept) for finding, kept in experiment.findings(summary, rows).items()},
        pictures=drawn,
        seconds=sum(finished[task].seconds for task in tasks),
        machine=_machine(),
        version=version,
    )
    write_parquet(folder / f"{experiment.name}.parquet", rows)
    write_text(folder / f"{experiment.name}.json", json.dumps(results.to_dict(), indent=1, allow_nan=False) + "\n")
    write_report(folder)
    return results


def _check(*, repetitions: int, jobs: int, seed: int) -> None:
    for name, value in (("repetitions", repetitions), ("jobs", jobs)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r}; expected a whole number of at least 1")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < _MOST_SEED:
        raise ValueError(f"seed is {seed!r}; expected a whole number from 0 to 2^63 - 1")


def _rows_of(task: Task, setting: Setting, finished: Finished) -> Iterator[Row]:
    for row in finished.rows:
        yield {**setting, "repetition": task.repetition, "seed": finished.seed, **row}


def _finish(
    calls: Sequence[_Call], checkpoint: RunCheckpoint, *, jobs: int, progress: Callable[[int, int], None]
) -> None:
    """Play every task that is not in the checkpoint yet, and add it there as soon as it is over."""
    known = checkpoint.read()
    left = [call for call in calls if call[2] not in known]
    done = len(calls) - len(left)
    progress(done, len(calls))
    with closing(_played(left, jobs=min(jobs, max(len(left), 1)))) as played:  # also after a fault, and at once
        for task, finished in played:
            checkpoint.add(task, finished)
            done += 1
            progress(done, len(calls))


def _played(calls: Sequence[_Call], *, jobs: int) -> Generator[tuple[Task, Finished], None, None]:
    """Play tasks, in the order in which they end."""
    with _extra_explained():
        import joblib
        from threadpoolctl import threadpool_limits
    if jobs == 1:
        for call in calls:
            with threadpool_limits(1):
                played = _play(*call)
            yield played
        return
    with joblib.parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1):
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
        running = parallel(joblib.delayed(_play)(*call) for call in calls)
        try:
            for played in running:  # no "yield from": it would close the other one first
                yield played
        finally:
            with warnings.catch_warnings():  # joblib tells that the rest was cancelled, as it should be after a fault
                warnings.simplefilter("ignore", UserWarning)
                running.close()


def _play(experiment: Experiment, setting: Setting, task: Task, seed: int) -> tuple[Task, Finished]:
    """One task; its rows go through JSON here, so that they are the same whether read back or not."""
    began = time.perf_counter()
    rows: list[Mapping[str, Any]] = json.loads(json.dumps(experiment.play(dict(setting), seed), default=plain))
    return task, Finished(seed, time.perf_counter() - began, [dict(row) for row in rows])


@contextmanager
def _extra_explained() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as fault:
        raise ModuleNotFoundError(
            f"the lab needs the package {fault.name}; install it with {_EXTRA}", name=fault.name
        ) from None


def _version() -> str:
    from everhold import __version__

    return __version__


def _machine() -> str:
    """The machine in words, without its name."""
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"numpy {np.__version__}"
    )
