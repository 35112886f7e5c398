"""What child processes of the tests run; kept apart from pytest, so that a child starts fast."""

from everhold import Holdout


def surprise_often(storage, worker, barrier, results):
    """Ask different queries with wrong guesses; report how often the sealed rows answered."""
    with Holdout.open(storage, "study") as holdout:
        barrier.wait()
        answers = [holdout.ask(f"delay > {k} or delay <= {k} + {worker}", guess=0.0) for k in range(20)]
    results.put(sum(answer.charged for answer in answers))
