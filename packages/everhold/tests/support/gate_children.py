"""What child processes of the tests of gates run; kept apart from pytest, so that a child starts fast."""

import numpy as np

from everhold import Holdout


def challenge_all(storage, worker, barrier, results):
    """Challenge one gate with models that get better and better; report which of them were promoted."""
    with Holdout.open(storage, "study") as holdout:
        gate = holdout.gate()
        models = np.load(storage.removeprefix("sqlite:///").replace("study.db", "models.npy"))
        barrier.wait()
        verdicts = [gate.challenge(model) for model in models[worker::2]]
    results.put([(verdict.promoted, verdict.query, verdict.charged) for verdict in verdicts])
