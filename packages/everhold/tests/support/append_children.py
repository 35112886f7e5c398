"""Processes that append until they are killed, and processes that ask beside them."""

import json
import math
import os
from datetime import datetime, timedelta

import numpy as np

from everhold import Holdout
from everhold.errors import HoldoutRejected, Unavailable

ROWS = 300  # of each batch


def batch(number):
    """A batch that is known by its number, so that it can be seen whether it is there, once and whole."""
    rng = np.random.default_rng(number)
    return {"x": rng.normal(size=ROWS), "batch": np.full(ROWS, float(number))}


def append_until_killed(storage, log):
    """Append the batches that are not there yet, in order; each that arrived is noted.

    A batch of the time of the kill may have arrived without a note: then it is refused as one that is there.
    """
    with Holdout.open(storage, "h") as holdout, log.open("a", encoding="utf-8") as told:
        while True:
            number = 1 + len(holdout.arrivals.listed().rows)
            try:
                holdout.append(batch(number), until=f"{datetime(2026, 1, 1) + timedelta(minutes=number)}")
            except (HoldoutRejected, Unavailable):
                continue
            _note(told, number)


def ask_until_stopped(storage, log, stop, seed):
    """Ask new queries until told to stop; each answer is noted with the rows that it is about.

    Args:
        storage: Where the holdout is.
        log: A file for notes.
        stop: An event.
        seed: Sets queries of two processes apart.
    """
    asked = 0
    with Holdout.open(storage, "h") as holdout, log.open("a", encoding="utf-8") as told:
        while not stop.is_set():
            asked += 1
            try:
                above = seed + asked / 10_000
                answer = holdout.ask(f"x > {above:.4f}", guess=0.5 * math.erfc(above / math.sqrt(2.0)))
            except Unavailable:  # another one wrote all the time, and nothing was charged
                continue
            if not answer.refused:
                _note(told, [answer.query, answer.value, answer.low, answer.high])


def _note(told, what):
    told.write(json.dumps(what) + "\n")
    told.flush()
    os.fsync(told.fileno())
