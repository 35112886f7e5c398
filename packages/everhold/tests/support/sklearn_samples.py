"""A holdout of points and stand-ins for the tests of the search; worker processes import them."""

import os
from types import SimpleNamespace

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from everhold import GuessAndCheck, Holdout
from everhold.answers import Answer
from everhold.asking.creation import settings_from
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind

ROWS = 2_000
SPACE = {"max_depth": list(range(1, 9)), "min_samples_leaf": list(range(1, 40))}
TREE = DecisionTreeClassifier(random_state=0)


def points(seed, rows=ROWS):
    """Two numbers and a class that a deep tree can learn most of."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2))
    return {"a": x[:, 0], "b": x[:, 1], "y": (x[:, 0] * x[:, 1] + 0.5 * rng.normal(size=rows) > 0).astype(int)}


def mechanism(*, queries=60, surprises=3, tolerance=0.2):
    """Untuned, so that a test need not wait."""
    return GuessAndCheck(
        rows=ROWS, queries=queries, surprises=surprises, tolerance=tolerance, grid=20, training_rows=ROWS
    )  # fmt: skip


def create(folder, name="study", **wanted):
    """A sealed holdout of points; several of the same rows may lie in one storage."""
    wanted = {
        "holdout": points(0),
        "training": points(1),
        "label": "y",
        "mechanism": mechanism(),
        "allow_resealing": True,
        **wanted,
    }
    return Holdout.create(f"sqlite:///{folder}/study.db", name, **settings_from(wanted))


class Diligent(DecisionTreeClassifier):
    """A tree whose worker dies while it is fitted, if it is told to."""

    def __init__(self, *, dies=False, max_depth=None, random_state=None):
        super().__init__(max_depth=max_depth, random_state=random_state)
        self.dies = dies

    def fit(self, X, y):
        if self.dies:
            os._exit(1)
        return super().fit(X, y)


class Confirming:
    """What stands in for a holdout where scikit-learn brings tables of its own: it confirms every guess."""

    def __init__(self):
        self.schema = Schema(10, 0, {"y": ColumnKind.NUMBER}, label="y", label_kind="number")
        self.mechanism = SimpleNamespace(dependence=SimpleNamespace(group_column=None))

    def ask_many(self, queries, *, guesses, silent, reveal):
        return [self.ask(query, guess=guess) for query, guess in zip(queries, guesses, strict=True)]

    def ask(self, query, *, guess=None, strict=False):
        """The guess, confirmed."""
        return Answer(guess, guess - 0.1, guess + 0.1, "guess", 0, {}, "", False, "", 0.95)
