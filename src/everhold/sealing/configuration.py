"""The public facts that bind a holdout: decided at creation, kept in the ledger, read at opening."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.dependence import DependenceModel, Independent, dependence_from_dict
from everhold.errors import (
    DependenceError,
    HoldoutRejected,
    IntegrityError,
    NonAdaptiveWarning,
    SmallHoldoutWarning,
    VacuousGuaranteeWarning,
    warn_caller,
)
from everhold.estimand import FEATURES, PUBLIC
from everhold.ledger.chain import canonical
from everhold.mechanisms import MECHANISMS, Mechanism, State, mechanism_from_dict
from everhold.mechanisms.guess_and_check import planned_overfits
from everhold.planning import best_mechanism, tuned_mechanism
from everhold.planning.inverse import rows_needed_by
from everhold.planning.wish import MOST_ROWS, Wish
from everhold.sealing.storage import is_folder_name
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from everhold.dependence import RowStructure
    from everhold.sealing.files import SealedFiles
    from everhold.sealing.keys import StewardKey

__all__ = [
    "bound_state",
    "check_settings",
    "check_worth",
    "chosen_mechanism",
    "make_configuration",
    "mechanism_from",
    "schema_from",
    "state_from",
    "warn_of_weak_promise",
]

_FEW_ROWS = 100
_SETTINGS = {
    "folder", "rows", "training_rows", "columns", "label", "label_kind", "row_id", "fingerprint",
    "training_fingerprint", "mechanism", "dependence", "public_key", "seed", "features", "label_classes",
}  # fmt: skip
_KEY = re.compile("[0-9a-f]{64}")
_VACUOUS = 0.5  # half the range: an interval of that half-width holds for any mean


def chosen_mechanism(
    mechanism: Mechanism | str | None,
    sealed: SealedFiles,
    *,
    structure: RowStructure,
    queries: int,
    overfits: int | None,
    confidence: float,
    slack: float,
    dependence: DependenceModel | None,
) -> Mechanism:
    """The mechanism that was named, or the best one for the wish, with the dependence bound to these rows.

    Raises:
        DependenceError: If the dependence does not match the rows.
        HoldoutRejected: If a mechanism is given that was planned for another number of rows.
        ValueError: If the wish makes no sense.
    """
    if isinstance(mechanism, Mechanism):
        if MECHANISMS.get(mechanism.name) is not type(mechanism):
            raise HoldoutRejected(
                f"the mechanism {type(mechanism).__name__} is not one that a ledger can name; expected one of "
                f"{', '.join(sorted(MECHANISMS))}; nothing was created"
            )
        if mechanism.rows != sealed.rows:
            raise HoldoutRejected(
                f"the mechanism is planned for {mechanism.rows} rows and the holdout has {sealed.rows}; expected the "
                "same number; tune the mechanism for these rows; nothing was created"
            )
        if dependence is not None and dependence != mechanism.dependence:
            raise HoldoutRejected(
                "the mechanism was planned for another dependence of the rows than the one declared; expected the "
                "same; tune the mechanism with dependence=...; nothing was created"
            )
        return replace(mechanism, dependence=_bound(mechanism.dependence, structure))
    checked = Wish(
        rows=min(sealed.rows, MOST_ROWS), queries=queries, overfits=planned_overfits(overfits, queries),
        confidence=confidence, slack=slack,
    )  # fmt: skip
    wish: dict[str, Any] = {
        "rows": sealed.rows, "queries": checked.queries, "overfits": checked.overfits,
        "confidence": checked.confidence, "slack": checked.slack,
        "dependence": None if dependence is None else _bound(dependence, structure),
    }  # fmt: skip
    if mechanism is not None:
        return tuned_mechanism(mechanism, **wish)
    return best_mechanism(**wish, with_guesses=sealed.training_rows > 0)


def _bound(dependence: DependenceModel, structure: RowStructure) -> DependenceModel:
    if not isinstance(dependence, DependenceModel):
        raise HoldoutRejected(
            f"the dependence is a {type(dependence).__name__}; expected a model such as eh.Groups('patient') or "
            "eh.Independent(); nothing was created"
        )
    try:
        return dependence.bind(structure)
    except DependenceError as reason:
        raise DependenceError(f"{reason.message}; nothing was created", **reason.data) from None


def make_configuration(
    folder: Path,
    sealed: SealedFiles,
    mechanism: Mechanism,
    key: StewardKey,
    *,
    label: str | None,
    row_id: str | None,
    features: str,
    same: Sequence[str],
    seed: int | None,
) -> dict[str, Any]:
    """The public facts that the ledger binds and the certificate shows."""
    return {
        "folder": folder.name,
        "rows": sealed.rows,
        "training_rows": sealed.training_rows,
        "columns": [
            [name, kind.value] for name, kind in sealed.columns.items()
        ],  # pairs: JSON objects lose their order
        "label": label,
        "label_kind": sealed.label_kind,
        "label_classes": None if sealed.label_classes is None else list(sealed.label_classes),
        "row_id": row_id,
        "features": features,
        "fingerprint": sealed.fingerprint,
        "training_fingerprint": sealed.training_fingerprint,
        "mechanism": json.loads(json.dumps(mechanism.to_dict(), default=np.generic.item)),  # without NumPy's integers
        "dependence": mechanism.dependence.to_dict(),
        "public_key": key.public_key,
        "sealed_before": list(same),
        "seed": seed,
    }


def check_settings(configuration: dict[str, Any]) -> None:
    """Check that settings that somebody may have altered have the form in which they were written.

    Raises:
        IntegrityError: If not. Their content is checked where the holdout is opened, by `state_from`.
    """
    folder, mechanism = configuration.get("folder"), configuration.get("mechanism")
    whole = (
        configuration.keys() >= _SETTINGS
        and isinstance(folder, str)
        and is_folder_name(folder)
        and _KEY.fullmatch(str(configuration["public_key"])) is not None
        and isinstance(mechanism, dict)
        and mechanism.keys() >= {"mechanism", "queries", "confidence"}
    )
    if not whole:
        raise IntegrityError(
            "the recorded settings of the holdout are not in the form in which everhold wrote them; expected an "
            "unaltered ledger; nothing was answered or charged; verify the ledger and restore a backup"
        )


def mechanism_from(configuration: dict[str, Any]) -> Mechanism:
    """The mechanism as it was at creation."""
    return mechanism_from_dict(configuration["mechanism"], dependence_from_dict(configuration["dependence"]))


def schema_from(configuration: dict[str, Any]) -> Schema:
    """What an analyst may know about the rows.

    Raises:
        IntegrityError: If it is not recorded whether the features are public: nobody could say what is promised.
    """
    if configuration.get("features") not in FEATURES:
        raise IntegrityError(
            "the recorded settings do not say whether the features are sealed or public; expected an unaltered ledger; "
            "nothing was charged; verify the ledger"
        )
    return Schema(
        rows=configuration["rows"],
        training_rows=configuration["training_rows"],
        columns={name: ColumnKind(kind) for name, kind in configuration["columns"]},
        label=configuration["label"],
        label_kind=configuration["label_kind"],
        row_id=configuration["row_id"],
        features_public=configuration["features"] == PUBLIC,
        classes=None if (classes := configuration["label_classes"]) is None else tuple(classes),
    )


def check_worth(mechanism: Mechanism, *, allow_vacuous: bool) -> None:
    """Refuse a promise that says nothing, unless it is asked for.

    Raises:
        HoldoutRejected: If the radius is half the range or more. Nothing was created.
    """
    radius = mechanism.promise().radius
    if radius < _VACUOUS or allow_vacuous:
        return
    needed = _rows_needed(mechanism)
    if needed is None:
        advice = "seal more rows"
    elif needed > mechanism.rows:
        advice = f"seal at least {needed:,} rows for this plan"
    else:
        advice = f"let the mechanism be tuned with mechanism={mechanism.name!r}"
    raise HoldoutRejected(
        f"the radius {radius:.2f} is half the range or more and promises nothing; expected one below {_VACUOUS:g}; "
        f"{advice}, plan for fewer questions or overfits, or say allow_vacuous=True (--allow-vacuous); nothing was "
        "created",
        radius=radius,
        rows=mechanism.rows,
        rows_needed=needed,
    )


def _rows_needed(mechanism: Mechanism) -> int | None:
    """The rows with which the mechanism, tuned for the same plan, promises something; None where nobody can say."""
    if not isinstance(mechanism.dependence, Independent):  # bound to these rows
        return None
    planned = mechanism.parameters()
    wish = Wish(
        rows=mechanism.rows, queries=mechanism.queries, confidence=mechanism.confidence,
        overfits=planned_overfits(planned.get("overfits"), mechanism.queries), slack=planned.get("slack", 0.0),
    )  # fmt: skip
    return rows_needed_by(mechanism.name, wish, math.nextafter(_VACUOUS, 0.0))


def warn_of_weak_promise(mechanism: Mechanism) -> None:
    """Say what a newcomer would regret not to have been told."""
    radius = mechanism.promise().radius
    if mechanism.rows < _FEW_ROWS:
        warn_caller(SmallHoldoutWarning(f"only {mechanism.rows} rows are sealed; expect wide intervals"))
    if radius >= _VACUOUS:
        warn_caller(
            VacuousGuaranteeWarning(
                f"the radius {radius:.2f} is half the range or more and promises nothing; seal more rows, or plan for "
                "fewer questions or overfits"
            )
        )
    if not mechanism.adaptive:
        warn_caller(
            NonAdaptiveWarning(
                f"{mechanism.name} promises nothing to analysts whose questions depend on earlier answers; choose "
                "another mechanism unless all questions are fixed in advance"
            )
        )


def bound_state(state: State, configuration: dict[str, Any]) -> dict[str, Any]:
    """A mechanism's state as the ledger keeps it: under the steward's seal, and bound to its configuration."""
    return {"configuration": _digest(configuration), "mechanism": state.to_dict()}


def state_from(data: dict[str, Any], configuration: dict[str, Any]) -> State:
    """The inverse of `bound_state`.

    Raises:
        IntegrityError: If the state belongs to another configuration, as after somebody raised a recorded budget.
    """
    if data.get("configuration") != _digest(configuration):
        raise IntegrityError(
            "the recorded settings of the holdout are not the ones it was created with; expected an unaltered ledger; "
            "nothing was charged; verify the ledger"
        )
    return State.from_dict(data["mechanism"])


def _digest(configuration: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(configuration).encode()).hexdigest()
