"""Finds rows that are sealed twice, or sealed in one holdout and open in another one.

Two holdouts with the same rows would together reveal more about them than either promises. Rows that are training rows
of one holdout are open to everybody who may ask it.

A keyed *sketch* of the rows shows whether they are sealed already, in any order and file format. It is kept in the
private folder of the rows. Its key belongs to the storage, not to one holdout, so that sketches of one storage can be
compared. Without the key a sketch reveals nothing.

A table that stays in an engine has such a sketch if it is short enough to be read. A longer table is recognised by the
engine's digest of its contents. The digest shows the same table, or a copy of it in an engine of the same kind with the
rows in any order. It does not show the same rows in a file or in an engine of another kind, or a table with most of the
rows.

A refusal tells whether guessed rows are right. So a steward of some holdouts only (`Sealer`) is told nothing about the
others. For each comparison a private file is written, whatever was found, for the stewards of the whole storage.
"""

from __future__ import annotations

import hmac
import json
import math
import secrets
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import duckdb
import numpy as np
import scipy

from everhold.errors import HoldoutRejected
from everhold.ledger.head_file import asked_by
from everhold.sealing.configuration import DEALT, schema_from
from everhold.sealing.intake.duckdb_files import limit_memory, spilling_into, view_files
from everhold.sealing.intake.reading import reading_errors_hidden
from everhold.sealing.sealed_files import note_in, rows_file, sealed_note, training_file, write_note
from everhold.sealing.storage import HOLDOUT_FILE, is_folder_name
from everhold.values.expressions import ColumnKind
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.ledger import HoldoutRecord, LedgerStore

CONTENT_FILE = "content.json"
FOLDER_OF = "folder {}"  # stands for the name of a holdout whose database is unknown
COMPARED_FILE = "compared.json"
"""Outcome of the comparison for a limited steward: the token that sealed, and the matches it was not told."""

_ENGINE = f"{duckdb.__version__}, streamed"
_COUNTED = 2**16  # different rows that are counted; of more a random share, by the least of their hashes
_SKETCH = 1_024
_LEAST_COMMON = 16  # of the sketch; fewer say nothing
_MOSTLY = 0.5  # share of the rows of one table that are in the other
_DISTINCT = 0.9  # share of different rows: then of another sample a fifth of the different rows is there at most
_CHANCE = math.log(1e-9)  # that two samples hold the same rows, each as often
_LEAST_TOLD = 1_000  # rows; a match of a smaller table tells whether a few guessed rows are right
_LEAST_SHARE_TOLD = 0.5  # of the other table's rows
_SEALER: ContextVar[Sealer | None] = ContextVar("everhold_sealer", default=None)


@dataclass(frozen=True, slots=True)
class Sealer:
    """A limited steward who seals rows, and may see only some holdouts of a storage.

    Attributes:
        token: Public part of the token; holdouts that were sealed with it hold rows that its holder knows.
        holdouts: Names of the holdouts that the steward may see.
    """

    token: str
    holdouts: frozenset[str]


@contextmanager
def sealing_for(sealer: Sealer | None) -> Iterator[None]:
    """Return a context in which rows are sealed for a limited steward, or with None for an unlimited one."""
    before = _SEALER.set(sealer)
    try:
        yield
    finally:
        _SEALER.reset(before)


