"""Inspect: the results of an evaluation with epochs as a table for a gate about cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.errors import QueryRejected

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Values of Inspect's graders: correct, partially correct, incorrect, no answer."""


def case_results_of(log: EvalLog) -> dict[str, list[Any]]:
    """Results by case and epoch: a metric for each scorer, and ``tokens`` and ``seconds``.

    An epoch is a run of its case. A sample that ended with an error has no numbers, so the gate names it and charges
    nothing.

    Args:
        log: With its samples, as `inspect_ai.log.read_eval_log` reads it.

    Raises:
        QueryRejected: If the log has no samples.
    """
    samples = log.samples or []
    if not samples:
        raise QueryRejected("The log has no samples. Read it whole, by read_eval_log(file).")
    names = sorted({name for sample in samples for name in sample.scores or {}})
    return {
        "case": [str(sample.id) for sample in samples],
        "run": [sample.epoch for sample in samples],
        **{name: [_value(sample, name) for sample in samples] for name in names},
        "tokens": [_tokens(sample) for sample in samples],
        "seconds": [None if sample.error else sample.total_time for sample in samples],
    }


def _value(sample: EvalSample, name: str) -> Any:
    score = (sample.scores or {}).get(name)
    if sample.error is not None or score is None:
        return None
    return _GRADES.get(score.value, score.value) if isinstance(score.value, str) else score.value


def _tokens(sample: EvalSample) -> int | None:
    if sample.error is not None:
        return None
    return sum(usage.total_tokens for usage in (sample.model_usage or {}).values())
