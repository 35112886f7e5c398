"""Query executors of a holdout to which rows were appended: one for each tree, the rows since one arrival (S13).

Only public facts decide which tree answers a query. All executors share the files of the rows and the ledger.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from everhold.arguments import as_whole, brief
from everhold.asking.query_executor import AmongArrivals, QueryExecutor
from everhold.errors import HoldoutRejected, IntegrityError, QueryRejected
from everhold.ledger.acts import ARRIVAL, Arrivals, arrived
from everhold.mechanisms import PublicLevels, State, has_public_levels, those_with
from everhold.mechanisms.suffixes import Suffix, narrowest, tree_of
from everhold.queries.predictions.arrays import RowSpan
from everhold.sealing.configuration import FAMILIES_GROW, GROWS, LARGEST_GROUP, MISSING
from everhold.sealing.intake.reading import MOST_ROWS
from everhold.sealing.rows.row_store import arrival_rows
from everhold.sealing.rows.table import StoredRows, parted
from everhold.sealing.sealed_files import sealed_files
from everhold.strict_json import digest
from everhold.values.missing import MissingRule, read_rules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from everhold.dependence import DependenceModel
    from everhold.ledger import Entry, Head
    from everhold.sealing.intake.request import Planning
    from everhold.values.base import Schema


def arrival_query(number: int) -> str:
    """Return the fingerprint of an arrival's ledger entry."""
    return digest({"kind": ARRIVAL, "arrival": number})


@dataclass(frozen=True, slots=True)
class _ArrivedPart:
    """The sealed rows and training rows of one arrival. Number 0 is the creation of the holdout."""

    number: int
    rows: int
    training_rows: int
    sealed: StoredRows | None
    training: StoredRows | None
    description: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RowsByArrival:
    """The rows of a holdout, part by part in the order of arrival.

    Attributes:
        schema: The public facts about the rows of the creation.
        parts: Rows by arrival, those of the creation first.
        retired: Number of the oldest parts that were retired, and are training rows now.
    """

    schema: Schema
    parts: tuple[_ArrivedPart, ...]
    retired: int

    @property
    def ever(self) -> int:
        """Number of sealed rows that ever arrived, including retired ones."""
        return sum(part.rows for part in self.parts)

    @property
    def retired_rows(self) -> int:
        """Number of rows that were sealed once and are training rows now."""
        return sum(part.rows for part in self.parts[: self.retired])

    @property
    def training_rows(self) -> int:
        """Number of training rows, including retired rows."""
        return self.retired_rows + sum(part.training_rows for part in self.parts)

    def training(self, last: int) -> list[StoredRows]:
        """Return the stored training rows up to an arrival, and all retired rows, which are open now."""
        return [*(part.training for part in self.parts[: last + 1] if part.training is not None), *self._opened]

    @cached_property
    def _opened(self) -> tuple[StoredRows, ...]:
        """Files of retired rows, read as training rows."""
        return tuple(
            StoredRows(part.sealed.engine, self.schema, rows=part.rows, sealed=False)
            for part in self.parts[: self.retired] if part.sealed is not None
        )  # fmt: skip

    def ids(self, name: str) -> list[Any]:
        """Return the public ids of all rows that were ever sealed."""
        return [each for part in self.parts if part.sealed is not None for each in part.sealed.row_ids(name)]

    def missing(self, last: int) -> dict[str, MissingRule]:
        """Return each column's rule for missing values as it was at an arrival."""
        found = dict(self.schema.missing)
        for part in self.parts[1 : last + 1]:
            found |= read_rules(part.description.get(MISSING, {}))
        return found

    def close(self) -> None:
        """Close all files, which open again when needed."""
        for part in self.parts[1:]:
            for rows in (part.sealed, part.training):
                if rows is not None:
                    rows.close()

    def facts(self) -> list[dict[str, Any]]:
        """Return the public facts of each arrival: number, rows, training rows, date, fingerprint."""
        names = ("arrival", "rows", "training_rows", "until", "fingerprint")
        return [{name: part.description.get(name) for name in names} for part in self.parts[1:]]


