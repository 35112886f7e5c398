"""Requests to the planner, their checks, and mechanisms tuned for them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Self, TypedDict, Unpack

from everhold.arguments import advice_for, as_float, as_whole, below_one, brief, fraction, whole
from everhold.dependence import DependenceModel, Independent, require_model
from everhold.errors import DependenceError, HoldoutRejected
from everhold.mechanisms import MECHANISMS, Mechanism
from everhold.mechanisms.base import MOST_ROWS, planned_surprises
from everhold.values.evaluation import UNIT

__all__ = [
    "LEAST_RADIUS",
    "MOST_QUERIES",
    "MOST_ROWS",
    "USUAL_TERMS",
    "USUAL_VALUE",
    "PlanRequest",
    "PlanTerms",
    "StudyTerms",
    "best_mechanism",
    "check_radius",
    "check_value",
    "tuned_for",
    "tuned_mechanism",
]

MOST_QUERIES = 10**9
"""End of the planner's search."""

LEAST_RADIUS = 2.0 / UNIT
"""Half-width that rounding alone adds (theory, section 6)."""


USUAL_VALUE = 0.9
"""The population's value at which mechanisms are compared by what a well-behaved analyst can expect of them."""


class StudyTerms(TypedDict, total=False):
    """Keywords of a planned study besides its rows and queries.

    Attributes:
        surprises: Answers B that may come from the holdout, for mechanisms that check guesses; by default 10, or one
            for each query if there are fewer.
        confidence: 1 - beta, in (0, 1): the probability with which all answers are within the radius at once; by
            default 0.95.
        dependence: Model of how the rows depend on each other; independent rows by default.
        training_rows: Number of rows from which guesses are made; by default as many as are sealed. With 0 there are no
            training rows, and mechanisms that check guesses are not recommended.
    """

    surprises: int | None
    confidence: float
    dependence: DependenceModel | None
    training_rows: int | None


class PlanTerms(StudyTerms, total=False):
    """Keywords of a planned session for which mechanisms are compared.

    Attributes:
        slack: c in [0, 1); no budget is spent on guesses closer than c times the radius to the population's value.
            Mechanisms without guesses ignore it; by default 0.
        alike: For rows in groups, the expected correlation of two rows of one group, in [0, 1]. The default is 1, the
            worst case. Expected widths depend on it, but no promise does. If the dependence gives only group sizes, the
            plan supposes that a column will name the groups when rows are sealed.
    """

    slack: float
    alike: float | None


