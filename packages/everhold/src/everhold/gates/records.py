"""Gates and open challenges, as the ledger keeps them: which champion a gate has, and how often it was challenged.

Opening a gate is an entry of the chain with the source `GATE` and no charge. Every challenge is a query whose answer
has the source `PROMOTED` or `KEPT`. So the entries determine the champion. It is also stored beside the mechanism's
state, under the same seal, so that a transaction need not read all entries. If rows arrived, an entry with the source
`COMPLETED` says that the champion has values for them.

Challenges stay open while cases are handed out. Opening uses one planned query and fixes the level. Each look that does
not end the challenge is an act of its own. The verdict uses another planned query, and names the entry that opened the
challenge. Until the verdict, the gate answers no other challenge. An analyst's allotment pays for both queries, and for
a surprise, when the challenge is opened (`spending_of`). A challenge belongs to the analyst who opened it, and its
verdict is an entry of that analyst, whoever ends it.
"""

from __future__ import annotations

import contextlib
import hmac
import math
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard

from everhold.errors import IntegrityError
from everhold.ledger.acts import CHECK, GATE, KEPT, MOST, OPENED, PROMOTED, VERDICTS, is_count
from everhold.ledger.extension import LedgerExtension
from everhold.sealing.configuration import GROWS, schema_from
from everhold.sealing.sealed_files import ArrayFiles
from everhold.strict_json import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.ledger import HoldoutRecord

CASES = "cases"
"""Kind of the metric of a gate about cases."""

COMPLETED = "completed"
"""Source of the "answer" of an entry by which a champion has values for rows that arrived."""

LONGEST_GATE = 100
MOST_CHALLENGES = MOST
"""The largest limit of a gate's own."""

_HEX = frozenset("0123456789abcdef")
_ALWAYS_STORED = 9  # the first attributes of a gate's account


@dataclass(frozen=True, slots=True)
class GateAccount:
    """Public record of one gate at one moment: its champion, limits and counts.

    Attributes:
        name: Name of the gate, unique in the holdout.
        metric: Description of the metric or claims, without candidates; plain JSON data.
        margin: A promoted challenger is proved better by more than this, in units of row values in [0, 1].
        limit: Largest number of challenges that are answered. None if only the holdout's budget limits them.
        first: SHA-256 of the query about the champion with which the gate was opened.
        champion: SHA-256 of the query about the present champion.
        before: The champion before, against which the present one was promoted; empty if there was none.
        challenges: Challenges answered so far.
        promotions: How many of them promoted the challenger.
        arrived: Number of the latest arrival for whose rows the champion has values, in a gate about rows.
        completions: Number of entries by which champions got values for rows that arrived.
        checks: How many of the challenges were checks against the baseline, which promote nothing.
        marks: Number of these checks that were charged.
    """

    name: str
    metric: Mapping[str, Any]
    margin: float
    limit: int | None
    first: str
    champion: str
    before: str = ""
    challenges: int = 0
    promotions: int = 0
    arrived: int = 0
    completions: int = 0
    checks: int = 0
    marks: int = 0

    def __post_init__(self) -> None:
        counts = (self.challenges, self.promotions, self.arrived, self.completions, self.checks, self.marks)
        digests = (self.first, self.champion, *([self.before] if self.promotions else []))
        sound = (
            isinstance(self.name, str) and 1 <= len(self.name) <= LONGEST_GATE and self.name.isprintable()
            and isinstance(self.metric, dict) and type(self.margin) is float and 0.0 <= self.margin < 1.0
            and (self.limit is None or (is_count(self.limit) and self.limit >= 1))
            and all(map(_is_digest, digests)) and all(map(is_count, counts))
            and self.promotions + self.checks <= self.challenges and self.marks <= self.checks and self.left >= 0
        )  # fmt: skip
        if not sound:
            raise ValueError("the gate is malformed")

    @property
    def left(self) -> int:
        """Number of further challenges that the gate's own limit allows."""
        return (MOST_CHALLENGES if self.limit is None else self.limit) - self.challenges

    def remaining(self, of_budget: Mapping[str, int]) -> dict[str, int]:
        """Return what is left by name: of a budget, and of the gate's own limit if it has one."""
        return {**of_budget, **({} if self.limit is None else {"challenges": self.left})}

    @property
    def about_rows(self) -> bool:
        """Whether the gate is about rows, and not about cases."""
        return self.metric.get("kind") != CASES

    def stored(self) -> list[Any]:
        """Return the account as a list for JSON, without trailing counts that are 0."""
        stored = [getattr(self, name) for name in self.__slots__]
        while len(stored) > _ALWAYS_STORED and not stored[-1]:
            stored.pop()
        return stored


