"""Parts of the budget for named analysts: who may be named, how limits are set, and how they are kept.

All analysts share one ledger, one transcript and one promise: an allotment limits spending and changes no interval.
Only public facts decide whether a query is refused: its largest price and the charges so far. So a refusal reveals
nothing about sealed rows, and is not recorded. The steward is an analyst whose part is the whole budget. The final
decision is made inside the ledger's transaction.
"""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING

from everhold.arguments import brief
from everhold.display import counted
from everhold.errors import BudgetWarning, QueryRejected, warn_caller
from everhold.ledger.acts import LONGEST_NAME, MOST, Accounts, Allotment
from everhold.mechanisms import Mechanism, State

if TYPE_CHECKING:
    from collections.abc import Iterable


SPENT = (
    "The query was refused and nothing was charged, because the rest of the allotment or of the budget may not pay "
    "for it. Ask the steward for a larger allotment, or ask a cheaper query."
)

_LOOK_ALIKES = str.maketrans(
    "аеорсхуіјѕԁһкмтпгьԛԝ" + "αβγενικορτυχ" + "01",
    "aeopcxyijsdhkmtnrbqw" + "abyevikoptux" + "ol",
)  # Cyrillic, then Greek letters that pass for Latin ones


_WHOLE = Allotment("", queries=MOST, charges=MOST)  # what the steward may spend: the budget itself is the limit


_FORMULA = ("=", "+", "-", "@")
"""Characters that begin a formula where a table is opened in a spreadsheet."""


def checked_name(analyst: str, *, of: str = "analyst") -> str:
    """Return the name of an analyst or team, after checking that it can be used.

    Raises:
        QueryRejected: If the name cannot be used.
    """
    usable = (
        isinstance(analyst, str)
        and 1 <= len(analyst) <= LONGEST_NAME
        and analyst.isprintable()
        and analyst == " ".join(analyst.split())
        and analyst == unicodedata.normalize("NFKC", analyst)
        and not (of == "team" and analyst.startswith(_FORMULA))  # strangers choose it, and it is exported as CSV
    )
    if not usable:
        raise QueryRejected(
            f"The {of}'s name {brief(analyst)} cannot be used. Pass 1 to {LONGEST_NAME} printable characters in "
            "Unicode normal form (NFKC), without leading, trailing or double spaces, such as 'team-a'. A team's "
            "name cannot begin with = + - or @."
        )
    return analyst


def refuse_look_alikes(name: str, others: Iterable[str], *, of: str) -> None:
    """Raise QueryRejected if a new name looks like one of the other names.

    Raises:
        QueryRejected: If there is such a name.
    """
    own = _looks(name)
    alike = next((other for other in others if _looks(other) == own), None)
    if alike is not None:
        raise QueryRejected(f"The name {name!r} looks like that of the {of} {alike!r}. Choose another name.")


def _looks(name: str) -> str:
    return unicodedata.normalize("NFKC", name.casefold()).translate(_LOOK_ALIKES)


def warn_of_last_surprises(
    accounts: Accounts, analyst: str | None, mechanism: Mechanism, state: State, *, charged: int
) -> None:
    """Warn if surprises just charged leave one or none, in the analyst's allotment or in the plan.

    Args:
        accounts: The accounts after the surprises.
        analyst: Name of the analyst who asked; None for the steward.
        mechanism: The mechanism of the holdout.
        state: The state after the surprises.
        charged: Number of surprises just charged.

    Warns: BudgetWarning: If at most one surprise is left, one warning for the allotment and one for the plan.
    """
    if mechanism.traits.charged_in != "surprises":
        return
    said = None if analyst is None else _of_allotment(allotment_of(accounts, analyst))
    said = said or _of_plan(mechanism, state, charged=charged)
    if said:
        warn_caller(BudgetWarning(said))


def _of_allotment(part: Allotment) -> str | None:
    left, queries = part.charges - part.charged, part.queries - part.asked
    if left > 1 or queries <= left:
        return None
    unused = counted(queries, "query")
    if left:
        return (
            f"One surprise of the allotment of {part.analyst!r} is left for {unused}. Pass a guess that you are sure "
            "of (guess=, --guess), or ask the steward for a larger allotment."
        )
    return (
        f"The last surprise of the allotment of {part.analyst!r} is spent, and {unused} "
        f"{'is' if queries == 1 else 'are'} left that will be refused. Ask the steward for a larger allotment."
    )


def _of_plan(mechanism: Mechanism, state: State, *, charged: int) -> str | None:
    """Return the warning that one planned surprise or none is left, or None if no warning is due."""
    left, before = (
        mechanism.remaining(each).get("surprises", 0)
        for each in (state, replace(state, charged=state.charged - charged))
    )
    if left > 1 or before <= left:
        return None
    first = "One planned surprise is left" if left == 1 else "The last planned surprise is spent"
    remedy = "Pass a guess that you are sure of (guess=, --guess), or declare your queries."
    widths = mechanism.outlook(state)
    if not widths or not mechanism.endless:
        return f"{first}. Queries that are not declared are refused when none is left. {remedy}"
    told = ", ".join(f"{half:.3g} {when}" for when, half in widths.items())
    return (
        f"{first}. Queries are still answered, and each further surprise widens their intervals. "
        f"Half-widths are {told}. {remedy}"
    )


def allotment_of(accounts: Accounts, analyst: str) -> Allotment:
    """Return the allotment of a named analyst.

    Raises:
        QueryRejected: If the analyst has no allotment.
    """
    if not isinstance(analyst, str) or analyst not in accounts.parts:
        raise QueryRejected(
            f"There is no allotment for an analyst named {brief(analyst)}. Pass a name from holdout.allotments() "
            "(everhold allotments)."
        )
    return accounts.parts[analyst]


def left_to(part: Allotment, mechanism: Mechanism, state: State) -> dict[str, int]:
    """Return the budget that an analyst can still spend, by name.

    It is at most the budget that the holdout has left.
    """
    charges = part.charges - part.charged
    whole, price = mechanism.remaining(state), mechanism.quote(state)
    queries = part.queries - part.asked if charges or not price.charged_at_most else 0
    if len(whole) == 1 and price.charged_if_confirmed == 1:  # then every answer costs one
        queries = min(queries, charges)
    return {name: min(count, queries if name == "queries" else charges) for name, count in whole.items()}


def part_of(accounts: Accounts, analyst: str | None) -> Allotment:
    """Return the allotment of an analyst, or one for the whole budget if the steward (None) asks."""
    return _WHOLE if analyst is None else allotment_of(accounts, analyst)
