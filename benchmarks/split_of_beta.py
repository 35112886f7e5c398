"""Texts of 20 bits beside models: what a larger part of beta buys, and what a text that is told costs.

Run ``python -m benchmarks.split_of_beta``; both tables are in docs/theory/families.md.

Half-widths around 1/2 with 20,000 sealed and as many training rows, 1,000 planned queries, at query 501.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from everhold.mechanisms import GuessAndCheck
from everhold.mechanisms.releases import label_nats

_ROWS, _QUERIES, _AT = 20_000, 1_000, 0.5
_BITS = 20.0 * math.log(2.0)
_SPLITS = (None, 0.1, 0.15, 0.25, 0.5, 0.9)
_TEXTS = (0, 1, 10, 50, 200)
_CELLS = (0.5, 1.0, 2.0, 3.0, 4.0, 4.5)  # half-widths of cells, in standard errors of the sealed rows


def mechanism(share: float | None) -> GuessAndCheck:
    """The default one; texts have this part of beta, or what the tree leaves."""
    made = GuessAndCheck.tuned(rows=_ROWS, queries=_QUERIES, training_rows=_ROWS, text_bits=100)
    return made if share is None else made.sharing(share)


def of_text(made: GuessAndCheck, share: float | None) -> tuple[float, float]:
    """Half-widths of a text that is told exactly, and of one whose guess is confirmed."""
    nats = made.of_text(_BITS) if share is None else made.described(_BITS)
    low, high = made.yes_no_procedure.interval(_AT, nats)
    least, most = made.intervals.of_guess(made.yes_no_procedure, _AT, nats)
    return (high - low) / 2.0, (most - least) / 2.0


def of_model(made: GuessAndCheck, *, surprises: int = 0, labels: float = 0.0) -> float:
    """Half-width of a model whose guess is confirmed."""
    nats = float(made.nats(_QUERIES // 2 + 1, surprises, labels + surprises * made.cells.cost / 1e6))
    low, high = made.intervals.of_guess(made.yes_no_procedure, _AT, nats)
    return (high - low) / 2.0


def splits() -> None:
    """Print what parts of beta buy and cost."""
    print("| texts have | told | checked | models, no surprise | models, after 10 |")
    print("| --- | --- | --- | --- | --- |")
    usual = [of_model(mechanism(None), surprises=count) for count in (0, 10)]
    for share in _SPLITS:
        made = mechanism(share)
        models = [of_model(made, surprises=count) for count in (0, 10)]
        more = [f"{new:.4f} (+{100.0 * (new / old - 1.0):.1f} %)" for new, old in zip(models, usual, strict=True)]
        told, checked = of_text(made, share)
        part = "what the tree leaves" if share is None else share
        print(f"| {part} | {told:.4f} | {checked:.4f} | {' | '.join(more)} |")


def tells() -> None:
    """Print what told texts cost models, for exact answers and for cells around the training estimate."""
    made = mechanism(0.5)
    told, checked = of_text(made, 0.5)
    print(f"| a text is told | within | nats | models after {', '.join(map(str, _TEXTS))} texts |")
    print("| --- | --- | --- | --- |")
    spread = math.sqrt(_ROWS * _AT * (1.0 - _AT))
    off = scipy.special.ndtri((np.arange(2_000) + 0.5) / 2_000) * math.sqrt(2.0) * spread
    counts = np.rint(_ROWS * _AT + off).astype(np.int64)
    trained = np.full(len(counts), float(_ROWS))
    exact = float(label_nats(counts, rows=_ROWS, at=np.full(len(counts), _AT), trained=trained).mean())
    lines = [("exactly", told, exact)]
    for half in _CELLS:
        ends = np.arange(-40.5, 41.0) * 2.0 * half
        chances = np.diff(scipy.special.ndtr(ends / math.sqrt(2.0)))
        lines.append(
            (f"within {half:g} standard errors", told + half * spread / _ROWS, float(scipy.special.entr(chances).sum()))
        )
    for how, within, nats in [*lines, ("checked", checked, 0.0)]:
        models = ", ".join(f"{of_model(made, labels=count * nats):.4f}" for count in _TEXTS)
        print(f"| {how} | {within:.4f} | {nats:.2f} | {models} |")


if __name__ == "__main__":
    splits()
    tells()
