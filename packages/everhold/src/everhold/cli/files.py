"""Files that an analyst hands in: documents in JSON, Python functions.

They are the analyst's own, so what is wrong with them may be told.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.errors import QueryRejected
from everhold.strict_json import JsonFault, read_json

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_BYTES = 10_000_000


def read_document(path: Path) -> dict[str, Any]:
    """Read the object that a JSON file holds.

    Raises:
        QueryRejected: If it holds none.
    """
    if path.stat().st_size > _MOST_BYTES:
        raise _rejected(f"{path.name} is too large", f"expected at most {_MOST_BYTES:,} bytes")
    try:
        document = read_json(path.read_bytes())
    except JsonFault as fault:
        raise _rejected(f"{path.name} {fault}", "expected a JSON object with each name once") from None
    if not isinstance(document, dict):
        raise _rejected(f"{path.name} holds no JSON object", 'expected a file such as {"columns": [...]}')
    return document


def read_function(place: str) -> Callable[..., Any]:
    """The function of this name in a Python file, which is run.

    Args:
        place: Such as ``pulls.py:pull``.

    Raises:
        QueryRejected: If there is no such file or function, or the file fails.
    """
    path, _, name = place.rpartition(":")
    if not path.endswith(".py") or not Path(path).is_file():
        raise _rejected(
            f"{place!r} names no function", "expected a Python file and a name in it, such as pulls.py:pull"
        )
    spec = spec_from_file_location(f"everhold_code_{Path(path).stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there for the module of their own
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as fault:
        raise _rejected(f"{Path(path).name} fails with {type(fault).__name__}: {fault}", "correct the file") from fault
    function = getattr(module, name, None)
    if not callable(function):
        raise _rejected(f"{Path(path).name} has no function {name!r}", "expected the name of one of its functions")
    called: Callable[..., Any] = function
    return called


def _rejected(problem: str, advice: str) -> QueryRejected:
    return QueryRejected(f"{problem}; {advice}")
