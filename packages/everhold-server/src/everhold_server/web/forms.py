"""Content of a form: texts, numbers and files, each checked before anything is done with it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold_server.uploads import Brought

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from everhold_server.uploads import RequestContent

ENDINGS = ".csv,.tsv,.parquet,.arrow"
"""File name endings that a browser offers for a table; the kind of a file is seen in the file."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a form; every form is sent as multipart.

    Attributes:
        received: What was sent; None for an empty form.
    """

    received: RequestContent | None = None

    def text(self, name: str) -> str:
        """A field without blanks around it; empty where there is none."""
        written = None if self.received is None else self.received.text(name)
        return (written or "").strip()

    def some(self, name: str) -> str | None:
        """A field; None where nothing was written."""
        return self.text(name) or None

    def ticked(self, name: str) -> bool:
        """True if a box was ticked."""
        return bool(self.text(name))

    def number(self, name: str, otherwise: float | None = None) -> float | None:
        """A number; what else there is where nothing was written."""
        written = self.text(name).replace(",", "")
        if not written:
            return otherwise
        try:
            value = float(written)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise _rejected(f"{name.replace('_', ' ')} is {brief(written)}", "expected a number")
        return value

    def whole(self, name: str, otherwise: int | None = None) -> int | None:
        """A whole number, likewise."""
        value = self.number(name)
        if value is None:
            return otherwise
        if value != int(value):
            raise _rejected(f"{name.replace('_', ' ')} is {value:g}", "expected a whole number")
        return int(value)

    def file(self, name: str) -> Path | None:
        """A file that was chosen; None where there is none, for which browsers send an empty one."""
        path = self.files.get(name)
        return None if path is None or not path.stat().st_size else path

    @property
    def files(self) -> Mapping[str, Path]:
        """All files by the names of their fields."""
        return {} if self.received is None else self.received.files

    @property
    def chosen(self) -> RequestContent:
        """Content of the form without empty fields, which browsers send, too."""
        assert self.received is not None
        return replace(
            self.received,
            files={name: path for name in self.files if (path := self.file(name)) is not None},
            texts={name: text for name, text in self.received.texts.items() if text.strip()},
        )


def _rejected(problem: str, expected: str) -> QueryRejected:
    return QueryRejected(f"{problem}; {expected}; nothing was changed or charged")


def _sent(brought: Brought) -> Fields:
    return Fields(brought)


Form = Annotated[Fields, Depends(_sent)]
"""The form of a request; a route names its principal first, so that nothing is read of who may not send it."""
