import itertools
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from networks_by_hand import joint_law, random_network

from everhold.errors import DependenceError
from everhold_privacy.networks.files import read_bif, read_uai_bayes, read_uai_markov
from everhold_privacy.networks.models import BayesianNetwork, MarkovNetwork
from everhold_privacy.networks.quilts import influence_bound

BIF = """// a network of a hospital
network "child" { property author "somebody; else" ; /* not
read */ }
variable "Lung Disease" { type discrete [ 3 ] { Asy/Patch, Not present, "x; y" }; property at = (1, 2) ; }
variable Age { type discrete[2] { 0-3_days, >=4 }; }
variable Sick { type discrete[2] { yes no }; }
probability ( Age ) { table 0.25, 0.75; }
probability ( "Lung Disease" | Age ) { // child first, as the format has it
  table 0.1 0.2  0.3 0.4  0.6 0.4;
}
probability ( Sick | "Lung Disease", Age ) {
  default 0.5, 0.5;
  (Asy/Patch, >=4) 0.9, 0.1;
  (Not present, 0-3_days) 3e-1 7e-1; (x; y, 0-3_days) 1, 0;
}
""".replace("(x; y, 0-3_days)", '("x; y", 0-3_days)')


class TestBif:
    def test_a_file_with_everything(self):
        nodes = read_bif(BIF)
        assert list(nodes) == ["Lung Disease", "Age", "Sick"]
        states, parents, table = nodes["Lung Disease"]
        assert (states, parents) == (3, ("Age",))
        np.testing.assert_array_equal(table, [[0.1, 0.3, 0.6], [0.2, 0.4, 0.4]])
        sick = nodes["Sick"][2]
        np.testing.assert_array_equal(sick[0], [[0.5, 0.5], [0.9, 0.1]])
        np.testing.assert_array_equal(sick[1], [[0.3, 0.7], [0.5, 0.5]])
        np.testing.assert_array_equal(sick[2], [[1.0, 0.0], [0.5, 0.5]])
        assert len(BayesianNetwork(nodes).components) == 1

    @pytest.mark.parametrize(
        ("old", "new", "line", "reason"),
        [
            ("table 0.25, 0.75", "table 0.25, x", 7, "a number"),
            ("table 0.25, 0.75", "table 0.25, inf", 7, "a number"),
            ("table 0.25, 0.75", "table 0.25", 7, "probabilities"),
            ("( Age ) {", "( Agee ) {", 7, "no variable"),
            ("{ 0-3_days, >=4 }", "{ 0-3_days, >=4, z }", 5, "different"),
            ("{ 0-3_days, >=4 }", "{ z, z }", 5, "different"),
            ("type discrete[2] { yes", "type continuous[2] { yes", 6, "discrete"),
            ("(Asy/Patch, >=4)", "(Asy/Patsch, >=4)", 13, "no states"),
            ("(Asy/Patch, >=4) 0.9,", "(Asy/Patch, >=4) 0.9, 0.05,", 13, "probabilities"),
            ("(Not present, 0-3_days)", "(Asy/Patch, >=4)", 14, "twice"),
            ("default 0.5, 0.5;", "", 11, "without an entry"),
            ("default", "otherwise", 12, "table, default"),
            ('network "child"', 'netwerk "child"', 2, "network, variable or probability"),
            ("probability ( Age )", "probability ( Sick )", 11, "second table"),
            ('"somebody; else"', '"somebody; else', 2, "quotation"),
            ("variable Sick", "variable Age", 6, "twice"),
        ],
    )
    def test_faults_are_told_with_their_line(self, old, new, line, reason):
        assert old in BIF
        with pytest.raises(DependenceError, match=f"Line {line}: .*{reason}"):
            read_bif(BIF.replace(old, new))

    def test_a_file_that_ends_early(self):
        for end in range(60, len(BIF) - 3, 17):
            with pytest.raises(DependenceError, match="Line"):
                read_bif(BIF[:end])

    def test_a_missing_table(self):
        with pytest.raises(DependenceError, match="no probability of 'Age'"):
            read_bif(BIF.replace("probability ( Age ) { table 0.25, 0.75; }", ""))

    def test_rounded_numbers_are_scaled_and_wrong_ones_refused(self, tmp_path):
        path = tmp_path / "net.bif"
        path.write_text(BIF.replace("0.25, 0.75", "0.2501, 0.75"), encoding="utf-8")
        network = BayesianNetwork.from_file(path)
        assert sum(network.tables[network.table_of[1]]) == pytest.approx(1.0, abs=1e-15)
        with pytest.raises(DependenceError, match="sum to"):
            BayesianNetwork.from_file(path, tolerance=1e-5)
        path.write_text(BIF.replace("0.25, 0.75", "0.35, 0.75"), encoding="utf-8")
        with pytest.raises(DependenceError, match=r"sum to 1\.1"):
            BayesianNetwork.from_file(path)


