"""All queries of a holdout with their answers, as a certificate lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.answers import FailingRows
from everhold.asking.reports.model_names import with_names
from everhold.certificate.form import in_document
from everhold.ledger.store import all_entries
from everhold.queries.query import rows_of
from everhold.values.base import clips_in_words, kept_clips
from everhold.values.units import MeanUnits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from everhold.asking.query_executor import QueryExecutor
    from everhold.ledger import Entry
    from everhold.ledger.sealed_values import Numbers

    Names = Callable[[Sequence[Entry]], Mapping[str, str]]

__all__ = ["MOST_LISTED", "listed_queries"]

MOST_LISTED = 2_000
"""Queries in the list of a certificate; of more there is no list, so that the file stays small."""

_NAMES = ("value", "low", "high")


def listed_queries(
    executor: QueryExecutor, *, last: int, told: Mapping[int, Numbers], names: Names
) -> list[dict[str, Any]]:
    """Every query up to an entry of the ledger, in order, with its numbers in the units of the query.

    Args:
        executor: The holdout at work.
        last: Number of the last entry.
        told: Unsealed numbers, by the number of the entry.
        names: From entries to the names of models by SHA-256.
    """
    entries = all_entries(executor.ledger, last)
    known, step = names(entries), executor.mechanism.row_step
    listed = (_listed(entry, told.get(entry.sequence), step) for entry in entries if not entry.is_act)
    return [{**query, "asked": with_names(query["asked"], known)} for query in listed]


def _listed(entry: Entry, sealed: Numbers | None, step: float) -> dict[str, Any]:
    answer, reading = entry.answer, MeanUnits.kept(entry.description)
    numbers = [answer.get(name) for name in _NAMES]
    has_interval = reading is not None and all(isinstance(number, (int, float)) for number in numbers)
    shown = reading.in_units(*numbers, row_step=step) if reading is not None and has_interval else (None,) * 3
    unsealed = reading.in_units(*sealed, row_step=step) if reading is not None and sealed is not None else None
    return {
        "entry": entry.sequence,
        "asked": asked_in_words(entry),
        "measure": "value" if reading is None else reading.measure,
        "source": answer["source"],
        **{name: in_document(number) for name, number in zip(_NAMES, shown, strict=True)},
        "charged": entry.charged,
        **({} if (rows := rows_of(answer)) is None else {"rows": list(rows)}),
        **({} if unsealed is None else {"unsealed": dict(zip(_NAMES, map(in_document, unsealed), strict=True))}),
    }


def asked_in_words(entry: Entry, *, failing: bool = True) -> str:
    """The query as people read it, with what is clipped, and on which share of the rows a model fails.

    Args:
        entry: Of the ledger.
        failing: Whether that share is told, too.
    """
    fails = FailingRows.kept(entry.answer) if failing else None
    parts = str(entry.description["shown"]), str(fails) if fails else "", clips_in_words(kept_clips(entry.description))
    return "; ".join(filter(None, parts))
