"""What is kept of champions beside the sealed rows, in the holdout's private folder, to compare challengers with.

Of a champion of a gate about rows that is a value for each row, or what it predicts there; of a gate about cases the
results of champion and baseline, and what was reported to an open challenge. A file carries a keyed digest of what it
holds and to what it belongs, so changes are detected. All of it is as secret as the rows. A champion's file is written
before the transaction that names it is committed, and named after the query about it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.errors import EverholdError
from everhold.ledger.chain import canonical
from everhold.sealing.sealed_arrays import ArrayFiles, packed, read_arrays, write_durably

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["Champion", "ModelStore", "ResultStore", "arrival_name", "baseline_file", "result_names"]


def arrival_name(fingerprint: str) -> str:
    """Name of an arrival in names of files: after a loss other rows may arrive under its number."""
    return hashlib.sha256(canonical({"rows": fingerprint}).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, eq=False)
class Champion:
    """A candidate as it is compared with others.

    Attributes:
        digest: SHA-256 of the query about it.
        values: For each sealed row its row value in grid units, or what it predicts: shape (rows,) or (rows, classes).
            Secret.
        training: The same for the training rows; None where there is nothing to tell.
        predictions: Shape (rows,): the predictions, where they were handed in as an array and so are public.
    """

    digest: str
    values: NDArray[Any] = field(repr=False)
    training: NDArray[Any] | None = field(default=None, repr=False)
    predictions: NDArray[Any] | None = field(default=None, repr=False)

    @property
    def by_position(self) -> bool:
        """True if it is a prediction for each of these rows, and no estimator."""
        return self.predictions is not None


@dataclass(frozen=True, slots=True)
class Written:
    """A file of what may become a champion.

    Attributes:
        path: Where it lies.
        champion: What is in it. Secret.
    """

    path: Path
    champion: Champion = field(repr=False)


@dataclass(frozen=True, slots=True)
class ModelStore:
    """The files of one holdout's champions.

    Attributes:
        folder: The private folder of its rows.
        holdout: Identifier of the holdout.
        rows: Number of sealed rows.
        of_arrival: Names the latest rows that arrived; empty where none did.
    """

    folder: Path
    holdout: str
    rows: int
    of_arrival: str
    _key: bytes = field(repr=False)
    _latest: dict[str, Champion] = field(default_factory=dict, init=False, repr=False, compare=False)
    _unsettled: set[Path] = field(default_factory=set, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, folder: Path, *, holdout: str, rows: int, seal_key: bytes, of_arrival: str = "") -> ModelStore:
        """The champions whose files lie in this folder; nothing is read or written yet."""
        return cls(folder, holdout, rows, of_arrival, hmac.digest(seal_key, b"everhold champions", "sha256"))

    def find(self, digest: str) -> Champion:
        """A champion that was kept.

        Raises:
            IntegrityError: If its file is missing or was altered. Nothing is charged.
        """
        found = self._latest.get(digest)
        if found is None:
            found = self._read(digest)
            self._remember(found)
        return found

    def keep(self, champion: Champion) -> None:
        """Write a champion durably, readable by its owner alone; what is there under its name is replaced.

        Raises:
            EverholdError: If it cannot be written.
        """
        self.settle(self.written(champion), kept=True)

    def written(self, champion: Champion) -> Written:
        """Write what may become a champion durably, under a name of no meaning, until it is settled or discarded.

        Raises:
            EverholdError: If it cannot be written.
        """
        named = {"values": champion.values, "training": champion.training, "predictions": champion.predictions}
        content = packed(named, key=self._key, bound_to=self._bound_to(champion.digest))
        path = self.folder / f"{secrets.token_hex(8)}.new"
        self._unsettled.add(path)
        try:
            write_durably(path, content)
        except OSError as fault:
            self.discard()
            raise EverholdError(
                f"the champion of the gate cannot be kept beside the sealed rows: {fault.strerror}; expected a "
                "writable folder with room; nothing was charged; make room and challenge again"
            ) from None
        return Written(path, champion)

    def settle(self, written: Written, *, kept: bool) -> None:
        """Give what was written its name as a champion, or remove it."""
        if kept:
            written.path.replace(self._path(written.champion.digest))
            self._unsettled.discard(written.path)
            self._latest.clear()  # it is read from its file: arrays that an analyst handed in may change
        else:
            self.discard()

    def discard(self) -> None:
        """Remove what was written and is no champion."""
        for path in list(self._unsettled):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            self._unsettled.discard(path)

    def _read(self, digest: str) -> Champion:
        arrays = read_arrays(
            self._path(digest), key=self._key, bound_to=self._bound_to(digest), needed="values",
            whose="the gate's champion", done="answered",
        )  # fmt: skip
        return Champion(digest, arrays["values"], arrays.get("training"), arrays.get("predictions"))

    def _remember(self, champion: Champion) -> None:
        """Keep only this one in memory: a gate asks for the same champion again and again."""
        self._latest.clear()
        self._latest[champion.digest] = champion

    def _path(self, digest: str) -> Path:
        return self.folder / "-".join(filter(None, ("champion", digest, self.of_arrival)))

    def _bound_to(self, digest: str) -> bytes:
        return f"{self.holdout}\n{digest}\n{self.rows}\n".encode()


@dataclass(frozen=True, slots=True)
class ResultStore(ArrayFiles):
    """Files of results of one holdout, shape (cases, runs, metrics) each."""

    purpose: ClassVar[bytes] = b"everhold results of cases"
    prefix: ClassVar[str] = "results"
    array: ClassVar[str] = "values"
    whose: ClassVar[str] = "results of cases"
    done: ClassVar[str] = "answered"
    called: ClassVar[str] = "the results"
    remedy: ClassVar[str] = "nothing was charged; make room and report again"

    def digest_of(self, values: NDArray[Any]) -> str:
        """Keyed digest of results, in hex: it tells nothing to those without the key."""
        return hmac.digest(self._key, repr(values.shape).encode() + values.tobytes(), "sha256").hex()


def result_names(name: str, arrivals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of files that may have results, the newest first.

    Each arrival of cases has its files, known by the fingerprint of its rows. After a loss other cases may arrive, and
    results on those that were lost are not theirs.
    """
    prints = [each["fingerprint"] for each in arrivals if each["fingerprint"]]
    return [*(f"{name}-{fingerprint[:32]}" for fingerprint in reversed(prints)), name]


def baseline_file(gate: str) -> str:
    """Name of the file of a gate's baseline."""
    return f"baseline-{hashlib.sha256(canonical({'gate': gate}).encode()).hexdigest()}"
