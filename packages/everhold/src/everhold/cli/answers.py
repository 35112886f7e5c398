"""Printing of answers, and saving of synthetic tables."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

from everhold.answers import SILENT, estimand_in_words
from everhold.cli.failures import Misuse
from everhold.cli.output import Format, note, show_list
from everhold.display import left_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from everhold.answers import Answer

_ENDINGS = (".csv", ".parquet")


def show_answer(answer: Any, form: Format, *, whole: Mapping[str, int] | None, files: Sequence[str] = ()) -> None:
    """Print the answer to a query of any kind.

    Args:
        answer: What `Holdout.ask` returned.
        form: How to print it.
        whole: What of the budget was left at the beginning, by name; None where unknown.
        files: The candidates' files, where there were some; a hash would tell people nothing.
    """
    document = answer.to_dict()
    if files and document["index"] is not None:
        document["candidate" if "candidate" in document else "asked"] = files[document["index"]]
    listed = {"bins", "groups"} & set(document)
    lines = answer.to_rows() if listed or isinstance(document.get("values"), list) else [document]
    if answer.refused:
        note(_refusal(answer, document))
    elif getattr(answer, "source", None) == SILENT and document.get("sealed") is None:
        note(answer.explain())
    elif document.get("about"):
        note(estimand_in_words(document["about"]))
    columns = [name for name in lines[0] if name != "about"]
    if form is Format.TABLE and lines[0] is document:
        left = left_in_words(document["remaining"], whole)
        lines = [{**document, "remaining": left, "query": answer.shown}]
    show_list(lines, columns, form, document=document)


def show_columns(answers: Mapping[str, Answer], form: Format) -> None:
    """Print the answers about the columns of one file of predictions, by the column's name."""
    refused = sum(answer.refused for answer in answers.values())
    if refused:
        note(f"refused: {refused:,} of {len(answers):,} columns; nothing was charged for them")
    if (about := next(iter(answers.values())).about) is not None:
        note(estimand_in_words(about))
    lines = [{"column": name, **answer.to_dict()} for name, answer in answers.items()]
    show_list(lines, ["column", "value", "low", "high", "source", "charged", "query"], form, document=lines)


def _refusal(answer: Any, document: Mapping[str, Any]) -> str:
    for what in ("bins", "groups"):
        if what in document:
            refused = sum(line["source"] == "refused" for line in document[what])
            return f"refused: {refused} of {len(document[what])} {what}; {answer.charged:,} was charged for the others"
    return f"refused: {answer.explain()}" if "value" in document else f"{answer}; nothing was charged"


def check_output(output: Path | None, *, wanted: bool) -> None:
    """Check, before anything is charged, whether a table can be written.

    Raises:
        Misuse: If it cannot, or there will be none.
    """
    if not wanted:
        if output is not None:
            raise Misuse("--output belongs to --synthesize; leave it out or ask for a table")
        return
    if output is None or output.suffix.lower() not in _ENDINGS:
        found = "there is no --output" if output is None else f"--output is {str(output)!r}"
        raise Misuse(
            f"{found}; expected a file such as table.csv or table.parquet; nothing was charged; 'everhold quote' says "
            "what the table would cost"
        )
    if not output.absolute().parent.is_dir():
        raise Misuse(f"--output is {str(output)!r}; expected a file in a folder that exists; nothing was charged")


def save_table(table: Any, path: Path) -> None:
    """Save a synthetic table: one line for each cell that has any weight."""
    rows = table.to_rows()
    if path.suffix.lower() == ".parquet":
        from everhold.display import write_parquet

        write_parquet(path, rows)
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
