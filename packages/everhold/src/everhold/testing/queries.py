"""Contract of a kind of query: inherit `QueryContract`, and define `kind` and `make`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import everhold
from everhold.asking.creation import settings_from
from everhold.holdout import Holdout
from everhold.queries import DETAILS, KINDS
from everhold.queries.query import Query


class QueryContract:
    """Contract suite of a kind of query that an extension adds.

    Attributes:
        kind: Name of its entry point in `everhold.queries`.
        mechanism: Mechanism of the holdout that is asked.
        queries: Queries that the holdout is planned for.
    """

    kind: str
    mechanism = "guess_and_check"
    queries = 20

    def make(self) -> Query[Any]:
        """Return the same query at every call, about columns of `table`."""
        raise NotImplementedError

    def table(self) -> Mapping[str, Any]:
        """Return the rows to seal, in the first half, and to train on."""
        rng = np.random.default_rng(1)
        return {"x": rng.uniform(0.0, 1.0, 8_000), "y": rng.integers(0, 2, 8_000)}

    @pytest.fixture
    def holdout(self, tmp_path: Any) -> Any:
        """Return a holdout of `table`, with training rows."""
        wanted: dict[str, Any] = {"queries": self.queries, "mechanism": self.mechanism, "allow_vacuous": True}
        rows = {name: np.array_split(np.asarray(column), 2) for name, column in self.table().items()}
        sealed, training = ({name: halves[side] for name, halves in rows.items()} for side in (0, 1))
        with Holdout.create(
            tmp_path / "s.db", "contract", holdout=sealed, training=training, **settings_from(wanted)
        ) as made:
            yield made

    def test_it_is_registered_under_its_name_and_made_by_everhold(self) -> None:
        registered = KINDS.named(self.kind)
        assert registered is not None, f"no entry point of everhold.queries is named {self.kind}"
        assert registered.make is getattr(everhold, self.kind)
        assert registered.help.endswith(".")
        assert set(registered.details) <= set(DETAILS)

    def test_the_same_query_is_made_again_from_what_travels(self, holdout: Holdout) -> None:
        query = self.make()
        made, registered = query.spec(), KINDS.named(self.kind)
        assert registered is not None
        if made.kind == self.kind:
            given = {name: value for name, value in made.details.items() if value is not None}
            query = registered.make(made.of, **given)
        assert self.fingerprints(holdout, query) == self.fingerprints(holdout, self.make())

    def test_a_quote_charges_nothing_and_says_what_then_happens(self, holdout: Holdout) -> None:
        before = holdout.status()["remaining"]
        quote = holdout.quote(self.make())
        assert holdout.status()["remaining"] == before
        answer = holdout.ask(self.make())
        assert answer.charged <= quote.charged_at_most

    def test_the_answer_lies_in_its_interval_and_is_plain_data(self, holdout: Holdout) -> None:
        answer = holdout.ask(self.make())
        assert not answer.refused
        assert answer.low <= answer.value <= answer.high
        assert answer.explain()
        json.dumps(answer.to_dict(), allow_nan=False)

    def test_a_repeated_query_is_answered_alike_and_free(self, holdout: Holdout) -> None:
        first, again = holdout.ask(self.make()), holdout.ask(self.make())
        assert again.repeated
        assert (again.charged, again.value, again.low, again.high) == (0, first.value, first.low, first.high)

    def fingerprints(self, holdout: Holdout, query: Query[Any]) -> list[str]:
        """Return the query's fingerprints in the ledger, which depend on public facts alone."""
        return [entry.fingerprint for entry in query.compile(holdout._executor.compiler).asked]
