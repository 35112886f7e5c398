"""The family of queries listed one by one, such as the end points of a trial or 40 finalists."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from everhold.arguments import as_float, brief, items_of
from everhold.errors import QueryRejected
from everhold.families.base import BoundFamily, Family
from everhold.queries.interval_planner import MemberLevels
from everhold.queries.means.mean import MeanQuery, in_one_line, name_of
from everhold.queries.query import MOST_SHOWN, Query, QueryPlan, RowwiseQuery
from everhold.sealing.rows.code_trials import used_alone
from everhold.strict_json import digest

if TYPE_CHECKING:
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import BoundQuery, Schema

Checked = TypeVar("Checked")

_MOST = 100_000
_SHOWN = 5  # entries that are refused, in one message
_TRIED = 10.0  # ln(1 / level) at which a member is tried


@dataclass(frozen=True, slots=True, eq=False)
class ListedFamily(Family):
    """A list of queries with their weights, which is declared before any of the queries is asked. `listed` makes it."""

    queries: Sequence[Query[Any] | str]
    weights: Sequence[float] | None = None

    def bind(self, compiler: QueryCompiler) -> BoundList:
        """Bind each query, and divide its weight equally among the means of which it consists.

        Raises QueryRejected if a query is listed twice.
        """
        shown, found, trained = dict[str, str](), dict[str, float](), dict[str, str]()
        wholes, weights = set[str](), self.checked_weights()

        def checked(query: Query[Any]) -> QueryPlan[Any]:
            with used_alone("predicts"):
                return answered_as_declared(query, compiler)

        for plan, weight in zip(self._each(checked), weights, strict=True):
            if plan.query in wholes:
                raise _listed_twice(plan.members[0].shown)
            wholes.add(plan.query)
            for bound in plan.members:
                shown[bound.query] = bound.shown[:MOST_SHOWN]
                found[bound.query] = found.get(bound.query, 0.0) + weight / len(plan.members)
                if (values := _values_digest(bound, compiler.training)) is not None:
                    trained[bound.query] = values
        members = {query: (shown[query], -math.log(weight)) for query, weight in found.items()}
        return BoundList(members, trained, len(wholes))

    def _each(self, check: Callable[[Query[Any]], Checked]) -> list[Checked]:
        """Apply a check to every listed query and return the results in order.

        Raises:
            QueryRejected: If some queries are refused. The message names each of them, with the reason.
        """
        found, refused = [], []
        for entry, query in enumerate(self.queries, 1):
            asked = MeanQuery(query) if isinstance(query, str) else query
            try:
                found.append(check(asked))
            except QueryRejected as fault:
                refused.append({"entry": entry, "query": name_of(asked), "why": fault.message})
        if refused:
            shown = " ".join(f"Entry {each['entry']}, {each['query']}: {each['why']}" for each in refused[:_SHOWN])
            more = f" {len(refused) - _SHOWN:,} more are refused." if len(refused) > _SHOWN else ""
            raise QueryRejected(
                f"{len(refused):,} of {len(self.queries):,} listed queries cannot be declared. {shown}{more} "
                "Correct them, or leave them out and ask them as queries that are not declared.",
                entries=refused,
            )
        return found

    def planned_nats(self, *, training: bool) -> float | None:
        """Return ln(1 / weight) of the query with the smallest weight.

        A text that is listed twice in one spelling is refused.
        """
        weights, found = self.checked_weights(), set[Any]()
        for asked in self._each(_check_kind):
            known = isinstance(asked, MeanQuery) and isinstance(asked.text, str)
            spelled = (in_one_line(asked.text), asked.low, asked.high) if known else id(asked)  # type: ignore[attr-defined]
            if spelled in found:
                raise _listed_twice(asked.text if known else asked)  # type: ignore[attr-defined]
            found.add(spelled)
        return -math.log(min(weights))

    def checked_weights(self) -> list[float]:
        """Return one weight for each query, which sum to at most 1. By default all weights are equal.

        Raises:
            QueryRejected: If ``queries`` is not a list of queries, or the number of weights differs from theirs.
                Nothing is charged.
        """
        queries, weights = self.queries, self.weights
        if isinstance(queries, (str, bytes)) or not isinstance(queries, Sequence) or not 1 <= len(queries) <= _MOST:
            raise QueryRejected(f"queries is {brief(queries)}. Pass a list of 1 to {_MOST:,} queries.")
        if weights is None:
            return [1.0 / len(queries)] * len(queries)
        given = [as_float(weight) for weight in items_of(weights) or ()]
        if len(given) != len(queries) or not all(0.0 < weight <= 1.0 for weight in given) or sum(given) > 1.0 + 1e-9:
            raise QueryRejected(
                f"weights is {brief(weights)}. Pass a positive number for each of the {len(queries)} queries, which "
                "sum to at most 1."
            )
        return [weight / max(sum(given), 1.0) for weight in given]


def answered_as_declared(query: object, compiler: QueryCompiler) -> QueryPlan[Any]:
    """Compile a query as if it were a member of a declared list, to check that it can be one.

    It is refused here if asking it later would be refused. Members are answered at no cost and at any time.

    Args:
        query: The query, as the user wrote it.
        compiler: The compiler of the holdout in which it is declared.

    Raises:
        QueryRejected: If the query cannot be answered as declared. The message says what can be declared in its place,
            if anything can.
    """
    _check_kind(query).check(compiler)
    plan = _compiled(query, compiler)
    if not plan.members:
        raise QueryRejected(
            "This query is made of several others, and only those can be declared. List them in its place."
        )
    if compiler.families.first_rows and any(member.by_position for member in plan.members):
        raise QueryRejected(
            "Its predictions are for the rows that are sealed now, and rows can still arrive. List a model, which "
            "predicts later rows too."
        )
    if any(map(_is_code, plan.members)) and _compiled(query, compiler).query != plan.query:
        raise QueryRejected(
            "Its code cannot be recognised later, so it would be a new query each time that it is asked. List its "
            "predictions, or a model of an installed package that holds plain values."
        )
    return plan


def _check_kind(query: object) -> Query[Any]:
    """Return ``query`` if it is a `Query`, else raise QueryRejected."""
    if not isinstance(query, Query):
        raise QueryRejected("It is not a query. List texts or queries, such as 'delay > 15' or accuracy(model).")
    return query


def _compiled(query: Any, compiler: QueryCompiler) -> QueryPlan[Any]:
    """Return the plan of a query, compiled as if all of its means were members of a declared family."""
    grows = compiler.families
    levels = MemberLevels(
        *2 * (lambda _: _TRIED,), pools=grows.pools, first_rows=grows.first_rows, largest_group=grows.largest_group
    )
    return replace(compiler, families=levels).compile(query, None, None)


def _is_code(bound: BoundQuery) -> bool:
    """Return whether the row values of a query, or of one of its parts, come from running code such as a model."""
    if bound.pair is not None:
        return _is_code(bound.pair.first) or _is_code(bound.pair.second)
    return bound.row_value is None and not bound.by_position


def _listed_twice(query: object) -> QueryRejected:
    """Return the error for a query that is in the list twice."""
    return QueryRejected(f"{brief(query)} is listed twice, perhaps in another spelling. Leave one of them out.")


@dataclass(frozen=True, slots=True)
class BoundList(BoundFamily):
    """The listed queries bound to one holdout, with the weight of each part.

    Attributes:
        members: Text for people and ln(1 / weight) of each member, by its fingerprint.
        trained: For members that are predictions: SHA-256 of their row values on training rows, by fingerprint. These
            values decide how the interval is made, so they are fixed when the member is declared (S10).
        wholes: Number of listed queries. The members are their parts.
    """

    kind: ClassVar[str] = "listed"
    members: dict[str, tuple[str, float]] = field(repr=False)
    trained: dict[str, str] = field(default_factory=dict, repr=False)
    wholes: int = 0

    def nats(self, bound: BoundQuery) -> float | None:
        """Return ln(1 / weight) of a listed query or one of its means, or None for any other query."""
        known = self.members.get(bound.query)
        return None if known is None else known[1]

    def check_training(self, bound: BoundQuery, training: StoredRows | None) -> None:
        """Raise QueryRejected if a member's training row values differ from those at the declaration."""
        if bound.query in self.members and self.trained.get(bound.query) != _values_digest(bound, training):
            raise QueryRejected(
                f"{bound.shown} was declared with other predictions for the training rows. Pass the same predictions, "
                "because its interval is made from them."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the members with their weights as plain JSON data, with the family's ``kind``."""
        members = [[query, shown, nats] for query, (shown, nats) in self.members.items()]
        trained = {"trained": self.trained} if self.trained else {}
        return {"kind": self.kind, "members": members, "wholes": self.wholes, **trained}

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Schema) -> Self:
        """Rebuild the list from the plain data that `to_dict` returns."""
        members = {str(query): (str(shown), float(nats)) for query, shown, nats in data["members"]}
        return cls(members, dict(data.get("trained", {})), int(data["wholes"]))

    @property
    def shown(self) -> str:
        """The number of listed queries, in words."""
        return f"{self.wholes:,} listed {'query' if self.wholes == 1 else 'queries'}"

    @property
    def most_nats(self) -> float:
        """ln(1 / weight) of the query with the smallest weight."""
        return max(nats for _, nats in self.members.values())


