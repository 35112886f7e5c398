"""An open challenge: cases are handed out in a secret order, results come in, and it ends as early as is proved.

Everything that follows is committed before it is told: opening, each look, the verdict. So a process that ends at any
point leaves the challenge as it was after the latest of them, and `CaseGate.open` under the same name goes on there.
A challenge belongs to the analyst who opened it, and to the steward. What it can cost is reserved when it is opened, so
nothing that is spent elsewhere keeps it from ending.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_whole, brief
from everhold.asking.accessor import HoldoutAccessor
from everhold.asking.accounts.budget import part_of
from everhold.asking.query_executor import CLOSED_STUDY
from everhold.display import Display
from everhold.errors import BudgetExhausted, QueryRejected
from everhold.gates.cases.challenge import CaseChallenge, challenger_digest, next_nats
from everhold.gates.cases.evidence import Evidence
from everhold.gates.cases.gate import another_is_open
from everhold.gates.cases.order import boundaries, draws_of_units, order_of_units
from everhold.gates.champion_results import rerun
from everhold.ledger import EntryDraft, Outcome
from everhold.ledger.allotments import ANALYST, Accounts, spending_of
from everhold.ledger.entry_counts import OPENED
from everhold.ledger.gates import Gates
from everhold.ledger.open_challenges import LOOKED, OpenChallenges, Opened
from everhold.queries.query import MOST_SHOWN, digest
from everhold.sealing.configuration import bound_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from everhold.asking.query_executor import QueryExecutor
    from everhold.gates.cases.evidence import UnitPlan
    from everhold.gates.cases.gate import CaseGate
    from everhold.gates.verdict import Verdict
    from everhold.ledger import Head
    from everhold.ledger.entry_counts import EntryCounts
    from everhold.ledger.gates import GateAccount

__all__ = ["HoldoutOpenChallenges", "OpenChallenge", "Progress", "open_challenge"]

_USUAL_LOOKS = 20
_ENDED = "The challenge has ended. Open a new one."


@dataclass(frozen=True, slots=True)
class Progress(Display):
    """The reply to reported results.

    Attributes:
        verdict: The verdict, if the challenge has ended; None if it goes on.
        reported: Cases reported so far.
        cases: Cases of the suite.
    """

    verdict: Verdict | None
    reported: int
    cases: int

    @property
    def goes_on(self) -> bool:
        """True if more cases are handed out."""
        return self.verdict is None

    def __str__(self) -> str:
        done = f"{self.reported} of {self.cases} cases"
        return f"go on: nothing is proved after {done}" if self.verdict is None else f"{self.verdict} after {done}"


class OpenChallenge:
    """A challenge while its cases are handed out; made by `CaseGate.open`.

    While it is open, only the analyst who opened it and the steward can read it, report for it or end it. Every method
    raises `QueryRejected` for others.
    """

    def __init__(self, gate: CaseGate, challenger: str) -> None:
        """Use `CaseGate.open` instead."""
        self._gate, self._challenger = gate, challenger
        self._executor, self._store, self._units = gate._executor, gate._store, gate._units
        self._verdict: Verdict | None = None
        self._drawn: dict[int, list[int]] = {}

    def __repr__(self) -> str:
        return f"OpenChallenge({self._gate.name!r}, {self._challenger!r})"

    @property
    def verdict(self) -> Verdict | None:
        """The verdict, if the challenge has ended."""
        if self._verdict is None and self._opened(self._executor.ledger.head().state) is None:
            self._verdict = self._decided(self._now())
        return self._verdict

    def next_cases(self) -> list[Any]:
        """Ids of the cases to run next; the same ones until they are reported, and none after the end."""
        opened = self._opened(self._executor.ledger.head().state)
        return [] if opened is None else [self._ids[place] for place in self._batch(opened)]

    def report(self, results: Any, *, champion: Any = None, baseline: Any = None) -> Progress:
        """Report the results of the cases that were handed out last.

        Args:
            results: As for `CaseGate.challenge`, of exactly these cases.
            champion: New results of the champion on these cases, in place of the stored ones; see `CaseGate.challenge`.
            baseline: The same for the baseline.

        Raises:
            CaseRejected: If a case is missing, was not handed out, is doubled, crashed or has no number. Nothing was
                charged, and the challenge stays as it was.
            QueryRejected: If the challenge is not open, or other results were reported meanwhile.
        """
        data = self._executor.ledger.head().state
        opened = self._opened(data)
        if opened is None:
            raise QueryRejected(_ENDED)
        places = self._batch(opened)
        cases = [self._ids[place] for place in places]
        made = self._units.suite.values(results, cases)
        stored = np.full(made.shape, np.nan)
        values = np.stack([made, *(rerun(self._units.suite, champion, baseline, cases) or (stored, stored))])
        name = self._store.digest_of(values)
        self._store.keep(_file(opened, len(opened.results) + 1, name), values)
        done = opened if len(opened.results) + 1 == opened.looks else None
        reported = [*opened.results, name]
        plan = self._plan(self._now(), opened, self._order(opened), reported)
        if opened.futility and done is None and not plan.proves(opened.nats) and plan.futile(opened):
            plan = replace(plan, challenge=replace(plan.challenge, futile=True))
            done = opened
        if done is not None or plan.proves(opened.nats):
            return Progress(self._end(opened, plan), self._reported(opened, len(reported)), len(self._ids))
        self._look(opened, name)
        return Progress(None, self._reported(opened, len(reported)), len(self._ids))

    def withdraw(self) -> Verdict:
        """End the challenge; the champion is kept.

        It costs what a challenge that runs to its end as kept costs: the two queries that opening reserved, and one of
        the gate's challenges. The reserved surprise comes back.
        """
        opened = self._opened(self._executor.ledger.head().state)
        if opened is None:
            raise QueryRejected(_ENDED)
        return self._end(opened, self._plan(self._now(), opened, [], []))

    def _decided(self, now: GateAccount) -> Verdict | None:
        """The verdict that is in the ledger; None if there is none."""
        if now.champion == challenger_digest(self._gate.name, self._challenger):
            return self._gate._itself(now, self._challenger)
        challenge = self._plan(now, None, [], []).challenge
        return None if self._executor.ledger.find(challenge.query) is None else self._executor.ask(challenge)

    def _end(self, opened: Opened, plan: _Plan) -> Verdict:
        """The verdict, in the name of the analyst who opened the challenge."""
        executor = self._executor
        if executor.analyst != opened.analyst:  # the steward ends it
            executor = replace(executor, analyst=opened.analyst)
        self._verdict = executor.ask(plan.challenge)
        return self._verdict

    @property
    def _ids(self) -> Sequence[Any]:
        return self._units.suite.ids

    def _now(self) -> GateAccount:
        return Accounts.from_state(self._executor.ledger.head().state).of(Gates).by_name[self._gate.name]

    def _opened(self, data: Mapping[str, Any]) -> Opened | None:
        """The challenge, if it is open.

        Raises:
            QueryRejected: If another analyst opened it.
        """
        found = Accounts.from_state(data).of(OpenChallenges).by_gate.get(self._gate.name)
        if found is None or found.challenger != challenger_digest(self._gate.name, self._challenger):
            return None
        if not found.belongs_to(self._executor.analyst):
            raise QueryRejected(
                f"Another analyst opened the challenge {self._challenger!r} of gate {self._gate.name!r}. Open one of "
                "your own when it has ended, or ask the steward to end it."
            )
        return found

    def _order(self, opened: Opened) -> list[int]:
        if self._units.redraws:
            return list(dict.fromkeys(self._draws(opened)))
        return order_of_units(self._executor.key.order_key, opened, self._units.count)

    def _draws(self, opened: Opened) -> list[int]:
        if opened.entry not in self._drawn:
            made = draws_of_units(self._executor.key.order_key, opened, self._units.count)
            self._drawn = {opened.entry: made}
        return self._drawn[opened.entry]

    def _boundaries(self, opened: Opened) -> list[int]:
        return boundaries(self._units.count, opened.looks)

    def _batch(self, opened: Opened) -> list[int]:
        """Places of the cases that are handed out now."""
        return self._cases_of(opened, len(opened.results))

    def _cases_of(self, opened: Opened, look: int) -> list[int]:
        ends = [0, *self._boundaries(opened)]
        units = self._order(opened)[ends[look] : ends[look + 1]]
        rank = {unit: place for place, unit in enumerate(units)}
        places = [place for place, unit in enumerate(self._units.groups.tolist()) if unit in rank]
        return sorted(places, key=lambda place: (rank[int(self._units.groups[place])], place))

    def _reported(self, opened: Opened, looks: int) -> int:
        order = self._order(opened)[: self._boundaries(opened)[looks - 1]]
        return int(self._units.sizes[order].sum())

    def _plan(
        self, gate: GateAccount, opened: Opened | None, order: Sequence[int], reported: Sequence[str]
    ) -> _Plan:  # fmt: skip
        values = self._reported_values(opened, reported) if opened is not None and reported else None

        def evidence() -> Evidence:
            assert values is not None
            champion, baseline = self._gate._results.stored(gate)
            stored = np.stack([champion, champion, baseline])  # what was not handed out is not looked at
            identity = challenger_digest(gate.name, self._challenger)
            return self._gate._results.evidence(self._units, identity, [*np.where(np.isnan(values), stored, values)])

        def proves(nats: float) -> bool:
            if values is None or opened is None:
                return False
            looks = self._boundaries(opened)[: len(reported)]
            if self._units.redraws:
                seen = set(order[: looks[-1]])
                draws = list(takewhile(seen.__contains__, self._draws(opened)))
                return evidence().proves_drawn(nats, draws, whole=len(seen) == self._units.count)
            return evidence().proves_early(nats, list(order)[: looks[-1]], looks, planned_looks=opened.looks)

        challenge = CaseChallenge(
            gate, self._units.suite, self._units, self._challenger, self._executor.mechanism,  # type: ignore[arg-type]
            self._gate._results.keeping(challenger_digest(gate.name, self._challenger)), proves,
            None if values is None else values[0], self._executor.schema.about, opened,
        )  # fmt: skip
        return _Plan(proves, challenge, evidence)

    def _reported_values(self, opened: Opened, reported: Sequence[str]) -> NDArray[np.float64]:
        """Results so far, shape (3, cases, runs, metrics): challenger, champion, baseline; nan where there are none."""
        suite = self._units.suite
        values = np.full((3, len(suite.ids), suite.runs, len(suite.metrics)), np.nan)
        for look, name in enumerate(reported):
            values[:, self._cases_of(opened, look)] = self._store.find(_file(opened, look + 1, name))
        return values

    def _look(self, opened: Opened, results: str) -> None:
        look = len(opened.results) + 1
        public = {"kind": LOOKED, "gate": opened.gate, "entry": opened.entry, "look": look, "results": results}
        shown = f"gate {opened.gate!r}: {self._challenger} goes on after look {look}"
        act = EntryDraft(digest(public), {**public, "shown": shown[:MOST_SHOWN]})

        def step(data: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], list[Outcome | None]]:
            accounts = Accounts.from_state(data)
            if accounts.closed:
                raise QueryRejected(CLOSED_STUDY)
            try:
                accounts.of(OpenChallenges).replay(public, LOOKED)
            except ValueError:
                raise QueryRejected("results of this look were reported meanwhile; nothing was charged") from None
            return accounts.into(data), [_without_numbers(LOOKED)]

        self._executor.ledger.commit([act], step)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Evidence so far, and the challenge that it ends.

    Attributes:
        proves: Whether the claims are proved at ln(1 / level). Secret.
        challenge: The plan of the verdict.
        evidence: Makes the evidence so far. Secret.
    """

    proves: Callable[[float], bool]
    challenge: CaseChallenge
    evidence: Callable[[], Evidence]

    def futile(self, opened: Opened) -> bool:
        """True if the claims will hardly be proved; secret until it is told."""
        values = self.challenge.values
        if values is None:
            return False
        evidence = self.evidence()
        return evidence.hopeless(evidence.plan.last_nats(opened.nats, opened.looks), ~np.isnan(values[:, 0, 0]))


