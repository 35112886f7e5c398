"""AUC over all pairs of rows, and AUC and F1 as statistics of proven low sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.arguments import as_whole
from everhold.guarantees.intervals import boxes, ranking
from everhold.guarantees.intervals.gains import RATIOS
from everhold.guarantees.intervals.parts import Composite, SeenParts
from everhold.queries.metrics.measures import Measure, probabilities_apart
from everhold.queries.metrics.query import MetricQuery
from everhold.queries.metrics.registry import METRICS, Metric
from everhold.queries.metrics.row_scores import BoundRows, ScoredRows
from everhold.queries.query import CompileContext, QueryPlan, QuerySpec
from everhold.queries.statistic import Statistic, StatisticGrid, StatisticQuery, check_positive, check_range
from everhold.values.evaluation import says, worst_ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.guarantees.intervals.base import Procedure
    from everhold.queries.metrics.score_parts import Floats, Judged, Setting, Sized
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import Schema

_HALF, _ROWS = 0.5, slice(None)  # all rows count


@dataclass(frozen=True, slots=True)
class Area(Measure):
    """The computation of the AUC over all pairs of rows."""

    by_rank: ClassVar[bool] = True
    compares: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = False

    def see(self, rows: Judged, setting: Setting, largest: float = 1.0) -> ranking.SeenScores | ranking.SeenBlocks:
        """Return the block averages or ranks of the rows, from which the interval is made."""
        return _seen((rows,), setting, 1.0)

    def see_difference(
        self, first: Judged, second: Judged, setting: Setting, largest: float = 1.0, *, reach: float = 1.0
    ) -> ranking.SeenScores | ranking.SeenBlocks:
        """Return the summary of the differences of two models on the same rows."""
        return _seen((first, second), setting, reach)

    def reach(self, first: Floats, second: Floats, setting: Setting) -> float:
        """Return the largest difference of the two ranks of a row, which bounds the effect of one row."""
        if setting.dealt == "groups":
            return 1.0
        return max(float(np.max(np.abs(ranking.public_ranks(first) - ranking.public_ranks(second)))), 1.0 / len(first))

    def is_known(self, rows: Judged, seen: ranking.SeenScores | ranking.SeenBlocks) -> bool:
        """Return whether both labels occur, and in two different groups if rows are in groups."""
        if isinstance(seen, ranking.SeenBlocks):
            return seen.units.total > 0.0
        positive = rows.labels[_ROWS if rows.counting is None else rows.counting] == 1.0
        return 0 < int(np.count_nonzero(positive)) < len(positive)

    def procedure(self, planned: Any, setting: Setting, sized: Sized, *, reach: float | None = None) -> Procedure:
        """Return the interval procedure of the AUC, or of a difference of two AUCs if a reach is given."""
        if setting.dealt == "groups":
            return ranking.GroupBlockBetting.planned_by(
                planned, sealed=sized.sealed, planned=sized.planned, guess=sized.guess
            )
        rarer, guess = min(setting.share, 1.0 - setting.share), sized.guess
        counting = float(sized.sealed) if sized.counting is None else sized.counting
        if setting.dealt == "blocks":
            return (ranking.BlockBetting if reach is None else ranking.BlockDifference)(
                rarer * counting, planned, guess=guess
            )
        if reach is None:
            at = None if guess is None else ranking.rank_from_area(guess, rarer)
            return ranking.RankBetting(rarer * counting, planned, int(counting), rarer, guess=at)
        own = None if guess is None else (1.0 + (2.0 * guess - 1.0) * (1.0 - rarer) / reach) / 2.0
        at = None if own is None else min(max(own, 0.0), 1.0)
        return ranking.RankDifference(rarer * counting, planned, int(counting), rarer, reach, guess=at)


def roc_auc(metric: Metric) -> Area:
    """Return the computation of the AUC of label 1 against label 0."""
    return Area(metric)


@dataclass(frozen=True, slots=True)
class MacroArea(Measure):
    """The computation of the average AUC of each class against all others. The AUCs share the level (C1).

    Attributes:
        of_one: The AUC of one class.
    """

    of_one: Area

    by_rank: ClassVar[bool] = True
    compares: ClassVar[bool] = True

    def see(self, rows: Judged, setting: Setting, largest: float = 1.0) -> SeenParts:
        """Return the summary of the rows for each class against all others."""
        return self._seen((rows,), setting, 1.0)

    def see_difference(
        self, first: Judged, second: Judged, setting: Setting, largest: float = 1.0, *, reach: float = 1.0
    ) -> SeenParts:
        """Return the summary of the differences of two models for each class against all others."""
        return self._seen((first, second), setting, reach)

    def _seen(self, models: tuple[Judged, ...], setting: Setting, reach: float) -> SeenParts:
        parts = tuple(
            _seen(tuple(_of_class(rows, number) for rows in models), own, reach)
            for number, own in enumerate(_settings(setting))
        )
        return SeenParts(math.fsum(part.score for part in parts) / len(parts), parts)

    def reach(self, first: Floats, second: Floats, setting: Setting) -> float:
        """Return the largest difference of the two ranks of a row in any class."""
        columns = zip(first.T, second.T, strict=True)
        return max(self.of_one.reach(one, other, setting) for one, other in columns)

    def is_known(self, rows: Judged, seen: SeenParts) -> bool:
        """Return whether each class occurs, and so do rows of other classes."""
        return all(self.of_one.is_known(_of_class(rows, number), part) for number, part in enumerate(seen.parts))

    def procedure(self, planned: SeenParts, setting: Setting, sized: Sized, *, reach: float | None = None) -> Procedure:
        """Return the interval procedure of the average AUC, from that of each class."""
        alone = replace(sized, guess=None)
        parts = [
            self.of_one.procedure(part, own, alone, reach=reach)
            for part, own in zip(planned.parts, _settings(setting), strict=True)
        ]
        shares, scale = (1.0 / len(parts),) * len(parts), sized.sealed / max(sized.planned, 1)
        likely = replace(planned, parts=tuple(_repeated(part, scale) for part in planned.parts))
        return Composite(tuple(parts), shares, boxes.average, likely, sized.sealed)


def _repeated(seen: Any, scale: float) -> Any:
    """Return the numbers of a class with ``scale`` times as many of them and the same quantiles; blocks unchanged."""
    if isinstance(seen, ranking.SeenBlocks) or not len(seen.units):
        return seen
    number = max(round(scale * len(seen.units)), 1)
    return replace(seen, units=np.quantile(seen.units, (np.arange(number) + 0.5) / number))


def roc_auc_ovr(metric: Metric) -> MacroArea:
    """Return the computation of the average AUC of each class against the rest."""
    return MacroArea(metric, Area(metric), likely=probabilities_apart)


def _settings(setting: Setting) -> list[Setting]:
    """Return the setting of each class against all others, with its planned share."""
    return [replace(setting, share=share) for share in setting.shares or (setting.share,) * setting.classes]


def _of_class(rows: Judged, number: int) -> Judged:
    """Return the rows with labels 1 for one class and 0 for others, and the probability of the class as score."""
    return replace(rows, outputs=rows.outputs[:, number], labels=(rows.labels == number).astype(np.float64))


def _seen(models: tuple[Judged, ...], setting: Setting, reach: float) -> ranking.SeenScores | ranking.SeenBlocks:
    """Summarise one model, or the difference of two, by the units from which the interval is made.

    Args:
        models: The same rows once for each model, with its scores, which are nan where the model fails.
        setting: Planned share of label 1, and the kind of units.
        reach: The largest difference of two ranks of a row that is possible.
    """
    rows = models[0]
    if setting.dealt == "groups":
        assert rows.groups is not None
        positive = rows.labels == 1.0
        order = np.random.default_rng(0).permutation(len(positive)) if rows.order is None else rows.order
        ranked = [worst_ranks(each.outputs, positive) for each in models]
        return ranking.seen_blocks(ranked, positive, rows.groups, order, rows.counting)
    counting = _ROWS if rows.counting is None else rows.counting
    scores, positive = [each.outputs[counting] for each in models], rows.labels[counting] == 1.0
    order = np.random.default_rng(0).permutation(len(positive))  # of public rows any one will do
    if rows.order is not None:
        order = rows.order
        if rows.counting is not None:
            order = (np.cumsum(rows.counting) - 1)[order[rows.counting[order]]]
    ranked = [worst_ranks(each, positive) for each in scores]
    areas = [area_of(each, positive) for each in ranked]
    area = areas[0] if len(models) == 1 else (1.0 + areas[0] - areas[1]) / 2.0
    if setting.dealt == "blocks":
        blocks = [ranking.block_averages(each, positive, order) for each in ranked]
        units = blocks[0] if len(models) == 1 else (1.0 + blocks[0] - blocks[1]) / 2.0
        return ranking.SeenScores(area, units, len(units) / max(len(positive), 1))
    failing = tuple(float(np.mean(np.isnan(each))) for each in scores)
    if setting.share > _HALF:
        scores, positive = [-each for each in scores], ~positive
    ranks = [ranking.public_ranks(each) for each in scores]
    if len(models) == 1:
        units = ranks[0][positive]
    else:
        units = (1.0 + np.clip((ranks[0] - ranks[1])[positive] / reach, -1.0, 1.0)) / 2.0
    return ranking.SeenScores(area, units, float(np.mean(positive)), failing)


def area_of(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Return the AUC over all pairs of rows, 1/2 if a class is empty. Both arrays have the shape (rows,).

    It is computed from the ranks of all rows, so that the time does not tell how many rows are positive.
    """
    from scipy.stats import rankdata  # it takes longer to load than all else of an ask about a mean

    doubled, positives = 2 * rankdata(scores) - 1, int(np.count_nonzero(positive))  # scores below and not above
    pairs = 2 * positives * (len(scores) - positives)
    return (int(doubled @ positive) - positives**2) / pairs if pairs else _HALF


