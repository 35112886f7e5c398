"""An open challenge: cases are handed out in a secret order, results come in, and it ends as early as is proved.

The opening, each look at results and the verdict are committed to the ledger before they are told. So if a process
ends, the challenge is as after the latest of these steps, and `Gate.open` under the same name continues it. A challenge
belongs to the analyst who opened it, and to the steward. The most that it can cost is reserved when it is opened, so
other spending cannot keep it from ending.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.asking.accessor import HoldoutAccessor
from everhold.asking.budget import part_of
from everhold.asking.query_executor import CLOSED_STUDY
from everhold.display import Display
from everhold.errors import BudgetExhausted, QueryRejected
from everhold.gates.cases import CaseEvidence, CaseVersion
from everhold.gates.challenge import Challenge, Verdict, Version, act, next_nats, record_act
from everhold.gates.records import LOOKED, GateAccount, Gates, OpenChallenges, Opened
from everhold.gates.results import runs_by_case
from everhold.gates.units import PairedResults, UnitPlan, boundaries, draws_of_units, order_of_units
from everhold.ledger import Head, Outcome
from everhold.ledger.acts import ANALYST, OPENED, Accounts, EntryCounts, spending_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_PART = "0"
"""In the name of a file: results of a part of the cases that were handed out."""

_ENDED = "The challenge has ended. Open a new one."


@dataclass(frozen=True, slots=True)
class Progress(Display):
    """Reply to the results that were reported to an open challenge.

    Attributes:
        verdict: The verdict if the challenge has ended; None if the challenge goes on.
        reported: Number of cases reported so far.
        cases: Number of cases of the suite.
        missing: Cases that were handed out and are not reported yet.
    """

    verdict: Verdict | None
    reported: int
    cases: int
    missing: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether more cases are handed out."""
        return self.verdict is None

    def __str__(self) -> str:
        done = f"{self.reported} of {self.cases} cases"
        if self.missing:
            return f"go on: {self.missing} cases that were handed out are left to report, after {done}"
        return f"go on: nothing is proved after {done}" if self.verdict is None else f"{self.verdict} after {done}"


