"""Studies of fair bits whose rows arrive, for games with analysts who know the population (S13).

Rows are fair bits, so every mean is 1/2. The analyst has labels of many columns told, and then asks for the majority of
them, each turned to where its label points. A game is lost if one interval misses 1/2.
"""

from functools import cache

import numpy as np

from everhold.mechanisms import GuessAndCheck, State
from everhold.mechanisms.records import Evaluations
from everhold.mechanisms.suffixes import Suffix, since, together, tree_of
from everhold.randomness import SeededNoise

UNIT = 2**20
BETA = 0.2
GAMES = 40  # 400 in the study that docs/theory/growing.md records
ROWS = 400  # of each of two batches
WRONG = 0.98  # a guess that is a surprise, so that what the sealed rows say is told
LABELS = 201


@cache
def planned():
    """The mechanism of the creation."""
    return GuessAndCheck.tuned(
        rows=ROWS, queries=200, surprises=10, grid=1_000, confidence=1.0 - BETA, unit=UNIT
    ).sharing(0.5)


@cache
def of_tree(number, rows):
    """The mechanism of a tree; made once."""
    return tree_of(planned(), Suffix(number), rows=rows, training_rows=0)


@cache
def static(rows):
    """The only tree of a holdout with one query."""
    mechanism = GuessAndCheck.tuned(rows=50, queries=1, surprises=1, confidence=1.0 - BETA, unit=UNIT)
    return tree_of(mechanism, Suffix(1), rows=rows, training_rows=0)


class Study:
    """A holdout of bits whose rows arrive in two batches."""

    def __init__(self, rng, *, counted=True, copied=False):
        first = rng.integers(0, 2, (LABELS, ROWS), dtype=np.int8)
        second = first if copied else rng.integers(0, 2, (LABELS, ROWS), dtype=np.int8)
        self.columns = np.hstack([first, second])
        self.state, self.trees, self.counted = State(), [Suffix(1)], counted
        self.rows, self.lost = ROWS, False

    def arrive(self):
        """The second batch arrives, and a tree about it opens."""
        self.trees.append(Suffix(2, 1, self.rows, self.state))
        self.rows = 2 * ROWS

    def ask(self, bits, guess, tree=0):
        """The middles of the intervals that are told of some means, asked as one step.

        Args:
            bits: Shape (queries, rows).
            guess: Of all of them.
            tree: The one that answers.
        """
        suffix = self.trees[tree]
        values = bits[:, suffix.first : self.rows]
        mechanism = of_tree(suffix.number, values.shape[1])
        evaluation = Evaluations(
            totals=values.sum(axis=1, dtype=np.int64)[:, None] * UNIT,
            guesses=np.full(len(values), int(guess * mechanism.steps)), rows=values.shape[1], unit=UNIT,
            procedures=[mechanism.yes_no_procedure] * len(values),
        )  # fmt: skip
        after, replies = mechanism.answer_many(since(self.state, suffix.before), evaluation, SeededNoise(0))
        if self.counted or tree:
            self.state = together(after, suffix.before)
        self.lost |= bool(np.any((replies.lows > 0.5) | (replies.highs < 0.5)))
        return replies.values

    def majority(self, labels):
        """Of all columns, each turned to where its label points."""
        turned = np.where(np.array(labels)[:, None] > 0.5, self.columns, 1 - self.columns)
        return (turned.sum(axis=0) * 2 > len(labels)).astype(np.int8)[None]

    def climb(self):
        """Labels of all columns, each by a guess that is no good."""
        return self.ask(self.columns, WRONG)


def lost(game, games=GAMES):
    """Share of the games that are lost."""
    return float(np.mean([game(np.random.default_rng(seed)) for seed in range(games)]))
