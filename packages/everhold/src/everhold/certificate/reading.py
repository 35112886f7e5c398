"""Reading of a file that should hold a certificate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from everhold.certificate.form import DATA_BEGIN, DATA_END
from everhold.ledger.chain import canonical
from everhold.strict_json import JsonFault, read_json

MOST_BYTES = 4 * 2**20
_MOST_DEPTH = 16


class Malformed(Exception):
    """The file is not what it should be; says in words why, and quotes at most one name from it."""


def read_document(path: Path | str) -> tuple[Any, str | None]:
    """The JSON value in a file, of any type, and the page that it came in; None for a JSON file.

    Raises:
        Malformed: If there is no document in it.
    """
    text = _read(path)
    if not text.lstrip().startswith("<"):
        return _parsed(text), None
    if text.count(DATA_BEGIN) != 1:
        raise Malformed("the page does not hold exactly one signed document")
    inside = text.split(DATA_BEGIN)[1]
    if DATA_END not in inside:
        raise Malformed("the signed document in the page has no end")
    return _parsed(inside.split(DATA_END)[0]), text


def _read(path: Path | str) -> str:
    try:
        path = Path(path)
        if not path.is_file():
            raise Malformed("there is no such file")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError):  # a null byte in a name is a ValueError
        raise Malformed("the file cannot be read") from None
    if len(content) > MOST_BYTES:
        raise Malformed(f"the file is larger than {MOST_BYTES // 2**20} MiB, and no certificate is")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Malformed("the file is not text in UTF-8") from None
    return text.replace("\r\n", "\n")  # what mail and version control may do to line ends


def _parsed(text: str) -> Any:
    try:
        value = read_json(text)
    except JsonFault as fault:
        raise Malformed(f"the document {fault}") from None
    _check_depth(value)
    try:
        return json.loads(canonical(value))  # sorted, so that a page does not depend on the order in the file
    except ValueError:
        raise Malformed("the document holds a number that is not finite, or text that is not Unicode") from None


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_MOST_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise Malformed("the document is nested too deeply")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
