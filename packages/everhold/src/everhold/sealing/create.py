"""Sealing, in the order in which it is done: rows are checked and written, bound to a mechanism, and given a key."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everhold.arguments import as_whole, brief
from everhold.errors import HoldoutRejected
from everhold.estimand import check_stratified
from everhold.sealing.configuration import make_configuration
from everhold.sealing.files import seal_rows
from everhold.sealing.keys import KEY_FILE, StewardKey
from everhold.sealing.resealing import Content, same_rows, sealed_already
from everhold.sealing.row_store import SealedRows, is_table
from everhold.sealing.storage import HOLDOUT_FILE
from everhold.sealing.structure import FileStructure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from everhold.dependence import DependenceModel, RowStructure
    from everhold.ledger import HoldoutRecord
    from everhold.mechanisms import Mechanism
    from everhold.sealing.checks import Classes
    from everhold.sealing.reading import RowSource
    from everhold.sealing.row_store import SealableTable
    from everhold.sealing.settings import ExtensionSettings

__all__ = ["Sealed", "check_columns", "checked_seed", "seal"]


@dataclass(frozen=True, slots=True)
class Sealed:
    """Rows that are sealed, and that no ledger knows yet.

    Attributes:
        mechanism: The mechanism that will answer.
        key: The steward's new key.
        configuration: The public facts that the ledger binds.
        apart: Columns none of whose values stand both in sealed and in training rows.
        whole_groups: Those of them by which whole groups were put on one side, the largest groups first.
    """

    mechanism: Mechanism
    key: StewardKey
    configuration: dict[str, Any] = field(repr=False)
    apart: frozenset[str]
    whole_groups: tuple[str, ...] = ()


def check_columns(*, label: str | None, row_id: str | None) -> None:
    """Check that columns are named by their names.

    Raises:
        ValueError: If not.
    """
    for what, column in (("label", label), ("row id", row_id)):
        if column is not None and not isinstance(column, str):
            raise ValueError(f"the {what} column is {brief(column)}; expected its name; nothing was created")
    if label is not None and label == row_id:
        raise ValueError(
            f"{brief(label)} is both the label and the row id; expected two columns, because a row id names rows "
            "and says nothing about them; nothing was created"
        )


def checked_seed(seed: int | None) -> int | None:
    """A seed as a plain whole number.

    Raises:
        ValueError: If it is negative or a truth value.
        TypeError: If it is no whole number.
    """
    if seed is not None and (as_whole(seed) is None or seed < 0):
        wrong = ValueError if isinstance(seed, int) else TypeError
        raise wrong(f"seed is {brief(seed)}; expected a whole number of at least 0, or None for secure noise")
    return as_whole(seed)


def seal(
    folder: Path,
    *,
    holdout: RowSource | SealableTable,
    training: RowSource | SealableTable | None,
    label: str | None,
    row_id: str | None,
    features: str,
    stratified: str | None,
    choose: Callable[[RowStructure], Mechanism],
    declared: DependenceModel | None,
    most_rows: int,
    equal_rows: bool,
    allow_resealing: bool,
    others: Sequence[HoldoutRecord],
    seed: int | None,
    extensions: Mapping[str, ExtensionSettings],
    classes: Classes | None = None,
    check: Callable[[Sealed], None] = lambda _: None,
) -> Sealed:
    """Seal rows in a new, private folder; the caller removes it if this fails.

    Args:
        folder: Where everything goes.
        holdout: As for `seal_rows`, like `training`, `label`, `row_id`, `most_rows` and `equal_rows`; or a table
            that stays where it is.
        training: See there; beside sealed rows in an engine it may be another table of the engine.
        label: See there.
        row_id: See there.
        features: Whether all columns but the label are public.
        stratified: Column by whose values the table was split; None where chance alone divided the rows.
        choose: From the arrangement of the rows to the mechanism that answers; what it refuses is not sealed.
        declared: How the rows depend on each other, as it was declared.
        most_rows: See there.
        equal_rows: See there.
        allow_resealing: Whether the rows may be sealed in this storage already.
        others: All holdouts that the storage has.
        seed: For simulations only.
        extensions: Settings of extensions by name.
        classes: As for `seal_rows`.
        check: Called before the rows are compared with those of other holdouts, so that a request that fails for
            another reason tells nothing about the comparison.

    Raises:
        HoldoutRejected: If the rows cannot be sealed as they stand, or are sealed already.
        DependenceError: If the dependence does not match the rows.
        Unavailable: If an engine cannot be reached.
    """
    if is_table(training) and not is_table(holdout):
        raise HoldoutRejected(
            "the training rows are a table in an engine, and the sealed rows are not; expected both in one engine, or "
            "training rows in a file or a frame, at best at least as many as are sealed; nothing was created"
        )
    key = StewardKey.create(folder / KEY_FILE)
    wish: dict[str, Any] = {
        "training": training, "label": label, "row_id": row_id, "most_rows": most_rows, "equal_rows": equal_rows,
        "classes": classes,
    }  # fmt: skip
    if is_table(holdout):
        sealing = holdout.sealing(folder, key=key, declared=declared, **wish)
    else:
        sealing = _file_sealing(folder, holdout=holdout, **wish)
    with sealing as rows:
        sealed, structure = rows.facts, rows.structure
        mechanism = choose(structure)
        apart = structure.apart()
        named = [name for name in apart if name not in (label, row_id)]
        whole = structure.whole_groups(named, mechanism.dependence.sorting_columns)
        check_stratified(stratified, columns=sealed.columns, label=label, features=features, mechanism=mechanism)
        configuration = make_configuration(
            folder, sealed, mechanism, key, label=label, row_id=row_id, features=features, stratified=stratified,
            seed=seed, extensions=extensions, whole_groups=whole,
        )  # fmt: skip
        made = Sealed(mechanism, key, configuration, apart, whole)
        check(made)
        same = same_rows(folder, others, rows.content)
        if same and not allow_resealing:
            raise sealed_already(same)
        configuration["sealed_before"] = same
        rows.check_still()
    return made


@contextmanager
def _file_sealing(folder: Path, *, holdout: RowSource, **wish: Any) -> Iterator[SealedRows]:
    sealed = seal_rows(folder, holdout=holdout, **wish)
    with FileStructure(folder, sealed) as structure:
        yield SealedRows(sealed, structure, lambda key: Content.of(folder / HOLDOUT_FILE, sealed.columns, key=key))