class OpenChallenge:
    """A challenge whose cases are evaluated batch by batch. It is made by `Gate.open`.

    While a challenge is open, only the analyst who opened it and the steward can read it, report results or end it.
    For other analysts every method raises `QueryRejected`.
    """

    def __init__(self, evidence: CaseEvidence, challenger: str) -> None:
        """Use `Gate.open` instead."""
        self._evidence = evidence
        self._executor, self._version = evidence.executor, evidence.named(challenger)
        self._verdict: Verdict | None = None

    def __repr__(self) -> str:
        return f"OpenChallenge({self._evidence.name!r}, {self._version.name!r})"

    @property
    def challenger(self) -> str:
        """The challenger's name."""
        return str(self._version.name)

    @property
    def verdict(self) -> Verdict | None:
        """The verdict, or None while the challenge is open."""
        if self._verdict is None and self._opened(head := self._executor.ledger.head()) is None:
            self._verdict = self._decided(head)
        return self._verdict

    def next_cases(self) -> list[Any]:
        """Return the ids of the cases to run next.

        The ids stay the same until results on these cases are reported. The list is empty after the end of the
        challenge.
        """
        opened = self._opened(self._executor.ledger.head())
        if opened is None:
            return []
        cases, part = self._batch(opened)
        return [case for case, lacks in zip(cases, np.isnan(part[0, :, 0, 0]), strict=True) if lacks]

    def _batch(self, opened: Opened) -> tuple[list[Any], NDArray[np.float64]]:
        """Return the latest batch of cases, and the results reported on its cases, with nan for a missing result.

        The results have the shape (3, cases, runs, metrics), for challenger, champion and baseline.
        """
        suite, store = self._evidence.units.suite, self._evidence.store
        cases = [suite.ids[place] for place in self._handed_out(opened).cases(len(opened.results))]
        if store.has(name := _file(opened, len(opened.results) + 1, _PART)):
            return cases, store.find(name)
        return cases, np.full((3, len(cases), suite.runs, len(suite.metrics)), np.nan)

    def cases_left(self) -> list[Any]:
        """Return the ids of cases without results of the challenger, if it is the champion now."""
        gate = self._executor.ledger.head().accounts.of(Gates).by_name[self._evidence.name]
        return self._evidence.left(gate) if gate.champion == self._version.digest else []

    def complete(self, results: Any, *, baseline: Any = None) -> None:
        """Store results of the promoted challenger on the cases of `cases_left`."""
        gate = self._executor.ledger.head().accounts.of(Gates).by_name[self._evidence.name]
        self._evidence.complete(gate, results, baseline=baseline)

    def report(self, results: Any, *, champion: Any = None, baseline: Any = None) -> Progress:
        """Report results of the cases that were handed out last, all at once or in parts.

        A part is stored, and results are tested only when all of these cases are reported. So a report can be completed
        later, and each case is reported once.

        Args:
            results: Results of some or all of the cases that were handed out last, in a form that `Gate.challenge`
                takes.
            champion: New results of the champion on these cases, in place of the stored ones; see `Gate.challenge`.
            baseline: New results of the baseline on the same cases.

        Raises:
            CaseRejected: If a case was not handed out, was reported before, is given twice, crashed or has no number.
                Nothing was charged, and the challenge stays as it was.
            QueryRejected: If the challenge is not open, or another process reported results meanwhile.
        """
        suite = self._evidence.units.suite

        def read(head: Head) -> tuple[Opened, GateAccount, NDArray[np.float64]]:
            opened = self._opened(head)
            if opened is None:
                raise QueryRejected(_ENDED)
            cases, values = self._batch(opened)
            given = runs_by_case(results).keys()
            left = [place for place in range(len(cases)) if np.isnan(values[0, place, 0, 0])]
            places = [place for place in left if cases[place] in given] or left
            some = [cases[place] for place in places]
            made = suite.values(results, some)
            stored = np.full(made.shape, np.nan)
            values[:, places] = np.stack([made, *(self._evidence.rerun(champion, baseline, some) or (stored, stored))])
            return opened, head.accounts.of(Gates).by_name[self._evidence.name], values

        opened, gate, values = self._evidence.on_latest(read)
        if missing := int(np.isnan(values[0, :, 0, 0]).sum()):
            self._evidence.store.keep(_file(opened, len(opened.results) + 1, _PART), values)
            before = self._handed_out(opened).reported(len(opened.results))
            return Progress(None, before + values.shape[1] - missing, len(suite.ids), missing)
        name = self._evidence.store.digest_of(values)
        look = len(opened.results) + 1
        self._evidence.store.keep(_file(opened, look, name), values)
        found = self._handed_out(opened)
        whole = self._values(opened, [*opened.results, name])
        known, fixed = self._evidence.stored(gate)  # in place of what was not reported: later cases are ignored
        filled = np.where(np.isnan(whole), np.stack([known, known, fixed]), whole)
        paired, reported = self._evidence.paired(self._version.digest, [*filled]), ~np.isnan(whole[0, :, 0, 0])
        proves = partial(self._proves, found, look)
        proved = proves(paired, opened.nats)
        futile = opened.futility and not proved and look < opened.looks and paired.hopeless(
            paired.plan.last_nats(opened.nats, opened.looks), reported
        )  # fmt: skip
        verdict, version = None, self._version
        if reported.all():  # so the same results, passed to a challenge at once, have this verdict
            rerun = None if np.isnan(whole[1:]).all() else (whole[1], whole[2])
            version = CaseVersion(**asdict(version), results=whole[0], rerun=rerun)
        if proved or futile or look == opened.looks:
            keep = partial(self._evidence.keep, version.digest, whole[0])
            unsealed = partial(paired.unsealed, proves=proves, reported=reported)
            verdict = self._end(opened, self._evidence.claimed(
                gate, version, lambda _: proved, keep, opened, futile=futile, unsealed=unsealed
            ))  # fmt: skip
        else:
            self._look(opened, name)
        return Progress(verdict, found.reported(look), len(suite.ids))

    def withdraw(self) -> Verdict:
        """End the challenge and keep the champion.

        It costs the same as a challenge that runs to its end and keeps the champion: the two queries that opening
        reserved, and one of the gate's challenges. The reserved surprise comes back.
        """
        head = self._executor.ledger.head()
        opened = self._opened(head)
        if opened is None:
            raise QueryRejected(_ENDED)
        return self._end(opened, self._kept(head.accounts.of(Gates).by_name[self._evidence.name], opened))

    def _kept(self, gate: GateAccount, opened: Opened | None) -> Challenge:
        """Return the challenge with the verdict that the champion stays.

        Its identity is the same however the challenge ends.
        """
        return self._evidence.claimed(gate, self._version, lambda _: False, lambda: None, opened)

    def _decided(self, head: Head) -> Verdict | None:
        """Return the verdict that the ledger has of this challenge, or None if it has none."""
        gate = head.accounts.of(Gates).by_name[self._evidence.name]
        if gate.champion == self._version.digest:
            return self._evidence.verdict_of_champion(gate, self._version)
        challenge = self._kept(gate, None)
        return None if self._executor.ledger.find(challenge.query) is None else self._executor.ask(challenge)

    def _end(self, opened: Opened, challenge: Challenge) -> Verdict:
        """Record and return the verdict in the name of the analyst who opened the challenge."""
        self._verdict = replace(self._executor, analyst=opened.analyst).ask(challenge)
        return self._verdict

    def _opened(self, head: Head) -> Opened | None:
        """Return the ledger's record of this challenge, or None if the challenge is not open.

        Raises:
            QueryRejected: If another analyst opened the challenge.
        """
        found = head.accounts.of(OpenChallenges).by_gate.get(self._evidence.name)
        if found is None or found.challenger != self._version.digest:
            return None
        if not found.belongs_to(self._executor.analyst):
            raise QueryRejected(
                f"Another analyst opened the challenge {self._version.name!r} of gate {self._evidence.name!r}. Open "
                "one of your own when it has ended, or ask the steward to end it."
            )
        return found

    def _handed_out(self, opened: Opened) -> _HandedOut:
        return _HandedOut(opened, self._evidence.units, self._executor.key.order_key)

    def _proves(self, found: _HandedOut, look: int, paired: PairedResults, nats: float) -> bool:
        """Return whether the results reported up to a look prove the claims at ln(1 / level). Secret."""
        opened, looks, units = found.opened, found.ends[1 : look + 1], self._evidence.units
        order = found.order[: looks[-1]]
        if not units.redraws:
            return paired.proves_early(nats, order, looks, planned_looks=opened.looks)
        draws = list(takewhile({*order}.__contains__, found.draws))
        return paired.proves_drawn(nats, draws, whole=len(order) == units.count)

    def _values(self, opened: Opened, reported: Sequence[str]) -> NDArray[np.float64]:
        """Return all reported results as an array, with nan for results that were not reported.

        The shape is (3, cases, runs, metrics), for challenger, champion and baseline. ``reported`` has the digest of
        the results of each look.
        """
        suite, found = self._evidence.units.suite, self._handed_out(opened)
        values = np.full((3, len(suite.ids), suite.runs, len(suite.metrics)), np.nan)
        for look, name in enumerate(reported, 1):
            values[:, found.cases(look - 1)] = self._evidence.store.find(_file(opened, look, name))
        return values

    def _look(self, opened: Opened, results: str) -> None:
        look = len(opened.results) + 1
        public = {"kind": LOOKED, "gate": opened.gate, "entry": opened.entry, "look": look, "results": results}
        shown = f"gate {opened.gate!r}: {opened.name} goes on after look {look}"

        def check(accounts: Accounts) -> None:
            if accounts.of(OpenChallenges).by_gate.get(opened.gate) != opened:
                raise QueryRejected(
                    "Results of these cases were already reported. The status of the gate says which cases to run now."
                )

        record_act(self._executor, act(public, shown), OpenChallenges, check=check)


