"""Integration with Inspect: evaluates language models on a holdout of cases, and logs no outcome of a single case.

A case is a public prompt and a sealed target. The task's samples have prompts and no targets. The scorer logs the
model's answer to each sample. The metrics are the holdout's answer about all of them at once. A log of an evaluation
with epochs can also be read as results for a gate about cases.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import EverholdWarning, QueryRejected, warn_caller
from everhold.gates.files import CaseRun, measured
from everhold.holdout import DEFAULT_STORAGE, Holdout, storage_url
from everhold.queries.metrics.row_scores import AccuracyQuery
from everhold.queries.predictions.arrays import MOST_CHARACTERS, check_known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from inspect_ai.log import EvalLog, EvalSample
    from numpy.typing import NDArray

    from everhold.values.base import Schema


try:
    from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
    from inspect_ai.solver import TaskState
except ImportError as missing:
    raise ImportError(
        "everhold_integrations.inspect_ai needs the package inspect-ai. Install it: pip install 'everhold[inspect]'"
    ) from missing


_SCORER = "sealed_accuracy"
_OPEN = "open"
_NOTHING = float("nan")


class CaseAccuracy(AccuracyQuery):
    """Query for the share of cases in which the model's answer equals the target, made by `case_accuracy`.

    An answer that is not a possible target counts as wrong and is not refused, because language models give such
    answers.
    """

    __slots__ = ()

    def checked(
        self, predictions: Any, schema: Schema, *, rows: int | None = None, what: str = "The predictions",
        known: bool = False,
    ) -> NDArray[Any]:  # fmt: skip
        """Return answers as an array of numbers or texts. An answer may be no class of the label."""
        return AccuracyQuery.checked(self, predictions, schema, rows=rows, what=what, known=False)


def case_accuracy(answers: Any, *, training: Any = None) -> CaseAccuracy:
    """Return a query for the share of correctly answered cases, which accepts every output of a model.

    Args:
        answers: One answer for each sealed case, in the form of predictions for `accuracy`. `answers_of` makes them
            from a log.
        training: Answers to the open cases, for the guess.

    Examples:
        >>> case_accuracy({"case": ["a", "b"], "answer": ["4", "I cannot say"]}).score
        'accuracy'
    """
    return CaseAccuracy(answers, training)


def answer_of(state: TaskState) -> str:
    """Return a model's answer: the letters of its choices, or its completion without surrounding spaces."""
    chosen = [chr(ord("A") + each.original_position) for each in state.choices if each.correct]
    return ",".join(sorted(chosen)) if len(state.choices) else state.output.completion.strip()


def sealed_accuracy(
    name: str, *, storage: str | Path = DEFAULT_STORAGE, answer: Callable[[TaskState], str] = answer_of,
    guess: float | None = None, analyst: str | None = None,
) -> Scorer:  # fmt: skip
    """Return a scorer of cases with sealed targets, which logs the answers and the holdout's accuracy.

    Samples are joined with cases by their id. Only open cases, which are training rows of the holdout, have a target in
    the samples. Answers to open cases make the guess. The holdout is asked once, when no case is missing. A run with a
    limit, or with failed samples, asks nothing and charges nothing.

    Args:
        name: Name of the holdout. It must have row ids, and the targets as its ``label``.
        storage: Storage of the holdout, as for `Holdout.open`.
        answer: Function from a sample's state to the answer, in the form of the targets. An answer is correct if it
            equals the target. If targets are numbers, an answer that is not a number is wrong.
        guess: The expected accuracy, if there are no open cases.
        analyst: Analyst who asks.

    Raises:
        QueryRejected: If the cases cannot be joined, because the holdout has no row ids or no label.

    Warns:
        EverholdWarning: If the remaining budget allows no new query.
    """
    with _opened(str(storage_url(storage)), name, analyst) as holdout:
        _check(holdout)
        if not holdout.remaining["queries"]:
            warn_caller(EverholdWarning("The remaining budget allows no new query. Seal new cases."))
    told = through_holdout(name, storage=str(storage_url(storage)), guess=guess, analyst=analyst)
    return scorer(metrics=[told], name=_SCORER)(_logged)(answer)


