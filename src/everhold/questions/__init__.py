"""Everything that may be asked: one file for each kind of question, and the registry of them all.

To add a kind, write its file with a lower-case maker and add a line here: then it is a public name of everhold, `ask`
and `quote` take it, and the command line spells it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any

__all__ = ["DETAILS", "KINDS", "Detail", "Form", "Kind", "same"]


class Form(StrEnum):
    """In which form a part of a question is written down, in a command or a file."""

    EXPRESSION = "EXPR"
    PREDICTIONS = "FILE"
    CODE = "FILE.py:NAME"
    CELLS = "FILE.json"
    NUMBER = "FLOAT"
    WHOLE = "INTEGER"
    TEXT = "TEXT"
    LIST = "A,B,..."
    BEST = "lowest|highest"
    FLAG = "FLAG"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of question.

    Attributes:
        name: Of its maker, and of its option on the command line.
        home: The module of the maker.
        form: Of its subject, the maker's first argument.
        help: What it is, in a line.
        details: The maker's other arguments, by the names in `DETAILS` under which they are given.
        several: The name of the argument that the option gives where the subject is several questions; empty if not.
            Where the form is `Form.FLAG`, the questions themselves are the maker's arguments, and there are two.
        rowwise: Whether it is a mean of row values, so that it may be one of several.
        tolerant: Whether the maker takes the tolerance, and not `ask`.
        recorded: The ``kind`` of its entries in the ledger, where it has some of its own.
        loss: How such an entry's privacy loss is distributed: that of noise, of a choice, or unknown (``"mixed"``).
    """

    name: str
    home: str
    form: Form
    help: str
    details: Mapping[str, str]
    several: str = ""
    rowwise: bool = False
    tolerant: bool = False
    recorded: tuple[str, ...] = ()
    loss: str = "mixed"

    @property
    def make(self) -> Callable[..., Any]:
        """The maker."""
        maker: Callable[..., Any] = getattr(import_module(f"everhold.questions.{self.home}"), self.name)
        return maker


@dataclass(frozen=True, slots=True)
class Detail:
    """More about a question, for some kinds of them.

    Attributes:
        form: How it is written down.
        help: What it is, in a line.
    """

    form: Form
    help: str


def same(*names: str, **others: str) -> dict[str, str]:
    """Details that go by the name of their argument, and others by ``option=argument``."""
    return {**{name: name for name in names}, **others}


_RANGE, _TRAINED = same("low", "high"), same(training_predictions="training")
_OTHER = same(with_="other", with_low="other_low", with_high="other_high")
_ARMS = same("arm", "treated", "control", "by", "groups", "given")

KINDS = (
    Kind("mean", "mean", Form.EXPRESSION, "The share of rows that meet a condition, or the mean of a number.",
         {**_RANGE, **same("given")}, rowwise=True, recorded=("mean", "function"), loss="noise"),
    Kind("accuracy", "metrics", Form.PREDICTIONS,
         "The share of labels that the predictions in a file meet; they are joined by row id.", _TRAINED,
         rowwise=True, recorded=("accuracy",), loss="noise"),
    Kind("error", "metrics", Form.PREDICTIONS, "The share of labels that they miss.", _TRAINED, rowwise=True),
    Kind("brier", "metrics", Form.PREDICTIONS, "The Brier score of probabilities in a file, for labels 0 and 1.",
         _TRAINED, rowwise=True, recorded=("brier",), loss="noise"),
    Kind("risk", "risk", Form.PREDICTIONS, "The mean loss of the predictions in a file (see --loss).",
         {**_RANGE, **_TRAINED, **same("loss")}, rowwise=True, recorded=("risk",), loss="noise"),
    Kind("difference", "difference", Form.FLAG,
         "The first of two means minus the second, row by row (two of --mean, --error, ...).",
         {}, several="operands", recorded=("difference",), loss="noise"),
    Kind("ratio", "ratio", Form.EXPRESSION,
         "The share of rows that meet a condition, among rows that meet another one (--given).",
         same(given="denominator"), recorded=("ratio", "within", "count"), loss="noise"),
    Kind("risk_difference", "contrasts", Form.EXPRESSION, "The rate of a condition in one arm minus that in another.",
         _ARMS),
    Kind("risk_ratio", "contrasts", Form.EXPRESSION, "The rate of a condition in one arm over that in another.", _ARMS),
    Kind("variance", "moments", Form.EXPRESSION, "The variance of a condition or of a number.", _RANGE),
    Kind("covariance", "moments", Form.EXPRESSION,
         "The covariance of two conditions or numbers (the other one is --with).", {**_RANGE, **_OTHER}),
    Kind("correlation", "moments", Form.EXPRESSION,
         "The correlation of two conditions or numbers (the other one is --with).", {**_RANGE, **_OTHER}),
    Kind("histogram", "histogram", Form.EXPRESSION, "The shares of the bins of a number, or of a text column's values.",
         same("missing", edges="bins")),
    Kind("choose", "choice", Form.BEST,
         "Which of several means is best; their values are not revealed (--mean, --error, ...).",
         same("price"), several="best", recorded=("choice",), loss="choice"),
    Kind("first_above", "first_above", Form.NUMBER,
         "Which of several means is the first above a threshold (--mean, --error, ...).", same("price"),
         several="threshold", recorded=("above",)),
    Kind("quantile", "quantile", Form.EXPRESSION, "The median or another quantile of a number, to the width of a bin.",
         {**_RANGE, **same("bins", "price", level="quantile")}, recorded=("quantile",), loss="choice"),
    Kind("auc", "ranking_scores", Form.PREDICTIONS, "The area under the ROC curve of the scores in a file.",
         {**_TRAINED, **same("positives", "negatives")}, tolerant=True, recorded=("auc",), loss="noise"),
    Kind("f1", "ranking_scores", Form.PREDICTIONS, "The F1 of the labels in a file.", {**_TRAINED, **same("least")},
         tolerant=True, recorded=("f1",), loss="noise"),
    Kind("precision", "rates", Form.PREDICTIONS,
         "The share of rows with label 1 among those that a file labels 1.", _TRAINED),
    Kind("recall", "rates", Form.PREDICTIONS,
         "The share of rows that a file labels 1 among those with label 1.", _TRAINED),
    Kind("gradient", "gradient", Form.CODE, "The mean of a vector that a Python function computes from each row.",
         same("dimension", "clip", "columns", called="name"), tolerant=True, recorded=("gradient",), loss="noise"),
    Kind("low_sensitivity", "low_sensitivity", Form.CODE,
         "A statistic of the whole table, by a Python function, with a proven --sensitivity.",
         {**_RANGE, **same("sensitivity", "columns", called="name")}, tolerant=True, recorded=("statistic",),
         loss="noise"),
    Kind("synthesize", "synthesis", Form.CELLS,
         "A table of weighted cells that may be queried for ever at no further cost: see --output.",
         same("method", "rounds", "price", marginals="questions"), recorded=("synthesis",)),
)  # fmt: skip
"""Every kind of question, in the order in which help lists them."""

