"""Pictures drawn by another process: ``python -m everhold.charts.drawing`` reads a wish a line and writes a picture.

Drawing takes long and keeps Python busy, so whoever serves people lets a process of its own do it. The process gets
plain data, which its visitor may see; it opens no file and no database. It ends when its input does.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

from everhold.charts import svg_text
from everhold.charts.dependence import portrait_of
from everhold.charts.plans import plan_by_queries, plan_by_rows, plan_by_values
from everhold.charts.studies import answers_chart, budget_chart, estimates_chart, gates_chart
from everhold.dependence import dependence_from_dict
from everhold.planning import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from everhold.dependence import DependenceModel

__all__ = ["DRAWINGS", "drawn", "main"]

_PLANS = {"queries": plan_by_queries, "rows": plan_by_rows, "values": plan_by_values}
DRAWINGS: Mapping[str, Callable[..., Any]] = {
    "answers": answers_chart,
    "budget": budget_chart,
    "dependence": lambda model: _portrayed(dependence_from_dict(model)),
    "estimates": estimates_chart,
    "gates": gates_chart,
    "plan": lambda against, **wish: _PLANS[against](plan(**wish), narrow=True),
}
"""What can be drawn, by name: functions of plain data."""


def _portrayed(model: DependenceModel) -> Any:
    portrait = portrait_of(model)
    return None if portrait is None else portrait.draw()


_OWN_STYLE = re.compile("<style>.*?</style>", re.DOTALL)
"""Of a picture that stands alone; in a page, the page says how it looks."""


def drawn(name: str, title: str, facts: Mapping[str, Any]) -> str:
    """A picture as an SVG element for a page that has a style for it.

    Args:
        name: In `DRAWINGS`.
        title: What it shows, for those who do not see it.
        facts: What it is drawn from.

    Raises:
        ValueError: If there is nothing to draw.
    """
    chart = DRAWINGS[name](**facts)
    if chart is None:
        raise ValueError("there is no such picture of this; expected another one; there is nothing to draw")
    return _OWN_STYLE.sub("", svg_text(chart, title=title), count=1)


def answered(wishes: Iterable[str]) -> Iterator[str]:
    """A line for each line: the picture, or null where there is none."""
    for line in wishes:
        try:
            yield json.dumps(drawn(**json.loads(line)))
        except Exception:  # a picture that fails is no reason to draw no more
            yield "null"


def main() -> None:
    """Draw until the input ends."""
    for line in answered(sys.stdin):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
