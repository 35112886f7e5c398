"""A gate: a champion that gives way only to a challenger that is proved to be better.

All processes that open a gate share its champion, which follows from the ledger alone. A challenge is prepared against
the champion of the moment; if that one has gone when the transaction is open, nothing is answered, and the challenge is
prepared again. Where rows arrived, the champion has values for them first (`Gate.complete`).
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everhold.arguments import as_whole, brief
from everhold.asking.arrivals.grown import SeesArrivals, current
from everhold.asking.query_executor import CLOSED_STUDY
from everhold.display import Facts
from everhold.errors import NotFound, QueryRejected
from everhold.estimand import about_of
from everhold.gates.arrivals import (
    ArrivedChallenge,
    answering,
    challenger_for,
    champion_for,
    complete,
    model_store_of,
    record_act,
    rows_left,
)
from everhold.gates.candidates import Candidate, checked_margin
from everhold.gates.challenge import Challenge, challenge_of, check_gates, verdict
from everhold.gates.facts import described_gate, history_of, promotions_of
from everhold.gates.metrics import metric_of
from everhold.gates.verdict import Decision, Verdict
from everhold.ledger import EntryDraft
from everhold.ledger.allotments import Accounts
from everhold.ledger.gates import GATE, LONGEST_GATE, MOST_CHALLENGES, GateAccount, Gates
from everhold.ledger.store import all_entries
from everhold.mechanisms import GuessAndCheck
from everhold.planning.steps import step_at
from everhold.queries.query import MOST_SHOWN, ExecutionResult, Outdated, QueryPlan, digest
from everhold.sealing.model_store import ModelStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from everhold.asking.query_executor import QueryExecutor
    from everhold.gates.history import GateHistory
    from everhold.gates.metrics import GateMetric

    Telling = Callable[[QueryPlan[Verdict]], QueryPlan[Verdict]]

__all__ = ["Gate", "GateRules", "checked_limit", "checked_name", "model_store_of", "open_gate", "record_gate"]

_DISAGREEMENT = 0.05  # share of rows for which a gate's status says what it can see


class Gate(SeesArrivals):
    """A champion and its challengers; made by `Holdout.gate`."""

    def __init__(
        self, executor: QueryExecutor, champions: ModelStore, metric: GateMetric, name: str, *,
        telling: Telling | None = None,
    ) -> None:  # fmt: skip
        """Use `Holdout.gate` instead."""
        self._executor, self._champions, self._metric, self._name = executor, champions, metric, name
        self._telling, self._folder = telling, champions.folder

    def _see_arrivals(self) -> None:
        super()._see_arrivals()
        self._champions = model_store_of(self._executor, self._folder)

    def __repr__(self) -> str:
        return f"Gate({self._name!r})"

    @property
    def name(self) -> str:
        """The gate's name."""
        return self._name

    @property
    def champion(self) -> str:
        """The present champion: SHA-256 of the query about it."""
        return self._now(self._executor.ledger.head().state).champion

    @current
    def challenge(self, candidate: Any, *, training: Any = None, strict: bool = False) -> Verdict:
        """Let a candidate challenge the champion; if it is proved to be better, it is the champion from now on.

        Args:
            candidate: What the metric takes: a fitted estimator, a rule over the features such as
                ``"dep_delay > 10"``, or predictions for the sealed rows as an array or a table with row ids.
            training: Its predictions for the training rows, where it is a table or an array; they make the test
                sharper.
            strict: Raise `BudgetExhausted` instead of returning a refused verdict.

        The planned number of queries is no limit, as for `Holdout.ask`: beyond it a promotion is proved all the same
        and needs a larger gain, which `status` tells. A limit is the gate's ``challenges``, or an allotment.

        Where rows arrived, a challenge is about all rows of the tree that answers. The same one after an arrival is
        another one, about more rows.

        Returns:
            The verdict, committed to the ledger before it is returned. The same challenge of the same champion is free
            another time, and has the same verdict; so has that of the champion itself.

        Raises:
            QueryRejected: If the candidate cannot be compared, or the champion has no values for rows that arrived.
                Nothing was charged.
            BudgetExhausted: If it was refused, where that was requested.
        """
        self._executor.state()  # other rows may be there by now, which `current` mends
        challenger = Candidate.prepared(self._metric, candidate, training, self._executor.compiler)
        while True:
            gate = self._now(self._executor.ledger.head().state)
            if challenger.digest == gate.champion:
                return self._itself(challenger, gate)
            tree = answering(self._executor)
            try:
                ready: QueryPlan[Verdict] = self._ready(challenger, gate, tree, (candidate, training))
                return tree.ask(ready if self._telling is None else self._telling(ready), strict=strict)
            except Outdated:  # somebody else's challenger was promoted meanwhile
                continue
            finally:
                self._champions.discard()

    @current
    def complete(self, champion: Any, *, training: Any = None) -> None:
        """Give the champion's values for rows that arrived; the gate answers no challenge before; a steward's act.

        Args:
            champion: The same model or rule as when it was given, which is recognized and evaluated on these rows. Of a
                champion that was given as predictions, its predictions for the rows that arrived alone, in their order,
                or a table with row ids. That they are those of the same model is the steward's word, and the ledger
                keeps their digest.
            training: Its predictions for all training rows, where it is no model; without them, and with other training
                rows than before, challenges need larger gains.

        Raises:
            QueryRejected: If nothing is left, or this is not the champion. Nothing was changed.
        """
        if self._executor.analyst is not None:
            raise QueryRejected(
                "an analyst cannot complete the champion; expected the holdout itself, as the steward opens it; "
                "nothing was changed"
            )
        self._executor.state()
        gate = self._now(self._executor.ledger.head().state)
        complete(gate, self._executor, self._folder, self._metric, champion=champion, training=training)

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()

    @current
    def status(self) -> Facts:
        """The gate in public facts: metric, margin, champion, what was challenged and promoted, what is left.

        ``plan`` says how many queries and challenges the holdout is planned for, and how many were answered beyond
        that. The plan is no limit: beyond it, challenges are answered as queries are, and every promotion is proved,
        but the gain has to be larger. ``sees`` is the least gain in accuracy, on independent rows, with which the next
        challenger is promoted if it differs from the champion on one row in twenty; None where none is seen. For sealed
        features, or other labels than 0 and 1, it is that of bets whose spread training predictions say. ``rows_left``
        counts rows that arrived and wait for `complete`.
        """
        data, tree = self._executor.ledger.head().state, answering(self._executor)
        gate, remaining = self._now(data), tree.remaining(data)
        return Facts({
            **described_gate(gate),
            **({} if tree.growth is None else {"rows_left": rows_left(gate, self._executor)}),
            "holdout": self._executor.record.name,
            "plan": self._plan(data),
            "sees": _sees(gate, tree, data),
            "remaining": {**remaining, **({} if gate.limit is None else {"challenges": gate.left})},
            "statement": self._executor.promise.statement,
            "confidence": self._executor.promise.confidence,
        })  # fmt: skip

    def _plan(self, data: dict[str, Any]) -> dict[str, int]:
        queries, asked = self._executor.mechanism.queries, self._executor.state_from(data).asked
        return {"queries": queries, "beyond": max(asked - queries, 0)}

    def promotions(self) -> list[dict[str, Any]]:
        """All promotions in order: the ledger's entry, the challenger, and over whom it is proved to be better."""
        return promotions_of(self._executor, self._name)

    @current
    def history(self) -> GateHistory:
        """All champions with the intervals of their gains, and what was spent."""
        return history_of(answering(self._executor), self._name)

    def _ready(
        self, whole: Candidate, gate: GateAccount, tree: QueryExecutor, given: tuple[Any, Any]
    ) -> Challenge:  # fmt: skip
        """A challenge of the champion of the moment, about the rows of the tree that answers."""
        executor = self._executor
        champion = champion_for(gate, self._champions, executor=executor, tree=tree)
        later = tree.schema.rows < executor.schema.rows
        challenger = challenger_for(self._metric, *given, whole=whole, tree=tree) if later else whole
        public = None
        if champion.predictions is not None and challenger.predictions is not None:
            public = Candidate.prepared(self._metric, champion.predictions, None, tree.compiler)
        gain = challenger.against(champion, public, tree.compiler)
        ready = (gate, challenger, champion, gain, tree.schema, tree.mechanism, self._champions)
        return ArrivedChallenge(*ready, of_all=whole, every=executor.sealed) if later else Challenge(*ready)

    def _itself(self, champion: Candidate, gate: GateAccount) -> Verdict:
        """The verdict that made it the champion; kept if it always was."""
        executor, query = self._executor, champion.digest
        if gate.before and executor.growth is None:
            query = digest(challenge_of(gate, gate.before, champion.digest))
        elif gate.before:  # it may have been about other rows than these
            number = promotions_of(executor, gate.name)[-1]["sequence"]
            query = all_entries(executor.ledger, number)[-1].query
        remaining = executor.remaining(executor.ledger.head().state)
        told = ExecutionResult([], remaining, executor.promise.statement, executor.analyst)
        shown = f"gate {gate.name!r}: {champion.bound.shown}, the champion"
        decision = Decision.of_champion(gate, query=query, shown=shown)
        about = about_of(executor.schema, by_position=champion.by_position)
        return verdict(decision, champion, told, confidence=executor.mechanism.confidence, about=about)

    def _now(self, data: dict[str, Any]) -> GateAccount:
        return Accounts.from_state(data).of(Gates).by_name[self._name]


