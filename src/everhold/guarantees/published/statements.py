"""The published statements about a whole session, by name, each in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from everhold.guarantees.published.bound import PublishedStatement
from everhold.guarantees.published.classical import hoeffding_splitting, hoeffding_splitting_rows
from everhold.guarantees.published.dwork2015 import dwork_theorem_25, dwork_theorem_25_rows
from everhold.guarantees.published.jung2020 import jung_2020, jung_2020_rows
from everhold.guarantees.published.rogers2020 import rogers_2020_monitor, rogers_2020_monitor_rows
from everhold.guarantees.published.zhao2017 import zhao_theorem_2, zhao_theorem_2_rows

__all__ = ["STATEMENTS"]

_ALL = (
    PublishedStatement("zhao_theorem_2", "Zhao 2017, Theorem 2 (P2)", zhao_theorem_2, zhao_theorem_2_rows),
    PublishedStatement(
        "dwork_theorem_25", "Dwork et al. 2015 (NIPS), Theorem 25", dwork_theorem_25, dwork_theorem_25_rows
    ),
    PublishedStatement("jung_2020", "Jung et al. 2020 (P7), Gaussian mechanism", jung_2020, jung_2020_rows),
    PublishedStatement(
        "rogers_2020_monitor",
        "Rogers et al. 2020, mutual information with a monitor",
        rogers_2020_monitor,
        rogers_2020_monitor_rows,
    ),
    PublishedStatement(
        "hoeffding_splitting",
        "Hoeffding 1963 (P9), a part of the rows for each question",
        hoeffding_splitting,
        hoeffding_splitting_rows,
    ),
)

STATEMENTS: Mapping[str, PublishedStatement] = MappingProxyType({statement.name: statement for statement in _ALL})
"""Name to statement, in the order in which the planner shows them."""
