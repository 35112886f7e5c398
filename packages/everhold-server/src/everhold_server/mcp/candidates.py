"""Reads the models with which agents challenge a champion: rules, predictions by id, or a file in one folder.

An agent must not be able to make the server read any other file, or run any code. A model is therefore a rule, which is
parsed, or predictions, which are data. A file is named without a path, opened without following links, and copied
before it is read.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold_server.wire.queries import predictions_from

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everhold.queries.predictions.arrays import PredictionTable
    from everhold.values.base import Schema

Label = int | float | str

_MOST_BYTES = 2**28


@dataclass(frozen=True, slots=True)
class PredictionsFolder:
    """Folder from which an agent's files of predictions are read. Files in other folders are refused.

    Attributes:
        path: The folder; agents may write to it, and nothing secret lies there.
        read: Function that reads predictions from the file at a path, for rows of a schema.
    """

    path: Path
    read: Callable[[Path, Schema], PredictionTable]

    def table(self, name: str, schema: Schema) -> PredictionTable:
        """Return the predictions in a file of the folder as a table.

        Raises:
            QueryRejected: If the folder has no plain file of this name, or the file cannot be read. Nothing is charged.
        """
        content = self._content(name)
        with tempfile.TemporaryDirectory() as private:  # what is read is what was checked
            copied = Path(private) / name
            copied.write_bytes(content)
            return self.read(copied, schema)

    def _content(self, name: str) -> bytes:
        if name in ("", ".", "..") or Path(name).name != name or "\\" in name or not name.isprintable():
            raise _rejected(
                f"file is {brief(name)}", "Pass the name of a file in the predictions folder, without a path"
            )
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        try:
            with os.fdopen(os.open(self.path / name, flags), "rb") as file:
                found = os.fstat(file.fileno())
                if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_size <= _MOST_BYTES:
                    return file.read(_MOST_BYTES)
        except (OSError, ValueError):
            pass
        raise _rejected(
            f"There is no plain file {brief(name)} in the predictions folder",
            f"Write a plain file of at most {_MOST_BYTES:,} bytes there, and name it without a path",
        )


def predictions_wanted(schema: Schema) -> str:
    """Return a text that says in which forms a challenger can be passed."""
    if not schema.features_public:
        return "rule, an expression over the features"
    by = "an object from row id to prediction" if schema.row_id else "a list in the order of the rows"
    return f"rule, an expression over the features, or predictions, {by}, or file"


def candidate(
    schema: Schema,
    folder: PredictionsFolder | None,
    *,
    rule: str | None,
    predictions: Mapping[str, Label] | Sequence[Label] | None,
    file: str | None,
) -> Any:
    """Return the model that an agent proposes: a rule, predictions in the order of the rows, or a table of them by id.

    Args:
        schema: Schema of the rows.
        folder: Folder of prediction files. None if files are not accepted.
        rule: An expression over the features.
        predictions: Predictions by row id, or in the order of the rows if rows have no ids.
        file: The name of a file in the folder.

    Raises:
        QueryRejected: If not exactly one of rule, predictions and file is given, or it cannot be used. Nothing is
            charged.
    """
    given = {"rule": rule, "predictions": predictions, "file": file}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise _rejected(
            f"The call has {' and '.join(named) or 'no challenger'}",
            f"Pass exactly one of {predictions_wanted(schema)}",
        )
    if rule is not None:
        return rule
    if not schema.features_public:
        raise _rejected(
            "The features of the sealed rows are sealed, so nobody can have predictions for these rows",
            "Send a rule, which is computed where the rows are, or use a holdout created with --features public",
        )
    if predictions is not None:
        row_id = schema.row_id
        if isinstance(predictions, Mapping) != (row_id is not None):
            expected = (
                "a list of predictions in the order of the rows" if row_id is None
                else f"an object from each {row_id!r} to its prediction"
            )  # fmt: skip
            raise _rejected(f"The rows have {'no' if row_id is None else 'their'} ids", f"Pass {expected}")
        return predictions_from(predictions, schema, {})
    if folder is None:
        raise _rejected(
            "This server reads no files: it was started without --predictions-folder",
            "Pass the predictions themselves, or a rule",
        )
    return folder.table(str(file), schema)


def _rejected(problem: str, advice: str) -> QueryRejected:
    return QueryRejected(f"{problem}. {advice}.")
