"""The contracts of everhold, inherited, and one test of what is particular to each."""

import numpy as np
import pytest
from everhold_example.blocks import Blocks
from everhold_example.bonferroni import Bonferroni
from everhold_example.share_between import share_between

import everhold as eh
from everhold.errors import DependenceError, QueryRejected
from everhold.testing import DependenceContract, MechanismContract, QueryContract


class TestBonferroni(MechanismContract):
    def make(self, **request):
        return Bonferroni.tuned(**request)


class TestBlocks(DependenceContract):
    def make(self):
        return Blocks(4)


class TestShareBetween(QueryContract):
    kind = "share_between"

    def make(self):
        return share_between("x", at_least=0.2, at_most=0.5)


def test_blocks_of_one_row_are_independent_rows():
    assert Blocks(1).concentration(100) == 100
    with pytest.raises(DependenceError, match="length is 0"):
        Blocks(0)


def test_bounds_in_the_wrong_order_are_refused():
    with pytest.raises(QueryRejected, match="lower bound first"):
        share_between("x", at_least=1.0, at_most=0.0)


def test_specificity_is_asked_compared_and_gated_by_its_name(tmp_path):
    from sklearn.metrics import recall_score

    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(2, 4_000))
    rows = {"x": x, "y": (x + noise > 0.5).astype(int)}
    sealed, training = ({name: of[part] for name, of in rows.items()} for part in (slice(2_000), slice(2_000, None)))
    weak, strong = ((sealed["x"] > cut).astype(int) for cut in (-1.0, 0.5))
    create = {"training": training, "label": "y", "mechanism": "guess_and_check", "queries": 50}
    with eh.Holdout.create(f"sqlite:///{tmp_path}/s.db", "s", holdout=sealed, **create) as holdout:
        query = eh.metric("specificity", strong, training=(training["x"] > 0.5).astype(int))
        better = eh.difference(eh.metric("specificity", strong), eh.metric("specificity", weak))
        holdout.ask(query)
        assert holdout.ask(better, guess=0.5).low > 0.0
        assert holdout.gate("specificity", champion=weak).challenge(strong).promoted
        holdout.unseal()
        assert holdout.ask(query).sealed == pytest.approx(recall_score(sealed["y"], strong, pos_label=0), abs=1e-4)
