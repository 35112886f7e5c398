"""Is the challenger better than the champion? A challenge of a gate, which tells only whether it is proved.

The question is the mean of the paired difference of two row-wise measures, in [-1, 1]. Its row value is put into
[0, 1] as ``(1 + gain) / 2``. The answer is *promoted*, if the lower limit of the mean gain exceeds the margin at the
node's own level, or *kept*, which promises nothing. No value is told, so a kept challenge is free and a promotion costs
one surprise and no label (docs/theory, the gate).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.answers import QuotedPrice
from everhold.arguments import as_float, brief
from everhold.dependence import Groups
from everhold.errors import QueryRejected
from everhold.estimand import about_of, marked
from everhold.guarantees.intervals.betting import Betting, GroupBetting
from everhold.guarantees.intervals.gain_difference import GAINS, gain_of
from everhold.guarantees.intervals.means import Chernoff, Hoeffding
from everhold.guarantees.intervals.outcome_gain import OutcomeGain
from everhold.guarantees.intervals.sign_test import SignTest
from everhold.ledger import EntryDraft, Outcome
from everhold.ledger.allotments import Accounts
from everhold.ledger.gates import PROMOTED, Gates
from everhold.mechanisms import GuessAndCheck, Source
from everhold.mechanisms.evaluations import Evaluations
from everhold.queries.metrics import LabelQuery, accuracy, brier, error
from everhold.queries.outcomes import OutcomeQuery
from everhold.queries.question import MOST_SHOWN, ExecutionResult, Outdated, Pricing, QueryPlan, digest
from everhold.queries.readings import GAIN_WIDTH
from everhold.queries.risk import risk
from everhold.queries.score_means import MEANS, why_no_mean
from everhold.queries.verdict import Decision, Verdict
from everhold.sealing.model_store import Champion, ModelStore, Written
from everhold.sealing.sums import cells_of
from everhold.values.evaluation import clip_to_grid

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.ledger import Entry
    from everhold.ledger.gates import GateAccount
    from everhold.mechanisms import Mechanism, State
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.randomness import Noise
    from everhold.sealing.table import StoredRows
    from everhold.values.base import BoundQuery, Schema

__all__ = [
    "GATE_METRICS",
    "Candidate",
    "Challenge",
    "GateMetric",
    "challenge_of",
    "check_gates",
    "check_outcomes",
    "checked_margin",
    "metric_in_words",
    "metric_of",
    "paired",
    "procedure_for_gain",
    "verdict",
]

_OF_CANDIDATES = ("predictions", "estimator", "rule", "on_public_rows")
"""Fields of a query's description that are the candidate's; all others are the metric's."""

_NAMED: Mapping[str, Callable[..., LabelQuery]] = {
    "accuracy": accuracy, "error": error, "brier": brier, "risk": risk,
    **{name: partial(OutcomeQuery, name) for name in GAINS},
}  # fmt: skip

_FINE_GRID = 2**12  # steps with which a pair of outcomes lies well inside its cell

GATE_METRICS = (*MEANS, *GAINS)
"""Names of metrics that gates about rows compare by."""


def named_metric(name: str) -> Callable[..., LabelQuery] | None:
    """A metric by its name, also the one that scikit-learn has for it; None if gates do not compare by it."""
    if name in GAINS:
        return _NAMED[name]
    mean = MEANS.get(name, name)
    return _NAMED.get(mean) if isinstance(mean, str) else partial(risk, **mean)


