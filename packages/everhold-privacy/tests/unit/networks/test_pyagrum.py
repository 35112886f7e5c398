import itertools
import warnings

import numpy as np
import pytest
from networks_by_hand import joint_law

from everhold.errors import DependenceError
from everhold_privacy.networks.models import BayesianNetwork, MarkovNetwork
from everhold_privacy.networks.quilts import influence_bound


@pytest.fixture(scope="module")
def gum():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its modules warn about themselves, and crash where warnings are errors
        pytest.importorskip("pyagrum.markov_random_field")
        return pytest.importorskip("pyagrum")


class TestPyagrum:
    @pytest.fixture(autouse=True)
    def _library(self, gum):
        self.gum = gum

    def model(self, seed):
        self.gum.initRandom(seed)
        return self.gum.fastBN("a{x|y|z}->c<-b[3]->d->e;c->e;f->g", 2)

    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_joint_law_and_inference_agree(self, seed):
        theirs = self.model(seed)
        ours = BayesianNetwork.from_pyagrum(theirs)
        inference = self.gum.LazyPropagation(theirs)
        combinations, law = joint_law(ours)
        for node, name in enumerate(ours.names):
            expected = inference.posterior(name).toarray()
            marginal = [law[combinations[:, node] == x].sum() for x in range(ours.states[node])]
            np.testing.assert_allclose(marginal, expected, atol=1e-12)

    def test_influences_agree(self):
        theirs = self.model(4)
        ours = BayesianNetwork.from_pyagrum(theirs)
        place = {name: node for node, name in enumerate(ours.names)}
        inference = self.gum.LazyPropagation(theirs)
        tensor = inference.evidenceJointImpact(["d", "e"], ["a"])
        values = np.moveaxis(tensor.toarray(), list(reversed(tensor.names)).index("a"), 0).reshape(3, -1)
        expected = max(np.log(values[x] / values[y]).max() for x, y in itertools.permutations(range(3), 2))
        found = influence_bound(ours.model, [place["d"], place["e"]], place["a"]).value
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)

    def test_a_file_of_theirs_has_rounded_probabilities_that_are_scaled(self, tmp_path):
        theirs, path = self.model(5), str(tmp_path / "net.bif")
        theirs.saveBIF(path)
        ours, direct = (BayesianNetwork.from_pyagrum(net) for net in (self.gum.loadBN(path), theirs))
        assert ours.names == direct.names
        np.testing.assert_allclose(joint_law(ours)[1], joint_law(direct)[1], atol=1e-6)
        theirs.cpt("f").fillWith([0.3, 0.699])
        table = BayesianNetwork.from_pyagrum(theirs).to_dict()["tables"]
        assert any(one["values"] == pytest.approx([0.3 / 0.999, 0.699 / 0.999]) for one in table)
        theirs.cpt("f").fillWith([0.3, 0.69])
        with pytest.raises(DependenceError, match=r"probabilities of node 'f' sum to 0.99 "):
            BayesianNetwork.from_pyagrum(theirs)

    def test_markov_networks(self):
        self.gum.initRandom(3)
        theirs = self.gum.MarkovRandomField.fromBN(self.gum.fastBN("a{x|y|z}->b->c<-d", 2))
        ours = MarkovNetwork.from_pyagrum(theirs)
        inference = self.gum.ShaferShenoyMRFInference(theirs)
        combinations, law = joint_law(ours)
        for node, name in enumerate(ours.names):
            marginal = [law[combinations[:, node] == x].sum() for x in range(ours.states[node])]
            np.testing.assert_allclose(marginal, inference.posterior(name).toarray(), atol=1e-12)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (BayesianNetwork.from_pyagrum, "Pass a pyagrum.BayesNet."),
        (MarkovNetwork.from_pyagrum, "Pass a pyagrum.MarkovRandomField."),
    ],
)
def test_what_is_no_model_of_the_library_is_refused(make, expected):
    for given in (object(), dict):
        with pytest.raises(DependenceError, match=expected):
            make(given)