DETAILS = {
    "low": Detail(Form.NUMBER, "Of a number or loss: smaller and missing values count as this."),
    "high": Detail(Form.NUMBER, "Of a number or loss: larger values count as this."),
    "given": Detail(Form.EXPRESSION, "Only among rows that meet this condition."),
    "arm": Detail(Form.TEXT, "Column that says which arm a row belongs to."),
    "treated": Detail(Form.TEXT, "Its value for the first arm."),
    "control": Detail(Form.TEXT, "Its value for the arm that is subtracted, or divides."),
    "by": Detail(Form.TEXT, "Column of groups: the same for each of them."),
    "groups": Detail(Form.LIST, "Values of the column of groups (--by); by default those of the training rows."),
    "with_": Detail(Form.EXPRESSION, "The other condition or number."),
    "with_low": Detail(Form.NUMBER, "Low end of the other number (--with)."),
    "with_high": Detail(Form.NUMBER, "High end of the other number (--with)."),
    "training_predictions": Detail(Form.PREDICTIONS, "Predictions for the training rows; they make the guess."),
    "loss": Detail(Form.TEXT, "'absolute', 'squared' or 'log'; squared by default."),
    "edges": Detail(Form.LIST, "Increasing edges such as -60,0,15,60, or values of a text column such as AA,UA."),
    "missing": Detail(Form.FLAG, "Ask for the share of missing values, too, which is so by default."),
    "level": Detail(Form.NUMBER, "Which quantile; 0.5, the median, by default."),
    "bins": Detail(Form.WHOLE, "Number of bins, all equally wide; 100 by default."),
    "positives": Detail(Form.WHOLE, "Number of positive rows that take part."),
    "negatives": Detail(Form.WHOLE, "Number of negative rows that take part."),
    "least": Detail(Form.NUMBER, "Floor on predicted and actual positives together, in rows."),
    "dimension": Detail(Form.WHOLE, "Length of the vectors."),
    "clip": Detail(Form.NUMBER, "Longer vectors are shortened to this length."),
    "sensitivity": Detail(Form.NUMBER, "The most that replacing one row can move the statistic."),
    "columns": Detail(Form.LIST, "Columns that the function reads; all by default."),
    "called": Detail(Form.TEXT, "What makes a function the same question another time; FILE.py:NAME by default."),
    "marginals": Detail(Form.WHOLE, "Promise all counts of so many columns at a time; 2 by default."),
    "method": Detail(Form.TEXT, "'mwem', or 'blr' for universes of a few cells."),
    "rounds": Detail(Form.WHOLE, "Rounds of mwem; by default the best number."),
    "price": Detail(Form.WHOLE, "Credits that it may cost, 100 by default, as a mean; more of them come closer."),
}
"""More about questions, by the names under which it is given."""
