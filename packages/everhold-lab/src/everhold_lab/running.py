"""Runs an experiment: seeds, processes, checkpoints and files, so that experiments are pure functions.

Every repetition of every setting is a task with a seed of its own. Tasks run in any number of processes; each process
computes with one thread, because sums of another number of threads may differ in their last digits.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import platform
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from everhold.arguments import whole
from everhold.charts import html_page, svg_text
from everhold.display import Display, columns_of, html_table, plain, write_parquet
from everhold_lab.charts import plots_available
from everhold_lab.experiments import EXPERIMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import pandas as pd

    from everhold_lab.experiments import Experiment, Picture, Row, Setting

    _Call = tuple[Experiment, Setting, "Task", int]


@dataclass(frozen=True, slots=True)
class SavedPicture:
    """A chart that was saved as a file beside the report.

    Attributes:
        title: Title that says what the picture shows.
        file: Name of its SVG file in the folder of results.
    """

    title: str
    caption: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Results(Display):
    """Results of an experiment: measured rows, summary, findings and saved pictures.

    Attributes:
        source: The paper and figure that it follows.
        about: Paragraph on what was done.
        repetitions: Number of repetitions of each setting.
        rows: All measured rows; each carries its setting, its repetition and the seed of its task.
        summary: The lines that are printed.
        findings: Claims of the experiment, each with whether the results support it.
        pictures: Pictures that were drawn. None if the extra ``[plots]`` is not installed.
    """

    experiment: str
    title: str
    source: str
    about: str
    parameters: Mapping[str, Any]
    repetitions: int
    seed: int
    rows: tuple[Row, ...]
    summary: tuple[Row, ...]
    findings: Mapping[str, bool]
    pictures: tuple[SavedPicture, ...] | None
    seconds: float
    machine: str
    everhold: str

    @property
    def kept(self) -> bool:
        """True if every finding holds."""
        return all(self.findings.values())

    def printed(self) -> dict[str, Any]:
        """Return the summary as ``everhold lab run --format json`` prints it."""
        return {"experiment": self.experiment, "rows": self.to_rows()}

    def to_dict(self) -> dict[str, Any]:
        """Return all results except the measured rows as plain data."""
        said = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "summary"}
        return {
            **said,
            "parameters": dict(self.parameters),
            "findings": [{"finding": finding, "kept": kept} for finding, kept in self.findings.items()],
            "pictures": None if self.pictures is None else [asdict(one) for one in self.pictures],
            "rows": self.to_rows(),
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the lines of the summary, all with the same names, None for numbers that are missing or infinite."""
        names = columns_of(self.summary)
        return [{name: plain(row.get(name)) for name in names} for row in self.summary]

    def to_frame(self) -> pd.DataFrame:
        """Return all measured rows as a pandas data frame (needs pandas)."""
        import pandas

        return pandas.DataFrame(list(self.rows), columns=columns_of(self.rows))


