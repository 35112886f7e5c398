"""Evidence of rows: a version is a model, a rule or predictions, and its gain is computed row by row.

The gate stores a champion's row value or prediction for each sealed row. If rows arrived, the steward first supplies
the champion's values for them (`RowEvidence.complete`), which an entry of the ledger records. Then one tree of arrivals
answers the next challenge (S13), and these values are as fixed as the others.

The query is the mean paired gain of the challenger in a metric, in [-1, 1], put into [0, 1] as ``(1 + gain) / 2``. The
challenger is promoted if the lower limit of the gain exceeds the margin at the level of the query.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import advice_for, brief
from everhold.asking.session import growth_of
from everhold.errors import NotFound, QueryRejected
from everhold.estimand import about_of, marked
from everhold.gates import challenge
from everhold.gates.candidates import Candidate, Gain, Gained, GateMetric, checked_margin, metric_of
from everhold.gates.challenge import Challenge
from everhold.gates.gate import Gate, Telling, check_may_open, checked_limit, checked_name, record_gate
from everhold.gates.records import COMPLETED, Champion, GateAccount, Gates, ModelStore, arrival_name
from everhold.ledger import Head, Outcome
from everhold.ledger.acts import PROMOTED, Accounts
from everhold.mechanisms import Source, State
from everhold.mechanisms.records import Evaluations
from everhold.planning.widths import step_at
from everhold.queries.query import Pricing
from everhold.sealing.rows.table import StoredRows, parted
from everhold.values.units import GAIN_OPEN, GAIN_WIDTH

if TYPE_CHECKING:
    from pathlib import Path

    from everhold.asking.query_executor import QueryExecutor
    from everhold.randomness import Noise

_DISAGREEMENT = 0.05  # share of rows for which a gate's status says what it can see


@dataclass(frozen=True, slots=True)
class RowVersion(challenge.Version):
    """A version that a gate about rows compares: a candidate and the arguments it was made from.

    Attributes:
        candidate: The candidate bound to all sealed rows.
        given: The model or predictions as passed. They are bound again if a tree with fewer rows answers.
        training: Predictions for the training rows as passed.
    """

    candidate: Candidate
    given: Any = field(repr=False)
    training: Any = field(repr=False)


@dataclass(frozen=True)
class RowEvidence(challenge.Evidence[RowVersion]):
    """Evidence of a gate about rows: the sealed rows, and a metric.

    Attributes:
        metric: Metric by which versions are compared.
    """

    metric: GateMetric

    @cached_property
    def champions(self) -> ModelStore:
        """Store of the champions that have values for all rows."""
        return model_store_of(self.executor, self.folder)

    def discard(self) -> None:
        """Remove the files written for challengers that were not promoted."""
        self.champions.discard()

    def version(self, given: Any, *, training: Any = None) -> RowVersion:
        """Return a challenger as a version, after binding it to all sealed rows."""
        made = Candidate.prepared(self.metric, given, training, self.executor.compiler)
        about = about_of(self.executor.schema, by_position=made.bound.by_position)
        return RowVersion(made.bound.query, made.bound.shown, about, None, made, given, training)

    def keep(self, champion: Champion) -> None:
        """Write the file of a champion of the gate."""
        self.champions.settle(self.champions.write(champion), champion.digest)

    def answering(self, head: Head) -> QueryExecutor:
        """Return the executor of the tree whose next answer is expected to be the narrowest."""
        executor, growth = self.executor, growth_of(self.executor)
        if growth is None:
            return executor
        if executor.mechanism.unit != growth.mechanism.unit:
            raise QueryRejected(
                f"The holdout now has {executor.schema.rows:,} rows, and a gate to which "
                "rows arrive supports at most 67,108,864. Seal new rows for the gate."
            )
        return growth.best(executor.analyst, head)

    def challenge(self, gate: GateAccount, version: RowVersion, head: Head) -> tuple[QueryExecutor, Challenge]:
        """Return a challenge of the gate's champion that is ready to be asked, for the rows of one tree."""
        executor = self.executor
        if executor.growth is not None:
            executor = self.answering(head)
            if left := rows_left(gate, self.executor):
                raise QueryRejected(
                    f"The champion of gate {gate.name!r} has no values for {left:,} rows that arrived. Pass the same "
                    "model, or its predictions for these rows, to gate.complete(...) (everhold gate complete)."
                )
        candidate, champion, tree = version.candidate, self.champions.champion(gate.champion), executor.schema
        trained = champion.training is not None and len(champion.training) == tree.training_rows
        champion = replace(  # it has values for all rows, and the last ones are the tree's
            champion, values=champion.values[-tree.rows :], training=champion.training if trained else None,
            predictions=None if champion.predictions is None else champion.predictions[-tree.rows :],
        )  # fmt: skip
        if tree.rows < self.executor.schema.rows:  # the ledger knows the challenger by its query about all rows
            of_all = candidate.bound
            candidate = Candidate.prepared(self.metric, version.given, version.training, executor.compiler)
            bound = replace(candidate.bound, description=of_all.description, shown=of_all.shown)
            candidate = replace(candidate, bound=bound)
        by_position = candidate.bound.by_position or champion.by_position
        width = challenge.gain_width(gate.metric)
        described: dict[str, Any] = {} if width == 1.0 else {GAIN_WIDTH: width}
        if any(candidate.bound.unbounded):
            described[GAIN_OPEN] = True
        return executor, RowChallenge(
            gate, version, challenge.challenge_of(gate, gate.champion, version.digest, tree),
            marked(described, by_position=by_position), about_of(tree, by_position=by_position), executor.mechanism,
            champion, candidate.against(champion, self.metric, executor.compiler), version.candidate,
            self.executor.sealed, self.champions,
        )  # fmt: skip

    def complete(self, gate: GateAccount, given: Any, *, training: Any = None) -> None:
        """Store the champion's values for rows that arrived since it became champion."""
        executor, growth = self.executor, growth_of(self.executor)
        executor.check_steward("complete the champion")
        if growth is None or not rows_left(gate, executor):
            raise QueryRejected(
                f"The champion of gate {gate.name!r} has values for all rows. Call "
                "complete only after new rows have arrived."
            )
        self.answering(executor.ledger.latest())
        first, last = _first_left(gate, executor), growth.account.arrivals
        window = growth.window(first, last)
        new = Candidate.prepared(self.metric, given, training, window.compiler)
        known = model_store_of(executor, self.folder, gate.arrived).champion(gate.champion)
        self._check_same_champion(gate, known, new, given, window)
        made = new.as_champion(window.sealed, unit=executor.mechanism.unit)
        if first == gate.arrived + 1:  # else all rows that it knew are retired
            predictions = None
            if known.predictions is not None and made.predictions is not None:
                predictions = np.concatenate([known.predictions, made.predictions])
            made = replace(made, values=np.concatenate([known.values, made.values]), predictions=predictions)
        trained = executor.schema.training_rows
        if made.training is None and known.training is not None and len(known.training) == trained:
            made = replace(made, training=known.training)
        rows = window.place.rows or (1, executor.schema.rows)
        public = {
            "kind": COMPLETED, "gate": gate.name, "champion": gate.champion, "arrived": last, "rows": list(rows),
            **{name: value for name, value in new.bound.description.items() if name == "predictions"},
        }  # fmt: skip
        shown = f"gate {gate.name!r}: values of champion {gate.champion[:8]} for rows {rows[0]:,} to {rows[1]:,}"

        def check(accounts: Accounts) -> None:
            now = accounts.of(Gates).by_name[gate.name]
            if (now.champion, now.arrived) != (gate.champion, gate.arrived):
                raise QueryRejected(
                    f"Gate {gate.name!r} got another champion, or values for the new rows, at the same time. Read "
                    "the status of the gate, and try again."
                )

        challenge.record_act(
            executor, challenge.act(public, shown), Gates, check=check,
            keep=lambda: self.keep(replace(made, digest=gate.champion)),
        )  # fmt: skip

    def _check_same_champion(
        self, gate: GateAccount, known: Champion, new: Candidate, given: Any, window: QueryExecutor
    ) -> None:
        """Raise QueryRejected if the candidate for new rows is another model than the champion, or of another kind.

        Predictions are not checked: the steward vouches for them. A model or rule is recognised by its query.

        Args:
            gate: Public record of the gate.
            known: The champion, with values for earlier rows.
            new: The candidate, bound to the new rows.
            given: The model, rule or predictions as passed.
            window: Executor for the new rows alone.
        """
        if known.by_position != new.bound.by_position:
            way = "predictions, for the rows that arrived alone" if known.by_position else "the same model or rule"
            raise QueryRejected(f"The champion of gate {gate.name!r} was given in another form. Pass {way}.")
        if known.by_position or gate.champion == new.bound.query:
            return
        # Or the same model before later rows became training rows, when they arrived or were retired.
        growth, compiler = growth_of(window), window.compiler
        assert growth is not None
        every = [
            replace(growth.rows, retired=retired).training(last)
            for retired in range(growth.rows.retired + 1) for last in range(len(growth.rows.parts))
        ]  # fmt: skip
        states = {sum(part.rows for part in trained): trained for trained in every}
        for rows, trained in sorted(states.items(), reverse=True):
            schema = replace(compiler.schema, training_rows=rows)
            training = parted(trained, schema, sealed=False) if trained else None
            before = replace(compiler, schema=schema, training=training)
            if gate.champion == Candidate.prepared(self.metric, given, None, before).bound.query:
                return
        raise QueryRejected(
            f"This model is not the champion of gate {gate.name!r}, or cannot be recognised as such. Pass the same "
            "model, unchanged. If it is lost, open a gate under a new name."
        )

    def facts(self, gate: GateAccount, head: Head) -> dict[str, Any]:
        """Return the facts of `Gate.status` about rows, plan and the smallest provable gain.

        The gain is for accuracy on independent rows, with a typical share of rows on which the models differ. It is
        None for other metrics and rows.
        """
        executor, tree, sees = self.executor, self.answering(head), None
        if gate.metric.get("kind") == "accuracy" and tree.mechanism.dependence.independent:
            public = tree.schema.features_public and tree.schema.label_kind == "binary"
            nats = challenge.next_nats(tree.mechanism, tree.state_from(head))
            gain = step_at(rows=tree.schema.rows, disagreement=_DISAGREEMENT, nats=nats, public=public)
            sees = {"disagreement": _DISAGREEMENT, "gain": gain}
        queries, asked = executor.mechanism.queries, executor.state_from(head).asked
        return {
            **({} if executor.growth is None else {"rows_left": rows_left(gate, executor)}),
            "plan": {"queries": queries, "beyond": max(asked - queries, 0)},
            "sees": sees,
        }  # fmt: skip


