"""Splits one table into training rows and rows to seal, with rows that belong together on one side.

Which rows are sealed depends only on their number, their groups, times or classes, and on chance. The rows themselves
go from file to file through the engine and are never all in memory.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from everhold.arguments import advice_for
from everhold.errors import HoldoutRejected
from everhold.private_files import create_private
from everhold.sealing.intake.checks import is_missing
from everhold.sealing.intake.duckdb_files import column_kinds, copy_rows, spilling_into
from everhold.sealing.intake.reading import MOST_ROWS, read_rows, read_together, reading_errors_hidden
from everhold.sealing.storage import HOLDOUT_FILE, TRAINING_FILE
from everhold.values.expressions import ColumnKind
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    from numpy.typing import NDArray

    from everhold.sealing.intake.request import SealRequest

BLOCK = "block"
"""Column that numbers blocks of a series, which are declared as groups."""

_TRAINED, _SEALED, _NOBODY = 0, 1, 2
_SECONDS_OF_A_DAY = 86_400.0
_GAPS_OF_A_BLOCK = 4.0  # so that means of rows that remember as long as the gap spread 1.04 times as far as declared
_MOST_CLASSES = 1_000
_MOST_BLOCKS = 2.0**52  # whose numbers are exact


@dataclass(frozen=True, slots=True)
class Parts:
    """Which rows are for training, and which are sealed.

    Attributes:
        side: Shape (rows,): 0 for training rows, 1 for sealed ones, 2 for rows that neither side gets.
        groups: Shape (rows,): number of each row's group. None if each row stands alone.
    """

    side: NDArray[np.int8]
    groups: NDArray[np.int64] | None = None

    @property
    def training_rows(self) -> int:
        """Number of training rows."""
        return int(np.count_nonzero(self.side == _TRAINED))

    @property
    def sealed_rows(self) -> int:
        """Number of sealed rows."""
        return int(np.count_nonzero(self.side == _SEALED))

    @property
    def left_out(self) -> int:
        """Number of rows that neither side gets."""
        return int(np.count_nonzero(self.side == _NOBODY))

    @property
    def sealed_sizes(self) -> NDArray[np.int64]:
        """Sizes of the sealed groups. Without groups, each row has the size 1."""
        if self.groups is None:
            return np.ones(self.sealed_rows, dtype=np.int64)
        return np.unique(self.groups[self.side == _SEALED], return_counts=True)[1]


def by_chance(rows: int, share: float, rng: np.random.Generator) -> Parts:
    """Seal a simple random sample of the rows.

    Examples:
        >>> by_chance(10, 0.2, np.random.default_rng(1)).sealed_rows
        2
    """
    return Parts(_drawn(rows, share, rng, "rows").astype(np.int8))


def by_group(groups: NDArray[np.int64], share: float, rng: np.random.Generator) -> Parts:
    """Seal a simple random sample of the groups, drawn without regard to their sizes.

    Args:
        groups: Group of each row, shape (rows,).
        share: Share of the groups to seal.
        rng: Source of randomness.
    """
    _, first, group = np.unique(groups, return_index=True, return_inverse=True)
    order = np.argsort(first)  # by first appearance: what the engine calls a group makes no difference
    drawn = np.empty(len(order), dtype=bool)
    drawn[order] = _drawn(len(order), share, rng, "groups")
    return Parts(drawn[group].astype(np.int8), group)


def by_class(classes: NDArray[np.int64], share: float, rng: np.random.Generator) -> Parts:
    """Seal a simple random sample of each class. Every class has the same share of sealed rows, up to one row."""
    _, first, found, counts = np.unique(classes, return_index=True, return_inverse=True, return_counts=True)
    if len(counts) > _MOST_CLASSES:
        raise _refused(
            f"The column of --stratify has {len(counts):,} values", f"Pass a column with at most {_MOST_CLASSES:,}"
        )
    requested = share * counts
    taken = np.floor(requested).astype(np.int64)
    missing = _number(len(classes), share, "rows") - int(taken.sum())
    taken[np.lexsort((first, taken - requested))[: max(missing, 0)]] += 1  # the largest remainders
    side = np.zeros(len(classes), dtype=np.int8)
    for each in np.argsort(first):
        members = np.flatnonzero(found == each)
        side[rng.permutation(members)[: taken[each]]] = _SEALED
    return Parts(side)


def by_time(times: NDArray[np.float64], share: float, *, gap: float, block: float) -> Parts:
    """Seal the last rows in time. Rows less than a gap before the first sealed row are left out.

    Args:
        times: Time of each row, shape (rows,).
        share: Share of the rows to seal. Rows with the same time stay together.
        gap: Length of the gap, in units of the times. If it is 0, no row is left out, and the groups are the times.
        block: Length of the blocks that are the groups behind a gap, in units of the times.
    """
    rows = len(times)
    if gap and (times.max() - times.min()) / block >= _MOST_BLOCKS:
        raise _refused(f"Blocks of length {block:g} are too short for the series", "Pass a larger --block or --gap")
    first = float(np.sort(times)[rows - _number(rows, share, "rows")])
    side = np.where(times >= first, _SEALED, np.where(times > first - gap, _NOBODY, _TRAINED)).astype(np.int8)
    parts = Parts(side)
    if not parts.training_rows and not gap:
        raise _refused(
            f"No row is earlier than the {parts.sealed_rows:,} sealed ones",
            "Pass a smaller --holdout, or a column of finer times",
        )
    if not parts.training_rows:
        raise _refused(
            f"No row is left before the gap: {parts.sealed_rows:,} are sealed and {parts.left_out:,} are in the gap",
            "Pass a smaller --holdout or --gap",
        )
    if not gap:
        return Parts(side, np.unique(times, return_inverse=True)[1])
    before = np.floor((times - times.min()) / block)
    after = np.floor((times - first) / block) + before[side == _TRAINED].max() + 1.0
    return Parts(side, np.where(side == _SEALED, after, before).astype(np.int64))


def _drawn(count: int, share: float, rng: np.random.Generator, what: str) -> NDArray[np.bool_]:
    """Return a simple random sample of units as a boolean array, shape (count,)."""
    chosen = np.zeros(count, dtype=bool)
    chosen[rng.permutation(count)[: _number(count, share, what)]] = True
    return chosen


def _number(count: int, share: float, what: str) -> int:
    """Return the number of units to seal, at least one and fewer than all."""
    if count < 2:
        raise _refused(f"The table has {count} {what}", "At least two are needed, one for each file")
    return min(max(round(share * count), 1), count - 1)


def _refused(problem: str, advice: str) -> HoldoutRejected:
    return HoldoutRejected(f"{problem}. {advice}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRule:
    """Rule that decides which rows are sealed: by chance, or by one named column.

    Attributes:
        share: About which share of the rows is sealed, in (0, 1).
        groups: Column whose equal values belong together: whole groups are sealed.
        time: Column of times: the last rows are sealed. With a gap, the column `BLOCK` with the number of each row's
            block is added.
        stratify: Column whose values keep their shares.
        gap: Length of time before the first sealed row whose rows are left out, in days or in units of a column of
            numbers. If it is 0, the rows are to be declared in order of time.
        block: Length of time whose rows have one block number, in the same units; four times the gap by default.
    """

    share: float
    groups: str | None = None
    time: str | None = None
    stratify: str | None = None
    gap: float = 0.0
    block: float | None = None

    @property
    def group_column(self) -> str | None:
        """Column whose equal values mark one group in both output files, or None."""
        return BLOCK if self.gap else self.groups


def split_file(
    table: Path, folder: Path, rule: SplitRule, *, named: Sequence[str] = (), seed: int | None = None
) -> Parts:
    """Write `TRAINING_FILE` and `HOLDOUT_FILE`, with all columns, in the order of the table.

    Args:
        table: A Parquet, CSV or TSV file.
        folder: Folder for the two files. It is made if it is missing.
        rule: Rule that decides which rows are sealed.
        named: Other columns that the table has to have, such as the label.
        seed: Seed that repeats a split. None for a new random split.

    Raises:
        HoldoutRejected: If the table cannot be read or split so, or a file is there already. Nothing was written.
        OSError: If the files cannot be written.
    """
    targets = [folder / TRAINING_FILE, folder / HOLDOUT_FILE]
    _check_absent(targets)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".split-") as own:
        staged = [Path(own) / target.name for target in targets]
        with spilling_into(Path(own)) as connection:
            read_rows(connection, table, name="source", what="table", most_rows=MOST_ROWS)
            with reading_errors_hidden("table"):
                kinds = column_kinds(connection.view("source"))
                for name in named:
                    _check_column(name, kinds)
                parts = _parts(connection, kinds, rule, np.random.default_rng(seed))
                for side, path in enumerate(staged):
                    _write(connection, parts, side, path, numbered=rule.gap > 0.0)
        _check_absent(targets)
        for path, target in zip(staged, targets, strict=True):
            path.replace(target)
    return parts


def _check_absent(targets: list[Path]) -> None:
    """Raise an error if one of the output files exists."""
    for target in targets:
        if target.exists():
            raise _refused(f"The file {str(target)!r} exists", "Pass another folder as --output")


def _parts(
    connection: duckdb.DuckDBPyConnection, kinds: dict[str, ColumnKind], rule: SplitRule, rng: np.random.Generator
) -> Parts:
    """Apply a rule to the rows of the table."""
    share, time = rule.share, rule.time
    named = rule.groups or time or rule.stratify
    if named is None:
        return by_chance(int(connection.execute("SELECT count(*) FROM source").fetchall()[0][0]), share, rng)
    _check_column(named, kinds)
    missing = connection.execute(f"SELECT count(*) FROM source WHERE {is_missing(named, kinds)}").fetchall()[0][0]
    if missing:
        raise _refused(f"Column {named!r} has no value in {missing:,} rows", "Drop those rows, or fill the values in")
    if time is None:
        values = _fetched(connection, f"hash({quoted(named)})").view(np.int64)
        return (by_group if rule.groups else by_class)(values, share, rng)
    if rule.gap and BLOCK in {name.casefold() for name in kinds}:
        raise _refused(
            f"A column {BLOCK!r} exists", "Rename it: the new column of this name numbers the blocks of the series"
        )
    if kinds[time] not in (ColumnKind.TIME, ColumnKind.NUMBER):
        raise _refused(f"The column {time!r} has {kinds[time].value}s", "Pass a column of dates, timestamps or numbers")
    of_days = kinds[time] is ColumnKind.TIME
    unit = _SECONDS_OF_A_DAY if of_days else 1.0
    times = _fetched(connection, f"epoch({quoted(time)})" if of_days else f"{quoted(time)}::DOUBLE")
    if not np.all(np.isfinite(times)):
        raise _refused(f"The column {time!r} has infinite times", "Correct them or drop those rows")
    block = rule.block or _GAPS_OF_A_BLOCK * rule.gap
    return by_time(times, share, gap=rule.gap * unit, block=block * unit)


def _check_column(name: str, kinds: dict[str, ColumnKind]) -> None:
    if name not in kinds:
        raise HoldoutRejected(f"There is no column {name!r}. {advice_for(name, kinds)}")


def _fetched(connection: duckdb.DuckDBPyConnection, text: str) -> NDArray[np.float64]:
    found = np.ma.asanyarray(connection.execute(f"SELECT {text} AS found FROM source").fetchnumpy()["found"])
    return np.asarray(found.filled(np.nan) if found.dtype.kind == "f" else np.ma.getdata(found))


def _write(connection: duckdb.DuckDBPyConnection, parts: Parts, side: int, path: Path, *, numbered: bool) -> None:
    """Write the rows of one side to a file, in the order of the table.

    If `numbered` is true, a column with the number of each row's group or block is added.
    """
    columns = {"side": parts.side, **({BLOCK: parts.groups} if numbered and parts.groups is not None else {})}
    connection.register("sides", columns)
    added = f", sides.{BLOCK}" if numbered else ""
    if side == _SEALED:
        os.close(create_private(path))
    query = f"SELECT source.*{added} FROM source POSITIONAL JOIN sides WHERE sides.side = {side}"
    copy_rows(connection, query, path)
    connection.unregister("sides")


# Deals sealed rows into parts: by chance or by time, with whole groups in one part and strata in all.


def dealt_files(
    request: SealRequest, folder: Path, shares: Sequence[float], *, groups: str | None, order: str | None = None,
    rng: np.random.Generator,
) -> tuple[list[Path], NDArray[np.intp]]:  # fmt: skip
    """Divide the rows to seal at random or in order into several files, by shares of all rows or groups.

    Args:
        request: The rows. Training rows in a file are read with them, so that columns are of the same kinds.
        folder: Private folder for the files.
        shares: Share of each part. The shares add up to 1.
        groups: Column whose equal values stay together; None to deal rows.
        order: Column that sorts the rows, or the groups by their first row. The first rows go to the last part. None to
            deal at random.
        rng: Source of randomness that assigns rows to parts if there is no `order`. It is used for nothing else.

    Returns:
        The files, and the part of each row, from 0.

    Raises:
        HoldoutRejected: If the rows cannot be read, or there are too few of them, or of groups, for some part.
    """
    sources = {"holdout": request.holdout}
    if isinstance(request.training, (str, Path)):
        sources["training"] = request.training
    paths = [folder / f"part-{number}.parquet" for number in range(1, len(shares) + 1)]
    columns = {"groups": groups, "order": order, "strata": request.rows.stratified}
    with spilling_into(folder) as connection:
        read_together(connection, sources, most_rows=request.rows.most_rows)
        with reading_errors_hidden("holdout"):
            connection.execute("CREATE TEMP TABLE sealed AS SELECT * FROM holdout_source")  # a stream is read once
            known = column_kinds(connection.view("sealed"))
            for what, column in columns.items():
                if column is not None and column not in known:
                    raise HoldoutRejected(f"The rows to seal have no column {column!r}. Name the column of the {what}.")
            ranks = {
                what: f"dense_rank() OVER (ORDER BY {quoted(column)})" for what, column in columns.items() if column
            }
            ranks["unit"] = ranks.get("groups") or ranks.get("order") or "rowid"
            found = connection.execute(
                f"SELECT {', '.join(f'{rank} AS {quoted(what)}' for what, rank in ranks.items())} FROM sealed "
                "ORDER BY rowid"
            ).fetchnumpy()
        of_row = np.unique(np.asarray(found["unit"]), return_inverse=True)[1]
        part = np.full(int(of_row.max(initial=-1)) + 1, -1, dtype=np.intp)
        place, stratum = np.full(len(part), len(of_row) + 1), np.zeros(len(part), dtype=np.intp)
        np.minimum.at(place, of_row, np.asarray(found.get("order", np.zeros(len(of_row))), dtype=np.intp))
        stratum[of_row] = np.asarray(found.get("strata", 0), dtype=np.intp)
        for number in np.unique(stratum).tolist():
            inside = np.flatnonzero(stratum == number)
            turn = np.argsort(np.argsort(place[inside], kind="stable"))[::-1] if order else rng.permutation(len(inside))
            part[inside] = np.searchsorted(np.round(np.cumsum(shares[:-1]) * len(inside)), turn, side="right")
        if len(np.unique(part)) < len(shares):
            whole = "rows" if groups is order is None else f"groups of {groups or order!r}"
            raise HoldoutRejected(
                f"{len(part):,} {whole} cannot be dealt into {len(shares)} parts. Seal more rows, or ask for fewer or "
                "larger parts."
            )
        connection.register("dealt", {"part": part[of_row]})
        for number, path in enumerate(paths):
            os.close(create_private(path))
            query = f"SELECT sealed.* FROM sealed POSITIONAL JOIN dealt WHERE dealt.part = {number}"
            with reading_errors_hidden("holdout"):
                copy_rows(connection, query, path)
    return paths, part[of_row]
