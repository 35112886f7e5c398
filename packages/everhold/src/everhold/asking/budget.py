"""Parts of the budget for named analysts: who may be named, how limits are set, and how they are kept.

One ledger, one transcript and one promise remain: an allotment limits spending and changes no interval. Whether a
question is affordable is decided by what is public, its price at most and what was charged before, so a refusal tells
nothing about the sealed rows, is decided before anybody looks at them, and is not recorded. The steward is an analyst
whose part is the whole. The decision that counts falls inside the ledger's transaction.
"""

from __future__ import annotations

import operator
import secrets
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everhold.arguments import brief
from everhold.display import Display, left_in_words
from everhold.errors import BudgetWarning, EverholdWarning, QueryRejected, warn_caller
from everhold.ledger import EntryDraft, Outcome
from everhold.ledger.allotments import ACT, ANALYST, LONGEST_NAME, MOST, Accounts, Allotment
from everhold.mechanisms import State
from everhold.queries.question import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from everhold.asking.query_executor import QueryExecutor
    from everhold.mechanisms import Mechanism
    from everhold.queries.question import Pricing

__all__ = [
    "SPENT",
    "Allotments",
    "act_of",
    "affordable",
    "allotment_of",
    "checked_limits",
    "checked_name",
    "described",
    "left_to",
    "on_behalf_of",
    "outcome_of_act",
    "part_of",
    "refuse_look_alikes",
    "set_limits",
    "warn_of_last_surprises",
    "warn_of_promises",
    "whole_budget",
]

SPENT = (
    "what is left of the allotment, or of the whole budget, may not pay for the question, so it was refused; "
    "nothing was charged; ask the steward for a larger allotment, or ask something cheaper"
)

_LOOK_ALIKES = str.maketrans(
    "аеорсхуіјѕԁһкмтпгьԛԝ" + "αβγενικορτυχ" + "01",
    "aeopcxyijsdhkmtnrbqw" + "abyevikoptux" + "ol",
)  # Cyrillic, then Greek letters that pass for Latin ones


_WHOLE = Allotment("", questions=MOST, charges=MOST)  # what the steward may spend: the budget itself is the limit


