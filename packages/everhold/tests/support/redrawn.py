"""Answers about sealed rows that are drawn anew in every game, of one holdout whose queries are compiled once.

The rows are read, the mechanism answers and the answer is presented as in `Holdout.ask`, without a ledger. So 500 games
take minutes. Training rows and group sizes stay those of the holdout.
"""

from contextlib import closing, contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from everhold.ledger import Committed
from everhold.mechanisms.base import State
from everhold.queries.query import ExecutionResult
from everhold.randomness import NoNoise
from everhold.sealing.rows.embedded import Embedded
from everhold.sealing.rows.table import StoredRows


class Redrawn:
    """One holdout of this machine, in games on other rows than it sealed.

    Args:
        holdout: The holdout.
        folder: Where the rows of a game are put.

    Attributes:
        sources: Sources of all answers so far.
    """

    def __init__(self, holdout, folder):
        self._executor, self._path, self._plans = holdout._transport.session.executor, folder / "rows.parquet", {}
        self.sources = set()

    @contextmanager
    def sealed(self, rows):
        """Context with the function from a query to its answer, for a game on these rows."""
        executor, state = self._executor, State()
        schema = executor.schema
        pq.write_table(pa.table(rows), self._path)
        with closing(
            StoredRows(Embedded(self._path), schema, rows=schema.rows, sealed=True, order_key=executor.key.order_key)
        ) as store:

            def ask(query):
                nonlocal state
                plan = self._plans.get(key := repr(query))
                if plan is None:
                    plan = self._plans[key] = executor.compiler.compile(query, None, None)
                places = [*range(len(plan.asked))]
                seen = plan.evaluate(store, places)
                state, made = plan.answer(state, seen, places, NoNoise())
                self.sources |= {each.answer["source"] for each in made}
                entries = [Committed(place, each.answer, each.charged, False) for place, each in enumerate(made)]
                return plan.present(ExecutionResult(entries, {}, executor.promise.statement, None))

            yield ask
