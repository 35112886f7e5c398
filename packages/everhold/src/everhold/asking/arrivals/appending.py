"""Appending rows to a holdout and retiring old rows, two acts of the steward, each one ledger entry (S13).

An append writes and checks the files of its rows first, and waits until they are on the disk. Then one transaction adds
the entry. If the process is killed before the transaction, no rows arrived, and the next append removes the files. If
it is killed after the transaction, the rows arrived, and the same call returns the same arrival again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from everhold.arguments import brief, check_time
from everhold.asking.arrivals.accessor import timeline
from everhold.asking.arrivals.growth import Growth, arrival_query, table_of_rows
from everhold.asking.query_executor import CLOSED_STUDY, QueryExecutor, RowsArrived
from everhold.display import Display
from everhold.errors import HoldoutRejected, QueryRejected
from everhold.ledger import EntryDraft, Head, Outcome
from everhold.ledger.acts import ARRIVAL, MOST_ARRIVALS, RETIREMENT, Accounts, Arrivals, arrived
from everhold.ledger.store import all_entries
from everhold.mechanisms import State, has_public_levels
from everhold.mechanisms.suffixes import Suffix, opens, radius_of
from everhold.sealing.arrivals import ArrivedFiles, EarlierFiles, arriving, known_rows, remove_orphans, seal_arrival
from everhold.sealing.configuration import (
    FAMILIES_GROW,
    GROWS,
    LARGEST_GROUP,
    MISSING,
    recorded_extensions,
    usable_columns,
)
from everhold.sealing.intake.checks import warn_of_missing
from everhold.sealing.resealing import Content, compare
from everhold.sealing.rows.row_store import latest_until
from everhold.sealing.sealed_files import rows_file
from everhold.strict_json import digest
from everhold.values.missing import REFUSE, MissingRule, missing_rules

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from everhold.sealing.intake.reading import RowSource

_TRIES = 100
_MEANWHILE = "Rows arrived in the meantime. Try again."


@dataclass(frozen=True, slots=True)
class Arrived(Display):
    """Result of appending rows: their number, and the half-widths before and after.

    Attributes:
        arrival: Number of the arrival, from 1.
        rows: Number of sealed rows that arrived.
        training_rows: Number of training rows that arrived.
        total: Number of all sealed rows.
        tree: Number of the tree that opened at this arrival: earlier surprises do not widen its intervals. None if no
            tree opened.
        within_before: Half-width of the next yes-or-no answer before the arrival.
        within: The same half-width after the arrival.
    """

    arrival: int
    rows: int
    training_rows: int
    total: int
    tree: int | None
    within_before: float
    within: float

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Build the result for an arrival that is already recorded, from its row in the timeline."""
        return cls(**{name: row[name] for name in cls.__slots__})

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes by name."""
        return {name: getattr(self, name) for name in self.__slots__}


def remember_rows(first: QueryExecutor, folder: Path) -> None:
    """Write hashes of the first rows, unless they stay in a table, so that the first append is faster."""
    if table_of_rows(first) is None:
        known_rows(folder, 0, first.schema.columns, key=first.key.notes_key)


def check_grows(executor: QueryExecutor) -> None:
    """Raise QueryRejected if this holdout would have no guarantee after rows were appended.

    Raises:
        QueryRejected: If rows cannot be appended. Nothing was changed.
    """
    configuration, mechanism = executor.record.configuration, executor.mechanism
    dependence = mechanism.dependence
    reasons = {
        "the rows stay in a table that does not say when rows arrived (arrived=)": (
            configuration.get("engine", {"arrived": ""}).get("arrived") is None
        ),
        f"the mechanism {mechanism.name} needs all rows from the beginning": not mechanism.endless,
        "the rows depend on each other, and new rows may depend on the sealed ones": not (
            dependence.independent
            or (configuration.get("engine") is None and (dependence.one_series or dependence.group_column is not None))
        ),
        "the table was split by stratified=, so that both parts are alike": configuration.get("stratified") is not None,
    }
    for reason, holds in reasons.items():
        if holds:
            raise _cannot(reason)
    executor.check_steward("append rows")


def _cannot(reason: str) -> QueryRejected:
    return QueryRejected(
        f"Rows cannot be appended: {reason}. Seal the new rows as another holdout. Rows arrive only in holdouts with "
        "guess_and_check whose rows are independent, in groups of a column or of one series."
    )


def _check_accounts(accounts: Accounts, configuration: Mapping[str, Any]) -> None:
    """Raise QueryRejected if the study is closed, or an extension in use cannot take new rows."""
    if accounts.closed:
        raise QueryRejected(CLOSED_STUDY)
    used = {each.name for each in accounts.extensions.values() if not each.knows_arrivals(configuration)}
    if others := sorted(used | recorded_extensions(configuration).keys()):
        raise _cannot(f"the holdout uses {', '.join(others)}, which do not support arrivals")
    for reason in filter(None, (each.keeps_out() for each in accounts.extensions.values())):
        raise QueryRejected(reason)


def append(
    first: QueryExecutor, folder: Path, *, rows: RowSource | None, training: RowSource | None, until: str | None = None,
    known: Growth | None = None,
) -> tuple[Arrived, Growth]:  # fmt: skip
    """Append rows, and return the arrival and the trees and rows after it. See `everhold.holdout.Holdout.append`.

    Args:
        first: The executor of the rows with which the holdout was created.
        folder: Private folder of its rows.
        rows: Rows to seal, or None.
        training: Training rows to add, or None.
        until: Time up to which the rows had arrived, as the steward states it, such as "2026-12-01 06:00".
        known: Rows and trees up to the latest arrival that this process has read.

    Raises:
        HoldoutRejected: If the rows do not fit the sealed rows, or are in the holdout already. Nothing was changed.
        QueryRejected: If the holdout cannot grow. Nothing was changed.
    """
    check_grows(first)
    if table_of_rows(first) is None:
        if rows is None and training is None:
            raise HoldoutRejected("There are no rows to append. Pass rows= or training=.")
    elif rows is not None or training is not None or until is None:
        raise HoldoutRejected("The rows of this holdout arrive in its table. Pass until=, without rows= and training=.")
    if training is not None and first.mechanism.dependence.one_series:
        raise HoldoutRejected(
            "The rows are a series, and no training rows can be added to a series. Append the rows without training=."
        )
    if training is not None and FAMILIES_GROW in first.record.configuration:
        raise HoldoutRejected(
            "This holdout has declared families, whose intervals use the training rows of the declaration, so no "
            "training rows can be added. Append the rows without training=."
        )
    with arriving(folder):
        head = first.ledger.head()
        _check_accounts(head.accounts, first.record.configuration)
        growth = Growth.of(first, folder, known=known, head=head)
        try:
            return _append(growth, head, folder, rows=rows, training=training, until=_checked(until, growth))
        finally:
            growth.rows.close()


def _checked(until: str | None, growth: Growth) -> str | None:
    """Return the time of an arrival as text, after checking that it is not before earlier arrivals."""
    if until is None:
        return None
    latest, table = latest_until(growth.first.record.configuration, growth.rows.facts()), table_of_rows(growth.first)
    try:
        check_time("until", until)
    except ValueError as fault:
        raise HoldoutRejected(str(fault)) from None
    before = until.replace("T", " ") < latest.replace("T", " ")
    if before or (until == latest and table is not None and not growth.account.arrivals):
        raise HoldoutRejected(f"until is {until}, and the holdout already has rows until {latest}. Pass a later time.")
    return until


def _append(
    growth: Growth, head: Head, folder: Path, *, rows: RowSource | None, training: RowSource | None, until: str | None
) -> tuple[Arrived, Growth]:
    executor, number = growth.first, growth.account.arrivals + 1
    if number > MOST_ARRIVALS:
        raise HoldoutRejected(
            f"This holdout has had {MOST_ARRIVALS:,} arrivals, the most that are possible. "
            "Seal the new rows as another holdout."
        )
    remove_orphans(folder, arrivals=growth.account.arrivals)
    latest = growth.rows.parts[-1].description
    if (table := table_of_rows(executor)) is not None:
        if until == latest.get("until"):  # the same call again, as after a kill
            growth.check_unaltered()
            return _latest(growth), growth
        files = _arriving_in(table, growth, str(until))
        files = replace(files, rules=_new_rules(growth, files))
        return _result(growth, head, files, tree=_recorded(growth, head, number, files, until=until))
    earlier = EarlierFiles(
        folder, executor.schema, executor.key.notes_key,
        with_rows=[part.number for part in growth.rows.parts if part.rows],
        with_training=[part.number for part in growth.rows.parts if part.training_rows],
        dependence=executor.mechanism.dependence,
        largest_group=executor.record.configuration.get(LARGEST_GROUP),
    )  # fmt: skip

    def check_pools(arriving: Path) -> None:
        from everhold.asking.declared import FamilyLevels

        FamilyLevels(executor.schema).check_arriving(executor, head, arriving)

    sealed = seal_arrival(earlier, number, rows=rows, training=training, check=check_pools)
    if sealed is None:
        if until != latest["until"]:
            raise HoldoutRejected(
                f"These rows are already in this holdout, as arrival {number - 1} with "
                "another until=. Append rows that are new."
            )
        return _latest(growth), growth
    files = sealed
    try:
        _check_elsewhere(growth, folder, number, files)
        files = replace(files, rules=_new_rules(growth, files))
        tree = _recorded(growth, head, number, files, until=until)
    except BaseException:
        if growth.first.ledger.find(arrival_query(number)) is None:
            remove_orphans(folder, arrivals=growth.account.arrivals)
        raise
    return _result(growth, head, files, tree=tree)


def _result(
    growth: Growth, head: Head, files: ArrivedFiles, *, tree: Suffix | None
) -> tuple[Arrived, Growth]:  # fmt: skip
    """Return the recorded arrival with half-widths before and after it, and the holdout's new rows and trees."""
    after = growth.first.ledger.latest()
    grown = Growth.of(growth.first, growth.folder, known=growth, head=after)
    opened = None if tree is None else tree.number
    return Arrived(
        grown.account.arrivals, files.rows, files.training_rows, grown.rows.ever, opened, _next(growth, head),
        _next(grown, after),
    ), grown  # fmt: skip