USUAL_TERMS = PlanTerms(surprises=None, confidence=0.95, slack=0.0, dependence=None, training_rows=None, alike=None)
"""Terms of a plan about which nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """Request for a plan: a session's rows, queries, confidence and dependence.

    Attributes:
        queries: Number of adaptive queries m.
        surprises: Answers B that may come from the holdout, for mechanisms that check guesses.
        confidence: 1 - beta, in (0, 1).
        slack: c in [0, 1); no budget is spent on guesses closer than c times the radius to the population's value.
        dependence: Model of how the rows depend on each other.
        training_rows: Number of rows from which guesses are made; None for as many as are sealed, 0 for no training
            rows.
        alike: Expected correlation of two rows of one group, as for `Mechanism.expected_radius`; None if the procedure
            does not bet on sums of groups.

    Raises:
        ValueError: If a number of the request is outside its range.
    """

    rows: int
    queries: int
    surprises: int = 10
    confidence: float = 0.95
    slack: float = 0.0
    dependence: DependenceModel = field(default_factory=Independent)
    training_rows: int | None = None
    alike: float | None = None

    def __post_init__(self) -> None:
        require_model(self.dependence)
        _check_count("rows", self.rows, MOST_ROWS)
        _check_count("queries", self.queries, MOST_QUERIES)
        _check_count("surprises", self.surprises, MOST_QUERIES)
        if self.surprises > self.queries:
            raise ValueError(
                f"surprises is {self.surprises} and queries is {self.queries}. Plan for at most one surprise for each "
                "query."
            )
        fraction(self.confidence, "confidence")
        below_one(self.slack, "slack")
        if self.training_rows is not None:
            whole(self.training_rows, "training_rows", least=0)
        if self.alike is not None and not 0.0 <= as_float(self.alike) <= 1.0:
            raise ValueError(
                f"alike is {brief(self.alike)}. Pass the correlation of two rows of a group, from 0 to 1, or None."
            )
        plain_types = {
            "rows": int, "queries": int, "surprises": int, "confidence": float, "slack": float, "training_rows": int,
        }  # fmt: skip
        for name, plain in plain_types.items():
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, plain(given))  # NumPy's numbers overflow and are no JSON

    @classmethod
    def from_terms(cls, *, rows: int, queries: int, **terms: Unpack[PlanTerms]) -> Self:
        """Build the request from the arguments of `everhold.plan`."""
        given: dict[str, Any] = {**terms}
        dependence, alike = given.pop("dependence", None), given.pop("alike", None)
        dependence = Independent() if dependence is None else require_model(dependence)
        bets_on_units = bool(dependence.unit_counts) and given.get("training_rows") != 0
        return cls(
            rows=rows, queries=queries, surprises=planned_surprises(given.pop("surprises", None), queries),
            dependence=dependence,
            alike=(1.0 if alike is None else alike) if bets_on_units else None, **given,
        )  # fmt: skip

    @classmethod
    def of(cls, mechanism: Mechanism) -> Self:
        """Return the request that a mechanism was planned for."""
        planned = mechanism.parameters()
        return cls(
            rows=mechanism.rows, queries=mechanism.queries, confidence=mechanism.confidence,
            surprises=planned_surprises(mechanism.planned_surprises, mechanism.queries),
            dependence=mechanism.dependence,
            **{name: planned[name] for name in ("slack", "training_rows") if name in planned},
        )  # fmt: skip

    def with_rows(self, rows: int) -> Self:
        """Return the same request for another number of rows."""
        return replace(self, rows=rows)

    def with_queries(self, queries: int) -> Self:
        """Return the request for another number of queries, with surprises limited to this number."""
        return replace(self, queries=queries, surprises=min(self.surprises, queries))


def check_radius(radius: float) -> float:
    """Return a requested radius as a float, after a check that some number of rows can reach it.

    Raises:
        ValueError: If no number of rows can reach the radius.
    """
    if not 0.0 < as_float(radius) < 1.0:
        raise ValueError(f"radius is {brief(radius)}. Pass a half-width strictly between 0 and 1, such as 0.05.")
    if radius <= LEAST_RADIUS:
        raise ValueError(f"radius is {radius}, and by rounding none is below {LEAST_RADIUS:.3g}. Pass a larger radius.")
    return float(radius)


def check_value(at: float) -> float:
    """Return a population value as a float, after a check that it lies in [0, 1].

    Raises:
        ValueError: If ``at`` is not in [0, 1].
    """
    if not 0.0 <= as_float(at) <= 1.0:
        raise ValueError(f"at is {brief(at)}. Pass a value from 0 to 1 that a mean may have, such as 0.9.")
    return float(at)


def _check_count(name: str, value: int, most: int) -> None:
    """Raise ValueError unless a number is whole and between 1 and a maximum."""
    if (as_whole(value) or 0) < 1:
        raise ValueError(f"{name} is {brief(value)}. Pass a whole number of at least 1.")
    if value > most:
        raise ValueError(f"{name} is {brief(value)}. Pass at most {most:,}.")


def tuned_mechanism(name: str, request: PlanRequest) -> Mechanism:
    """Return the named mechanism with its best parameters for a request.

    Raises:
        ValueError: If there is no mechanism of that name, or the mechanism cannot serve the request.
    """
    if not isinstance(name, str) or name not in MECHANISMS:
        raise ValueError(f"There is no mechanism {brief(name)}. {advice_for(name, sorted(MECHANISMS))}")
    requested = {each.name: getattr(request, each.name) for each in fields(request) if each.name != "alike"}
    requested |= {"training_rows": request.training_rows or 0}
    try:
        hash(request.dependence)
    except TypeError:  # a dependence model of an extension need not be hashable
        return MECHANISMS[name].for_request(**requested)
    return replace(
        _remembered(MECHANISMS[name], **requested)
    )  # a new one: what mechanisms compute and keep is not shared


@lru_cache(maxsize=256, typed=True)
def _remembered(kind: type[Mechanism], **requested: Any) -> Mechanism:
    """Return `Mechanism.for_request`. It is cached, because equal requests give equal mechanisms."""
    return kind.for_request(**requested)


def tuned_for(name: str, request: PlanRequest) -> Mechanism | str:
    """Return the mechanism of a name tuned for a request, or a text that says why it cannot serve the request."""
    try:
        return tuned_mechanism(name, request)
    except ValueError as reason:
        return str(reason)


WITHOUT_GUESSES = (
    "There are no training rows, and every installed mechanism needs a guess for each query. Pass training= "
    "(--training), choose mechanism='guess_and_check' (--mechanism guess_and_check) and bring a guess with each query, "
    "declare the queries with declared= (--protocol), or install mechanisms that need no guesses: "
    "pip install 'everhold[privacy]'."
)
"""What to do without training rows where no mechanism that needs no guesses is installed."""


def taken_by_default(training_rows: int | None) -> list[str]:
    """Return the names of the mechanisms that may be chosen by default.

    None means as many training rows as sealed rows.
    """
    return [
        name for name, kind in MECHANISMS.items()
        if kind.recommendable() and (training_rows != 0 or not kind.traits.needs_guess)
    ]  # fmt: skip


def best_mechanism(request: PlanRequest) -> Mechanism:
    """Return the adaptive mechanism with the smallest expected width for good guesses.

    Mechanisms that need identically distributed rows are never returned. Without training rows, neither are mechanisms
    that check guesses. The width that can be expected is `Mechanism.expected_radius` at `USUAL_VALUE`: for mechanisms
    that check guesses, the half-width of a confirmed guess; for the others, their radius.

    Raises:
        ValueError: If the request is not valid for a mechanism that is compared.
        DependenceError: If no mechanism can serve rows that depend on each other in the declared way.
        HoldoutRejected: If there are no training rows, and no installed mechanism works without guesses.
    """
    tuned: list[Mechanism] = []
    refused: list[DependenceError] = []
    names = taken_by_default(request.training_rows)
    if not names:
        raise HoldoutRejected(WITHOUT_GUESSES)
    for name in names:
        try:
            tuned.append(tuned_mechanism(name, request))
        except DependenceError as reason:
            refused.append(reason)
    if not tuned:
        raise refused[0]
    return min(tuned, key=lambda each: (each.expected_radius(USUAL_VALUE, request.alike), each.promise().radius))
