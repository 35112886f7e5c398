"""Choice of the best of several candidates on sealed rows, with its regret for the population."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from everhold.arguments import brief
from everhold.display import at_most
from everhold.errors import QueryRejected
from everhold.queries.means.batch import RowwiseQuery
from everhold.queries.query import QuerySpec, digest
from everhold.queries.selection.candidates import check_same_units, listed
from everhold.values.base import BoundQuery
from everhold_privacy.mechanisms.paid_selection import PaidSelection
from everhold_privacy.mechanisms.privacy_budget import CREDITS
from everhold_privacy.queries.priced import MechanismResult, Paid, Price, PricedQuery, Purchase, Result, whole_price

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from everhold.mechanisms import State
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows
    from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget

_MOST_CANDIDATES = 100_000
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BestCandidate(Paid):
    """The candidate that was chosen, and how much worse than the best one it is at most.

    Attributes:
        index: Its position among the candidates; None if the query was refused.
        candidate: The candidate as people read it; None if refused.
        regret: How much worse it is for the population than the best candidate, at most, in the candidates' units;
            holds together with all other answers. None if refused.
    """

    index: int | None
    candidate: str | None
    regret: float | None

    def to_dict(self) -> dict[str, Any]:
        """``{"index", "candidate", "regret", "charged", "remaining", "query"}``."""
        return {"index": self.index, "candidate": self.candidate, "regret": self.regret, **self.payment()}

    def _found(self) -> str | None:
        if self.index is None:
            return None
        return f"candidate {self.index}: {self.candidate}, at most {at_most(self.regret or 0.0)} worse than the best"

    def _meaning(self) -> str:
        return (
            f"{self.candidate} is at most {at_most(self.regret or 0.0)} worse than the best candidate. How good it is "
            "was not revealed; ask for its value. A higher price, more sealed rows, fewer candidates or fewer "
            "planned queries make the regret smaller."
        )


@dataclass(frozen=True, slots=True)
class PricedChoice(Purchase["NDArray[np.int64]", Result]):
    """Means in the same units that are compared on the sealed rows, and of which none is told.

    Attributes:
        bound: The means, in order.
        credits: What the comparison costs.
    """

    bound: tuple[BoundQuery, ...]
    credits: int

    @property
    def means(self) -> tuple[BoundQuery, ...]:
        """The queries whose row values are summed."""
        return self.bound

    @property
    def rises(self) -> bool:
        """True if higher row values are higher answers."""
        return self.bound[0].at_one > self.bound[0].at_zero

    @property
    def width(self) -> float:
        """Width of a mean of 1 in the queries' units."""
        return abs(self.bound[0].at_one - self.bound[0].at_zero)

    def listed(self) -> str:
        """Number of them, and the names of the first."""
        names = "; ".join(query.shown for query in self.bound[:_MOST_SHOWN])
        return f"{len(self.bound):,}: {names}{'; ...' if len(self.bound) > _MOST_SHOWN else ''}"

    def evaluate(self, sealed: StoredRows, unit: int) -> NDArray[np.int64]:
        """The queries' sums, shape (queries,)."""
        return sealed.totals(self.bound, unit=unit)[:, 0]


