"""Does work for unknown senders, each piece in its own process with hard limits of memory, time and output.

Somebody can write a file that crashes a reader or exhausts its memory, or ask for a plan that takes minutes. So each
file is read, and each plan is made, by a worker process, whose memory holds no key, no ledger and no sealed rows. Its
result comes back as JSON, so that only numbers and texts can reach the service. The service and the MCP server read all
files of others with `read_in_worker`: predictions, results of cases, rows to be sealed, and certificates.

One process imports the code once, and forks a worker for each job. The worker ends after its job, so a file cannot
affect how the next one is read, and no job waits for imports.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold import errors
from everhold.display import printable
from everhold.errors import EverholdError, QueryRejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

sender: ContextVar[str] = ContextVar("sender", default="")
"""Who sent a file, such as the token of a request: of each sender one file is read at a time."""

_SLOWER = 3  # seconds on a clock for each of processor time: the machine may be busy
_LONGEST_MESSAGE = 1_000
_START = "from everhold_server.untrusted.worker import serve; serve()"
_FORKS = hasattr(os, "fork")
_KEPT = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "LANG", "LC_ALL")  # of the environment, which may hold passwords
_AT_ONCE = max(os.cpu_count() or 1, 2)
_BUSY: Counter[str] = Counter()
_FREED = threading.Condition()


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """Limits of memory, time and output for the worker of one job.

    Attributes:
        content: Largest size in bytes of the file that it reads. A larger file is not opened.
        memory: Largest address space in bytes, including Python and its packages. It has to be generous, because an
            engine reserves far more than it uses.
        seconds: Processor time, in seconds.
        written: Largest size of the worker's result in bytes.
    """

    content: int = 0
    memory: int = 3 * 2**30
    seconds: float = 20
    written: int = 2**25


def read_in_worker(
    reader: str, path: Path, *, name: str, limits: WorkLimits, advice: str,
    refusal: type[EverholdError] = QueryRejected, **task: Any,
) -> Any:  # fmt: skip
    """Read a file of an unknown sender in a worker process, and return what the reader found.

    Args:
        reader: Function as ``"module:function"``. The worker calls it with the path as a text, the name and the task,
            and it returns plain data.
        path: The file to read.
        name: Name of the file in messages.
        limits: Limits of the worker's memory, time and output.
        advice: Sentence at the end of the error's message.
        refusal: Class of the error if the file cannot be read.
        **task: Further arguments of the reader, as plain data.

    Raises:
        EverholdError: The error of the reader; or `refusal`, if the file cannot be read within the limits.
    """
    exceeded = refusal(f"{name} cannot be read within the limits of memory and time for one file. {advice}")
    if path.stat().st_size > limits.content:
        raise refusal(f"{name} has {path.stat().st_size:,} bytes, more than the limit of {limits.content:,}. {advice}")
    try:
        with _turn(sender.get()):
            return in_worker(reader, {"path": str(path.absolute()), "name": name, **task}, limits)
    except WorkerEnded as ended:
        raise (refusal(f"{name} cannot be read. {advice}") if ended.has_fault else exceeded) from None


class WorkerEnded(Exception):
    """A worker ended without a result: beyond its limits, by `end_worker`, or with a fault that nobody expected.

    Attributes:
        has_fault: Whether its function failed.
    """

    def __init__(self, *, has_fault: bool) -> None:
        self.has_fault = has_fault


def in_worker(
    function: str, arguments: Mapping[str, Any], limits: WorkLimits, *,
    begun: Callable[[int], None] = lambda number: None,
) -> Any:  # fmt: skip
    """Call a function in a worker process, and return its result.

    Args:
        function: Function as ``"module:function"``, which returns plain data.
        arguments: Its arguments by name, as plain data.
        limits: Limits of the worker's memory, time and output.
        begun: Function that is called with the number of the job, by which `end_worker` ends it.

    Raises:
        EverholdError: The error of the function.
        WorkerEnded: If the worker ended without a result.
    """
    with tempfile.TemporaryDirectory(prefix="everhold-") as folder:
        into = Path(folder) / "found.json"
        job = {"function": function, "arguments": dict(arguments), "into": str(into), "limits": asdict(limits)}
        try:
            _WORKERS.perform({**job, "seconds": _SLOWER * limits.seconds}, begun)
            said = json.loads(into.read_bytes())
        except (OSError, ValueError):
            raise WorkerEnded(has_fault=False) from None
    if "refused" in said:
        kind = getattr(errors, said["refused"] or "-", None)
        if not (isinstance(kind, type) and issubclass(kind, EverholdError)):
            raise WorkerEnded(has_fault=True)
        raise kind(printable(str(said["message"]))[:_LONGEST_MESSAGE], **said["data"])
    return said["found"]


def end_worker(number: int) -> None:
    """End the worker of a job that has begun, if it has not ended."""
    _WORKERS.end(number)


@contextlib.contextmanager
def _turn(of: str) -> Iterator[None]:
    """Return a context that waits for a free worker and occupies it. A known sender occupies one at most."""
    with _FREED:
        _FREED.wait_for(lambda: _BUSY.total() < _AT_ONCE and not (of and _BUSY[of]))
        _BUSY[of] += 1
    try:
        yield
    finally:
        with _FREED:
            _BUSY[of] -= 1
            _FREED.notify_all()


class _Workers:
    """The process that splits off a worker for each job, started when it is needed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: dict[int, Future[None]] = {}
        self._numbers = itertools.count()

    def perform(self, job: Mapping[str, Any], begun: Callable[[int], None]) -> None:
        """Have one job done, tell its number, and wait for the end of its worker.

        Raises:
            OSError: If the process that makes workers ends, or the worker does not end in time.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self.close()
                self._process, self._waiting = self._started()
            process, number, ended = self._process, next(self._numbers), Future[None]()
            self._waiting[number] = ended
            _send(process, {**job, "number": number})
        begun(number)
        try:
            ended.result(job["seconds"] + _SLOWER)
        except TimeoutError:
            process.kill()
            raise

    def end(self, number: int) -> None:
        """End the worker of a job, if it has not ended."""
        with self._lock, contextlib.suppress(OSError):
            if self._process is not None:
                _send(self._process, {"end": number})

    def close(self) -> None:
        """End the process, if it was started."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            self._process.wait()
            self._process = None

    def _started(self) -> tuple[subprocess.Popen[bytes], dict[int, Future[None]]]:
        process, waiting = _start_process(_START), dict[int, Future[None]]()
        threading.Thread(target=_listen, args=(process, waiting), daemon=True).start()
        return process, waiting