def write_text(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def save_pictures(experiment: str, pictures: Sequence[Picture], output: Path) -> tuple[SavedPicture, ...]:
    """Save every picture as SVG beside the report."""
    saved = []
    for picture in pictures:
        file = f"{experiment}-{picture.name}.svg"
        write_text(output / file, svg_text(picture.chart, title=picture.title))
        saved.append(SavedPicture(picture.title, picture.caption, file))
    return tuple(saved)


_NAME = "report.html"
_STYLE = """<style>
table { border-collapse: collapse; font-size: .85rem; } .wide { overflow-x: auto; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #8884; white-space: nowrap; }
.kept::before { content: "kept: "; color: #1a7f37; font-weight: bold; }
.broken::before { content: "NOT KEPT: "; color: #cf222e; font-weight: bold; } .small { font-size: .85rem; }
.findings { list-style: none; padding: 0; } figure { margin: 1.5rem 0; } section { margin-bottom: 4rem; }
@media (prefers-color-scheme: dark) { .kept::before { color: #3fb950; } .broken::before { color: #ff7b72; } }
</style>"""
_NO_PICTURES = "Pictures need Altair. Run <code>pip install 'everhold[plots]'</code>, then the same command again."
_NAMES = {each.name for each in fields(Results)} - {"summary"}
_MOST_LINES, _OPEN_LINES = 400, 40


def write_report(output: Path) -> Path:
    """Write the report of all experiments in a folder, and return its path."""
    page = output / _NAME
    found = {}
    for file in sorted(output.glob("*.json")):
        document = _read(file)
        if _can_be_shown(document, output) and document["experiment"] == file.stem:
            found[file.stem] = document
    names = [name for name in EXPERIMENTS if name in found]
    names += [name for name in found if name not in names]
    write_text(page, report_page([found[name] for name in names], output))
    return page


def report_page(documents: Sequence[Mapping[str, Any]], output: Path) -> str:
    """Return the report as one HTML page.

    Args:
        documents: One document for each experiment, as `Results.to_dict` returns it.
        output: The folder with their pictures.
    """
    contents = "".join(
        f'<li><a href="#{_text(document["experiment"])}">{_text(document["title"])}</a> {_verdict(document)}</li>'
        for document in documents
    )
    sections = "".join(_section(document, output) for document in documents)
    return html_page(
        f"{_STYLE}<ul>{contents}</ul>{sections}",
        title="Experiments of everhold",
        caption="Made by everhold lab run. The folder has all measured rows as Parquet.",
    )


def _read(file: Path) -> Any:
    """Return the content of a JSON file, or None if it cannot be read."""
    try:
        return json.loads(file.read_bytes())
    except (ValueError, RecursionError, OSError):
        return None


def _can_be_shown(document: Any, output: Path) -> bool:
    """Return whether a document has the form that a run writes, so that the report can show it."""
    if not isinstance(document, dict) or not document.keys() >= _NAMES:
        return False
    try:
        return bool(_section(document, output) + _verdict(document))
    except (TypeError, ValueError, LookupError, AttributeError, OSError):
        return False


def _section(document: Mapping[str, Any], output: Path) -> str:
    name = _text(document["experiment"])
    findings = "".join(
        f'<li class="{"kept" if one["kept"] else "broken"}">{_text(one["finding"])}</li>'
        for one in document["findings"]
    )
    parameters = ", ".join(f"{key} {_size(value)}" for key, value in document["parameters"].items())
    facts = (
        f"{document['repetitions']:,} repetitions{_of_usual(document)}, seed {document['seed']}, "
        f"{document['seconds']:,.0f} seconds of computing, {document['machine']}, everhold {document['everhold']}. "
        f"Sizes: {parameters or 'none'}."
    )
    return (
        f'<section id="{name}"><h2>{_text(document["title"])}</h2><p class="small">{_text(document["source"])}</p>'
        f'<p>{_text(document["about"])}</p><ul class="findings">{findings}</ul>'
        f"{_pictures(document, output)}{_table(document['rows'])}"
        f'<p class="small">{_text(facts)} <code>everhold lab run {name}</code></p></section>'
    )


def _verdict(document: Mapping[str, Any]) -> str:
    findings, broken = len(document["findings"]), sum(not one["kept"] for one in document["findings"])
    count = f"{broken} of {findings} findings" if broken else f"all {findings} findings"
    return f'<span class="{"broken" if broken else "kept"}">{count}{_of_usual(document)}</span>'


def _of_usual(document: Mapping[str, Any]) -> str:
    """Return a note that fewer repetitions than usual were played, or an empty text."""
    name = document["experiment"]
    usual = EXPERIMENTS[name].repetitions if name in EXPERIMENTS else 0
    return f" (a quick look: {usual:,} are usual)" if document["repetitions"] < usual else ""


def _size(value: Any) -> str:
    """Return a parameter as a text for the report. In a list, a dictionary with a name is shown by its name."""
    if isinstance(value, list):
        names = [str(one["name"]) if isinstance(one, dict) and "name" in one else _size(one) for one in value]
        return f"[{', '.join(names)}]"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _pictures(document: Mapping[str, Any], output: Path) -> str:
    if document["pictures"] is None:
        return f"<p>{_NO_PICTURES}</p>"
    figures = []
    for number, picture in enumerate(document["pictures"]):
        file = output / Path(picture["file"]).name  # of this folder, whatever the document says
        if file.suffix != ".svg" or not file.is_file():
            figures.append(f"<p>The picture {_text(file.name)} is no longer in the folder.</p>")
            continue
        prefix = f"{_text(document['experiment'])}-{number}-"
        svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}", file.read_text(encoding="utf-8"))
        caption = f"<strong>{_text(picture['title'])}.</strong> {_text(picture['caption'])}"
        figures.append(f"<figure>{svg}<figcaption>{caption}</figcaption></figure>")
    return "".join(figures)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    table = f'<div class="wide">{html_table(rows, _MOST_LINES)}</div>'
    opened = " open" if len(rows) <= _OPEN_LINES else ""
    return f"<details{opened}><summary>{len(rows):,} lines of numbers</summary>{table}</details>"