def _sees(gate: GateAccount, executor: QueryExecutor, data: dict[str, Any]) -> dict[str, float | None] | None:
    """Least gain the next challenge can see; None where gains are no accuracies, or rows depend on each other."""
    mechanism, schema, state = executor.mechanism, executor.schema, executor.state_from(data)
    assert isinstance(mechanism, GuessAndCheck)
    if gate.metric.get("kind") != "accuracy" or not mechanism.dependence.binomial_tails:
        return None
    nats = float(mechanism.nats(state.asked + 1, state.charged, state.labels / 1e6))
    public = schema.features_public and schema.label_kind == "binary"
    step = step_at(rows=schema.rows, disagreement=_DISAGREEMENT, nats=nats, public=public)
    return {"disagreement": _DISAGREEMENT, "gain": step}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRules:
    """Rules of a gate about rows; see `everhold.Holdout.gate`."""

    name: str
    metric: Any = None
    margin: float = 0.0
    challenges: int | None = None


def open_gate(
    executor: QueryExecutor, champions: ModelStore, rules: GateRules, *, champion: Any = None, training: Any = None,
    telling: Telling | None = None,
) -> Gate:  # fmt: skip
    """Open a gate; the first time that is an act of the steward, kept in the ledger.

    Args:
        executor: The holdout at work.
        champions: The files of its champions.
        rules: Rules of the gate.
        champion: The first champion; None for a gate that is there already.
        training: Its predictions for the training rows.
        telling: What is made of a challenge before it is asked.

    Raises:
        QueryRejected: If there can be no such gate, the one of that name is another one, or the name or the limit
            cannot be used. Nothing was changed.
    """
    check_gates(executor.mechanism)
    name, limit = checked_name(rules.name), checked_limit(rules.challenges)
    known = Accounts.from_state(executor.ledger.head().state).of(Gates).by_name.get(name)
    if known is None and champion is None:
        raise NotFound(
            f"there is no gate named {brief(name)}; expected champion=... for a new one: the model that challengers "
            "have to beat; nothing was changed"
        )
    measure = metric_of(rules.metric, None if known is None else known.metric)
    if champion is not None:
        first = Candidate.prepared(measure, champion, training, executor.compiler)
        margin = checked_margin(rules.margin, first)
        arrived = 0 if executor.growth is None else executor.growth.account.arrivals
        requested = GateAccount(name, first.metric, margin, limit, first.digest, first.digest, arrived=arrived)
        if known is None:
            known = _open(executor, champions, first, requested)
        _check_same(known, requested)
    assert known is not None
    return Gate(executor, champions, replace(measure, description=known.metric), name, telling=telling)


