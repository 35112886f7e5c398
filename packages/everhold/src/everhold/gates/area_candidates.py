"""Candidates of gates that compare AUCs: scores are kept for each row, and labels are read anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.estimand import check_estimand
from everhold.gates.candidates import Candidate, check_metric, of_any_rows
from everhold.gates.gains import Gain, Gained
from everhold.gates.metrics import SCORE
from everhold.queries.metrics.area import check_area, check_split, share_of_label
from everhold.queries.metrics.area_difference import ScorePairReader, largest_step
from everhold.queries.metrics.ranking_scores import BoundPairs
from everhold.values.base import BoundQuery

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.gates.metrics import GateMetric
    from everhold.gates.stores import Champion
    from everhold.queries.metrics.area import AreaQuery
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows

_NAME = "a gain in AUC"


@dataclass(frozen=True, slots=True)
class AreaCandidate(Candidate):
    """A candidate that is compared by its AUC."""

    pairs: BoundPairs

    @classmethod
    def of(cls, query: AreaQuery, metric: GateMetric, compiler: QueryCompiler) -> AreaCandidate:
        """A candidate for the rows of one holdout.

        Raises:
            QueryRejected: If it cannot be compared, or the metric is another one. Nothing is charged.
        """
        if query.where is not None:
            raise QueryRejected("a gate compares all rows, and this AUC is that of some; expected it without where=...")
        check_area(compiler.mechanism, name=_NAME)
        pairs = query.reader(compiler)
        by_position = pairs.bound.by_position
        check_split(_NAME, compiler.schema, by_rank=by_position or compiler.schema.features_public)
        bound = BoundQuery(
            {"kind": SCORE, "name": "roc_auc", **pairs.described}, f"AUC of {pairs.whose}", reads=pairs.names,
            by_position=by_position,
        )  # fmt: skip
        bound = of_any_rows(bound, compiler.schema)
        check_estimand([bound], compiler.schema, compiler.mechanism)
        check_metric(bound, metric)
        opened = pairs.open(compiler.training)
        given = compiler.placed(query.pairs).given(compiler.schema)
        return cls(bound, given, None if opened is None else opened[:, 0], pairs)

    def sealed_values(self, rows: StoredRows, *, unit: int) -> NDArray[Any]:
        """See `Candidate.sealed_values`: its scores, nan where it fails."""
        return self.pairs.sealed(rows)[:, 0]

    def against(self, champion: Champion, public: Candidate | None, compiler: QueryCompiler) -> Gain:
        """See `Candidate.against`."""
        schema = compiler.schema
        by_rank = self.by_position or champion.by_position or schema.features_public
        check_split(_NAME, schema, by_rank=by_rank)
        told = self.predictions, champion.predictions
        reach = 1.0 if told[0] is None or told[1] is None else largest_step(told[0], told[1])
        share = share_of_label(compiler)
        reader = ScorePairReader(share if by_rank else None, reach)
        trained = None
        if compiler.training is not None and self.training is not None and champion.training is not None:
            trained = reader.trained(
                *(_with_labels(each, compiler.training, schema.label) for each in (self.training, champion.training))
            )
        procedure = reader.procedure(trained, schema.rows, share, guess=None)

        def gain(sealed: StoredRows, challenger: NDArray[Any], leader: NDArray[Any]) -> Gained:
            first, second = (_with_labels(scores, sealed, schema.label) for scores in (challenger, leader))
            seen = reader.at(first, second, sealed.code.dealing_order())
            return Gained.of(seen.area, seen, compiler.mechanism)

        return Gain(procedure, gain)


def _with_labels(scores: NDArray[Any], rows: StoredRows, label: str | None) -> NDArray[np.float64]:
    """Scores, nan where a model fails, and labels; shape (rows, 2)."""
    return np.column_stack([scores, np.asarray(rows.table((label or "",))[label or ""], dtype=np.float64)])