def _send(process: subprocess.Popen[bytes], document: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(document).encode() + b"\n")
    process.stdin.flush()


def _start_process(code: str) -> subprocess.Popen[bytes]:
    """Start a process that runs this Python code, with pipes, and without secrets of the environment."""
    environment = {key: os.environ[key] for key in _KEPT if key in os.environ}
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def _listen(process: subprocess.Popen[bytes], waiting: dict[int, Future[None]]) -> None:
    """Read from the worker process which workers ended, and notify the threads that wait for them."""
    assert process.stdout is not None
    with process.stdout as numbers:
        for line in numbers:
            waiting.pop(int(line)).set_result(None)
    while waiting:
        waiting.popitem()[1].set_exception(OSError("the process ended"))


_WORKERS = _Workers()
atexit.register(_WORKERS.close)


def serve() -> None:
    """Split off a worker for each job of standard input, and tell the number of each job whose worker ended.

    The process that does this runs until its input ends. It kills workers that take too long.
    """
    if not _FORKS:
        job = json.loads(sys.stdin.readline())
        work(job)
        sys.stdout.write(f"{job['number']}\n")
        return
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    received, running = b"", dict[int, tuple[int, float]]()  # by the worker: number of the job, and its last moment
    while True:
        last = min((until for _, until in running.values()), default=math.inf)
        ready, _, _ = select.select([0, woken], [], [], None if last == math.inf else max(last - time.monotonic(), 0.0))
        if woken in ready:
            os.read(woken, 2**12)
        if 0 in ready:
            if not (more := os.read(0, 2**16)):
                for worker in running:
                    os.kill(worker, signal.SIGKILL)
                return
            *lines, received = (received + more).split(b"\n")
            for job in map(json.loads, lines):
                if "end" in job:
                    for worker in [each for each, (number, _) in running.items() if number == job["end"]]:
                        os.kill(worker, signal.SIGKILL)
                    continue
                with contextlib.suppress(ImportError):
                    import_module(job["function"].partition(":")[0])
                if not (worker := os.fork()):
                    _work_apart(job)
                running[worker] = job["number"], time.monotonic() + job["seconds"]
        for worker, (_, until) in running.items():
            if time.monotonic() >= until:
                os.kill(worker, signal.SIGKILL)
        while running and (worker := os.waitpid(-1, os.WNOHANG)[0]):
            os.write(1, b"%d\n" % running.pop(worker)[0])


def _work_apart(job: dict[str, Any]) -> None:
    """Do one job in a worker that was split off, and end it."""
    try:
        signal.set_wakeup_fd(-1)
        os.closerange(0, 2**10)  # the pipes of the process that it comes from
        for _ in range(3):
            os.open(os.devnull, os.O_RDWR)
        work(job)
    finally:
        os._exit(0)


def work(job: dict[str, Any]) -> None:
    """Call the function of a job under hard limits, and write its result. A worker process runs this."""
    limits = WorkLimits(**job["limits"])
    limit(memory=limits.memory, seconds=limits.seconds, written=limits.written)
    tempfile.tempdir = str(Path(job["into"]).parent)  # which is deleted also if this process is killed
    module, _, function = job["function"].partition(":")
    said: dict[str, Any]
    try:
        said = {"found": getattr(import_module(module), function)(**job["arguments"])}
    except EverholdError as fault:
        plain = {key: value for key, value in fault.data.items() if isinstance(value, (str, int, float, bool))}
        said = {"refused": type(fault).__name__, "message": fault.message, "data": plain}
    except (MemoryError, RecursionError):
        raise
    except Exception:  # of a function that did not expect such a file
        said = {"refused": "", "message": "", "data": {}}
    Path(job["into"]).write_text(json.dumps(said))


def limit(*, memory: int, seconds: float, written: int = 0) -> None:
    """Set hard limits of memory, time and files for this process. Windows has none.

    Args:
        memory: Largest size of the address space, in bytes.
        seconds: Seconds of processor time, counted from now.
        written: Largest size of a file that is written, in bytes.
    """
    if sys.platform == "win32":
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    until = math.ceil(used.ru_utime + used.ru_stime + seconds)
    for kind, most in {
        resource.RLIMIT_AS: (memory, memory),
        resource.RLIMIT_CPU: (until, until),
        resource.RLIMIT_FSIZE: (written, written),
        resource.RLIMIT_CORE: (0, 0),
    }.items():
        resource.setrlimit(kind, most)
