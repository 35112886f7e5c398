"""A small competition of two classes, and predictions of known quality."""

import numpy as np

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.ledger import verify
from everhold_competitions.teams import Submissions

ROWS = 3_000
TRUTH = np.random.default_rng(11).integers(0, 2, ROWS)


def model(right, seed, rows=ROWS):
    """Predictions of which about this share is right."""
    return np.where(np.random.default_rng(seed).random(rows) < right, TRUTH[:rows], 1 - TRUTH[:rows])


def address(folder, name="contest"):
    return f"sqlite:///{folder}/{name}.db"


def contest(folder, name="contest", **wanted):
    """A competition on these rows, without row ids."""
    wanted = {"label": "y", "features": "public", "teams": 4, "submissions": 20, **wanted}
    holdout = wanted.pop("holdout", {"x": np.arange(ROWS) * 0.5, "y": TRUTH})
    return eh.Holdout.create(address(folder, name), name, holdout=holdout, **settings_from(wanted))


def findings(holdout):
    """What verification says of the ledger and of the certificate."""
    executor, certificate = holdout._executor, holdout.certificate()
    found = verify(
        executor.store, executor.record.name, seal_key=executor.key.seal_key, head_file=executor.ledger.head_file
    ).findings
    path = holdout._folder.parent / "certificate.html"
    certificate.save(path)
    return [*found, *eh.verify_certificate(path, public_key=certificate.public_key).findings]


def teams_of(holdout):
    return holdout._executor.ledger.head().accounts.of(Submissions).teams