@dataclass(slots=True)
class Gates(LedgerExtension):
    """Part of the ledger's state that holds the accounts of all gates of a holdout.

    Attributes:
        by_name: Accounts by the name of the gate, in the order of opening.
    """

    name: ClassVar[str] = "gates"
    key: ClassVar[str] = "gates"
    acts: ClassVar[frozenset[str]] = frozenset({GATE, COMPLETED})
    answers: ClassVar[frozenset[str]] = VERDICTS
    accessor: ClassVar[str] = "everhold.gates.opening:HoldoutGates"

    by_name: dict[str, GateAccount] = field(default_factory=dict)

    @classmethod
    def read(cls, stored: Any) -> Self:
        """Rebuild the accounts of all gates from the plain data that `stored` returned.

        Raises:
            ValueError: If `stored` can never return such data; some such data raise TypeError.
        """
        if not stored:
            raise ValueError("there are no gates")
        return cls({line[0]: GateAccount(*line) for line in stored})

    def stored(self) -> list[list[Any]] | None:
        """Return all accounts as plain JSON data, or None if there is no gate."""
        return [gate.stored() for gate in self.by_name.values()] or None

    @property
    def entries(self) -> int:
        """Number of ledger entries that opened a gate or completed a champion."""
        return len(self.by_name) + sum(gate.completions for gate in self.by_name.values())

    def knows_arrivals(self, configuration: Mapping[str, Any]) -> bool:
        """Return whether rows can be appended. With ``grows=True`` all gates have to be about rows."""
        return not configuration.get(GROWS) or all(gate.about_rows for gate in self.by_name.values())

    def file_findings(
        self, record: HoldoutRecord, folder: Path, seal_key: bytes, arrivals: Sequence[Mapping[str, Any]]
    ) -> Iterator[str]:
        """Yield descriptions of missing or altered files of champions and baselines."""
        for gate in self.by_name.values():
            try:
                if gate.about_rows:
                    arrived = [each for each in arrivals[: gate.arrived] if each["rows"]]
                    rows = schema_from(record.configuration).rows + sum(each["rows"] for each in arrived)
                    of = arrival_name(arrived[-1]["fingerprint"]) if arrived else ""
                    models = ModelStore.of(folder, holdout=record.id, rows=rows, seal_key=seal_key, of_arrival=of)
                    models.champion(gate.champion)
                else:
                    results = ResultStore.of(folder, holdout=record.id, seal_key=seal_key)
                    for name in (gate.champion, baseline_file(gate.name)):
                        results.find(next(filter(results.has, result_names(name, arrivals)), name))
            except IntegrityError as fault:
                yield fault.message

    def replay(self, description: Mapping[str, Any], source: object) -> None:
        """Apply a ledger entry that opens a gate or gives a champion values for arrived rows.

        Raises:
            ValueError: If the ledger cannot have such an entry at this place. The message says why.
        """
        if source == COMPLETED:
            gate, arrived = self._gate_of(description), _arrived_in(description)
            if gate is None or description.get("champion") != gate.champion or arrived <= gate.arrived:
                raise ValueError(
                    "an entry completes a model that is not the champion of its gate, or completes it with no later "
                    "rows"
                )
            self.by_name[gate.name] = replace(gate, arrived=arrived, completions=gate.completions + 1)
            return
        name, metric, margin, limit, champion = (
            description.get(field) for field in ("gate", "metric", "margin", "challenges", "champion")
        )
        arrived = _arrived_in(description)
        opened = GateAccount(name, metric, margin, limit, champion, champion, arrived=arrived)  # type: ignore[arg-type]
        if opened.name in self.by_name:
            raise ValueError("the gate was opened twice")
        self.by_name[opened.name] = opened

    def settle(self, description: Mapping[str, Any], source: object, charged: int) -> None:
        """Apply the answer to a challenge. A promoted challenger becomes the champion.

        Raises:
            ValueError: If the ledger cannot have such an entry at this place. The message says why.
        """
        if source not in VERDICTS:
            return
        check = CHECK in description
        if check and source != KEPT:
            raise ValueError("a check promoted a version, which checks never do")
        stopped = source == KEPT and charged == 1 and (check or description.get("opened") is not None)
        if charged != (source == PROMOTED) and not stopped:
            raise ValueError(
                "the charge of a verdict is wrong: only a promotion, a new verdict of a check and a stop for "
                "futility cost a surprise"
            )
        champion, challenger = description.get("champion"), description.get("challenger")
        gate = self._gate_of(description)
        if gate is None or not _is_digest(challenger):
            raise ValueError("the entry of a challenge is malformed")
        if champion != gate.champion:
            raise ValueError("a challenge was decided against a model that was not the champion of its gate")
        if gate.left < 1:
            raise ValueError("a gate answered more challenges than its limit allows")
        arrived, after = _arrived_in(description), replace(gate, challenges=gate.challenges + 1)
        if check:
            after = replace(after, checks=gate.checks + 1, marks=gate.marks + int(bool(charged)))
        elif source == PROMOTED:
            after = replace(
                after, champion=challenger, before=gate.champion, promotions=gate.promotions + 1,
                arrived=arrived if gate.about_rows else 0,
            )  # fmt: skip
        self.by_name[gate.name] = after

    def _gate_of(self, description: Mapping[str, Any]) -> GateAccount | None:
        """Return the gate that an entry names, or None if there is no such gate or the name is no text."""
        name = description.get("gate")
        return self.by_name.get(name) if isinstance(name, str) else None