_ALL = Fraction(1)
_SHOWN = {
    "auc": "share of pairs in order by {whose}: first {positives:,} positive and {negatives:,} negative rows, pairs "
    "with missing rows count 1/2",
    "f1": "2 TP / max(predicted + actual positives, {least:,g}) of {whose}",
}  # what the statistic is: an AUC, or an F1, only where no row is missing, and the floor is not needed


def auc_of(scores: NDArray[np.float64], labels: NDArray[Any], *, positives: int, negatives: int) -> Fraction:
    """Return the exact share of pairs in which the positive row has a higher score. Ties count 1/2.

    The first ``positives`` positive rows and the first ``negatives`` negative rows take part. If there are fewer
    rows, pairs with the missing rows count 1/2.

    Args:
        scores: Scores of the rows, shape (rows,), none of them nan.
        labels: Labels of the rows, shape (rows,); 1 is positive, any other label is negative.
        positives: Number of positive rows that take part.
        negatives: Number of negative rows that take part.

    Examples:
        >>> auc_of(np.array([0.9, 0.4, 0.4, 0.1]), np.array([1, 1, 0, 0]), positives=2, negatives=2)
        Fraction(7, 8)
    """
    positive = labels == 1
    upper, lower = scores[positive][:positives], np.sort(scores[~positive][:negatives])
    below = np.searchsorted(lower, upper, side="left").sum(dtype=np.int64)
    not_above = np.searchsorted(lower, upper, side="right").sum(dtype=np.int64)
    missing = positives * negatives - len(upper) * len(lower)
    return Fraction(int(below) + int(not_above) + missing, 2 * positives * negatives)