@dataclass(frozen=True, slots=True)
class GateMetric:
    """Metric of a gate.

    Attributes:
        make: From a candidate, and its predictions for the training rows or None, to the question about it.
        description: Public and canonical, as far as it is known before there is a candidate.
    """

    make: Callable[[Any, Any], LabelQuery]
    description: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A champion or challenger that can be compared.

    Attributes:
        bound: The question about it alone.
        predictions: Shape (rows,): its predictions where they are an array; else None.
        training: Shape (training rows,): its row values on the training rows in grid units; None where unknown.
    """

    bound: BoundQuery
    predictions: NDArray[Any] | None = field(repr=False)
    training: NDArray[np.int64] | None = field(repr=False)

    @classmethod
    def prepared(cls, metric: GateMetric, predictions: Any, training: Any, compiler: QueryCompiler) -> Candidate:
        """A candidate for the rows of one holdout, tried on public rows where it is an estimator.

        Raises:
            QueryRejected: If it cannot be compared, or the metric is another one. Nothing is charged.
        """
        query = metric.make(predictions, training)
        if not isinstance(query, LabelQuery):
            raise _no_metric(query)
        query = compiler.placed(query)
        bound = compiler.bind(query)
        described = metric_description(bound)
        if metric.description is not None and described != metric.description:
            raise QueryRejected(
                f"the gate compares by {metric_in_words(metric.description)} and the candidate was given with another "
                "metric; expected the metric that the gate was opened with; a loss that is a function is the same "
                "again only under a name (name=...); nothing was charged"
            )
        values = bound.training_values
        if values is None and bound.trained and compiler.training is not None:
            values = compiler.training.row_values(bound, unit=compiler.mechanism.unit)
        return cls(bound, query.given(compiler.schema), values)

    @property
    def digest(self) -> str:
        """SHA-256 of the question about it."""
        return self.bound.question

    @property
    def metric(self) -> dict[str, Any]:
        """The metric's part of its description."""
        return metric_description(self.bound)

    @property
    def width(self) -> float:
        """Width of a row value of 1 in the metric's units."""
        return abs(self.bound.at_one - self.bound.at_zero)

    @property
    def by_position(self) -> bool:
        """True if it is a prediction for each of these rows, and no estimator."""
        return self.bound.by_position

    @property
    def rises(self) -> bool:
        """True if higher row values are better: a row on which it fails is given the worst one."""
        return self.bound.at_fault == 0.0

    def with_labels(self, labels: NDArray[Any], *, unit: int) -> NDArray[np.int64]:
        """Its row values in grid units if these were the labels; of predictions by position, so it is public."""
        assert self.bound.sealed is not None
        assert self.bound.reads is not None
        (label,) = self.bound.reads
        return clip_to_grid(np.asarray(self.bound.sealed({label: labels})), unit=unit, fault=self.bound.at_fault)

    def as_champion(self, values: NDArray[np.int64]) -> Champion:
        """Values kept of a challenger that is promoted."""
        return Champion(self.digest, values, self.training, self.predictions)


