"""Planning in worker processes, with limits of time, memory and waiting requests.

A viewer may plan, and a plan with a network can take minutes. A thread can be neither ended nor made to release its
memory. So no plan is made in the process that has the keys.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from fastapi import Request

from everhold.errors import EverholdError, Unavailable
from everhold_server.middleware import TooMany
from everhold_server.principals import current_principal, kept
from everhold_server.untrusted.worker import WorkerEnded, WorkLimits, end_worker, in_worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST_NODES = 1_000
"""Nodes of a network that comes over HTTP."""

MOST_STATES = 32
"""States of each of its nodes."""

_AT_ONCE = 2
_MOST_WAITING = 8
_MOST_OF_A_TOKEN = 3
_LIMITS = WorkLimits(seconds=10)  # an ordinary plan takes about one second
_LONGEST_KEPT = 10_000  # characters of a request
_MOST_KEPT = 256
_POLL = 0.05
_WAIT = 5  # seconds until the next try


class TooMuchWork(EverholdError):
    """The request takes more time or memory than one request gets. Nothing was changed or charged."""

    exit_code = 2
    http_status = 409


def check_network(data: Mapping[str, Any] | None) -> None:
    """Reject a dependence model that is too large for a request, before it is built.

    Raises:
        TooMuchWork: If the model is a network with too many nodes or states.
    """
    data = {} if data is None else data
    names, states = data.get("names"), data.get("states")
    if isinstance(names, list) and len(names) > MOST_NODES:
        raise _too_large(f"{len(names):,} nodes", f"{MOST_NODES:,} nodes")
    if isinstance(states, list) and any(isinstance(count, int) and count > MOST_STATES for count in states):
        raise _too_large("a node with too many states", f"{MOST_STATES} states")


def _too_large(what: str, most: str) -> TooMuchWork:
    return TooMuchWork(
        f"The network has {what}, and over HTTP at most {most} are possible. Run 'everhold "
        "plan' or 'everhold create' on your own machine."
    )


class Planners:
    """Plans in worker processes, with a queue of requests and a cache of plans.

    Finished plans are cached, because a plan is the same for everybody.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns = threading.Semaphore(_AT_ONCE)
        self._in_line: Counter[str] = Counter()
        self._running: set[int] = set()
        self._closed = False
        self._kept: OrderedDict[str, dict[str, Any]] = OrderedDict()

    async def plan(self, request: Request, study: Mapping[str, Any]) -> dict[str, Any]:
        """Return the plan for a study, from the cache if the same plan was made before.

        Args:
            request: Request for the plan. If its client disconnects, the work ends.
            study: Arguments of `everhold.plan`, with the dependence as plain data or None.

        Returns:
            The plan, in the form that `everhold_server.plan_worker.plain_plan` returns.

        Raises:
            TooMany: If too many requests of the same token wait for plans.
            Unavailable: If too many requests of all tokens wait, or the service ends.
            TooMuchWork: If the plan takes too much time or memory.
            DependenceError: If the dependence is not a model.
            QueryRejected: If the request contradicts itself.
        """
        check_network(study.get("dependence"))
        line = json.dumps(dict(study), sort_keys=True)
        said = self._known(line)
        if said is None:
            with self._place(current_principal(request).limited_as):
                said = await self._made(request, dict(study))
            with self._lock:
                if len(line) <= _LONGEST_KEPT:
                    self._kept[line] = said
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
        return said

    def _known(self, line: str) -> dict[str, Any] | None:
        with self._lock:
            if line in self._kept:
                self._kept.move_to_end(line)
            return self._kept.get(line)

    @contextlib.contextmanager
    def _place(self, token: str) -> Iterator[None]:
        with self._lock:
            if self._in_line[token] >= _MOST_OF_A_TOKEN:
                raise TooMany(
                    f"{_MOST_OF_A_TOKEN} plans are already being made with this token, the "
                    f"most at once. Wait {_WAIT} seconds.",
                    wait=_WAIT,
                )
            if self._in_line.total() >= _AT_ONCE + _MOST_WAITING:
                raise Unavailable("Too many plans are being made. Wait a few seconds.")
            self._in_line[token] += 1
        try:
            yield
        finally:
            with self._lock:
                self._in_line[token] -= 1
                if not self._in_line[token]:
                    del self._in_line[token]

    async def _made(self, request: Request, study: dict[str, Any]) -> dict[str, Any]:
        while not self._turns.acquire(blocking=False):  # waits without a thread
            await self._check_there(request)
        numbers: list[int] = []
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._end_with, request, numbers)
                said = await anyio.to_thread.run_sync(self._asked, study, numbers)
                tasks.cancel_scope.cancel()
        finally:
            self._running.difference_update(numbers)
            self._turns.release()
        if isinstance(said, dict):
            return said
        if isinstance(said, EverholdError):
            raise said
        await self._check_there(request)
        raise TooMuchWork(
            f"The plan takes more than {_LIMITS.seconds:g} seconds of processor time, or too much memory. Plan for a "
            "smaller network, or run 'everhold plan' on your own machine."
        )

    def _asked(self, study: dict[str, Any], numbers: list[int]) -> dict[str, Any] | EverholdError | None:
        """Return the plan that a worker makes, or its error, or None if the worker ended before.

        The number of the job is added to ``numbers``.
        """

        def begun(number: int) -> None:
            numbers.append(number)
            self._running.add(number)
            if self._closed:
                end_worker(number)

        try:
            found: dict[str, Any] = in_worker(
                "everhold_server.plan_worker:plain_plan", {"study": study}, _LIMITS, begun=begun
            )
        except EverholdError as fault:
            return fault
        except WorkerEnded:
            return None
        return found

    async def _check_there(self, request: Request) -> None:
        if self._closed:
            raise Unavailable(
                "The service is being stopped. Nothing was changed or charged. Try again when it is back."
            )
        if await request.is_disconnected():
            raise Unavailable("The client closed the connection. Nothing was changed or charged.")
        await anyio.sleep(_POLL)

    async def _end_with(self, request: Request, numbers: Sequence[int]) -> None:
        """End the worker of a request when its client disconnects."""
        while not (numbers and await request.is_disconnected()):
            await anyio.sleep(_POLL)
        await anyio.to_thread.run_sync(end_worker, numbers[0])

    def stop(self) -> None:
        """End all workers. Waiting requests are refused, and can be sent again."""
        self._closed = True
        for number in [*self._running]:
            end_worker(number)

    def start(self) -> None:
        """Accept requests again after `stop`."""
        self._closed = False


Planner = Annotated[Planners, kept("planners")]