def auc_sensitivity(*, positives: int, negatives: int) -> float:
    """Return the largest effect of one row on `auc_of`, ``1/N+ + 1/N- - 1/(N+ N-)``, rounded up."""
    return math.nextafter((positives + negatives - 1) / (positives * negatives), math.inf)


def f1_of(predictions: NDArray[Any], labels: NDArray[Any], *, least: float) -> Fraction:
    """Return ``2 TP / max(PP + AP, least)`` exactly, the F1 score unless the floor is needed.

    Args:
        predictions: Predicted labels, shape (rows,); 1 is positive, any other prediction is negative.
        labels: Labels of the rows, shape (rows,); 1 is positive, any other label is negative.
        least: Floor on predicted and actual positives together.

    Examples:
        >>> f1_of(np.array([1, 1, 0, 0]), np.array([1, 0, 1, 0]), least=1)
        Fraction(1, 2)
    """
    predicted = says(np.asarray(predictions, dtype=np.float64), labels, 1.0)
    counts = np.bincount(predicted + 2 * (labels == 1), minlength=4).tolist()
    top, bottom = (
        sum((Fraction(part) * count for part, count in zip(of[1:], counts, strict=True)), Fraction())
        for of in RATIOS["f1"]
    )
    return top / max(bottom, Fraction(float(least)) / 2)


def f1_sensitivity(*, least: float) -> float:
    """Return the largest effect of one row on `f1_of`, ``2 / least``, rounded up."""
    return math.nextafter(2.0 / least, math.inf)


