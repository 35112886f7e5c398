"""Place of a fault, without its message and variables, which could quote sealed rows."""

from __future__ import annotations

import traceback
from typing import Any

from everhold.errors import is_of_everhold


def place_of(fault: BaseException) -> dict[str, Any]:
    """The class of a fault, and the frames of everhold's distributions that it came through, as ``module:line``."""
    places = [
        f"{frame.f_globals['__name__']}:{line}"
        for frame, line in traceback.walk_tb(fault.__traceback__)
        if is_of_everhold(frame)
    ]
    return {"fault": type(fault).__name__, "places": places}
