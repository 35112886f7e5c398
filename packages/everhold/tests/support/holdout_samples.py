"""Small holdouts for the tests of the session."""

import numpy as np
from sealed_copies import copied_into

from everhold import GuessAndCheck, Holdout
from everhold.asking.creation import settings_from

ROWS = 1_000


def rows(seed=0, count=ROWS):
    """Rows with a number, a text and a label."""
    rng = np.random.default_rng(seed)
    return {
        "delay": rng.normal(5.0, 30.0, count),
        "carrier": rng.choice(np.array(["AA", "UA", "DL"]), count),
        "late": rng.integers(0, 2, count),
    }


def guess_and_check(count=ROWS, *, queries=60, surprises=3, tolerance=0.2, grid=10):
    """Untuned, so that a test need not wait."""
    return GuessAndCheck(rows=count, queries=queries, surprises=surprises, tolerance=tolerance, grid=grid)


def create(folder, name="study", *, training=True, **wanted):
    """A holdout of `rows(0)`, trained on `rows(1)`; tests compare several holdouts of the same rows."""
    wanted = {"holdout": rows(0), "label": "late", "mechanism": guess_and_check(), "allow_resealing": True, **wanted}
    if training is not None:
        wanted["training"] = rows(1) if training is True else training
    return Holdout.create(f"sqlite:///{folder}/study.db", name, **settings_from(wanted))


def copied(folder, name="study", **wanted):
    """A copy of the holdout that `create` makes, in an empty folder; not for tests that need keys of their own."""
    copied_into(folder, lambda template: create(template, name, **wanted).close(), name, wanted)
    return Holdout.open(f"sqlite:///{folder}/study.db", name)


def files(folder):
    """Everything below a folder, as relative paths."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
