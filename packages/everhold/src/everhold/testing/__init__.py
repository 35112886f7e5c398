"""Contract suites for extensions: inherit one in your tests and define `make`.

They need pytest and Hypothesis. Each suite says in its docstring what an extension has to provide::

    from everhold.testing import MechanismContract

    class TestMine(MechanismContract):
        def make(self, **request):
            return Mine.tuned(**request)
"""

from everhold.testing.dependence import DependenceContract
from everhold.testing.ledger import LedgerExtensionContract
from everhold.testing.mechanisms import MechanismContract
from everhold.testing.queries import QueryContract
from everhold.testing.rows import RowsContract

__all__ = ["DependenceContract", "LedgerExtensionContract", "MechanismContract", "QueryContract", "RowsContract"]
