"""Builds the queries of a competition: the score of a submission, and the comparison of two submissions.

Before there is any submission, queries about made-up predictions check that the metric suits the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, combinations, islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from everhold.errors import HoldoutRejected, QueryRejected
from everhold.gates.candidates import Candidate, GateMetric, metric_of
from everhold.gates.records import Champion
from everhold.queries.interval_planner import Prepared
from everhold.queries.means.combined import DifferenceQuery
from everhold.queries.means.plans import Batch, OneMean
from everhold.queries.metrics.label_query import LabelQuery
from everhold.queries.metrics.measures import measure_of
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.row_scores import risk
from everhold.queries.predictions.public import set_apart
from everhold.queries.statistic import joined
from everhold.values.base import BoundQuery

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.metrics.query import MetricQuery
    from everhold.queries.query import Query, QueryPlan
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.values.base import Schema
    from everhold_competitions.competition import Competition


_AT_ONCE, _NUMBERS_AT_ONCE = 64, 32  # means, and other scores, that are evaluated together


@dataclass(frozen=True, slots=True)
class Entered:
    """Predictions of a submission that passed all checks, with their SHA-256.

    Attributes:
        digest: SHA-256 of the predictions.
        predictions: Predictions in the order of the rows.
        candidate: Predictions in the form in which a gate compares them. None if the metric is not a mean of row
            values.
        public: Predictions for the public rows. None without public rows.
        public_digest: SHA-256 of the predictions for the public rows. Empty without public rows.
    """

    digest: str
    predictions: NDArray[Any] = field(repr=False)
    candidate: Candidate | None = None
    public: Any = field(default=None, repr=False)
    public_digest: str = ""


@dataclass(frozen=True)
class Scoring(ABC):
    """Base of classes that build a competition's queries for scores and comparisons.

    Attributes:
        competition: Terms that were fixed when the rows were sealed.
    """

    competition: Competition
    compiler: QueryCompiler

    @property
    @abstractmethod
    def facts(self) -> BoundQuery:
        """Query with the unit, range and direction that the scores of all submissions have."""

    @property
    @abstractmethod
    def higher_is_better(self) -> bool:
        """True if a larger score is better, in the units in which teams see it."""

    @abstractmethod
    def query(self, predictions: Any, training: Any) -> Query[Any]:
        """Return the query for the score of a submission."""

    @abstractmethod
    def rows(self, predictions: Any) -> LabelQuery:
        """Return the query that compares a submission's predictions with the labels row by row."""

    @abstractmethod
    def entered(self, predictions: Any, training: Any) -> Entered:
        """Check predictions, and return them in the order of the rows with their digest.

        Of the sealed rows, only their public ids are read.
        """

    @abstractmethod
    def finals(self, predictions: Mapping[str, NDArray[Any]]) -> Iterator[tuple[QueryPlan[Any], int]]:
        """Yield the query plans of the final board, scores before comparisons, with their numbers of queries.

        Args:
            predictions: Predictions of all final submissions, by their SHA-256.
        """

    @abstractmethod
    def _described(self, predicted: str) -> dict[str, Any]:
        """Return the description of the score query about the predictions with this SHA-256."""

    @abstractmethod
    def _pair_described(self, first: str, second: str) -> dict[str, Any]:
        """Return the description of the query that compares the predictions with these two SHA-256."""

    @property
    def standing(self) -> float | None:
        """Public score that counts as a team's best before its first submission.

        It is None if the first score of a team is always shown.
        """
        return None

    @property
    def rises(self) -> bool:
        """True if a larger number is better on the scale from 0 to 1 that the ledger uses."""
        return self.higher_is_better == (self.facts.at_one > self.facts.at_zero)

    def score_digest(self, predicted: str) -> str:
        """Return the SHA-256 of the score query about predictions, given the SHA-256 of the predictions."""
        return BoundQuery(self._described(predicted), "").query

    def comparison(self, first: str, second: str) -> tuple[str, bool]:
        """Return the SHA-256 of the query that compares two submissions, and whether it has them in reverse order."""
        of = self._ordered([first, second])
        return BoundQuery(self._pair_described(*of), "").query, of[0] != first

    def _ordered(self, predicted: list[str]) -> list[str]:
        return sorted(predicted, key=self.score_digest)