def _latest(growth: Growth) -> Arrived:
    """Return the latest arrival, with the numbers that `append` returned for it."""
    acts = [entry for entry in all_entries(growth.first.ledger) if entry.answer["source"] in Arrivals.acts]
    found = {row["arrival"]: row for row in timeline(growth, acts)}
    return Arrived.of(found[growth.account.arrivals])


def _arriving_in(table: Any, growth: Growth, until: str) -> ArrivedFiles:
    """Return the rows of a table that arrived since the latest append, after a check that older rows are unaltered."""
    first = growth.first
    table.check_unaltered(first.record.configuration, first.key)
    growth.check_unaltered()
    ids = set() if first.training is None or first.schema.row_id is None else {
        str(each) for each in first.training.row_ids(first.schema.row_id)
    }  # fmt: skip
    window = (latest_until(first.record.configuration, growth.rows.facts()), until)
    found: ArrivedFiles = table.arriving(window, first.schema, first.key, training_ids=ids)
    return found


def _new_rules(growth: Growth, files: ArrivedFiles) -> dict[str, MissingRule]:
    """Return the rules for missing values of columns that have missing values for the first time in these rows.

    Raises:
        HoldoutRejected: If a new rule would change the meaning of declared queries. Nothing was appended.

    Warns:
        ColumnWarning: If queries that read such a column will be refused.
    """
    first, rows = growth.first, growth.rows
    known = rows.missing(growth.account.arrivals)
    trained = frozenset[str]().union(*(each.incomplete for each in rows.training(growth.account.arrivals)))
    usable = usable_columns(first.schema.columns, row_id=first.schema.row_id)
    new = files.lacking & usable.keys() - known.keys() - trained
    if new and FAMILIES_GROW in first.record.configuration:
        raise HoldoutRejected(
            f"The new rows lack values of {', '.join(map(repr, sorted(new)))}, which all earlier rows have. Fill "
            "them in, so that declared queries keep their meaning."
        )
    declared = first.record.configuration.get(MISSING, [REFUSE.how])[0]
    rules = missing_rules(declared, usable, lacking=new, unseen=new)
    found = {name: rule for name, rule in rules.items() if name in new}
    warn_of_missing([name for name, rule in found.items() if rule == REFUSE], of="Rows that arrive")
    return found


