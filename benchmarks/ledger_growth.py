"""What a ledger costs as it grows to 1,000,000 entries: an ask, opening it, verifying all of it, a certificate.

Asks are made in turn of all ledgers, so that their ratio to the shortest is of the same minutes: "ask / shortest" is
its median over rounds, and promised is at most 1.2. "First ask" is that of a process, which reads which queries there
are: 64 bytes of each entry; it remembers 32. A certificate goes on from the checkpoint that the verification left, and
promised are 5 s; for the verification 20,000 entries a second. ``python -m benchmarks.ledger_growth FOLDER`` keeps the
ledgers there, draws docs/images/ledger-growth.svg, and prints the table.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.long_ledgers import ROWS, lengthen, short_ledger
from benchmarks.timing import seconds
from everhold import Holdout, accuracy
from everhold.display import text_table
from everhold.ledger import verify

if TYPE_CHECKING:
    from collections.abc import Callable

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "ledger-growth.svg"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
ROUNDS, ASKS = 40, 5
_COLOURS = ("#0072b2", "#009e73", "#56b4e9", "#cc79a7", "#d55e00")


def measure(folder: str | None = None) -> list[dict[str, object]]:
    """One line for each length."""
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            return measure(temporary)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for size in SIZES:
        _prepare(folder, size)
    lines = [{"entries": size, **_opening(folder, size)} for size in SIZES]
    with ExitStack() as stack:
        holdouts = [stack.enter_context(Holdout.open(_storage(folder, size), "long")) for size in SIZES]
        checks = [_checking(holdout) for holdout in holdouts]
        asks = _asking(holdouts)
        certificates = [_certifying(holdout) for holdout in holdouts]
    return [
        {**line, **ask, **check, **certificate}
        for line, ask, check, certificate in zip(lines, asks, checks, certificates, strict=True)
    ]


def _storage(folder: str, size: int) -> str:
    return f"{folder}/long-{size}.db"


def _prepare(folder: str, size: int) -> None:
    storage = _storage(folder, size)
    if not Path(storage).exists():
        short_ledger(storage, queries=SIZES[-1] * 11 // 10)
    with Holdout.open(storage, "long") as holdout:
        lengthen(holdout, size)


def _new(rng: np.random.Generator) -> Any:
    return accuracy(rng.integers(0, 2, ROWS))


def _opening(folder: str, size: int) -> dict[str, float]:
    """A process that was not there before, as far as the ledger goes."""
    rng = np.random.default_rng(time.time_ns())
    began = time.perf_counter()
    with Holdout.open(_storage(folder, size), "long") as holdout:
        opened = time.perf_counter()
        holdout.ask(_new(rng), guess=0.5)
        asked = time.perf_counter()
        status = seconds(holdout.status)
    return {"open s": opened - began, "first ask s": asked - opened, "status ms": status * 1e3}


def _asking(holdouts: list[Holdout]) -> list[dict[str, float]]:
    rng = np.random.default_rng(time.time_ns())
    rounds = []
    for _ in range(ROUNDS):
        taken = []
        for holdout in holdouts:
            queries = [_new(rng) for _ in range(ASKS)]
            taken.append(seconds(lambda holdout=holdout, queries=queries: _ask_all(holdout, queries)) / ASKS)
        rounds.append(taken)
    kept = rounds[1:]
    return [
        {
            "ask ms": statistics.median(taken[place] for taken in kept) * 1e3,
            "ask / shortest": statistics.median(taken[place] / taken[0] for taken in kept),
        }
        for place in range(len(holdouts))
    ]


def _ask_all(holdout: Holdout, queries: list[Any]) -> None:
    for query in queries:
        holdout.ask(query, guess=0.5)


def _checking(holdout: Holdout) -> dict[str, float]:
    executor = holdout._executor
    taken, used = _wall_and_processor(
        lambda: verify(executor.store, "long", seal_key=executor.key.seal_key, head_file=executor.ledger.head_file)
    )
    entries = executor.ledger.head().sequence
    return {"verify s": taken, "entries / s": entries / taken, "entries / processor s": entries / used}


def _certifying(holdout: Holdout) -> dict[str, float]:
    taken, used = _wall_and_processor(holdout.certificate)
    return {"certificate s": taken, "of the processor": used}


def _wall_and_processor(action: Callable[[], object]) -> tuple[float, float]:
    before = time.process_time()
    return seconds(action), time.process_time() - before


def draw(lines: list[dict[str, object]]) -> None:
    """Milliseconds by length, both on logarithmic axes."""
    import altair as alt
    import pandas as pd

    from everhold.charts import save_chart, styled

    def decades(first: int, last: int) -> alt.Axis:
        return alt.Axis(values=[10**power for power in range(first, last + 1)], format=",")

    shown = {"one ask": ("ask ms", 1.0), "open": ("open s", 1e3), "first ask of a process": ("first ask s", 1e3),
             "certificate": ("certificate s", 1e3), "verify all": ("verify s", 1e3)}  # fmt: skip
    points = [
        {"entries": line["entries"], "milliseconds": float(str(line[name])) * scale, "what": what}
        for line in lines for what, (name, scale) in shown.items()
    ]  # fmt: skip
    chart = (
        alt.Chart(pd.DataFrame(points))
        .mark_line(point=True)
        .encode(
            x=alt.X("entries:Q", scale=alt.Scale(type="log"), title="entries of the ledger", axis=decades(3, 6)),
            y=alt.Y("milliseconds:Q", scale=alt.Scale(type="log"), title="milliseconds", axis=decades(0, 6)),
            color=alt.Color("what:N", sort=list(shown), scale=alt.Scale(range=_COLOURS), legend=alt.Legend(title=None)),
        )
        .properties(width=420, height=260)
    )
    said = (
        "What a ledger costs as it grows: an ask stays flat, verifying everything grows with its length, and a "
        "certificate and the first ask of a process read no more than which queries there are"
    )
    save_chart(styled(chart), PICTURE, title=said, caption=said)


if __name__ == "__main__":
    table = measure(*sys.argv[1:2])
    print(f"load {os.getloadavg()[0]:.1f}\n{text_table(table)}")
    draw(table)