@dataclass(frozen=True)
class Growth:
    """The trees of a holdout to which rows are appended, with one executor for each, at one moment.

    Attributes:
        first: The executor of the rows with which the holdout was created.
        folder: Private folder of the rows.
        account: The arrivals and trees that the ledger has recorded.
        rows: Rows by arrival.
        changes: Number of arrivals and retirements up to this moment.
    """

    first: QueryExecutor
    folder: Path
    account: Arrivals
    rows: RowsByArrival
    changes: int

    @classmethod
    def of(cls, first: QueryExecutor, folder: Path, *, known: Growth | None = None, head: Head | None = None) -> Growth:
        """Read from the ledger which rows arrived. Files that the ledger does not know are ignored.

        Args:
            first: The executor of the holdout as it was created.
            folder: Private folder of the rows.
            known: Result of an earlier call, whose open files are used again. None to open all files.
            head: The ledger's head. If None, it is read.

        Raises:
            IntegrityError: If a file is not the one that was sealed.
        """
        head = first.ledger.head() if head is None else head
        account = head.accounts.of(Arrivals)
        if known is None:
            zero = _ArrivedPart(0, first.schema.rows, first.schema.training_rows, first.sealed, first.training)
            parts: tuple[_ArrivedPart, ...] = (zero,)
        else:
            parts = known.rows.parts
        for number in range(len(parts), account.arrivals + 1):
            entry = first.ledger.find(arrival_query(number))
            if entry is None:
                raise IntegrityError(
                    f"The ledger has no entry of arrival {number}. Run 'everhold ledger verify' and restore a backup."
                )
            parts = (*parts, _part(first, folder, number, entry, parts))
        return cls(first, folder, account, RowsByArrival(first.schema, parts, account.retired), arrived(head.state))

    @property
    def mechanism(self) -> PublicLevels:
        """Mechanism that is recorded in the settings of the holdout."""
        return cast("PublicLevels", self.first.mechanism)

    @cached_property
    def trees(self) -> tuple[Suffix, ...]:
        """Trees that are open, the oldest first."""
        later = [Suffix.read(line) for line in self.account.trees]
        return tuple(later if self.account.retired else [Suffix(1), *later])

    @cached_property
    def executors(self) -> tuple[QueryExecutor, ...]:
        """The executor of each open tree, which answers about all rows of its tree."""
        return tuple(self._executor(tree, tree.arrival, self.account.arrivals) for tree in self.trees)

    def best(self, analyst: str | None = None, head: Head | None = None) -> QueryExecutor:
        """Return the executor whose next answer is expected to be the narrowest.

        Args:
            analyst: Name of the analyst who asks; None for the steward.
            head: The ledger's head. If None, it is read.
        """
        state = self.state(head)
        trees = [(cast("PublicLevels", e.mechanism), t) for e, t in zip(self.executors, self.trees, strict=True)]
        return _for(self.executors[narrowest(trees, state)], analyst)

    def oldest(self, analyst: str | None = None) -> QueryExecutor:
        """Return the executor that answers about all sealed rows."""
        return _for(self.executors[0], analyst)

    def as_of(self, arrival: int, analyst: str | None = None) -> list[QueryExecutor]:
        """Return executors that find stored answers about the rows up to an arrival. They answer no new query.

        A model is recognised by its predictions for training rows, which include retired rows. So there is one executor
        for each number of retired parts that is possible at the time of the query, beginning with 0.

        Raises:
            QueryRejected: If there was no such arrival.
        """
        if type(arrival) is not int or not 0 <= arrival <= self.account.arrivals:
            raise QueryRejected(f"There was no arrival {arrival!r}. Pass a number from 0 to {self.account.arrivals}.")
        then = [replace(self, rows=replace(self.rows, retired=retired)) for retired in range(self.rows.retired + 1)]
        return [_for(each._executor(Suffix(1), 0, arrival), analyst) for each in then]

    def window(self, first: int, last: int, analyst: str | None = None) -> QueryExecutor:
        """Return an executor for the rows of some arrivals.

        Of the trees that contain these rows, it uses the one with the narrowest intervals.

        Raises:
            QueryRejected: If they are retired, or there are no such rows.
        """
        if not self.account.retired <= first <= last <= self.account.arrivals:
            raise QueryRejected(
                f"Arrivals {first} to {last} have no sealed rows. Pass arrivals from "
                f"{self.account.retired} to {self.account.arrivals}."
            )
        holding = [tree for tree in self.trees if tree.arrival <= first]
        rows, state = sum(part.rows for part in self.rows.parts[first : last + 1]), self.state()
        if not rows:
            raise QueryRejected(f"Arrivals {first} to {last} have only training rows. Pass arrivals with sealed rows.")
        of = self.dependence(first, last)
        trees = [
            (tree_of(self.mechanism, tree, rows=rows, training_rows=self.rows.training_rows, dependence=of), tree)
            for tree in holding
        ]
        tree = holding[narrowest(trees, state)]
        about = (("window_from", first), ("window_to", last))
        return _for(self._executor(tree, first, last, about=about), analyst)

    def state(self, head: Head | None = None) -> State:
        """Return the mechanism's state at a head of the ledger, by default the newest. It counts all trees' queries."""
        return State.of((head or self.first.ledger.head()).state, self.first.record.settings)

    def _executor(
        self, tree: Suffix, start: int, last: int, *, about: tuple[tuple[str, int], ...] | None = None
    ) -> QueryExecutor:
        """Build an executor at the levels of a tree, about the rows from arrival ``start`` to ``last``."""
        parts = self.rows.parts[start : last + 1]
        rows, before = sum(part.rows for part in parts), sum(part.rows for part in self.rows.parts[:start])
        trained = self.rows.training(last)
        if about is None:
            about = (("arrived", last),) if last else ()
        training_rows = sum(each.rows for each in trained)
        schema = replace(
            self.first.schema, rows=rows, training_rows=training_rows, about=about, missing=self.rows.missing(last)
        )
        sealed = [part.sealed for part in parts if part.sealed is not None]
        of_all = not start and "window_from" not in dict(about)  # members of families are about all rows (S14)
        return replace(
            self.first,
            mechanism=tree_of(
                self.mechanism, tree, rows=rows, training_rows=training_rows, dependence=self.dependence(start, last)
            ),
            schema=schema,
            sealed=parted(sealed, schema, sealed=True, order_key=self.first.key.order_key),
            training=parted(trained, schema, sealed=False) if trained else None,
            level_of=self.first.level_of if of_all else None,
            place=AmongArrivals(self.changes, tree.before, (before + 1, before + rows)),
            growth=self,
        )

    def dependence(self, start: int, last: int) -> DependenceModel:
        """Return the dependence model of the rows of some arrivals, with their group sizes."""
        known = self.mechanism.dependence
        counts = Counter(dict(known.unit_counts) if start == 0 else {})
        for part in self.rows.parts[max(start, 1) : last + 1]:
            counts.update({int(size): int(number) for size, number in part.description.get("groups", ())})
        return known.with_rows(sum(part.rows for part in self.rows.parts[start : last + 1]), counts)

    def check_unaltered(self) -> None:
        """Check that appended rows in an engine's table are unaltered. Rows in files are checked when read.

        Raises:
            IntegrityError: If the rows are not those that were sealed.
        """
        if table_of_rows(self.first) is not None:
            for number, part in enumerate(self.rows.parts[1:], 1):
                entry = self.first.ledger.find(arrival_query(number))
                assert entry is not None
                _part(self.first, self.folder, part.number, entry, self.rows.parts[:number])

    def span_of(self, executor: QueryExecutor) -> RowSpan | None:
        """Return the position of an executor's rows among all sealed rows, or None if it has all of them."""
        retired, rows, name = self.rows.retired_rows, self.rows.ever, self.first.schema.row_id
        first, last = executor.place.rows or (1, rows)
        if (first, last) == (1, rows):
            return None
        ids = tuple if name is None else partial(self.rows.ids, name)
        return RowSpan(first - 1 - retired, last - first + 1, rows - retired, ids)


