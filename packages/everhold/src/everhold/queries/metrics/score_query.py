"""One query about a score of predictions, compiled from public facts; the score of training rows is its guess."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float, brief
from everhold.dependence import Groups, Independent
from everhold.errors import QueryRejected
from everhold.queries.means.conditions import among, condition, rows_that_meet, share_that_meets
from everhold.queries.metrics.area import check_split
from everhold.queries.metrics.made_up_scores import made_up
from everhold.queries.metrics.registry import LOG_CLIP, Metric, Setting
from everhold.queries.metrics.score_parts import Judged, Sized
from everhold.queries.metrics.scored_rows import BoundRows, ScoredRows, codes_of
from everhold.queries.procedures import check_confirms_statistics
from everhold.queries.query import Query, QueryPlan, QuerySpec, paying
from everhold.queries.statistic import OneNumber
from everhold.values.base import BoundQuery, with_clips
from everhold.values.clips import Clip

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.mechanisms import Mechanism
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import Schema

_WIDEST = 1e150  # range of labels, so that squares of losses are finite


@dataclass(frozen=True, slots=True, eq=False)
class ScoreQuery(Query["Answer"]):
    """A score of predictions; made by `metric`.

    Attributes:
        given: Numbers that define it, as far as they were given.
        where: A condition: the score of the rows that meet it. None for all rows.
    """

    kind: Metric
    rows: ScoredRows
    given: Mapping[str, float]
    where: str | None = None

    def spec(self) -> QuerySpec:
        """See `Query.spec`."""
        numbers = {name: self.given.get(name) for name in self.kind.settings}
        details = {"name": self.kind.name, "training": self.rows.training, "where": self.where, **numbers}
        return QuerySpec("metric", self.rows.predictions, details)

    @property
    def to_declare(self) -> str | None:
        """The same score as a mean over rows, for those that are one."""
        return self.kind.to_declare

    def compile(
        self, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """One query with its guess.

        Raises:
            QueryRejected: If nothing is promised. Nothing is charged.
        """
        mechanism, schema = compiler.mechanism, compiler.schema
        if tolerance is not None:
            paying(mechanism)
        reader = self.reader(compiler)
        seen, by = reader.seen, ", ".join(f"{name} {number:g}" for name, number in reader.numbers.items())
        unlike = seen.bound.by_position or schema.features_public
        if self.kind.measure.by_rank:
            check_split(self.kind.name, schema, by_rank=unlike)
        bound = BoundQuery(
            {"kind": "score", "name": self.kind.name, **reader.numbers, **seen.described},
            f"{self.kind.name} of {reader.whose(self)}{f' ({by})' if by else ''}",
            *self.kind.ends(reader.setting), reads=seen.names, by_position=seen.bound.by_position,
            unbounded=self.kind.unbounded,
        )  # fmt: skip
        bound = among(bound, reader.inside, self.where, schema)
        bound = with_clips(bound, reader.clips(compiler))
        known, procedure = self._planned(
            compiler, reader, None if guess is None else bound.to_mean(as_float(guess)), unlike
        )
        prepared = compiler.planner.of_statistic(bound, guess, known, procedure)

        def sealed(rows: StoredRows) -> tuple[Fraction | float, Any]:
            shown = self.kind.measure.see(reader.sealed(rows), reader.setting, largest_group(mechanism))
            return shown.score, shown

        return OneNumber([prepared], schema, mechanism, sealed)

    def reader(self, compiler: QueryCompiler) -> ScoreReader:
        """Predictions, labels and the condition for one holdout.

        Raises:
            QueryRejected: If nothing is promised about them. Nothing is charged.
        """
        mechanism, schema = compiler.mechanism, compiler.schema
        self.check_labels(schema)
        check_kind(self.kind, mechanism)
        if self.where is not None and not self.kind.slices:
            raise QueryRejected(
                f"{self.kind.name} is not promised for some rows alone; expected a score of all rows, or one such as "
                "roc_auc, neg_brier_score or f1"
            )
        return ScoreReader(
            self.kind, self.setting(schema, open_labels(compiler)), BoundRows.of(self.rows, compiler),
            mechanism.dependence.group_column, schema.label_classes,
            None if self.where is None else condition(self.where, schema),
        )  # fmt: skip

    def among(self, where: str) -> ScoreQuery:
        """The same score of the rows that meet a condition, too."""
        return replace(self, where=where if self.where is None else f"({self.where}) and ({where})")

    def _planned(
        self, compiler: QueryCompiler, reader: ScoreReader, guess: float | None, unlike: bool
    ) -> tuple[Fraction | None, Any]:
        """The score of the training rows, and the procedure; made-up rows stand in for unknown predictions."""
        schema, mechanism, training = compiler.schema, compiler.mechanism, compiler.training
        rows, part, largest = reader.opened(training), 1.0, largest_group(mechanism)
        measure = self.kind.measure
        empty = rows is not None and not measure.is_known(measure.see(rows, reader.setting, largest))
        trained = rows is not None and not empty
        own = guess is not None or not trained
        if rows is None or not trained:
            at = 0.5 if guess is None else min(max(guess, 0.0), 1.0)
            labels = open_labels(compiler)
            made = made_up(self.kind.measure, reader.setting, at, None if labels is None else reader.coded(labels))
            rows, part = made, share_that_meets(training, reader.inside)
        seen = self.kind.measure.see(rows, reader.setting, largest_group(mechanism, rows))
        sealed, planned = max(round(schema.rows * part), 1), len(rows.labels)
        if empty and reader.inside is not None:  # as few rows are expected to count as training rows do
            seen, planned = self.kind.measure.thinned(seen, sealed / planned), sealed
        sized = Sized(
            sealed, schema.rows if own else max(schema.training_rows, 1), planned, largest, unlike,
            reader.inside is not None,
        )  # fmt: skip
        known = Fraction(float(seen.score)) if trained else None
        return known, self.kind.measure.procedure(seen, reader.setting, sized)

    def score(self, outputs: NDArray[Any], labels: NDArray[Any], schema: Schema) -> float:
        """The score of open rows, in its own units.

        Args:
            outputs: Predictions, shape (rows,) or (rows, classes).
            labels: Shape (rows,).
            schema: What is known of the holdout's rows.
        """
        setting = self.setting(schema, np.asarray(labels))
        rows = replace(self.rows, classes=schema.label_classes)
        told = np.asarray(rows._against(np.asarray(outputs), "")({}), dtype=np.float64)
        judged = Judged(told, _coded(self.kind, labels, schema.label_classes))
        zero, one = self.kind.ends(setting)
        return zero + (one - zero) * float(self.kind.measure.see(judged, setting).score)

    def check_labels(self, schema: Schema) -> None:
        """Refuse label columns of another kind, and unknown classes."""
        name, outputs = self.kind.name, self.kind.outputs
        if schema.label_kind not in self.kind.labels:
            wanted = "labels 0 and 1" if self.kind.labels == ("binary",) else "a label column"
            found = {"string": "texts", "number": "other numbers", "binary": "labels 0 and 1"}.get(
                schema.label_kind or "", "none"
            )
            positive = ", which is 1 for the positive class" if wanted.startswith("labels") else ""
            raise QueryRejected(
                f"{name} needs {wanted}, and this holdout has {found}; expected another score, or a holdout with such "
                f"a label=...{positive}"
            )
        if outputs in ("classes", "probabilities") and not schema.label_classes:
            raise QueryRejected(
                f"{name} needs the classes of the label {schema.label!r}, and they are not known; expected a holdout "
                "that was created with classes=[...] (--classes)"
            )

    def setting(self, schema: Schema, labels: NDArray[Any] | None) -> Setting:
        """The numbers that define the score for one holdout, from public facts.

        Raises:
            QueryRejected: If one is missing or cannot be used. Nothing is charged.
        """
        given = {name: as_float(value) for name, value in self.given.items()}
        if not all(map(math.isfinite, given.values())):
            raise QueryRejected(f"{self.kind.name} got {brief(dict(self.given))}; expected numbers")
        made = Setting(classes=len(schema.label_classes or ()))
        if "low" in self.kind.settings:
            low, high = _range(self.kind.name, given, schema, labels)
            centre = 0.5 if labels is None else float(np.mean(np.clip(labels, low, high)) - low) / (high - low)
            centre = float(f"{centre:.6g}")
            farthest = 1.0 if schema.label_kind == "binary" else (high - low) * max(centre, 1.0 - centre)
            clip = float(f"{farthest**self.kind.measure.power:.6g}")
            made = replace(made, low=low, high=high, centre=centre, clip=clip)
        if self.kind.outputs == "probabilities":
            made = replace(made, clip=LOG_CLIP)
        made = replace(made, clip=given.get("clip", made.clip), rate=given.get("rate", made.rate))
        bins = as_float(given.get("bins", 10))
        if not made.clip > 0.0 or not 0.0 < made.rate < 1.0 or bins not in range(1, 101):
            raise QueryRejected(
                f"{self.kind.name} got {brief(dict(self.given))}; expected clip above 0, rate inside (0, 1), and 1 to "
                "100 bins"
            )
        return replace(made, bins=int(bins))


def _range(name: str, given: Mapping[str, float], schema: Schema, labels: NDArray[Any] | None) -> tuple[float, float]:
    if schema.label_kind == "binary":
        known: tuple[float, float] | None = (0.0, 1.0)
    else:
        finite = (
            np.zeros(0) if labels is None else np.asarray(labels)[np.isfinite(np.asarray(labels, dtype=np.float64))]
        )
        known = (float(finite.min()), float(finite.max())) if len(finite) else None
    low, high = (
        given.get("low", None if known is None else known[0]),
        given.get("high", None if known is None else known[1]),
    )
    if low is not None and high is not None and not abs(high - low) < _WIDEST:
        raise QueryRejected(
            f"the range of {name} is [{low}, {high}], and the square of its width is no finite number. Use other units"
        )
    if low is None or high is None or not low < high:
        raise QueryRejected(
            f"{name} needs the range of labels, low < high, and it is [{low}, {high}]; expected low=... and high=..., "
            "because one row must not be able to move the score at will"
        )
    return float(low), float(high)


def open_labels(compiler: QueryCompiler) -> NDArray[Any] | None:
    """Labels of the training rows; None where there are none."""
    schema, training = compiler.schema, compiler.training
    if training is None or schema.label is None:
        return None
    return training.table((schema.label,))[schema.label]


def _coded(kind: Metric, labels: NDArray[Any], classes: Sequence[str | float] | None) -> NDArray[np.float64]:
    """Labels as a score reads them: classes by their number, or numbers."""
    if kind.outputs in ("classes", "probabilities"):
        return codes_of(np.asarray(labels), tuple(classes or ()))
    return np.asarray(labels, dtype=np.float64)


def largest_group(mechanism: Mechanism, rows: Judged | None = None) -> float:
    """Rows of the largest group that was declared, or that these rows have; 1 of independent rows."""
    dependence = mechanism.dependence
    declared = float(max(size for size, _ in dependence.counts)) if isinstance(dependence, Groups) else 1.0
    return declared if rows is None or rows.groups is None else max(declared, float(np.bincount(rows.groups).max()))


def check_kind(kind: Metric, mechanism: Mechanism) -> None:
    """Refuse mechanisms and rows for which nothing is promised."""
    check_confirms_statistics(
        mechanism, kind.name, instead="accuracy, error, brier, risk, precision, recall or f1"
    )  # fmt: skip
    grouped = kind.one == "any" and isinstance(mechanism.dependence, Groups)
    if not isinstance(mechanism.dependence, Independent) and not (grouped and mechanism.dependence.group_column):
        rows = "independent rows or groups that a column names" if kind.one == "any" else "independent rows"
        raise QueryRejected(
            f"{kind.name} is promised for {rows}, and these rows were declared to depend on each other in another way; "
            "expected accuracy or a loss"
        )


@dataclass(frozen=True, slots=True)
class ScoreReader:
    """Reader of predictions and labels; public.

    Attributes:
        setting: Numbers that define it.
        group_column: Names groups of rows; None of independent ones.
        inside: The condition of rows that count; None for all rows.
    """

    kind: Metric
    setting: Setting
    seen: BoundRows
    group_column: str | None
    classes: Sequence[str | float] | None
    inside: BoundQuery | None = None

    @property
    def numbers(self) -> dict[str, float]:
        """Numbers that define the score, by name."""
        return {name: float(getattr(self.setting, name)) for name in self.kind.settings}

    @property
    def condition(self) -> Any:
        """Identity of the condition; None without one."""
        return None if self.inside is None else self.inside.description

    def whose(self, query: ScoreQuery) -> str:
        """The predictions as people read them."""
        return self.seen.whose(query.rows.predictions)

    def opened(self, training: StoredRows | None) -> Judged | None:
        """Predictions and labels of the training rows; None where unknown."""
        found = self.seen.open(training)
        return None if found is None or training is None else self.judged(found[0], training)

    def clips(self, compiler: QueryCompiler) -> list[Clip]:
        """Clips of the score, with the share of training rows beyond."""
        labels = open_labels(compiler)
        coded = None if labels is None else self.coded(labels)
        return self.kind.measure.clips(self.opened(compiler.training), coded, self.setting)

    def sealed(self, rows: StoredRows) -> Judged:
        """Predictions and labels of the sealed rows; secret."""
        return self.judged(self.seen.sealed(rows)[0], rows)

    def coded(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        """Labels as the score reads them."""
        return _coded(self.kind, labels, self.classes)

    def judged(self, outputs: NDArray[np.float64], rows: StoredRows) -> Judged:
        """Predictions and labels of these rows; an unknown class is -1."""
        labels = rows.table((self.seen.label,))[self.seen.label]
        groups = None if self.group_column is None else rows.group_index(self.group_column)
        counting = None if self.inside is None else rows_that_meet(rows, self.inside)
        return Judged(outputs, self.coded(labels), groups, counting)