def open_challenge(gate: CaseGate, challenger: str, *, batch: int | None, futility: bool = False) -> OpenChallenge:
    """Open a challenge, or go on with the one that is open under this name.

    Raises:
        QueryRejected: If another one is open. Nothing was charged.
        BudgetExhausted: If no results could prove the claims any more, or the allotment is too small. Nothing was
            charged.
    """
    made, executor = OpenChallenge(gate, challenger), gate._executor
    data = executor.ledger.head().state
    identity, now = challenger_digest(gate.name, challenger), made._now()
    if made._opened(data) is not None or made.verdict is not None or identity == now.champion:
        return made
    looks = _looks(gate._units, batch)
    while not _open(executor, gate, challenger, looks, futility=futility):
        continue  # a query came meanwhile, so the level is another one
    return made


def _open(executor: QueryExecutor, gate: CaseGate, challenger: str, looks: int, *, futility: bool) -> bool:
    """Write the act that opens a challenge; False if the ledger has moved on since its level was computed."""
    head = executor.ledger.head()
    opened = _checked(executor, gate, challenger, looks, head)
    public = {
        "kind": OPENED, "gate": opened.gate, "name": opened.name, "champion": opened.champion,
        "challenger": opened.challenger, "nats": opened.nats, "looks": opened.looks, "entry": opened.entry,
        **({"futility": True} if futility else {}),
    }  # fmt: skip
    if executor.analyst is not None:
        public[ANALYST] = executor.analyst
    shown = f"gate {gate.name!r}: {challenger} is open, {looks} looks at most"
    identity = {"kind": OPENED, "gate": opened.gate, "champion": opened.champion, "challenger": opened.challenger,
                **dict(executor.schema.about)}  # fmt: skip
    with executor.ledger.transaction([EntryDraft(digest(identity), {**public, "shown": shown[:MOST_SHOWN]})]) as found:
        if not found.new or found.state != head.state:
            return not found.new
        accounts, state = Accounts.from_state(found.state), executor.state_from(found.state)
        accounts.of(OpenChallenges).replay(public, OPENED)
        if executor.analyst is not None:
            accounts.spend(executor.analyst, *spending_of(public, OPENED, 0))
        after = bound_state(state.after(asked=1, charged=0), executor.record.configuration)
        found.record(accounts.into(after), [_without_numbers(OPENED)])
    return True


