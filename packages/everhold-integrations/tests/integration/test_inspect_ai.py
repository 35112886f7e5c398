"""Evaluations of language models on sealed cases: what is asked, what the log holds, and what it does not."""

import importlib
import json
import sys
import zipfile

import numpy as np
import pytest
from inspect_ai import Epochs, Task, score
from inspect_ai import eval as run
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate, multiple_choice

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.errors import EverholdWarning, QueryRejected
from everhold_integrations.inspect_ai import answers_of, case_accuracy, sealed_accuracy

pytestmark = [
    pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning"),
    pytest.mark.filterwarnings("ignore::everhold.errors.SmallHoldoutWarning"),
]

CASES = 40  # too few for a promise, and each takes Inspect a while
OPEN = 20


def targets(kind, count, seed):
    rng = np.random.default_rng(seed)
    if kind == "numbers":
        return rng.integers(0, 50, count).astype(float)
    return rng.choice(np.array(["alpha", "beta", "gamma", "delta"]), count)


def cases(prefix, kind, count, seed):
    return {"case": [f"{prefix}-{place}" for place in range(count)], "target": targets(kind, count, seed)}


@pytest.fixture(params=["texts", "numbers"])
def kind(request):
    return request.param


@pytest.fixture
def storage(tmp_path, monkeypatch):
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path / "logs"))
    return f"sqlite:///{tmp_path}/cases.db"


def mechanism(*, queries=20, surprises=3):
    """Untuned, so that a test need not wait."""
    return eh.GuessAndCheck(rows=CASES, queries=queries, surprises=surprises, tolerance=0.9, grid=10)


def seal(storage, kind="texts", *, opened=0, **wanted):
    training = {"training": cases("open", kind, opened, 1)} if opened else {}
    wanted = {"mechanism": mechanism(), "allow_vacuous": True, "classes": "open", **training, **wanted}
    columns = {"label": "target", "row_id": "case", "features": "public"}
    return eh.Holdout.create(
        storage, "cases", holdout=cases("case", kind, CASES, 0), **settings_from({**columns, **wanted})
    )


def samples(*, opened=(), wrong=0):
    """Prompts without targets, and open cases with theirs."""
    sealed = [Sample(id=f"case-{place}", input=f"Query {place} of {wrong}?") for place in range(CASES)]
    known = [Sample(id=f"open-{place}", input=f"Open {place}?", target=str(told)) for place, told in enumerate(opened)]
    return sealed + known


def output_of(content):
    """A mock output with a usage: without one, tokens are counted with a table from the network."""
    output = ModelOutput.from_content("mockllm/model", content)
    output.usage = ModelUsage()
    return output


def model_that_says(said):
    """A mock model that knows what to say to each prompt."""

    def output(messages, *_):
        words = messages[-1].text.split()
        return output_of(str(said[words[0]][int(words[1].rstrip("?"))]))

    return get_model("mockllm/model", custom_outputs=output)


def mostly_right(truth, right=0.8, seed=5, otherwise="I cannot say"):
    rng = np.random.default_rng(seed)
    return [str(told) if rng.random() < right else otherwise for told in truth.tolist()]


def evaluated(storage, said, *, dataset=None, **wanted):
    settings = {name: wanted.pop(name) for name in ("guess", "answer", "analyst") if name in wanted}
    task = Task(
        dataset=samples() if dataset is None else dataset,
        solver=wanted.pop("solver", generate()),
        scorer=sealed_accuracy("cases", storage=storage, **settings),
    )
    (log,) = run(task, model=model_that_says(said), display="none", **wanted)
    return log


def metrics(log):
    (scored,) = log.results.scores
    return {name: found.value for name, found in scored.metrics.items()}


def test_all_answers_are_one_query_and_its_answer_the_metric(storage, kind):
    said = mostly_right(targets(kind, CASES, 0))
    with seal(storage, kind) as holdout:
        told = metrics(evaluated(storage, {"Query": said}, guess=0.8))
        (entry,) = holdout.transcript().to_rows()
        assert (told["accuracy"], told["low"], told["high"]) == (entry["value"], entry["low"], entry["high"])
        assert told["low"] < 0.8 < told["high"]
        assert (told["missing"], told["from_holdout"], told["queries_left"]) == (0, 0, 19)
        assert entry["about"] == "labels drawn anew on these rows, whose features are public"


