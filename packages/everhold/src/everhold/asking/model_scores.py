"""Scores of models fitted on the training rows: one model, a model in several slices, or two compared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, Unpack

from everhold.answers import Answer
from everhold.arguments import as_float, brief
from everhold.asking.query_executor import QueryExecutor, ask_apart
from everhold.asking.session import USUAL_FIT, FitTerms, HoldoutSession, current
from everhold.display import Display
from everhold.errors import BudgetExhausted, QueryRejected
from everhold.queries.makers import difference
from everhold.queries.means.plans import OneMean
from everhold.queries.metrics.label_query import naming
from everhold.queries.metrics.models import (
    SliceAnswers,
    as_one_step,
    comparison,
    evaluation,
    in_slice,
    no_false_alarms,
    of_predictions,
    plans_of,
    slices_of,
)
from everhold.values.tracked_models import MODELS, tracked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


_SAYS_NOTHING = 0.9  # of the scale


def _terms(given: FitTerms, *, models: int) -> FitTerms:
    """Return keyword arguments with defaults for missing ones. ``models`` must be the facts about `models` models.

    Raises:
        QueryRejected: If the names of the models cannot be used. Nothing is charged.
    """
    terms: FitTerms = {**USUAL_FIT, **given}
    return terms if terms["models"] is None else {**terms, "models": tracked(terms["models"], count=models)}


def evaluate(
    session: HoldoutSession,
    ask: Callable[..., Any],
    estimator: Any,
    metric: Any,
    *,
    by: Sequence[str] | None,
    **given: Unpack[FitTerms],
) -> Any:
    """Fit an estimator on the training rows and ask for its metric on the sealed rows, for `Holdout.evaluate`."""
    terms = _terms(given, models=1)
    compiler, where, guess, models = session.executor.compiler, terms["where"], terms["guess"], terms["models"]
    if isinstance(metric, list | tuple):
        return _evaluate_several(session, estimator, metric, terms, by=by)
    slices = None if by is None else slices_of(compiler, by)
    sliced = by is not None or (where is not None and guess is None)
    ((query, trained),) = evaluation(compiler, estimator, [metric], terms, sliced=sliced)
    with no_false_alarms(), naming([estimator], models):
        if slices is None or by is None:
            own = trained if guess is None else guess
            return ask(in_slice(query, where), guess=own, strict=terms["strict"], silent=terms["silent"], models=models)
        within = {values: text if where is None else f"({where}) and {text}" for values, text in slices}
        queries = {f"the slice {brief(text)}": (in_slice(query, text), None) for text in within.values()}
        answers = _ask_together(session, queries, guess=guess, terms=terms, sliced=True)
        return SliceAnswers(tuple(by), dict(zip(within, answers, strict=True)))


def _evaluate_several(
    session: HoldoutSession, estimator: Any, metrics: Sequence[Any], terms: FitTerms, *,
    by: Sequence[str] | None,
) -> SliceAnswers:  # fmt: skip
    """Ask one query for each of several metrics, as one step."""
    if by is not None or terms["guess"] is not None:
        raise QueryRejected("Several metrics take neither by= nor guess=. Leave both out, or pass one metric.")
    if not metrics or not all(isinstance(each, str) for each in metrics) or len({*metrics}) < len(metrics):
        raise QueryRejected(f"metric is {brief(metrics)}. Pass one metric, or a list of different names of metrics.")
    compiler, where = session.executor.compiler, terms["where"]
    found = evaluation(compiler, estimator, metrics, terms, sliced=where is not None)
    queries = {
        f"the metric {name}": (in_slice(query, where), guess)
        for name, (query, guess) in zip(metrics, found, strict=True)
    }
    with no_false_alarms(), naming([estimator], terms["models"]):
        told = _ask_together(session, queries, guess=None, terms=terms, sliced=False)
    return SliceAnswers(("metric",), dict(zip(((each,) for each in metrics), told, strict=True)))


@current
def _ask_together(
    session: HoldoutSession, queries: Mapping[str, tuple[Any, float | None]], *, guess: float | None, terms: FitTerms,
    sliced: bool,
) -> Sequence[Any]:  # fmt: skip
    """Ask several queries about one model as one step, or one after the other if the mechanism needs that.

    Args:
        session: Session of the open holdout.
        queries: Each query with its own guess, by its name for messages.
        guess: The analyst's guess for queries to which the training rows give none.
        terms: Keyword arguments of the caller: ``silent``, ``strict`` and ``models`` are used.
        sliced: Whether they are one query in several slices, which must be one step.
    """
    session.check_queries()
    executor, silent, strict = session.asked_of(), terms["silent"] or session.silent, terms["strict"]
    beside = None if terms["models"] is None else {MODELS: terms["models"]}
    compiler = executor.compiler.silently() if silent else executor.compiler
    plans = plans_of(compiler, queries, guess=guess)
    if sliced:
        _check_widths(executor, plans)
    if sliced or all(isinstance(plan, OneMean) for plan in plans):
        return ask_apart(executor, as_one_step(compiler, plans), strict=strict, beside=beside)
    answers: list[Any] = []
    for name, plan in zip(queries, plans, strict=True):
        try:
            answers.append(executor.ask(plan, strict=strict, beside=beside))
        except BudgetExhausted as fault:
            told = ", ".join([*queries][: len(answers)]) or "none"
            raise BudgetExhausted(f"{fault.message} This was {name}. Answered before: {told}.", **fault.data) from None
    return answers


def _check_widths(executor: QueryExecutor, plans: Sequence[Any]) -> None:
    """Raise QueryRejected if at least half of the slices would get intervals too wide to be useful.

    Raises:
        QueryRejected: If at least half of the intervals would be too wide. Nothing is charged.
    """
    state = executor.state()
    new = [
        plan
        for plan in plans
        if isinstance(plan, OneMean) and not executor.compiler.before.answered(plan.prepared[0].bound.query)
    ]
    prices = [plan.price(plan.prepared[0], state) for plan in new]
    ends = [price.confirmed for price in prices if price.confirmed is not None]
    widths = [min(high, 1.0) - max(low, 0.0) for low, high in ends]
    if widths and median(widths) >= _SAYS_NOTHING:
        raise QueryRejected(
            f"by= names {len(plans):,} slices, which are too small: at least half of their intervals would cover "
            f"{100.0 * median(widths):.0f} % of the scale. Name fewer and larger slices, such as bands, or ask for "
            "the ones that matter with where=...",
            slices=len(plans), width=median(widths),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class MarginVerdict(Display):
    """Verdict on whether the first of two models is worse than the second by more than a margin.

    Attributes:
        verdict: ``"not worse"``: the first model is better, or worse by less than the margin. ``"worse"``: it is worse
            by more than the margin. ``"undecided"``: the interval contains both cases.
        margin: Margin in units of the metric.
        answer: The first score minus the second one, with its interval.
    """

    verdict: Literal["not worse", "worse", "undecided"]
    margin: float
    answer: Answer

    @classmethod
    def of(cls, answer: Answer, margin: float, *, greater: bool) -> MarginVerdict:
        """Build the verdict from the answer to a comparison, and from its narrower interval once it is unsealed.

        Args:
            answer: The first score minus the second one.
            margin: Margin in units of the metric, at least 0.
            greater: Whether a greater score is better.
        """
        low, high = answer.low, answer.high
        if answer.sealed is not None:
            low, high = answer.sealed_low, answer.sealed_high
        if low is None or high is None:
            return cls("undecided", margin, answer)
        return cls(verdict_at(margin, low, high, greater=greater), margin, answer)

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"verdict", "margin"}`` with the fields of the answer."""
        return {"verdict": self.verdict, "margin": self.margin, **self.answer.to_dict()}