@dataclass(frozen=True, slots=True)
class Allotments(Display):
    """The parts of all analysts.

    Attributes:
        parts: One for each analyst, in the order of their first allotment.
        not_allotted: What is left of the budget beyond all that analysts may still spend, by name.
        acts: The steward's acts in order: sequence, asked_at, analyst, questions, charges.
    """

    parts: Sequence[Allotment]
    not_allotted: Mapping[str, int]
    acts: Sequence[Mapping[str, Any]]

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, analyst: str) -> Allotment:
        return next(part for part in self.parts if part.analyst == analyst)

    def _headline(self) -> str:
        return f"not allotted: {left_in_words(self.not_allotted)}"

    def to_dict(self) -> dict[str, Any]:
        """``{"allotments": [...], "not_allotted": {...}, "acts": [...]}``."""
        return {
            "allotments": self.to_rows(),
            "not_allotted": dict(self.not_allotted),
            "acts": [dict(act) for act in self.acts],
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each analyst: analyst, asked, questions (its limit), charged, charges (its limit)."""
        return [part.to_dict() for part in self.parts]


_FORMULA = ("=", "+", "-", "@")
"""Characters that begin a formula where a table is opened in a spreadsheet."""


def checked_name(analyst: str, *, of: str = "analyst") -> str:
    """An analyst's or a team's name.

    Raises:
        ValueError: If it cannot be used.
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
        raise ValueError(
            f"the {of}'s name {brief(analyst)} cannot be used; expected 1 to {LONGEST_NAME} printable characters "
            "in their normal form, without leading, trailing or double spaces, and in front of a team's name none of "
            "= + - @, which begin formulas; choose a plain name such as 'team-a'"
        )
    return analyst


def on_behalf_of(executor: QueryExecutor, analyst: str) -> QueryExecutor:
    """The executor for an analyst, who can spend no more than their allotment.

    Raises:
        QueryRejected: If there is no allotment of that name.
    """
    allotment_of(executor.ledger.head().accounts, analyst)
    return replace(executor, analyst=analyst)


def whole_budget(executor: QueryExecutor, data: dict[str, Any]) -> dict[str, int]:
    """The initial budget, by name as in `QueryExecutor.remaining`; for an analyst the allotment."""
    if executor.analyst is None:
        return executor.mechanism.remaining(State())
    part = allotment_of(Accounts.from_state(data), executor.analyst)
    return left_to(replace(part, asked=0, charged=0), executor.mechanism, State())


def checked_limits(questions: int, charges: int | None, mechanism: Mechanism) -> tuple[int, int]:
    """Both limits as plain whole numbers; without one, charges pay for as many questions at the planned price.

    Raises:
        ValueError: If they are none.
    """
    most = _limit("questions", questions)
    planned = max(mechanism.quote(State()).charged_at_most, 1)
    return most, min(most * planned, MOST) if charges is None else _limit("charges", charges)


def _limit(what: str, value: int) -> int:
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number <= MOST:
        raise ValueError(f"{what} is {brief(value)}; expected a whole number of at least 0, the most that is allotted")
    return number


def act_of(analyst: str, questions: int, charges: int) -> EntryDraft:
    """A steward's act as an entry of the ledger; no two of them are the same."""
    public = {
        "kind": ACT,
        ANALYST: analyst,
        "questions": questions,
        "charges": charges,
        "act": secrets.token_hex(16),
    }
    return EntryDraft(digest(public), {**public, "shown": f"allotment for {analyst!r}"})


def outcome_of_act() -> Outcome:
    """The ledger's outcome of an act: none."""
    return Outcome({"value": None, "low": None, "high": None, "source": ACT}, 0)


def set_limits(accounts: Accounts, analyst: str, questions: int, charges: int) -> bool:
    """Set the limits of an analyst; returns whether that changes anything.

    Raises:
        QueryRejected: If more was spent already, or the name looks like that of another analyst.
    """
    before = accounts.parts.get(analyst)
    if before is not None and (before.questions, before.charges) == (questions, charges):
        return False
    if before is None:
        refuse_look_alikes(analyst, accounts.parts, of="analyst")
    try:
        accounts.allot(analyst, questions, charges)
    except ValueError as fault:
        raise QueryRejected(f"{fault}; expected limits of at least that much; nothing was changed") from None
    return True


def refuse_look_alikes(name: str, others: Iterable[str], *, of: str) -> None:
    """Refuse a new name that people would take for another one.

    Raises:
        QueryRejected: If there is such a name.
    """
    alike = next((other for other in others if _looks(other) == _looks(name)), None)
    if alike is not None:
        raise QueryRejected(
            f"the name {name!r} looks like that of the {of} {alike!r}; expected a name that cannot be mistaken for "
            "another; choose another name; nothing was changed"
        )


def _looks(name: str) -> str:
    return unicodedata.normalize("NFKC", name.casefold()).translate(_LOOK_ALIKES)


def warn_of_promises(accounts: Accounts, mechanism: Mechanism, state: State) -> None:
    """Warn if analysts were promised more than there is: then it is first come, first served."""
    beyond = _beyond(accounts, mechanism, state)
    missing = ["surprises" if name == "overfits" else name for name, count in beyond.items() if count < 0]
    if missing:
        warn_caller(
            EverholdWarning(
                f"what analysts may still spend adds up to more {' and '.join(missing)} than are left in the budget; "
                "it is first come, first served"
            )
        )


def warn_of_last_surprises(
    accounts: Accounts, analyst: str | None, mechanism: Mechanism, state: State, *, charged: int
) -> None:
    """Warn after surprises that ended, or nearly ended, those of an allotment or of the whole plan.

    Args:
        accounts: After them.
        analyst: Who asked; None for the steward.
        mechanism: The holdout's.
        state: After them.
        charged: What they were charged.

    Warns:
        BudgetWarning: If at most one is left, once for each.
    """
    if mechanism.traits.charged_in != "surprises":
        return
    said = None if analyst is None else _of_allotment(allotment_of(accounts, analyst))
    said = said or _of_plan(mechanism, state, charged=charged)
    if said:
        warn_caller(BudgetWarning(said))


def _of_allotment(part: Allotment) -> str | None:
    left, questions = part.charges - part.charged, part.questions - part.asked
    if left > 1 or questions <= left:
        return None
    unused = f"{questions:,} question{'s' * (questions != 1)}"
    if left:
        return (
            f"One surprise of the allotment of {part.analyst!r} is left for {unused}. Pass a guess that you are sure "
            "of (guess=, --guess), or ask the steward for a larger allotment."
        )
    return (
        f"The last surprise of the allotment of {part.analyst!r} is spent, and {unused} are left that will be refused. "
        "Ask the steward for a larger allotment."
    )


def _of_plan(mechanism: Mechanism, state: State, *, charged: int) -> str | None:
    """Of the planned surprises of the whole, when one or none is left that was there before."""
    left, before = (
        mechanism.remaining(each).get("overfits", 0)
        for each in (state, replace(state, charged=state.charged - charged))
    )
    if left > 1 or before <= left:
        return None
    first = "One planned surprise is left" if left == 1 else "The last planned surprise is spent"
    remedy = "Pass a guess that you are sure of (guess=, --guess), or declare your queries."
    widths = mechanism.outlook(state)
    if not widths or not getattr(mechanism, "endless", False):
        return f"{first}. Queries that are not declared are refused when none is left. {remedy}"
    told = ", ".join(f"{half:.3g} {when}" for when, half in widths.items())
    return f"{first}. Queries are still answered, and each further surprise widens their intervals: {told}. {remedy}"


def _beyond(accounts: Accounts, mechanism: Mechanism, state: State) -> dict[str, int]:
    """Budget left in the whole minus all that analysts may still spend, by name."""
    whole, parts = mechanism.remaining(state), accounts.parts.values()
    owed = {
        "questions": sum(part.questions - part.asked for part in parts),
        "charges": sum(part.charges - part.charged for part in parts),
    }
    return {name: count - owed["questions" if name == "questions" else "charges"] for name, count in whole.items()}


def described(accounts: Accounts, mechanism: Mechanism, state: State, acts: Sequence[Mapping[str, Any]]) -> Allotments:
    """The accounts as people see them."""
    left = {name: max(count, 0) for name, count in _beyond(accounts, mechanism, state).items()}
    return Allotments(tuple(accounts.parts.values()), left, tuple(acts))


def allotment_of(accounts: Accounts, analyst: str) -> Allotment:
    """The allotment of an analyst.

    Raises:
        QueryRejected: If there is none.
    """
    if not isinstance(analyst, str) or analyst not in accounts.parts:
        raise QueryRejected(
            f"there is no allotment for an analyst named {brief(analyst)}; expected the name of an analyst to whom "
            "the steward has allotted a part; nothing was charged; see holdout.allotments()"
        )
    return accounts.parts[analyst]


def left_to(part: Allotment, mechanism: Mechanism, state: State) -> dict[str, int]:
    """Budget left to an analyst, by name: of the allotment, and no more than is left of the whole."""
    charges = part.charges - part.charged
    whole, price = mechanism.remaining(state), mechanism.quote(state)
    questions = part.questions - part.asked if charges or not price.charged_at_most else 0
    if len(whole) == 1 and price.charged_if_confirmed == 1:  # then every answer costs one
        questions = min(questions, charges)
    return {name: min(count, questions if name == "questions" else charges) for name, count in whole.items()}


def part_of(accounts: Accounts, analyst: str | None) -> Allotment:
    """The allotment of an analyst; the steward is an analyst whose allotment is the whole."""
    return _WHOLE if analyst is None else allotment_of(accounts, analyst)


def affordable(state: State, accounts: Accounts, analyst: str | None, count: int, *, pricing: Pricing) -> int:
    """Number of new queries, of so many, that are surely paid for; the next one is refused if it is 0.

    This looks at public state alone, so a refusal tells nothing and needs no look at the sealed rows.
    """
    return min(pricing.sure(state, count), part_of(accounts, analyst).affords(pricing.most))
