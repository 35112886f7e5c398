"""Blocks of AUCs need rows of one law: a world of two by two laws in which the bet against the AUC is unfair."""

from itertools import permutations
from math import factorial

import numpy as np


def test_the_capital_of_blocks_grows_where_each_positive_beats_its_twin_alone():
    rows, stake = 7, 0.5
    area = 1.0 / rows
    deals = np.array(list(permutations(range(rows))))
    blocks = deals == np.arange(rows)  # one negative to a positive
    capital = np.prod(1.0 + stake * (blocks / area - 1.0), axis=1)
    assert blocks.mean() == area
    assert capital.sum() / factorial(rows) > 5.0
