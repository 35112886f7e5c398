"""Plans as plain data, which a worker process makes for a service."""

from __future__ import annotations

from typing import Any

from everhold.dependence import dependence_from_dict
from everhold.display import plain
from everhold.errors import EverholdError, QueryRejected, warnings_collected
from everhold.planning.plan import plan


def plain_plan(study: dict[str, Any]) -> dict[str, Any]:
    """Return a plan as plain data.

    Args:
        study: Arguments of `everhold.plan`, with the dependence as plain data or None.

    Returns:
        ``{"plan", "explanation", "best", "notes", "warnings"}``, where ``best`` is the recommended mechanism and
        ``notes`` are by mechanism.

    Raises:
        DependenceError: If the dependence is not a model.
        QueryRejected: If the arguments contradict each other, or no number of rows is enough.
    """
    declared = study.pop("dependence", None)
    try:
        with warnings_collected() as warned:
            made = plan(dependence=None if declared is None else dependence_from_dict(declared), **study)
    except EverholdError:
        raise
    except ValueError as fault:
        raise QueryRejected(str(fault)) from None
    except (TypeError, OverflowError):
        raise QueryRejected("An argument is of an unexpected type. Correct it.") from None
    return {
        "plan": plain(made.to_dict()),
        "explanation": made.explain(),
        "best": made.best.mechanism,
        "notes": {line.mechanism: line.note for line in made.lines},
        "warnings": [str(warning) for warning in warned],
    }
