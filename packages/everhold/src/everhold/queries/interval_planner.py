"""Guesses and interval procedures for queries before they are asked, from public facts and training rows alone.

Guesses learn: the errors of training estimates that earlier surprises showed correct later estimates of the same kind
(S8). A guess may use everything that was told before, so this needs no proof and costs nothing. For example,
cross-validated scores of one tuning loop are often wrong by about the same amount for all its models. One surprise may
be an exception, so a correction needs two surprises that agree. If surprises stay frequent, guesses are less accurate
than the number of rows explains. Then told intervals are made wider, so that guesses are confirmed: that is better than
surprises, which widen all later intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from everhold.answers import FAILING
from everhold.arguments import as_float, brief
from everhold.errors import QueryRejected
from everhold.estimand import check_estimand
from everhold.guarantees.intervals.betting import Betting
from everhold.guarantees.intervals.in_order import at_all_sizes, groups_at_all_sizes
from everhold.guarantees.intervals.means import OfMeans
from everhold.mechanisms import Mechanism, has_public_levels
from everhold.mechanisms.records import Description, Evaluations
from everhold.queries.procedures import Surprises, TrainingEvaluator, needs_of, paying, procedure_for
from everhold.sealing.configuration import FAMILIES_GROW, LARGEST_GROUP
from everhold.values.base import BoundQuery, Schema
from everhold.values.evaluation import models_in

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.ledger import Entry
    from everhold.sealing.rows.table import StoredRows

_OF_MODELS = ("kind", "loss", "low", "high", "label")  # what scores have to share to be off in the same way
_SCORES = frozenset({"accuracy", "brier", "risk"})
_REMEMBERED = 5
_FEWEST = 2
_PRIOR = 1.0  # as if one more surprise had found the estimate right
_FREQUENT = 50  # entries of the ledger within which so many surprises are many
_FURTHEST = 2.5  # times the reach of honest guesses


def never_declared(bound: BoundQuery) -> None:
    """Return None for every query, as the level in a holdout without declared families."""


def never_asked(query: str, member: str) -> bool:
    """Return False, for holdouts in which no query can have been asked before its declaration."""
    return False


@dataclass(frozen=True, slots=True)
class JudgedMean:
    """Mean of one judge's condition or number over the rows of a pool, which have no labels.

    Attributes:
        text: The condition or the number.
        ends: Range of the number; None for a condition.
        share: Mean over the pool, as a share of the range.
        within: Interval of the population's mean, as shares of the range.
    """

    text: str
    ends: tuple[float, float] | None
    share: float
    within: tuple[float, float]


@dataclass(frozen=True, slots=True)
class RecordedPool:
    """A pool of rows without labels that a holdout has recorded (S18).

    Attributes:
        name: Name of the pool in the holdout.
        content: SHA-256 of its rows.
        judges: Mean over the pool of what each judge says, by the text that identifies the judge: one mean, or one for
            each verdict but one.
    """

    name: str
    content: str
    judges: Mapping[str, Sequence[JudgedMean]]


def no_pools() -> Sequence[RecordedPool]:
    """Return an empty sequence, for holdouts that have recorded no pool."""
    return ()


@dataclass(frozen=True, slots=True)
class MemberLevels:
    """Functions that return the level of a query of a declared family, or of a text by its description (S10).

    Attributes:
        level_of: Function that returns ln(1 / level) of a query of a declared family, and None for other queries.
        level_if_released: Function that returns, for a silent query, the result of `level_of` for the same query if it
            were open. None for other queries.
        described_of: Function that returns ln(1 / level) of a text by its description, and None for other queries.
        asked_of_tree: Function of two fingerprints, of a query and of the same query as a member of a family: True if
            the query was asked before it was a member.
        pools: Pools of rows without labels that are recorded (S18).
        first_rows: Number of rows that were sealed first, if the intervals of members hold at all numbers of rows at
            once (S14); else 0.
        largest_group: Largest number of rows that a group may have in that case; 0 if rows are in no groups.
    """

    level_of: Callable[[BoundQuery], float | None] = never_declared
    level_if_released: Callable[[BoundQuery], float | None] = never_declared
    described_of: Callable[[BoundQuery], float | None] = never_declared
    asked_of_tree: Callable[[str, str], bool] = never_asked
    pools: Callable[[], Sequence[RecordedPool]] = no_pools
    first_rows: int = 0
    largest_group: int = 0

    @classmethod
    def recorded(cls, configuration: Mapping[str, Any]) -> MemberLevels:
        """Build levels without any family from the settings of a holdout."""
        first_rows, largest = configuration.get(FAMILIES_GROW, 0), configuration.get(LARGEST_GROUP, 0)
        return cls(first_rows=first_rows, largest_group=largest)


@dataclass(frozen=True, slots=True)
class FailingShare:
    """The plan for telling, with an answer, the share of sealed rows on which the query's models fail (S16).

    Attributes:
        guess: Guess of the share: the share that was told last, or 0, because a model that fails on a training row is
            refused.
        procedure: The procedure that makes its interval.
    """

    guess: float
    procedure: Procedure

    def evaluated(self, sealed: StoredRows, fails: NDArray[np.bool_], mechanism: Mechanism) -> Evaluations:
        """Evaluate the share of failing rows on the sealed rows. The result is secret."""
        group_by = mechanism.dependence.unit_column
        if self.procedure.needs == "total":
            total, seen = int(np.count_nonzero(fails)) * mechanism.unit, None
        else:
            grid = fails.astype(np.int64) * mechanism.unit
            total, seen = sealed.summary(self.procedure.needs, grid, group_by=group_by, unit=mechanism.unit)
        return Evaluations(
            totals=np.array([[total]]), guesses=np.array([round(self.guess * mechanism.steps)]), rows=len(fails),
            unit=mechanism.unit, procedures=[self.procedure], seen=[seen],
        )  # fmt: skip


SealedNumber: TypeAlias = "Callable[[StoredRows], tuple[Fraction | float, Any]]"
"""Function from the sealed rows to a number of all rows, as a share of its range, and to what is bet on."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A mean with its guess and interval procedure, ready to be asked.

    Attributes:
        bound: The query about the holdout's rows.
        guess: The public guess in grid units of a sum over the sealed rows; -1 if there is no guess.
        from_training: True if the guess is the training estimate; False if it is the analyst's own guess.
        tolerance: Half-width requested, in the units of a mean over [0, 1]; nan for the planned one.
        procedure: The procedure that makes its interval; None for mechanisms that rest on noise.
        estimate: The training estimate in grid units, before `learned` corrects it to the guess; -1 without training
            values.
        declared: ln(1 / level) of a member of a declared family (S10); nan for other queries.
        described: The event that a text has by its description (S10); None for other queries.
        failing: Share of the rows on which the query's models fail, which is told with the answer; None for a query
            without models.
        number: For a number of all rows together: function from the sealed rows to the number, as a share of its range,
            and the summary that its procedure needs. Its result is secret. None for a mean of row values.
    """

    bound: BoundQuery
    guess: int
    from_training: bool
    tolerance: float = math.nan
    procedure: Procedure | None = None
    estimate: int = -1
    declared: float = math.nan
    described: Description | None = None
    failing: FailingShare | None = None
    number: SealedNumber | None = None

    @property
    def is_member(self) -> bool:
        """Whether the mean is a member of a declared family."""
        return not math.isnan(self.declared)


@dataclass(frozen=True, slots=True)
class IntervalPlanner:
    """Chooses the guess and the interval procedure of each query, from training rows and public facts.

    Attributes:
        schema: The public facts about the rows.
        mechanism: The mechanism that will answer.
        evaluator: Evaluator of queries on the training rows.
        families: Levels that queries have by their description.
        silent: True if the queries are silent, so that they need no guess.
    """

    schema: Schema
    mechanism: Mechanism
    evaluator: TrainingEvaluator
    families: MemberLevels
    silent: bool

    def guessed(self, bound: Sequence[BoundQuery], given: Sequence[float | None]) -> list[Prepared]:
        """Return queries with guesses, by default from the training rows, and with interval procedures.

        Raises:
            QueryRejected: If a query has no value in some training rows. Nothing is charged.
        """
        self.evaluator.check_complete(bound)
        ratios = {
            place: self.ratio(each, given[place], None) for place, each in enumerate(bound)
            if each.pair is not None and each.pair.how == "ratio"
        }  # fmt: skip
        if ratios:  # of models that everhold fits
            means = [place for place in range(len(bound)) if place not in ratios]
            found = self.guessed([bound[place] for place in means], [given[place] for place in means])
            ratios |= zip(means, found, strict=True)
            return [ratios[place] for place in range(len(bound))]
        training, known = self.evaluator.training, list(bound)  # with training values where procedures need them
        for place, query in enumerate(bound):
            if training is not None and query.training_values is None and self.evaluator.holds_values(query):
                (values,) = training.grids(query, unit=self.mechanism.unit)
                known[place] = replace(query, training_values=values)
        totals = self.evaluator.training_totals(known, plan=self.mechanism.queries, bets=self.mechanism.bets)
        counted = (
            {}
            if self.evaluator.training is None or self.evaluator.training.whole is None
            else self.evaluator.counted(bound)
        )
        surprises, prepared = cache(self.evaluator.before.surprises), []
        is_described = self.families.described_of is not never_declared
        may_be_member = self.families.level_of is not never_declared
        for place, (query, guess) in enumerate(zip(bound, given, strict=True)):
            trained = guess is None and place in totals
            rows, total, seen = counted.get(place) or (self.schema.training_rows, totals.get(place, 0), None)
            if may_be_member and (nats := self.families.level_of(query)) is not None:
                estimate = total * self.schema.rows // rows if place in totals else -1
                procedure = self._of_member(known[place], estimate, seen=seen)
                prepared.append(self._member(query, procedure, estimate, nats))
                continue
            scaled = total * self.schema.rows // rows if trained else self._own_guess(query, guess)
            procedure = self._procedure(known[place], own_guess=not trained, guess=scaled, seen=seen)
            estimate = scaled if trained else -1
            only_models = not (self.silent or query.by_position)
            if trained and only_models and self.mechanism.traits.needs_guess:
                scaled = learned(scaled, query, surprises, self.mechanism.steps)
                if query.row_value is None and isinstance(procedure, OfMeans) and has_public_levels(self.mechanism):
                    # Room for guesses alone grows if recent ones of such scores were far off
                    at = scaled / self.mechanism.steps
                    reach = float(procedure.honest(at, self.mechanism.allowance)[1]) - at
                    size = procedure.training
                    worth = worth_of_guesses(query, surprises, rows=procedure.rows, training=size, reach=reach)
                    procedure = procedure if worth >= size else replace(procedure, training=worth)
            described = self._described(query, procedure, estimate) if is_described else None
            prepared.append(
                Prepared(
                    query, scaled, trained, procedure=procedure, estimate=estimate, described=described,
                    failing=None if query.row_value is not None else self._failing(query, surprises),
                )
            )  # fmt: skip
        return prepared

    def ratio(self, bound: BoundQuery, guess: float | None, tolerance: float | None) -> Prepared:
        """Return a ratio that is asked as one query, with its guess and its interval procedure.

        Raises:
            QueryRejected: If the ratio cannot be asked as one query. Nothing is charged.

        Warns:
            DependenceWarning: If the values of a part on the training rows are worth fewer rows than is promised.
        """
        pair, training = bound.pair, self.evaluator.training
        check_estimand([bound], self.schema, self.mechanism)
        if (training is None or not bound.trained) and (nats := self.families.level_of(bound)) is not None:
            return self._member(bound, self._of_member(bound, -1), -1, nats)
        if pair is None or training is None:
            raise TypeError(f"{bound.shown!r} is no ratio, or there are no training rows. Prepare it as two means.")
        part, whole = training.grids(bound, unit=self.mechanism.unit)
        part = np.minimum(part, whole)
        parts = [replace(pair.first, training_values=part), replace(pair.second, training_values=whole)]
        if counted := int(whole.sum()):
            self.evaluator.test_spread(bound, (part - whole * (int(part.sum()) / counted)) / self.mechanism.unit)
        known = replace(bound, pair=replace(pair, first=parts[0], second=parts[1]))
        within, counted = int(part.sum()), int(whole.sum())
        if (rows := training.counting(bound)) is not training:
            known, both = bound, [replace(bound, pair=replace(pair, how="within")), pair.second]
            within, counted = rows.totals(both, unit=self.mechanism.unit)[:, 0].tolist()
        estimate = within * self.mechanism.steps // counted if counted else -1
        if (nats := self.families.level_of(bound)) is not None and tolerance is None:
            return self._member(bound, self._of_member(known, estimate), estimate, nats)
        trained = guess is None and counted > 0
        scaled = estimate if trained else self._own_guess(bound, guess)
        procedure = self._procedure(known, own_guess=not trained, guess=scaled)
        estimate = scaled if trained else -1
        described = self._described(bound, procedure, estimate)
        prepared = Prepared(
            bound, scaled, trained, procedure=procedure, estimate=estimate, described=described,
            failing=self._failing(bound, self.evaluator.before.surprises),
        )  # fmt: skip
        return prepared if tolerance is None else self.requested(prepared, tolerance)

    def of_statistic(
        self, bound: BoundQuery, guess: float | None, known: Fraction | None, procedure: Procedure,
        number: SealedNumber,
    ) -> Prepared:  # fmt: skip
        """Return a query about a number of all rows, with its guess and its interval procedure.

        Args:
            bound: The query, bound to the rows.
            guess: The analyst's own guess; None to guess from the training rows.
            known: Value of the query on the training rows as a share of its range; None if it is not known.
            procedure: The procedure that makes its interval.
            number: Function that computes the number on the sealed rows.

        Raises:
            QueryRejected: If the number cannot be asked of these rows. Nothing is charged.
        """
        check_estimand([bound], self.schema, self.mechanism)
        estimate = -1 if known is None else int(known * self.mechanism.steps)
        if (nats := self.families.level_of(bound)) is not None:
            return replace(self._member(bound, procedure, estimate, nats), number=number)
        trained = guess is None and known is not None
        return Prepared(
            bound, estimate if trained else self._own_guess(bound, guess), trained, procedure=procedure,
            estimate=estimate if trained else -1, failing=self._failing(bound, self.evaluator.before.surprises),
            number=number,
        )  # fmt: skip

    def _failing(self, bound: BoundQuery, surprises: Surprises) -> FailingShare | None:
        """Return the plan for telling the share of failing rows with a query's answer (S16).

        The result is None for a query without models, or a silent query.
        """
        reads_models = bound.row_value is None and not self.silent
        models = models_in(bound.description) if reads_models else ()
        if not models or (procedure := self.mechanism.failing_rows_procedure) is None:
            return None
        told = (
            entry.answer[FAILING][0] for entry in surprises()
            if FAILING in entry.answer and models_in(entry.description) == models
        )  # fmt: skip
        return FailingShare(next(told, 0.0), procedure)

    def _member(self, bound: BoundQuery, procedure: Procedure | None, estimate: int, nats: float) -> Prepared:
        """Prepare a member of a declared family, independent of guesses and of earlier answers (S10).

        If the same query was asked before the family was declared, or silently, the member is a new query.
        """
        member = replace(bound, description={**bound.description, "declared": True})
        if self.families.asked_of_tree(bound.query, member.query):
            bound = member
        assert procedure is not None
        if self.families.first_rows:
            procedure = _at_all_sizes(procedure, bound, nats, self.families, self.mechanism)
        else:
            at = estimate / self.mechanism.steps if estimate >= 0 else -1.0
            procedure = self.mechanism.procedure_at(procedure, at, nats)
        return Prepared(
            bound, estimate, from_training=False, procedure=procedure, estimate=estimate, declared=nats
        )  # fmt: skip

    def _of_member(self, known: BoundQuery, estimate: int, *, seen: Any = None) -> Procedure | None:
        """Return the interval procedure of a family member, with hedged bets if the spread of its values is unknown."""
        needs = needs_of(known, self.mechanism, self.schema, unseen=True)
        shown = self.schema.training_rows > 0 and known.trained
        if shown or needs == "total" or (known.by_position and needs == "cells"):  # public predictions show how far
            return self._procedure(known, own_guess=False, guess=estimate, seen=seen)
        return procedure_for(known, self.mechanism, self.schema, unseen=True)

    def _described(self, bound: BoundQuery, procedure: Procedure | None, estimate: int) -> Description | None:
        """Return the level and procedure of a query that pays by its description (S10), or None if it has none.

        Args:
            bound: The query, bound to the rows.
            procedure: Interval procedure of the query. None if the mechanism has none.
            estimate: The training estimate in grid units; negative if there is none.
        """
        if procedure is None or (nats := self.families.described_of(bound)) is None:
            return None
        if estimate < 0 and not procedure.width_is_known:
            return None
        at = estimate / self.mechanism.steps if estimate >= 0 else -1.0
        return Description(nats, self.mechanism.procedure_at(procedure, at, nats))

    def _procedure(self, bound: BoundQuery, *, own_guess: bool, guess: int, seen: Any = None) -> Procedure | None:
        """Return the interval procedure of a query, whose training values are known if the procedure needs them.

        Args:
            bound: The query, bound to the rows.
            own_guess: True if the guess is the analyst's own; False if it is the training estimate.
            guess: The guess in grid units; -1 if there is no guess.
            seen: Summary of the training rows that the procedure needs, if it is already computed.
        """
        if self.mechanism.traits.adds_noise:
            return None
        at = guess / self.mechanism.steps if guess >= 0 else None
        if bound.pair is not None and bound.pair.apart is not None:
            return self.procedure_apart(bound, own_guess=own_guess, guess=at)
        needs, schema = needs_of(bound, self.mechanism, self.schema), self.schema
        if self.evaluator.training is not None:
            rows = self.evaluator.training.counting(bound)
            if rows.rows != schema.training_rows:
                schema = replace(schema, training_rows=rows.rows)
            if needs != "total" and seen is None:
                group_by = self.mechanism.dependence.unit_column
                _, (seen,) = rows.evaluate([bound], [needs], group_by=group_by, unit=self.mechanism.unit)
        expected = at if own_guess else None
        independent = self.mechanism.traits.unsealable and self.mechanism.dependence.independent
        if seen is None and independent and not bound.yes_no:  # bet on, however values spread, which nothing shows
            from everhold.queries.predictions.public import likely_values

            likely = likely_values(bound, schema, self.evaluator.labels(), guess=expected)
            return Betting(rows=self.mechanism.rows, training=likely, guess=expected)
        return procedure_for(bound, self.mechanism, schema, training=seen, own_guess=own_guess, guess=expected)

    def procedure_apart(
        self, bound: BoundQuery, *, own_guess: bool = True, guess: float | None = None
    ) -> Procedure:  # fmt: skip
        """Return the procedure for a difference of two public arrays of predictions.

        ``own_guess`` is True if the guess is the analyst's own, and False if it is the training estimate.
        """
        if bound.pair is None or bound.pair.apart is None:
            raise TypeError(f"{bound.shown!r} is no difference of two arrays of predictions.")
        from everhold.queries.predictions.public import apart_procedure

        labels = self.evaluator.labels()
        return apart_procedure(bound, bound.pair.apart, self.schema, labels, own_guess=own_guess, guess=guess)

    def _own_guess(self, bound: BoundQuery, guess: float | None) -> int:
        """Return the analyst's guess in grid units, or -1 without a guess. Raise if the mechanism needs one."""
        if guess is None:
            if (
                self.mechanism.traits.needs_guess
                and not self.silent
                and not self.evaluator.before.answered(bound.query)
            ):
                raise QueryRejected(
                    f"The mechanism {self.mechanism.name} needs a guess for this query, and the training rows do not "
                    "give one. Pass guess=0.8 (--guess 0.8), or predictions for the training rows with training=... "
                    "(--training-predictions)."
                )
            return -1
        mean = bound.to_mean(as_float(guess))
        if not 0.0 <= mean <= 1.0:
            low, high = sorted((bound.at_zero, bound.at_one))
            raise QueryRejected(
                f"The guess is {brief(guess)}. Pass a number from {low} to {high}, the range of the query."
            )
        return round(mean * self.mechanism.steps)

    def requested(self, prepared: Prepared, tolerance: float) -> Prepared:
        """Return the query with a requested half-width as a part of its identity."""
        bound = prepared.bound
        width = abs(bound.at_one - bound.at_zero)
        if not 0.0 < as_float(tolerance) <= width:
            raise QueryRejected(f"tolerance is {brief(tolerance)}. Pass a positive half-width of at most {width:g}.")
        mechanism, requested = paying(self.mechanism), float(tolerance) / width
        try:
            mechanism.scale_for(requested)
        except ValueError as reason:
            raise QueryRejected(str(reason)) from None
        described = {**bound.description, "tolerance": float(tolerance)}
        shown = f"{bound.shown}, within {float(tolerance):g}"
        return replace(prepared, bound=replace(bound, description=described, shown=shown), tolerance=requested)