UAI_BAYES = "BAYES\n3\n2 2 3\n3\n1 0\n2 0 1\n2 1 2\n\n2\n 0.4 0.6\n4\n 0.1 0.9\n 0.7 0.3\n6\n .2 .3 .5\n .5 .5 0\n"
UAI_MARKOV = "MARKOV\n3\n2 2 3\n2\n2 0 1\n2 2 1\n4\n4.0 2.4\n1.0 0.0\n6\n1 2 3\n4 5 6\n"


class TestUai:
    def test_a_bayesian_network(self):
        nodes = read_uai_bayes(UAI_BAYES)
        assert nodes["1"][:2] == (2, ("0",))
        np.testing.assert_array_equal(nodes["2"][2], [[0.2, 0.3, 0.5], [0.5, 0.5, 0.0]])
        assert BayesianNetwork(nodes).names == ("0", "1", "2")

    def test_a_markov_network(self):
        states, factors = read_uai_markov(UAI_MARKOV)
        assert states == {"0": 2, "1": 2, "2": 3}
        assert factors[1][0] == ("2", "1")
        np.testing.assert_array_equal(factors[1][1], [[1, 2], [3, 4], [5, 6]])

    @pytest.mark.parametrize(
        ("old", "new", "line", "reason"),
        [
            ("BAYES", "MARKOV", 1, "BAYES"),
            ("2 2 3\n", "2 -2 3\n", 3, "whole number"),
            ("2 0 1\n", "2 0 7\n", 6, "0 to 2"),
            ("2 0 1\n", "2 0 0\n", 6, "once"),
            ("4\n 0.1", "5\n 0.1", 11, "entries"),
            ("0.9", "0.9x", 12, "a number"),
            (".5 .5 0\n", ".5 .5\n", 16, "too early"),
            (".5 .5 0\n", ".5 .5 0 1\n", 16, "after the last"),
        ],
    )
    def test_faults_are_told_with_their_line(self, old, new, line, reason):
        with pytest.raises(DependenceError, match=f"Line {line}: .*{reason}"):
            read_uai_bayes(UAI_BAYES.replace(old, new, 1))

    def test_every_node_has_one_table(self):
        with pytest.raises(DependenceError, match="second table"):
            read_uai_bayes(UAI_BAYES.replace("2 0 1\n", "2 1 0\n"))
        with pytest.raises(DependenceError, match="no table"):
            read_uai_bayes("BAYES\n2\n2 2\n1\n1 0\n2\n0.5 0.5\n")


def test_files_are_read_by_their_ending(tmp_path):
    bayes, markov, other = (tmp_path / name for name in ("a.uai", "b.uai", "c.txt"))
    bayes.write_text(UAI_BAYES, encoding="utf-8")
    markov.write_text(UAI_MARKOV, encoding="utf-8")
    other.write_text(BIF, encoding="utf-8")
    assert BayesianNetwork.from_file(bayes, row="person").row == "person"
    assert MarkovNetwork.from_file(markov, latent=["0"]).rows == 2
    for kind in (BayesianNetwork, MarkovNetwork):
        with pytest.raises(DependenceError, match="ending"):
            kind.from_file(other)
    with pytest.raises(DependenceError, match="preamble"):
        BayesianNetwork.from_file(markov)
    with pytest.raises(DependenceError, match="cannot be read"):
        BayesianNetwork.from_file(tmp_path / "none.bif")
    bayes.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DependenceError, match="UTF-8"):
        BayesianNetwork.from_file(bayes)


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

    @pytest.mark.parametrize("ending", ["bif", "uai"])
    def test_files_of_theirs_are_read_as_they_meant_them(self, tmp_path, ending):
        self.gum.initRandom(5)
        # with two parents and more their UAI files have another order of values than the format, and theirs alone
        theirs = self.model(5) if ending == "bif" else self.gum.fastBN("c->a[3]->b[3]->d->e;f->g", 2)
        path = str(tmp_path / f"net.{ending}")
        (theirs.saveBIF if ending == "bif" else theirs.saveUAI)(path)
        ours, direct = BayesianNetwork.from_file(path), BayesianNetwork.from_pyagrum(theirs)
        names = direct.names if ending == "bif" else [str(theirs.idFromName(name)) for name in direct.names]
        order = [ours.names.index(name) for name in names]
        combinations, law = joint_law(ours)
        found = {tuple(x[order]): p for x, p in zip(combinations, law, strict=True)}
        assert all(found[tuple(x)] == pytest.approx(p, abs=1e-6) for x, p in zip(*joint_law(direct), strict=True))

    def test_markov_networks(self):
        self.gum.initRandom(3)
        theirs = self.gum.MarkovRandomField.fromBN(self.gum.fastBN("a{x|y|z}->b->c<-d", 2))
        ours = MarkovNetwork.from_pyagrum(theirs)
        inference = self.gum.ShaferShenoyMRFInference(theirs)
        combinations, law = joint_law(ours)
        for node, name in enumerate(ours.names):
            marginal = [law[combinations[:, node] == x].sum() for x in range(ours.states[node])]
            np.testing.assert_allclose(marginal, inference.posterior(name).toarray(), atol=1e-12)


