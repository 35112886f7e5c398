"""Reading of strangers' files: each in its own process with hard limits of memory, time and output.

A reader's own limits are not hard, and a file can be made to crash or to exhaust a reader that was not written for such
ones. So a worker reads it, whose memory holds no key, no ledger and no sealed rows. What it found comes back as JSON,
out of which nothing but numbers and texts can be made. A service, an MCP server and their pages read every file of a
stranger with `read_in_worker`: predictions, results of cases, rows that are to be sealed, certificates.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold import errors
from everhold.display import printable
from everhold.errors import EverholdError, QueryRejected

if TYPE_CHECKING:
    from collections.abc import Iterator

sender: ContextVar[str] = ContextVar("sender", default="")
"""Who sent the file, such as the token of a request: of each sender one file is read at a time."""

_SLOWER = 3  # seconds on a clock for each of processor time: the machine may be busy
_LONGEST_MESSAGE = 1_000
_START = "from everhold.untrusted import work; work()"
_KEPT = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "LANG", "LC_ALL")  # of the environment, which may hold passwords
_AT_ONCE = max(os.cpu_count() or 1, 2)
_BUSY: Counter[str] = Counter()
_FREED = threading.Condition()


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """Limits of memory, time and output for a worker that reads one file.

    Attributes:
        content: Bytes of the file; a larger one is not opened.
        memory: Bytes of address space, with Python and its packages; an engine reserves far more than it takes.
        seconds: Processor time.
        written: Bytes of what comes back.
    """

    content: int
    memory: int = 3 * 2**30
    seconds: float = 20
    written: int = 2**25


def read_in_worker(
    reader: str, path: Path, *, name: str, limits: ReadingLimits, advice: str,
    refusal: type[EverholdError] = QueryRejected, **task: Any,
) -> Any:  # fmt: skip
    """Read a stranger's file in a worker process, and return what it found.

    Args:
        reader: ``"module:function"``, called in the worker with the path, the name and the task; returns plain data.
        path: The file.
        name: How messages call it.
        limits: What the worker may use.
        advice: What a message says where the limits were exceeded.
        refusal: The error then.
        **task: Plain data.

    Raises:
        EverholdError: The error of the reader; or `refusal`, if the file cannot be read within the limits.
    """
    exceeded = refusal(f"{name} cannot be read with the memory and the time that a file gets; {advice}")
    if path.stat().st_size > limits.content:
        raise refusal(f"{name} has {path.stat().st_size:,} bytes; expected at most {limits.content:,}; {advice}")
    environment = {key: os.environ[key] for key in _KEPT if key in os.environ}
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory(prefix="everhold-") as folder:
        into = Path(folder) / "found.json"
        job = {"reader": reader, "path": str(path.absolute()), "into": str(into), "name": name, "task": task}
        try:
            with _turn(sender.get()):
                subprocess.run(
                    [sys.executable, "-P", "-c", _START], input=json.dumps({**job, "limits": asdict(limits)}).encode(),
                    env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    timeout=_SLOWER * limits.seconds,
                )  # fmt: skip
            said = json.loads(into.read_bytes())
        except (subprocess.SubprocessError, OSError, ValueError):
            raise exceeded from None
    if "refused" in said:
        kind = getattr(errors, said["refused"] or "-", None)
        if not (isinstance(kind, type) and issubclass(kind, EverholdError)):
            raise refusal(f"{name} cannot be read; {advice}")
        raise kind(printable(str(said["message"]))[:_LONGEST_MESSAGE], **said["data"])
    return said["found"]


@contextlib.contextmanager
def _turn(of: str) -> Iterator[None]:
    """Context that waits for a free worker. A known sender uses one at most."""
    with _FREED:
        _FREED.wait_for(lambda: _BUSY.total() < _AT_ONCE and not (of and _BUSY[of]))
        _BUSY[of] += 1
    try:
        yield
    finally:
        with _FREED:
            _BUSY[of] -= 1
            _FREED.notify_all()


def work() -> None:
    """Read one file under hard limits and describe its content. The worker process runs this."""
    job = json.load(sys.stdin)
    limits = ReadingLimits(**job["limits"])
    limit(memory=limits.memory, seconds=limits.seconds, written=limits.written)
    module, _, function = job["reader"].partition(":")
    said: dict[str, Any]
    try:
        said = {"found": getattr(import_module(module), function)(Path(job["path"]), name=job["name"], **job["task"])}
    except EverholdError as fault:
        plain = {key: value for key, value in fault.data.items() if isinstance(value, (str, int, float, bool))}
        said = {"refused": type(fault).__name__, "message": fault.message, "data": plain}
    except (MemoryError, RecursionError):
        raise
    except Exception:  # of a reader that did not expect such a file
        said = {"refused": "", "message": "", "data": {}}
    Path(job["into"]).write_text(json.dumps(said))


def limit(*, memory: int, seconds: float, written: int = 0, renewed: bool = False) -> None:
    """Set hard limits of memory, time and files for this process. Windows has none.

    Args:
        memory: Bytes of address space.
        seconds: Processor time, from now on.
        written: Bytes of any file.
        renewed: Whether this is called again for the next job, which then gets as much time.
    """
    if sys.platform == "win32":
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    until = math.ceil(used.ru_utime + used.ru_stime + seconds)
    last = resource.getrlimit(resource.RLIMIT_CPU)[1] if renewed else until
    for kind, most in {
        resource.RLIMIT_AS: (memory, memory),
        resource.RLIMIT_CPU: (until, last),
        resource.RLIMIT_FSIZE: (written, written),
        resource.RLIMIT_CORE: (0, 0),
    }.items():
        resource.setrlimit(kind, most)