@dataclass(frozen=True)
class RowChallenge(Challenge):
    """A challenge that is decided by the gain on the sealed rows of one tree.

    Attributes:
        champion: The champion's values for the rows of the tree.
        gain: How the gain is computed and bounded, decided by public facts.
        of_all: The challenger, bound to all sealed rows. If it is promoted, the gate stores its values for all of them.
        every: Executor for all sealed rows.
        champions: The store of the champions' files.
    """

    champion: Champion = field(repr=False)
    gain: Gain
    of_all: Candidate
    every: StoredRows = field(repr=False)
    champions: ModelStore = field(repr=False)

    @cached_property
    def pricing(self) -> Pricing:  # type: ignore[override]
        """The price of the challenge: at most one surprise."""
        return Pricing.planned(self.mechanism, None, keeping=self.keeping)

    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> tuple[Evaluations, Path, Gained]:
        """Return the gain on the sealed rows, and the file written for the challenger in case it is promoted."""
        unit = self.mechanism.unit
        made = self.of_all.as_champion(self.every, unit=unit)
        written = self.champions.write(made)  # for every verdict: failing tells nothing
        gained = self.gain.evaluate(sealed, made.values[-sealed.rows :], self.champion.values)
        evaluations = Evaluations(
            totals=np.array([[gained.total]], dtype=np.int64),
            guesses=np.array([-1], dtype=np.int64),
            rows=sealed.rows,
            unit=unit,
            procedures=[self.gain.procedure],
            seen=[gained.seen],
            margins=np.array([(1.0 + self.gate.margin) / 2.0 + self.mechanism.row_step]),  # what the grid may hide
        )
        return evaluations, written, gained

    def answer(
        self, state: State, seen: tuple[Evaluations, Path, Gained], rows: list[int], noise: Noise
    ) -> tuple[State, list[Outcome]]:
        """Decide the challenge. A promoted challenger's file is in place before the verdict is returned.

        The entry records how the lower limit was made: its one-sided level and the stakes.
        """
        evaluations, written, gained = seen
        state, replies = self.mechanism.answer_many(state, evaluations, noise)
        source = Source(int(replies.sources[0])).name.lower()
        promoted = source == PROMOTED
        if promoted:
            self.champions.settle(written, self.of_all.bound.query)
        low = self.gate.margin if promoted else None
        answer: dict[str, Any] = {"value": None, "low": low, "high": None, "source": source}
        nats = float(replies.nats[0])
        if not math.isnan(nats):
            by = {"by": self.gain.procedure.name, "nats": nats, "one_sided": True}
            answer["node"] = {**by, **self.gain.procedure.stakes(nats - math.log(2.0))}
        kept = np.clip(replies.sealed[0], 0.0, 1.0).tolist()  # one-sided: the upper end is 1
        kept[0] = kept[0] if gained.mean is None else gained.mean
        return state, [Outcome(answer, int(replies.charged[0]), None if kept[0] != kept[0] else tuple(kept))]