def fake_cpd(variables, values, state_names):
    return SimpleNamespace(variables=variables, values=np.array(values), state_names=state_names)


class TestPgmpy:
    """pgmpy is large, so its models are stood in for by objects with the parts of its interface that are used."""

    first = fake_cpd(["a"], [0.2, 0.8], {"a": ["no", "yes"]})

    def test_own_states_come_first_there(self):
        second = fake_cpd(["b", "a"], [[0.1, 0.4], [0.9, 0.6]], {"b": [0, 1], "a": ["no", "yes"]})
        network = BayesianNetwork.from_pgmpy(SimpleNamespace(get_cpds=lambda: [second, self.first]))
        _, law = joint_law(network)
        assert network.names == ("b", "a")
        np.testing.assert_allclose(law, [0.2 * 0.1, 0.8 * 0.4, 0.2 * 0.9, 0.8 * 0.6])

    def test_states_of_parents_are_matched_by_name(self):
        second = fake_cpd(["b", "a"], [[0.4, 0.1], [0.6, 0.9]], {"b": [0, 1], "a": ["yes", "no"]})
        network = BayesianNetwork.from_pgmpy(SimpleNamespace(get_cpds=lambda: [second, self.first]))
        np.testing.assert_allclose(joint_law(network)[1], [0.2 * 0.1, 0.8 * 0.4, 0.2 * 0.9, 0.8 * 0.6])

    def test_states_that_do_not_match_are_refused(self):
        second = fake_cpd(["b", "a"], [[0.4, 0.1], [0.6, 0.9]], {"b": [0, 1], "a": ["yes", "maybe"]})
        for cpds in ([second, self.first], [second]):
            with pytest.raises(DependenceError, match="'a'"):
                BayesianNetwork.from_pgmpy(SimpleNamespace(get_cpds=lambda cpds=cpds: cpds))

    def test_markov_networks(self):
        pair = fake_cpd(["a", "b"], [[1.0, 2.0], [3.0, 4.0]], {"a": [0, 1], "b": [0, 1]})
        back = fake_cpd(["b"], [1.0, 3.0], {"b": [1, 0]})
        network = MarkovNetwork.from_pgmpy(SimpleNamespace(get_factors=lambda: [pair, back]))
        np.testing.assert_allclose(joint_law(network)[1], np.array([3.0, 2.0, 9.0, 4.0]) / 18.0)


@pytest.mark.parametrize("seed", [2, 3, 7])
def test_a_uai_file_made_by_hand_comes_back(tmp_path, seed):
    network = random_network(seed)
    lines = ["MARKOV", str(len(network.names)), " ".join(map(str, network.states)), str(len(network.scopes))]
    lines += [" ".join(map(str, (len(scope), *scope))) for scope in network.scopes]
    for number in network.table_of:
        values = network.tables[number].ravel()
        lines += [str(len(values)), " ".join(map(repr, values.tolist()))]
    path = tmp_path / "net.uai"
    path.write_text("\n".join(lines), encoding="utf-8")
    np.testing.assert_array_equal(joint_law(MarkovNetwork.from_file(path))[1], joint_law(network)[1])


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (BayesianNetwork.from_pyagrum, "Pass a pyagrum.BayesNet"),
        (MarkovNetwork.from_pyagrum, "Pass a pyagrum.MarkovRandomField"),
        (BayesianNetwork.from_pgmpy, "Pass a discrete Bayesian network of pgmpy"),
        (MarkovNetwork.from_pgmpy, "Pass a discrete Markov network of pgmpy"),
    ],
)
def test_what_is_no_model_of_a_library_is_refused(make, expected):
    for wrong, kind in ((3, "An object of type int"), (SimpleNamespace, "The class SimpleNamespace")):
        with pytest.raises(DependenceError, match=f"{kind} was passed. {expected}"):
            make(wrong)