@dataclass(frozen=True)
class Challenge(QueryPlan[Verdict]):
    """A challenge of the champion that a gate has now.

    Attributes:
        gate: The gate as it was when the challenge was prepared.
        candidate: The challenger.
        champion: The champion. Secret.
        procedure: How the interval of the mean gain is made; decided by public facts.
        schema: What is known of the rows.
        mechanism: The mechanism that answers.
        champions: Where champions are kept.
        keeping: For so many silent questions there has to be room afterwards.
    """

    gate: GateAccount
    candidate: Candidate
    champion: Champion = field(repr=False)
    procedure: Procedure
    schema: Schema
    mechanism: Mechanism
    champions: ModelStore = field(repr=False)
    keeping: int = 0

    def silently(self) -> Self:
        """Refused: a gate that told nothing could not go on with a better model.

        Raises:
            QueryRejected: Always. Nothing is charged.
        """
        raise QueryRejected(
            "a challenge cannot be asked silently, because its verdict is which champion the next one has to beat; "
            "expected a challenge without silent=True; a verdict tells no numbers, and those come with unseal(); "
            "nothing was charged"
        )

    @cached_property
    def asked(self) -> Sequence[EntryDraft]:  # type: ignore[override]  # an attribute that is made when it is needed
        """One entry."""
        public = {**challenge_of(self.gate, self.gate.champion, self.candidate.digest), "margin": self.gate.margin}
        described = {**public, **_kept_width(self.candidate.width), "shown": self.shown[:MOST_SHOWN]}
        return [EntryDraft(self.question, marked(described, by_position=self.by_position))]

    @property
    def question(self) -> str:
        """SHA-256 of gate, champion and challenger."""
        return digest(challenge_of(self.gate, self.gate.champion, self.candidate.digest))

    @property
    def shown(self) -> str:
        """The challenge as people read it."""
        return f"gate {self.gate.name!r}: {self.candidate.bound.shown} against champion {self.gate.champion[:8]}"

    @property
    def by_position(self) -> bool:
        """True if one of the two is a prediction for each of these very rows."""
        return self.candidate.by_position or self.champion.by_position

    @property
    def pricing(self) -> Pricing:  # type: ignore[override]
        """A surprise at most."""
        return Pricing.planned(self.mechanism, None, keeping=self.keeping)

    def room(self, accounts: Accounts, count: int) -> int:
        """As many as the gate's own limit allows.

        Raises:
            Outdated: If the gate has another champion by now.
        """
        now = accounts.of(Gates).by_name.get(self.gate.name)
        if now is None or now.champion != self.gate.champion:
            raise Outdated
        return min(count, now.left)

    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> tuple[Evaluations, Written]:
        """The exact sum of the paired row values, and the challenger's file, in case it is promoted."""
        unit, procedure = self.mechanism.unit, self.procedure
        values = sealed.row_values(self.candidate.bound, unit=unit)
        written = self.champions.written(self.candidate.as_champion(values))  # for every verdict: failing tells nothing
        if isinstance(procedure, OutcomeGain):
            both = procedure.paired(values, self.champion.values, unit=unit)
        else:
            both = paired(values, self.champion.values, rises=self.candidate.rises, unit=unit)
        total, seen = sealed.summary(
            procedure.needs, both, group_by=self.mechanism.dependence.group_column, unit=unit
        )  # fmt: skip
        evaluations = Evaluations(
            totals=np.array([[total]], dtype=np.int64),
            guesses=np.array([-1], dtype=np.int64),
            rows=self.schema.rows,
            unit=unit,
            procedures=[procedure],
            seen=[seen],
            margins=np.array([(1.0 + self.gate.margin) / 2.0 + self.mechanism.row_step]),  # what the grid may hide
        )
        return evaluations, written

    def answer(
        self, state: State, seen: tuple[Evaluations, Written], rows: list[int], noise: Noise
    ) -> tuple[State, list[Outcome]]:
        """The mechanism's verdict; a promoted challenger is kept before the verdict is told.

        The entry says what made the limit: the node's level, all of which is on one side, and the stakes for it.
        """
        evaluations, written = seen
        state, replies = self.mechanism.answer_many(state, evaluations.some(rows), noise)
        source = Source(int(replies.sources[0])).name.lower()
        promoted = source == PROMOTED
        self.champions.settle(written, kept=promoted)
        low = self.gate.margin if promoted else None
        answer: dict[str, Any] = {"value": None, "low": low, "high": None, "source": source}
        nats = float(replies.nats[0])
        if not math.isnan(nats):
            by = {"by": self.procedure.name, "nats": nats, "one_sided": True}
            answer["node"] = {**by, **self.procedure.stakes(nats - math.log(2.0))}
        kept = np.clip(replies.sealed[0], 0.0, 1.0).tolist()  # one-sided: the upper end is 1
        if isinstance(self.procedure, OutcomeGain) and evaluations.seen is not None:
            kept[0] = (1.0 + self.procedure.gain(evaluations.seen[0])) / 2.0
        return state, [Outcome(answer, int(replies.charged[0]), None if kept[0] != kept[0] else tuple(kept))]

    def present(self, told: ExecutionResult) -> Verdict:
        """The verdict in the metric's units."""
        decision = Decision.of_challenge(self.gate, told, question=self.question, shown=self.shown)
        about = about_of(self.schema, by_position=self.by_position)
        return verdict(decision, self.candidate, told, confidence=self.mechanism.confidence, about=about)

    def quote(self, state: State, stored: Sequence[Entry | None]) -> QuotedPrice:
        """Free if kept, a surprise if promoted; there is no half-width."""
        (entry,) = stored
        before = entry is not None
        return QuotedPrice(self.question, None, None, 0, 0 if before else 1, False, before, {})


def _kept_width(width: float) -> dict[str, float]:
    """Worth of a gain of 1, for readers of the ledger; empty where it is 1."""
    return {} if width == 1.0 else {GAIN_WIDTH: width}


