"""The metric of a competition at work: the query about a submission, and the one that compares two."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.gates.candidates import Candidate, procedure_for_gain
from everhold.gates.metrics import GateMetric, metric_description, metric_of
from everhold.gates.records import Champion
from everhold.queries.means.batch import Batch, OneMean, Prepared
from everhold.queries.metrics.difference import DifferenceQuery
from everhold.queries.metrics.label_query import LabelQuery
from everhold.queries.metrics.registry import METRICS
from everhold.queries.predictions.public import set_apart
from everhold.values.base import BoundQuery
from everhold_competitions.metric_checks import made_up, mean_facts, named, of_gate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.metrics.query import MetricQuery
    from everhold.queries.query import Query, QueryPlan
    from everhold.queries.query_compiler import QueryCompiler
    from everhold_competitions.competition import Competition

_AT_ONCE = 64  # comparisons of means that are evaluated together


@dataclass(frozen=True, slots=True)
class Entered:
    """Predictions that were checked.

    Attributes:
        digest: Their SHA-256.
        predictions: In the order of the rows.
        candidate: The same, as a gate compares it; None where the metric is no mean of row values.
    """

    digest: str
    predictions: NDArray[Any] = field(repr=False)
    candidate: Candidate | None = None


@dataclass(frozen=True)
class Scoring(ABC):
    """Scores and comparisons of submissions.

    Attributes:
        competition: What was fixed when the rows were sealed.
    """

    competition: Competition
    compiler: QueryCompiler

    @property
    @abstractmethod
    def facts(self) -> BoundQuery:
        """Facts that all queries about submissions share, such as their units."""

    @property
    @abstractmethod
    def higher_is_better(self) -> bool:
        """True if a larger score is a better one, in the units in which it is told."""

    @abstractmethod
    def query(self, predictions: Any, training: Any) -> Query[Any]:
        """The query about a submission."""

    @abstractmethod
    def entered(self, predictions: Any, training: Any) -> Entered:
        """Checked predictions, in the order of the rows; of the sealed rows their public ids alone are read."""

    @abstractmethod
    def finals(self, predictions: Mapping[str, NDArray[Any]]) -> Iterator[tuple[QueryPlan[Any], int]]:
        """Plans that are asked silently at the end: the scores, then the comparisons, each with its number of them.

        Args:
            predictions: Final ones by their SHA-256.
        """

    @abstractmethod
    def _described(self, predicted: str) -> dict[str, Any]:
        """Description of the query about predictions."""

    @abstractmethod
    def _pair_described(self, first: str, second: str) -> dict[str, Any]:
        """Description of the query that compares two predictions."""

    @property
    def rises(self) -> bool:
        """True if a larger number on the scale of the ledger, [0, 1], is a better one."""
        return self.higher_is_better == (self.facts.at_one > self.facts.at_zero)

    def score_digest(self, predicted: str) -> str:
        """SHA-256 of the query about predictions, by their own SHA-256."""
        return BoundQuery(self._described(predicted), "").query

    def comparison(self, first: str, second: str) -> tuple[str, bool]:
        """SHA-256 of the query how much better the first predictions are, and whether it is asked the other way."""
        of = self._ordered([first, second])
        return BoundQuery(self._pair_described(*of), "").query, of[0] != first

    def _ordered(self, predicted: list[str]) -> list[str]:
        return sorted(predicted, key=self.score_digest)


@dataclass(frozen=True)
class MeanScoring(Scoring):
    """Scores that are means of row values; two submissions are compared row by row."""

    @cached_property
    def metric(self) -> GateMetric:
        """The metric, as gates take it."""
        return metric_of(self.of_gate)

    @property
    def of_gate(self) -> str | Callable[..., LabelQuery]:
        """The metric by its name, or the loss, as a gate is opened with."""
        return of_gate(self.competition.metric)

    @cached_property
    def facts(self) -> BoundQuery:
        """See `Scoring.facts`."""
        return mean_facts(self.competition.metric, self.compiler.schema)

    @property
    def higher_is_better(self) -> bool:
        """See `Scoring.higher_is_better`: an error is a share of rows that were right, told upside down."""
        return (self.facts.at_fault == 0.0) == (self.facts.at_one > self.facts.at_zero)

    def query(self, predictions: Any, training: Any) -> Query[Any]:
        """See `Scoring.query`."""
        asked: Query[Any] = self.metric.make(predictions, training)
        return asked

    def entered(self, predictions: Any, training: Any) -> Entered:
        """See `Scoring.entered`."""
        candidate = Candidate.prepared(self.metric, predictions, training, self.compiler)
        assert candidate.predictions is not None
        return Entered(str(candidate.bound.description["predictions"]), candidate.predictions, candidate)

    def finals(self, predictions: Mapping[str, NDArray[Any]]) -> Iterator[tuple[QueryPlan[Any], int]]:
        """See `Scoring.finals`."""
        queries = {predicted: self.metric.make(each, None) for predicted, each in predictions.items()}
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
        """The paired difference of two final submissions: bet on where they differ (D1), or as a gate's challenge."""
        assert one is not None
        assert other is not None
        compiler = self.compiler
        bound = set_apart(asked.combined(one.bound, other.bound), compiler.schema, compiler.mechanism)
        if bound.pair is not None and bound.pair.apart is not None:
            return Prepared(bound, -1, from_training=False, procedure=compiler.planner.procedure_apart(bound))
        better, worse = (one, other) if one.rises else (other, one)  # then the gain is the difference of row values
        champion = Champion(worse.digest, np.zeros(0, dtype=np.int64), worse.training, worse.predictions)
        procedure = procedure_for_gain(better, champion, worse, compiler)
        return Prepared(bound, -1, from_training=False, procedure=procedure)

    def _described(self, predicted: str) -> dict[str, Any]:
        return {**metric_description(self.facts), "predictions": predicted}

    def _pair_described(self, first: str, second: str) -> dict[str, Any]:
        return {"kind": "difference", "of": [self._described(first), self._described(second)]}