@dataclass(frozen=True)
class _HandedOut:
    """The secret order in which the cases of one open challenge are evaluated.

    Attributes:
        opened: The record of the challenge.
        units: Cases, or groups of cases.
        key: Key from which the order is computed. Secret.
    """

    opened: Opened
    units: UnitPlan
    key: bytes = field(repr=False)

    @cached_property
    def draws(self) -> list[int]:
        """Units in the order of draws with replacement. Used only if the suite's open challenges draw so."""
        return draws_of_units(self.key, self.opened, self.units.count)

    @cached_property
    def order(self) -> list[int]:
        """All units, each once, in the order in which their cases are handed out."""
        if self.units.redraws:
            return list(dict.fromkeys(self.draws))
        return order_of_units(self.key, self.opened, self.units.count)

    @cached_property
    def ends(self) -> list[int]:
        """Number of units handed out after each look, starting with 0."""
        return [0, *boundaries(self.units.count, self.opened.looks)]

    def cases(self, look: int) -> list[int]:
        """Return the positions of the cases in the batch after ``look`` looks."""
        groups = self.units.groups.tolist()
        rank = {unit: place for place, unit in enumerate(self.order[self.ends[look] : self.ends[look + 1]])}
        places = [place for place, unit in enumerate(groups) if unit in rank]
        return sorted(places, key=lambda place: (rank[groups[place]], place))

    def reported(self, looks: int) -> int:
        """Return the number of cases in the batches of the first ``looks`` looks."""
        return int(self.units.sizes[self.order[: self.ends[looks]]].sum())