def test_answers_to_open_cases_make_the_guess(storage, kind):
    opened = targets(kind, OPEN, 1)
    said = {"Query": mostly_right(targets(kind, CASES, 0)), "Open": mostly_right(opened, seed=6)}
    with seal(storage, kind, opened=OPEN) as holdout:
        told = metrics(evaluated(storage, said, dataset=samples(opened=opened)))
        (entry,) = holdout.transcript().to_rows()
        right = np.mean([one == str(other) for one, other in zip(said["Open"], opened.tolist(), strict=True)])
        assert entry["source"] == "training"
        assert told["accuracy"] == pytest.approx(right, abs=1e-6)


def test_answers_that_can_be_no_target_are_wrong(storage, kind):
    with seal(storage, kind, opened=OPEN) as holdout:
        told = metrics(evaluated(storage, {"Query": CASES * [""]}, guess=0.0))
        assert told["accuracy"] == 0.0
        holdout.unseal()
        assert holdout.transcript().to_rows()[0]["sealed"] == 0.0


def test_an_answer_that_only_resembles_its_target_is_wrong(storage, kind):
    arabic = {48 + digit: 0x660 + digit for digit in range(10)}
    said = [f"{told}\0" if kind == "texts" else f"{told:.0f}".translate(arabic) for told in targets(kind, CASES, 0)]
    with seal(storage, kind) as holdout:
        evaluated(storage, {"Query": said}, guess=0.0)
        holdout.unseal()
        assert holdout.transcript().to_rows()[0]["sealed"] == 0.0


def recorded(log):
    """Everything that was written, as text: headers, samples, events and the summaries of the viewer."""
    with zipfile.ZipFile(log.location) as file:
        return {name: file.read(name).decode() for name in file.namelist()}


def test_no_log_tells_whether_one_answer_is_right(storage):
    """Answers of two models that are right on different cases, told apart by the holdout alone."""
    truth = targets("texts", CASES, 0)
    logs = []
    with seal(storage):
        for turned in (0, 1):
            said = [told if place % 2 == turned else "none" for place, told in enumerate(truth.tolist())]
            logs.append(evaluated(storage, {"Query": said}, guess=0.5))
        for log in logs:
            for sample in log.samples:
                (found,) = sample.scores.values()
                assert found.value == found.answer == sample.output.completion
                assert found.metadata == {"open": False}
                assert sample.target == ""
            told = json.loads(recorded(log)["header.json"])["results"]
            assert "reductions" not in json.dumps(recorded(log)["header.json"])
            assert set(told["scores"][0]["metrics"]) == set(metrics(log))
        assert metrics(logs[0]) == {**metrics(logs[1]), "queries_left": 19.0}


def test_a_scorer_with_targets_does_tell(storage):
    """What the log would hold without the protection."""
    from inspect_ai.scorer import match

    truth = targets("texts", CASES, 0).tolist()
    dataset = [Sample(id=f"case-{place}", input=f"Query {place}?", target=told) for place, told in enumerate(truth)]
    said = {"Query": mostly_right(np.array(truth))}
    (log,) = run(Task(dataset=dataset, scorer=match()), model=model_that_says(said), display="none")
    told = {sample.id: sample.scores["match"].value == "C" for sample in log.samples}
    right = [one == other for one, other in zip(said["Query"], truth, strict=True)]
    assert told == {f"case-{place}": known for place, known in enumerate(right)}


def test_the_display_of_running_metrics_asks_nothing_before_the_end(storage):
    with seal(storage) as holdout:
        log = evaluated(storage, {"Query": mostly_right(targets("texts", CASES, 0))}, guess=0.8, max_samples=1)
        assert len(holdout.transcript()) == 1
        assert metrics(log)["queries_left"] == 19


@pytest.mark.parametrize("part", [{"limit": 10}, {"sample_id": "case-7"}])
def test_a_part_of_the_cases_asks_nothing(storage, part):
    with seal(storage) as holdout:
        before = holdout.status()
        told = metrics(evaluated(storage, {"Query": mostly_right(targets("texts", CASES, 0))}, guess=0.8, **part))
        assert np.isnan([told["accuracy"], told["low"], told["high"]]).all()
        assert told["missing"] == CASES - (10 if "limit" in part else 1)
        assert holdout.status() == before


def test_an_evaluation_that_is_scored_again_is_the_same_query(storage):
    with seal(storage) as holdout:
        log = evaluated(storage, {"Query": mostly_right(targets("texts", CASES, 0))}, guess=0.8)
        again = score(read_eval_log(log.location), sealed_accuracy("cases", storage=storage), action="overwrite")
        assert metrics(again) == metrics(log)
        assert len(holdout.transcript()) == 1


