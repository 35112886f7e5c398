"""What child processes of the tests of submissions run; kept apart from pytest, so that a child starts fast."""

import numpy as np

from everhold import Holdout


def submit_all(storage, name, worker, ready):
    """Submit for two teams in turn until somebody ends this process."""
    rng = np.random.default_rng(worker)
    with Holdout.open(storage, name) as holdout:
        for number in range(1_000):
            received = holdout.submit(rng.integers(0, 2, holdout.schema.rows), team=f"{worker}-{number % 2}")
            if number == 3:
                ready.set()
            assert received.number == number // 2 + 1
