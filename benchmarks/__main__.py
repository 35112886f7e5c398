"""Run every benchmark and write benchmarks/RESULTS.md: ``python -m benchmarks`` or ``make bench``.

``python -m benchmarks durable_asks ledger_growth`` runs these and writes their parts anew; the others stay.
"""

from __future__ import annotations

import datetime
import importlib
import os
import platform
import sys
from pathlib import Path

from everhold.display import text_table

NAMES = (
    "headline", "evaluation", "durable_asks", "ledger_growth", "batches", "looking", "planning", "dependence",
    "selection", "peers", "service", "contests", "engines", "growth", "arrivals",
)  # fmt: skip
RESULTS = Path(__file__).parent / "RESULTS.md"


def main() -> None:
    """Measure, print and write; with names only those, and the other parts stay as they are."""
    if unknown := {*sys.argv[1:]} - {*NAMES}:
        sys.exit(f"there is no benchmark {', '.join(sorted(unknown))}; expected some of {', '.join(NAMES)}")
    parts = {name: part for name, part in _written().items() if sys.argv[1:]}
    for name in sys.argv[1:] or NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        print(f"{name} ...", file=sys.stderr)
        table = text_table(module.measure())
        parts[name] = part_of(name, module.__doc__ or "", table)
        print(table)
    write(parts)


def part_of(name: str, said: str, table: str) -> str:
    """What the results say of one benchmark, with the load under which it ran."""
    load = f"On {datetime.datetime.now(datetime.UTC):%Y-%m-%d}, load {os.getloadavg()[0]:.1f}."
    return f"## {name.replace('_', ' ')}\n\n{said.strip()}\n\n{load}\n\n```text\n{table}\n```"


def write(parts: dict[str, str]) -> None:
    """Write all parts, in order."""
    first = (
        f"# Measured speeds\n\nMade by `make bench`: {platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}. Shared machine: trust the ratios, which compare interleaved runs, more "
        "than the times."
    )
    text = "\n\n".join([first, *(parts[name] for name in NAMES if name in parts)])
    RESULTS.write_text(f"{text}\n", encoding="utf-8")


def _written() -> dict[str, str]:
    """The parts that are there, by name."""
    parts = RESULTS.read_text(encoding="utf-8").split("\n## ")[1:]
    return {part.partition("\n")[0].replace(" ", "_"): f"## {part.strip()}" for part in parts}


if __name__ == "__main__":
    main()
