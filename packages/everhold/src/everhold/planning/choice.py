"""Choice of the mechanism for rows that are to be sealed, and a check that its promise is worth having."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from everhold.dependence import require_listed
from everhold.display import at_most
from everhold.errors import (
    DependenceError,
    HoldoutRejected,
    NonAdaptiveWarning,
    SmallHoldoutWarning,
    VacuousGuaranteeWarning,
    warn_caller,
)
from everhold.mechanisms import MECHANISMS, GuessAndCheck, Mechanism, Silent
from everhold.mechanisms.checks_guesses import planned_surprises
from everhold.planning.inverse import rows_needed_by
from everhold.planning.request import USUAL_VALUE, PlanRequest, best_mechanism, tuned_for, tuned_mechanism
from everhold.planning.widths import few_rows, least_vacuous, sealed_units, vacuous_in_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from everhold.dependence import DependenceModel, RowStructure

FEWER_QUERIES = (300, 100, 30, 10, 3, 1)
"""Numbers of queries that are tried where rows are worth too little for a plan."""

_GUESSING, _SILENT = GuessAndCheck.name, Silent.name
_FEW_ROWS = 100
_VACUOUS = 0.5  # half the range: an interval of that half-width holds for any mean


def chosen_mechanism(
    name: str | None, request: PlanRequest, structure: RowStructure, dependence: DependenceModel | None
) -> Mechanism:
    """The named mechanism, or the best one for the request, with the dependence bound to the rows to be sealed.

    Raises:
        DependenceError: If the dependence does not match the rows.
        ValueError: If the request is not valid for it.
    """
    if dependence is not None:
        request = replace(request, dependence=_bound(dependence, structure))
    return best_mechanism(request) if name is None else tuned_mechanism(name, request)


def bound_mechanism(mechanism: Mechanism, structure: RowStructure, dependence: DependenceModel | None) -> Mechanism:
    """A planned mechanism, with its dependence bound to the rows to be sealed.

    Raises:
        DependenceError: If the dependence does not match the rows.
        HoldoutRejected: If it was planned for another number of rows, or another dependence than is declared.
    """
    if MECHANISMS.get(mechanism.name) is not type(mechanism):
        raise HoldoutRejected(
            f"the mechanism {type(mechanism).__name__} is not one that a ledger can name; expected one of "
            f"{', '.join(sorted(MECHANISMS))}"
        )
    if mechanism.rows != structure.rows:
        raise HoldoutRejected(
            f"the mechanism is planned for {mechanism.rows} rows and the holdout has {structure.rows}; expected the "
            "same number; tune the mechanism for these rows"
        )
    if dependence is not None and dependence != mechanism.dependence:
        raise HoldoutRejected(
            "the mechanism was planned for another dependence of the rows than the one declared; expected the same; "
            "tune the mechanism with dependence=..."
        )
    return replace(mechanism, dependence=_bound(mechanism.dependence, structure))


def _bound(dependence: DependenceModel, structure: RowStructure) -> DependenceModel:
    try:
        require_listed(dependence)
        return dependence.bind(structure)
    except DependenceError as reason:
        raise DependenceError(f"{reason.message}; nothing was created", **reason.data) from None


def check_worth(mechanism: Mechanism, *, allow_vacuous: bool, alike: float | None = None) -> None:
    """Refuse a promise that says nothing, not even to an analyst whose guesses are honest, unless it is asked for.

    Args:
        mechanism: The mechanism, bound to the rows.
        allow_vacuous: Whether it is asked for.
        alike: As for `Mechanism.expected_radius`.

    Raises:
        HoldoutRejected: If the radius is half the range or more, and an honest guess at `USUAL_VALUE` is answered no
            better than with such a radius by the procedure in force. Nothing was created.
    """
    if allow_vacuous or is_worth(mechanism, alike):
        return
    radius, expected = mechanism.promise().radius, mechanism.expected_radius(USUAL_VALUE, alike)
    allowed = "eh.Planning(allow_vacuous=True) (--allow-vacuous)"
    ways = [*_other_plans(mechanism, alike), _more_rows(mechanism, alike), allowed]
    guesses = " even if all guesses hold," if mechanism.traits.needs_guess else ""
    raise HoldoutRejected(
        f"{mechanism.name} planned for queries={mechanism.queries} promises nothing:{guesses} answers around "
        f"{USUAL_VALUE:g} are expected within ±{expected:.2f}, and the guaranteed radius is {radius:.2f}, half the "
        f"range or more; choose one of: {'; '.join(f'({place}) {way}' for place, way in enumerate(ways, 1))}",
        radius=radius,
        expected=expected,
        rows=mechanism.rows,
        rows_needed=_rows_needed(mechanism, alike),
    )


def is_worth(mechanism: Mechanism, alike: float | None) -> bool:
    """True if the guaranteed radius says something, or what is expected of honest guesses does."""
    if mechanism.promise().radius < _VACUOUS:
        return True
    return mechanism.expected_radius(USUAL_VALUE, alike) < least_vacuous(USUAL_VALUE)


def _other_plans(mechanism: Mechanism, alike: float | None) -> Iterator[str]:
    """Calls that seal the same rows; every one of them was tried on their number and their dependence."""
    fewer = [count for count in FEWER_QUERIES if count < mechanism.queries]
    tried: list[tuple[str, Sequence[int], str]] = [(mechanism.name, fewer, "")]
    if mechanism.name != _GUESSING:
        tried.append((_GUESSING, [mechanism.queries, *fewer], "with a guess of your own for every query"))
    if not mechanism.traits.only_silent:
        tried.append((_SILENT, [mechanism.queries, *fewer], "nothing is told before the study is unsealed"))
    for name, counts, how in tried:
        worth = (made for count in counts if (made := _planned_anew(mechanism, name, count)) and is_worth(made, alike))
        if (made := next(worth, None)) is not None:
            said = f"around {USUAL_VALUE:g} within ±{at_most(made.expected_radius(USUAL_VALUE, alike))}"
            requested = {"queries": made.queries, **_surprises_of(made)}
            python = "".join(f", {each}={number}" for each, number in requested.items())
            shell = "".join(f" --{each} {number}" for each, number in requested.items())
            call = f"mechanism={name!r}{python} (--mechanism {name}{shell})"
            yield f"{call}, {', '.join(filter(None, (how, said)))}"


def _planned_anew(mechanism: Mechanism, name: str, queries: int) -> Mechanism | None:
    """Another plan for the same rows; None where the mechanism cannot serve them."""
    request = _request_of(mechanism).with_queries(queries)
    made = tuned_for(name, request)
    return None if isinstance(made, str) else made


def _surprises_of(mechanism: Mechanism) -> dict[str, int]:
    """The number of surprises, where it is not the one that is planned by default."""
    surprises = mechanism.parameters().get("surprises")
    return {} if surprises in (None, planned_surprises(None, mechanism.queries)) else {"surprises": surprises}


def _request_of(mechanism: Mechanism) -> PlanRequest:
    planned = mechanism.parameters()
    return PlanRequest(
        rows=mechanism.rows, queries=mechanism.queries, confidence=mechanism.confidence,
        surprises=planned_surprises(planned.get("surprises"), mechanism.queries), slack=planned.get("slack", 0.0),
        training_rows=planned.get("training_rows"), dependence=mechanism.dependence,
    )  # fmt: skip


def _more_rows(mechanism: Mechanism, alike: float | None) -> str:
    """Number of further rows or groups that have to be sealed for this plan."""
    needed, dependence = _rows_needed(mechanism, alike), mechanism.dependence
    if dependence.in_groups:
        if needed is None:
            return "seal more groups, and train on more of them"
        groups = sum(number for _, number in dependence.unit_counts)
        return f"seal more groups, at least {math.ceil(groups * needed / mechanism.rows):,} like these"
    if needed is None:
        return "seal more rows"
    if needed > mechanism.rows:
        return f"seal at least {needed:,} rows for this plan"
    return f"let the mechanism be tuned with mechanism={mechanism.name!r}"


def _rows_needed(mechanism: Mechanism, alike: float | None) -> int | None:
    """The rows with which the mechanism, tuned for the same plan, promises something; None where it is unknown.

    Rows come in groups like those of the sealed rows, where there are groups. Other models are bound to these rows.
    """
    if not (mechanism.dependence.independent or mechanism.dependence.in_groups):
        return None
    request = replace(_request_of(mechanism), alike=alike)
    return rows_needed_by(mechanism.name, request, math.nextafter(least_vacuous(USUAL_VALUE), 0.0), at=USUAL_VALUE)


def warn_of_weak_promise(mechanism: Mechanism, alike: float | None = None) -> None:
    """Say what a newcomer would regret not to have been told; `alike` is as for `Mechanism.expected_radius`."""
    if mechanism.rows < _FEW_ROWS:
        warn_caller(SmallHoldoutWarning(f"only {mechanism.rows} rows are sealed; {few_rows(mechanism, alike)}"))
    if worst := vacuous_in_words(mechanism, alike):
        more = sealed_units(mechanism.dependence)
        warn_caller(VacuousGuaranteeWarning(f"{worst}; seal more {more}, or plan for fewer queries or surprises"))
    if not mechanism.traits.adaptive:
        warn_caller(
            NonAdaptiveWarning(
                f"{mechanism.name} promises nothing to analysts whose queries depend on earlier answers; choose "
                "another mechanism unless all queries are fixed in advance"
            )
        )
