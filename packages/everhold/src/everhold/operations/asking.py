"""Operations that ask: the price of a query, its answer, many answers at once, and two models compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from everhold.errors import QueryRejected
from everhold.operations.operation import AnyQuery, HoldoutOperation, Param, Role
from everhold.progress import progress

if TYPE_CHECKING:
    from everhold.answers import Answer, QuotedPrice
    from everhold.asking.session import HoldoutSession

_Guess = Annotated[
    float | None,
    Param(
        "What you expect, computed on rows of your own, in the query's units. A guess that holds is confirmed and "
        "costs none of the surprises. By default the training rows make it."
    ),
]  # fmt: skip
_Tolerance = Annotated[
    float | None, Param("Half-width requested. A smaller one costs more. Only where the mechanism is privacy_budget.")
]
_Silent = Annotated[bool, Param("Only register it: nothing is told before the study is unsealed.")]


@dataclass(frozen=True, kw_only=True)
class QuoteQuery(HoldoutOperation["QuotedPrice"], verb="quote", role=Role.ANALYST, route="POST /quote"):
    """Say what a query would cost and how wide its interval would be. Free, and nothing is asked.

    Without a query it is the price of any new one, for a mean between 0 and 1.
    """

    query: Annotated[AnyQuery | None, Param("A query whose price is wanted.")] = None
    guess: _Guess = None
    tolerance: _Tolerance = None

    def perform(self, session: HoldoutSession) -> QuotedPrice:
        """Compile the query, and return the price of its plan."""
        if self.query is None and self.tolerance is not None:
            raise QueryRejected(
                f"tolerance is {self.tolerance:g} and no query is given. Pass quote(query, tolerance=...)."
            )
        if self.query is not None:
            session.check_queries()
        from everhold.asking.query_executor import quoted_price

        executor = session.asked_of()
        plan = None if self.query is None else executor.compiler.compile(self.query, self.guess, self.tolerance)
        return quoted_price(executor, plan)


@dataclass(frozen=True, kw_only=True)
class Ask(HoldoutOperation[Any], verb="ask", role=Role.ANALYST, act="ask", route="POST /ask"):
    """Ask one query of any kind.

    The interval holds for the population, together with those of all other answers ever given, however the query
    depends on them. What was asked before, by anybody, is answered again and is free; so an analyst who did not hear an
    answer asks the same again. After rows arrived that is a new query, and `as_of` finds the old answer. When what is
    left may not cover it, the answer says `"source": "refused"` and has no value. Queries that hold predictions name
    their files: a form has the JSON document in the part `request`, and each file in a part of its own name. Python
    code is never taken.
    """

    query: Annotated[AnyQuery, Param("A query, or a text that stands for a mean.")]
    guess: _Guess = None
    tolerance: _Tolerance = None
    strict: Annotated[bool, Param("Raise an error where the answer would be refused.", travels=False)] = False
    silent: _Silent = False
    as_of: Annotated[
        int | None,
        Param("Number of an arrival: the stored answer about the rows that had come with it. Free.", least=0,
              most=2**31),
    ] = None  # fmt: skip
    models: Annotated[
        Sequence[Mapping[str, str]] | None,
        Param("The models that the query is about, as your tracker knows them: name and version in a registry, run, "
              "study and trial. The ledger keeps them beside a new query.", longest=10,
              example=[{"name": "churn", "version": "4", "run": "7f3a"}]),
    ] = None  # fmt: skip

    def perform(self, session: HoldoutSession) -> Any:
        """Compile the query, and let the executor answer it."""
        from everhold.values.tracked_models import MODELS, check_tracked

        beside = {MODELS: check_tracked(self.models)} if self.models else {}
        if session.recorded:
            session.check_queries()
        executors = [session.asked_of()] if self.as_of is None else session.asked_as_of(self.as_of)
        for executor in executors:
            compiler = executor.compiler.silently() if self.silent or session.silent else executor.compiler
            plan = compiler.compile(self.query, self.guess, self.tolerance)
            if self.as_of is None or executor.ledger.repeated(plan.asked) is not None:
                return executor.ask(plan, strict=self.strict, beside=beside)
        raise QueryRejected(
            "as_of= repeats answers that were given at that arrival, and this query was not asked then. Leave as_of "
            "out to ask about all rows."
        )

    def facts(self, result: Any) -> Mapping[str, Any]:
        """Return the outcome in a word, and the query's hash, for the audit log."""
        return {"outcome": _outcome(result), "query": getattr(result, "query", None)}


@dataclass(frozen=True, kw_only=True)
class AskMany(
    HoldoutOperation["list[Answer]"], verb="ask_many", role=Role.ANALYST, act="ask many", route="POST /ask-many",
    part="answers",
):  # fmt: skip
    """Ask queries that do not depend on each other's answers, in order for as long as the budget pays.

    If one of them cannot be asked, none is. All of them, means and metrics of models alike, are answered in one step.
    Queries that are made of several, or have a price of their own, are asked one by one.
    """

    queries: Annotated[Sequence[AnyQuery], Param("The queries.", longest=10_000, example=["delay > 15", "delay > 30"])]
    guesses: Annotated[Sequence[float | None] | None, Param("One guess or null for each query.", longest=10_000)] = None
    silent: _Silent = False
    reveal: Annotated[Literal["checked", "all"], Param('"all" to tell everything, without surprises.')] = "checked"

    def perform(self, session: HoldoutSession) -> list[Answer]:
        """Compile all of them, and let the executor answer at once."""
        from everhold.arguments import brief
        from everhold.asking.query_executor import ask_apart

        if self.reveal not in ("checked", "all") or (self.silent and self.reveal == "all"):
            raise QueryRejected(
                f"reveal is {brief(self.reveal)}. Pass 'checked', or 'all' for queries that are not silent."
            )
        session.check_queries()
        with progress("asking"):
            executor = session.asked_of()
            compiler = executor.compiler.silently() if self.silent or session.silent else executor.compiler
            batch = compiler.batch(self.queries, self.guesses, full_release=self.reveal == "all")
            return ask_apart(executor, batch)

    def facts(self, result: list[Answer]) -> Mapping[str, Any]:
        """Return the number of queries with each outcome, for the audit log."""
        return {"outcomes": dict(Counter(map(_outcome, result)))}


def _outcome(answer: Any) -> str:
    return str(getattr(answer, "source", "refused" if answer.refused else "answered"))
