import json
from dataclasses import dataclass, field

import numpy as np
import pytest
from networks_by_hand import excess_of_tails, joint_law, random_network

from everhold.errors import DependenceError
from everhold.testing import DependenceContract
from everhold_privacy.networks.bounds import bayesian_changes, dobrushin_changes
from everhold_privacy.networks.models import BayesianNetwork, MarkovNetwork
from everhold_privacy.testing import LeakageContract

COPY = [[0.9, 0.1], [0.2, 0.8]]
COIN = [0.5, 0.5]
GRID_NODES = [row + column for row in "abc" for column in "xyz"]
GRID_PAIRS = [(a + x, a + y) for a in "abc" for x, y in ("xy", "yz")] + [
    (a + x, b + x) for x in "xyz" for a, b in ("ab", "bc")
]


def families(count):
    nodes = {}
    for family in range(count):
        nodes[f"a{family}"] = 2, (), COIN
        nodes[f"b{family}"] = 2, (f"a{family}",), COPY
        nodes[f"c{family}"] = 2, (f"a{family}",), COPY
    return nodes


class TestBayesianNetworkOfFamilies(DependenceContract, LeakageContract):
    def make(self):
        return BayesianNetwork(families(20))


class TestMarkovNetworkWithCycles(DependenceContract, LeakageContract):
    def make(self):
        like = [[1.2, 1.0], [1.0, 1.2]]
        squares = [[f"{corner}{k}" for corner in "abcd"] for k in range(10)]
        pairs = [(square[i], square[(i + 1) % 4]) for square in squares for i in range(4)]
        return MarkovNetwork({name: 2 for square in squares for name in square}, [(p, like) for p in pairs])


@dataclass
class Structure:
    """Rows by the names of their nodes, as a `RowStructure`."""

    sealed: list
    training: list = field(default_factory=list)

    @property
    def rows(self):
        return len(self.sealed)

    @property
    def training_rows(self):
        return len(self.training)

    def group_sizes(self, column):
        counts = [self.sealed.count(name) for name in set(self.sealed)]
        return {size: counts.count(size) for size in counts}

    def shared_groups(self, column):
        return len(set(self.sealed) & set(self.training))

    def unknown_values(self, column, known, *, side="both"):
        rows = {"sealed": self.sealed, "training": self.training, "both": [*self.sealed, *self.training]}[side]
        return sum(name not in known for name in rows)


class TestBinding:
    nodes = families(1)

    def test_each_row_is_a_node(self):
        network = BayesianNetwork(self.nodes, row="person")
        assert network.bind(Structure(["b0", "a0", "c0"])) is network

    @pytest.mark.parametrize(
        ("sealed", "reason"),
        [
            (["a0", "b0", "d0"], "is not a node"),
            (["a0", "b0", "b0"], "more than once"),
            (["a0", "b0"], "nodes with a row"),
            (["a0", "b0", "c0", "d0"], "nodes with a row"),
        ],
    )
    def test_rows_that_are_not_the_nodes_are_refused(self, sealed, reason):
        with pytest.raises(DependenceError, match=reason):
            BayesianNetwork(self.nodes, row="person").bind(Structure(sealed))

    def test_a_latent_node_has_no_row(self):
        network = BayesianNetwork(self.nodes, row="person", latent=["a0"])
        assert network.bind(Structure(["b0", "c0"])) is network
        with pytest.raises(DependenceError, match="is not a node"):
            network.bind(Structure(["a0", "c0"]))

    def test_without_a_column_only_the_number_has_to_match(self):
        network = BayesianNetwork(self.nodes)
        assert network.bind(Structure(["x", "y", "z"])) is network
        with pytest.raises(DependenceError, match="nodes with a row"):
            network.bind(Structure(["x"]))

    def test_training_rows_need_a_word_about_them(self):
        sealed = ["a0", "b0", "c0"]
        with pytest.raises(DependenceError, match="training"):
            BayesianNetwork(self.nodes, row="person").bind(Structure(sealed, ["x"]))
        declared = BayesianNetwork(self.nodes, row="person", training="independent")
        assert declared.bind(Structure(sealed, ["x", "x"])) is declared
        assert "training rows are independent" in declared.describe()

    @pytest.mark.parametrize("latent", [[], ["a0"]])
    def test_training_rows_that_are_nodes_are_refused(self, latent):
        network = BayesianNetwork(self.nodes, row="person", latent=latent, training="independent")
        sealed = [name for name in self.nodes if name not in latent]
        for training in (["a0", "x"], ["b0"]):
            with pytest.raises(DependenceError, match="name a node"):
                network.bind(Structure(sealed, training))

    def test_a_node_cannot_hide_among_the_training_rows(self):
        network = BayesianNetwork(self.nodes, row="person", training="independent")
        with pytest.raises(DependenceError, match="is not a node"):
            network.bind(Structure(["x", "b0", "c0"], ["a0"]))


