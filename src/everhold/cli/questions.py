"""The options that spell a question, the same for `ask` and `quote`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from everhold.cli.failures import Misuse

if TYPE_CHECKING:
    from everhold.queries.base import Query, Schema
    from everhold.queries.mean import ConditionalMean

__all__ = [
    "AccuracyOption",
    "BrierOption",
    "ColumnOption",
    "ErrorOption",
    "GivenOption",
    "GuessOption",
    "HighOption",
    "LowOption",
    "MeanOption",
    "QuestionOptions",
    "TrainingPredictionsOption",
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
    typer.Option(help="The share of labels that the predictions in a file meet.", rich_help_panel=_QUESTION),
]
ErrorOption = Annotated[
    Path | None, typer.Option(help="The share of labels that they miss.", rich_help_panel=_QUESTION)
]
BrierOption = Annotated[
    Path | None,
    typer.Option(help="The Brier score of probabilities in a file, for labels 0 and 1.", rich_help_panel=_QUESTION),
]
LowOption = Annotated[
    float | None,
    typer.Option(help="With --mean of a number: smaller and missing values count as this.", rich_help_panel=_DETAILS),
]
HighOption = Annotated[
    float | None, typer.Option(help="With --mean of a number: larger values count as this.", rich_help_panel=_DETAILS)
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
GuessOption = Annotated[
    float | None, typer.Option(help="Your own guess, in place of the training estimate.", rich_help_panel=_DETAILS)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOptions:
    """A question as it was typed; one attribute for each option."""

    mean: str | None
    accuracy: Path | None
    error: Path | None
    brier: Path | None
    low: float | None
    high: float | None
    given: str | None
    column: str | None
    training_predictions: Path | None

    def check(self, *, required: bool) -> bool:
        """Whether there is a question at all.

        Args:
            required: Whether there has to be one.

        Raises:
            Misuse: If there is more than one, or an option does not belong to it.
        """
        kinds = ["mean", "accuracy", "error", "brier"]
        chosen = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(chosen) > 1 or (required and not chosen):
            found = " and ".join(f"--{kind}" for kind in chosen) or "none"
            raise Misuse(
                f"expected one question, found {found}; give exactly one of --mean, --accuracy, --error, --brier"
            )
        belonging = (
            ["low", "high", "given"] if chosen == ["mean"] else ["column", "training_predictions"] * bool(chosen)
        )
        for name in ("low", "high", "given", "column", "training_predictions"):
            if getattr(self, name) is not None and name not in belonging:
                where = "--mean" if name in ("low", "high", "given") else "--accuracy, --error and --brier"
                raise Misuse(f"--{name.replace('_', '-')} belongs to {where}; leave it out or ask that question")
        return bool(chosen)

    def query(self, schema: Schema) -> Query | ConditionalMean:
        """The question for rows of this schema; reads the files of predictions."""
        from everhold.cli.predictions import read_predictions
        from everhold.queries.mean import ConditionalMean, MeanQuery
        from everhold.queries.metrics import accuracy, brier, error

        if self.mean is not None and self.given is not None:
            if self.low is not None or self.high is not None:
                raise Misuse("--given takes two conditions, which have no range; leave out --low and --high")
            return ConditionalMean(self.mean, self.given)
        if self.mean is not None:
            return MeanQuery(self.mean, self.low, self.high)
        makers = ((accuracy, self.accuracy), (error, self.error), (brier, self.brier))
        make, path = next((make, path) for make, path in makers if path is not None)
        as_text = schema.label_kind == "string"
        training = None
        if self.training_predictions is not None:
            training = read_predictions(self.training_predictions, column=self.column, as_text=as_text)
        return make(read_predictions(path, column=self.column, as_text=as_text), training=training)
