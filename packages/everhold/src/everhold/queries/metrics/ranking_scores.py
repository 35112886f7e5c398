"""AUC and F1 of predictions, with a sensitivity that is proven, as statistics of low sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from everhold.errors import QueryRejected
from everhold.guarantees.intervals.pairs.gains import RATIOS
from everhold.queries.code import behaviour_digest, observed
from everhold.queries.metrics.label_query import LabelQuery
from everhold.queries.metrics.rates import f1_ratio
from everhold.queries.metrics.registry import METRICS
from everhold.queries.predictions.arrays import first_of, probabilities
from everhold.queries.query import QuerySpec
from everhold.queries.statistic import Statistic, StatisticGrid, StatisticQuery, check_positive, check_range
from everhold.sealing.rows.code_trials import sealed_values
from everhold.values.base import BoundQuery, Schema
from everhold.values.evaluation import other_class, worst_ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.queries.means.shares import ShareQuery
    from everhold.queries.metrics.query import MetricQuery
    from everhold.queries.query import QueryPlan
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import RowFunction

_ALL = Fraction(1)
_SHOWN = {
    "auc": "share of pairs in order by {whose}: first {positives:,} positive and {negatives:,} negative rows, pairs "
    "with missing rows count 1/2",
    "f1": "2 TP / max(predicted + actual positives, {least:,g}) of {whose}",
}  # what the statistic is: an AUC, or an F1, only where no row is missing, and the floor is not needed


def auc_of(scores: NDArray[np.float64], labels: NDArray[Any], *, positives: int, negatives: int) -> float:
    """The share of pairs of a positive and a negative row that the scores put in order; ties count 1/2.

    The first ``positives`` positive rows and the first ``negatives`` negative ones take part. Where there are fewer,
    the pairs of the missing ones count 1/2.

    Args:
        scores: Shape (rows,), none of them nan.
        labels: Shape (rows,); 1 is positive, anything else negative.
        positives: Number of positive rows that take part.
        negatives: Number of negative rows that take part.

    Examples:
        >>> auc_of(np.array([0.9, 0.4, 0.4, 0.1]), np.array([1, 1, 0, 0]), positives=2, negatives=2)
        0.875
    """
    return float(_auc(scores, labels, positives=positives, negatives=negatives))


def _auc(scores: NDArray[np.float64], labels: NDArray[Any], *, positives: int, negatives: int) -> Fraction:
    """`auc_of` to the last digit: of very many pairs the last ones are less than a double can tell apart."""
    positive = labels == 1
    upper, lower = scores[positive][:positives], np.sort(scores[~positive][:negatives])
    below = np.searchsorted(lower, upper, side="left").sum(dtype=np.int64)
    not_above = np.searchsorted(lower, upper, side="right").sum(dtype=np.int64)
    missing = positives * negatives - len(upper) * len(lower)
    return Fraction(int(below) + int(not_above) + missing, 2 * positives * negatives)


def auc_sensitivity(*, positives: int, negatives: int) -> float:
    """``1/N+ + 1/N- - 1/(N+ N-)``: one row replaces at most one positive and one negative, rounded up."""
    return math.nextafter((positives + negatives - 1) / (positives * negatives), math.inf)


def f1_of(predictions: NDArray[Any], labels: NDArray[Any], *, least: float) -> float:
    """``2 TP / max(PP + AP, least)``: the harmonic mean of precision and recall where the floor is not needed.

    Args:
        predictions: Shape (rows,); 1 is positive, anything else negative.
        labels: Shape (rows,); 1 is positive, anything else negative.
        least: Floor on predicted and actual positives together.

    Examples:
        >>> f1_of(np.array([1, 1, 0, 0]), np.array([1, 0, 1, 0]), least=1)
        0.5
    """
    return float(_f1(predictions, labels, least=least))


def _f1(predictions: NDArray[Any], labels: NDArray[Any], *, least: float) -> Fraction:
    """`f1_of` to the last digit, by the outcomes of `RATIOS`, with half of the floor under its denominator."""
    counts = np.bincount((predictions == 1) + 2 * (labels == 1), minlength=4).tolist()
    top, bottom = (
        sum((Fraction(part) * count for part, count in zip(of[1:], counts, strict=True)), Fraction())
        for of in RATIOS["f1"]
    )
    return top / max(bottom, Fraction(float(least)) / 2)


def f1_sensitivity(*, least: float) -> float:
    """``2 / least``, rounded up."""
    return math.nextafter(2.0 / least, math.inf)


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs(LabelQuery):
    """Prediction and label of every row: not a mean, but what AUC and F1 are made of.

    Attributes:
        predictions: One prediction per sealed row, in the order of the rows, or a fitted estimator.
        kind: ``"auc"`` takes any scores, ``"f1"`` predicted labels.
        training: One prediction per training row, for the guess; by default the estimator's own.
    """

    predictions: Any
    kind: Literal["auc", "f1"]
    training: Any = None

    def bind(self, schema: Schema) -> BoundQuery:
        """Identity, and a function from a table to shape (rows, 2)."""
        if schema.label_kind != "binary":
            raise QueryRejected(
                f"{self.kind} needs a label column of 0 and 1, and this holdout has none; expected one named at "
                "creation; create the holdout with label=..."
            )
        identity, sealed, training, reads = self._row_values(schema)
        return BoundQuery(
            description=identity, shown=self.kind, sealed=sealed, training=training, reads=reads,
            by_position=self._by_position,
        )  # fmt: skip

    @property
    def _of_probabilities(self) -> bool:
        return False

    def _checked(self, predictions: Any, rows: int, schema: Schema, *, what: str) -> NDArray[Any]:
        array = LabelQuery._checked(self, predictions, rows, schema, what=what)
        usable = np.isin(array, (0, 1)) if self.kind == "f1" else np.isfinite(array)
        if not bool(np.all(usable)):
            wanted = "predicted labels, 0 or 1" if self.kind == "f1" else "finite scores"
            raise QueryRejected(f"{what} are not all of the right kind{first_of(~usable)}; expected {wanted}")
        return array

    def outputs(self, features: Any) -> Any:
        """See `LabelQuery.outputs`: labels for F1, any scores for AUC."""
        model = self.predictions
        if self.kind == "f1":
            return model.predict(features)
        if hasattr(model, "predict_proba"):
            return probabilities(model, features)
        return model.decision_function(features) if hasattr(model, "decision_function") else model.predict(features)

    def _of_failing(self, labels: NDArray[Any]) -> NDArray[Any]:
        said = other_class(labels) if self.kind == "f1" else np.full(len(labels), np.nan)
        return np.column_stack([said, labels.astype(np.float64)])

    def _against(self, predictions: NDArray[Any], label: str) -> RowFunction:
        return lambda table: np.column_stack([predictions.astype(np.float64), table[label].astype(np.float64)])


@dataclass(frozen=True, slots=True)
class BoundPairs:
    """Predictions and labels for one holdout.

    Attributes:
        bound: Identity, and functions from a table to shape (rows, 2).
    """

    bound: BoundQuery
    names: tuple[str, ...]
    described: Mapping[str, Any]

    @property
    def whose(self) -> str:
        """The predictions, as people read them."""
        return "; ".join(f"{what} {digest[:8]}" for what, digest in self.bound.description.items())

    def sealed(self, rows: StoredRows) -> NDArray[Any]:
        """Those of the sealed rows, shape (rows, 2)."""
        assert self.bound.sealed is not None
        if self.bound.by_position:
            return sealed_values(self.bound.sealed, rows.table(self.names), rows.rows, (2,))
        return rows.code.values(self.bound.sealed, self.names, (2,))

    def open(self, training: StoredRows | None) -> NDArray[Any] | None:
        """Those of the training rows, shape (rows, 2); None where unknown."""
        if self.bound.training is None or training is None:
            return None
        return sealed_values(self.bound.training, training.table(self.names), training.rows, (2,))


@dataclass(frozen=True, slots=True, eq=False)
class RankingQuery(StatisticQuery):
    """AUC or F1 of predictions; made by `auc` and `f1`.

    Attributes:
        numbers: What the sensitivity follows from, by name.
        sensitivity: Delta, proven (docs/theory, vectors and low sensitivity).
        statistic: From predictions, labels and the numbers to the value.
        tolerance: Half-width requested; None for the planned noise.
    """

    pairs: _Pairs
    numbers: Mapping[str, float]
    sensitivity: float
    statistic: Callable[..., Fraction]
    tolerance: float | None

    def spec(self) -> QuerySpec:
        """See `Query.made`."""
        given = {**self.numbers, "tolerance": self.tolerance, "training": self.pairs.training}
        return QuerySpec(self.pairs.kind, self.pairs.predictions, given)

    def compile(
        self, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """As any statistic; an AUC is that of all pairs where that is promised, and needs no counts there."""
        if self.pairs.kind == "auc" and tolerance is None and self.tolerance is None:
            from everhold.queries.metrics.query import MetricQuery

            area = MetricQuery.of(METRICS["roc_auc"], self.pairs.predictions, self.pairs.training)
            if area.is_promised(compiler):
                return area.compile(compiler, guess=guess)
        return StatisticQuery.compile(self, compiler, guess=guess, tolerance=tolerance)

    def bound_to(self, compiler: QueryCompiler) -> Statistic:
        """The statistic for one holdout."""
        seen = self.reader(compiler)
        kind = self.pairs.kind
        return Statistic(
            StatisticGrid(0.0, 1.0, self.sensitivity, compiler.mechanism.unit),
            lambda sealed: self.of_pairs(seen.sealed(sealed)),
            {"kind": kind, **self.numbers, **seen.described},
            shown=_SHOWN[kind].format(whose=seen.whose, **self.numbers),
            reads=seen.names,
            trained=self._trained(seen, compiler.training, rows=compiler.schema.rows),
            by_position=seen.bound.by_position,
        )

    def reader(self, compiler: QueryCompiler) -> BoundPairs:
        """Predictions and labels for one holdout."""
        bound = compiler.placed(self.pairs).bind(compiler.schema)
        names = tuple(compiler.schema.asked) if bound.reads is None else bound.reads
        if (function := bound.sealed) is None:
            raise TypeError("predictions without row values; expected a function of the rows")
        described = {"label": compiler.schema.label, **bound.description, **dict(compiler.schema.about)}
        if hasattr(self.pairs.predictions, "predict"):
            outputs, _ = observed(function, names, compiler)
            described["on_public_rows"] = behaviour_digest(outputs)
        return BoundPairs(bound, names, described)

    def _trained(
        self, seen: BoundPairs, training: StoredRows | None, *, rows: int
    ) -> Callable[[NDArray[np.intp]], Fraction] | None:
        """The statistic of some of the training rows, with numbers in proportion."""
        if (pairs := seen.open(training)) is None:
            return None
        return lambda places: self.of_pairs(pairs[places], Fraction(len(places), rows))

    def of_pairs(self, found: NDArray[Any], share: Fraction = _ALL) -> Fraction:
        """The statistic of scores and labels, with numbers in proportion to a share of the rows."""
        numbers = {
            name: max(round(number * share), 1) if isinstance(number, int) else number * float(share)
            for name, number in self.numbers.items()
        }
        return self.statistic(worst_ranks(found[:, 0], found[:, 1]), found[:, 1], **numbers)


def auc(
    scores: Any, *, positives: int | None = None, negatives: int | None = None, tolerance: float | None = None,
    training: Any = None, where: str | None = None,
) -> RankingQuery | MetricQuery:  # fmt: skip
    """The area under the ROC curve: how often a positive row is scored above a negative one.

    It is the population's AUC, one query of a holdout of independent rows, or of groups that a column names, that
    confirms guesses. Of a model all sealed pairs of one law count; of scores in an array, labels are drawn anew on
    these rows; of groups it is the AUC of rows of different groups (docs/theory/auc.md). The interval is about as
    narrow as the rarer class allows.

    Where that is not promised, as for a privacy budget, it is a statistic of all rows with counts.
    The first ``positives`` positive and the first ``negatives`` negative rows take part; where there are fewer, the
    pairs of the missing ones count 1/2. The value is then no AUC: with half of the positives missing an AUC of 0.98 is
    told as 0.74. So answers and certificate name it the share of pairs in order.

    The interval is for the expected value on fresh samples of as many rows. For rows of one law (the first ones
    take part, and have to be like the others) that is the population's AUC as far as *fresh samples* have so many
    of both classes, and theirs vary: choose counts some standard deviations below those of the sealed rows, which
    have to be public, or lower ends of intervals that were asked for. With exactly the sealed rows' counts it is a
    little nearer to 1/2 (docs/theory, vectors and low sensitivity).

    Args:
        scores: Shape (rows,), one finite score per sealed row in the order of the rows, higher for positive rows; a
            table with row ids, as for `accuracy`; or a fitted estimator. An array or table belongs to its rows: then
            fresh samples are fresh labels for rows with these scores.
        positives: Number of positive rows (label 1) that take part; both counts, or none.
        negatives: Number of negative rows (label 0) that take part.
        tolerance: Half-width requested; sharper answers cost more credits. By default the planned noise, for 100. For
            a privacy budget only.
        training: Scores for the training rows, for the guess of a holdout that confirms guesses: shape (training
            rows,), or a table.
        where: A condition, such as ``"region = 'N'"``: the AUC among the rows that meet it, of a model and without
            counts.

    Raises:
        ValueError: If a count or the tolerance is not valid.
        TypeError: If one count is given without the other.

    Examples:
        >>> round(auc(np.arange(1000) / 1000, positives=400, negatives=500).sensitivity, 6)
        0.004495
    """
    if positives is None and negatives is None:
        from everhold.queries.metrics.query import MetricQuery

        if tolerance is not None:
            raise ValueError("tolerance is given without counts; expected positives and negatives for a privacy budget")
        return MetricQuery.of(METRICS["roc_auc"], scores, training, where=where)
    if where is not None:
        raise ValueError("where is given with counts; expected no counts, which are those of all rows")
    if positives is None or negatives is None:
        missing = "positives" if positives is None else "negatives"
        raise TypeError(f"auc() lacks {missing!r}; expected the counts of both classes, or none")
    positives, negatives = whole_count("positives", positives), whole_count("negatives", negatives)
    delta = auc_sensitivity(positives=positives, negatives=negatives)
    check_range(delta, 0.0, 1.0, tolerance)
    counts = {"positives": positives, "negatives": negatives}
    return RankingQuery(_Pairs(scores, "auc", training), counts, delta, _auc, tolerance)


@overload
def f1(predictions: Any, *, training: Any = None) -> ShareQuery: ...
@overload
def f1(predictions: Any, *, least: float, tolerance: float | None = None, training: Any = None) -> RankingQuery: ...
def f1(
    predictions: Any, *, least: float | None = None, tolerance: float | None = None, training: Any = None
) -> RankingQuery | ShareQuery:
    """The harmonic mean of precision and recall.

    Without a floor it is the population's F1, ``sum tp / sum (tp + (fp + fn) / 2)``: one query of a holdout that
    confirms guesses, if the predictions for training rows are known, and two means of any other.

    With a floor under its denominator it is a statistic of all rows, which a privacy budget takes, too. Then the
    interval is for the expected value on fresh samples of as many rows: near the population's F1 where positives are
    many and the floor is below what fresh samples have, but not the same, because it is a ratio.

    Args:
        predictions: Shape (rows,), 0 or 1 for each sealed row in the order of the rows; a table with row ids; or a
            fitted estimator. An array or table belongs to its rows, as for `auc`.
        least: Floor on predicted and actual positives together, such as a lower end of intervals that were asked for,
            in rows. Where the sealed rows have fewer, the value is smaller than F1.
        tolerance: As for `auc`; with a floor only, and for a privacy budget.
        training: Predictions for the training rows, for the guess: shape (training rows,), or a table.

    Raises:
        ValueError: If the floor or the tolerance is not valid.

    Examples:
        >>> f1(np.ones(1000), least=800).sensitivity <= 0.0025 + 1e-15
        True
    """
    if least is None:
        if tolerance is not None:
            raise ValueError("tolerance is given without least; expected both for a privacy budget, or neither")
        return f1_ratio(predictions, training=training)
    check_positive("least", least)
    if least < 2.0:
        raise ValueError(f"least is {least!r}; expected at least 2 rows, and preferably some hundreds")
    delta = f1_sensitivity(least=float(least))
    check_range(delta, 0.0, 1.0, tolerance)
    return RankingQuery(_Pairs(predictions, "f1", training), {"least": float(least)}, delta, _f1, tolerance)


def whole_count(name: str, count: int) -> int:
    """A number of rows as a plain whole number.

    Raises:
        ValueError: If it is none of at least 1.
    """
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
        raise ValueError(f"{name} is {count!r}; expected a whole number of rows, at least 1")
    return int(count)
