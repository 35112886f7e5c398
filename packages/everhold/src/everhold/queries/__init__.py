"""The registry of all kinds of queries, with a package for each group of kinds.

Read `query` first, the protocol of a query and its plan, then `query_compiler`, which compiles any query. For each
mean, `interval_planner` and `procedures` choose a guess and an interval procedure. `makers` has `mean`, `ratio` and
`difference`. `statistic` has numbers that are computed from all rows together, and `code` the identity of functions.
The kinds are in `means`, `metrics` and `selection`, and the predictions that they read in `predictions`.

A kind is a public name of everhold and an option of the command line. An extension adds one by an entry point of
`everhold.queries` that names a `Kind`, in a module that imports nothing else: the query itself is imported when it is
first made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import Any, overload

from everhold.errors import ExtensionError
from everhold.extensions import Registry, extra_for

__all__ = ["DETAILS", "KINDS", "Detail", "Form", "Kind", "Kinds", "same"]


class Form(StrEnum):
    """The form in which a part of a query is written in a command or a file."""

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
    """An entry of the registry: one kind of query with its maker and its options.

    Attributes:
        name: Name of the maker, the function that makes the query, and of the option on the command line.
        maker: Location of the maker, as ``"package.module:function"``.
        form: Form of the query's subject, which is the maker's first argument.
        help: Help of the option, in a line.
        details: The maker's other arguments, by the names of their options in `DETAILS`.
        several: If the subject is a list of queries: name of the argument that takes them. Else empty. If the form is
            `Form.FLAG`, the maker has two arguments, which are queries.
        rowwise: True if the query is a mean of row values, so that it may be asked together with others in one step.
        recorded: The ``kind`` in the query's ledger entries, if it has entries of its own.
        brings: Details that only this kind has, by name.
        loss: Distribution of the privacy loss of such an entry: that of noise, of a choice, or unknown (``"mixed"``).
    """

    name: str
    maker: str
    form: Form
    help: str
    details: Mapping[str, str]
    several: str = ""
    rowwise: bool = False
    recorded: tuple[str, ...] = ()
    brings: Mapping[str, Detail] = field(default_factory=dict)
    loss: str = "mixed"

    @property
    def module(self) -> str:
        """Name of the module that defines the function that makes these queries, and the class of their results."""
        return self.maker.partition(":")[0]

    @property
    def make(self) -> Callable[..., Any]:
        """The function that makes queries of this kind."""
        maker: Callable[..., Any] = getattr(import_module(self.module), self.maker.partition(":")[2])
        return maker


@dataclass(frozen=True, slots=True)
class Detail:
    """An option that some kinds of queries take, besides their first argument.

    Attributes:
        form: The form in which the option is written.
        help: Description of the option in one line.
    """

    form: Form
    help: str


def same(*names: str, **others: str) -> dict[str, str]:
    """Return a mapping from names of options to names of arguments. Names passed by position are the same for both."""
    return {**{name: name for name in names}, **others}


_RANGE, _TRAINED = same("low", "high"), same(training_predictions="training")
_OTHER = same(with_="other", with_low="other_low", with_high="other_high")
_TIMES = same("event", "at", "steps", "given")
_ARMS = same("arm", "treated", "control", "by", "groups", "given")


def _kind(place: str, form: Form, said: str, details: Mapping[str, str], *, name: str = "", **more: Any) -> Kind:
    return Kind(name or place.rpartition(":")[2], f"everhold.queries.{place}", form, said, details, **more)


_OWN = (
    _kind("makers:mean", Form.EXPRESSION, "The share of rows that meet a condition, or the mean of a number.",
          {**_RANGE, **same("given", "assisted_by", "pool")}, rowwise=True,
          recorded=("mean", "function", "assisted mean"), loss="noise"),
    _kind("metrics.row_scores:accuracy", Form.PREDICTIONS,
          "The share of labels that the predictions in a file meet, joined by row id.",
          _TRAINED, rowwise=True, recorded=("accuracy",), loss="noise"),
    _kind("metrics.row_scores:error", Form.PREDICTIONS, "The share of labels that they miss.", _TRAINED, rowwise=True),
    _kind("metrics.row_scores:brier", Form.PREDICTIONS,
          "The Brier score of probabilities in a file, for labels 0 and 1.",
          _TRAINED, rowwise=True, recorded=("brier",), loss="noise"),
    _kind("metrics.row_scores:risk", Form.PREDICTIONS, "The mean loss of the predictions in a file (see --loss).",
          {**_RANGE, **_TRAINED, **same("loss")}, rowwise=True, recorded=("risk",), loss="noise"),
    _kind("makers:difference", Form.FLAG,
          "The first of two means minus the second, row by row (two of --mean, --error, ...).",
          {}, several="operands", recorded=("difference",), loss="noise"),
    _kind("makers:ratio", Form.EXPRESSION,
          "The share of rows that meet a condition, among rows that meet another one (--given).",
          same(given="denominator"), recorded=("ratio", "within", "count"), loss="noise"),
    _kind("means.contrast:risk_difference", Form.EXPRESSION,
          "The rate of a condition in one arm minus that in another.", _ARMS),
    _kind("means.contrast:risk_ratio", Form.EXPRESSION,
          "The rate of a condition in one arm over that in another.", _ARMS),
    _kind("means.survival:survival", Form.EXPRESSION,
          "The share whose event comes later than a time, with censored rows.", _TIMES, recorded=("survival",)),
    _kind("means.survival:restricted_mean_survival", Form.EXPRESSION,
          "The mean time to an event up to a time, with censored rows.", _TIMES,
          recorded=("restricted mean survival",)),
    _kind("means.distribution:variance", Form.EXPRESSION, "The variance of a condition or of a number.", _RANGE),
    _kind("means.distribution:standard_deviation", Form.EXPRESSION,
          "The standard deviation of a condition or of a number.", _RANGE),
    _kind("means.distribution:sharpe_ratio", Form.EXPRESSION, "The mean of a number divided by its standard deviation.",
          _RANGE),
    _kind("means.distribution:covariance", Form.EXPRESSION,
          "The covariance of two conditions or numbers (the other one is --with).", {**_RANGE, **_OTHER}),
    _kind("means.distribution:correlation", Form.EXPRESSION,
          "The correlation of two conditions or numbers (the other one is --with).", {**_RANGE, **_OTHER}),
    _kind("means.distribution:histogram", Form.EXPRESSION,
          "The shares of the bins of a number, or of a text column's values.", same("missing", edges="bins")),
    _kind("selection.choice:choose", Form.BEST,
          "Which of several means is best, with its value and its regret (--mean, --error, ...).",
          same("most"), several="best", recorded=("best of",)),
    _kind("selection.scan:first_above", Form.NUMBER,
          "Which of several means is the first above a threshold (--mean, --error, ...).",
          {}, several="threshold", recorded=("scan",)),
    _kind("selection.scan:all_above", Form.NUMBER,
          "Which of several means are above a threshold (--mean, --error, ...).", {}, several="threshold"),
    _kind("selection.quantile:quantile", Form.EXPRESSION, "The median or another quantile of a number.",
          {**_RANGE, **same("bins", level="quantile")}, recorded=("order statistic",)),
    _kind("metrics.ranking:auc", Form.PREDICTIONS, "The area under the ROC curve of the scores in a file.",
          {**_TRAINED, **same("positives", "negatives", "where")}, recorded=("auc",), loss="noise"),
    _kind("metrics.ranking:f1", Form.PREDICTIONS, "The F1 of the labels in a file.",
          {**_TRAINED, **same("least")}, recorded=("f1",), loss="noise"),
    _kind("metrics.scores:precision", Form.PREDICTIONS,
          "The share of rows with label 1 among those that a file labels 1.", _TRAINED),
    _kind("metrics.scores:recall", Form.PREDICTIONS, "The share of rows that a file labels 1 among those with label 1.",
          _TRAINED),
    _kind("metrics.scores:metric_of", Form.PREDICTIONS,
          "A score of the predictions in a file by its name in scikit-learn (see --score).",
          {**_TRAINED, **_RANGE, **same("bins", "rate", "threshold", "floor", "where", "pos_label", "weight",
                                        "weight_cap", largest_loss="clip", score="name")},
          name="metric", recorded=("score",), loss="noise"),
    _kind("selection.synthesis:synthesize", Form.CELLS,
          "A table of weighted cells that may be queried for ever at no further cost: see --output.",
          same(marginals="queries"), recorded=("table of shares",)),
)  # fmt: skip
"""The kinds of the core, in the order in which help lists them."""

_DETAILS = {
    "low": Detail(Form.NUMBER, "Of a number or loss: smaller and missing values count as this."),
    "high": Detail(Form.NUMBER, "Of a number or loss: larger values count as this."),
    "given": Detail(Form.EXPRESSION, "Only among rows that meet this condition."),
    "assisted_by": Detail(Form.EXPRESSION, "What a judge says, where few rows have a human label (see --pool)."),
    "pool": Detail(Form.TEXT, "Name of the recorded pool of rows that the judge has judged."),
    "where": Detail(Form.EXPRESSION, "The score of the rows that meet this condition."),
    "event": Detail(Form.EXPRESSION, "Whether the event was seen at the time of the row."),
    "at": Detail(Form.NUMBER, "The time that is asked about."),
    "steps": Detail(Form.WHOLE, "Equal steps of time up to it, by default 50, for groups 8."),
    "arm": Detail(Form.TEXT, "Column that says which arm a row belongs to."),
    "treated": Detail(Form.TEXT, "Its value for the first arm."),
    "control": Detail(Form.TEXT, "Its value for the arm that is subtracted, or divides."),
    "by": Detail(Form.TEXT, "Column of groups: the same for each of them."),
    "groups": Detail(Form.LIST, "Values of the column of groups (--by). By default those of the training rows."),
    "with_": Detail(Form.EXPRESSION, "The other condition or number."),
    "with_low": Detail(Form.NUMBER, "Low end of the other number (--with)."),
    "with_high": Detail(Form.NUMBER, "High end of the other number (--with)."),
    "training_predictions": Detail(Form.PREDICTIONS, "Predictions for the training rows, which make the guess."),
    "loss": Detail(Form.TEXT, "'absolute', 'squared' or 'log'. By default 'squared'."),
    "edges": Detail(Form.LIST, "Increasing edges such as -60,0,15,60, or values of a text column such as AA,UA."),
    "missing": Detail(Form.FLAG, "Ask for the share of missing values, too, which is so by default."),
    "score": Detail(Form.TEXT, "Its name, such as f1_macro, matthews_corrcoef or neg_log_loss."),
    "largest_loss": Detail(Form.NUMBER, "Larger losses of a row count as this."),
    "threshold": Detail(Form.NUMBER, "The probability from which on a row is treated as positive."),
    "floor": Detail(Form.NUMBER, "Errors are divided by no less than this."),
    "weight": Detail(Form.EXPRESSION, "How much a row counts, a number that is not negative."),
    "weight_cap": Detail(Form.NUMBER, "The largest weight. Larger ones count as this."),
    "pos_label": Detail(Form.TEXT, "The class that counts as label 1, against all others."),
    "rate": Detail(Form.NUMBER, "The false positive rate of the recall."),
    "most": Detail(Form.WHOLE, "Number of the best candidates that are told, by default 1."),
    "level": Detail(Form.NUMBER, "Which quantile, by default 0.5, the median."),
    "bins": Detail(Form.WHOLE, "Number of bins, all equally wide."),
    "marginals": Detail(Form.WHOLE, "Promise all counts of so many columns at a time, by default 2."),
    "positives": Detail(Form.WHOLE, "Number of positive rows that take part."),
    "negatives": Detail(Form.WHOLE, "Number of negative rows that take part."),
    "least": Detail(Form.NUMBER, "Floor on predicted and actual positives together, in rows."),
}


def _wrong_with(name: str, kind: Any) -> str:
    """Return in words why an extension's kind of query cannot be used, or an empty text if it can be used."""
    if any(name == own.name for own in _OWN):
        return "everhold has a kind of query with that name itself."
    if not isinstance(kind, Kind):
        return "it is no everhold.queries.Kind."
    if kind.name != name:
        return f"the kind is named {kind.name!r}. Give it the name of its entry point."
    if not kind.module or kind.maker.count(":") != 1:
        return f"its maker is {kind.maker!r}. Write 'package.module:function'."
    unknown = sorted(set(kind.details) - {*_DETAILS, *kind.brings})
    if unknown:
        return f"its details {', '.join(unknown)} are unknown. Describe them in brings."
    taken = sorted(detail for detail in kind.brings if _DETAILS.get(detail, kind.brings[detail]) != kind.brings[detail])
    return f"everhold has other details named {', '.join(taken)}." if taken else ""