def _open(executor: QueryExecutor, champions: ModelStore, first: Candidate, requested: GateAccount) -> GateAccount:
    """Write the champion, then the entry that names it; where another process was faster, its gate."""
    if executor.analyst is not None:
        raise QueryRejected(
            "an analyst cannot open a new gate; expected the holdout itself, as the steward opens it; nothing was "
            "changed"
        )
    if Accounts.from_state(executor.ledger.head().state).closed:  # before anybody looks at the sealed rows
        raise QueryRejected(CLOSED_STUDY)
    made = first.as_champion(first.sealed_values(executor.sealed, unit=executor.mechanism.unit))
    record_gate(executor, requested, first.bound.shown, lambda: champions.keep(made))
    return Accounts.from_state(executor.ledger.head().state).of(Gates).by_name[requested.name]


def record_gate(executor: QueryExecutor, requested: GateAccount, champion: str, keep: Callable[[], None]) -> None:
    """Append the entry that opens a gate.

    Args:
        executor: The holdout at work.
        requested: The gate.
        champion: Its first champion, as people read it.
        keep: Writes files of the champion, inside the transaction, when nothing can refuse the gate any more.

    Raises:
        QueryRejected: If the study is closed. Nothing was changed.
    """
    public = {
        "kind": GATE, "gate": requested.name, "metric": dict(requested.metric), "margin": requested.margin,
        "challenges": requested.limit, "champion": requested.champion,
        **({"arrived": requested.arrived} if requested.arrived else {}),
    }  # fmt: skip
    shown = f"gate {requested.name!r}: {champion} is the champion"
    act = EntryDraft(digest({"kind": GATE, "gate": requested.name}), {**public, "shown": shown[:MOST_SHOWN]})
    record_act(executor, act, GATE, keep)