def _logged(answer: Callable[[TaskState], str]) -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        if state.epoch > 1:
            raise QueryRejected(
                "A case was answered more than once, but a query has one answer for each case. Pass epochs=1, or let a "
                "solver vote."
            )
        said = answer(state)
        return Score(value=said, answer=said, metadata={_OPEN: bool(target.text)})

    return score


@metric(scores="unreduced")
def through_holdout(
    name: str, *, storage: str = DEFAULT_STORAGE, guess: float | None = None, analyst: str | None = None
) -> Metric:
    """Return the metric of `sealed_accuracy`: the accuracy of all answers as the holdout reports it.

    Returns:
        A metric with ``accuracy``, ``low`` and ``high``; ``from_holdout``, 1 for a surprise and 0 for a guess that was
        confirmed; the remaining budget; and ``missing``, the number of cases without an answer. The first four are nan
        while cases are missing, and if the budget is spent.
    """
    asked: dict[str, dict[str, float]] = {}  # computed for the display, too, and the remaining budget changes meanwhile

    def told(scores: list[SampleScore]) -> Value:
        cases = [(each.sample_id, each.score.as_str(), bool((each.score.metadata or {})[_OPEN])) for each in scores]
        known = repr(sorted(cases, key=repr))
        if known in asked:
            return dict(asked[known])
        with _opened(storage, name, analyst) as holdout:
            found = _told(holdout, cases, guess)
        if not found["missing"]:
            asked[known] = found
        return dict(found)

    return told


def _told(holdout: Holdout, cases: Iterable[tuple[Any, str, bool]], guess: float | None) -> dict[str, float]:
    schema, unanswered = holdout.schema, dict.fromkeys(("accuracy", "low", "high", "from_holdout"), _NOTHING)
    sealed, opened = (_table(schema, [case for case in cases if case[2] is is_open]) for is_open in (False, True))
    missing = schema.rows - len(sealed[_id(schema)])
    if open_cases := len(opened[_id(schema)]):
        missing += schema.training_rows - open_cases
    if missing > 0:
        return {**unanswered, "missing": float(missing)}
    answer = holdout.ask(case_accuracy(sealed, training=opened if open_cases else None), guess=guess)
    left = {f"{what}_left": float(n) for what, n in answer.remaining.items()}
    if answer.value is None or answer.low is None or answer.high is None:
        return {**unanswered, "missing": 0.0, **left}
    told = {"accuracy": answer.value, "low": answer.low, "high": answer.high}
    return {**told, "from_holdout": float(answer.source == "holdout"), "missing": 0.0, **left}


def answers_of(log: EvalLog, holdout: Holdout, *, opened: bool = False) -> Mapping[str, Any]:
    """Return the model's answers in an evaluation log as a table by case id.

    Args:
        log: Log of an evaluation with `sealed_accuracy`, including its samples.
        holdout: The holdout of its cases.
        opened: Whether to return the answers to the open cases, from which a guess is made. If not, those to the
            sealed cases.

    Raises:
        QueryRejected: If the log has no samples that `sealed_accuracy` scored.
    """
    _check(holdout)
    scored = [(sample.id, (sample.scores or {}).get(_SCORER)) for sample in log.samples or []]
    cases = [(case, score.as_str(), bool((score.metadata or {})[_OPEN])) for case, score in scored if score is not None]
    if not cases:
        raise QueryRejected(
            "The log has no answers of sealed_accuracy. Score the evaluation with it, and read the log with its "
            "samples by read_eval_log(file)."
        )
    return _table(holdout.schema, [case for case in cases if case[2] is opened])