@dataclass(frozen=True, slots=True)
class PrivateChoice(PricedChoice[BestCandidate]):
    """Candidates of which the best is chosen.

    Attributes:
        best: Whether the "lowest" or the "highest" mean is best.
    """

    best: Literal["lowest", "highest"]

    def __post_init__(self) -> None:
        if not isinstance(self.best, str) or self.best not in ("lowest", "highest"):
            raise QueryRejected(f"best is {brief(self.best)}; expected 'lowest' or 'highest'")
        check_same_units(self.bound, "candidates")

    @property
    def description(self) -> dict[str, Any]:
        """Public and canonical."""
        return {
            "kind": "choice",
            "least": "row values" if self._least else "their complements",  # an error is an accuracy turned round
            "price": self.credits,
            "candidates": digest([query.query for query in self.bound]),
        }

    @property
    def shown(self) -> str:
        """The choice as people read it."""
        return f"the {self.best} of {self.listed()}"

    @property
    def _least(self) -> bool:
        """True if the least sum of row values is the best."""
        return self.rises == (self.best == "lowest")

    def price(self, mechanism: PrivacyBudget) -> Price:
        """Its credits, and the regret that they buy."""
        return Price(self.credits, self.width * PaidSelection(mechanism, self.credits).regret(len(self.bound)))

    def answer(self, mechanism: PrivacyBudget, state: State, seen: NDArray[np.int64], noise: Noise) -> MechanismResult:
        """By the exponential mechanism: the least loss is the best."""
        return chosen(mechanism, state, seen if self._least else mechanism.steps - seen, noise, price=self.credits)

    def result(self, answer: Mapping[str, Any], **paid: Any) -> BestCandidate:
        """The candidate and its regret in the candidates' units."""
        index, regret = answer["value"], answer["within"]
        return BestCandidate(
            index=index,
            candidate=None if index is None else self.bound[index].shown,
            regret=None if regret is None else regret * self.width,
            **paid,
        )


def chosen(
    mechanism: PrivacyBudget, state: State, losses: NDArray[np.int64], noise: Noise, *, price: int,
    within: float | None = None,
) -> MechanismResult:  # fmt: skip
    """The least loss, with its regret unless something else is stated."""
    state, choice = PaidSelection(mechanism, price).choose(state, losses, noise)
    if choice.index < 0:
        return MechanismResult.refused(state)
    held = choice.regret if within is None else within
    answer = {"value": choice.index, "low": None, "high": None, "source": "holdout", "within": held}
    return MechanismResult(state, answer, choice.charged)


@dataclass(frozen=True, slots=True)
class PrivateChoiceQuery(PricedQuery[BestCandidate]):
    """Choice of the query with the lowest, or the highest, mean; made by `private_choose`.

    Attributes:
        candidates: Means in the same units; or anything, with a loss.
        best: Whether the lowest or the highest mean is best.
        price: Credits that the choice costs.
        loss: From a candidate to its query; None where candidates are queries.
    """

    candidates: Iterable[Any]
    best: Literal["lowest", "highest"] = "lowest"
    price: int = CREDITS
    loss: Callable[[Any], RowwiseQuery | str] | None = None

    def spec(self) -> QuerySpec:
        """See `Query.made`."""
        return QuerySpec("private_choose", self._queries(), {"best": self.best, "price": self.price})

    def purchase(self, compiler: QueryCompiler) -> PrivateChoice:
        """The choice among the candidates' queries."""
        return PrivateChoice(tuple(map(compiler.bind, self._queries())), whole_price(self.price), self.best)

    def _queries(self) -> list[RowwiseQuery | str]:
        if self.loss is not None and not callable(self.loss):
            raise QueryRejected(
                f"the loss is a {type(self.loss).__name__}; expected a function from a candidate to its query, such "
                "as error"
            )
        # all are made before the first is looked at: some may share an array that they fill
        found = listed(self.candidates, what="candidates", most=_MOST_CANDIDATES)
        return found if self.loss is None else [self.loss(candidate) for candidate in found]


def private_choose(
    candidates: Iterable[Any],
    *,
    best: Literal["lowest", "highest"] = "lowest",
    price: int = CREDITS,
    loss: Callable[[Any], RowwiseQuery | str] | None = None,
) -> PrivateChoiceQuery:
    """Choose the best of several models, thresholds or queries on the sealed rows; their values are not revealed.

    Args:
        candidates: Means in the same units, such as ``[error(model) for model in models]``. With a loss anything else,
            such as the models themselves; `BestCandidate.index` is a position among them.
        best: Whether the lowest or the highest mean is best.
        price: Credits that the choice costs; with more of them it comes closer to the best. A mean costs 100.
        loss: From a candidate to the query that is its loss, such as `error`, or
            ``lambda cut: f"delay > {cut} and late = 0"``.

    Examples:
        >>> private_choose([10, 20, 30], loss=lambda cut: f"delay > {cut}").price
        100
    """
    return PrivateChoiceQuery(candidates, best, price, loss)