def _arrived_in(description: Mapping[str, Any]) -> int:
    """Return the number of the latest arrival that a ledger entry states, 0 if it states none."""
    arrived = description.get("arrived", 0)
    if not is_count(arrived):
        raise ValueError("an entry of a gate has an impossible number of an arrival")
    return arrived


def _is_digest(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) == 64 and _HEX.issuperset(value)


LOOKED = "looked"
"""Source of the acts that record a look after which a challenge goes on."""

_MOST_LOOKS = 10_000


@dataclass(frozen=True, slots=True)
class Opened:
    """Public record of one open challenge.

    Attributes:
        gate: Name of the gate.
        name: Name of the challenger.
        challenger: Digest of the challenger's name.
        champion: Digest of the champion.
        nats: ln(1 / level), fixed at opening.
        looks: Largest number of looks.
        entry: Number of the entry that opened it.
        analyst: Name of the analyst who opened it; None for the steward.
        futility: True if a look may also end the challenge with the champion kept. Such an end is charged as a
            promotion is.
        results: Keyed digest of the results reported at each look so far.
    """

    gate: str
    name: str
    challenger: str
    champion: str
    nats: float
    looks: int
    entry: int
    analyst: str | None = None
    futility: bool = False
    results: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        texts = (self.gate, self.name, self.challenger, self.champion, *self.results)
        sound = all(isinstance(text, str) and text for text in texts)
        sound = sound and type(self.nats) is float and math.isfinite(self.nats) and self.nats > 0.0
        counts = (self.looks, self.entry)
        sound = sound and all(type(count) is int and count >= 1 for count in counts) and self.looks <= _MOST_LOOKS
        sound = sound and type(self.futility) is bool and (self.analyst is None or isinstance(self.analyst, str))
        if not (sound and len(self.results) < self.looks):
            raise ValueError("the record of an open challenge is malformed")

    @property
    def marks(self) -> int:
        """Number of equally likely ends that a label tells apart: the looks, doubled if futility can end it."""
        return self.looks * (2 if self.futility else 1)

    def belongs_to(self, analyst: str | None) -> bool:
        """Return whether an analyst opened the challenge, or the steward (None) asks."""
        return analyst is None or analyst == self.analyst

    def stored(self) -> list[Any]:
        """Return the record as a list for JSON."""
        return [*astuple(self)[:-1], list(self.results)]

    @classmethod
    def read(cls, stored: list[Any]) -> Self:
        """Rebuild the record from the list that `stored` returned."""
        gate, name, challenger, champion, nats, looks, entry, analyst, futility, results = stored
        return cls(gate, name, challenger, champion, nats, looks, entry, analyst, futility, tuple(results))

    def after(self, results: str) -> Opened:
        """Return the record after one more look, with the digest of its results."""
        return replace(self, results=(*self.results, results))