def open_challenge(
    evidence: CaseEvidence, challenger: str, *, batch: int | None, futility: bool = False
) -> OpenChallenge:
    """Open a challenge, or continue the challenger's open challenge.

    If ``futility`` is True, the challenge may also end early because a promotion has become unlikely.

    Raises:
        QueryRejected: If a challenge by another version is open. Nothing was charged.
        BudgetExhausted: If no results could prove the claims any more, or the allotment is too small. Nothing was
            charged.
    """
    made, head = OpenChallenge(evidence, challenger), evidence.executor.ledger.head()
    evidence.gate_at(head)
    if made._opened(head) is not None or made._decided(head) is not None:
        return made
    looks = evidence.units.looks(batch)
    while not _open(evidence, made._version, looks, head, futility=futility):
        head = evidence.executor.ledger.head()  # a query came meanwhile, so the level is another one
    return made


def _open(evidence: CaseEvidence, version: Version, looks: int, head: Head, *, futility: bool) -> bool:
    """Record the opening of a challenge, and return True. Return False if the ledger has changed since ``head``.

    Args:
        evidence: The evidence of the gate.
        version: The challenger.
        looks: Largest number of looks at its results.
        head: Head of the ledger, which determines the level of the challenge.
        futility: True if the challenge may also end early because a promotion has become unlikely.
    """
    executor = evidence.executor
    opened = _checked(evidence, version, looks, head)
    public = {
        "kind": OPENED, "gate": opened.gate, "name": opened.name, "champion": opened.champion,
        "challenger": opened.challenger, "nats": opened.nats, "looks": opened.looks, "entry": opened.entry,
        **({"futility": True} if futility else {}),
        **({} if executor.analyst is None else {ANALYST: executor.analyst}),
    }  # fmt: skip
    identity = {"kind": OPENED, "gate": opened.gate, "champion": opened.champion, "challenger": opened.challenger,
                **dict(executor.schema.about)}  # fmt: skip
    shown = f"gate {opened.gate!r}: {opened.name} is open, {looks} looks at most"
    with executor.ledger.transaction([act(public, shown, identity)]) as found:
        if not found.new or found.head.state != head.state:
            return not found.new
        accounts, state = Accounts.from_state(head.state), executor.state_from(head)
        accounts.of(OpenChallenges).replay(public, OPENED)
        if executor.analyst is not None:
            accounts.spend(executor.analyst, *spending_of(public, OPENED, 0))
        after = state.after(asked=1, charged=0).bound(executor.record.settings)
        found.record(accounts.into(after), [Outcome.of_act(OPENED)])
    return True


def _checked(evidence: CaseEvidence, version: Version, looks: int, head: Head) -> Opened:
    """Return the record of a challenge to open, after checking that it can be opened.

    Raises:
        QueryRejected: If another challenge is open, or the champion lacks results. Nothing was charged.
        BudgetExhausted: If no possible results could prove the claims any more. Nothing was charged.
    """
    executor, accounts, units = evidence.executor, head.accounts, evidence.units
    gate = accounts.of(Gates).by_name[evidence.name]
    if accounts.closed:
        raise QueryRejected(CLOSED_STUDY)
    evidence.check_none_is_open(head)
    evidence.whole(gate)
    part = part_of(accounts, executor.analyst)
    if part.affords(0) < 2 or part.affords(1) < 1:
        raise BudgetExhausted(
            f"An open challenge reserves 2 queries and 1 surprise, and the allotment of {part.analyst!r} has "
            f"{part.queries - part.asked} and {part.charges - part.charged} left. Ask the steward for a larger "
            "allotment."
        )
    if gate.left < 1:
        raise BudgetExhausted(
            f"Gate {gate.name!r} has answered all of its {gate.limit} challenges. Open another gate for more."
        )
    nats = next_nats(executor.mechanism, executor.state_from(head))
    if not units.can_prove_early(nats, looks):
        raise BudgetExhausted(
            f"No results on {len(units.suite.ids)} cases could prove the claims of gate {gate.name!r} any more. Seal "
            "more cases, or more runs of each."
        )
    return Opened(gate.name, str(version.name), version.digest, gate.champion, nats, looks, head.sequence + 1)


def _file(opened: Opened, look: int, results: str) -> str:
    return f"{opened.challenger[:16]}-{opened.entry}-{look}-{results[:32]}"


class HoldoutOpenChallenges(HoldoutAccessor):
    """The accessor `holdout.open_challenges`, which adds facts about open challenges to a certificate."""

    def certificate_facts(self, head: Head, counts: EntryCounts) -> dict[str, Any]:
        """Return the number of acts and of challenges that are open now, for the certificate."""
        kept = head.accounts.of(OpenChallenges)
        others = {"futile": kept.futile, "open": len(kept.by_gate)}
        some = {name: count for name, count in others.items() if count}
        return {"open_challenges": {"opened": kept.opened, "looked": kept.looked, **some}} if kept.opened else {}
