"""A list of queries, such as the end points of a trial, or 40 finalists."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from everhold.arguments import as_float, brief, items_of
from everhold.errors import QueryRejected
from everhold.families.base import BoundFamily, Family
from everhold.queries.mean import MeanQuery, in_one_line
from everhold.queries.means import OneMean, RowwiseQuery
from everhold.queries.query import MOST_SHOWN, Query, digest

if TYPE_CHECKING:
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.table import StoredRows
    from everhold.values.base import BoundQuery, Schema

_MOST = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class ListedFamily(Family):
    """Queries by name; made by `listed`."""

    queries: Sequence[Query[Any] | str]
    weights: Sequence[float] | None = None

    def bind(self, compiler: QueryCompiler) -> BoundList:
        """Each query by its fingerprint; a query that is there twice is refused, however it is spelled."""
        members: dict[str, tuple[str, float]] = {}
        trained: dict[str, str] = {}
        for query, weight in zip(self.queries, self.checked_weights(), strict=True):
            plan = compiler.silently().compile(query, None, None)
            if not isinstance(plan, OneMean):
                raise QueryRejected(
                    f"{brief(query)} is made of several queries; expected queries that are one mean or ratio each, "
                    "such as 'delay > 15' or accuracy(model)"
                )
            bound = plan.prepared[0].bound
            if bound.query in members:
                raise _listed_twice(bound.shown)
            members[bound.query] = bound.shown[:MOST_SHOWN], -math.log(weight)
            if (values := _values_digest(bound, compiler.training)) is not None:
                trained[bound.query] = values
        return BoundList(members, trained)

    def planned_nats(self, *, training: bool) -> float | None:
        """See `Family.planned_nats`. Two spellings of one query are found when the columns are known."""
        weights, found = self.checked_weights(), set[Any]()
        for query in self.queries:
            asked = MeanQuery(query) if isinstance(query, str) else query
            known = isinstance(asked, MeanQuery) and isinstance(asked.text, str)
            spelled = (in_one_line(asked.text), asked.low, asked.high) if known else id(query)  # type: ignore[union-attr]
            if spelled in found:
                raise _listed_twice(asked.text if known else query)  # type: ignore[union-attr]
            found.add(spelled)
        return -math.log(min(weights))

    def checked_weights(self) -> list[float]:
        """The weight of each query; all alike where none are given.

        Raises:
            QueryRejected: If there is no list of queries, or not one weight for each. Nothing is charged.
        """
        queries, weights = self.queries, self.weights
        if isinstance(queries, (str, bytes)) or not isinstance(queries, Sequence) or not 1 <= len(queries) <= _MOST:
            raise QueryRejected(f"queries is {brief(queries)}; expected a list of 1 to {_MOST:,} queries")
        if weights is None:
            return [1.0 / len(queries)] * len(queries)
        given = [as_float(weight) for weight in items_of(weights) or ()]
        if len(given) != len(queries) or not all(0.0 < weight <= 1.0 for weight in given) or sum(given) > 1.0 + 1e-9:
            raise QueryRejected(
                f"weights is {brief(weights)}; expected a positive number for each of the {len(queries)} queries, "
                "which sum to at most 1"
            )
        return [weight / max(sum(given), 1.0) for weight in given]


def _listed_twice(query: object) -> QueryRejected:
    return QueryRejected(
        f"{brief(query)} is listed twice; expected each query once, whatever its spelling; leave one of them out"
    )


@dataclass(frozen=True, slots=True)
class BoundList(BoundFamily):
    """The queries of one holdout.

    Attributes:
        members: What is shown of each, and ln(1 / weight), by its fingerprint.
        trained: SHA-256 of the row values of training rows, of members that are predictions, by fingerprint. They say
            how the interval is made, and were fixed when the member was declared (S10).
    """

    kind: ClassVar[str] = "listed"
    members: dict[str, tuple[str, float]] = field(repr=False)
    trained: dict[str, str] = field(default_factory=dict, repr=False)

    def nats(self, bound: BoundQuery) -> float | None:
        """See `BoundFamily.nats`."""
        known = self.members.get(bound.query)
        return None if known is None else known[1]

    def check_training(self, bound: BoundQuery, training: StoredRows | None) -> None:
        """See `BoundFamily.check_training`."""
        if bound.query in self.members and self.trained.get(bound.query) != _values_digest(bound, training):
            raise QueryRejected(
                f"{bound.shown} was declared with other predictions for the training rows; expected the same ones, "
                "because they say how its interval is made"
            )

    def to_dict(self) -> dict[str, Any]:
        """See `BoundFamily.to_dict`."""
        members = [[query, shown, nats] for query, (shown, nats) in self.members.items()]
        return {"kind": self.kind, "members": members, **({"trained": self.trained} if self.trained else {})}

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Schema) -> Self:
        """The inverse of `to_dict`."""
        members = {str(query): (str(shown), float(nats)) for query, shown, nats in data["members"]}
        return cls(members, dict(data.get("trained", {})))

    @property
    def shown(self) -> str:
        """See `BoundFamily.shown`."""
        return f"{len(self.members):,} listed {'query' if len(self.members) == 1 else 'queries'}"

    @property
    def most_nats(self) -> float:
        """See `BoundFamily.most_nats`."""
        return max(nats for _, nats in self.members.values())


def _values_digest(bound: BoundQuery, training: StoredRows | None) -> str | None:
    """SHA-256 of the row values of training rows. None of expressions: they have no others."""
    pair = bound.pair
    if pair is not None:
        both = [_values_digest(part, training) for part in (pair.first, pair.second)]
        return None if both == [None, None] else digest([each or "" for each in both])
    if training is None or bound.training is None or bound.row_value is not None:
        return None
    return hashlib.sha256(training.row_values(bound).tobytes()).hexdigest()


def listed(
    queries: Sequence[RowwiseQuery | Query[Any] | str], *, weights: Sequence[float] | None = None
) -> ListedFamily:
    """Queries that are declared one by one.

    Args:
        queries: Texts or queries that are one mean or ratio each, such as ``"delay > 15"`` or ``eh.accuracy(model)``.
        weights: Of each, positive, with a sum of at most 1; the larger the narrower. By default all are alike.

    Examples:
        >>> listed(["delay > 15", "delay > 60"])
        ListedFamily(queries=['delay > 15', 'delay > 60'], weights=None)
    """
    return ListedFamily(queries, weights)
