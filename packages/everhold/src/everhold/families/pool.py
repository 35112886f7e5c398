"""A pool of unlabelled rows with verdicts of a judge, such as a model, recorded beside the families (S18).

A pool has no member queries. It takes a part of the probability of failure for intervals of what the judge says in the
population. `everhold.queries.means.assisted` uses these intervals for narrower answers about human labels.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import duckdb
import numpy as np

from everhold.arguments import brief
from everhold.errors import HoldoutRejected, IntegrityError, QueryRejected
from everhold.families.base import BoundFamily, Family
from everhold.guarantees.intervals.base import Cells, GroupSums, Needs
from everhold.guarantees.intervals.betting import Betting, GroupBetting
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.queries.interval_planner import JudgedMean, RecordedPool
from everhold.queries.means.assisted import check_units, content_of, key_of_judge, read_pool
from everhold.queries.means.mean import MeanQuery, parsed
from everhold.sealing.intake.checks import is_missing, same_id
from everhold.sealing.intake.duckdb_files import limit_memory, spilling_into, view_files
from everhold.sealing.intake.reading import RowSource, reading_errors_hidden
from everhold.sealing.resealing import KnownRows, as_value
from everhold.sealing.rows.embedded import Embedded
from everhold.sealing.rows.table import StoredRows
from everhold.sealing.splits import BY_CHANCE, excess_by_chance, repetitions
from everhold.values.expressions.tree import ColumnKind, quoted

if TYPE_CHECKING:
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.values.base import BoundQuery, Schema

_MOST_JUDGES, _MOST_VERDICTS = 1_000, 20
_TRIES, _JUST_BELOW = 60, 0.999  # for the lower limit of a verdict's chance


@dataclass(frozen=True, slots=True, eq=False)
class PoolFamily(Family):
    """A table of unlabelled rows, and the judges whose verdicts are in it, before it is bound to a holdout."""

    rows: RowSource
    judges: Sequence[str | MeanQuery]

    def bind(self, compiler: QueryCompiler) -> BoundPool:
        """Compute the mean of each judge over the pool, after checking that no sealed row is in it.

        Raises:
            QueryRejected: If the pool cannot be read, a judge has no verdict, or rows are sealed. Nothing is changed.
        """
        schema, judges, mechanism = compiler.schema, self.judges, compiler.mechanism
        if isinstance(judges, str) or not isinstance(judges, Sequence) or not 1 <= len(judges) <= _MOST_JUDGES:
            raise QueryRejected(f"The judges are {brief(judges)}. Pass a list of conditions, such as ['judge'].")
        check_units(mechanism, "a pool")
        asked = [judge if isinstance(judge, MeanQuery) else MeanQuery(judge) for judge in judges]
        keys, group_by = [key_of_judge(judge.text, schema) for judge in asked], mechanism.dependence.group_column
        columns = [(judge.text,) if judge.text == key else parsed(judge.text, schema).columns()
                   for judge, key in zip(asked, keys, strict=True)]  # fmt: skip
        reads = {name for each in columns for name in each} | ({group_by} if group_by else set())
        with tempfile.TemporaryDirectory() as folder, spilling_into(Path(folder)) as connection:
            kinds = read_pool(connection, self.rows)
            _check_columns(connection, kinds, sorted(reads), schema)
            known_by = _known_by(connection, kinds, schema, group_by)
            hashes = tuple(KnownRows.of_view(connection, "pool", mark) for mark in _marks(known_by, schema, group_by))
            _check_unsealed(connection, known_by, hashes, compiler)
            path = Path(folder) / "pool.parquet"
            connection.execute(f"COPY pool TO '{path}' (FORMAT parquet)")
            (rows,) = connection.execute("SELECT count(*) FROM pool").fetchall()[0]
            about = replace(schema, rows=rows, columns=kinds, label=None, label_kind=None, row_id=None)
            engine = Embedded(path, what="pool")
            stored, found = StoredRows(engine, about, rows=rows, sealed=False), dict[str, tuple[PooledMean, ...]]()
            for judge, key in zip(asked, keys, strict=True):
                parts = _verdicts(connection, key) if judge.text == key else [judge]
                bound = [part.bind(schema) for part in parts]
                needs: list[Needs] = [
                    "groups" if group_by is not None else "total" if each.yes_no else "cells" for each in bound
                ]
                totals, seen = stored.evaluate(bound, needs, group_by=group_by, unit=mechanism.unit)
                found[key] = tuple(
                    PooledMean(
                        part.text, None if part.low is None or part.high is None else (part.low, part.high), rows,
                        int(total) / (rows * mechanism.unit), summary, judge.text == key,
                    )
                    for part, total, summary in zip(parts, totals[:, 0], seen, strict=True)
                )  # fmt: skip
            engine.close()
            content = content_of(connection, kinds)
        return BoundPool(rows, content, found, tuple(known_by), hashes)


@dataclass(frozen=True, slots=True)
class PooledMean:
    """Mean of a judge's condition or number over the rows of a pool.

    Attributes:
        text: The condition or the number.
        ends: Range of the number; None for a condition.
        rows: Number of rows of the pool.
        share: The mean, as a share of the range.
        seen: Histogram of a number's values, or sums by group. None if the rows are independent and the share is
            enough.
        verdict: True if the mean is the share of one verdict of a judge whose verdicts are texts.
    """

    text: str
    ends: tuple[float, float] | None
    rows: int
    share: float
    seen: Cells | GroupSums | None = None
    verdict: bool = False

    def within(self, nats: float) -> tuple[float, float]:
        """Return the interval of the population's mean, as shares of the range, at the level ``exp(-nats)``.

        The level of one verdict among several texts is this level times the verdict's probability (S18). So all
        possible verdicts share the level. If a probability just below the lower limit is excluded at its own level, all
        smaller ones are excluded as well.
        """
        if not self.verdict:
            return self._within(nats)
        low, high = self.share, self._within(nats - math.log(self.share))[1]
        for _ in range(_TRIES):
            excluded = _JUST_BELOW * low
            low = self._within(nats - math.log(excluded))[0]
            if low >= excluded or not low > 0.0:
                return low, high
        return 0.0, high

    def _within(self, nats: float) -> tuple[float, float]:
        """Return the interval of a mean that was fixed before the pool was read. The stakes of bets are fixed."""
        none = np.zeros(0, dtype=np.int64)
        if self.seen is None:
            return ClopperPearson(rows=self.rows, training=self.rows).interval(self.share, nats)
        bets: Betting | GroupBetting
        if isinstance(self.seen, Cells):
            bets = Betting(rows=self.rows, training=self.seen, fixed_stakes=True)
        else:
            sizes, places = np.unique(self.seen.sizes, return_inverse=True)
            counts = np.bincount(places, weights=self.seen.counts)
            empty = GroupSums(none, none, none, self.seen.unit)
            bets = GroupBetting(
                sizes=tuple(zip(sizes.tolist(), counts.tolist(), strict=True)), training=empty, fixed_stakes=True
            )  # fmt: skip
        low, high = bets.interval(self.seen, nats)
        return max(low - 1.0 / self.seen.unit, 0.0), min(high + 1.0 / self.seen.unit, 1.0)

    def to_list(self) -> list[Any]:
        """Return the mean as plain JSON data."""
        seen = None
        if self.seen is not None:
            named = {each.name: getattr(self.seen, each.name) for each in fields(self.seen)}
            seen = {name: value if name == "unit" else value.tolist() for name, value in named.items()}
        return [self.text, self.ends, self.rows, self.share, seen, self.verdict]

    @classmethod
    def from_list(cls, data: Sequence[Any]) -> Self:
        """Rebuild the mean from the list that `to_list` returned."""
        text, ends, rows, share, seen, verdict = data
        if seen is not None:
            kind: Any = GroupSums if "sizes" in seen else Cells
            seen = kind(**{name: each if name == "unit" else np.asarray(each) for name, each in seen.items()})
        return cls(text, None if ends is None else (float(ends[0]), float(ends[1])), rows, share, seen, verdict)


@dataclass(frozen=True, slots=True)
class BoundPool(BoundFamily):
    """A pool bound to one holdout, with the mean of each judge over its rows.

    Attributes:
        rows: Number of rows of the pool.
        content: SHA-256 of the rows of the pool, in any order.
        judges: One mean for each judge, or one for each of its verdicts but the commonest one, by `key_of_judge`.
        known_by: Columns by which rows of the pool are recognised among arriving rows: the row id, the group, or all
            columns that the pool shares with the sealed rows and that have a value in each row of the pool.
        hashes: Hashes of the columns ``known_by``, to be written beside the sealed rows. Empty after they were written.
    """

    kind: ClassVar[str] = "pool"
    rows: int
    content: str
    judges: dict[str, tuple[PooledMean, ...]]
    known_by: tuple[str, ...] = ()
    hashes: tuple[KnownRows, ...] = field(default=(), repr=False, compare=False)

    def nats(self, bound: BoundQuery) -> float | None:
        """Return None, because a pool has no member queries."""
        return None

    def within(self, part: PooledMean, nats: float) -> tuple[float, float]:
        """Return the interval of a judge's mean in the population, as shares of the judge's range.

        Args:
            part: The judge's mean over the pool.
            nats: ln(1 / level) of the whole pool, which all judges share.
        """
        return part.within(nats + self.most_nats)

    def recorded(self, name: str, nats: float) -> RecordedPool:
        """Return the pool as queries read it, with an interval for each judge's mean.

        Args:
            name: Name of the pool in the holdout.
            nats: ln(1 / level) that its judges share.
        """
        judges = {
            judge: [JudgedMean(part.text, part.ends, part.share, self.within(part, nats)) for part in parts]
            for judge, parts in self.judges.items()
        }
        return RecordedPool(name, self.content, judges)

    def half_width(self, nats: float) -> float:
        """Return the half-width of the widest interval of a judge's mean, as a share of its range."""
        ends = [self.within(part, nats) for parts in self.judges.values() for part in parts]
        return max(high - low for low, high in ends) / 2.0

    def to_dict(self) -> dict[str, Any]:
        """Return the number of rows, the digest and the means as plain JSON data, with the family's ``kind``."""
        judges = [[judge, *(part.to_list() for part in parts)] for judge, parts in self.judges.items()]
        known_by = list(self.known_by)
        return {
            "kind": self.kind, "rows": self.rows, "content": self.content, "judges": judges, "known_by": known_by,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Schema) -> Self:
        """Rebuild the pool from the plain data that `to_dict` returns."""
        judges = {str(judge): tuple(map(PooledMean.from_list, parts)) for judge, *parts in data["judges"]}
        return cls(int(data["rows"]), str(data["content"]), judges, tuple(map(str, data["known_by"])))

    def keep(self, folder: Path, *, key: bytes) -> None:
        """Write the hashes of the pool's rows beside the sealed rows, for `check_arriving`."""
        for number, hashes in enumerate(self.hashes):
            hashes.save(_hashes_file(folder, self.content, number), key=key)

    def check_arriving(self, arriving: Path, schema: Schema, *, group_by: str | None, key: bytes) -> None:
        """Check that rows which are about to be sealed are not rows of the pool, which analysts know.

        Args:
            arriving: File of the rows, in the holdout's private folder.
            schema: Public facts about the sealed rows of the holdout.
            group_by: Column whose equal values make groups of dependent rows, if there is one.
            key: The steward's `notes_key`, with which the hashes of the pool's rows are checked.

        Raises:
            HoldoutRejected: If an arriving row has the id or group of a row of the pool, or more rows are equal than
                chance allows.
            IntegrityError: If the hashes of the pool's rows were altered or are missing.
        """
        known_by = {name: schema.columns[name] for name in self.known_by}
        for number, mark in enumerate(_marks(known_by, schema, group_by)):
            file = _hashes_file(arriving.parent, self.content, number)
            if (pool := KnownRows.load(file, key=key)) is None:
                raise IntegrityError(
                    f"The file {file.name} beside the sealed rows is missing. Restore the folder's backup."
                )
            with spilling_into(arriving.parent) as connection, reading_errors_hidden("holdout"):
                limit_memory(connection, len(known_by))
                view_files(connection, "rows", arriving)
                new = KnownRows.of_view(connection, "rows", mark)
                shared = _shared(connection, new, pool, named=_names_rows(known_by, schema, group_by))
            if shared:
                raise HoldoutRejected(
                    f"{shared:,} of the new rows are in a recorded pool, whose rows analysts know. Append only rows "
                    "that are in no pool.",
                    shared=shared,
                )

    @property
    def shown(self) -> str:
        """Description for people: the number of rows and the judges."""
        listed = ", ".join(part.text for parts in self.judges.values() for part in parts)
        return f"a pool of {self.rows:,} rows of the same population, on which {listed} was not tuned"

    @property
    def most_nats(self) -> float:
        """Logarithm of the number of judges, which share the level equally."""
        return math.log(len(self.judges))


