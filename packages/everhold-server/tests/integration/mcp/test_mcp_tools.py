"""What an agent can do with a holdout, called as an agent calls it; and that it is told what to do next."""

import json
import warnings

import numpy as np
import pytest
from mcp_samples import call, create, refused, rows, told

from everhold import EverholdWarning, Holdout, mean
from everhold.asking.creation import settings_from
from everhold.certificate import verify_certificate


@pytest.fixture
def holdout(tmp_path):
    with create(tmp_path) as made:
        yield made


@pytest.fixture
def public(tmp_path):
    """With public features, so that predictions are taken; the first champion is a coin."""
    folder = tmp_path / "public"
    folder.mkdir()
    with create(folder, features="public", training=None) as made:
        made.gate("accuracy", champion={"id": rows(0)["id"], "late": coin()})
        yield made


def coin():
    return np.random.default_rng(5).integers(0, 2, len(rows(0)["id"]))


def good():
    """Predictions by id, as JSON has them."""
    flights = rows(0)
    return {str(i): int(x + z > 0) for i, x, z in zip(flights["id"], flights["x"], flights["z"], strict=True)}


def test_describe_says_what_may_be_asked_and_all_its_examples_can_be(holdout):
    said = told(holdout, "describe")
    assert said["columns"] == {"x": "number", "z": "number", "kind": "string", "late": "number"}
    assert (said["rows"], said["label"], said["row_id"], said["features"]) == (2_000, "late", "id", "sealed")
    assert said["labels"] == [0.0, 1.0]
    assert "95 %" in said["promise"]
    assert said["left"] == {"queries": 200, "surprises": 5}
    assert "no gate" in said["challenger"]
    assert len(said["examples"]) == 3
    for example in said["examples"]:
        assert not told(holdout, "quote", example)["refused"]


@pytest.mark.parametrize("mechanism", ["guess_and_check", "gaussian", "thresholdout", "privacy_budget"])
@pytest.mark.parametrize("label", [None, "kind", "late"])
def test_examples_fit_whatever_is_sealed(tmp_path, label, mechanism):
    flights = {name: column for name, column in rows(3).items() if name != "id"}
    flights['he said "x"'] = flights.pop("x")
    features = "public" if label == "late" else "sealed"
    wanted = {"label": label, "mechanism": mechanism, "queries": 20, "surprises": 10, "allow_vacuous": True}
    wanted["classes"] = ["a", "b"] if label == "kind" else None
    with warnings.catch_warnings(action="ignore", category=EverholdWarning):
        holdout = Holdout.create(
            tmp_path / "p.db", "p", holdout=flights, **settings_from({**wanted, "features": features})
        )
    with holdout:
        examples = told(holdout, "describe")["examples"]
        assert len(examples) >= 2
        for example in examples:
            assert told(holdout, "ask", example)["value"] is not None


def test_an_answer_is_the_ledgers_and_says_what_to_do_next(holdout):
    confirmed = told(holdout, "ask", {"query": "late = 1 and x > 0"})
    assert (confirmed["source"], confirmed["charged"], confirmed["repeated"]) == ("training", 0, False)
    assert "confirmed" in confirmed["next"]
    surprise = told(holdout, "ask", {"query": "late = 1", "guess": 0.99})
    assert (surprise["source"], surprise["charged"], surprise["left"]["surprises"]) == ("holdout", 1, 4)
    assert "cross-validation" in surprise["next"]
    again = told(holdout, "ask", {"query": "LATE=1.0", "guess": 0.2})
    assert (again["repeated"], again["charged"], again["left"]) == (True, 0, surprise["left"])
    assert (again["value"], again["low"], again["high"]) == (surprise["value"], surprise["low"], surprise["high"])
    entries = holdout.transcript().rows
    assert [entry["query"] for entry in entries] == [confirmed["query"], surprise["query"]]