def open_row_gate(
    executor: QueryExecutor, folder: Path, name: Any, metric: Any = None, *, champion: Any = None, training: Any = None,
    margin: Any = 0.0, challenges: Any = None, telling: Telling | None = None,
) -> Gate:  # fmt: skip
    """Open a gate about rows. Opening it for the first time is an act of the steward, which is recorded in the ledger.

    Args:
        executor: Executor of the open holdout.
        folder: Private folder of its rows.
        name: Name of the gate, as for `Holdout.gate`.
        metric: The metric, as for `Holdout.gate`. None if the gate exists already.
        champion: The first champion. None if the gate exists already.
        training: Predictions of the champion for the training rows.
        margin: Gain that a challenger has to exceed, in the metric's units.
        challenges: Largest number of challenges that the gate answers; None if only the holdout's budget limits them.
        telling: Function that turns a prepared challenge into the one that is asked.

    Raises:
        QueryRejected: If the mechanism has no gates, if a gate of this name has other settings, or if the name or the
            limit cannot be used. Nothing was changed.
    """
    challenge.check_gates(executor.mechanism)
    name, limit, head = checked_name(name), checked_limit(challenges), executor.ledger.head()
    executor.state_from(head)
    gates = head.accounts.of(Gates).by_name
    known = gates.get(name)
    if known is None and champion is None:
        others = f" {advice_for(name, gates)}" if gates else ""
        raise NotFound(
            f"There is no gate named {brief(name)}.{others} To open a new one, pass the model that challengers have to "
            "beat as champion=..., or seal cases (everhold suite)."
        )
    measure = metric_of(
        metric, None if known is None else known.metric, binary=executor.schema.label_kind == "binary"
    )  # fmt: skip
    evidence = RowEvidence(name, executor, folder, measure)
    if champion is not None:
        first = evidence.version(champion, training=training).candidate
        arrived = 0 if (growth := growth_of(executor)) is None else growth.account.arrivals
        asked, slack = first.bound.query, checked_margin(margin, first.metric)
        account = GateAccount(name, first.metric, slack, limit, asked, asked, arrived=arrived)
        if known is None:
            check_may_open(executor)  # before anybody looks at the sealed rows
            made = first.as_champion(executor.sealed, unit=executor.mechanism.unit)
            record_gate(executor, account, first.bound.shown, lambda: evidence.keep(made))
            known = executor.ledger.latest().accounts.of(Gates).by_name[name]  # where another was faster, its gate
        _check_same(known, account)
    assert known is not None
    return Gate(replace(evidence, metric=replace(measure, description=known.metric)), telling=telling)