def _for(executor: QueryExecutor, analyst: str | None) -> QueryExecutor:
    return executor if analyst is None else replace(executor, analyst=analyst)


def table_of_rows(first: QueryExecutor) -> Any:
    """Return the engine's table that holds the sealed rows, or None if the rows are in files."""
    return None if first.record.configuration.get("engine") is None else first.sealed.engine


def _part(
    first: QueryExecutor, folder: Path, number: int, entry: Entry, before: Sequence[_ArrivedPart]
) -> _ArrivedPart:
    public, configuration = entry.description, first.record.configuration
    rows, trained = int(public["rows"]), int(public["training_rows"])
    files = sealed_files(folder, configuration, public)
    sealed = training = None
    if rows and (table := table_of_rows(first)) is not None:
        earlier = [part.description for part in before]
        sealed = arrival_rows(configuration, first.key, table, before=earlier, arrival=public)
    elif rows:
        engine = files["holdout"].opened()
        sealed = StoredRows(engine, first.schema, rows=rows, sealed=True, order_key=first.key.order_key)
    if trained:
        training = StoredRows(files["training"].opened(), first.schema, rows=trained, sealed=False)
    return _ArrivedPart(number, rows, trained, sealed, training, public)


# Creation of a holdout that will grow: its mechanism, and what declared families have to know first (S13, S14).