def pool(rows: RowSource, judges: Sequence[str | MeanQuery]) -> PoolFamily:
    """Build a pool of rows that a judge (a model) labelled and people did not, for `eh.mean(..., assisted_by=...)`.

    Record it with ``Holdout.create(declared=...)`` or `Holdout.declare`. It cannot be changed afterwards. Its rows have
    to be drawn from the population of the sealed rows, independently of them, and no judge may have been tuned on it or
    on sealed rows. The data cannot show whether this is so. Rows that are sealed are refused, and so are rows of the
    pool that are appended later. If the sealed rows are in groups, the pool must have whole groups by the same column,
    and no group that is sealed.

    Args:
        rows: A table or a file, as for `Holdout.create`; columns are named as the sealed ones.
        judges: Columns or expressions of judges: conditions over its columns, such as ``"judge"`` or ``"judge_score >=
            4"``; numbers with a range, such as ``eh.mean("judge_score", low=1, high=5)``; or texts with at most 20
            verdicts, such as ``"verdict"``. They share the pool's part of the probability of failure, as do the
            verdicts of a text.

    Examples:
        >>> pool({"judge": [True, False]}, ["judge"]).judges
        ['judge']
    """
    return PoolFamily(rows, judges)


def _verdicts(connection: duckdb.DuckDBPyConnection, judge: str) -> list[MeanQuery]:
    """Return a condition "the column has this verdict" for each verdict of a judge except the most frequent.

    Raises:
        QueryRejected: If the judge has only one verdict, or too many. Nothing is changed.
    """
    column = quoted(judge)
    ordered = f"SELECT {column} FROM pool GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT {_MOST_VERDICTS + 1}"
    found = [str(verdict) for (verdict,) in connection.execute(ordered).fetchall()]
    if not 2 <= len(found) <= _MOST_VERDICTS:
        many = "one verdict" if len(found) < 2 else "too many verdicts"
        raise QueryRejected(
            f"The judge {brief(judge)} has {many} in the pool. Pass one with 2 to {_MOST_VERDICTS} verdicts."
        )
    return [MeanQuery(f"{column} = '{verdict.replace(chr(39), 2 * chr(39))}'") for verdict in found[1:]]