@dataclass(frozen=True, slots=True, eq=False)
class RankingQuery(StatisticQuery):
    """A query for the AUC or F1 of predictions, made by `auc` and `f1`.

    Attributes:
        name: ``"auc"`` takes any scores, ``"f1"`` predicted labels.
        model: The predictions, in a form that `LabelQuery` takes.
        numbers: Numbers that determine the sensitivity, by name, such as counts of classes or a floor.
        sensitivity: Delta, the proven largest effect of one row on the statistic (docs/theory, vectors and low
            sensitivity).
        statistic: Function from predictions, labels and the numbers to the value of the metric.
    """

    name: str
    model: ScoredRows
    numbers: Mapping[str, float]
    sensitivity: float
    statistic: Callable[..., Fraction]

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        return QuerySpec(self.name, self.model.predictions, {**self.numbers, "training": self.model.training})

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """Compile the statistic. An AUC without counts is compiled as a metric where it has an interval."""
        if self.name == "auc" and tolerance is None:
            area = MetricQuery(METRICS["roc_auc"], (self.model,))
            if area.is_promised(compiler):
                return area.compile(compiler, guess=guess)
        return StatisticQuery.compile(self, compiler, guess=guess, tolerance=tolerance)

    def bound_to(self, compiler: CompileContext) -> Statistic:
        """Return the statistic bound to the rows of one holdout."""
        MetricQuery(METRICS["f1" if self.name == "f1" else "roc_auc"], (self.model,)).check_labels(compiler.schema)
        rows, training, trained = BoundRows.of(self.model, compiler), compiler.training, None
        if training is not None and rows.bound.training is not None:
            outputs = rows.read(training, sealed=False)
            labels = training.table((compiler.schema.label or "",))[compiler.schema.label or ""]

            def trained(places: NDArray[np.intp]) -> Fraction:
                """Return the statistic of some training rows, with its counts scaled to their number."""
                return self.of_rows(outputs[places], labels[places], Fraction(len(places), compiler.schema.rows))

        def evaluate(sealed: StoredRows) -> Fraction:
            """Return the statistic of the sealed rows."""
            label = compiler.schema.label or ""
            return self.of_rows(rows.read(sealed, sealed=True), sealed.table((label,))[label])

        return Statistic(
            StatisticGrid(0.0, 1.0, self.sensitivity, compiler.mechanism.unit),
            evaluate,
            {"kind": self.name, **self.numbers, **rows.bound.description},
            shown=_SHOWN[self.name].format(whose=rows.bound.shown, **self.numbers),
            reads=rows.reads,
            trained=trained,
            by_position=rows.bound.by_position,
        )

    def score_of(self, outputs: NDArray[Any], labels: NDArray[Any], schema: Schema) -> float:
        """Compute the statistic on training rows, with its counts scaled to their number.

        Args:
            outputs: Predictions, shape (rows,).
            labels: Labels of the training rows, of shape (rows,).
            schema: The public facts about the holdout's rows.
        """
        numbers = self.model.judge(np.asarray(outputs), {}, schema)
        return float(self.of_rows(numbers, np.asarray(labels), Fraction(len(outputs), schema.rows)))

    def of_rows(self, outputs: NDArray[Any], labels: NDArray[Any], share: Fraction = _ALL) -> Fraction:
        """Return the statistic of predictions and labels, with its counts scaled to a share of the rows."""
        numbers = {
            name: max(round(number * share), 1) if isinstance(number, int) else number * float(share)
            for name, number in self.numbers.items()
        }
        ranked = worst_ranks(outputs, labels) if self.name == "auc" else outputs
        return self.statistic(ranked, labels, **numbers)