def _at_all_sizes(
    procedure: Procedure, bound: BoundQuery, nats: float, families: MemberLevels, mechanism: Mechanism
) -> Procedure:
    """Return the procedure of a member that holds at all numbers of rows at once (S14).

    Raises:
        QueryRejected: If the procedure has no form that holds at all numbers of rows. Nothing is charged.
    """
    found: Procedure | None
    if families.largest_group:
        sizes = mechanism.dependence.unit_counts
        found = groups_at_all_sizes(procedure, sizes=sizes, largest=families.largest_group)
    else:
        found = at_all_sizes(procedure, first_rows=families.first_rows, nats=nats)
    if found is None:
        raise QueryRejected(
            f"{bound.shown} has no interval that stays valid while rows arrive, and this holdout has grows=True. Ask "
            "about a condition, a mean or a rate."
        )
    return found


def learned(
    estimate: int,
    bound: BoundQuery,
    surprises: Surprises,
    steps: int,
) -> int:
    """Correct a training estimate by the errors of recent surprises, and return the guess in grid units.

    The correction is the mean of ``released - estimate`` over the last surprises of the same kind, shrunk towards 0. It
    is made if there are at least two of these surprises, all errors have the same sign, and none of the guesses had
    been corrected already: so a correction that fails is not repeated.

    Args:
        estimate: The training estimate in grid units of a sum over the sealed rows.
        bound: The query, bound to the rows, whose training estimate is corrected.
        surprises: Function that reads the entries of the latest surprises, newest first.
        steps: Grid units of a sum that make a mean of 1.
    """
    if bound.description.get("kind") not in _SCORES:
        return estimate
    found = _latest(bound, surprises)
    offs: list[float] = [entry.answer["value"] - entry.answer["estimate"] for entry in found]
    failed = any(entry.answer.get("guess", entry.answer["estimate"]) != entry.answer["estimate"] for entry in found)
    if failed or len(offs) < _FEWEST or min(offs) <= 0.0 <= max(offs):
        return estimate
    shift = sum(offs) / (len(offs) + _PRIOR)
    return min(max(estimate + round(shift * steps), 0), steps)


