"""Work that takes minutes: jobs, each in a process of its own, that go on after a crash.

A job performs a steward's operation that may be repeated with the same result. Its row in the database has the
operation and its progress, and no results. The process that performs a job holds a lease by the database's clock. If
the process dies, the lease expires soon, and any server of the storage starts another process, which does not repeat
what the ledger already holds.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from everhold.display import Display
from everhold.errors import EverholdError
from everhold.holdout import Holdout
from everhold.ledger import LedgerStore
from everhold.ledger.schema import jobs
from everhold.operations import OPERATIONS
from everhold.progress import noted
from everhold.sealing.storage import storage_url
from everhold_server.tables import Records, stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from everhold.operations.operation import HoldoutOperation
    from everhold.progress import Line

_AT_ONCE = 2
_LEASE, _RENEWED = 5_000, 1.0  # milliseconds and seconds
_MOST_TRIES = 20  # without coming further
_NOW = {
    "sqlite": "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "postgresql": "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
}
_START = "from everhold_server.jobs import work; work()"


class JobFailed(EverholdError):
    """A long operation failed. The part that was completed is kept."""

    exit_code = 5
    http_status = 409


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Display):
    """A long operation that runs in its own process, with its progress.

    Attributes:
        id: Id of the job.
        holdout: Name of the holdout on which the operation works.
        verb: Verb of the operation, such as ``"unseal"``.
        by: Name of the principal who asked for the operation.
        made: Time at which the job was made.
        what: Work that is being done, in words.
        done: Amount of work that is done.
        total: Amount of work in total. None if it is not counted.
        ended: Time at which the job ended. None if it has not ended.
        fault: Reason why the job failed. Empty if it did not fail.
    """

    id: str
    holdout: str
    verb: str
    by: str
    made: str
    what: str
    done: int
    total: int | None
    ended: str | None
    fault: str


class Jobs:
    """Long operations of a storage in worker processes. A started instance resumes jobs without a worker.

    Thread-safe.
    """

    def __init__(self, records: Records, storage: str) -> None:
        self.records, self._storage = records, storage
        self._worker, self._processes = secrets.token_hex(8), dict[str, subprocess.Popen[bytes]]()
        self._wanted, self._stopped = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, operation: HoldoutOperation[Any], whole: Holdout, *, by: str) -> Job | None:
        """Return the running or new job for an operation, or None if the operation is short.

        Raises:
            JobFailed: If the latest job for the operation failed, and no request was told so yet.
        """
        holdout, session = whole.name, whole._session(operation.verb)
        if not operation.lasts(session):
            return None
        operation.forewarn(session)
        open_one = {
            "id": secrets.token_hex(8), "holdout": holdout, "verb": operation.verb, "by": by, "made": self._now(),
            "arguments": json.dumps(dict(operation.travelling())), "worker": "", "until": 0, "tries": 0,
            "what": "waiting", "done": 0, "total": None, "ended": None, "fault": "",
        }  # fmt: skip
        mine = (jobs.c.holdout == holdout) & (jobs.c.verb == operation.verb)
        with self.records.writing() as connection:
            row = connection.execute(sa.select(jobs).where(mine, jobs.c.ended.is_(None))).first()
            failed = connection.execute(sa.select(jobs).where(mine, jobs.c.fault != "")).first()
            if failed is not None:
                connection.execute(sa.delete(jobs).where(jobs.c.id == failed.id))
            elif row is None:
                connection.execute(sa.insert(jobs), open_one)
                row = connection.execute(sa.select(jobs).where(mine, jobs.c.ended.is_(None))).one()
        if failed is not None:
            raise JobFailed(failed.fault)
        self._wanted.set()
        return _job(row)

    def of(self, holdout: str) -> list[Job]:
        """Return the jobs of a holdout, newest first."""
        with self.records.reading() as connection:
            chosen = sa.select(jobs).where(jobs.c.holdout == holdout).order_by(jobs.c.made.desc(), jobs.c.id)
            return [_job(row) for row in connection.execute(chosen)]

    def start(self) -> None:
        """Start a thread that runs waiting jobs in processes."""
        self._stopped.clear()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and the processes of this instance. Unfinished jobs are resumed by the next server."""
        self._stopped.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()
        for key, process in [*self._processes.items()]:
            process.terminate()
            process.wait()
            self._leave(key)

    def _watch(self) -> None:
        while not self._stopped.is_set():
            self._wanted.wait(_RENEWED)
            self._wanted.clear()
            with contextlib.suppress(EverholdError, OSError):  # a database that is away comes back
                self._see_to_jobs()

    def _see_to_jobs(self) -> None:
        """Start a worker process for each unfinished job without a valid lease."""
        for key in [key for key, each in self._processes.items() if each.poll() is not None]:
            self._leave(key)
        with self.records.reading() as connection:
            free = sa.select(jobs.c.id).where(jobs.c.ended.is_(None), jobs.c.until < _now(connection))
            waiting = [key for key in connection.scalars(free) if key not in self._processes]
        for key in waiting[: max(_AT_ONCE - len(self._processes), 0)]:
            if self._stopped.is_set():
                return
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )  # fmt: skip
            assert process.stdin is not None
            with contextlib.suppress(OSError), process.stdin as stdin:
                stdin.write(json.dumps({"storage": self._storage, "job": key, "worker": self._worker}).encode())
            self._processes[key] = process

    def _leave(self, job: str) -> None:
        """Release a job whose process ended, so that any server can resume it."""
        del self._processes[job]
        mine = (jobs.c.id == job) & (jobs.c.worker == self._worker)
        with self.records.writing() as connection:
            connection.execute(sa.update(jobs).where(mine).values(until=0))

    def _now(self) -> str:
        return stamp(self.records.clock())


