"""What a purchase is: a question that is answered by one draw of its own, and paid for from one budget."""

from __future__ import annotations

import hashlib
import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from everhold.answers import estimand_in_words
from everhold.arguments import as_float, brief, is_text
from everhold.display import Display
from everhold.errors import QueryRejected
from everhold.ledger.chain import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everhold.mechanisms import PrivacyBudget, State
    from everhold.privacy.noise import Noise
    from everhold.questions.preparation import Preparation
    from everhold.sealing.table import StoredRows
    from everhold.values.base import BoundQuery

__all__ = [
    "Drawn", "Paid", "Price", "PricedQuery", "Purchase", "as_float", "brief", "checked_function_name", "digest",
    "named", "whole_price",
]  # fmt: skip

Seen = TypeVar("Seen")
Result = TypeVar("Result", bound=Display, covariant=True)

_MOST_PRICE = 10**15
_LONGEST_NAME = 1_000


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a mechanism drew.

    Attributes:
        state: The state after it.
        answer: For the ledger, plain JSON data: value, low, high, source, and ``within`` where it has a meaning.
        charged: Credits.
    """

    state: State
    answer: dict[str, Any]
    charged: int

    @classmethod
    def refused(cls, state: State) -> Drawn:
        """Nothing, because the budget is spent."""
        nothing = {"value": None, "low": None, "high": None, "source": "refused", "within": None}
        return cls(state, nothing, 0)


@dataclass(frozen=True, slots=True)
class Price:
    """What a purchase would cost and how sharp it would be.

    Attributes:
        charged: Credits.
        within: Its regret or error, in the question's units.
    """

    charged: int
    within: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid(Display):
    """What every result says beside its own numbers.

    Attributes:
        charged: Credits that it cost; 0 for a refusal and a repeated question.
        remaining: What is left of the budget, by name.
        question: SHA-256 of the question.
        repeated: Whether it had been answered before.
        confidence: Probability with which all statements of the holdout hold together.
        about: What it is about, where that is not the population: labels drawn anew on these very rows.
    """

    charged: int
    remaining: Mapping[str, int]
    question: str
    repeated: bool
    confidence: float
    about: str | None = None

    def payment(self) -> dict[str, Any]:
        """``{"charged", "remaining", "question"}``, the last part of every `to_dict`; and ``"about"`` if it has one."""
        about = {} if self.about is None else {"about": self.about}
        return {"charged": self.charged, "remaining": dict(self.remaining), "question": self.question, **about}

    @abstractmethod
    def _found(self) -> str | None:
        """What was found, in a few words; None if the question was refused."""

    @abstractmethod
    def _meaning(self) -> str:
        """What holds for the population, and what would make it sharper; sentences, for an answer."""

    def __str__(self) -> str:
        left, found = " and ".join(f"{count:,} {name}" for name, count in self.remaining.items()), self._found()
        if found is None:
            return f"refused: what is left does not pay for it ({left} left)"
        return f"{found}, charged {self.charged:,}, {left} left"

    def explain(self) -> str:
        """In words: what holds for the population, and what would make it sharper."""
        if self._found() is None:
            return (
                "The question was refused because what is left of the budget, or of the analyst's allotment, does not "
                "pay for it. Nothing was charged. Ask something cheaper; quote says what a question costs."
            )
        return (
            f"With probability {100.0 * self.confidence:.8g}%, and together with all other answers of this holdout, "
            f"this holds for {self.about or 'the population'}: {self._meaning()} "
            f"{estimand_in_words(self.about)}"
        )


class Purchase(ABC, Generic[Seen, Result]):
    """A question that is ready to be answered; looks at public facts only, until `look`."""

    @property
    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Public and canonical; its SHA-256 is the question's identity."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """The question as people read it."""

    @property
    def question(self) -> str:
        """SHA-256 of the description, in hex."""
        return digest(self.description)

    @property
    def by_position(self) -> bool:
        """Whether a row's part in it depends on the row's place: predictions as arrays."""
        return False

    @property
    def means(self) -> tuple[BoundQuery, ...]:
        """The means of rows that it is about, if it is about such."""
        return ()

    @abstractmethod
    def price(self, mechanism: PrivacyBudget) -> Price:
        """What it would cost."""

    @abstractmethod
    def look(self, sealed: StoredRows, unit: int) -> Seen:
        """Exact integers from the sealed rows, ``unit`` grid steps for a row value of 1; secret."""

    @abstractmethod
    def draw(self, mechanism: PrivacyBudget, state: State, seen: Seen, noise: Noise) -> Drawn:
        """The mechanism's answer, or a refusal if the budget does not pay for it."""

    @abstractmethod
    def result(self, answer: Mapping[str, Any], **paid: Any) -> Result:
        """The ledger's answer in the analyst's units; ``paid`` are the attributes of `Paid`."""


class PricedQuery(ABC, Generic[Result]):
    """A question as an analyst writes it."""

    @abstractmethod
    def purchase(self, preparation: Preparation) -> Purchase[Any, Result]:
        """The question for one holdout.

        Raises:
            QueryRejected: If it cannot be asked. Nothing is charged.
        """


def whole_price(price: int) -> int:
    """What a purchase may cost, as a plain whole number.

    Raises:
        QueryRejected: If it is none.
    """
    try:
        number = 0 if isinstance(price, bool) else operator.index(price)
    except TypeError:
        number = 0
    if not 1 <= number <= _MOST_PRICE:
        raise QueryRejected(f"price is {brief(price)}; expected a whole number of credits; nothing was charged")
    return number


def named(question: BoundQuery) -> str:
    """A question as people read it, in the direction of its answers: an error is an accuracy turned round."""
    return question.shown if question.at_one > question.at_zero else f"1 - {question.shown}"


def checked_function_name(name: object) -> None:
    """Check the name that makes a function the same question another time.

    Raises:
        ValueError: If it is no text that the ledger can keep.
    """
    if name is not None and not is_text(name, longest=_LONGEST_NAME):
        raise ValueError(f"name is {brief(name)}; expected a text of at most {_LONGEST_NAME:,} characters, or None")


def digest(description: Mapping[str, Any] | Sequence[str]) -> str:
    """SHA-256 of a description, in hex."""
    return hashlib.sha256(canonical(description).encode()).hexdigest()
