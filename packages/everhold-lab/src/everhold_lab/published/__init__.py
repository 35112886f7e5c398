"""Statements of the literature as functions. Begin with `bound`, the form of a statement about a whole session.

`STATEMENTS` are those that the planner shows, each with functions from rows to radius and from radius to rows. All of
them are for independent rows unless their docstring says otherwise. `classical` has Hoeffding, BLR, the exponential
mechanism and the Ladder, `bayesian_privacy` is Zhao 2017, and `post_selection` has max-information and inference after
a session.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from everhold_lab.published.bound import BoundOfSource, StatementOfSource
from everhold_lab.published.jung2020 import (
    JUNG_2020,
    gaussian_sample_failure,
    jung_pure_radius,
    jung_radius,
    laplace_sample_failure,
)
from everhold_lab.published.rogers2020 import ROGERS_2020_MONITOR, rogers_width
from everhold_lab.published.splitting import HOEFFDING_SPLITTING, hoeffding_splitting
from everhold_lab.published.thresholdout import (
    DWORK_THEOREM_25,
    ZHAO_THEOREM_2,
    zhao_theorem_2,
    zhao_theorem_2_rows,
)

__all__ = [
    "STATEMENTS",
    "BoundOfSource",
    "StatementOfSource",
    "gaussian_sample_failure",
    "hoeffding_splitting",
    "jung_pure_radius",
    "jung_radius",
    "laplace_sample_failure",
    "rogers_width",
    "zhao_theorem_2",
    "zhao_theorem_2_rows",
]

_ALL = (ZHAO_THEOREM_2, DWORK_THEOREM_25, JUNG_2020, ROGERS_2020_MONITOR, HOEFFDING_SPLITTING)

STATEMENTS: Mapping[str, StatementOfSource] = MappingProxyType({statement.name: statement for statement in _ALL})
"""Name to statement, in the order in which the planner shows them."""
