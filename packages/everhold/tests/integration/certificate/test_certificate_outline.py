"""What the page says of each kind of dependence, and of the account."""

import math

import pytest
from certificate_samples import make_sample

from everhold.certificate import verify_certificate
from everhold.certificate.outline import assumptions_block, outline
from everhold.dependence import GaussianAR1, Groups, Independent, MarkovChain
from everhold.mechanisms import GuessAndCheck
from everhold_privacy.mechanisms.additive import GaussianMechanism
from everhold_privacy.networks.models import BayesianNetwork, MarkovNetwork

NAMED = {"order_by": "day", "state": "weather", "groups": "town", "lengths": [(100, 20)]}
CHAIN = MarkovChain([[0.8, 0.2], [0.3, 0.7]], gap=7, uncertainty=0.01, miss=0.01, **NAMED)
AR1 = GaussianAR1(0.3, gap=math.inf, **NAMED)
BAYES = BayesianNetwork(
    {"rain": (2, (), [0.7, 0.3]), "wet": (2, ("rain",), [[0.9, 0.1], [0.2, 0.8]])},
    row="place", latent=["rain"], training="independent",
)  # fmt: skip
PAIRS = MarkovNetwork({"a": 2, "b": 3}, [(("a", "b"), [[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])])
MODELS = (Independent(), Groups([2, 3, 3]), Groups.of_counts({2: 5}, column="house"), CHAIN, AR1, BAYES, PAIRS)

GAP = "dependence: rows left out between training and sealed rows, unseen by all who ask"


def items_of(dependence):
    """What the outline of a document with this dependence says of it."""
    document = {"stated": [], "always": [], "how_to_tell": [], "dependence": dependence}
    return dict(assumptions_block(document).items)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)
def test_every_entry_that_is_shown_has_words_of_its_own(model):
    labels = [label.removeprefix("dependence: ") for label in items_of(model.to_dict())]
    assert len(labels) == len(set(labels))
    plain = {"kind", "states"}
    assert not (set(labels) - plain) & set(model.to_dict())
    assert not any("confirmed" in label for label in labels)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)
def test_what_is_left_open_is_left_out(model):
    shown = items_of(model.to_dict())
    assert not {"none", ""} & set(shown.values())
    silent = [name for name, value in model.to_dict().items() if value in (None, [], 0)]
    assert len(shown) == len(model.to_dict()) - len(silent)


def test_the_entries_in_words():
    chain, network = items_of(CHAIN.to_dict()), items_of(BAYES.to_dict())
    assert chain["dependence: kind"] == "Markov chain"
    assert chain["dependence: chance that the fit is wrong"] == "0.01"
    assert chain["dependence: length of series, and how many"] == "(100, 20)"
    assert chain["dependence: how far each row of the matrix may be off in all"] == "0.01, 0.01"
    assert chain[GAP] == "7"
    assert chain["dependence: law of the first row of a series"] == "the stationary one"
    assert network["dependence: training rows"] == "independent of all sealed rows"
    assert network["dependence: number of states of each node"] == "2, 2"
    assert items_of(AR1.to_dict())[GAP] == ("training rows are independent of all sealed rows")


def test_the_labels_of_the_account_are_not_those_of_the_dependence(tmp_path):
    mechanism = GuessAndCheck.tuned(rows=2_000, queries=20, surprises=2, dependence=Groups([5]))
    certificate, key = make_sample(tmp_path, mechanism)
    blocks = {block.key: block for block in outline(certificate.in_words())}
    assert "confirmed: the training estimate" in dict(blocks["account"].items)
    (tmp_path / "c.html").write_text(certificate.to_html(), encoding="utf-8")
    assert verify_certificate(tmp_path / "c.html", public_key=key.public_key).ok


def test_surprises_that_are_left_are_explained_where_they_can_be_more_than_planned(tmp_path):
    def said(mechanism):
        blocks = outline(make_sample(tmp_path, mechanism)[0].in_words())
        return " ".join(next(block.after for block in blocks if block.key == "account"))

    assert "what is left of the plan" in said(GuessAndCheck.tuned(rows=2_000, queries=20, surprises=2))
    assert not said(GaussianMechanism.tuned(rows=2_000, queries=20))
