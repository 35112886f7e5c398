"""Sealing in its order: rows are checked, written once to Parquet, fingerprinted, and bound to a mechanism."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.arguments import brief
from everhold.errors import HoldoutRejected
from everhold.estimand import check_stratified
from everhold.progress import progress
from everhold.sealing.configuration import Categories, SealedFiles, make_configuration, rules_of
from everhold.sealing.intake import checks, duckdb_files
from everhold.sealing.intake.reading import RowSource, check_size, read_together, reading_errors_hidden, write_rows
from everhold.sealing.intake.structure import FileStructure
from everhold.sealing.resealing import Content, compare, sealed_already
from everhold.sealing.rows.embedded import fingerprint
from everhold.sealing.rows.row_store import SealedRows, is_table
from everhold.sealing.splits import check_equal_rows
from everhold.sealing.storage import HOLDOUT_FILE, KEY_FILE, TRAINING_FILE, StewardKey
from everhold.values.expressions.tree import ColumnKind, quoted
from everhold.values.missing import REFUSE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    import duckdb

    from everhold.dependence import RowStructure
    from everhold.ledger import HoldoutRecord
    from everhold.mechanisms import Mechanism
    from everhold.sealing.intake.request import SealRequest


@dataclass(frozen=True, slots=True)
class Sealed:
    """Rows that are sealed but not recorded in a ledger yet.

    Attributes:
        mechanism: The mechanism that will answer.
        key: The steward's new key.
        configuration: The public facts that the ledger binds.
        apart: Columns whose sealed values and training values have none in common.
        whole_groups: Those columns of `apart` by which the table was apparently split in whole groups, fewest groups
            first.
        lacking: Columns without a value in some training row.
    """

    mechanism: Mechanism
    key: StewardKey
    configuration: dict[str, Any] = field(repr=False)
    apart: frozenset[str]
    whole_groups: tuple[str, ...]
    lacking: frozenset[str]


def seal(
    folder: Path,
    request: SealRequest,
    *,
    choose: Callable[[RowStructure], Mechanism],
    others: Sequence[HoldoutRecord],
    unsealed: Collection[str],
    allow_resealing: bool,
    check: Callable[[Sealed], None],
) -> Sealed:
    """Seal rows in a new private folder. The caller removes the folder if a later step fails.

    Args:
        folder: New private folder for the rows, keys and notes.
        request: The rows, and what is declared of them.
        choose: Function from the arrangement of the rows to the mechanism that answers. If it raises an error, nothing
            is sealed.
        others: All holdouts that the storage has.
        unsealed: Names of the holdouts that were unsealed. Their rows may be training rows now.
        allow_resealing: Whether the rows may be sealed in this storage already.
        check: Called before the rows are compared with those of other holdouts, so that a request that fails for
            another reason tells nothing about the comparison.

    Raises:
        HoldoutRejected: If the rows cannot be sealed as they stand, or are sealed already.
        DependenceError: If the dependence does not match the rows.
        Unavailable: If an engine cannot be reached.
    """
    if is_table(request.training) and not is_table(request.holdout):
        raise HoldoutRejected(
            "The training rows are a table in an engine, and the holdout rows are not. "
            "Put both in one engine, or pass the training rows as a file or a frame."
        )
    if request.rows.categories and (request.training is None or is_table(request.holdout)):
        raise HoldoutRejected(
            "categories=[...] needs training rows in a file or a data frame, and there are none. Pass training=..., "
            "or leave categories= out."
        )
    key = StewardKey.create(folder / KEY_FILE)
    table = request.holdout
    sealing = table.sealing(folder, request, key=key) if is_table(table) else _file_sealing(folder, request)
    with duckdb_files.spilling_into(folder), sealing as rows:
        sealed, structure = rows.facts, rows.structure
        mechanism = choose(structure)
        apart = structure.apart()
        named = [name for name in apart if name not in (request.label, request.rows.row_id)]
        whole = structure.whole_groups(named, mechanism.dependence.sorting_columns)
        check_stratified(
            request.rows.stratified, columns=sealed.columns, label=request.label, features=request.rows.features,
            mechanism=mechanism,
        )  # fmt: skip
        _check_independent(request, sealed.columns, mechanism)
        lacking = structure.lacking
        configuration = make_configuration(folder, sealed, mechanism, key, request, whole_groups=whole, lacking=lacking)
        made = Sealed(mechanism, key, configuration, apart, whole, lacking[1])
        check(made)
        found = compare(
            folder, others, sealed.columns, sealed=rows.content, unsealed=unsealed, sealed_with=key.notes_key,
            first_key=request.content_key,
        )  # fmt: skip
        if found.same_rows and not allow_resealing:
            raise sealed_already(found.same_rows, others)
        found.check_open()
        configuration["sealed_before"] = found.same_rows
        rows.check_still()
        checks.warn_of_missing([name for name, rule in rules_of(configuration).items() if rule == REFUSE])
    return made


def _check_independent(request: SealRequest, columns: Collection[str], mechanism: Mechanism) -> None:
    """Check that columns declared independent are there, and that the label and the dependence are not among them.

    Raises:
        HoldoutRejected: If a declared column is missing, or is the label or a column of the dependence. Nothing was
            created.
    """
    declared, others = mechanism.dependence.sorting_columns, [name for name in columns if name != request.label]
    others = [name for name in others if name not in declared]
    for name in request.rows.independent:
        if name not in others:
            wrong = (
                "is the label, by which nothing is grouped" if name == request.label
                else "is declared to group or order the rows" if name in declared else "is not there"
            )  # fmt: skip
            raise HoldoutRejected(
                f"{name!r:.100} cannot be declared independent: it {wrong}. Name one of {', '.join(others) or 'none'}."
            )


@contextmanager
def _file_sealing(folder: Path, request: SealRequest) -> Iterator[SealedRows]:
    """Check rows from files and write them sealed, and open the tables for checks of their structure."""
    sealed = seal_rows(folder, request)
    with FileStructure(folder, sealed) as structure:
        yield SealedRows(sealed, structure, lambda key: Content.of(folder / HOLDOUT_FILE, sealed.columns, key=key))


def _first_text(connection: duckdb.DuckDBPyConnection, name: str, kind: ColumnKind, open_kind: ColumnKind) -> str:
    """Return a sentence that names the first cell of a column that is not a number, or an empty text if there is none.

    The sentence quotes the cell only if it is in a training row.
    """
    if {kind, open_kind} != {ColumnKind.NUMBER, ColumnKind.STRING}:
        return ""
    is_open = open_kind is ColumnKind.STRING
    rows = connection.view("training_source" if is_open else "holdout_source")
    numbered = rows.project(f"row_number() OVER () AS place, {quoted(name)} AS cell")
    found = numbered.filter("cell IS NOT NULL AND try_cast(cell AS DOUBLE) IS NULL").limit(1).fetchall()
    if not found:
        return ""
    ((place, cell),) = found
    shown = brief(cell) if is_open else "no number"
    return f"Row {place:,} of the {'training rows' if is_open else 'rows to seal'} has {shown} in {name!r}. "


def seal_rows(folder: Path, request: SealRequest) -> SealedFiles:
    """Check the rows and write them to an existing, private folder.

    Args:
        folder: Folder for the Parquet files.
        request: The rows, as files or tables that can be copied. Holdout and training rows may share no row id.

    Raises:
        HoldoutRejected: If the rows cannot be sealed as they stand.
    """
    training, row_id, most_rows = request.training, request.rows.row_id, request.rows.most_rows
    with duckdb_files.spilling_into(folder) as connection, progress("writing and checking rows", 5) as line:
        sources = {"holdout": request.holdout} | ({} if training is None else {"training": training})
        read_together(connection, sources, most_rows=most_rows)
        columns = duckdb_files.column_kinds(connection.view("holdout_source"))
        checks.check_names(columns)
        duckdb_files.limit_memory(connection, len(columns))
        if training is not None:
            open_columns = duckdb_files.column_kinds(connection.view("training_source"))
            checks.check_same_columns(
                columns, open_columns, lambda name: _first_text(connection, name, columns[name], open_columns[name])
            )
        sets = list(sources)
        counts = {}
        for done, what in enumerate(sets, 1):
            counts[what] = write_rows(connection, what, columns, folder / f"{what}.parquet")
            line(done)
        sides = [checks.FileSide(connection, what, columns) for what in sets]
        kind, known = checks.label_facts(request.label, columns, sides, declared=request.rows.classes)
        for what, rows in counts.items():
            check_size(rows=rows, columns=None, most_rows=most_rows, what=what)  # a stream does not say it before
        line(3)
        if row_id is not None:
            checks.check_row_ids(row_id, columns, sides)
            if training is not None:
                with reading_errors_hidden("holdout"):
                    checks.check_not_shared(connection, row_id)
        line(4)
        categories: Categories = {}
        if training is not None:
            with reading_errors_hidden("training"):
                categories = training_categories(connection, training)
                categories |= declared_categories(connection, request)
                checks.warn_of_texts(connection, columns, row_id=row_id)
                if not request.rows.equal_rows:
                    check_equal_rows(connection, columns, row_id=row_id)
    return SealedFiles(
        rows=counts["holdout"],
        training_rows=counts.get("training", 0),
        columns=columns,
        label_kind=kind,
        label_classes=known,
        fingerprint=fingerprint(folder / HOLDOUT_FILE),
        training_fingerprint=None if training is None else fingerprint(folder / TRAINING_FILE),
        categories=categories,
    )


# Categories of categorical columns: estimators such as LightGBM need the type that they were fitted on.
#
# The sealed file holds texts and numbers. The categories are those of the training table, which is public, so a sealed
# value that is none of them reaches an estimator as a missing one.

_MOST_CATEGORIES = 10_000


def training_categories(connection: duckdb.DuckDBPyConnection, training: RowSource) -> Categories:
    """Return the categories of each categorical column of the training table, in their order.

    A Parquet file that pandas wrote says which columns are categorical; their categories are the sorted values. A
    column with more than 10,000 categories, or with others than texts, numbers and truth values, is left out.

    Args:
        connection: Holds the training rows as the view ``training``.
        training: The training table that the caller passed, see `RowSource`.
    """
    found: Categories = {}
    if not isinstance(training, (str, Path)):
        import narwhals.stable.v1 as nw

        frame = nw.from_native(training, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            for name, kind in frame.schema.items():
                if isinstance(kind, (nw.Categorical, nw.Enum)):
                    found[str(name)] = frame[name].cat.get_categories().drop_nulls().to_list()
    elif Path(training).suffix.lower() == ".parquet":
        wrote = connection.execute(
            "SELECT decode(value) FROM parquet_kv_metadata($1) WHERE decode(key) = 'pandas'",
            [duckdb_files.file_pattern(Path(training))],
        ).fetchall()
        columns = json.loads(wrote[0][0]).get("columns", []) if wrote else []
        names = [str(column["name"]) for column in columns if column.get("pandas_type") == "categorical"]
        found = {name: _values(connection, name) for name in names if name in connection.view("training").columns}
    return {name: values for name, values in found.items() if _usable(values)}


def declared_categories(connection: duckdb.DuckDBPyConnection, request: SealRequest) -> Categories:
    """Return the training values of each column that the steward declared to hold categories, in order.

    Raises:
        HoldoutRejected: If such a column is missing, is the label or the row id, or cannot hold categories.
    """
    found: Categories = {}
    for name in request.rows.categories:
        known = name in connection.view("training").columns and name not in (request.label, request.rows.row_id)
        values = _values(connection, name) if known else []
        if not values or not _usable(values):
            raise HoldoutRejected(
                f"{name!r:.100} cannot hold categories. Name a feature with 1 to {_MOST_CATEGORIES:,} different "
                "training values that are texts, numbers or truth values."
            )
        found[name] = values
    return found


def _usable(values: Sequence[object]) -> bool:
    """Return whether the values of a column are few and of one plain type, so that they can be categories."""
    plain = all(isinstance(value, (str, int, float)) for value in values)
    return plain and len({type(value) for value in values}) == 1 and len(values) <= _MOST_CATEGORIES


def _values(connection: duckdb.DuckDBPyConnection, name: str) -> list[str | int | float | bool]:
    """Return the different values of a training column in order, at most one more than the limit of categories."""
    column = quoted(name)
    found = connection.execute(
        f"SELECT DISTINCT {column} FROM training WHERE {column} IS NOT NULL ORDER BY 1 LIMIT {_MOST_CATEGORIES + 1}"
    ).fetchall()
    return [value for (value,) in found]