class Kinds(Sequence[Kind]):
    """The registry of kinds of queries: kinds of the core, then kinds of extensions in alphabetical order.

    The metadata of installed packages are read only when the kind of an extension is first needed.
    """

    def __init__(self, own: Sequence[Kind]) -> None:
        self.own = {kind.name: kind for kind in own}
        self.extensions: Registry[Kind] = Registry("everhold.queries", {}, _wrong_with)

    def __iter__(self) -> Iterator[Kind]:
        yield from self.own.values()
        yield from self.extensions.values()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @overload
    def __getitem__(self, place: int) -> Kind: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Kind]: ...
    def __getitem__(self, place: int | slice) -> Kind | Sequence[Kind]:
        return tuple(self)[place]

    def named(self, name: str) -> Kind | None:
        """Return the kind with this name, or None if there is none."""
        return self.own.get(name) or self.extensions.get(name)

    def missing(self, name: str) -> str:
        """Return advice how to install a kind of query that is missing, or an empty text if it cannot be installed."""
        extra = extra_for(self.extensions.group, name)
        return f"Install it: pip install 'everhold[{extra}]'" if extra else ""


class _Details(Mapping[str, Detail]):
    """The options of queries by name: those of the core, then those of extensions."""

    def __getitem__(self, name: str) -> Detail:
        return _DETAILS[name] if name in _DETAILS else self._brought()[name]

    def __iter__(self) -> Iterator[str]:
        yield from _DETAILS
        yield from (name for name in self._brought() if name not in _DETAILS)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _brought(self) -> dict[str, Detail]:
        """Return the options that extensions add, by name.

        Raises:
            ExtensionError: If two extensions bring different details under one name.
        """
        found: dict[str, Detail] = {}
        for kind in KINDS.extensions.values():
            for name, detail in kind.brings.items():
                if found.setdefault(name, detail) != detail:
                    raise ExtensionError(
                        f"Two extensions of everhold.queries bring different details named {name!r}, one of them "
                        f"{kind.name!r} ({kind.module}). Uninstall one of their distributions."
                    )
        return found


KINDS = Kinds(_OWN)
"""The registry of all kinds of queries."""

DETAILS: Mapping[str, Detail] = _Details()
"""Options of queries besides their subject, by name."""
