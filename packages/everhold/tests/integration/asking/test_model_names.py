"""Names of models and submissions in place of hashes."""

import holdout_samples as samples
import pytest

from everhold import accuracy
from everhold.asking.reports.holdout_ledger import with_names


@pytest.fixture
def holdout(tmp_path):
    with samples.create(tmp_path, mechanism=samples.guess_and_check(queries=60, surprises=5)) as made:
        yield made


def test_models_of_a_gate_are_named_by_what_was_proposed(holdout):
    gate = holdout.gate("accuracy", champion="delay > 15", name="o'clock: nightly")
    gate.challenge("delay > 20")
    assert set(holdout.ledger.model_names().values()) == {"the rule delay > 15", "the rule delay > 20"}
    assert gate.champion in holdout.ledger.model_names()


def test_an_analyst_learns_only_the_names_of_their_own_models(holdout):
    holdout.gate("accuracy", champion="delay > 15", name="nightly")
    holdout.allot("ada", queries=5, charges=1)
    holdout.analyst("ada").gate(name="nightly").challenge("delay > 20")
    assert set(holdout.ledger.model_names(asked_by="ada").values()) == {"the rule delay > 20"}
    assert holdout.ledger.model_names(asked_by="ben") == {}


def test_an_estimator_is_named_by_its_class(tmp_path):
    class Threshold:
        def predict(self, features):
            return (features[:, 0] > 15).astype(int)

    numbers = [{name: column for name, column in samples.rows(seed).items() if name != "carrier"} for seed in (0, 1)]
    with samples.create(tmp_path, holdout=numbers[0], training=numbers[1]) as holdout:
        assert holdout.ask(accuracy(Threshold())).shown.startswith("accuracy of Threshold ")


def test_a_hash_without_a_name_stays():
    text = "gate 'g': accuracy of predictions 0f1e2d3c against champion a1b2c3d4"
    assert with_names(text, {}) == text
    named = {"a1b2c3d4" + 56 * "0": "submission 1 of larks"}
    assert with_names(text, named).endswith("predictions 0f1e2d3c against the champion, submission 1 of larks")