def _checked(executor: QueryExecutor, gate: CaseGate, challenger: str, looks: int, head: Head) -> Opened:
    """The challenge as it would be opened now.

    Raises:
        QueryRejected: If another one is open, or the champion is not complete. Nothing was charged.
        BudgetExhausted: If no results could prove the claims any more. Nothing was charged.
    """
    accounts, state = head.accounts, executor.state_from(head.state)
    now = accounts.of(Gates).by_name[gate.name]
    if accounts.closed:
        raise QueryRejected(CLOSED_STUDY)
    if gate.name in accounts.of(OpenChallenges).by_gate:
        raise another_is_open(gate.name, accounts.of(OpenChallenges).by_gate[gate.name], executor.analyst)
    gate._results.whole(now)
    part = part_of(accounts, executor.analyst)
    if part.affords(0) < 2 or part.affords(1) < 1:
        raise BudgetExhausted(
            f"An open challenge reserves 2 queries and 1 surprise, and the allotment of {part.analyst!r} has "
            f"{part.queries - part.asked} and {part.charges - part.charged} left. Ask the steward for a larger "
            "allotment."
        )
    if now.left < 1:
        raise BudgetExhausted(
            f"Gate {gate.name!r} has answered all of its {now.limit} challenges. Open another gate for more."
        )
    nats = next_nats(executor.mechanism, state)  # type: ignore[arg-type]
    if not gate._units.can_prove_early(nats, looks):
        raise BudgetExhausted(
            f"No results on {len(gate._units.suite.ids)} cases could prove the claims of gate {gate.name!r} any more. "
            "Seal more cases, or more runs of each."
        )
    identity = challenger_digest(gate.name, challenger)
    return Opened(gate.name, challenger, identity, now.champion, nats, looks, head.sequence + 1)