def test_answers_are_extracted_as_one_requests(storage):
    truth = targets("texts", CASES, 0)
    said = {"Query": [f"The answer is: {told.upper()}." for told in truth.tolist()]}
    with seal(storage):
        log = evaluated(
            storage, said, guess=1.0, answer=lambda state: state.output.completion.split()[-1].strip(".").lower()
        )
        assert metrics(log)["accuracy"] == 1.0


def test_of_choices_the_letters_count(storage):
    dataset = [
        Sample(id=f"case-{place}", input=f"Query {place}?", choices=["one", "two", "three"]) for place in range(CASES)
    ]
    letters = np.random.default_rng(0).choice(np.array(["A", "B", "C"]), CASES)
    model = get_model(
        "mockllm/model",
        custom_outputs=[output_of(f"ANSWER: {told}") for told in letters.tolist()],
    )
    rows = {"case": [f"case-{place}" for place in range(CASES)], "target": letters}
    wanted = {"mechanism": mechanism(), "allow_vacuous": True, "classes": ["A", "B", "C"]}
    with eh.Holdout.create(
        storage, "cases", holdout=rows, label="target", **settings_from({**wanted, "row_id": "case"})
    ):
        task = Task(
            dataset=dataset, solver=multiple_choice(), scorer=sealed_accuracy("cases", storage=storage, guess=1.0)
        )
        (log,) = run(task, model=model, display="none", max_samples=1, max_connections=1)
        assert metrics(log)["accuracy"] == 1.0


def test_more_than_one_answer_to_a_case_is_an_error(storage):
    with seal(storage):
        log = evaluated(storage, {"Query": CASES * ["alpha"]}, guess=0.3, epochs=Epochs(2))
        assert log.status == "error"
        assert "Pass epochs=1" in log.error.message


def test_a_spent_budget_is_said_before_a_model_is_called(storage):
    with seal(storage, mechanism=mechanism(queries=1, surprises=1)):
        first = evaluated(storage, {"Query": CASES * ["alpha"]}, guess=0.99)
        assert metrics(first)["from_holdout"] == 1
        with pytest.warns(EverholdWarning, match="allows no new query"):
            sealed_accuracy("cases", storage=storage)


def test_a_holdout_without_row_ids_is_refused(storage):
    rows = cases("case", "texts", CASES, 0)
    wanted = {"mechanism": mechanism(), "allow_vacuous": True, "classes": "open"}
    eh.Holdout.create(storage, "cases", holdout=rows, label="target", **settings_from(wanted)).close()
    with pytest.raises(QueryRejected, match="samples are joined with cases by their ids"):
        sealed_accuracy("cases", storage=storage)


def test_answers_of_two_logs_are_compared_and_challenge_a_champion(storage):
    truth = targets("texts", CASES, 0)
    with seal(storage) as holdout:
        logs = [
            evaluated(storage, {"Query": mostly_right(truth, right)}, guess=right, dataset=samples(wrong=right))
            for right in (0.4, 0.95)
        ]
        worse, better = (answers_of(log, holdout) for log in logs)
        apart = holdout.ask(eh.difference(case_accuracy(better), case_accuracy(worse)), guess=0.55)
        assert (apart.source, round(apart.value, 3)) == ("guess", 0.55)
        gate = holdout.gate(case_accuracy, champion=worse)
        assert not gate.challenge(worse).promoted
        assert gate.challenge(better).promoted


def test_answers_to_open_cases_are_told_apart(storage):
    opened = targets("texts", OPEN, 1)
    with seal(storage, opened=OPEN) as holdout:
        said = {"Query": CASES * ["alpha"], "Open": OPEN * ["beta"]}
        log = evaluated(storage, said, dataset=samples(opened=opened))
        assert set(answers_of(log, holdout)["answer"]) == {"alpha"}
        assert set(answers_of(log, holdout, opened=True)["answer"]) == {"beta"}
        with pytest.raises(QueryRejected, match="The log has no answers"):
            answers_of(read_eval_log(log.location, header_only=True), holdout)


def test_without_the_package_it_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "inspect_ai"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "everhold_integrations.inspect_ai")
    with pytest.raises(ImportError, match=r"pip install 'everhold\[inspect\]'"):
        importlib.import_module("everhold_integrations.inspect_ai")