def _check_columns(
    connection: duckdb.DuckDBPyConnection, kinds: Mapping[str, ColumnKind], names: Sequence[str], schema: Schema
) -> None:
    """Raise QueryRejected if the pool lacks a needed column, or a value in it, or has no rows."""
    for name in names:
        if kinds.get(name) is not schema.columns[name]:
            found = f"is a {kinds[name].value}" if name in kinds else "is not there"
            raise QueryRejected(
                f"The column {name!r} of the pool {found}. Name it as among the sealed rows, where it is a "
                f"{schema.columns[name].value}."
            )
        numbered = f"SELECT {quoted(name)} AS value, row_number() OVER () AS place FROM pool"
        lacking = connection.execute(f"SELECT min(place) FROM ({numbered}) WHERE value IS NULL").fetchall()[0][0]
        if lacking is not None:
            raise QueryRejected(f"Row {lacking:,} of the pool has no value of {name!r}. Leave no row unjudged.")
    if not connection.execute("SELECT 1 FROM pool LIMIT 1").fetchall():
        raise QueryRejected("The pool has no rows. Pass rows that were judged.")


def _hashes_file(folder: Path, content: str, number: int) -> Path:
    return folder / f"known-pool-{content[:32]}-{number}"


def _known_by(
    connection: duckdb.DuckDBPyConnection, kinds: Mapping[str, ColumnKind], schema: Schema, group_by: str | None
) -> dict[str, ColumnKind]:
    """Return the columns that recognise rows of a pool, with their kinds: group, row id, or all shared columns.

    A shared column in which some row has no value, such as that of the labels, is left out, because it may be filled
    later.
    """
    named = group_by if group_by is not None else schema.row_id
    if named is not None and named in kinds:
        return {named: schema.columns[named]}
    shared = {name: kind for name, kind in schema.asked.items() if kinds.get(name) is kind}
    lacking = [f"count(*) FILTER ({is_missing(name, shared)} OR {quoted(name)}::VARCHAR = '') = 0" for name in shared]
    filled = ", ".join(lacking) or "NULL"
    found = connection.execute(f"SELECT {filled} FROM pool").fetchall()[0]
    return {name: kind for (name, kind), full in zip(shared.items(), found, strict=False) if full}


