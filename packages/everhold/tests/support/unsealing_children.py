"""What child processes of the tests of unsealing run; kept apart from pytest, so that a child starts fast."""

from everhold import Holdout, QueryRejected


def unseal_between_queries(storage, worker, barrier, results):
    """Ask, and unseal in the midst of it; report what was unsealed, and the entries that were answered here."""
    with Holdout.open(storage, "study") as holdout:
        barrier.wait()
        answered, unsealed = [], None
        for k in range(12):
            if k == 4 + worker:
                unsealed = holdout.unseal().to_dict()
            try:
                answered.append(holdout.ask(f"delay > {k} or delay <= -{100 + worker}", silent=worker == 1).query)
            except QueryRejected:
                break
    results.put((unsealed, answered))
