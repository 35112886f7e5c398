"""Choice of the mechanism for rows that are about to be sealed, and a check that its promise is worth having."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from everhold.dependence import DependenceModel, RowStructure, require_listed
from everhold.display import Display, at_most
from everhold.errors import (
    HoldoutRejected,
    NonAdaptiveWarning,
    SmallHoldoutWarning,
    VacuousGuaranteeWarning,
    warn_caller,
)
from everhold.mechanisms import MECHANISMS, GuessAndCheck, Mechanism, Silent, has_public_levels
from everhold.mechanisms.base import planned_surprises
from everhold.mechanisms.releases import SHARE
from everhold.planning import widths
from everhold.planning.inverse import rows_needed_by
from everhold.planning.request import USUAL_VALUE, PlanRequest, best_mechanism, tuned_for, tuned_mechanism

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


FEWER_QUERIES = (300, 100, 30, 10, 3, 1)
"""Numbers of queries that are tried where rows are worth too little for a plan."""

_GUESSING, _SILENT = GuessAndCheck.name, Silent.name
_FEW_ROWS = 100


def chosen_mechanism(
    name: str | None, request: PlanRequest, structure: RowStructure, dependence: DependenceModel | None
) -> Mechanism:
    """Return the mechanism with a name, or the best mechanism if there is no name, for the rows to be sealed.

    Raises:
        DependenceError: If the declared dependence does not match the rows.
        ValueError: If the request is not valid for the mechanism.
    """
    if dependence is not None:
        request = replace(request, dependence=_bound(dependence, structure))
    return best_mechanism(request) if name is None else tuned_mechanism(name, request)


def bound_mechanism(mechanism: Mechanism, structure: RowStructure, dependence: DependenceModel | None) -> Mechanism:
    """Return a planned mechanism for the rows to be sealed, after a check that it was planned for such rows.

    Raises:
        DependenceError: If the declared dependence does not match the rows.
        HoldoutRejected: If the mechanism was planned for another number of rows, or for another dependence than is
            declared.
    """
    if MECHANISMS.get(mechanism.name) is not type(mechanism):
        raise HoldoutRejected(
            f"The mechanism {type(mechanism).__name__} is not registered, so a ledger cannot name it. Pass one of "
            f"{', '.join(sorted(MECHANISMS))}."
        )
    if mechanism.rows != structure.rows:
        raise HoldoutRejected(
            f"The mechanism is planned for {mechanism.rows:,} rows, and the holdout has {structure.rows:,}. Plan it "
            "for these rows, or pass its name."
        )
    if dependence is not None and dependence != mechanism.dependence:
        raise HoldoutRejected(
            "The mechanism was planned for another dependence than the one that is declared. Plan it with the same "
            "dependence=..."
        )
    return replace(mechanism, dependence=_bound(mechanism.dependence, structure))


def _bound(dependence: DependenceModel, structure: RowStructure) -> DependenceModel:
    """Return a dependence model with facts that are read from the rows, such as group sizes."""
    require_listed(dependence)
    return dependence.bind(structure)


def check_worth(mechanism: Mechanism, *, allow_vacuous: bool, alike: float | None = None) -> None:
    """Raise HoldoutRejected if the promise is useless even for good guesses, unless ``allow_vacuous`` is True.

    Args:
        mechanism: The mechanism, bound to the rows.
        allow_vacuous: True to accept a promise that is useless even for good guesses; False to refuse it.
        alike: Expected correlation of two rows of one group, as for `Mechanism.expected_radius`.

    Raises:
        HoldoutRejected: If the radius is half the range or more, and the interval for an honest guess at `USUAL_VALUE`
            is no narrower than with such a radius. Nothing was created.
    """
    if allow_vacuous or is_worth(mechanism, alike):
        return
    radius, expected = mechanism.promise().radius, mechanism.expected_radius(USUAL_VALUE, alike)
    allowed = "eh.Planning(allow_vacuous=True) (--allow-vacuous)"
    needed, groups = None, sum(number for _, number in mechanism.dependence.unit_counts)
    if mechanism.dependence.independent or mechanism.dependence.in_groups:  # rows in groups like those that are sealed
        request = replace(PlanRequest.of(mechanism), alike=alike)
        below = math.nextafter(widths.least_vacuous(USUAL_VALUE), 0.0)
        needed = rows_needed_by(mechanism.name, request, below, at=USUAL_VALUE)
    if mechanism.dependence.in_groups:
        more = "seal more groups, and train on more of them"
        if needed is not None:
            more = f"seal more groups, at least {math.ceil(groups * needed / mechanism.rows):,} like these"
    elif needed is None:
        more = "seal more rows"
    elif needed > mechanism.rows:
        more = f"seal at least {needed:,} rows for this plan"
    else:
        more = f"let the mechanism be tuned with mechanism={mechanism.name!r}"
    ways = [*_other_plans(mechanism, alike), more, allowed]
    guesses = " even if all guesses hold," if mechanism.traits.needs_guess else ""
    raise HoldoutRejected(
        f"{mechanism.name} planned for queries={mechanism.queries} promises nothing:{guesses} answers around "
        f"{USUAL_VALUE:g} are expected within ±{expected:.2f}, and the guaranteed radius is {radius:.2f}, half the "
        f"range or more. Choose one of: {', or '.join(f'({place}) {way}' for place, way in enumerate(ways, 1))}.",
        radius=radius,
        expected=expected,
        rows=mechanism.rows,
        rows_needed=needed,
    )


def is_worth(mechanism: Mechanism, alike: float | None) -> bool:
    """Return whether the promised radius, or the expected one with good guesses, is small enough to be useful."""
    if mechanism.promise().radius < widths.VACUOUS:
        return True
    return mechanism.expected_radius(USUAL_VALUE, alike) < widths.least_vacuous(USUAL_VALUE)


def _other_plans(mechanism: Mechanism, alike: float | None) -> Iterator[str]:
    """Yield calls of `Holdout.create` that would seal the same rows with a useful promise. Each was computed."""
    fewer = [count for count in FEWER_QUERIES if count < mechanism.queries]
    tried: list[tuple[str, Sequence[int], str]] = [(mechanism.name, fewer, "")]
    if mechanism.name != _GUESSING:
        tried.append((_GUESSING, [mechanism.queries, *fewer], "with a guess of your own for every query"))
    if not mechanism.traits.only_silent:
        tried.append((_SILENT, [mechanism.queries, *fewer], "nothing is told before the study is unsealed"))
    for name, counts, how in tried:
        anew = (tuned_for(name, PlanRequest.of(mechanism).with_queries(count)) for count in counts)
        worth = (made for made in anew if not isinstance(made, str) and is_worth(made, alike))
        if (made := next(worth, None)) is not None:
            said = f"around {USUAL_VALUE:g} within ±{at_most(made.expected_radius(USUAL_VALUE, alike))}"
            requested, surprises = {"queries": made.queries}, made.planned_surprises
            if surprises is not None and surprises != planned_surprises(None, made.queries):
                requested["surprises"] = surprises
            python = "".join(f", {each}={number}" for each, number in requested.items())
            shell = "".join(f" --{each} {number}" for each, number in requested.items())
            call = f"mechanism={name!r}{python} (--mechanism {name}{shell})"
            yield f"{call}, {', '.join(filter(None, (how, said)))}"


def warn_of_weak_promise(mechanism: Mechanism, alike: float | None = None) -> None:
    """Warn if few rows are sealed, if the radius is half the range or more, or if adaptive queries have no promise."""
    if mechanism.rows < _FEW_ROWS:
        warn_caller(
            SmallHoldoutWarning(f"Only {mechanism.rows:,} rows are sealed. {widths.few_rows(mechanism, alike)}")
        )
    if worst := widths.vacuous_in_words(mechanism, alike):
        more = widths.sealed_units(mechanism.dependence)
        warn_caller(VacuousGuaranteeWarning(f"{worst} Seal more {more}, or plan for fewer queries or surprises."))
    if not mechanism.traits.adaptive:
        warn_caller(
            NonAdaptiveWarning(
                f"The mechanism {mechanism.name} promises nothing where queries depend on earlier answers. Choose "
                "another mechanism, unless all queries are fixed in advance."
            )
        )


# Three ways to use a holdout, with their widths beside what people use without one.
#
# What do you know before you ask, and do you steer by the answers? Queries that are known beforehand are declared.
# Queries that come up during the work, but whose answers are read at its end, are silent. Answers that are told as you
# go steer.


@dataclass(frozen=True, slots=True)
class Way:
    """One way to ask queries, with the half-width of a yes-or-no answer.

    Attributes:
        way: Name of the way to ask, such as declared, silent or steered.
        when: Words that say when answers are told in this way, or what the line is compared with.
        within: The half-width, as a part of [0, 1].
    """

    way: str
    when: str
    within: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeWays(Display):
    """Half-widths of the three ways to ask in one study, the narrowest first, and of two usual intervals.

    Attributes:
        rows: Number of sealed rows.
        queries: Number of queries that are planned.
        surprises: Number of surprises that are planned.
        confidence: Probability with which all intervals hold at once.
        at: Population value of the yes-or-no query, in [0, 1].
        lines: Half-widths of declared queries, of silent ones, of steered ones (told as you go) without a surprise and
            after all planned surprises. For comparison: those of a single query at the same confidence, and of the same
            number of fixed queries by Bonferroni.
    """

    rows_in: ClassVar[str] = "lines"

    rows: int
    queries: int
    surprises: int
    confidence: float
    at: float
    lines: tuple[Way, ...]

    def within(self, way: str) -> float:
        """Return the half-width of a line by its name."""
        return next(line.within for line in self.lines if line.way == way)

    def explain(self) -> str:
        """Return a text on which of the three ways to ask suits which analyst."""
        declared, silent, steered = (at_most(self.within(way)) for way in ("declared", "silent", "steered"))
        fixed = self.within("Bonferroni")
        said = (
            f"Do you know your queries before you ask? Declare them: within {declared} around {self.at:g}, for ever. "
            f"Do they come up as you work, and can their answers wait? Ask silently and unseal at the end: {silent}. "
            f"Do you steer by the answers? They are told as you go: {steered} while guesses hold. "
            f"Queries that are all fixed beforehand need no holdout for their width: Bonferroni has {at_most(fixed)}. "
            "It does not hold for queries that were chosen by earlier answers."
        )
        if self.within("steered") >= min(self.at, 1.0 - self.at) / 2.0:
            said += " With these rows, told answers say little: declare, ask silently, or plan for fewer queries."
        return said

    def _headline(self) -> str:
        return self.explain()


def three_ways(mechanism: Mechanism | None, *, at: float = USUAL_VALUE, alike: float | None = None) -> ThreeWays | None:
    """Compare the three ways to ask for a tuned mechanism, or return None if it rests on noise.

    Args:
        mechanism: The tuned mechanism, with its rows, queries, surprises, confidence and dependence; None if the
            request has none.
        at: Population value of a yes-or-no query, in [0, 1].
        alike: Expected correlation of two rows of one group, as for
            `everhold.mechanisms.base.Mechanism.expected_radius`.
    """
    if not has_public_levels(mechanism):
        return None
    beta, queries = 1.0 - mechanism.confidence, mechanism.queries
    most = min(mechanism.surprises, queries - 1)
    first, last = (widths.width_at(mechanism, at, surprises, alike) for surprises in (0, most))

    def fixed(level: float) -> float:
        nats = -math.log(level)
        return widths.half_within(*mechanism.yes_no_at(at, nats, alike).expected(at, nats))

    lines = (
        Way("declared", f"{queries:,} fixed beforehand, exact, for ever", fixed(beta * SHARE / queries)),
        Way("silent", "asked during the work, exact, when the study is unsealed", first.unsealed),
        Way("steered", "told as you go, while guesses hold", first.confirmed),
        Way("steered, after surprises", f"told as you go, after {most:,} surprises", last.confirmed),
        Way("one query", f"a single {100.0 * mechanism.confidence:g} % interval, no other query", fixed(beta)),
        Way("Bonferroni", f"{queries:,} fixed beforehand, without everhold", fixed(beta / queries)),
    )
    return ThreeWays(
        rows=mechanism.rows, queries=queries, surprises=most, confidence=mechanism.confidence, at=at, lines=lines
    )