def _names_rows(known_by: Mapping[str, ColumnKind], schema: Schema, group_by: str | None) -> bool:
    """Return True if rows are recognised by a column of ids or groups, False if by all their values together."""
    return next(iter(known_by), None) in (group_by, schema.row_id)


def _marks(known_by: Mapping[str, ColumnKind], schema: Schema, group_by: str | None) -> list[str]:
    """Return SQL for hashes of a row. Equal rows have at least one equal hash, in all versions of DuckDB.

    Ids and groups are equal if `same_id` gives the same text. Other rows are equal if all their values are equal in
    single precision (a file may have rounded them) or in double precision (which distinguishes large whole numbers).
    """
    if _names_rows(known_by, schema, group_by):
        forms = [[same_id(name) for name in known_by]]
    else:
        columns, precisions = sorted(known_by.items()), ("FLOAT", "DOUBLE") if known_by else ()
        forms = [[as_value(name, kind, precision=each) for name, kind in columns] for each in precisions]
    texts = [", ".join(f"coalesce(({cell})::VARCHAR, '')" for cell in cells) for cells in forms]
    return [f"md5_number_lower(concat_ws(chr(31), {each}))" for each in texts]


def _shared(connection: duckdb.DuckDBPyConnection, rows: KnownRows, pool: KnownRows, *, named: bool) -> int:
    """Return how many of some rows are in a pool, or 0 if that many rows may be equal by chance.

    If ``named`` is True, rows are recognised by ids or groups, so no row is equal by chance.
    """
    shared = rows.found_in(pool)
    if not shared or named:
        return shared
    for view, side in (("holdout", rows), ("training", pool)):
        connection.register(view, {"mark": side.sorted_hashes})
    return shared if excess_by_chance(repetitions(connection, "mark")) < BY_CHANCE else 0


