"""Run every benchmark and write benchmarks/RESULTS.md: ``python -m benchmarks`` or ``make bench``."""

from __future__ import annotations

import datetime
import importlib
import os
import platform
import sys
from pathlib import Path

from everhold.display import text_table

NAMES = ("evaluation", "durable_asks", "batches", "looking", "planning", "dependence", "selection", "peers", "service")


def main() -> None:
    """Measure, print and write."""
    parts = [
        "# Measured speeds",
        f"Made by `make bench` on {datetime.datetime.now(datetime.UTC):%Y-%m-%d}: {platform.system()} "
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}. "
        "Shared machine: trust the ratios, which compare interleaved runs, more than the times.",
    ]
    for name in NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        print(f"{name} ...", file=sys.stderr)
        table = text_table(module.measure())
        parts += [f"## {name.replace('_', ' ')}", (module.__doc__ or "").strip(), f"```text\n{table}\n```"]
        print(table)
    (Path(__file__).parent / "RESULTS.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
