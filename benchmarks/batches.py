"""``answer_many`` of 10,000 queries beside the loop over ``answer``; ``ask_many`` beside the loop over ``ask``."""

from __future__ import annotations

import tempfile

import numpy as np

from benchmarks.timing import compare, seconds
from everhold import GaussianMechanism, GuessAndCheck, Holdout, Thresholdout
from everhold.mechanisms import Mechanism
from everhold.mechanisms.records import Evaluations
from everhold.randomness import SeededNoise

ROWS, QUERIES, LOOPED = 20_000, 10_000, 500


def measure() -> list[dict[str, object]]:
    """One line for each mechanism and one for the whole way to the ledger; target ratio 50."""
    request = {"rows": ROWS, "queries": QUERIES}
    mechanisms = [GaussianMechanism.tuned(**request), GuessAndCheck.tuned(**request), Thresholdout.tuned(**request)]
    return [*map(_pure, mechanisms), _durable()]


def _line(what: str, batch: float, loop: float) -> dict[str, object]:
    return {
        "what": what,
        "batch ms": batch * 1e3,
        "loop ms": loop * 1e3,
        "loop / batch": loop / batch,
        "target": 50,
    }


def _pure(mechanism: Mechanism) -> dict[str, object]:
    rng = np.random.default_rng(3)
    totals = rng.binomial(ROWS, 0.5, (QUERIES, 1)) * mechanism.unit
    guesses = np.full(QUERIES, mechanism.steps // 2)
    evaluations = Evaluations(totals, guesses, ROWS, mechanism.unit)
    singles = [Evaluations(totals[i : i + 1], guesses[i : i + 1], ROWS, mechanism.unit) for i in range(QUERIES)]

    def loop() -> None:
        noise = SeededNoise(4)
        state = mechanism.start(noise)
        for single in singles:
            state, _ = mechanism.answer(state, single, noise)

    def batch() -> None:
        noise = SeededNoise(4)
        mechanism.answer_many(mechanism.start(noise), evaluations, noise)

    times = compare(batch, loop, rounds=3)
    return _line(f"{mechanism.name}: {QUERIES:,} queries, the pure step", times["ours"], times["peer"])


def _durable() -> dict[str, object]:
    rng = np.random.default_rng(5)
    columns = {"x": rng.normal(size=2 * ROWS)}
    halves = [{"x": columns["x"][:ROWS]}, {"x": columns["x"][ROWS:]}]
    with tempfile.TemporaryDirectory() as folder:

        def holdout(name: str) -> Holdout:
            return Holdout.create(
                f"{folder}/b.db", name, holdout=halves[0], training=halves[1], queries=QUERIES, allow_resealing=True
            )

        texts = [f"x > {level}" for level in np.linspace(-3, 3, QUERIES)]
        with holdout("batch") as first, holdout("loop") as second:
            batch = seconds(lambda: first.ask_many(texts))
            loop = seconds(lambda: [second.ask(text) for text in texts[:LOOPED]]) * QUERIES / LOOPED
    line = _line(f"ask_many of {QUERIES:,} text queries, to the ledger (loop: from {LOOPED} asks)", batch, loop)
    return line | {"target": None}
