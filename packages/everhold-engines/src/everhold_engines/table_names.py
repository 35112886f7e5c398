"""Names of tables, and paths of their files."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

_PATTERN = re.compile(r"[*?\[\]{}\\]")
_PART = re.compile(r'`(?:[^`]|``)+`|"(?:[^"]|"")+"|[^.`"]+')


def name_parts(table: str) -> list[str]:
    """The parts of a table's name, which may stand in double quotes or backquotes.

    Examples:
        >>> name_parts('study.flights'), name_parts('study."flights.2024"')
        (['study', 'flights'], ['study', 'flights.2024'])
    """
    found = _PART.findall(table) if isinstance(table, str) else []
    if not found or ".".join(found) != table or "\0" in table:
        raise ValueError(
            f"{table!r} is not the name of a table; expected one such as flights or study.flights, a part with other "
            "signs in double quotes"
        )
    return [_unquoted(part) for part in found]


def known_path(path: str) -> set[str]:
    """A path as it is known, whatever it is called; nothing for a pattern of paths.

    Examples:
        >>> known_path("file:/data/../lake/flights/"), known_path("/data/*")
        ({'/lake/flights'}, set())
    """
    if _PATTERN.search(path):
        return set()
    return {os.path.realpath(re.sub(r"^file:/+", "/", path))}


def overlap(*names: str) -> bool:
    """True if two tables may be the same, or one contains files of the other."""
    shorter, longer = sorted((f"{name.casefold()}/" for name in names), key=len)
    return longer.startswith(shorter)


def _unquoted(part: str) -> str:
    return part if part[0] not in '`"' else part[1:-1].replace(part[0] * 2, part[0])