@dataclass(slots=True)
class OpenChallenges(LedgerExtension):
    """Part of the ledger's state that holds all open challenges, and counts of their acts.

    Attributes:
        by_gate: Open challenge of each gate that has one.
        opened: Number of challenges opened so far.
        looked: Number of looks so far that did not end a challenge.
        futile: How many challenges were ended as kept before all cases were handed out, each for a surprise.
    """

    name: ClassVar[str] = "open_challenges"
    key: ClassVar[str] = "open_challenges"
    acts: ClassVar[frozenset[str]] = frozenset({OPENED, LOOKED})
    accessor: ClassVar[str] = "everhold.gates.open_challenge:HoldoutOpenChallenges"

    by_gate: dict[str, Opened] = field(default_factory=dict)
    opened: int = 0
    looked: int = 0
    futile: int = 0

    @classmethod
    def read(cls, stored: Any) -> Self:
        """Rebuild the open challenges from the plain data that `stored` returned.

        Raises:
            ValueError: If `stored` can never return such data.
        """
        found = [Opened.read(line) for line in stored["open"]]
        counts = opened, looked, futile = stored["opened"], stored["looked"], stored.get("futile", 0)
        sound = all(type(count) is int and count >= 0 for count in counts) and opened >= max(len(found) + futile, 1)
        if not sound:
            raise ValueError("the counts of open challenges contradict each other")
        return cls({each.gate: each for each in found}, opened, looked, futile)

    def stored(self) -> dict[str, Any] | None:
        """Return all open challenges as plain JSON data, or None if none was ever opened."""
        if not self.opened:
            return None
        counts = {"opened": self.opened, "looked": self.looked, **({"futile": self.futile} if self.futile else {})}
        return {"open": [each.stored() for each in self.by_gate.values()], **counts}

    @property
    def entries(self) -> int:
        """Number of ledger entries that are acts of open challenges."""
        return self.opened + self.looked

    def knows_arrivals(self, configuration: Mapping[str, Any]) -> bool:
        """Return True, because `keeps_out` refuses rows while a challenge is open."""
        return True

    def keeps_out(self) -> str:
        """Return why no rows can be appended now, or an empty text if no challenge is open."""
        return "".join(
            f"A challenge of gate {gate!r} is open. Report its results or withdraw it first."
            for gate in list(self.by_gate)[:1]
        )

    def replay(self, description: Mapping[str, Any], source: object) -> None:
        """Apply an entry of the ledger about an open challenge.

        Raises:
            ValueError: If the ledger cannot have such an entry at this place. The message says why.
        """
        if source == OPENED:
            named = ("gate", "name", "challenger", "champion", "nats", "looks", "entry", "analyst")
            made = Opened.read([*map(description.get, named), description.get("futility", False), []])
            if made.gate in self.by_gate:
                raise ValueError("a challenge was opened at a gate that has an open one already")
            self.by_gate[made.gate] = made
            self.opened += 1
            return
        before = self.by_gate.get(str(description.get("gate")))
        if before is None or before.entry != description.get("entry"):
            raise ValueError("a look is at a challenge that is not open")
        if description.get("look") != len(before.results) + 1:
            raise ValueError("a look at an open challenge has the wrong number")
        self.by_gate[before.gate] = before.after(str(description.get("results")))
        self.looked += 1

    def settle(self, description: Mapping[str, Any], source: object, charged: int) -> None:
        """Apply a verdict from the ledger, which ends the gate's open challenge if it belongs to it.

        Raises:
            ValueError: If a gate with an open challenge answered another challenge.
        """
        if source not in VERDICTS:
            return
        before = self.by_gate.get(str(description.get("gate")))
        entry = description.get("opened")
        if before is None and entry is None:
            return
        if before is None or before.entry != entry:
            raise ValueError("a verdict is about a challenge that is not the open one of its gate")
        if before.analyst != description.get("analyst"):
            raise ValueError("the verdict of an open challenge is not an entry of the analyst who opened it")
        if source == KEPT and charged:
            if not before.futility:
                raise ValueError("an early end was charged for a challenge that cannot end early")
            self.futile += 1
        del self.by_gate[before.gate]


# What is kept of champions beside the sealed rows, in the holdout's private folder, to compare challengers with.
#
# Of a champion of a gate about rows that is a value for each row, or what it predicts there; of a gate about cases the
# results of champion and baseline, and what was reported to an open challenge. A file carries a keyed digest of what it
# holds and to what it belongs, so changes are detected. All of it is as secret as the rows. A champion's file is
# written before the transaction that names it is committed, and named after the query about it.


def arrival_name(fingerprint: str) -> str:
    """Return the name for files about an arrival, computed from the fingerprint of its rows."""
    return digest({"rows": fingerprint})[:32]


