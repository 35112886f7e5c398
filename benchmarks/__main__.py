"""Run benchmarks and write benchmarks/RESULTS.md: ``python -m benchmarks`` or ``make bench``; names run only these."""

from __future__ import annotations

import datetime
import importlib
import os
import platform
import sys
from pathlib import Path

from everhold.display import text_table

NAMES = (
    "evaluation", "durable_asks", "batches", "looking", "planning", "dependence", "selection", "peers", "service",
    "engines", "growth",
)  # fmt: skip
_RESULTS = Path(__file__).parent / "RESULTS.md"


def main() -> None:
    """Measure, print and write; parts that were not asked for stay as they are."""
    wanted = sys.argv[1:] or NAMES
    if unknown := {*wanted} - {*NAMES}:
        sys.exit(f"there is no benchmark {', '.join(sorted(unknown))}; expected some of {', '.join(NAMES)}")
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    head, *known = _RESULTS.read_text(encoding="utf-8").split("\n## ") if sys.argv[1:] else [_head(today)]
    parts = {part.split("\n", 1)[0]: part.split("\n", 1)[1].strip() for part in known}
    for name in wanted:
        module = importlib.import_module(f"benchmarks.{name}")
        print(f"{name} ...", file=sys.stderr)
        table = text_table(module.measure())
        alone = [f"This part was run by itself, on {today}."] if sys.argv[1:] else []
        said = [(module.__doc__ or "").strip(), *alone, f"```text\n{table}\n```"]
        parts[name.replace("_", " ")] = "\n\n".join(said)
        print(table)
    written = [head.strip(), *(f"## {name}\n\n{part}" for name, part in parts.items())]
    _RESULTS.write_text("\n\n".join(written) + "\n", encoding="utf-8")


def _head(today: str) -> str:
    return (
        f"# Measured speeds\n\nMade by `make bench` on {today}: {platform.system()} "
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}. "
        "Shared machine: trust the ratios, which compare interleaved runs, more than the times."
    )


if __name__ == "__main__":
    main()