def _check_elsewhere(growth: Growth, folder: Path, number: int, files: ArrivedFiles) -> None:
    """Check that the arriving rows, sealed or training rows, are not sealed in another holdout of the storage."""
    first, store = growth.first, growth.first.store
    others = [each for each in store.records() if each.name != first.record.name]
    path, columns = rows_file(folder, number), first.schema.columns
    unsealed = {each.name for each in others if files.training_rows and store.head(each.id).accounts.closed}
    found = compare(
        folder, others, columns, sealed=(lambda key: Content.of(path, columns, key=key)) if files.rows else None,
        unsealed=unsealed, sealed_with=first.key.notes_key, arrival=number,
    )  # fmt: skip
    found.check_open()
    if found.same_rows:
        raise HoldoutRejected(
            "These rows, or most of them, are already sealed in this storage, as "
            f"{', '.join(map(repr, found.same_rows))}. Append rows that no query has been about.",
            names=found.same_rows,
        )


def _tree(growth: Growth, head: Head, arriving_rows: int) -> Suffix | None:
    """Return the tree that opens with an arrival, or None if no tree opens. Only public facts decide.

    After a recovery no tree opens, because lost answers may have been about the same rows that now arrive again.
    """
    if not growth.first.record.configuration.get(GROWS) or head.accounts.lost.recoveries:
        return None
    state = growth.state(head)
    if not opens(growth.trees[-1], state, rows=growth.rows.ever, arriving=arriving_rows):
        return None
    return Suffix(growth.account.opened + 1, growth.account.arrivals + 1, growth.rows.ever, state)