@dataclass(frozen=True, slots=True, eq=False)
class Champion:
    """Values of a champion that challengers are compared with.

    Attributes:
        digest: SHA-256 of the query about it.
        values: For each sealed row the champion's row value in grid units, or its prediction: shape (rows,) or (rows,
            classes). Secret.
        training: The champion's values for the training rows; None if none are known.
        predictions: Shape (rows,): the predictions, if they were passed as an array and so are public; else None.
    """

    digest: str
    values: NDArray[Any] = field(repr=False)
    training: NDArray[Any] | None = field(default=None, repr=False)
    predictions: NDArray[Any] | None = field(default=None, repr=False)

    @property
    def by_position(self) -> bool:
        """Whether the champion is an array of predictions for the sealed rows, and not a model."""
        return self.predictions is not None


@dataclass(frozen=True, slots=True)
class ModelStore(ArrayFiles):
    """The files with the row values or predictions of the champions of one holdout's gates.

    Attributes:
        rows: Number of sealed rows.
        of_arrival: Name of the latest arrival in file names. Empty if no rows arrived.
    """

    rows: int
    of_arrival: str = ""
    _latest: dict[str, Champion] = field(default_factory=dict, init=False, repr=False, compare=False)
    _unsettled: set[Path] = field(default_factory=set, init=False, repr=False, compare=False)

    purpose: ClassVar[bytes] = b"everhold champions"
    prefix: ClassVar[str] = "champion"
    array: ClassVar[str] = "values"
    whose: ClassVar[str] = "the gate's champion"
    called: ClassVar[str] = "the champion of the gate"
    remedy: ClassVar[str] = "challenge again"

    def champion(self, digest: str) -> Champion:
        """Return a stored champion by its digest.

        Raises:
            IntegrityError: If the champion's file is missing or was altered. Nothing is charged.
        """
        if digest not in self._latest:
            found = self.arrays(digest)
            self._latest.clear()  # one is kept in memory: a gate asks for the same champion again and again
            self._latest[digest] = Champion(digest, found["values"], found.get("training"), found.get("predictions"))
        return self._latest[digest]

    def write(self, champion: Champion) -> Path:
        """Write a challenger to a file with a random name, before its verdict is known, and return its path.

        Raises:
            EverholdError: If the file cannot be written.
        """
        arrays = {"values": champion.values, "training": champion.training, "predictions": champion.predictions}
        written = self.written(champion.digest, arrays)
        self._unsettled.add(written)
        return written

    def settle(self, written: Path, digest: str) -> None:
        """Rename the written file of a promoted challenger to the name of the champion that it is now."""
        written.replace(self._path(digest))
        self._unsettled.discard(written)
        self._latest.clear()  # it is read from its file: arrays that an analyst handed in may change

    def discard(self) -> None:
        """Remove all files that were written for challengers that are no champions."""
        for path in list(self._unsettled):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            self._unsettled.discard(path)

    def _path(self, digest: str) -> Path:
        return self.folder / "-".join(filter(None, (self.prefix, digest, self.of_arrival)))

    def _bound_to(self, digest: str) -> bytes:
        return f"{self.holdout}\n{digest}\n{self.rows}\n".encode()


@dataclass(frozen=True, slots=True)
class ResultStore(ArrayFiles):
    """The files with results on cases of one holdout, each an array of shape (cases, runs, metrics)."""

    purpose: ClassVar[bytes] = b"everhold results of cases"
    prefix: ClassVar[str] = "results"
    array: ClassVar[str] = "values"
    whose: ClassVar[str] = "results of cases"
    called: ClassVar[str] = "the results"
    remedy: ClassVar[str] = "report again"

    def digest_of(self, values: NDArray[Any]) -> str:
        """Return a keyed digest of results in hex, which reveals nothing without the key."""
        return hmac.digest(self._key, repr(values.shape).encode() + values.tobytes(), "sha256").hex()


def result_names(name: str, arrivals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the files that may hold a champion's results, the newest first.

    The name of a file has the fingerprint of the cases that arrived. So after a loss of answers, results on lost cases
    are not taken for results on the cases that arrive in their place.
    """
    prints = [each["fingerprint"] for each in arrivals if each["fingerprint"]]
    return [*(f"{name}-{fingerprint[:32]}" for fingerprint in reversed(prints)), name]


def baseline_file(gate: str) -> str:
    """Return the name of the file with the results of a gate's baseline."""
    return f"baseline-{digest({'gate': gate})}"
