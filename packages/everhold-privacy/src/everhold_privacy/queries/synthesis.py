"""Queries for a synthetic table: paid once from a privacy budget, after which the table is queried without limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from everhold.display import at_most
from everhold.errors import QueryRejected
from everhold.estimand import check_label_is_read
from everhold.queries.query import QuerySpec
from everhold.queries.selection.synthesis import check_universe, check_universe_columns, plain_universe
from everhold.strict_json import canonical
from everhold.values.universe import QueryFamily, QueryMatrix, Universe, universe_from
from everhold_privacy.mechanisms.privacy_budget import CREDITS
from everhold_privacy.queries.priced import MechanismResult, Paid, Price, PricedQuery, Purchase, paying, whole_price
from everhold_privacy.synthetic import BLR, MWEM, ROUNDING, SyntheticTable, candidate_tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.mechanisms import State
    from everhold.queries.query import CompileContext
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows
    from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget

_MOST_BYTES = 1_000_000  # of an entry of the ledger
_MOST_ROUNDS = 2_000
_MOST_WORK = 2**31  # values of queries that are read while a table is made: some ten seconds
_MOST_KEPT = 2**26  # values of queries that are not a matrix yet
_MOST_TABLES = 2**17  # candidates of BLR
_DRAFTS = 20  # rounds or sizes that are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticAnswer(Paid):
    """A synthetic table that you may query without further cost.

    Attributes:
        table: Public weights over the cells of the universe; None if the purchase was refused.
        within: How far the table's mean of any query of its family is from the population's, at most; for all of
            them at once, and together with all other answers. None if refused.
    """

    table: SyntheticTable | None
    within: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data: method, cells, queries, within and payment, without the weights."""
        table = self.table
        return {
            "method": None if table is None else table.method,
            "cells": None if table is None else table.universe.cells,
            "queries": None if table is None else table.queries,
            "within": self.within,
            **self.payment(),
        }

    def _found(self) -> str | None:
        table = self.table
        if table is None:
            return None
        return (
            f"a synthetic table of {table.universe.cells:,} cells, {table.queries:,} queries within "
            f"{at_most(self.within or 0.0)}"
        )

    def _meaning(self) -> str:
        queries = 0 if self.table is None else self.table.queries
        return (
            f"the table's answer to each of its {queries:,} queries is within {at_most(self.within or 0.0)} of the "
            "truth. Look at it with .table, which may be queried for ever at no further cost. A higher price, more "
            "sealed rows, fewer cells or fewer planned queries make it closer. For a few cells the method 'blr' "
            "may, too."
        )