def _check_unsealed(
    connection: duckdb.DuckDBPyConnection, known_by: Mapping[str, ColumnKind], pool: Sequence[KnownRows],
    compiler: QueryCompiler,
) -> None:  # fmt: skip
    """Check that no sealed row is in the pool: by row ids or groups, else by more equal rows than chance gives."""
    schema, sealed = compiler.schema, compiler.sealed
    if sealed is None or not known_by:
        return
    name, group_by = next(iter(known_by)), compiler.mechanism.dependence.group_column
    if named := _names_rows(known_by, schema, group_by):
        connection.register("sealed", {name: np.array([*map(str, sealed.row_ids(name))], dtype=object)})
    elif sealed.reads_ahead:
        return
    else:
        connection.register("sealed", dict(sealed.table([*known_by])))
    for mark, hashes in zip(_marks(known_by, schema, group_by), pool, strict=True):
        rows = KnownRows.of_view(connection, "sealed", mark)
        if _shared(connection, rows, hashes, named=named):
            place = int(np.isin(hashes.hashes, rows.sorted_hashes).argmax())
            value = connection.execute(f"SELECT {quoted(name)} FROM pool LIMIT 1 OFFSET {place}").fetchall()[0][0]
            raise QueryRejected(
                f"Row {place + 1:,} of the pool{f', with {name} = {value},' if named else ''} is a sealed row. Leave "
                "all sealed rows out of the pool: who reads it would know them.",
                row=place + 1,
            )