def verdict_at(
    margin: float, low: float, high: float, *, greater: bool
) -> Literal["not worse", "worse", "undecided"]:  # fmt: skip
    """Return whether the first model is worse by more than a margin, from the interval of its score difference.

    `greater` is true if a greater score is better.
    """
    least, most = (low, high) if greater else (-high, -low)  # of how much better the first one is
    return "not worse" if least > -margin else "worse" if most < -margin else "undecided"


def _judged(
    ask: Callable[..., Any], query: Any, margin: float | None, terms: FitTerms, *, guessed: bool
) -> Any:  # fmt: skip
    """Ask a comparison, and return its answer, or a verdict on it if a margin is given.

    `guessed` is true if the caller passed a guess.
    """
    found, greater = (None, False) if margin is None else (as_float(margin), query.greater)
    if found is not None and not 0.0 <= found < math.inf:
        raise QueryRejected(f"margin is {brief(margin)}. Pass a number that is not negative, in units of the metric.")
    if found is not None and terms["silent"]:
        raise QueryRejected("A silent comparison gives no verdict, so it takes no margin. Leave margin= out.")
    asked = in_slice(query, terms["where"], guessed=guessed)
    answer = ask(asked, guess=terms["guess"], strict=terms["strict"], silent=terms["silent"], models=terms["models"])
    return answer if found is None else MarginVerdict.of(answer, found, greater=greater)


def compare(
    session: HoldoutSession, ask: Callable[..., Any], both: tuple[Any, Any], metric: Any, *,
    margin: float | None = None, **given: Unpack[FitTerms],
) -> Any:  # fmt: skip
    """Compare two models on the sealed rows, for `Holdout.compare`."""
    terms = _terms(given, models=2)
    query = comparison(session.executor.compiler, both, metric, terms)
    with no_false_alarms(), naming(both, terms["models"]):
        return _judged(ask, query, margin, terms, guessed=terms["guess"] is not None)


def compare_elsewhere(
    ask: Callable[..., Any], both: tuple[Any, Any], metric: Any, *, margin: float | None = None,
    **given: Unpack[FitTerms],
) -> Any:  # fmt: skip
    """Compare two arrays of predictions for rows of a remote holdout, for `Holdout.compare` over HTTP."""
    terms = _terms(given, models=2)
    if terms["guess"] is None:
        raise QueryRejected("A comparison of predictions over HTTP needs a guess. Pass guess=0 if you have none.")
    query = difference(*(of_predictions(metric, each) for each in both))
    return _judged(ask, query, margin, terms, guessed=True)
