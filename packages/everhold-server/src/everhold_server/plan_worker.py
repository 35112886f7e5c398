"""Worker process that makes plans for a service, with hard limits of memory and processor time.

A network of thirty nodes can take minutes, and a thread can be neither ended nor made to release its memory. So plans
are made in a process that the service can end. Requests and plans are lines of JSON on standard input and output.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from everhold.dependence import dependence_from_dict
from everhold.display import plain
from everhold.errors import DependenceError, warnings_collected
from everhold.planning.plan import plan
from everhold_server.untrusted.worker import limit

CPU_SECONDS = 10
"""Processor time of one plan; an ordinary one takes about one second."""

_MEMORY = 2 * 2**30  # bytes of address space


def work() -> None:
    """Compute a plan for each line of standard input, and write the results as lines, until the input ends."""
    for line in sys.stdin:
        limit_work()
        sys.stdout.write(f"{json.dumps(answer(json.loads(line)))}\n")
        sys.stdout.flush()


def limit_work() -> None:
    """Limit the processor time and memory of this process. The system ends the process beyond the limits."""
    limit(memory=_MEMORY, seconds=CPU_SECONDS, renewed=True)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return a plan, or an error, as plain data.

    Args:
        request: Arguments of `everhold.plan`, with the dependence as plain data or None.

    Returns:
        ``{"plan", "explanation", "best", "notes", "warnings"}``, where ``best`` is the recommended mechanism and
        ``notes`` are by mechanism; or ``{"refused", "dependence"}``: the reason, and whether it is about
        the dependence.
    """
    declared = request.pop("dependence", None)
    try:
        with warnings_collected() as warned:
            made = plan(dependence=None if declared is None else dependence_from_dict(declared), **request)
    except DependenceError as fault:
        return {"refused": fault.message, "dependence": True}
    except ValueError as fault:
        return {"refused": str(fault), "dependence": False}
    except (TypeError, OverflowError):
        return {"refused": "an argument is of a type that is not expected", "dependence": False}
    return {
        "plan": plain(made.to_dict()),
        "explanation": made.explain(),
        "best": made.best.mechanism,
        "notes": {line.mechanism: line.note for line in made.lines},
        "warnings": [str(warning) for warning in warned],
    }


if __name__ == "__main__":
    work()