class TestModelsThatMakeNoSense:
    @pytest.mark.parametrize(
        ("nodes", "reason"),
        [
            ({"a": (2, (), [0.5, 0.4])}, "sum to 0.9"),
            ({"a": (2, (), [1.5, -0.5])}, "outside 0 to 1"),
            ({"a": (2, (), [np.nan, 1.0])}, "outside 0 to 1"),
            ({"a": (2, (), ["x", "y"])}, "not a table of numbers"),
            ({"a": (3, (), COIN)}, "shape"),
            ({"a": (0, (), COIN)}, "states"),
            ({"a": (["x", "x"], (), COIN)}, "states"),
            ({"a": (2, ("b",), COPY)}, "not a node"),
            ({"a": (2, ("a",), COPY)}, "itself"),
            ({"a": (2, ("b",), COPY), "b": (2, ("a",), COPY)}, "cycle"),
            ({}, "none"),
        ],
    )
    def test_bayesian(self, nodes, reason):
        with pytest.raises(DependenceError, match=reason):
            BayesianNetwork(nodes)

    @pytest.mark.parametrize(
        ("factors", "reason"),
        [
            ([(("a", "x"), COPY)], "names of nodes"),
            ([(("a", "a"), COPY)], "once"),
            ([((), 1.0)], "t least one"),
            ([("a", [0.0, 0.0])], "only zeros"),
            ([("a", [-1.0, 2.0])], "negative"),
            ([("a", [np.inf, 2.0])], "infinite"),
            ([(("a", "b"), COIN)], "shape"),
        ],
    )
    def test_markov(self, factors, reason):
        with pytest.raises(DependenceError, match=reason):
            MarkovNetwork({"a": 2, "b": 2}, factors)

    def test_factors_that_contradict_each_other(self):
        network = MarkovNetwork({"a": 2, "b": 2}, [("a", [0.0, 1.0]), ("a", [1.0, 0.0]), (("a", "b"), COPY)])
        with pytest.raises(DependenceError, match="contradict"):
            network.concentration(2)

    def test_settings(self):
        with pytest.raises(DependenceError, match="latent"):
            BayesianNetwork(families(1), latent=["x"])
        with pytest.raises(DependenceError, match="All nodes are latent"):
            BayesianNetwork(families(1), latent=["a0", "b0", "c0"])
        with pytest.raises(DependenceError, match="training"):
            BayesianNetwork(families(1), training="yes")


class TestPlainData:
    @pytest.mark.parametrize("seed", range(12))
    def test_back_and_forth(self, seed):
        network = random_network(seed, row="person", training="independent")
        again = type(network).from_dict(json.loads(json.dumps(network.to_dict())))
        assert again.to_dict() == network.to_dict()
        assert again == network
        assert hash(again) == hash(network)
        np.testing.assert_array_equal(joint_law(again)[1], joint_law(network)[1])

    def test_equal_tables_are_stored_once(self):
        assert len(BayesianNetwork(families(50)).to_dict()["tables"]) == 2

    def test_everything_counts_for_equality(self):
        plain = BayesianNetwork(families(2))
        others = [
            BayesianNetwork(families(3)),
            BayesianNetwork(families(2), row="person"),
            BayesianNetwork(families(2), latent=["a0"]),
            BayesianNetwork(families(2), training="independent"),
            BayesianNetwork(families(2) | {"c1": (2, ("b1",), COPY)}),
            BayesianNetwork(families(2) | {"c1": (2, ("a1",), [[0.9, 0.1], [0.2001, 0.7999]])}),
        ]
        assert all(plain != other for other in others)
        assert plain == BayesianNetwork(families(2))
        assert plain != "network"

    @pytest.mark.parametrize(
        "change",
        [
            {"parents": [[], [7], [0]]},
            {"parents": [[], [-1], [0]]},
            {"table_of": [0, 1, 9]},
            {"names": ["a", "a", "c"]},
            {"latent": [5]},
        ],
    )
    def test_data_that_are_no_network_are_refused(self, change):
        data = BayesianNetwork(families(1)).to_dict()
        with pytest.raises(DependenceError):
            BayesianNetwork.from_dict(data | change)