def _check_same(known: GateAccount, requested: GateAccount) -> None:
    """Check that a gate that is there is the one that was described.

    Raises:
        QueryRejected: If it is another one.
    """
    facts = (
        ("first champion", known.first, requested.first),
        ("metric", known.metric, requested.metric),
        ("margin", known.margin, requested.margin),
        ("limit of challenges", known.limit, requested.limit),
    )
    different = [what for what, found, expected in facts if found != expected]
    if different:
        raise QueryRejected(
            f"there is a gate named {known.name!r} with another {' and another '.join(different)}; expected the same "
            "again, another name for a new gate, or no champion= to open the one that is there; nothing was changed"
        )


def checked_name(name: Any) -> str:
    """The name of a gate.

    Raises:
        QueryRejected: If it cannot be used. Nothing was changed.
    """
    usable = (
        isinstance(name, str)
        and 1 <= len(name) <= LONGEST_GATE
        and name.isprintable()
        and name == " ".join(name.split())
        and name == unicodedata.normalize("NFKC", name)
    )
    if not usable:
        raise QueryRejected(
            f"The gate's name {brief(name)} cannot be used. Pass 1 to {LONGEST_GATE} printable characters in their "
            "normal form, without leading, trailing or double spaces, such as 'nightly'."
        )
    return str(name)


def checked_limit(challenges: Any) -> int | None:
    """Most challenges of a gate; None for as many as the budget pays.

    Raises:
        QueryRejected: If it is no such number. Nothing was changed.
    """
    if challenges is None:
        return None
    number = as_whole(challenges)
    if number is None or not 1 <= number <= MOST_CHALLENGES:
        raise QueryRejected(
            f"The limit of challenges is {brief(challenges)}. Pass a whole number of at least 1, or None for none."
        )
    return int(number)