@dataclass(frozen=True)
class MeanScoring(Scoring):
    """Scoring by a mean of row values, by which two submissions are compared row by row."""

    @cached_property
    def metric(self) -> GateMetric:
        """The metric as an object that gates use."""
        return metric_of(self.of_gate)

    @property
    def of_gate(self) -> str | Callable[..., LabelQuery]:
        """The metric in the form that a gate takes: its name, or a loss function."""
        return of_gate(self.competition.metric)

    @cached_property
    def facts(self) -> BoundQuery:
        """Query that has the unit, range and direction of every submission's score."""
        return mean_facts(self.competition.metric, self.compiler.schema)

    @property
    def higher_is_better(self) -> bool:
        """True if a larger score is better, in the units in which teams see it."""
        return (self.facts.at_fault == 0.0) == (self.facts.at_one > self.facts.at_zero)

    def query(self, predictions: Any, training: Any) -> Query[Any]:
        """Return the query for the score of a submission."""
        return self.metric.query(predictions, training)

    def rows(self, predictions: Any) -> LabelQuery:
        """Return the query that compares a submission's predictions with the labels row by row."""
        made = self.metric.query(predictions, None)
        assert isinstance(made, LabelQuery)
        return made

    def entered(self, predictions: Any, training: Any) -> Entered:
        """Check predictions, and return them in the order of the rows with their digest."""
        candidate = Candidate.prepared(self.metric, predictions, training, self.compiler)
        assert candidate.predictions is not None
        return Entered(str(candidate.bound.description["predictions"]), candidate.predictions, candidate)

    def finals(self, predictions: Mapping[str, NDArray[Any]]) -> Iterator[tuple[QueryPlan[Any], int]]:
        """Yield the query plans of the final board, scores before comparisons, with their numbers of queries."""
        queries = {predicted: self.rows(each) for predicted, each in predictions.items()}
        scores = self.compiler.silently().prepare([*queries.values()], None)
        yield self._silently(scores), len(scores)
        entered = {predicted: self.entered(each, None).candidate for predicted, each in predictions.items()}
        pairs = list(combinations(self._ordered([*queries]), 2))
        for start in range(0, len(pairs), _AT_ONCE):
            some = pairs[start : start + _AT_ONCE]
            compared = [
                self._compared(DifferenceQuery(queries[one], queries[other]), entered[one], entered[other])
                for one, other in some
            ]
            yield self._silently(compared), len(some)

    def _silently(self, prepared: list[Prepared]) -> Batch:
        return Batch(prepared, self.compiler.schema, self.compiler.mechanism, silent=True)

    def _compared(self, asked: DifferenceQuery, one: Candidate | None, other: Candidate | None) -> Prepared:
        """Return the query for the paired difference of two final submissions, with its interval procedure.

        The procedure bets on the rows on which the two submissions differ (D1), or is that of a gate's challenge.
        """
        assert one is not None
        assert other is not None
        compiler = self.compiler
        bound = set_apart(asked.combined(one.bound, other.bound), compiler.schema, compiler.mechanism)
        if bound.pair is not None and bound.pair.apart is not None:
            return Prepared(bound, -1, from_training=False, procedure=compiler.planner.procedure_apart(bound))
        better, worse = (one, other) if one.rises else (other, one)  # then the gain is the difference of row values
        champion = Champion(worse.bound.query, np.zeros(0, dtype=np.int64), worse.training, worse.predictions)
        procedure = better.against(champion, self.metric, compiler).procedure
        return Prepared(bound, -1, from_training=False, procedure=procedure)

    def _described(self, predicted: str) -> dict[str, Any]:
        return {**self.metric.described(self.facts), "predictions": predicted}

    def _pair_described(self, first: str, second: str) -> dict[str, Any]:
        return {"kind": "difference", "of": [self._described(first), self._described(second)]}


