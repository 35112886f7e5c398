"""Which mechanism answers for rows that are to be sealed, and whether its promise is worth having."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from everhold.dependence import DependenceModel, Independent, require_listed
from everhold.errors import (
    DependenceError,
    HoldoutRejected,
    NonAdaptiveWarning,
    SmallHoldoutWarning,
    VacuousGuaranteeWarning,
    warn_caller,
)
from everhold.mechanisms import MECHANISMS, Mechanism
from everhold.mechanisms.guess_and_check import planned_overfits
from everhold.planning.inverse import rows_needed_by
from everhold.planning.widths import few_rows, least_vacuous, vacuous_in_words
from everhold.planning.wish import MOST_ROWS, USUAL_VALUE, Wish, best_mechanism, tuned_mechanism

if TYPE_CHECKING:
    from everhold.dependence import RowStructure

__all__ = ["check_worth", "chosen_mechanism", "warn_of_weak_promise"]

_FEW_ROWS = 100
_VACUOUS = 0.5  # half the range: an interval of that half-width holds for any mean


def chosen_mechanism(
    mechanism: Mechanism | str | None,
    structure: RowStructure,
    *,
    queries: int,
    overfits: int | None,
    confidence: float,
    slack: float,
    dependence: DependenceModel | None,
) -> Mechanism:
    """The mechanism that was named, or the best one for the wish, with the dependence bound to the rows to be sealed.

    Raises:
        DependenceError: If the dependence does not match the rows.
        HoldoutRejected: If a mechanism is given that was planned for another number of rows.
        ValueError: If the wish is not valid.
    """
    if isinstance(mechanism, Mechanism):
        if MECHANISMS.get(mechanism.name) is not type(mechanism):
            raise HoldoutRejected(
                f"the mechanism {type(mechanism).__name__} is not one that a ledger can name; expected one of "
                f"{', '.join(sorted(MECHANISMS))}; nothing was created"
            )
        if mechanism.rows != structure.rows:
            raise HoldoutRejected(
                f"the mechanism is planned for {mechanism.rows} rows and the holdout has {structure.rows}; expected "
                "the same number; tune the mechanism for these rows; nothing was created"
            )
        if dependence is not None and dependence != mechanism.dependence:
            raise HoldoutRejected(
                "the mechanism was planned for another dependence of the rows than the one declared; expected the "
                "same; tune the mechanism with dependence=...; nothing was created"
            )
        return replace(mechanism, dependence=_bound(mechanism.dependence, structure))
    checked = Wish(
        rows=min(structure.rows, MOST_ROWS), queries=queries, overfits=planned_overfits(overfits, queries),
        confidence=confidence, slack=slack,
    )  # fmt: skip
    wish: dict[str, Any] = {
        "rows": structure.rows, "queries": checked.queries, "overfits": checked.overfits,
        "confidence": checked.confidence, "slack": checked.slack,
        "dependence": None if dependence is None else _bound(dependence, structure),
        "training_rows": structure.training_rows,
    }  # fmt: skip
    if mechanism is not None:
        return tuned_mechanism(mechanism, **wish)
    return best_mechanism(**wish, with_guesses=structure.training_rows > 0)


def _bound(dependence: DependenceModel, structure: RowStructure) -> DependenceModel:
    if not isinstance(dependence, DependenceModel):
        raise HoldoutRejected(
            f"the dependence is a {type(dependence).__name__}; expected a model such as eh.Groups('patient') or "
            "eh.Independent(); nothing was created"
        )
    try:
        require_listed(dependence)
        return dependence.bind(structure)
    except DependenceError as reason:
        raise DependenceError(f"{reason.message}; nothing was created", **reason.data) from None


def check_worth(mechanism: Mechanism, *, allow_vacuous: bool) -> None:
    """Refuse a promise that says nothing, not even to an analyst whose guesses are honest, unless it is asked for.

    Raises:
        HoldoutRejected: If the radius is half the range or more, and an honest guess at `USUAL_VALUE` is answered no
            better than with such a radius. Nothing was created.
    """
    radius, expected = mechanism.promise().radius, mechanism.expected_radius(USUAL_VALUE)
    if radius < _VACUOUS or expected < least_vacuous(USUAL_VALUE) or allow_vacuous:
        return
    needed = _rows_needed(mechanism)
    if needed is None:
        advice = "seal more rows"
    elif needed > mechanism.rows:
        advice = f"seal at least {needed:,} rows for this plan"
    else:
        advice = f"let the mechanism be tuned with mechanism={mechanism.name!r}"
    honest = ", even if all guesses hold" if mechanism.needs_guess else ""
    raise HoldoutRejected(
        f"the radius {radius:.2f} is half the range or more and promises nothing{honest}; expected one below "
        f"{_VACUOUS:g}; {advice}, plan for fewer questions or overfits, or say allow_vacuous=True (--allow-vacuous); "
        "nothing was created",
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
        training_rows=planned.get("training_rows", 0),
    )  # fmt: skip
    return rows_needed_by(mechanism.name, wish, math.nextafter(least_vacuous(USUAL_VALUE), 0.0), at=USUAL_VALUE)


def warn_of_weak_promise(mechanism: Mechanism) -> None:
    """Say what a newcomer would regret not to have been told."""
    if mechanism.rows < _FEW_ROWS:
        warn_caller(SmallHoldoutWarning(f"only {mechanism.rows} rows are sealed; {few_rows(mechanism)}"))
    if worst := vacuous_in_words(mechanism):
        warn_caller(VacuousGuaranteeWarning(f"{worst}; seal more rows, or plan for fewer questions or overfits"))
    if not mechanism.adaptive:
        warn_caller(
            NonAdaptiveWarning(
                f"{mechanism.name} promises nothing to analysts whose questions depend on earlier answers; choose "
                "another mechanism unless all questions are fixed in advance"
            )
        )
