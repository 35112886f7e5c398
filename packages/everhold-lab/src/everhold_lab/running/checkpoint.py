"""Finished tasks of an experiment, one JSON line each, so that a run that was killed continues where it was.

The parent process alone writes. A line counts once it is complete; what a kill left of a line is closed with a newline,
is no JSON, and its task is played again. Every run, also one that was never interrupted, takes its rows from
these lines, so both give the same rows.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from everhold_lab.experiments.base import Experiment

_FOLDER = "checkpoints"
_SHOWN_DIGITS = 16
_SEED_BITS = 63  # so that a seed fits a signed column


@dataclass(frozen=True, slots=True, order=True)
class Task:
    """One repetition of one setting."""

    setting: int
    repetition: int


@dataclass(frozen=True, slots=True)
class Finished:
    """Result of a task."""

    seed: int
    seconds: float
    rows: list[dict[str, Any]]


def task_seed(seed: int, task: Task) -> int:
    """The seed of a task, which depends on nothing but the root seed and the two numbers.

    Examples:
        >>> task_seed(0, Task(1, 2)) == task_seed(0, Task(1, 2)) != task_seed(0, Task(2, 1))
        True
    """
    state = np.random.SeedSequence(seed, spawn_key=(task.setting, task.repetition)).generate_state(1, np.uint64)
    return int(state[0]) >> (64 - _SEED_BITS)


def fingerprint_of(experiment: Experiment, *, seed: int, version: str) -> str:
    """SHA-256 of all that decides about the rows of a task; the number of repetitions does not."""
    identity = {
        "experiment": experiment.name,
        "parameters": parameters_of(experiment),
        "settings": [dict(setting) for setting in experiment.settings()],
        "seed": seed,
        "everhold": version,
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=plain).encode()).hexdigest()


def parameters_of(experiment: Experiment) -> dict[str, Any]:
    """The sizes of an experiment as plain data."""
    given = asdict(experiment)  # type: ignore[call-overload]  # every experiment is a dataclass
    parameters: dict[str, Any] = json.loads(json.dumps(given, default=plain))
    return parameters


def plain(value: Any) -> Any:
    """A value of numpy, or a collection, as `json` can write it; for ``json.dumps(default=)``."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"a row holds a {type(value).__name__}; expected numbers, texts and truth values")


@dataclass(frozen=True, slots=True)
class RunCheckpoint:
    """The file of finished tasks of one experiment with one fingerprint.

    Attributes:
        path: The file; runs with another fingerprint have another one.
        fingerprint: As `fingerprint_of` computes it; every line carries it.
    """

    path: Path
    fingerprint: str

    @classmethod
    def of(cls, output: Path, name: str, fingerprint: str) -> Self:
        """The checkpoint in a folder of results; its own folder is made, and a broken last line closed."""
        folder = output / _FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}-{fingerprint[:_SHOWN_DIGITS]}.jsonl"
        if _ends_open(path):
            with path.open("ab") as file:
                file.write(b"\n")
        return cls(path, fingerprint)

    def read(self) -> dict[Task, Finished]:
        """All finished tasks; a line that is broken or of another run does not count."""
        if not self.path.exists():
            return {}
        with self.path.open("rb") as file:
            return dict(self._understood(json_lines(file)))

    def add(self, task: Task, finished: Finished) -> None:
        """Make a finished task durable."""
        line = {"fingerprint": self.fingerprint, **asdict(task), **asdict(finished)}
        with self.path.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _understood(self, lines: Iterator[Any]) -> Iterator[tuple[Task, Finished]]:
        for line in lines:
            if isinstance(line, dict) and line.get("fingerprint") == self.fingerprint and _is_whole(line):
                yield _finished(line)


def _is_whole(line: Mapping[str, Any]) -> bool:
    """True if a line has all that `RunCheckpoint.add` writes."""
    seconds, rows = line.get("seconds"), line.get("rows")
    return (
        all(type(line.get(name)) is int for name in ("setting", "repetition", "seed"))
        and type(seconds) in (int, float)
        and isinstance(rows, list)
        and all(isinstance(row, dict) for row in rows)
    )


def _finished(line: Mapping[str, Any]) -> tuple[Task, Finished]:
    return Task(line["setting"], line["repetition"]), Finished(line["seed"], line["seconds"], line["rows"])


def json_lines(lines: Iterator[bytes] | Any) -> Iterator[Any]:
    """Document of each line; a line that is no JSON is left out."""
    for line in lines:
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            continue


def _ends_open(path: Path) -> bool:
    """True if a file ends in the middle of a line."""
    if not path.exists() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
