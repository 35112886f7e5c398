"""Names of models in place of hashes: from the entries of the ledger that say what a champion was."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from everhold.ledger.entry_counts import GATE, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from everhold.ledger import Entry

__all__ = ["model_names", "with_names"]

_GATE = re.compile(
    r"gate (?:'.*?'|\".*?\"): \S.*? of (?P<model>.+?)(?: is the champion| against champion [0-9a-f]{8})?", re.DOTALL
)
_HASHED = re.compile(r"\b(?P<what>predictions|against champion) (?P<hash>[0-9a-f]{8})\b")
_SHORT = 8  # digits of a hash in the text of a query


def model_names(entries: Iterable[Entry], known: Mapping[str, str]) -> dict[str, str]:
    """Names of models at a gate by the SHA-256 of the query about them, beside names that are known.

    Args:
        entries: Of the ledger, in order; names come only from these.
        known: Names by the SHA-256 of predictions, such as those of submissions.
    """
    models: dict[str, str] = {}
    for entry in entries:
        source, description = entry.answer["source"], entry.description
        if source == GATE or source in VERDICTS:
            digest = description["champion" if source == GATE else "challenger"]
            if (said := _GATE.fullmatch(description["shown"])) is not None:
                models.setdefault(digest, said["model"])
    return {**known, **{digest: with_names(model, known) for digest, model in models.items()}}


def with_names(text: str, names: Mapping[str, str]) -> str:
    """The text of a query with names in place of the short hashes of predictions and champions.

    Args:
        text: Such as ``"accuracy of predictions 0f1e2d3c"``.
        names: Of `model_names`.

    Examples:
        >>> with_names("accuracy of predictions 0f1e2d3c", {"0f1e2d3c" + 56 * "0": "submission 2 of larks"})
        'accuracy of submission 2 of larks'
    """
    short = {digest[:_SHORT]: name for digest, name in names.items()}

    def named(found: re.Match[str]) -> str:
        name = short.get(found["hash"])
        if name is None:
            return found[0]
        return name if found["what"] == "predictions" else f"against the champion, {name}"

    return _HASHED.sub(named, text)