def work() -> None:
    """Run the job named on standard input in this process, unless another process has its lease."""
    task = json.load(sys.stdin)
    with LedgerStore.open(storage_url(task["storage"]), create=False) as store:
        lease = _Lease(Records(store.database), task["job"], task["worker"])
        if (row := lease.taken()) is None:
            return
        threading.Thread(target=lease.keep, args=(noted(),), daemon=True).start()
        try:
            with Holdout.open(task["storage"], row.holdout) as holdout:
                holdout.perform(OPERATIONS[row.verb](**json.loads(row.arguments)))
        except EverholdError as fault:
            lease.end(fault.message)
        except ValueError as fault:
            lease.end(str(fault))
        else:
            lease.end()


class _Lease:
    """Right of this process to run a job, which expires some seconds after its last renewal."""

    def __init__(self, records: Records, job: str, worker: str) -> None:
        self._records, self._job, self._worker = records, job, worker
        self._ended = threading.Event()

    def taken(self) -> Any | None:
        """Take the job's lease and return the job's row; None if the job has ended or another process has its lease."""
        one = jobs.c.id == self._job
        with self._records.writing() as connection:
            moment = _now(connection)
            free = sa.update(jobs).where(one, jobs.c.ended.is_(None), jobs.c.until < moment)
            mine = free.values(worker=self._worker, until=moment + _LEASE, tries=jobs.c.tries + 1)
            if not connection.execute(mine).rowcount:
                return None
            row = connection.execute(sa.select(jobs).where(one)).one()
        if row.tries <= _MOST_TRIES:
            return row
        self.end(f"the job's process ended {_MOST_TRIES} times without coming further. Look at the server's log.")
        return None

    def keep(self, current: Callable[[], Line | None]) -> None:
        """Renew the lease and report progress until the job ends. The process exits if another took the lease."""
        before = -1
        while not self._ended.wait(_RENEWED):
            line = current()
            told = {} if line is None else {"what": line.what, "done": line.done, "total": line.total}
            further = {"tries": 0} if line is not None and line.done > max(before, 0) else {}
            before = before if line is None else line.done
            with contextlib.suppress(EverholdError):
                if not self._written(**told, **further):
                    os._exit(1)

    def end(self, fault: str = "") -> None:
        """Record that the job is done, or the fault that stopped it."""
        self._ended.set()
        self._written(ended=stamp(self._records.clock()), what="failed" if fault else "done", fault=fault)

    def _written(self, **facts: Any) -> int:
        """Record facts about the job and renew its lease. Return 0 if another process has the lease."""
        mine = (jobs.c.id == self._job) & (jobs.c.worker == self._worker)
        with self._records.writing() as connection:
            renewed = sa.update(jobs).where(mine).values(until=_now(connection) + _LEASE, **facts)
            return int(connection.execute(renewed).rowcount)


def _now(connection: sa.Connection) -> int:
    """Return the milliseconds since 1970 by the database's clock, which all servers share."""
    return int(connection.exec_driver_sql(_NOW[connection.dialect.name]).scalar_one())


def _job(row: Any) -> Job:
    return Job(**{name: getattr(row, name) for name in Job.__dataclass_fields__})