@dataclass(frozen=True, slots=True)
class SynthesisQuery(PricedQuery[SyntheticAnswer]):
    """Query for a synthetic table whose means are close to the population's, made by `private_synthesize`.

    Attributes:
        method: "mwem" or "blr".
        price: Credits that it costs.
        rounds: Rounds of MWEM; None for the best number.
        marginals: Number k if the family has all counts of k columns; None for other families.
    """

    universe: Universe
    queries: QueryFamily
    method: Literal["mwem", "blr"] = "mwem"
    price: int = CREDITS
    rounds: int | None = None
    marginals: int | None = None

    def spec(self) -> QuerySpec:
        """Return the kind and arguments of the query, from which it can be built again."""
        if self.marginals is None:
            raise QueryRejected(
                "These queries cannot be sent to a service, because they are code or a large table. Pass a number k as "
                "queries, which means all counts of k columns at a time, or ask on the machine with the sealed rows."
            )
        given = {"queries": self.marginals, "method": self.method, "price": self.price, "rounds": self.rounds}
        return QuerySpec("private_synthesize", self.universe, given)

    def purchase(self, compiler: CompileContext) -> SynthesisPurchase:
        """Return the table for one holdout, with the number of rounds or the size of the smallest error."""
        mechanism, price = paying(compiler.mechanism), whole_price(self.price)
        check_universe_columns(self.universe, compiler.schema)
        check_label_is_read((column.name for column in self.universe.columns), compiler.schema)
        try:
            family = _kept(self.queries)
            drafts, counts = replace(self, universe=plain_universe(self.universe))._drafts(mechanism, price, family)
            allowance = mechanism.own_exceedance
            alphas = [(draft.allowance(allowance), draft) for draft in map(drafts, counts)]
        except (ValueError, TypeError, OverflowError) as reason:
            raise QueryRejected(f"{reason}") from None
        alpha, maker = min(alphas, key=lambda found: found[0])
        prepared = SynthesisPurchase(maker, alpha, price, family.fingerprint(), mechanism)
        rounds = 0 if self.method == "blr" else max(counts)
        try:
            described = len(canonical(prepared.description).encode())
        except ValueError as reason:
            raise QueryRejected(
                f"The universe cannot be written to the ledger: {reason}. Pass labels that are plain texts or numbers."
            ) from None
        each = len(str(len(prepared.maker.queries))) + 24  # a query, a sum of up to 20 digits, brackets and commas
        if described + rounds * each > _MOST_BYTES:
            raise QueryRejected(
                f"The universe and the released sums need {described + rounds * each:,} bytes of the ledger, more than "
                f"the limit of {_MOST_BYTES:,}. List fewer values or ask for fewer rounds."
            )
        return prepared

    def _drafts(
        self, mechanism: PrivacyBudget, price: int, family: QueryFamily
    ) -> tuple[Callable[[int], MWEM | BLR], list[int]]:
        """Return a function that makes a synthesizer of this price, and the numbers of rounds or sizes to try."""
        rho = price / mechanism.credits * mechanism.curve().rho * (1.0 - 1e-9)
        shared: dict[str, Any] = {"universe": self.universe, "queries": family, "rows": mechanism.rows}
        if self.method == "mwem":
            rounds = _rounds(self.rounds, work=len(family) * self.universe.cells)
            return (lambda count: MWEM.concentrated(rho=rho, rounds=count, **shared)), rounds
        if self.method != "blr" or self.rounds is not None:
            raise ValueError(
                f"method is {self.method!r} and rounds is {self.rounds!r}. Pass 'mwem', or 'blr' without rounds."
            )
        epsilon = math.sqrt(8.0 * rho)  # the losses span epsilon: eps^2/8-zero-concentrated
        most = 1
        while candidate_tables(self.universe.cells, most + 1) <= _MOST_TABLES and most < 1_000:
            most += 1
        sizes = _geometric(most)
        return (lambda size: BLR(epsilon=epsilon, size=size, limit=_MOST_TABLES, **shared)), sizes


@dataclass(frozen=True, slots=True)
class SynthesisPurchase(Purchase["NDArray[np.int64]", SyntheticAnswer]):
    """Purchase of a synthetic table, for one holdout.

    Attributes:
        maker: MWEM or BLR, for the privacy that the credits pay.
        alpha: Distance from the sealed rows that is allowed for in full.
    """

    maker: MWEM | BLR
    alpha: float
    credits: int
    family: str
    mechanism: PrivacyBudget

    @property
    def description(self) -> dict[str, Any]:
        """Public facts that identify the query, in canonical form."""
        return {
            "kind": "synthesis",
            "method": self.maker.method,
            "steps": self.maker.rounds if isinstance(self.maker, MWEM) else self.maker.size,
            "price": self.credits,
            "universe": self.maker.universe.to_dict(),
            "family": self.family,
        }

    @property
    def shown(self) -> str:
        """The requested table as a text for transcripts."""
        names = ", ".join(column.name for column in self.maker.universe.columns)
        cells, queries = self.maker.universe.cells, len(self.maker.queries)
        return f"a synthetic table of {cells:,} cells for {queries:,} queries about {names}"

    def price(self, mechanism: PrivacyBudget) -> Price:
        """Return the price in credits, and how close the table is to the population."""
        return Price(self.credits, min(mechanism.reach(self.alpha + ROUNDING), 1.0))

    def evaluate(self, sealed: StoredRows, unit: int) -> NDArray[np.int64]:
        """Return the number of sealed rows with each combination of column values, shape (cells,)."""
        universe = self.maker.universe
        return universe.histogram(sealed.table([column.name for column in universe.columns]))

    def answer(self, mechanism: PrivacyBudget, state: State, seen: NDArray[np.int64], noise: Noise) -> MechanismResult:
        """Return the released numbers that determine the table: noisy sums of queries, or the index of a candidate."""
        after = mechanism.charge(state, self.credits)
        answer = {
            "value": None, "low": None, "high": None, "source": "holdout", "within": self.price(mechanism).within,
            "released": self.maker.release(seen, noise), "simulated": noise.simulated,
        }  # fmt: skip
        return MechanismResult(after, answer, self.credits)

    def result(self, answer: Mapping[str, Any], **paid: Any) -> SyntheticAnswer:
        """Build the table again from the numbers that were released."""
        table = None if answer["source"] == "refused" else self._table(answer, paid["confidence"], paid.get("about"))
        return SyntheticAnswer(table=table, within=answer["within"], **paid)

    def _table(self, answer: Mapping[str, Any], confidence: float, about: str | None) -> SyntheticTable:
        promise, maker = self.mechanism.promise(), self.maker
        assumptions = promise.assumptions if about is None else (*promise.assumptions, f"values are for {about}")
        return SyntheticTable(
            universe=maker.universe, weights=maker.learned(answer["released"]), method=maker.method, rows=maker.rows,
            queries=len(maker.queries), radius=answer["within"], confidence=confidence, statement=promise.statement,
            assumptions=assumptions, privacy=maker.privacy(), simulated=answer["simulated"],
            margin=self.alpha + ROUNDING + promise.details["excess"] + self.mechanism.rounding,
            tilt=promise.details["epsilon"],
        )  # fmt: skip