@dataclass(frozen=True)
class NamedScoring(Scoring):
    """Scoring by a score of `everhold.metric`, one query for each submission.

    Two submissions are compared by a query where the score allows that.

    Descriptions are those of made-up predictions, with the SHA-256 of the real ones in their place.
    """

    @cached_property
    def facts(self) -> BoundQuery:
        """Score query about made-up predictions, with the unit, range and direction of every submission's score."""
        return self._bound(self.query(self._made_up[0], None))

    @property
    def higher_is_better(self) -> bool:
        """True if a larger score is better, in the units in which teams see it."""
        name, _ = self._score
        return METRICS[name].greater

    def query(self, predictions: Any, training: Any) -> MetricQuery:
        """Return the query for the score of a submission."""
        return named(self._score, predictions, training)

    def rows(self, predictions: Any) -> LabelQuery:
        """Return the query that compares a submission's predictions with the labels row by row."""
        return self.query(predictions, None).models[0]

    def entered(self, predictions: Any, training: Any) -> Entered:
        """Check predictions, and return them in the order of the rows with their digest."""
        bound = self.query(predictions, training).models[0].placed(self.compiler).bind(self.compiler.schema)
        given = bound.predictions
        assert given is not None
        return Entered(bound.description["predictions"], given)

    def finals(self, predictions: Mapping[str, NDArray[Any]]) -> Iterator[tuple[QueryPlan[Any], int]]:
        """Yield the query plans of the final board, scores before comparisons, with their numbers of queries."""
        silently, asked = self.compiler.silently(), {each: self.query(of, None) for each, of in predictions.items()}
        pairs = [] if self._pair is None else list(combinations(self._ordered([*asked]), 2))
        queries = chain(asked.values(), (asked[first].minus(asked[second]) for first, second in pairs))
        while plans := [silently.compile(query, None, None) for query in islice(queries, _NUMBERS_AT_ONCE)]:
            yield from ((plan, len(plan.asked)) for plan in joined(plans))

    @property
    def standing(self) -> float | None:
        """Worst possible score for a ratio metric, None for another metric. A query about a ratio needs a guess."""
        if not METRICS[self._score[0]].rate:
            return None
        return self.facts.at_zero if self.rises else self.facts.at_one

    def _described(self, predicted: str) -> dict[str, Any]:
        return dict(_renamed(self.facts.description, {self._digests[0]: predicted}))

    def _pair_described(self, first: str, second: str) -> dict[str, Any]:
        if self._pair is None:  # such a query is never asked
            return {"kind": "difference", "of": [self._described(first), self._described(second)]}
        return dict(_renamed(self._pair.description, dict(zip(self._digests, (first, second), strict=True))))

    @property
    def _score(self) -> tuple[str, dict[str, float]]:
        score = self.competition.score
        assert score is not None
        return score

    @cached_property
    def _made_up(self) -> tuple[NDArray[Any], NDArray[Any]]:
        outputs = METRICS[self._score[0]].outputs
        first, second = (made_up(outputs, self.compiler.schema, last=last) for last in (False, True))
        return first, second

    @cached_property
    def _digests(self) -> tuple[str, str]:
        """SHA-256 of both sets of made-up predictions."""
        first, second = (self.entered(each, None).digest for each in self._made_up)
        return first, second

    @cached_property
    def _pair(self) -> BoundQuery | None:
        """Query that compares two made-up submissions, None if submissions cannot be compared by a query."""
        if not self.competition.comparisons:
            return None
        try:
            first, second = (self.query(each, None) for each in self._made_up)
            return self._bound(first.minus(second))
        except QueryRejected:  # as a difference in F1 is where rows come in groups
            return None

    def _bound(self, query: Query[Any]) -> BoundQuery:
        if self.compiler.mechanism.traits.unsealable:
            plan = self.compiler.silently().compile(query, None, None)
        else:  # where public scores are told
            plan = self.compiler.compile(query, 0.5 if METRICS[self._score[0]].rate else None, None)
        assert isinstance(plan, OneMean)
        return plan.prepared[0].bound