def worth_of_guesses(bound: BoundQuery, surprises: Surprises, *, rows: float, training: float, reach: float) -> float:
    """Return the number of training rows that explains the errors of guesses: all, or fewer after frequent surprises.

    If the last five surprises of the kind came within 50 entries of the ledger, the distance allowed for honest guesses
    becomes the median distance of these guesses, at most 2.5 times the usual one.

    Args:
        bound: The query, bound to the rows, for which guesses are judged.
        surprises: Function that reads the entries of the latest surprises, newest first.
        rows: Effective number of sealed rows.
        training: Effective number of training rows.
        reach: Distance from an honest guess within which a sealed mean is expected now.
    """
    if bound.description.get("kind") not in _SCORES or reach <= 0.0:
        return training
    found = _latest(bound, surprises)
    if len(found) < _REMEMBERED or found[0].sequence - found[-1].sequence > _FREQUENT:
        return training
    told = [entry.answer for entry in found]
    missed: list[float] = sorted(abs(answer["value"] - answer.get("guess", answer["estimate"])) for answer in told)
    wider = min(max(missed[len(missed) // 2] / reach, 1.0), _FURTHEST)
    return 1.0 / ((1.0 / rows + 1.0 / training) * wider * wider - 1.0 / rows)


def _latest(bound: BoundQuery, surprises: Surprises) -> list[Entry]:
    """Return the entries of the last few surprises of the same kind, newest first."""
    kind = _kind(bound.description)
    return [
        entry for entry in surprises()
        if _kind(entry.description) == kind and None not in map(entry.answer.get, ("estimate", "value"))
    ][:_REMEMBERED]  # fmt: skip


def _kind(description: Mapping[str, Any]) -> list[Any]:
    """Return the part of a description by which scores count as similar when errors of guesses are compared."""
    return [description.get(name) for name in _OF_MODELS]
