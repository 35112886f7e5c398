"""Simulation of a service under load: how long queries wait for processes, the engine and the ledger.

Queries come at random. A process prepares each; then it waits until an engine is free and a window is over, and is
looked at in one pass together with all others that wait; then the answers of that pass are committed to the one ledger
of their holdout in one transaction, in turn. The model knows nothing of networks, of failing machines, or of analysts
who wait for their answers before they ask again.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTimes:
    """Seconds that a query takes.

    Attributes:
        process: Seconds of a service process for each query.
        passing: Seconds of the engine for each pass over the rows.
        looking: Seconds of the engine for each query of a pass.
        committing: Seconds of the ledger for each transaction.
        recording: Seconds of the ledger for each query of a transaction.
    """

    process: float
    passing: float
    looking: float
    committing: float
    recording: float


@dataclass(frozen=True, slots=True)
class Served:
    """Result of a simulation: how many queries were served, and how fast.

    Attributes:
        answered: Answers a second, from the first query to the last answer.
        median: Median number of seconds from a query to its answer.
        slow: Seconds from a query to its answer that 99 of 100 queries do not exceed.
        batch: Average number of queries in a pass over the rows.
        busy: Shares of time in which processes, engines and ledger were at work.
    """

    answered: float
    median: float
    slow: float
    batch: float
    busy: tuple[float, float, float]


def served(
    times: ServiceTimes, *, rate: float, processes: int, engines: int = 1, window: float = 0.0, most: int = 1_000,
    seconds: float = 20.0, seed: int = 0,
) -> Served:  # fmt: skip
    """Simulate a service with random arrivals of queries, and return the waiting times and loads.

    Args:
        times: Times that queries take.
        rate: Queries a second.
        processes: Processes of the service, one core each.
        engines: Passes over the rows that run at the same time.
        window: Seconds for which the first query of a pass waits for others.
        most: Largest number of queries of a pass.
        seconds: Seconds during which queries arrive.
        seed: Seed of the arrival times.

    Examples:
        >>> light = ServiceTimes(process=0.01, passing=0.002, looking=0.0001, committing=0.002, recording=0.0005)
        >>> served(light, rate=100, processes=4).slow < 0.1
        True
        >>> served(light, rate=1_000, processes=4).answered < 500  # four processes answer 400 a second at the most
        True
    """
    came = np.sort(np.random.default_rng(seed).uniform(0.0, seconds, round(rate * seconds)))
    ready = _prepared(came, times.process, processes)
    order = np.argsort(ready)
    waiting, told = ready[order], np.empty(len(came))
    free, ledger_free, looked, recorded, passes, at = [0.0] * engines, 0.0, 0.0, 0.0, 0, 0
    while at < len(waiting):
        start = max(heapq.heappop(free), waiting[at] + window)
        until = min(int(np.searchsorted(waiting, start, side="right")), at + most)
        number = until - at
        looking, recording = times.passing + times.looking * number, times.committing + times.recording * number
        heapq.heappush(free, start + looking)
        ledger_free = max(ledger_free, start + looking) + recording
        told[order[at:until]] = ledger_free
        looked, recorded, passes, at = looked + looking, recorded + recording, passes + 1, until
    lasted, waited = float(told.max() - came[0]), told - came
    busy = (len(came) * times.process / processes, looked / engines, recorded)
    return Served(
        len(came) / lasted, float(np.median(waited)), float(np.quantile(waited, 0.99)), len(came) / passes,
        (busy[0] / lasted, busy[1] / lasted, busy[2] / lasted),
    )  # fmt: skip


def _prepared(came: np.ndarray, takes: float, processes: int) -> np.ndarray:
    """Return when each query is prepared, by whichever process is free first."""
    free, done = [0.0] * processes, np.empty(len(came))
    for place, moment in enumerate(came):
        done[place] = max(heapq.heappop(free), moment) + takes
        heapq.heappush(free, done[place])
    return done