def scoring_of(competition: Competition, compiler: QueryCompiler) -> Scoring:
    """Return the scoring that fits the metric of a competition."""
    return (MeanScoring if competition.score is None else NamedScoring)(competition, compiler)


def _renamed(described: Any, names: Mapping[str, str]) -> Any:
    """Return a copy of a query description in which SHA-256 values are replaced by others."""
    if isinstance(described, Mapping):
        return {name: _renamed(value, names) for name, value in described.items()}
    if isinstance(described, (list, tuple)):
        return [_renamed(value, names) for value in described]
    return names.get(described, described) if isinstance(described, str) else described


Score = tuple[str, dict[str, float]]
"""A score by its name, with its settings."""


def check_metric(metric: str | Mapping[str, Any], score: Score | None, schema: Schema) -> None:
    """Check that submissions can be scored by the metric, and raise HoldoutRejected if not.

    Raises:
        HoldoutRejected: If the metric does not suit the labels, or a range is missing. Nothing was created.
    """
    if isinstance(metric, Mapping) and metric.get("loss") == "log" and schema.label_kind != "binary":
        raise HoldoutRejected(
            "A logarithmic loss ranks a board of labels 0 and 1 alone. Rank by another metric of classes."
        )
    try:
        if score is None:
            mean_facts(metric, schema)
        else:
            from everhold.queries.metrics.query import check_ordered, dealt_by

            asked = named(score, made_up(METRICS[score[0]].outputs, schema, last=False), None)
            check_ordered(asked.metric)
            asked.check_labels(schema)
            asked.setting(schema, None)
            if measure_of(asked.metric).by_rank:
                dealt_by(asked.metric.title or asked.metric.name, schema, None, known=True)
    except QueryRejected as reason:
        raise HoldoutRejected(reason.message) from None


def of_gate(metric: str | Mapping[str, Any]) -> str | Callable[..., LabelQuery]:
    """Return the metric in the form that gates accept: its name, or a loss function with its settings."""
    return partial(risk, **metric) if isinstance(metric, Mapping) else metric


def mean_facts(metric: str | Mapping[str, Any], schema: Schema) -> BoundQuery:
    """Return the query about made-up predictions, which has the units and description that all submissions share."""
    made = metric_of(of_gate(metric)).query(made_up("classes", schema, last=False), None)
    assert isinstance(made, LabelQuery)
    return made.bind(schema)


def named(score: Score, predictions: Any, training: Any) -> MetricQuery:
    """Return the query about a score, from its name and settings and a submission's predictions."""
    from everhold.queries.metrics.query import MetricQuery

    name, settings = score
    return MetricQuery.of(METRICS[name], predictions, training, settings)


def made_up(outputs: str, schema: Schema, *, last: bool) -> NDArray[Any]:
    """Return made-up predictions that are valid for a score, shape (rows,).

    If `last` is true, other predictions are returned than if it is false.
    """
    if outputs == "scores":
        return np.arange(schema.rows)[:: -1 if last else 1].astype(np.float64)
    if outputs in ("probability", "numbers"):
        return np.full(schema.rows, 1.0 if last else 0.0)
    classes = schema.label_classes
    place: Literal[-1, 0] = -1 if last else 0
    value = classes[place] if classes else str(last) if schema.label_kind == "string" else float(last)
    return np.full(schema.rows, value)