def growing(mechanism: Any, planning: Planning, *, declared: bool) -> Any:
    """Prepare a mechanism for a holdout that may grow. Rows that arrive get half of the probability of failure.

    With declared families all rows have one tree. The families and the tree then share the probability of failure
    (S14).

    Args:
        mechanism: Mechanism planned for rows that stay as they are.
        planning: The plan of the holdout.
        declared: Whether families are declared at creation.

    Raises:
        HoldoutRejected: If rows cannot arrive with this mechanism. Nothing was created.
    """
    dependence = mechanism.dependence
    if planning.largest_group is not None and not (planning.grows and declared and dependence.in_groups):
        raise HoldoutRejected(
            "largest_group= is only for holdouts with grows=True, declared=... and rows in groups. Pass all of them, "
            "or leave largest_group= out."
        )
    if not planning.grows:
        return mechanism
    if not (has_public_levels(mechanism) and mechanism.endless):
        raise HoldoutRejected(
            f"grows=True needs the mechanism {those_with('public_levels')} without slack, and this holdout has "
            f"{mechanism.name}. Pass another mechanism, or leave out grows=True."
        )
    if dependence.one_series:
        raise HoldoutRejected(
            "grows=True does not support rows that are a series. Leave grows=True out: rows can be appended to a "
            "series without it, and later intervals are narrower."
        )
    if not declared:
        return mechanism.sharing(0.5)
    if dependence.in_groups:
        _check_largest(dependence, planning.largest_group)
    elif not dependence.independent:
        raise HoldoutRejected(
            "declared=... and grows=True together need rows that are independent or in groups, and these rows are "
            "declared otherwise. Leave out declared=... or grows=True."
        )
    return mechanism


def _check_largest(groups: DependenceModel, largest: int | None) -> None:
    """Check the declared maximum size of a group against the sealed groups.

    Raises:
        HoldoutRejected: If no largest size is declared, or a sealed group is larger. Nothing was created.
    """
    sealed = groups.largest_unit
    if groups.group_column is None:
        raise HoldoutRejected(
            "declared=... and grows=True together need groups that a column names. Pass eh.Groups('column')."
        )
    if largest is None:
        raise HoldoutRejected(
            "largest_group= is missing, which declared=... and grows=True need where rows are in groups. Pass at "
            f"least {sealed:,}, the largest group of the sealed rows. Larger groups will be refused, and a larger "
            "number makes intervals wider."
        )
    number = as_whole(largest)
    if number is None or not sealed <= number <= MOST_ROWS:
        raise HoldoutRejected(
            f"largest_group is {brief(largest)}. Pass a whole number of at least "
            f"{sealed:,}, the size of the largest group of the sealed rows."
        )


def record_growth(configuration: dict[str, Any], planning: Planning, *, declared: bool) -> None:
    """Write into the settings of a new holdout that rows may be appended, and the numbers that families need.

    `declared` is true if families are declared at creation.
    """
    if not planning.grows:
        return
    if not declared:
        configuration[GROWS] = True
        return
    configuration[FAMILIES_GROW] = configuration["rows"]
    if planning.largest_group is not None:
        configuration[LARGEST_GROUP] = int(planning.largest_group)