def _recorded(
    growth: Growth, head: Head, number: int, files: ArrivedFiles, *, until: str | None
) -> Suffix | None:  # fmt: skip
    """Record the arrival in the ledger, and return the tree that opened, or None.

    If another process records a query at the same moment, this is tried again.
    """
    for _ in range(_TRIES):
        tree = _tree(growth, head, files.rows)
        if _record(growth, number, files, growth.state(head), tree=tree, until=until):
            return tree
        head = growth.first.ledger.head()
    raise RowsArrived("The rows were not appended, because queries were asked during every attempt. Append them again.")


def _record(
    growth: Growth, number: int, files: ArrivedFiles, state: State, *, tree: Suffix | None, until: str | None
) -> bool:
    """Record the arrival in the ledger. Return False if a query was asked since its tree was decided."""
    public = {
        "kind": ARRIVAL, "arrival": number, "rows": files.rows, "training_rows": files.training_rows,
        "fingerprint": files.fingerprint, "training_fingerprint": files.training_fingerprint,
        "tree": None if tree is None else tree.stored(), "until": until,
        "counted": [state.asked, state.charged, state.labels],
        **({MISSING: {name: rule.to_list() for name, rule in files.rules.items()}} if files.rules else {}),
        **({"groups": [list(pair) for pair in files.groups]} if files.groups else {}),
    }  # fmt: skip
    shown = f"arrival {number}: {files.rows:,} rows" + (f" until {until}" if until else "")
    draft = EntryDraft(arrival_query(number), {**public, "shown": shown})
    with growth.first.ledger.transaction([draft]) as transaction:
        if arrived(transaction.head.state) != growth.changes:
            raise RowsArrived(_MEANWHILE)
        accounts = Accounts.from_state(transaction.head.state)
        _check_accounts(accounts, growth.first.record.configuration)  # again, after the rows were written
        if growth.state(transaction.head) != state:
            return False
        accounts.of(Arrivals).replay(public, ARRIVAL)
        transaction.record(accounts.into(transaction.head.state), [Outcome.of_act(ARRIVAL)])
    return True


def _next(growth: Growth, head: Head) -> float:
    """Return the half-width of the next yes-or-no answer at a head of the ledger."""
    executor = growth.best(head=head)
    mechanism = executor.mechanism
    return radius_of(mechanism, executor.state_from(head)) if has_public_levels(mechanism) else math.inf


def retire(first: QueryExecutor, folder: Path, *, before: int) -> Any:
    """End the trees about rows before an arrival, and return those rows. See `everhold.holdout.Holdout.retire`.

    Rows that are retired already are returned again, so an interrupted call can be repeated.

    Returns:
        The rows, as an Arrow table.

    Raises:
        QueryRejected: If no later tree would be left, or if an analyst asks. Nothing was changed.
    """
    if table_of_rows(first) is not None:
        raise QueryRejected(
            "The rows of this holdout stay in a table of an engine, such as a database. "
            "Only rows that everhold keeps in its own files can be retired."
        )
    head = first.ledger.head()
    first.check_steward("retire rows")
    if head.accounts.closed:
        raise QueryRejected(CLOSED_STUDY)
    public = {"kind": RETIREMENT, "before": before}
    if first.ledger.find(digest(public)) is not None:
        return _rows_before(folder, before)
    account = head.accounts.of(Arrivals)
    opened = [line[1] for line in account.trees if line[1] > account.retired]
    if type(before) is not int or before not in opened:
        listed = ", ".join(map(str, opened))
        raise QueryRejected(
            f"Rows before arrival {brief(before)} cannot be retired. "
            + (
                f"Pass before= as one of {listed}."
                if listed
                else "Rows can only be retired before an arrival that began a budget of its own. This "
                "needs grows=True (--grows) at creation and an earlier surprise."
            )
        )
    draft = EntryDraft(digest(public), {**public, "shown": f"rows before arrival {before} are retired"})
    with first.ledger.transaction([draft]) as transaction:
        accounts = Accounts.from_state(transaction.head.state)
        if accounts.closed:
            raise QueryRejected(CLOSED_STUDY)
        if accounts.of(Arrivals).stored() != account.stored():
            raise RowsArrived(_MEANWHILE)
        accounts.of(Arrivals).replay(public, RETIREMENT)
        transaction.record(accounts.into(transaction.head.state), [Outcome.of_act(RETIREMENT)])
    return _rows_before(folder, before)


def _rows_before(folder: Path, before: int) -> Any:
    """Return the rows that had come before an arrival, as an Arrow table."""
    from everhold.sealing.intake.duckdb_files import file_pattern, spilling_into

    paths = [rows_file(folder, number) for number in range(before) if rows_file(folder, number).is_file()]
    with spilling_into(folder) as connection:
        found = connection.read_parquet([file_pattern(path) for path in paths], hive_partitioning=False)
        return found.to_arrow_table()