def auc(
    scores: Any, *, positives: int | None = None, negatives: int | None = None, training: Any = None,
    where: str | None = None,
) -> RankingQuery | MetricQuery:  # fmt: skip
    """Build the query for the area under the ROC curve: how often a positive row is scored above a negative one.

    On a holdout that checks guesses, with independent rows or groups that a column names, it is one query for the
    population's AUC (docs/theory/auc.md). The width of its interval follows from the number of rows of the rarer class.
    What the AUC is about depends on the predictions and on the rows:

    - for a model, all pairs of a positive and a negative row of the population;
    - for scores in an array, labels drawn anew for the rows with these scores;
    - for rows in groups, pairs of rows of different groups.

    On any other holdout, such as one with a privacy budget, you must pass the counts ``positives`` and ``negatives``.
    Of each class the first rows, as many as its count says, take part. If there are fewer rows, pairs with the missing
    ones count 1/2, and the value is no AUC: if half of the positives are missing, an AUC of 0.98 is told as 0.74. So
    answers and certificate name it the share of pairs in order.

    The interval with counts is for the expected value on fresh samples of as many rows. That is the population's AUC if
    rows are identically distributed and fresh samples have at least so many rows of both classes. Numbers of classes
    vary between samples, so choose counts some standard deviations below those of the sealed rows (if these are
    public), or lower ends of intervals that were asked for. With exactly the sealed rows' counts the expected value is
    a little nearer to 1/2 (docs/theory, vectors and low sensitivity).

    Args:
        scores: Shape (rows,), one finite score per sealed row in the order of the rows, higher for positive rows; a
            table with row ids, as for `accuracy`; or a fitted estimator. An array or table belongs to its rows: then
            fresh samples are fresh labels for rows with these scores.
        positives: Number of positive rows (label 1) that take part. Pass both counts, or neither.
        negatives: Number of negative rows (label 0) that take part.
        training: Scores for the training rows, which make the guess on a holdout that checks guesses: shape (training
            rows,), or a table.
        where: A condition, such as ``"region = 'N'"``: the AUC among the rows that meet it, for a model and without
            counts.

    Raises:
        ValueError: If a count is not a whole number of at least 1.
        TypeError: If only one of ``positives`` and ``negatives`` is given.

    Examples:
        >>> round(auc(np.arange(1000) / 1000, positives=400, negatives=500).sensitivity, 6)
        0.004495
    """
    if positives is None and negatives is None:
        return MetricQuery.of(METRICS["roc_auc"], scores, training, where=where)
    if where is not None:
        raise ValueError(
            "where is given with positives and negatives, which count all rows. Leave where or the counts out."
        )
    if positives is None or negatives is None:
        missing = "positives" if positives is None else "negatives"
        raise TypeError(f"auc() lacks {missing!r}. Pass both positives and negatives, or neither.")
    positives, negatives = whole_count("positives", positives), whole_count("negatives", negatives)
    delta = auc_sensitivity(positives=positives, negatives=negatives)
    check_range(delta, 0.0, 1.0)
    counts = {"positives": positives, "negatives": negatives}
    return RankingQuery("auc", ScoredRows("scores", scores, training), counts, delta, auc_of)


def f1(predictions: Any, *, least: float | None = None, training: Any = None) -> RankingQuery | MetricQuery:
    """Build the query for the F1 score, the harmonic mean of precision and recall.

    Without a floor it is the population's F1, ``sum tp / sum (tp + (fp + fn) / 2)``. It is one query if the holdout
    checks guesses and the predictions for training rows are known, and two means otherwise.

    With a floor (``least``) under its denominator, F1 is a statistic of all rows, which a privacy budget answers as
    well. The interval is then for the expected value on fresh samples of as many rows. This value is near the
    population's F1 if positives are many and fresh samples are above the floor, but not equal to it, because F1 is a
    ratio.

    Args:
        predictions: Shape (rows,), 0 or 1 for each sealed row in the order of the rows; a table with row ids; or a
            fitted estimator. An array or table belongs to its rows, as for `auc`.
        least: Floor on predicted and actual positives together, in rows, such as the sum of the lower ends of two
            intervals that were asked for. If the sealed rows have fewer, the value is smaller than F1.
        training: Predictions for the training rows, which make the guess of the answer: shape (training rows,), or a
            table.

    Raises:
        ValueError: If the floor is not a valid number.

    Examples:
        >>> f1(np.ones(1000), least=800).sensitivity <= 0.0025 + 1e-15
        True
    """
    if least is None:
        return MetricQuery.of(METRICS["f1"], predictions, training)
    check_positive("least", least)
    if least < 2.0:
        raise ValueError(f"least is {least!r}. Pass at least 2 rows, and preferably some hundreds.")
    delta = f1_sensitivity(least=float(least))
    check_range(delta, 0.0, 1.0)
    rows = ScoredRows("classes", predictions, training)
    return RankingQuery("f1", rows, {"least": float(least)}, delta, f1_of)


def whole_count(name: str, count: int) -> int:
    """Return a number of rows as an int, after checking that it is whole and at least 1.

    Raises:
        ValueError: If the number is not whole, or is below 1.
    """
    whole = as_whole(count)
    if whole is None or whole < 1:
        raise ValueError(f"{name} is {count!r}. Pass a whole number of rows, at least 1.")
    return whole