def _text(value: Any) -> str:
    return html.escape(str(value))


_FOLDER = "checkpoints"
_SHOWN_DIGITS = 16
_SEED_BITS = 63  # so that a seed fits a signed column


@dataclass(frozen=True, slots=True, order=True)
class Task:
    """One repetition of one setting of an experiment."""

    setting: int
    repetition: int


@dataclass(frozen=True, slots=True)
class Finished:
    """Result of a task: its seed, duration and rows."""

    seed: int
    seconds: float
    rows: list[dict[str, Any]]


def task_seed(seed: int, task: Task) -> int:
    """Return the seed of a task, which depends on the root seed and the task's two numbers only.

    Examples:
        >>> task_seed(0, Task(1, 2)) == task_seed(0, Task(1, 2)) != task_seed(0, Task(2, 1))
        True
    """
    state = np.random.SeedSequence(seed, spawn_key=(task.setting, task.repetition)).generate_state(1, np.uint64)
    return int(state[0]) >> (64 - _SEED_BITS)


def fingerprint_of(experiment: Experiment, *, seed: int, version: str) -> str:
    """Return a SHA-256 that changes with every input that determines the rows of an experiment's tasks."""
    identity = {
        "experiment": experiment.name,
        "parameters": parameters_of(experiment),
        "settings": [dict(setting) for setting in experiment.settings()],
        "seed": seed,
        "everhold": version,
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=as_json).encode()).hexdigest()


def parameters_of(experiment: Experiment) -> dict[str, Any]:
    """Return the parameters of an experiment as plain data."""
    given = asdict(experiment)  # type: ignore[call-overload]  # every experiment is a dataclass
    parameters: dict[str, Any] = json.loads(json.dumps(given, default=as_json))
    return parameters