def procedure_for_gain(
    challenger: Candidate, champion: Champion, public: Candidate | None, compiler: QueryCompiler
) -> Procedure:
    """Procedure for the interval of the mean gain, from public facts.

    Of two public arrays for two classes one is right wherever they differ: the exact sign test. Otherwise both
    candidates' values on the training rows say how far gains spread; where there are none, but both are public arrays,
    these do. If not, nothing is known but that gains lie in [-1, 1].

    Args:
        challenger: The challenger.
        champion: The champion; of it only what is public is used.
        public: The champion as a candidate, where it is an array of predictions; else None.
        compiler: Knows the training rows.
    """
    mechanism, schema = compiler.mechanism, compiler.schema
    dependence, unit, rises = mechanism.dependence, mechanism.unit, challenger.rises
    independent, group_by = dependence.binomial_tails, dependence.group_column
    if (score := challenger.metric["kind"]) in GAINS:
        return gain_of(str(score), schema.rows)
    if independent and public is not None and _is_sign(challenger, schema):
        differing = int(np.count_nonzero(challenger.predictions != public.predictions))
        return SignTest(rows=schema.rows, training=schema.rows, differing=differing)
    if compiler.training is not None and champion.training is not None and challenger.training is not None:
        gains = paired(challenger.training, champion.training, rises=rises, unit=unit)
        if independent:
            return Betting(rows=mechanism.rows, training=cells_of(gains, unit=unit))
        if isinstance(dependence, Groups) and group_by is not None:
            _, known = compiler.training.summary("groups", gains, group_by=group_by, unit=unit)
            return GroupBetting(sizes=dependence.counts, training=known)
    if independent and public is not None and challenger.predictions is not None:
        possible = _labels_that_matter(challenger, public, schema)
        if possible:
            gains = np.concatenate([
                paired(challenger.with_labels(labels, unit=unit), public.with_labels(labels, unit=unit), rises=rises,
                       unit=unit)
                for labels in possible
            ])  # fmt: skip
            return Betting(rows=mechanism.rows, training=cells_of(gains, unit=unit))
    rows = mechanism.effective_rows(schema.rows)
    return (Chernoff if independent else Hoeffding)(rows=rows, training=rows)


def _is_sign(challenger: Candidate, schema: Schema) -> bool:
    """True if every gain is the sign of who is right, as for accuracies of public predictions for two classes."""
    accuracies = challenger.metric["kind"] == "accuracy" and schema.label_kind == "binary"
    return accuracies and challenger.predictions is not None


def _labels_that_matter(challenger: Candidate, champion: Candidate, schema: Schema) -> list[NDArray[Any]]:
    """Labels, one for each row, between which gains lie; none where the possible labels are unknown."""
    if schema.label_kind == "binary":
        return [np.zeros(schema.rows), np.ones(schema.rows)]
    if challenger.metric["kind"] != "accuracy":
        return []
    assert challenger.predictions is not None
    assert champion.predictions is not None
    return [champion.predictions, challenger.predictions]


def verdict(
    decision: Decision, candidate: Candidate, told: ExecutionResult, *, confidence: float, about: str | None
) -> Verdict:  # fmt: skip
    """The verdict that tells a decision in the units of a candidate's metric."""
    width, gate = candidate.width, decision.gate
    return decision.verdict(
        told, confidence=confidence, margin=gate.margin * width, high=width, metric=metric_in_words(gate.metric),
        about=about,
    )  # fmt: skip


def challenge_of(gate: GateAccount, champion: str, challenger: str) -> dict[str, Any]:
    """Identity of a challenge: gate, champion and challenger."""
    return {"kind": "challenge", "gate": gate.name, "champion": champion, "challenger": challenger}


