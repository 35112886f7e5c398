"""Text queries and queries about models mixed, under each rule for the texts: how wide both are told.

Run ``python -m benchmarks.default_families``; the table is in docs/theory/families.md.

Half of the queries are texts of 20 bits, whose guesses come from as many training rows as are sealed. Half are scores
of models, whose cross-validated guesses are off by more than the rows explain: by two more standard errors, at random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from everhold.mechanisms import GuessAndCheck, State
from everhold.mechanisms.records import Description, Evaluations
from everhold.mechanisms.releases import answer_declared
from everhold.randomness import SeededNoise
from everhold.values.evaluation import UNIT

if TYPE_CHECKING:
    from collections.abc import Sequence

_BITS = 20.0
_PAIRS = 200
_GAMES = 12
_BETA = 0.05


@dataclass(frozen=True)
class Rule:
    """One default.

    Attributes:
        name: As the table says it.
        share: Part of the probability of failure that texts have; None for what the tree's weights leave.
        told: Whether texts are told exactly, and others pay for labels; else they are checked.
        texts: Whether texts have a level of their own at all.
    """

    name: str
    share: float | None = None
    told: bool = False
    texts: bool = True


RULES = (
    Rule("today: texts pay like models", texts=False),
    Rule("what the tree leaves, checked"),
    Rule("a tenth, checked", share=0.1),
    Rule("half, checked", share=0.5),
    Rule("what the tree leaves, told", told=True),
    Rule("half, told", share=0.5, told=True),
)


def play(rule: Rule, *, rows: int, seed: int) -> tuple[float, float, float, float, int]:
    """Mean half-widths of texts and models, those of the last ten of each, and the number of surprises."""
    rng, noise = np.random.default_rng(seed), SeededNoise(seed)
    mechanism = GuessAndCheck.tuned(rows=rows, queries=1_000, training_rows=rows)
    left = mechanism.tree.left_over if rule.share is None else rule.share
    if rule.share is not None:
        mechanism = replace(mechanism, share=rule.share)
    nats = _BITS * math.log(2.0) - math.log(_BETA * left)
    state, texts, models = State(), list[float](), list[float]()
    for place in range(2 * _PAIRS):
        is_text, p = place % 2 == 0, rng.uniform(0.1, 0.9)
        spread = math.sqrt(p * (1.0 - p) / rows)
        sealed = rng.binomial(rows, p)
        off = 0.0 if is_text else 2.0 * spread * rng.standard_normal()
        guess = int(np.clip((rng.binomial(rows, p) / rows + off) * rows * UNIT, 0, rows * UNIT))
        one = Evaluations(
            totals=np.array([[sealed * UNIT]]), guesses=np.array([guess]), rows=rows,
            procedures=[mechanism.yes_no_procedure], seen=[None],
            described=[Description(nats, mechanism.yes_no_procedure)] if is_text and rule.texts else None,
        )  # fmt: skip
        if is_text and rule.told:
            state, replies = answer_declared(mechanism, state, one, np.array([nats]))
        else:
            state, replies = mechanism.answer_many(state, one, noise)
        half = 0.5 if np.isnan(replies.lows[0]) else float(replies.highs[0] - replies.lows[0]) / 2.0
        (texts if is_text else models).append(half)
    last = (float(np.mean(found[-10:])) for found in (texts, models))
    return float(np.mean(texts)), float(np.mean(models)), *last, state.charged


def table(rows: int, rules: Sequence[Rule] = RULES) -> None:
    """Print one line for each rule."""
    print(f"| n = {rows:,} | texts | models | last texts | last models | surprises |")
    print("| --- | --- | --- | --- | --- | --- |")
    for rule in rules:
        found = np.mean([play(rule, rows=rows, seed=seed) for seed in range(_GAMES)], axis=0)
        print(f"| {rule.name} | {' | '.join(f'{number:.4f}' for number in found[:4])} | {found[4]:.1f} |")


if __name__ == "__main__":
    for rows in (500, 2_000, 20_000, 200_000, 1_000_000):
        table(rows)
