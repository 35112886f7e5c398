"""The options that spell a question, the same for `ask` and `quote`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from everhold.cli.failures import Misuse

if TYPE_CHECKING:
    from everhold.questions.derived import DerivedQuery
    from everhold.values.base import Query, Schema

__all__ = [
    "AccuracyOption",
    "BrierOption",
    "ColumnOption",
    "CorrelationOption",
    "CovarianceOption",
    "ErrorOption",
    "GivenOption",
    "GuessOption",
    "HighOption",
    "LowOption",
    "MeanOption",
    "QuestionOptions",
    "ToleranceOption",
    "TrainingPredictionsOption",
    "VarianceOption",
    "WithHighOption",
    "WithLowOption",
    "WithOption",
]

_QUESTION, _DETAILS = "The question, exactly one of", "More about the question"

MeanOption = Annotated[
    str | None,
    typer.Option(
        metavar="EXPR", help="The share of rows that meet a condition, or the mean of a number.",
        rich_help_panel=_QUESTION,
    ),
]  # fmt: skip
AccuracyOption = Annotated[
    Path | None,
    typer.Option(
        help="The share of labels that the predictions in a file meet; they are joined by row id.",
        rich_help_panel=_QUESTION,
    ),
]
ErrorOption = Annotated[
    Path | None, typer.Option(help="The share of labels that they miss.", rich_help_panel=_QUESTION)
]
BrierOption = Annotated[
    Path | None,
    typer.Option(help="The Brier score of probabilities in a file, for labels 0 and 1.", rich_help_panel=_QUESTION),
]
VarianceOption = Annotated[
    str | None,
    typer.Option(metavar="EXPR", help="The variance of a condition or of a number.", rich_help_panel=_QUESTION),
]
CovarianceOption = Annotated[
    str | None, typer.Option(metavar="EXPR", help="The covariance with --with.", rich_help_panel=_QUESTION)
]
CorrelationOption = Annotated[
    str | None, typer.Option(metavar="EXPR", help="The correlation with --with.", rich_help_panel=_QUESTION)
]
LowOption = Annotated[
    float | None,
    typer.Option(help="Of a number: smaller and missing values count as this.", rich_help_panel=_DETAILS),
]
HighOption = Annotated[
    float | None, typer.Option(help="Of a number: larger values count as this.", rich_help_panel=_DETAILS)
]
WithOption = Annotated[
    str | None,
    typer.Option(
        "--with", metavar="EXPR", help="The other condition or number of a covariance or correlation.",
        rich_help_panel=_DETAILS,
    ),
]  # fmt: skip
WithLowOption = Annotated[
    float | None, typer.Option(help="As --low, for the number of --with.", rich_help_panel=_DETAILS)
]
WithHighOption = Annotated[
    float | None, typer.Option(help="As --high, for the number of --with.", rich_help_panel=_DETAILS)
]
GivenOption = Annotated[
    str | None,
    typer.Option(
        metavar="EXPR", help="With --mean: only among rows that meet this condition; asks two questions.",
        rich_help_panel=_DETAILS,
    ),
]  # fmt: skip
ColumnOption = Annotated[
    str | None,
    typer.Option(help="Column of the predictions file, where it has several.", rich_help_panel=_DETAILS),
]
TrainingPredictionsOption = Annotated[
    Path | None,
    typer.Option(help="Predictions for the training rows; they make the guess.", rich_help_panel=_DETAILS),
]
ToleranceOption = Annotated[
    float | None,
    typer.Option(
        help="Half-width wished for; sharper costs more credits. Only with --mechanism privacy_budget.",
        rich_help_panel=_DETAILS,
    ),
]
GuessOption = Annotated[
    float | None, typer.Option(help="Your own guess, in place of the training estimate.", rich_help_panel=_DETAILS)
]


_KINDS = ("mean", "accuracy", "error", "brier", "variance", "covariance", "correlation")
_OF_PREDICTIONS, _OF_TWO = ("accuracy", "error", "brier"), ("covariance", "correlation")
_BELONGS = {
    "low": ("mean", "variance", *_OF_TWO),
    "high": ("mean", "variance", *_OF_TWO),
    "given": ("mean",),
    "with": _OF_TWO,
    "with_low": _OF_TWO,
    "with_high": _OF_TWO,
    "column": _OF_PREDICTIONS,
    "training_predictions": _OF_PREDICTIONS,
}
"""Which details belong to which questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOptions:
    """A question as it was typed; one attribute for each option."""

    mean: str | None
    accuracy: Path | None
    error: Path | None
    brier: Path | None
    variance: str | None
    covariance: str | None
    correlation: str | None
    low: float | None
    high: float | None
    given: str | None
    with_: str | None
    with_low: float | None
    with_high: float | None
    column: str | None
    training_predictions: Path | None

    def check(self, *, required: bool) -> bool:
        """Whether there is a question at all.

        Args:
            required: Whether there has to be one.

        Raises:
            Misuse: If there is more than one, or an option does not belong to it.
        """
        chosen = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(chosen) > 1 or (required and not chosen):
            found = " and ".join(f"--{kind}" for kind in chosen) or "none"
            listed = ", ".join(f"--{kind}" for kind in _KINDS)
            raise Misuse(f"expected one question, found {found}; give exactly one of {listed}")
        for name, kinds in _BELONGS.items():
            value = self.with_ if name == "with" else getattr(self, name)
            if value is not None and not set(chosen) & set(kinds):
                *most, last = (f"--{kind}" for kind in kinds)
                where = f"{', '.join(most)} and {last}" if most else last
                raise Misuse(f"--{name.replace('_', '-')} belongs to {where}; leave it out or ask that question")
        if chosen and chosen[0] in _OF_TWO and self.with_ is None:
            raise Misuse(f"--{chosen[0]} needs the other condition or number; give it as --with EXPR")
        return bool(chosen)

    def query(self, schema: Schema) -> Query | DerivedQuery:
        """The question for rows of this schema; reads the files of predictions."""
        from everhold.questions.mean import ConditionalMean, MeanQuery
        from everhold.questions.moments import Correlation, Covariance, Variance

        if self.mean is not None and self.given is not None:
            if self.low is not None or self.high is not None:
                raise Misuse("--given takes two conditions, which have no range; leave out --low and --high")
            return ConditionalMean(self.mean, self.given)
        if self.mean is not None:
            return MeanQuery(self.mean, self.low, self.high)
        if self.variance is not None:
            return Variance(MeanQuery(self.variance, self.low, self.high))
        for kind, text in ((Covariance, self.covariance), (Correlation, self.correlation)):
            if text is not None and self.with_ is not None:
                other = MeanQuery(self.with_, self.with_low, self.with_high)
                return kind(MeanQuery(text, self.low, self.high), other)
        return self._predictions(schema)

    def _predictions(self, schema: Schema) -> Query:
        from everhold.cli.predictions import read_predictions
        from everhold.questions.metrics import accuracy, brier, error

        makers = ((accuracy, self.accuracy), (error, self.error), (brier, self.brier))
        make, path = next((make, path) for make, path in makers if path is not None)
        training = None
        if self.training_predictions is not None:
            training = read_predictions(self.training_predictions, schema, column=self.column)
        return make(read_predictions(path, schema, column=self.column), training=training)