def private_synthesize(
    universe: Universe | Mapping[str, Any],
    queries: QueryFamily | int = 2,
    *,
    method: Literal["mwem", "blr"] = "mwem",
    price: int = CREDITS,
    rounds: int | None = None,
) -> SynthesisQuery:
    """Build the query for a synthetic table (made-up rows) that answers a family of queries almost as the population.

    The table may be queried any number of times at no further cost. The table counts as one query of the plan and has
    one price, however many queries the family has.

    Args:
        universe: All combinations of values (cells) that the table may have, listed from public knowledge. Its columns
            are columns of the holdout. Other values of a column count as its value ``rest``, or as "other" without one.
            A universe may also be given as plain data, such as ``{"columns": [{"name": "carrier", "values": ["AA",
            "UA"]}]}``.
        queries: The family of queries that the table is made for, or a number k for ``universe.marginals(k)``: the
            counts of all combinations of values of any k columns.
        method: ``"mwem"`` (multiplicative weights), or ``"blr"`` (Blum, Ligett and Roth) for a few cells only.
        price: Credits (units of the privacy budget) that the table costs. With a higher price its means are closer to
            the population's. A mean costs 100.
        rounds: Rounds of MWEM; by default the number with the smallest error.

    Examples:
        >>> from everhold.values.universe import BinnedColumn, ListedColumn
        >>> universe = Universe((ListedColumn("carrier", ("AA", "UA")), BinnedColumn("delay", (-60, 0, 60))))
        >>> private_synthesize(universe, universe.marginals(2), price=1_000).method
        'mwem'
    """
    if isinstance(universe, Mapping):
        universe = universe_from(universe, called="the document")
    if isinstance(queries, int):
        return SynthesisQuery(universe, _marginals(universe, queries), method, price, rounds, queries)
    return SynthesisQuery(universe, queries, method, price, rounds)


def _marginals(universe: Universe, width: int) -> QueryFamily:
    check_universe(universe)
    try:
        return universe.marginals(width)
    except ValueError as reason:
        raise QueryRejected(f"marginals is {width}: {reason}") from None


def _kept(queries: QueryFamily) -> QueryMatrix:
    """Return the family of queries as a matrix.

    Raises:
        TypeError: If it is not a family of queries.
        ValueError: If it has more values over all cells than are kept in memory.
    """
    if type(queries) is QueryMatrix:
        return queries
    if not isinstance(queries, QueryFamily):
        raise TypeError(f"queries is a {type(queries).__name__}. Pass for example universe.marginals(2).")
    if queries.count * queries.cells > _MOST_KEPT:
        raise ValueError(
            f"The queries have {queries.count * queries.cells:,} values over all cells, "
            f"more than the limit of {_MOST_KEPT:,}. Use fewer queries or cells."
        )
    return QueryMatrix(np.array([queries.vector(index) for index in range(queries.count)]))


def _rounds(requested: int | None, *, work: int) -> list[int]:
    """Return the numbers of rounds of MWEM to try: only the requested one, or by default several that `work` limits."""
    most = min(_MOST_ROUNDS, _MOST_WORK // work)
    if most < 1:
        raise ValueError(
            f"The queries have {work:,} values over all cells, more than the limit of "
            f"{_MOST_WORK:,}. Use fewer queries or cells."
        )
    if requested is None:
        return _geometric(most)
    if isinstance(requested, bool) or not isinstance(requested, (int, np.integer)) or not 1 <= requested <= most:
        raise ValueError(f"rounds is {requested!r}. Pass a whole number from 1 to {most:,}, or None.")
    return [int(requested)]


def _geometric(most: int) -> list[int]:
    return sorted({int(count) for count in np.geomspace(1, most, _DRAFTS).round()})