def as_json(value: Any) -> Any:
    """Convert a value of NumPy or a collection for JSON, as the ``default`` of ``json.dumps``."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(
        f"A result or a parameter of the experiment has a value of type {type(value).__name__}. Pass numbers, texts "
        "and booleans."
    )


@dataclass(frozen=True, slots=True)
class RunCheckpoint:
    """File with the finished tasks of an experiment. A fingerprint identifies the experiment's parameters.

    Attributes:
        path: The checkpoint file. Runs with another fingerprint have another file.
        fingerprint: Fingerprint of the parameters from `fingerprint_of`, which every line carries.
    """

    path: Path
    fingerprint: str

    @classmethod
    def of(cls, output: Path, name: str, fingerprint: str) -> Self:
        """Return the checkpoint in a folder of results. If its last line is incomplete, a line break is added to it."""
        folder = output / _FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}-{fingerprint[:_SHOWN_DIGITS]}.jsonl"
        if _ends_open(path):
            with path.open("ab") as file:
                file.write(b"\n")
        return cls(path, fingerprint)

    def read(self) -> dict[Task, Finished]:
        """Return all finished tasks. Lines that are incomplete or have another fingerprint are ignored."""
        if not self.path.exists():
            return {}
        with self.path.open("rb") as file:
            return dict(self._understood(json_lines(file)))

    def add(self, task: Task, finished: Finished) -> None:
        """Write a finished task to disk."""
        line = {"fingerprint": self.fingerprint, **asdict(task), **asdict(finished)}
        with self.path.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _understood(self, lines: Iterator[Any]) -> Iterator[tuple[Task, Finished]]:
        for line in lines:
            if isinstance(line, dict) and line.get("fingerprint") == self.fingerprint and _is_whole(line):
                yield (Task(line["setting"], line["repetition"]), Finished(line["seed"], line["seconds"], line["rows"]))


def _is_whole(line: Mapping[str, Any]) -> bool:
    """Return whether a line of a checkpoint has all fields that `RunCheckpoint.add` writes."""
    seconds, rows = line.get("seconds"), line.get("rows")
    return (
        all(type(line.get(name)) is int for name in ("setting", "repetition", "seed"))
        and type(seconds) in (int, float)
        and isinstance(rows, list)
        and all(isinstance(row, dict) for row in rows)
    )


def json_lines(lines: Iterator[bytes] | Any) -> Iterator[Any]:
    """Yield the JSON value of each line. Lines that are not JSON are ignored."""
    for line in lines:
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            continue


def _ends_open(path: Path) -> bool:
    """Return whether a file ends in the middle of a line."""
    if not path.exists() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


_EXTRA = "pip install 'everhold-lab'"
_MOST_SEED = 2**63 - 1


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
    continues from them. A larger number of repetitions adds to the finished ones. Other sizes or another seed start
    from the beginning.

    Args:
        experiment: Experiment to run.
        output: The folder; it is made if it does not exist.
        repetitions: Number of repetitions of each setting. The default is the experiment's own number.
        jobs: Processes; by default one for each core.
        seed: Seed of the whole run, from 0 to 2^63 - 1. The same seed gives the same rows with any number of jobs.
        progress: Function that is called with the number of finished tasks and the number of all tasks.

    Raises:
        ValueError: If a number is not valid.
        ModuleNotFoundError: If a package that the lab needs is not installed.
        OSError: If the folder cannot be written.
    """
    wanted = experiment.repetitions if repetitions is None else repetitions
    workers = (os.cpu_count() or 1) if jobs is None else jobs
    for name, number in (("repetitions", wanted), ("jobs", workers)):
        whole(number, name)
    whole(seed, "seed", least=0, most=_MOST_SEED)
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    from everhold import __version__ as version

    checkpoint = RunCheckpoint.of(folder, experiment.name, fingerprint_of(experiment, seed=seed, version=version))
    settings = [dict(setting) for setting in experiment.settings()]
    tasks = [Task(setting, repetition) for setting in range(len(settings)) for repetition in range(wanted)]
    calls = [(experiment, settings[task.setting], task, task_seed(seed, task)) for task in tasks]
    _finish(calls, checkpoint, jobs=workers, progress=progress)
    finished = checkpoint.read()
    rows = [
        {**settings[task.setting], "repetition": task.repetition, "seed": finished[task].seed, **row}
        for task in tasks
        for row in finished[task].rows
    ]
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
        summary=tuple(json.loads(json.dumps(summary, default=as_json))),
        findings={finding: bool(kept) for finding, kept in experiment.findings(summary, rows).items()},
        pictures=drawn,
        seconds=sum(finished[task].seconds for task in tasks),
        machine=(  # in words, without its name
            f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
            f"numpy {np.__version__}"
        ),
        everhold=version,
    )
    write_parquet(folder / f"{experiment.name}.parquet", rows)
    write_text(folder / f"{experiment.name}.json", json.dumps(results.to_dict(), indent=1, allow_nan=False) + "\n")
    write_report(folder)
    return results


def _finish(
    calls: Sequence[_Call], checkpoint: RunCheckpoint, *, jobs: int, progress: Callable[[int, int], None]
) -> None:
    """Run every task that is missing from the checkpoint, and add its result."""
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
    """Run tasks in parallel, and yield their results in the order of completion."""
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
    """Run one task.

    Its rows are converted to JSON and back, so that they equal rows that were read from a checkpoint.
    """
    began = time.perf_counter()
    rows: list[Mapping[str, Any]] = json.loads(json.dumps(experiment.play(dict(setting), seed), default=as_json))
    return task, Finished(seed, time.perf_counter() - began, [dict(row) for row in rows])


@contextmanager
def _extra_explained() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as fault:
        raise ModuleNotFoundError(
            f"The lab needs the package {fault.name}. Install it: {_EXTRA}.", name=fault.name
        ) from None