def test_a_repeated_surprise_says_what_it_cost_now_and_not_what_it_cost_once(holdout):
    asked = {"query": "late = 1", "guess": 0.99}
    assert [told(holdout, "ask", asked)["charged"] for _ in range(3)] == [1, 0, 0]


def test_ranges_and_conditions_ask_what_mean_asks(holdout):
    ranged = told(holdout, "ask", {"query": "x", "low": -2, "high": 2})
    among = told(holdout, "ask", {"query": "late = 1", "given": "x > 0"})
    assert holdout.ask(mean("x", low=-2, high=2)).repeated
    assert holdout.ask(mean("late = 1", given="x > 0")).low == among["low"]
    assert ranged["low"] < 0 < ranged["high"]


def test_a_quote_is_free_and_names_the_price(holdout):
    price = told(holdout, "quote", {"query": "late = 1"})
    assert (price["charged_if_confirmed"], price["charged_at_most"], price["answered_before"]) == (0, 1, False)
    assert holdout.status()["queries_asked"] == 0
    told(holdout, "ask", {"query": "late = 1"})
    assert told(holdout, "quote", {"query": "late = 1"})["next"] == "Ask it: the stored answer is free."


def test_a_spent_allotment_refuses_and_says_stop(holdout):
    holdout.allot("agent", queries=1, charges=1)
    agent = holdout.analyst("agent")
    told(agent, "ask", {"query": "late = 1"})
    second = told(agent, "ask", {"query": "x > 0"})
    assert (second["source"], second["value"], second["charged"]) == ("refused", None, 0)
    assert "Stop here" in second["next"]
    assert told(agent, "quote", {"query": "x > 1"})["refused"]
    assert told(agent, "describe")["analyst"] == "agent"
    assert "is spent" in told(agent, "status")["next"]
    assert told(agent, "ask", {"query": "late = 1"})["repeated"]
    assert told(holdout, "ask", {"query": "x > 0"})["source"] == "training"


def test_a_class_that_nobody_declared_is_refused_by_name(tmp_path):
    """Without training rows an agent's "Z" used to be taken, and asked about."""
    labels = np.random.default_rng(4).choice(np.array(["A", "B"]), 1_000)
    wanted = {"mechanism": "guess_and_check", "queries": 20, "features": "public", "classes": ["A", "B"]}
    with Holdout.create(
        tmp_path / "z.db", "z", holdout={"x": np.arange(1_000), "y": labels}, label="y", **settings_from(wanted)
    ) as lettered:
        lettered.gate("accuracy", champion=np.full(1_000, "A"))
        assert told(lettered, "describe")["labels"] == ["A", "B"]
        said = refused(lettered, "challenge", {"predictions": ["Z"] * 1_000})
        assert "'Z'" in said
        assert "'A', 'B'" in said


def test_a_rule_climbs_only_by_proof(holdout):
    holdout.gate("accuracy", champion="x > 0")
    assert told(holdout, "describe")["challenger"].startswith("rule")
    kept = told(holdout, "challenge", {"rule": "x > 0.01"})
    assert (kept["verdict"], kept["charged"]) == ("kept", 0)
    assert kept["next"].startswith("Revert")
    won = told(holdout, "challenge", {"rule": "x + z > 0"})
    assert (won["verdict"], won["charged"], won["promotions"]) == ("promoted", 1, 1)
    again = told(holdout, "challenge", {"rule": "z + x > 0"})
    assert (again["verdict"], again["charged"], again["repeated"]) == ("promoted", 0, True)
    assert again["next"].startswith("This model is the champion already")
    assert told(holdout, "status")["gates"][0]["promotions"] == 1


def test_predictions_by_id_in_any_order_challenge_where_features_are_public(public):
    model = dict(sorted(good().items(), key=lambda pair: hash(pair[0])))
    won = told(public, "challenge", {"predictions": model})
    assert won["promoted"]
    assert told(public, "challenge", {"predictions": good()})["repeated"]
    assert told(public, "challenge", {"rule": "x > 3"})["verdict"] == "kept"


