"""Public settings of a holdout: fixed at creation, bound by the ledger, read at opening."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from everhold.dependence import dependence_from_dict
from everhold.errors import IntegrityError
from everhold.estimand import FEATURES, PUBLIC
from everhold.mechanisms import Mechanism, State, mechanism_from_dict
from everhold.sealing.storage import KEY_FILE, StewardKey, is_folder_name
from everhold.strict_json import digest
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind
from everhold.values.missing import REFUSE, MissingRule, missing_rules, read_rules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from everhold.ledger import HoldoutRecord, LedgerStore
    from everhold.sealing.intake.request import SealRequest

DEALT = "dealt"
"""Setting of a part of dealt rows: of which whole, which part of how many, and the fingerprints of all parts."""

ALIKE = "alike"
"""Entry of a holdout with groups: how alike rows of one group are in the label, on the training rows."""

GROWS = "grows"
"""Entry of a holdout that keeps a part of the probability of failure for rows that arrive."""

FAMILIES_GROW = "families_grow"
"""Rows sealed first in a holdout whose declared families hold at all numbers of rows at once (S14)."""

LARGEST_GROUP = "largest_group"
"""Rows that no group of such a holdout may exceed, so that bets on groups hold at all sizes (S14)."""

WARNED = "warned"
"""Setting: what was warned of when the rows were sealed, in words; public, as it follows from the training rows."""

INDEPENDENT = "independent"
"""Setting: columns that the steward says neither group nor order the rows. Each with what the training rows are worth
otherwise, None where they do not contradict it, and their number."""

LACKING = "lacking"
"""Setting: how many training rows lack a value, by column, where some do."""

MISSING = "missing"
"""Setting: what the steward says of missing values, and what follows for each column that has a rule."""

_SETTINGS = {
    "folder", "rows", "training_rows", "columns", "label", "label_kind", "row_id", "fingerprint",
    "training_fingerprint", "mechanism", "dependence", "public_key", "seed", "features", "label_classes",
}  # fmt: skip
_SOMETIMES = {
    "sealed_before", "stratified", "engine", "training_table", "categories", "whole_groups", ALIKE, DEALT,
    GROWS, FAMILIES_GROW, LARGEST_GROUP, INDEPENDENT, LACKING, MISSING, WARNED,
}  # fmt: skip
_OF_ENGINE = ("kind", "table", "snapshot")
_KEY = re.compile("[0-9a-f]{64}")


Categories: TypeAlias = "dict[str, list[str | int | float | bool]]"


@dataclass(frozen=True, slots=True)
class SealedFiles:
    """Public facts about the files that were written at sealing.

    Attributes:
        rows: Number of sealed rows.
        training_rows: Number of rows in the training file; 0 without a training set.
        columns: Kind of each column, by name.
        label_kind: ``"binary"``, ``"number"`` or ``"string"``. None if the holdout has no label.
        label_classes: The classes that a prediction may name; see `everhold.values.base.Schema.classes`.
        fingerprint: SHA-256 of the file of sealed rows. For a table in an engine: its `keyed_fingerprint`.
        training_fingerprint: SHA-256 of the training file. None if there are no training rows in a file.
        engine: Public facts of the engine in which the sealed rows stay; None where they are in a file.
        training_table: Public facts of the engine's table with all training rows, and the number of rows. The training
            file then has some of these rows. None if all training rows are in the training file.
        categories: Categories of the categorical columns of the training rows.
    """

    rows: int
    training_rows: int
    columns: dict[str, ColumnKind]
    label_kind: str | None
    label_classes: tuple[str | float, ...] | None
    fingerprint: str
    training_fingerprint: str | None
    engine: dict[str, Any] | None = None
    training_table: dict[str, Any] | None = None
    categories: Categories = field(default_factory=dict)

    @property
    def guess_rows(self) -> int:
        """Number of all training rows, in the training file or in an engine's table."""
        return self.training_rows if self.training_table is None else int(self.training_table["rows"])


