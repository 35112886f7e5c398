"""What child processes of the tests of submissions run; kept apart from pytest, so that a child starts fast."""

import os
import signal
from functools import partial

import numpy as np
from contest_samples import TRUTH

from everhold import Holdout, QueryRejected
from everhold.asking.query_executor import QueryExecutor
from everhold_competitions.session import TeamFeedback


def submit_all(storage, name, worker, ready):
    """Submit for two teams in turn until somebody ends this process."""
    rng = np.random.default_rng(worker)
    with Holdout.open(storage, name) as holdout:
        for number in range(1_000):
            received = holdout.competition.submit(
                rng.integers(0, 2, holdout.schema.rows), team=f"{worker}-{number % 2}"
            )
            if number == 3:
                ready.set()
            assert received.number == number // 2 + 1


def submit_some(storage, name, team, seeds, told, start):
    """Submit for one team when all are ready; put what each submission was told, or why it was refused."""
    with Holdout.open(storage, name) as holdout:
        start.wait(60)
        for seed in seeds:
            predictions = np.random.default_rng(seed).integers(0, 2, holdout.schema.rows)
            try:
                received = holdout.competition.submit(predictions, team=team)
            except QueryRejected as refusal:
                told.put((team, None, refusal.told))
            else:
                told.put((team, received.predictions, received.explain()))


def submit_until_killed(storage, name, team, seed, told_too):
    """Submit once, and end this process right after the submission is received, or after it was told."""
    kill = partial(os.kill, os.getpid(), signal.SIGKILL)
    if told_too:
        told = QueryExecutor.ask
        QueryExecutor.ask = lambda *args, **more: (told(*args, **more), kill())
    else:
        TeamFeedback._challenge_leader = TeamFeedback._answer_score = lambda *_: kill()
    with Holdout.open(storage, name) as holdout:
        predictions = np.where(np.random.default_rng(seed).random(holdout.schema.rows) < 0.9, TRUTH, 1 - TRUTH)
        guess = 0.9 if holdout.status()["competition"]["feedback"] == "score" else None
        holdout.competition.submit(predictions, team=team, guess=guess)
