"""The contracts of everhold, inherited, and one test of what is particular to each."""

import pytest
from everhold_example.blocks import Blocks
from everhold_example.bonferroni import Bonferroni
from everhold_example.share_between import share_between

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