def test_predictions_for_sealed_features_are_refused_because_they_would_weaken_the_promise(holdout):
    holdout.gate("accuracy", champion="x > 0")
    assert "--features public" in refused(holdout, "challenge", {"predictions": good()})
    assert "features of the sealed rows are sealed" in refused(holdout, "challenge", {"file": "a.csv"})


WRONG = [
    ("ask", {}, "needs 'query'"),
    ("ask", {"question": "late = 1"}, "no argument 'question'. Pass only query, guess"),
    ("ask", {"query": "late = 1", "guess": "high"}, "cannot use 'guess' as passed. guess: What you expect"),
    ("ask", {"query": "late = 1", "guess": True}, "cannot use 'guess' as passed. guess: What you expect"),
    ("quote", {"query": "x", "low": "-3", "high": False}, "cannot use 'low' and 'high' as passed. low: Of a number"),
    ("ask", {"query": 7}, "needs 'query'"),
    ("ask", {"query": ""}, "needs 'query'"),
    ("ask", {"query": "late >"}, "not an expression"),
    ("ask", {"query": "lat = 1"}, "no column 'lat'"),
    ("ask", {"query": "x"}, "Pass low and high"),
    ("ask", {"query": "id = 3"}, "row ids"),
    ("ask", {"query": "late = 1", "low": 0}, "Pass both ends of the range"),
    ("ask", {"query": "late = 1", "given": "x"}, "a number, and it has to say which rows count"),
    ("quote", {"query": "late = 1", "tolerance": 0.1}, "no argument 'tolerance'"),
    ("status", {"verbose": True}, "Pass no arguments"),
    ("submit", {}, "no tool 'submit'. The tools are describe, quote, ask, challenge, status, certificate"),
    ("challenge", {"rule": "x > 0", "gate": "other"}, "no gate named 'other'"),
    ("challenge", {"rule": "x > 0", "gate": " "}, "no gate named ' '"),
    ("challenge", {}, "exactly one of rule"),
    ("challenge", {"rule": "x > 0", "file": "a.csv"}, "The call has rule and file"),
]


@pytest.mark.parametrize(("name", "arguments", "said"), WRONG, ids=[said for *_, said in WRONG])
def test_what_is_wrong_is_said_costs_nothing_and_teaches(holdout, name, arguments, said):
    message = refused(holdout, name, arguments)
    assert said in message
    assert message.lower().rstrip(".").endswith(("nothing was charged", "nothing was changed"))
    assert "\n" not in message
    assert "pydantic" not in message


@pytest.mark.parametrize("tool", ["open_challenge", "withdraw"])
def test_tools_of_cases_advise_calls_that_a_holdout_of_rows_takes(holdout, tool):
    assert refused(holdout, tool, {"challenger": "v"}).endswith("Next: call describe, which names the gates.")
    assert "gates" in told(holdout, "describe")


def test_the_certificate_can_be_verified(holdout, tmp_path):
    told(holdout, "ask", {"query": "late = 1"})
    said = told(holdout, "certificate")
    file = tmp_path / "c.json"
    file.write_text(json.dumps(said["document"]))
    assert verify_certificate(file, public_key=said["public_key"]).ok
    assert said["promise"] == holdout.certificate().promise


def test_an_unsealed_study_says_stop(holdout):
    told(holdout, "ask", {"query": "late = 1"})
    holdout.unseal()
    assert "unsealed" in refused(holdout, "ask", {"query": "x > 0"})
    assert told(holdout, "ask", {"query": "late = 1"})["repeated"]
    assert told(holdout, "status")["closed"]
    assert "Stop here" in told(holdout, "describe")["next"]


def test_the_same_call_twice_at_once_is_charged_once(holdout):
    results = call(holdout, *[("ask", {"query": "late = 1", "guess": 0.99})] * 3)
    assert [result.structured_content["charged"] for result in results] == [1, 0, 0]
    assert holdout.status()["charged"] == 1