@dataclass(frozen=True)
class NamedScoring(Scoring):
    """Scores of `everhold.metric`, each one query; two submissions are compared where such scores are.

    Descriptions are those of made-up predictions, with the SHA-256 of the real ones in their place.
    """

    @cached_property
    def facts(self) -> BoundQuery:
        """See `Scoring.facts`."""
        return self._bound(self.query(self._made_up[0], None))

    @property
    def higher_is_better(self) -> bool:
        """See `Scoring.higher_is_better`."""
        name, _ = self._score
        return METRICS[name].greater

    def query(self, predictions: Any, training: Any) -> Query[Any]:
        """See `Scoring.query`."""
        return self._asked(predictions, training)

    def entered(self, predictions: Any, training: Any) -> Entered:
        """See `Scoring.entered`."""
        rows = self.compiler.placed(self._asked(predictions, training).models[0])
        digest = rows.bind(self.compiler.schema).description["predictions"]
        given = rows.given(self.compiler.schema)
        assert given is not None
        return Entered(digest, given)

    def finals(self, predictions: Mapping[str, NDArray[Any]]) -> Iterator[tuple[QueryPlan[Any], int]]:
        """See `Scoring.finals`."""
        silently = self.compiler.silently()
        for each in predictions.values():
            yield silently.compile(self.query(each, None), None, None), 1
        if self._pair is None:
            return
        for first, second in combinations(self._ordered([*predictions]), 2):
            yield silently.compile(self._difference(predictions[first], predictions[second]), None, None), 1

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

    def _asked(self, predictions: Any, training: Any) -> MetricQuery:
        return named(self._score, predictions, training)

    def _difference(self, first: Any, second: Any) -> Query[Any]:
        return self._asked(first, None).minus(self._asked(second, None))

    @cached_property
    def _made_up(self) -> tuple[NDArray[Any], NDArray[Any]]:
        outputs = METRICS[self._score[0]].outputs
        first, second = (made_up(outputs, self.compiler.schema, last=last) for last in (False, True))
        return first, second

    @cached_property
    def _digests(self) -> tuple[str, str]:
        """SHA-256 of the made-up predictions."""
        first, second = (self.entered(each, None).digest for each in self._made_up)
        return first, second

    @cached_property
    def _pair(self) -> BoundQuery | None:
        """The query that compares made-up predictions; None where two submissions are compared by their scores."""
        if not self.competition.comparisons:
            return None
        try:
            return self._bound(self._difference(*self._made_up))
        except QueryRejected:  # as a difference in F1 is where rows come in groups
            return None

    def _bound(self, query: Query[Any]) -> BoundQuery:
        plan = self.compiler.silently().compile(query, None, None)
        assert isinstance(plan, OneMean)
        return plan.prepared[0].bound


def scoring_of(competition: Competition, compiler: QueryCompiler) -> Scoring:
    """The scoring of a competition's submissions."""
    return (MeanScoring if competition.score is None else NamedScoring)(competition, compiler)


def _renamed(described: Any, names: Mapping[str, str]) -> Any:
    """A description with other SHA-256 in the place of some."""
    if isinstance(described, Mapping):
        return {name: _renamed(value, names) for name, value in described.items()}
    if isinstance(described, (list, tuple)):
        return [_renamed(value, names) for value in described]
    return names.get(described, described) if isinstance(described, str) else described
