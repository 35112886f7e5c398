"""Protections of the proofs, each with what removes it and the tests that notice.

A line is a statement, the file of the core and the text that holds the protection, the text without it, and tests.
"""

from typing import NamedTuple

_INTERVALS = "unit/guarantees/intervals"
_LEVELS = f"{_INTERVALS}/test_levels_of_parts.py"


class Mutation(NamedTuple):
    """A protection that is removed.

    Attributes:
        what: What is no longer paid, with its statement.
        file: In the sources of the core.
        old: The text, which is there once.
        new: The text without the protection.
        tests: Of the core; one of them fails without it.
    """

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTATIONS = [
    Mutation(
        "S9: labels of a step",
        "mechanisms/batch_step.py",
        "return state.after(asked=count, charged=len(surprises), labels=labels)",
        "return state.after(asked=count, charged=len(surprises), labels=0)",
        ("unit/mechanisms", "statistical/test_steps_with_many_events.py"),
    ),
    Mutation(
        "S9: labels of told members",
        "mechanisms/declared.py",
        "return state.after(asked=0, charged=0, labels=labels), replies",
        "return state.after(asked=0, charged=0, labels=0), replies",
        ("unit/families", "unit/mechanisms", "statistical/test_declared_families_exact.py"),
    ),
    Mutation(
        "S10: texts have what the tree leaves",
        "mechanisms/guess_and_check.py",
        "return nats - math.log(self.beta * self.tree.left_over)",
        "return nats - math.log(self.beta)",
        ("unit/mechanisms", "unit/families", "statistical/test_texts_by_description.py"),
    ),
    Mutation(
        "S13: later trees have less",
        "mechanisms/suffixes.py",
        "return 1.0 / (number * (number + 1.0))",
        "return 0.5",
        ("unit/mechanisms/test_suffixes.py",),
    ),
    Mutation(
        "S14: members hold at all numbers of rows",
        "queries/interval_planner.py",
        "        if self.families.first_rows:\n            procedure = _at_all_sizes",
        "        if False:\n            procedure = _at_all_sizes",
        ("statistical/test_families_that_grow.py", "integration/test_growing_families.py"),
    ),
    Mutation(
        "W1: the average of stakes",
        "guarantees/intervals/bets/hedge.py",
        "_LOG_WEIGHTS = np.log(np.append(0.5, np.full(len(FRACTIONS), 0.5 / len(FRACTIONS))))",
        "_LOG_WEIGHTS = np.zeros(1 + len(FRACTIONS))",
        (f"{_INTERVALS}/test_hedge.py",),
    ),
    Mutation(
        "K: the stakes of both arms",
        "guarantees/intervals/pairs/arms.py",
        "needed = nats + float(pays[best]) + doubt",
        "needed = nats + 0.0 * float(pays[best]) + doubt",
        (f"{_INTERVALS}/test_arms.py",),
    ),
    Mutation(
        "K: the box of both arms",
        "guarantees/intervals/pairs/arms.py",
        "alone = nats - math.log((1.0 - _JOINT) / 2.0 if joint else 0.5)",
        "alone = nats",
        (_LEVELS,),
    ),
    Mutation(
        "a gain is one side of two",
        "guarantees/intervals/pairs/outcome_gain.py",
        "self.proves(seen, middle, nats + math.log(2.0))",
        "self.proves(seen, middle, nats)",
        (_LEVELS,),
    ),
    Mutation(
        "weighted F1: the shares of the classes",
        "guarantees/intervals/composites/class_gains.py",
        "both_sides = nats + math.log(2.0) + math.log((count + 1) / _OF_SHARES)",
        "both_sides = nats",
        (_LEVELS,),
    ),
    Mutation(
        "A2, A4: the share of the class",
        "guarantees/intervals/composites/ranking.py",
        "return procedure.interval(share, nats + math.log(_SHARE_OF_CLASSES))",
        "return share, share",
        (_LEVELS,),
    ),
    Mutation(
        "C4: two events on each side",
        "guarantees/intervals/composites/operating_point.py",
        "side = nats + math.log(2.0)",
        "side = nats",
        (_LEVELS,),
    ),
]
