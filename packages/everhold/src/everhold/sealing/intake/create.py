"""Sealing in its order: check and write the rows, bind them to a mechanism, and make a key."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everhold.errors import HoldoutRejected
from everhold.estimand import check_stratified
from everhold.sealing.configuration import make_configuration, rules_of
from everhold.sealing.intake.checks import warn_of_missing
from everhold.sealing.intake.duckdb_files import spilling_into
from everhold.sealing.intake.files import seal_rows
from everhold.sealing.intake.structure import FileStructure
from everhold.sealing.resealing import Content, same_rows, sealed_already, sealed_elsewhere, sealed_in_training
from everhold.sealing.rows.row_store import SealedRows, is_table
from everhold.sealing.storage import HOLDOUT_FILE, KEY_FILE, TRAINING_FILE, StewardKey
from everhold.values.missing import REFUSE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

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
        apart: Columns none of whose values stand both in sealed and in training rows.
        whole_groups: Columns of `apart` by which whole groups were put on one side, the largest groups first.
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
        choose: From the arrangement of the rows to the mechanism that answers; what it refuses is not sealed.
        others: All holdouts that the storage has.
        unsealed: Names of those that were unsealed, whose rows may be training rows.
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
    with spilling_into(folder), sealing as rows:
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
        lacking = structure.lacking()
        configuration = make_configuration(folder, sealed, mechanism, key, request, whole_groups=whole, lacking=lacking)
        made = Sealed(mechanism, key, configuration, apart, whole, lacking[1])
        check(made)
        same = same_rows(folder, others, rows.content, sealed_with=key.notes_key, first_key=request.content_key)
        if same and not allow_resealing:
            raise sealed_already(same, others)
        training = folder / TRAINING_FILE
        if training.is_file() and (opened := sealed_in_training(training, others, sealed.columns, unsealed=unsealed)):
            raise sealed_elsewhere(opened)
        configuration["sealed_before"] = same
        rows.check_still()
        warn_of_missing([name for name, rule in rules_of(configuration).items() if rule == REFUSE])
    return made


def _check_independent(request: SealRequest, columns: Collection[str], mechanism: Mechanism) -> None:
    """Check that columns declared independent are there, and that the label and the dependence are not among them.

    Raises:
        HoldoutRejected: If not. Nothing was created.
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
