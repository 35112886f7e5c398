"""Writes docs/theory/sources.md from the items of the laboratory: ``make sources``."""

from __future__ import annotations

import re
from pathlib import Path

from everhold_lab.experiments import EXPERIMENTS
from everhold_lab.sources import SOURCES, Call, ExperimentOf, Item, number, written

DOCS = Path(__file__).parent
PAGE = DOCS / "theory" / "sources.md"

HEAD = """<!-- made by: python docs/sources_page.py -->

# The sources, item by item

everhold grew out of three texts: Jun Zhao's paper *Adaptive Statistical Learning with Bayesian
Differential Privacy* (WPES 2017), and two sets of lecture notes, *Adaptive Data Analysis* (Lecture
23) and *More DP techniques*. This page lists their algorithms, definitions, statements, figures and
examples: {count} items. Each has the call or command that evaluates it, and the number that it gives.

The page is generated from `everhold_lab.sources`, where the call that is shown is the call that is
made. A test computes all numbers again. Losses are in nats and max-information is in bits.
[Published statements and errata](published.md) says what is wrong in a source and how each statement
is checked. The functions' modules are [listed below](#where-the-functions-are).

`everhold lab sources` prints the same table with numbers that are computed on the spot. `everhold lab
rows`, `everhold lab leakage`, `everhold lab influence` and `everhold lab information` evaluate the
paper's quantities for numbers and small models of your own.
"""


def page() -> str:
    """The whole page, in Markdown; every number is computed."""
    count = sum(len(items) for _, items in SOURCES.values())
    parts = [HEAD.format(count=count)]
    for title, items in SOURCES.values():
        lines = [_line(item) for item in items]
        head = f"## {title}\n\n{len(items)} items.\n\n| item | what it says | call or command | number |"
        parts.append("\n".join([head, "| --- | --- | --- | ---: |", *lines]) + "\n")
    return "\n".join([*parts, _modules()])


def _line(item: Item) -> str:
    return f"| {item.place} | {item.says} | `{item.run.shown}` | {_number(item)} |"


def _number(item: Item) -> str:
    if isinstance(item.run, ExperimentOf):
        return _recorded(item.run.name)
    return written(number(item))


def _recorded(name: str) -> str:
    """The findings of an experiment that are kept, as its record in docs/experiments.md counts them."""
    title = EXPERIMENTS[name].title
    record = (DOCS / "experiments.md").read_text(encoding="utf-8")
    found = re.search(rf"^\| {re.escape(title)} \|.*\| (\d+ of \d+) \|$", record, re.MULTILINE)
    if found is None:
        raise LookupError(f"docs/experiments.md has no line for {title!r}; run: make experiments")
    anchor = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return f"[{found[1]} findings kept](../experiments.md#{anchor})"


def _modules() -> str:
    homes: dict[str, set[str]] = {}
    for _, items in SOURCES.values():
        for item in items:
            for one in _calls(item.run):
                name = getattr(one.function, "__qualname__", "").partition(".")[0]
                homes.setdefault(one.function.__module__, set()).add(name)
    lines = [
        f"| `{home}` | {', '.join(f'`{name}`' for name in sorted(names))} |" for home, names in sorted(homes.items())
    ]
    return "\n".join(["## Where the functions are", "", "| module | names |", "| --- | --- |", *lines]) + "\n"


def _calls(run: object) -> list[Call]:
    if not isinstance(run, Call):
        return []
    return [run, *(inner for value in (*run.arguments, *run.named.values()) for inner in _calls(value))]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