def _check_same(known: GateAccount, requested: GateAccount) -> None:
    """Raise QueryRejected if the gate that exists has another first champion, metric, margin or limit."""
    facts = (
        ("first champion", known.first, requested.first),
        ("metric", known.metric, requested.metric),
        ("margin", known.margin, requested.margin),
        ("limit of challenges", known.limit, requested.limit),
    )
    different = [what for what, found, expected in facts if found != expected]
    if different:
        raise QueryRejected(
            f"A gate named {known.name!r} exists with another {' and another '.join(different)}. Pass the same "
            "again, another name for a new gate, or no champion= to open the one that exists."
        )


def model_store_of(executor: QueryExecutor, folder: Path, arrival: int | None = None) -> ModelStore:
    """Return the store of a holdout's champions, with values for the rows up to an arrival, by default for all.

    Each arrival has its own files, named by the digest of its rows, because after a loss other rows may arrive under
    the same number.
    """
    growth, record = growth_of(executor), executor.record
    arrived = [] if growth is None else [
        part for part in growth.rows.parts[1 : None if arrival is None else arrival + 1] if part.rows
    ]  # fmt: skip
    rows = executor.schema.rows if growth is None else growth.rows.parts[0].rows + sum(part.rows for part in arrived)
    of = arrival_name(arrived[-1].description["fingerprint"]) if arrived else ""
    return ModelStore.of(folder, holdout=record.id, rows=rows, seal_key=executor.key.seal_key, of_arrival=of)


def rows_left(gate: GateAccount, executor: QueryExecutor) -> int:
    """Return the number of sealed rows that arrived and for which the champion has no values."""
    growth = growth_of(executor)
    return 0 if growth is None else sum(part.rows for part in growth.rows.parts[_first_left(gate, executor) :])


def _first_left(gate: GateAccount, executor: QueryExecutor) -> int:
    """Return the first sealed arrival for which the champion has no values."""
    growth = growth_of(executor)
    assert growth is not None
    return max(gate.arrived + 1, growth.account.retired)