def _table(schema: Schema, cases: Iterable[tuple[Any, str, bool]]) -> dict[str, Any]:
    """Return answers as a table by case id, in the type of the targets, nan for an answer that is no number.

    Answers longer than any target are truncated.
    """
    ids, said = [], []
    for case, answer, _ in cases:
        ids.append(case)
        answer = answer.replace("\0", "\N{REPLACEMENT CHARACTER}")  # NumPy drops it at the end of a text
        is_long = len(answer) > MOST_CHARACTERS
        short = f"{answer[: MOST_CHARACTERS - 1]}…" if is_long else answer
        said.append(short if schema.label_kind == "string" else _number(answer))
    kind = str if schema.label_kind == "string" else np.float64
    return {_id(schema): ids, "answer": np.array(said, dtype=kind)}


def _number(answer: str) -> float:
    try:
        return float(answer) if answer.isascii() and "_" not in answer else _NOTHING  # 1_000 is Python's alone
    except ValueError:
        return _NOTHING


def _id(schema: Schema) -> str:
    return schema.row_id or ""


def _opened(storage: str, name: str, analyst: str | None) -> Holdout:
    """Open the holdout, with the allotment of an analyst if one is named."""
    holdout = Holdout.open(storage, name)
    return holdout if analyst is None else holdout.analyst(analyst)


def _check(holdout: Holdout) -> None:
    """Raise QueryRejected for a holdout without row ids and label, because samples are joined with cases by id."""
    if holdout.schema.row_id is None or holdout.schema.label is None:
        raise QueryRejected(
            "The holdout has no row ids or no label, but samples are joined with cases by their ids. Create it with "
            "rows=Rows(row_id=...) and label=..., the targets."
        )
    check_known(holdout.schema)


_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Values of Inspect's graders: correct, partially correct, incorrect, no answer."""


_OUTAGES = ("time", "working", "operator", "custom")  # limits that say nothing about the answer


def runs_of_log(log: EvalLog) -> Iterator[CaseRun]:
    """Yield the runs of a log, one for each epoch of a case, with a metric for each scorer, ``tokens`` and ``seconds``.

    A limit of tokens, messages, turns, context or cost is part of the task, so a score at such a limit counts. A run
    has no outcome if it ended with an error or at a time limit, or was retried, invalidated or read from a cache.

    Args:
        log: Evaluation log with its samples, as `inspect_ai.log.read_eval_log` reads it.

    Raises:
        QueryRejected: If the log has no samples, or did not run to its end.
    """
    samples = log.samples or []
    if not samples:
        raise QueryRejected("The log has no samples. Read it whole, by read_eval_log(file).")
    if log.status != "success":
        raise QueryRejected(f"The evaluation ended as {log.status!r}. Run it to its end.")
    names = sorted({name for sample in samples for name in sample.scores or {}})
    for sample in samples:
        tokens = sum(usage.total_tokens for usage in (sample.model_usage or {}).values())
        scores = [(name, _value(sample, name)) for name in names]
        run = measured(
            str(sample.id), f"epoch {sample.epoch}", [*scores, ("tokens", tokens), ("seconds", sample.total_time)],
            sample.epoch,
        )  # fmt: skip
        fault, why = _fault_of(sample)
        yield run if fault is None else replace(run, fault=fault, why=why)


def _fault_of(sample: EvalSample) -> tuple[str | None, str]:
    """Return the fault for which a sample has no outcome, as a key of `REFUSED`, and the log's text about it."""
    if sample.error is not None:
        return "crashed", sample.error.message[:80]
    if sample.limit is not None and sample.limit.type in _OUTAGES:
        return "crashed", f"it ended at the limit {sample.limit.type!r}"
    if sample.error_retries:
        return "retried", "after an error"
    if getattr(sample, "invalidation", None) is not None:
        return "broken", "it was invalidated"
    if any(getattr(event, "cache", None) == "read" for event in sample.events or []):
        return "copied", ""
    return None, ""


def _value(sample: EvalSample, name: str) -> Any:
    score = (sample.scores or {}).get(name)
    if score is None:
        return None
    return _GRADES.get(score.value, score.value) if isinstance(score.value, str) else score.value
