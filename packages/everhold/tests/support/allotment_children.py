"""What child processes of the tests of allotments run; kept apart from pytest, so that a child starts fast."""

from everhold import Holdout


def spend_all(storage, worker, barrier, results):
    """Ask different queries on behalf of one analyst; report how many were answered."""
    with Holdout.open(storage, "study") as holdout:
        team = holdout.analyst("a")
        barrier.wait()
        answers = [team.ask(f"delay > {k} or delay <= {k} + {worker}") for k in range(12)]
    results.put(sum(answer.source != "refused" for answer in answers))