def name_the_whole(parts: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Write the list of all parts of a dealt table, and its digest, into the settings of each part.

    Args:
        parts: Settings of each part, by the name of its holdout.
    """
    every = [[name, made["rows"], made["fingerprint"]] for name, made in parts]
    for _, made in parts:
        if DEALT in made:
            made[DEALT] |= {"whole": digest_of_parts(every), "all": every}


def digest_of_parts(parts: Sequence[Sequence[Any]]) -> str:
    """Return a SHA-256 that identifies a dealt table by the name, rows and fingerprint of each part."""
    return digest([list(part) for part in parts])


def make_configuration(
    folder: Path,
    sealed: SealedFiles,
    mechanism: Mechanism,
    key: StewardKey,
    request: SealRequest,
    *,
    whole_groups: Sequence[str],
    lacking: tuple[frozenset[str], frozenset[str]],
) -> dict[str, Any]:
    """Return the public settings of a holdout, to which the ledger is bound and which certificates show.

    Raises:
        HoldoutRejected: If a rule for missing values does not fit its column. Nothing was created.
    """
    facts: dict[str, Any] = {name: settings.recorded(mechanism) for name, settings in request.extensions.items()}
    if request.dealt is not None:
        facts[DEALT] = dict(request.dealt)
    if request.rows.stratified is not None:
        facts["stratified"] = request.rows.stratified
    if request.rows.independent:
        facts[INDEPENDENT] = [[name, None, 0] for name in request.rows.independent]  # until training rows were tested
    if sealed.engine is not None:
        facts["engine"] = dict(sealed.engine)
    if sealed.training_table is not None:
        facts["training_table"] = dict(sealed.training_table)
    if sealed.categories:
        facts["categories"] = dict(sealed.categories)
    if whole_groups:
        facts["whole_groups"] = list(whole_groups)
    usable = usable_columns(sealed.columns, row_id=request.rows.row_id)
    sealed_lack, training_lack = lacking
    declared = request.rows.missing
    rules = missing_rules(declared, usable, lacking=sealed_lack | training_lack, unseen=sealed_lack - training_lack)
    if rules or declared != REFUSE.how:
        facts[MISSING] = [declared, {name: rule.to_list() for name, rule in rules.items()}]
    return {
        "folder": folder.name,
        "rows": sealed.rows,
        "training_rows": sealed.training_rows,
        "columns": [
            [name, kind.value] for name, kind in sealed.columns.items()
        ],  # pairs: JSON objects lose their order
        "label": request.label,
        "label_kind": sealed.label_kind,
        "label_classes": None if sealed.label_classes is None else list(sealed.label_classes),
        "row_id": request.rows.row_id,
        "features": request.rows.features,
        "fingerprint": sealed.fingerprint,
        "training_fingerprint": sealed.training_fingerprint,
        "mechanism": json.loads(json.dumps(mechanism.to_dict(), default=np.generic.item)),  # without NumPy's integers
        "dependence": mechanism.dependence.to_dict(),
        "public_key": key.public_key,
        "sealed_before": [],  # until the rows were compared
        "seed": request.seed,
        **facts,
    }


def check_settings(configuration: dict[str, Any]) -> None:
    """Check that settings read from storage have the form in which everhold writes them.

    Raises:
        IntegrityError: If a setting has another form. What the settings say is checked by `State.of` when the holdout
            is opened.
    """
    folder, mechanism = configuration.get("folder"), configuration.get("mechanism")
    whole = (
        configuration.keys() >= _SETTINGS
        and isinstance(folder, str)
        and is_folder_name(folder)
        and _KEY.fullmatch(str(configuration["public_key"])) is not None
        and isinstance(mechanism, dict)
        and mechanism.keys() >= {"mechanism", "queries", "confidence"}
        and isinstance(configuration.get("engine", {}), dict)
        and isinstance(configuration.get("categories", {}), dict)
        and ("training_table" not in configuration or _is_table(configuration["training_table"]))
    )
    if not whole:
        raise IntegrityError(
            "The ledger's record of the holdout's settings was altered or is damaged. Run "
            "'everhold ledger verify' and restore a backup."
        )


def _is_table(facts: object) -> bool:
    """Return whether public facts of training rows have the name of a table and its number of rows."""
    return isinstance(facts, dict) and isinstance(facts.get("table"), str) and isinstance(facts.get("rows"), int)


def mechanism_from(configuration: dict[str, Any]) -> Mechanism:
    """Return the mechanism that is recorded in the settings of a holdout.

    Raises:
        IntegrityError: If this version of everhold does not know its parameters, so that its promise could not be kept.
    """
    try:
        return mechanism_from_dict(configuration["mechanism"], dependence_from_dict(configuration["dependence"]))
    except ValueError as reason:
        raise IntegrityError(
            f"The recorded mechanism cannot be continued: {reason}. Open the holdout with "
            "the version of everhold that created it, or seal new rows."
        ) from None


def schema_from(configuration: dict[str, Any]) -> Schema:
    """Return the public facts about the rows, such as columns and types, as an analyst sees them.

    Raises:
        IntegrityError: If it is not recorded whether the features are public: the promise would be unclear.
    """
    if configuration.get("features") not in FEATURES:
        raise IntegrityError(
            "The ledger does not record whether the features are sealed or public. Run "
            "'everhold ledger verify' and restore a backup."
        )
    named = ("rows", "training_rows", "label", "label_kind", "row_id")
    return Schema(
        **{name: configuration[name] for name in named},
        columns={name: ColumnKind(kind) for name, kind in configuration["columns"]},
        features_public=configuration["features"] == PUBLIC,
        classes=None if (classes := configuration["label_classes"]) is None else tuple(classes),
        categories={name: tuple(values) for name, values in configuration.get("categories", {}).items()},
        stratified=configuration.get("stratified"),
        whole_groups=tuple(map(str, configuration.get("whole_groups", ()))),
        independent=tuple(name for name, *_ in configuration.get(INDEPENDENT, ())),
        missing=rules_of(configuration),
    )


def assumed_independent(rows: Mapping[str, Any], dependence: Mapping[str, Any]) -> list[str]:
    """Return, for each column declared independent, the beginning of a sentence with the steward's assumption.

    Args:
        rows: The settings of a holdout, or a certificate's facts about the rows.
        dependence: What is declared about the rows.
    """
    are = "independent" if dependence.get("kind") == "independent" else "no more dependent than is declared"
    return [
        f"rows with equal or neighbouring values of {column!r} are taken to be {are}"
        + ("" if worth is None else f", though the {count:,} training rows are worth about {worth:,} if they are not")
        for column, worth, count in rows.get(INDEPENDENT, ())
    ]


def rules_of(configuration: Mapping[str, Any]) -> dict[str, MissingRule]:
    """Return the rule for missing values of each column that has one."""
    return read_rules(configuration.get(MISSING, [None, {}])[1])


def usable_columns(columns: Mapping[str, ColumnKind], *, row_id: str | None) -> dict[str, ColumnKind]:
    """Return the columns that an expression may read, with their kinds."""
    return {name: kind for name, kind in columns.items() if name != row_id and kind is not ColumnKind.OTHER}


def recorded_extensions(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the extensions that are recorded in the settings of a holdout."""
    return {name: configuration[name] for name in configuration.keys() - _SETTINGS - _SOMETIMES}


def public_facts(configuration: Mapping[str, Any]) -> dict[str, str | None] | None:
    """Return kind, table and snapshot of the engine in which the sealed rows stay, or None if the rows are in a file.

    The address of the engine is left out, because only the steward may know it.
    """
    facts = configuration.get("engine")
    if facts is None:
        return None
    arrives = {name: facts[name] for name in ("arrived", "until") if name in facts}
    return {name: facts.get(name) for name in _OF_ENGINE} | arrives


def drawn_from_rows(configuration: Mapping[str, Any]) -> int | None:
    """Return the number of training rows in an engine's table if the training file has only some of them, else None."""
    rows = configuration.get("training_table", {}).get("rows", 0)
    return int(rows) if rows > configuration["training_rows"] else None


def listed_facts(store: LedgerStore, record: HoldoutRecord, rows: Path) -> dict[str, Any]:
    """Return a holdout's line in a list of all. No sealed file is opened.

    The seals are checked if the steward's key can be read; else the line has what the database says.

    Args:
        store: The open ledger.
        record: The record of the holdout.
        rows: Folder with the private folders of the holdouts.

    Raises:
        IntegrityError: If its settings, its name or its counts were altered.
        AuthError: If the key is another one, or is open to other users.
    """
    configuration = record.configuration
    check_settings(configuration)
    mechanism, path = configuration["mechanism"], rows / configuration["folder"] / KEY_FILE
    if os.access(path, os.R_OK):
        head = store.of(record, StewardKey.load(path, public_key=configuration["public_key"]).seal_key).head()
        State.of(head.state, record.settings)
    else:
        head = store.head(record.id)
    return {
        "name": record.name,
        **{name: configuration[name] for name in ("rows", "training_rows")},
        **{name: mechanism[name] for name in ("mechanism", "queries", "confidence")},
        "asked": head.asked,
        "charged": head.charged,
        "created": record.created,
    }