class TestConcentration:
    @pytest.mark.parametrize("seed", range(60))
    def test_exact_tails_of_small_networks_are_within_the_bound(self, seed):
        network = random_network(seed)
        random = np.random.default_rng(seed)
        for _ in range(5):
            scores = [random.choice([0.0, 1.0], size=3) for _ in network.names]
            assert excess_of_tails(network, network.concentration(network.rows), scores) <= 1e-12

    def test_counting_all_rows_in_full_would_be_wrong(self):
        nodes = {"n0": (2, (), COIN)} | {
            f"n{t}": (2, (f"n{t - 1}",), [[0.99, 0.01], [0.01, 0.99]]) for t in range(1, 9)
        }
        network = BayesianNetwork(nodes)
        scores = [np.array([0.0, 1.0])] * 9
        assert excess_of_tails(network, network.concentration(9), scores) <= 0.0
        assert excess_of_tails(network, 9.0, scores) > 0.1

    def test_the_best_bound_of_each_component_counts(self):
        weak = {
            f"w{t}": (2, (f"w{t - 1}",) if t else (), [[0.51, 0.49], [0.49, 0.51]] if t else COIN) for t in range(50)
        }
        strong = {f"s{t}": (2, (f"s{t - 1}",) if t else (), np.eye(2) if t else COIN) for t in range(5)}
        network = BayesianNetwork(weak | strong)
        assert network.concentration(55) == pytest.approx(55**2 / (50 / 0.98**2 + 5**2), rel=1e-2)

    def test_expected_changes_of_a_collider_by_hand(self):
        table = np.zeros((2, 2, 2))
        table[..., 1] = [[0.1, 0.3], [0.2, 0.9]]
        table[..., 0] = 1.0 - table[..., 1]
        network = BayesianNetwork({"a": (2, (), COIN), "b": (2, (), COIN), "c": (2, ("a", "b"), table)})
        changes = bayesian_changes(network.bounds.parts, network.topological_order)
        assert changes == pytest.approx([1.6, 1.7, 1.0])

    @pytest.mark.parametrize("strength", [1.05, 1.3, 1.8])
    def test_exact_tails_of_a_grid_are_within_the_bound(self, strength):
        network = MarkovNetwork(dict.fromkeys(GRID_NODES, 2), [(p, [[strength, 1], [1, strength]]) for p in GRID_PAIRS])
        counted = network.concentration(9)
        assert excess_of_tails(network, counted, [np.array([0.0, 1.0])] * 9) <= 1e-12
        assert (counted > 6.0) == (strength == 1.05)

    def test_a_grid_with_strong_ties_is_worth_less_than_its_rows(self):
        network = MarkovNetwork(dict.fromkeys(GRID_NODES, 2), [(p, [[9, 1], [1, 9]]) for p in GRID_PAIRS])
        assert network.concentration(9) == 1.0
        assert excess_of_tails(network, 9.0, [np.array([0.0, 1.0])] * 9) > 0.1

    def test_changes_of_a_weak_ring_by_hand(self):
        ring = MarkovNetwork(dict.fromkeys("abcd", 2), [(p, [[1.2, 1], [1, 1.2]]) for p in ("ab", "bc", "cd", "da")])
        share = 1.44 / 2.44 - 0.5  # the law of a node when one neighbour changes: (1.44 : 1) against (1 : 1)
        assert dobrushin_changes(ring.bounds.parts) == pytest.approx(np.full(4, 1.0 / (1.0 - 2.0 * share)), rel=1e-6)

    def test_a_zero_in_a_table_leaves_only_components(self):
        ring = MarkovNetwork(dict.fromkeys("abcd", 2), [(p, [[1.2, 1], [0, 1.2]]) for p in ("ab", "bc", "cd", "da")])
        assert np.all(np.isinf(dobrushin_changes(ring.bounds.parts)))
        assert ring.concentration(4) == 1.0

    def test_other_numbers_of_rows_keep_the_proportion(self):
        network = BayesianNetwork(families(10))
        assert network.concentration(60) == pytest.approx(2 * network.concentration(30))


def test_bayesian_price_uses_quilts_in_small_components():
    chain = {f"n{t}": (2, (f"n{t - 1}",) if t else (), [[0.52, 0.48], [0.48, 0.52]] if t else COIN) for t in range(9)}
    network = BayesianNetwork(chain)
    influence = 2 * np.log(0.52 / 0.48)
    assert network.bayesian_price(2.0, 9) <= 1.0 / (2.0 - 4.0 * influence) * (1 + 1e-6)
    assert BayesianNetwork(families(4)).bayesian_price(0.5, 12) == 6.0


def test_components_and_description():
    network = BayesianNetwork(families(2), row="person", latent=["a0"])
    assert network.components == (("a0", "b0", "c0"), ("a1", "b1", "c1"))
    assert "2 independent components" in network.describe()
    assert network.digest[:12] in network.describe()
    assert network.digest[:12] in repr(network)