def _values_digest(bound: BoundQuery, training: StoredRows | None) -> str | None:
    """Return the SHA-256 of a query's row values on the training rows, or None for expressions."""
    pair = bound.pair
    if pair is not None:
        both = [_values_digest(part, training) for part in (pair.first, pair.second)]
        return None if both == [None, None] else digest([each or "" for each in both])
    if bound.training_values is not None:
        return hashlib.sha256(bound.training_values.tobytes()).hexdigest()
    if training is None or bound.training is None or bound.row_value is not None:
        return None
    return hashlib.sha256(training.row_values(bound).tobytes()).hexdigest()


def listed(
    queries: Sequence[RowwiseQuery | Query[Any] | str], *, weights: Sequence[float] | None = None
) -> ListedFamily:
    """Build a family of queries from a list, for `Holdout.create` or `Holdout.declare`.

    The sealed rows answer queries of a declared family at no cost.

    Args:
        queries: Texts or queries of every kind, such as ``"delay > 15"`` or ``eh.auc(model)``. A query that is computed
            from several queries, such as a correlation, divides its weight among these. A query that could not be
            answered as declared is refused when the family is declared.
        weights: Share of the family's probability of failure for each query, positive, with a sum of at most 1. A
            larger weight gives a narrower interval. By default all weights are equal.

    Examples:
        >>> listed(["delay > 15", "delay > 60"])
        ListedFamily(queries=['delay > 15', 'delay > 60'], weights=None)
    """
    return ListedFamily(queries, weights)
