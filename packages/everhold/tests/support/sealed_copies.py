"""Holdouts that a process seals once and copies for each test that wants the same, since sealing takes longer.

Copies share their keys and their private noise: repeated games, and what is about sealing itself, seal anew.
"""

import pickle
import shutil
import tempfile
from pathlib import Path

from fixed_chance import fixed_chance

from everhold import Holdout

__all__ = ["copied_into", "copy_of"]

_kept = tempfile.TemporaryDirectory(prefix="everhold-sealed-")
_made = {}


def copied_into(folder, make, *wanted):
    """Fill a folder as ``make(folder)`` does, which closes what it opens, and does the same for the same request."""
    try:
        key = pickle.dumps((make.__module__, make.__qualname__, *wanted))
    except (pickle.PicklingError, AttributeError, TypeError):  # a request of objects that cannot be compared
        make(folder)
        return
    if key not in _made:
        template = Path(tempfile.mkdtemp(dir=_kept.name))
        with fixed_chance(key):  # whichever test asks first
            make(template)
        _made[key] = template
    for part in _made[key].iterdir():
        if (folder / part.name).exists():
            raise FileExistsError(f"{part.name} is there already; only a new folder can be a copy")
    shutil.copytree(_made[key], folder, dirs_exist_ok=True)


def copy_of(folder, make, *wanted, storage="study.db", name="study"):
    """The holdout that ``make(folder, *request)`` makes in this storage, opened from a copy."""
    copied_into(folder, lambda template: make(template, *wanted).close(), make.__module__, make.__qualname__, wanted)
    return Holdout.open(folder / storage, name)