def _looks(units: UnitPlan, batch: int | None) -> int:
    """Number of looks."""
    wanted = max(math.ceil(units.count / _USUAL_LOOKS), 1) if batch is None else as_whole(batch)
    if wanted is None or not 1 <= wanted <= units.count:
        raise QueryRejected(f"The batch is {brief(batch)}. Pass a whole number from 1 to the {units.count} units.")
    return math.ceil(units.count / wanted)


def _file(opened: Opened, look: int, results: str) -> str:
    return f"{opened.challenger[:16]}-{opened.entry}-{look}-{results[:32]}"


def _without_numbers(source: str) -> Outcome:
    return Outcome({"value": None, "low": None, "high": None, "source": source}, 0)


class HoldoutOpenChallenges(HoldoutAccessor):
    """`holdout.open_challenges`: what a certificate says of challenges that were opened."""

    def certificate_facts(self, head: Head, counts: EntryCounts) -> dict[str, Any]:
        """Numbers of the acts, and of the challenges that are open now."""
        kept = head.accounts.of(OpenChallenges)
        others = {"futile": kept.futile, "open": len(kept.by_gate)}
        some = {name: count for name, count in others.items() if count}
        return {"open_challenges": {"opened": kept.opened, "looked": kept.looked, **some}} if kept.opened else {}
