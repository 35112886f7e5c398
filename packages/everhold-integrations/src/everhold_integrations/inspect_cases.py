"""Integration with Inspect: turns evaluations with epochs into results for a gate about cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.errors import QueryRejected
from everhold.gates.files import CaseRun, outcomes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from inspect_ai.log import EvalLog, EvalSample

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Values of Inspect's graders: correct, partially correct, incorrect, no answer."""


_OUTAGES = ("time", "working", "operator", "custom")  # limits that say nothing about the answer


def case_results_of(log: EvalLog) -> dict[str, list[Any]]:
    """Return results by case and epoch, with a metric for each scorer, ``tokens`` and ``seconds``.

    An epoch is a run of its case. A limit of tokens, messages, turns, context or cost is part of the task, so a score
    at such a limit counts.

    Args:
        log: Evaluation log with its samples, as `inspect_ai.log.read_eval_log` reads it.

    Raises:
        QueryRejected: If the log has no samples, or did not run to its end.
        CaseRejected: If a sample is no outcome: it ended with an error or at a limit of time, was retried, invalidated,
            read from a cache, or is there twice.
    """
    return outcomes(runs_of_log(log))


def runs_of_log(log: EvalLog) -> Iterator[CaseRun]:
    """Yield the runs of a log, one for each epoch of a case. Takes and raises the same as `case_results_of`."""
    samples = log.samples or []
    if not samples:
        raise QueryRejected("The log has no samples. Read it whole, by read_eval_log(file).")
    if log.status != "success":
        raise QueryRejected(f"The evaluation ended as {log.status!r}. Run it to its end.")
    names = sorted({name for sample in samples for name in sample.scores or {}})
    for sample in samples:
        metrics = {name: _value(sample, name) for name in names}
        used = {"tokens": _tokens(sample), "seconds": sample.total_time}
        yield CaseRun(str(sample.id), f"epoch {sample.epoch}", metrics | used, sample.epoch, *_fault_of(sample))


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


def _tokens(sample: EvalSample) -> int:
    return sum(usage.total_tokens for usage in (sample.model_usage or {}).values())
