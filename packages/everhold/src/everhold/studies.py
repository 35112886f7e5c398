"""Several studies of one table: its sealed rows are dealt into parts, and each study unseals its own.

Queries in a study are silent, so no answer can influence a later query, and intervals are narrow. At the end of a study
the rows of its part are used up, and the rows of other parts stay sealed. The parts are independent samples of one
population, because rows, or whole groups of rows, are dealt at random.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from everhold.arguments import as_whole, brief
from everhold.errors import HoldoutRejected, QueryRejected
from everhold.ledger import HoldoutRecord, LedgerStore
from everhold.mechanisms import MECHANISMS, GuessAndCheck
from everhold.sealing.configuration import DEALT, schema_from
from everhold.sealing.sealed_files import sealed_note, write_note
from everhold.sealing.storage import KEY_FILE, StewardKey, rows_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everhold.asking.creation import StudyRequest
    from everhold.operations.operation import HoldoutOperation
    from everhold.sealing.intake.request import DealtPart, SealRequest
    from everhold.values.base import Schema

STUDY_FILE = "study.json"
"""Note in the folder of a part: the name of the study that took it."""

_MOST = 100


class Closing(Protocol):
    """Object that is closed together with the holdout that opened it."""

    def close(self) -> None:
        """Close the object and what it holds open."""


Begun = TypeVar("Begun", bound=Closing)


class DealtTransport:
    """Access to the parts of a dealt holdout. It answers no query itself.

    Args:
        store: Database of the ledger.
        name: Name of the whole table's holdout.
        parts: Records of the parts, in the order of their numbers.
    """

    def __init__(self, store: LedgerStore, name: str, parts: Sequence[HoldoutRecord]) -> None:
        self.store, self.name, self.parts = store, name, parts
        self._open: dict[str, Closing] = {}

    def __repr__(self) -> str:
        return f"{self.name!r}, studies={len(self.parts)}, taken={len(self.taken())}"

    @property
    def session(self) -> Any:
        """Always None, because the parts have sessions of their own.

        Raises:
            QueryRejected: Always. The message says how to ask.
        """
        raise QueryRejected(
            f"The rows of {self.name!r} are dealt into {len(self.parts)} studies. Ask in one of them: "
            'with holdout.study("name") as study: ...'
        )

    @property
    def schema(self) -> Schema:
        """Public facts about the rows of all parts."""
        whole = schema_from(self.parts[0].configuration)
        return replace(whole, rows=sum(part.configuration["rows"] for part in self.parts))

    def perform(self, operation: HoldoutOperation[Any]) -> Any:
        """Refuse an operation that only a study can perform."""
        return self.session

    def gate(self, *_: Any, **__: Any) -> Any:
        """Refuse a gate, which only a study can have."""
        return self.session

    def accessor(self, name: str) -> Any:
        """Return None, because no extension adds anything to a dealt holdout."""
        return None

    def close(self) -> None:
        """Close the database, and the studies that were opened."""
        for study in self._open.values():
            study.close()
        self.store.close()

    def taken(self) -> dict[str, str]:
        """Return the name of the part that each study took, by the study's name."""
        named = {part.name: self._study_of(part) for part in self.parts}
        return {study: part for part, study in named.items() if study is not None}

    def study(self, name: str, begin: Callable[[str, str], Begun]) -> Begun:
        """Return the study with this name. A new study begins in the next free part.

        See `everhold.holdout.Holdout.study`.
        """
        if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name) <= 100:
            raise QueryRejected(f"The study's name is {brief(name)}. Use 1 to 100 printable characters.")
        if name not in self._open:
            self._open[name] = begin(self.store.url, self._part_for(name).name)
        return cast("Begun", self._open[name])

    def _part_for(self, name: str) -> HoldoutRecord:
        for part in self.parts:  # in order, so that two processes meet at the first one that is free
            if self._study_of(part) is None:
                folder, key = self._folder(part)
                write_note(folder / STUDY_FILE, name.encode(), key=key.notes_key, replace=False)
            if self._study_of(part) == name:
                return part
        taken = ", ".join(map(repr, self.taken()))
        raise QueryRejected(
            f"All {len(self.parts)} parts of {self.name!r} are taken, by {taken}. Go on with one of them, or seal new "
            "rows."
        )

    def _study_of(self, part: HoldoutRecord) -> str | None:
        return study_in(*self._folder(part))

    def _folder(self, part: HoldoutRecord) -> tuple[Path, StewardKey]:
        folder = rows_folder(self.store.url) / part.configuration["folder"]
        return folder, StewardKey.load(folder / KEY_FILE, public_key=part.configuration["public_key"])


def study_in(folder: Path, key: StewardKey) -> str | None:
    """Return the name of the study that took the part in a folder, or None."""
    note = sealed_note(folder / STUDY_FILE, key=key.notes_key)
    return None if note is None else note.decode()


def parts_for_studies(name: str, studies: Any, request: SealRequest, study: StudyRequest) -> list[DealtPart]:
    """Return the parts of a table for its studies, which share the probability of failure equally.

    Args:
        name: Name of the whole table's holdout.
        studies: Number of studies.
        request: The rows to divide.
        study: Plan of each study.

    Raises:
        HoldoutRejected: If the rows cannot be dealt so. Nothing was created.
        ValueError: If the number of studies cannot be used.
    """
    from everhold.sealing.intake.request import DealtPart

    number = as_whole(studies)
    if number is None or not 2 <= number <= _MOST:
        raise ValueError(f"studies is {brief(studies)}. Use a whole number from 2 to {_MOST}.")
    if request.extensions or request.rows.stratified:
        raise HoldoutRejected(
            "studies= deals rows by chance, so it can be combined neither with stratified= nor with extensions such "
            "as competition=. Leave studies= or the other argument out."
        )
    if not (study.mechanism is None or isinstance(study.mechanism, str)):
        raise HoldoutRejected(
            "mechanism= is an object, and studies= plans a mechanism for each part. Pass the name of a mechanism, "
            "such as 'guess_and_check'."
        )
    kind = MECHANISMS.get(study.mechanism or GuessAndCheck.name)
    if kind is not None and not kind.traits.unsealable:
        raise HoldoutRejected(
            f"Studies are silent and end by unsealing, which {kind.name} cannot do. Leave mechanism= out, or pass "
            "'guess_and_check'."
        )
    confidence = 1.0 - (1.0 - study.confidence) / number
    return [
        DealtPart(name=f"{name}.{part}", share=1.0 / number, confidence=confidence) for part in range(1, number + 1)
    ]


def dealt_parts(store: LedgerStore, name: str) -> DealtTransport | None:
    """Return the holdout of this name that was dealt into parts, for its operations, or None if there is none."""
    parts = [each for each in store.records() if each.configuration.get(DEALT, {}).get("of") == name]
    parts.sort(key=lambda part: int(part.configuration[DEALT]["part"]))
    return DealtTransport(store, name, parts) if parts else None
