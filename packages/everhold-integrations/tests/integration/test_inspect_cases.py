"""An evaluation with epochs challenges a gate about cases."""

import pytest
from inspect_ai import Task
from inspect_ai import eval as run
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalError, EvalSampleLimit
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match

import everhold as eh
from everhold.gates.files import outcomes
from everhold_integrations.inspect_ai import runs_of_log

CASES, EPOCHS = 12, 3


def evaluated(answer, folder):
    output = ModelOutput.from_content("mockllm/model", answer)
    output.usage = ModelUsage(total_tokens=7)
    samples = [Sample(id=f"case-{n}", input="2 + 2?", target="4") for n in range(CASES)]
    (log,) = run(
        Task(dataset=samples, scorer=match()), model=get_model("mockllm/model", custom_outputs=[output] * 99),
        epochs=EPOCHS, display="none", log_dir=str(folder),
    )  # fmt: skip
    return log


def results_of(log):
    return outcomes(runs_of_log(log))


def test_epochs_are_runs(tmp_path):
    worse, better = (results_of(evaluated(answer, tmp_path)) for answer in ("5", "4"))
    assert sorted(set(better["run"])) == [1, 2, 3]
    assert (set(better["match"]), set(worse["match"]), set(better["tokens"])) == ({1.0}, {0.0}, {7})
    with pytest.warns(eh.EverholdWarning, match="alike"):
        suite = eh.seal_cases(f"{tmp_path}/s.db", results=worse, better="match", units="runs")
    with suite:
        gate = suite.gate(name="main")
        with pytest.warns(eh.EverholdWarning, match="alike"):
            assert gate.challenge(better).promoted
        better["match"][4] = None
        with pytest.raises(eh.CaseRejected, match="crashed"):
            gate.challenge(better)


def test_a_sample_that_is_no_outcome_is_refused_by_name(tmp_path):
    log = evaluated("4", tmp_path)
    ended = EvalError(message="429", traceback="", traceback_ansi="")
    cached = [event.model_copy(update={"cache": "read"}) for event in log.samples[4].events if event.event == "model"]
    for change, fault in (
        ({"error": ended}, "crashed"),
        ({"error_retries": [ended]}, "retried"),
        ({"limit": EvalSampleLimit(type="time", limit=1)}, "crashed"),
        ({"events": cached}, "copied"),
        ({"epoch": 2 if log.samples[4].epoch == 1 else 1}, "doubled"),
    ):
        samples = [sample.model_copy(update=change if n == 4 else {}) for n, sample in enumerate(log.samples)]
        with pytest.raises(eh.CaseRejected) as found:
            results_of(log.model_copy(update={"samples": samples}))
        assert found.value.data["fault"] == fault
    named = [sample.model_copy(update={"scores": {"tokens": sample.scores["match"]}}) for sample in log.samples]
    with pytest.raises(eh.CaseRejected, match="uses the name of a metric twice, 'tokens'"):
        results_of(log.model_copy(update={"samples": named}))
    long = [sample.model_copy(update={"limit": EvalSampleLimit(type="token", limit=1)}) for sample in log.samples]
    assert len(results_of(log.model_copy(update={"samples": long}))["case"]) == CASES * EPOCHS
    with pytest.raises(eh.QueryRejected, match="ended as 'cancelled'"):
        results_of(log.model_copy(update={"status": "cancelled"}))