@dataclass(frozen=True, slots=True, repr=False)
class Content:
    """Keyed sketch of a table's contents, by which another table with the same rows is recognised.

    Attributes:
        key: The storage's key, in hex; secret.
        engine: Version of DuckDB and of the method. Hashes of cells may change with either, so sketches of different
            versions are not compared.
        rows: Number of rows.
        distinct: Number of different rows. Above some ten thousand it is an estimate within one percent.
        digest: Keyed digest of all rows, each as often as it occurs. If another sample of the population could well
            hold the same rows, the digest is also of their order.
        sketch: The smallest of the keyed hashes of all different rows. Empty for a long table in an engine.
        table: Keyed digest of the engine's own facts about the contents of its table; None for a file.
    """

    key: str
    engine: str
    rows: int
    distinct: int
    digest: str
    sketch: tuple[int, ...]
    table: str | None = None

    @classmethod
    def of(cls, path: Path, columns: Mapping[str, ColumnKind], *, key: str | None = None) -> Self:
        """Make the sketch of a sealed file.

        Args:
            path: The Parquet file.
            columns: Kind of each column.
            key: Key of the storage. None to make a new key.
        """
        with spilling_into(path.parent) as connection:
            limit_memory(connection, len(columns))
            with reading_errors_hidden("holdout"):
                view_files(connection, "rows", path, positions=True)
            return cls.of_view(connection, columns, key=key)

    @classmethod
    def of_digest(cls, digest: str, *, rows: int, key: str | None = None) -> Self:
        """Make the sketch of a table that is too long to read, from the engine's digest of its contents.

        Args:
            digest: Text that changes with any row of the table.
            rows: Number of rows.
            key: Key of the storage. None to make a new key.
        """
        key = secrets.token_hex(32) if key is None else key
        table = hmac.digest(bytes.fromhex(key), digest.encode(), "sha256").hex()
        return cls(key, _ENGINE, rows, rows, table, (), table)

    @classmethod
    def of_view(
        cls, connection: duckdb.DuckDBPyConnection, columns: Mapping[str, ColumnKind], *, key: str | None = None
    ) -> Self:
        """Compute the sketch of the view ``rows``, in which ``file_row_number`` is the position of a row."""
        key = secrets.token_hex(32) if key is None else key
        cells = ", ".join(as_value(name, columns[name]) for name in sorted(columns, key=str.casefold))
        with reading_errors_hidden("holdout"):
            ((about,),) = connection.execute(f"SELECT approx_count_distinct(hash({cells})) FROM rows").fetchall()
            below = 2**64 if about <= _COUNTED else 2**64 * _COUNTED // about
            hashed = f"(SELECT md5_number_lower('{key}' || hash({cells})) AS h, file_row_number AS i FROM rows)"
            found = connection.execute(
                f"SELECT CASE WHEN h < {below}::UHUGEINT THEN h END AS least, count(*) AS c, sum(h >> 32)::UBIGINT AS "
                f"high, sum(h & {2**32 - 1})::UBIGINT AS low FROM {hashed} GROUP BY least"
            ).fetchnumpy()
            counts, high, low = (np.asarray(found[name]) for name in ("c", "high", "low"))
            least = np.sort(np.ma.compressed(found["least"]))
            rows, total = int(counts.sum()), (int(high.sum()) << 32) + int(low.sum())
            told = f"{rows}:{total}"
            orders = scipy.special.gammaln(counts + 1) - counts * np.log(counts)
            by_chance = math.lgamma(rows + 1) - float(orders.sum()) - rows * math.log(rows)
            if below == 2**64 and by_chance > _CHANCE:  # never where so many rows differ that few are counted
                ordered = f"SELECT sum(md5_number_lower(h || ':' || i)::HUGEINT) FROM {hashed}"
                told = f"{told}:{connection.execute(ordered).fetchall()[0][0]}"
        digest = hmac.digest(bytes.fromhex(key), told.encode(), "sha256").hex()
        return cls(key, _ENGINE, rows, len(least) * 2**64 // below, digest, tuple(map(int, least[:_SKETCH])))

    @classmethod
    def together(cls, parts: Sequence[Content]) -> Content:
        """Return the sketch of a whole table from the sketches of its parts. It has no digest."""
        sketch = sorted({least for part in parts for least in part.sketch})[:_SKETCH]
        rows, distinct = sum(part.rows for part in parts), sum(part.distinct for part in parts)
        return replace(parts[0], rows=rows, distinct=distinct, digest="", sketch=tuple(sketch))

    @classmethod
    def load(cls, folder: Path, name: str = CONTENT_FILE) -> Content | None:
        """Read the sketch of a table from a folder of sealed rows. Return None if it is missing or not comparable."""
        try:
            content = json.loads(note_in(folder / name))
            found = cls(**{**content, "sketch": tuple(content["sketch"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None
        if found.engine == _ENGINE:
            return found
        return None if found.table is None else replace(found, digest=found.table, sketch=())

    def save(self, folder: Path, name: str = CONTENT_FILE, *, sealed_with: bytes) -> None:
        """Write the sketch to a new file that only its owner can read, under the seal of `StewardKey.notes_key`."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        write_note(folder / name, json.dumps(content).encode(), key=sealed_with)

    def resembles(self, other: Content) -> bool:
        """Return whether two tables have the same rows, or one has most rows of the other.

        If the rows of one table differ from each other, a copy is recognised with a few rows added or removed, and with
        each row several times. If rows mostly repeat in both, as in tables of a few categories, any two samples of a
        population look alike, so only exactly the same rows are recognised.
        """
        if self.key != other.key:
            return False
        # No early return below: the duration must not tell which of the two conditions holds.
        equal = self.digest == other.digest or (self.table is not None and self.table == other.table)
        least = sorted({*self.sketch, *other.sketch})[:_SKETCH]
        common = len({*self.sketch} & {*other.sketch} & {*least})
        shared = common / max(len(least), 1)  # of all different rows of both
        in_both = shared * (self.distinct + other.distinct) / (1.0 + shared)
        here, there = self.distinct >= _DISTINCT * self.rows, other.distinct >= _DISTINCT * other.rows
        most_of_mine, most_of_theirs = in_both >= _MOSTLY * self.distinct, in_both >= _MOSTLY * other.distinct
        copied = (here and most_of_theirs) or (there and most_of_mine)
        return equal or (copied and common >= _LEAST_COMMON)

    def may_name(self, other: Content) -> bool:
        """Return whether a match may be revealed to a steward who may not know the other table's rows.

        A match then covers at least 500 of the other table's rows and a quarter of them. With fewer rows, a match would
        confirm a few guessed rows.
        """
        return self.rows >= _LEAST_TOLD and self.distinct >= _LEAST_SHARE_TOLD * other.distinct


def as_value(name: str, kind: ColumnKind, *, precision: str = "FLOAT") -> str:
    """Return SQL that converts a cell to a form shared by all file formats, such as single precision.

    A number without a value is nan. A text without a value is NULL, and so is the empty text. No part of a number is
    written twice, because the engine's time to look for such parts grows with the square of the number of columns.
    """
    column = quoted(name)
    if kind in (ColumnKind.NUMBER, ColumnKind.BOOLEAN):
        return f"coalesce(try_cast({column} AS {precision}) + 0, 'nan'::{precision})"
    text = f"({column})::VARCHAR"
    return f"nullif(CASE WHEN ends_with({text}, '00:00:00') THEN left({text}, 10) ELSE {text} END, '')"


@dataclass(frozen=True, slots=True)
class Matches:
    """Names of the other holdouts of a storage that have new rows, or most of them.

    Attributes:
        same_rows: Holdouts in which the new sealed rows are sealed already.
        open_rows: Holdouts that have the new sealed rows as training rows, which everybody who asks may see.
        sealed_training: Holdouts in which the new training rows are sealed.
    """

    same_rows: list[str]
    open_rows: list[str]
    sealed_training: list[str]

    def check_open(self) -> None:
        """Raise HoldoutRejected if rows would be both open and sealed."""
        names = self.open_rows or self.sealed_training
        listed = ", ".join(map(repr, names))
        if self.open_rows:
            raise HoldoutRejected(
                f"The rows to seal, or most of them, are training rows in this storage, of {listed}, and training rows "
                "are open to all who ask. Seal other rows.",
                names=names,
            )
        if self.sealed_training:
            raise HoldoutRejected(
                f"The training rows, or most of them, are sealed in this storage, as {listed}, and training rows are "
                "open to all who ask. Unseal that holdout first, or pass other training rows.",
                names=names,
            )


def compare(
    folder: Path, others: Sequence[HoldoutRecord], columns: Mapping[str, ColumnKind], *,
    sealed: Callable[[str | None], Content] | None, unsealed: Collection[str], sealed_with: bytes, arrival: int = 0,
    first_key: str | None = None,
) -> Matches:  # fmt: skip
    """Compare new rows with those of all other holdouts of a storage, and store sketches of the new rows.

    For a limited steward, holdouts that the steward may not know are left out of the result. Matches with them go to
    `COMPARED_FILE`, or to the corresponding file of an arrival. This file is written in any case.

    Args:
        folder: Private folder of the rows, with the file of the new training rows if there are any.
        others: All other holdouts that the storage has.
        columns: Kind of each column.
        sealed: Function from the storage's key, or from None for a new key, to the sketch of the new sealed rows. None
            if only training rows arrive.
        unsealed: Names of the other holdouts that were unsealed. Their rows may be training rows now.
        sealed_with: `StewardKey.notes_key` of the holdout.
        arrival: Number of the arrival; 0 for the rows of the creation.
        first_key: Key to use if the storage has no key yet. None to make a new key.
    """
    pictures, own = _pictures(folder, others), Content.load(folder) if arrival else None
    known = [found[0].key for found in pictures.values()]
    keys: list[str | None] = [*dict.fromkeys([*([own.key] if own else []), *known])]  # hardly ever more than one
    mine = [] if sealed is None else [sealed(key) for key in keys or [first_key]]
    if mine:
        mine[0].save(folder, rows_file(folder, arrival).with_suffix(".json").name if arrival else CONTENT_FILE,
                     sealed_with=sealed_with)  # fmt: skip
    training, trained = training_file(folder, arrival), list[Content]()
    if training.is_file():
        trained = [Content.of(training, columns, key=key) for key in keys or [mine[0].key if mine else None]]
        trained[0].save(folder, _note("opened", arrival), sealed_with=sealed_with)
    opened = _opened(folder.parent, others) if mine else {}
    found = Matches(
        same_rows=_having(mine, pictures), open_rows=_having(mine, opened),
        sealed_training=[name for name in _having(trained, pictures) if name not in unsealed],
    )  # fmt: skip
    if (sealer := _SEALER.get()) is None:
        return found
    same_token = {other.name for other in others if _sealed_with(folder.parent, other) == sealer.token}

    def is_told(name: str, new: Sequence[Content], of: Mapping[str, list[Content]]) -> bool:
        return name in sealer.holdouts and (name in same_token or new[0].may_name(of[name][0]))

    told = Matches(
        [name for name in found.same_rows if is_told(name, mine, pictures)],
        [name for name in found.open_rows if is_told(name, mine, opened)],
        [name for name in found.sealed_training if is_told(name, trained, pictures)],
    )
    untold = {of: [name for name in getattr(found, of) if name not in names] for of, names in asdict(told).items()}
    document = {"token": sealer.token, **untold}
    write_note(folder / _note("compared", arrival), json.dumps(document).encode(), key=sealed_with)
    return told


def _note(what: str, arrival: int) -> str:
    """Return the file name of a note about the rows of the creation or of an arrival."""
    return f"{what}-{arrival:06}.json" if arrival else f"{what}.json"


def _having(new: Sequence[Content], pictures: Mapping[str, Sequence[Content]]) -> list[str]:
    """Return the names of the holdouts of which a sketch resembles a sketch of the new rows."""
    return [name for name, found in pictures.items() if any(each.resembles(one) for each in new for one in found)]


def _opened(parent: Path, others: Sequence[HoldoutRecord]) -> dict[str, list[Content]]:
    """Return the sketches of the training rows of each holdout, from its creation and from all its arrivals."""
    pictures: dict[str, list[Content]] = {}
    for other in others:
        named = str(other.configuration.get("folder"))
        if is_folder_name(named):
            names = ["opened.json", *(path.name for path in sorted((parent / named).glob("opened-*.json")))]
            if found := [each for name in names if (each := Content.load(parent / named, name)) is not None]:
                pictures[other.name] = found
    return pictures


def check_may_match(folder: Path, rows: int) -> None:
    """Raise HoldoutRejected if the refusal of rows that are sealed already would let a steward test a few guessed rows.

    Stewards of the whole storage may append any number of rows, and so may the token that sealed the holdout.

    Raises:
        HoldoutRejected: If a limited steward brings few rows. Nothing was changed.
    """
    sealer = _SEALER.get()
    if sealer is None or rows >= _LEAST_TOLD or _compared(folder).get("token") == sealer.token:
        return
    raise HoldoutRejected(
        f"{rows:,} rows are too few to append with a token that covers only some holdouts and did not create this one: "
        f"a refusal would tell whether guessed rows are sealed. Append at least {_LEAST_TOLD:,} rows."
    )


def _pictures(own: Path, others: Sequence[HoldoutRecord]) -> dict[str, list[Content]]:
    """Return the sketches of each holdout: sealed rows, appended rows, and the whole table if it was dealt to several.

    A part of a dealt table has few rows in common with other parts, or with a part of the same table dealt again.

    A folder that answered queries but belongs to no holdout of this database is of a deleted database, or of another
    database with the same folder of rows. Answers about its rows are known, so the folder counts as a holdout.

    Args:
        own: Private folder of the rows that are compared.
        others: All other holdouts that the storage has.
    """
    parent, pictures = own.parent, dict[str, list[Content]]()
    known = {own.name, *(str(other.configuration.get("folder")) for other in others)}
    for folder in sorted(parent.iterdir()):
        answered = is_folder_name(folder.name) and folder.name not in known and asked_by(folder)
        if answered and (sketch := Content.load(folder)) is not None:
            pictures[FOLDER_OF.format(folder.name)] = [sketch, *_arrived(folder)]
    tables: dict[tuple[str, str], list[str]] = {}
    for other in others:
        if (found := _content(parent, other)) is not None:
            pictures[other.name] = [found, *_arrived(parent / str(other.configuration.get("folder")))]
            if DEALT in other.configuration:
                tables.setdefault((other.configuration[DEALT]["of"], found.key), []).append(other.name)
    for names in tables.values():
        table = Content.together([pictures[name][0] for name in names])
        for name in names:
            pictures[name].append(table)
    return pictures


def _arrived(folder: Path) -> list[Content]:
    """Return the sketches of the rows that were appended to the holdout of a private folder."""
    found = (Content.load(folder, path.name) for path in sorted(folder.glob("arrival-*.json")))
    return [each for each in found if each is not None]


def _compared(folder: Path, name: str = COMPARED_FILE) -> dict[str, Any]:
    """Return the content of a file such as `COMPARED_FILE`, empty if it is missing or unreadable."""
    try:
        found = json.loads(note_in(folder / name))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _sealed_with(parent: Path, other: HoldoutRecord) -> str | None:
    """Return the public part of the limited token that sealed a holdout, or None if none did."""
    named = str(other.configuration.get("folder"))
    return _compared(parent / named).get("token") if is_folder_name(named) else None


def untold_matches(rows: Path, record: HoldoutRecord, *, arrival: int = 0) -> dict[str, list[str]] | None:
    """Return the matches that were not named to the limited steward who sealed rows, as `Matches` names them.

    Args:
        rows: Folder with the rows of all holdouts of the storage.
        record: Record of the holdout.
        arrival: Number of the arrival that brought the rows; 0 for the creation.

    Returns:
        Names of holdouts, which only stewards of the whole storage may see. None if no limited steward sealed the rows.
    """
    named = str(record.configuration.get("folder"))
    found = _compared(rows / named, _note("compared", arrival)) if is_folder_name(named) else {}
    return {each.name: [str(name) for name in found.get(each.name, [])] for each in fields(Matches)} if found else None


def _content(parent: Path, other: HoldoutRecord) -> Content | None:
    """Return the sketch of a sealed holdout, computed again if it is missing. None if its rows are missing too."""
    named = str(other.configuration.get("folder"))
    if not is_folder_name(named):
        return None
    found = Content.load(parent / named)
    if found is None and (parent / named / HOLDOUT_FILE).is_file():
        found = Content.of(parent / named / HOLDOUT_FILE, schema_from(other.configuration).columns)
    return found


def sealed_already(names: Sequence[str], others: Sequence[HoldoutRecord]) -> HoldoutRejected:
    """Return the error for rows that are sealed already, in other holdouts or in folders that belong to no holdout."""
    listed = {other.name for other in others}
    unlisted = [name for name in names if name not in listed]
    if unlisted:
        where = f"in the {unlisted[0]} beside this storage, whose database is another one or was deleted"
        instead = "Restore or open that database, and query its holdout"
    else:
        where, instead = f"in this storage, as {', '.join(map(repr, names))}", "Query that holdout"
    return HoldoutRejected(
        f"These rows, or most of them, are already sealed {where}. {instead}, or seal other rows. If no query to one "
        "will be chosen with answers from the other, pass allow_resealing=True (--allow-resealing).",
        names=list(names),
    )


def also_sealed_as(store: LedgerStore, record: HoldoutRecord) -> list[str]:
    """Return the names of the holdouts with the same rows, sealed earlier or later."""
    others = [each for each in store.records() if each.name != record.name]
    later = {other.name for other in others if record.name in other.configuration.get("sealed_before", ())}
    return sorted(later | set(record.configuration["sealed_before"]))


# Keyed hashes of rows, so that rows that arrive twice are found at the price of the new ones.
#
# Beside each sealed file lie the hashes of its rows, in order of size. Looking up a row takes one search in each file,
# and no old row is read again. The hashes are keyed, and as private as the rows.


@dataclass(frozen=True, slots=True, repr=False)
class KnownRows:
    """Keyed hashes of the rows of one file, by which repeated rows are found.

    Attributes:
        sorted_hashes: Hashes of the rows in order of size, shape (rows,).
        hashes: Hashes of the rows in the order of the file, shape (rows,). Empty if they were read from the disk.
    """

    sorted_hashes: NDArray[np.uint64]
    hashes: NDArray[np.uint64]

    @classmethod
    def of(cls, path: Path, columns: Mapping[str, ColumnKind], *, key: bytes) -> KnownRows:
        """Compute the hashes of a sealed file.

        Args:
            path: The Parquet file.
            columns: Kind of each column.
            key: Secret key of the hashes.
        """
        cells = ", ".join(as_value(name, columns[name]) for name in sorted(columns, key=str.casefold))
        with spilling_into(path.parent) as connection, reading_errors_hidden("holdout"):
            limit_memory(connection, len(columns))
            view_files(connection, "rows", path)
            return cls.of_view(connection, "rows", f"hash('{key.hex()}', hash({cells}))")

    @classmethod
    def of_view(cls, connection: duckdb.DuckDBPyConnection, view: str, mark: str) -> KnownRows:
        """Compute the hashes of the rows of a view. `mark` is the SQL expression for the hash of a row."""
        marks = connection.execute(f"SELECT {mark} AS h FROM {view}").fetchnumpy()["h"]
        found = np.asarray(np.ma.getdata(marks), dtype=np.uint64)
        return cls(np.sort(found), found)

    @classmethod
    def load(cls, path: Path, *, key: bytes) -> KnownRows | None:
        """Read the hashes in a file that `save` wrote, or return None if there is none.

        Raises:
            IntegrityError: If it was altered.
        """
        content = sealed_note(path, key=key)
        return None if content is None else cls(np.frombuffer(content, "<u8"), np.zeros(0, dtype=np.uint64))

    def save(self, path: Path, *, key: bytes) -> None:
        """Write the hashes with a keyed digest to a new file that only its owner can read."""
        write_note(path, self.sorted_hashes.astype("<u8").tobytes(), key=key)

    def found_in(self, other: KnownRows) -> int:
        """Return the number of these rows that occur among other rows."""
        if not len(other.sorted_hashes):
            return 0
        places = np.searchsorted(other.sorted_hashes, self.sorted_hashes).clip(max=len(other.sorted_hashes) - 1)
        return int(np.count_nonzero(other.sorted_hashes[places] == self.sorted_hashes))

    def repeats(self, other: KnownRows) -> bool:
        """Return whether most of these rows occur among other rows. False if rows often repeat by chance."""
        if self.found_in(other) < _MOSTLY * len(self.sorted_hashes):
            return False
        return other.mostly_different and self.mostly_different

    @property
    def mostly_different(self) -> bool:
        """Whether few rows repeat, estimated from the first hundred thousand hashes."""
        some = self.sorted_hashes[:100_000]
        return bool(1 + np.count_nonzero(np.diff(some)) >= _DISTINCT * len(some))
