"""Where a fault happened, without what it says: its message and variables could quote sealed rows."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

__all__ = ["place_of"]

_HOUSE = Path(__file__).parents[1]


def place_of(fault: BaseException) -> dict[str, Any]:
    """The class of a fault, and the frames of everhold that it came through, as ``file:line``."""
    frames = [
        f"{Path(frame.filename).relative_to(_HOUSE)}:{frame.lineno}"
        for frame in traceback.extract_tb(fault.__traceback__)
        if Path(frame.filename).is_relative_to(_HOUSE)
    ]
    return {"fault": type(fault).__name__, "places": frames}