def paired(challenger: NDArray[np.int64], champion: NDArray[np.int64], *, rises: bool, unit: int) -> NDArray[np.int64]:
    """Row values ``(1 + gain) / 2`` of the challenger's gain over the champion, in grid units, rounded down.

    Args:
        challenger: Shape (rows,), in grid units.
        champion: Shape (rows,), in grid units.
        rises: Whether higher row values are better.
        unit: Grid steps between 0 and 1.

    Examples:
        >>> paired(np.array([4, 0, 4]), np.array([0, 4, 4]), rises=True, unit=4)
        array([4, 0, 2])
    """
    gain = challenger - champion if rises else champion - challenger
    return np.asarray((unit + gain) // 2)


def check_gates(mechanism: Mechanism) -> None:
    """Check that a mechanism can promise what a gate says.

    Raises:
        QueryRejected: If it cannot. Nothing is charged.
    """
    if not isinstance(mechanism, GuessAndCheck):
        raise QueryRejected(
            f"{mechanism.name} cannot keep a gate: what a gate promises rests on counting all courses that questions "
            "and answers can take, each with its own exact interval, and the answers of this mechanism are not of that "
            "kind; expected a holdout that was created with mechanism='guess_and_check'; nothing was charged"
        )


def check_outcomes(candidate: Candidate, mechanism: Mechanism) -> None:
    """Check that the rows of a holdout can compare by a score of outcomes, where that is the metric.

    Raises:
        QueryRejected: If they cannot. Nothing is charged.
    """
    score = candidate.metric["kind"]
    if score not in GAINS or (mechanism.dependence.binomial_tails and mechanism.unit >= _FINE_GRID):
        return
    raise QueryRejected(
        f"a gate compares {score} on independent rows with the default grid, and this holdout has others; expected a "
        "metric that is a mean, such as accuracy; nothing was changed"
    )


def metric_of(metric: Any, known: Mapping[str, Any] | None = None) -> GateMetric:
    """A metric as an analyst names it.

    Args:
        metric: One of `GATE_METRICS`, ``"risk"``, one of the functions `accuracy`, `error` and `brier`, or a function
            from a candidate to such a question. None for the one that is known.
        known: The description of the gate's metric, where there is a gate already.

    Raises:
        QueryRejected: If it is none. Nothing is charged.
    """
    if metric is None and known is not None:
        metric = _maker_of(known)
    make = named_metric(metric) if isinstance(metric, str) else metric
    if make is None or isinstance(make, LabelQuery) or not callable(make):
        raise _no_metric(metric)

    def made(predictions: Any, training: Any) -> LabelQuery:
        try:
            query: LabelQuery = make(predictions) if training is None else make(predictions, training=training)
        except ValueError as reason:
            raise QueryRejected(f"{reason}; nothing was charged") from None
        return query

    return GateMetric(made, known)


def _maker_of(description: Mapping[str, Any]) -> Callable[..., LabelQuery]:
    """The metric that a description names.

    Raises:
        QueryRejected: If it is a function of the analyst's own, which no description can hold.
    """
    if description.get("kind") != "risk":
        return _NAMED[str(description["kind"])]
    if "loss" not in description:
        raise QueryRejected(
            "the gate's metric is a loss function of its own, which the ledger does not hold; expected it again as the "
            "gate's first argument, such as lambda model: eh.risk(model, loss, high=5, name='mine'); nothing was "
            "charged"
        )
    loss, low, high = description["loss"], description["low"], description["high"]
    return lambda predictions, training=None: risk(predictions, loss, low=low, high=high, training=training)


def _no_metric(thing: object) -> QueryRejected:
    if (reason := why_no_mean(thing)) is not None:
        return QueryRejected(f"{reason}; nothing was charged")
    return QueryRejected(
        f"the metric of a gate is {brief(thing)}; expected eh.accuracy, eh.error, eh.brier, their names, or a function "
        "from a candidate to such a question, as lambda model: eh.risk(model, 'log', high=5); nothing was charged"
    )


def metric_description(bound: BoundQuery) -> dict[str, Any]:
    """Description of the metric in a query about a candidate."""
    return {name: value for name, value in bound.description.items() if name not in _OF_CANDIDATES}


def metric_in_words(description: Mapping[str, Any]) -> str:
    """A metric as people read it.

    Examples:
        >>> metric_in_words({"kind": "accuracy", "label": "late"})
        'accuracy'
        >>> metric_in_words({"kind": "risk", "loss": "log", "low": 0.0, "high": 5.0, "label": "late"})
        'log loss'
    """
    kind = description.get("kind")
    if kind == "brier":
        return "Brier score"
    if kind != "risk":
        return str(kind)
    function = description.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    return f"{description['loss']} loss" if "loss" in description else f"loss {brief(name)}" if name else "loss"


def checked_margin(margin: Any, candidate: Candidate) -> float:
    """The margin in units of row values.

    Raises:
        QueryRejected: If it cannot be reached, or is negative. Nothing is charged.
    """
    value = as_float(margin)
    if not 0.0 <= value < candidate.width:
        raise QueryRejected(
            f"the margin is {brief(margin)}; expected a number from 0 to below {candidate.width:g}, by more than which "
            "a challenger has to be better; nothing was charged"
        )
    return value / candidate.width
