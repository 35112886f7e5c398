"""A gate about cases: challengers report results, and are promoted if all claims about them are proved.

Rows are cases, each with an id. The results of champion and baseline lie beside the sealed rows; those of a challenger
come with the challenge. A challenger is known by its name, such as a commit: named again, it has the verdict it had.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.asking.arrivals.grown import SeesArrivals, current
from everhold.dependence import Groups, Independent
from everhold.display import Facts
from everhold.errors import QueryRejected
from everhold.gates.cases.challenge import (
    CaseChallenge,
    case_verdict,
    challenger_digest,
    checked_challenger,
    next_nats,
)
from everhold.gates.cases.evidence import UnitPlan
from everhold.gates.cases.results import NEW_RUNS, CaseSuite, cases_and_runs
from everhold.gates.champion_results import ChampionResults, rerun
from everhold.gates.facts import described_gate, history_of, promotions_of
from everhold.gates.verdict import Decision, Verdict
from everhold.ledger.allotments import ANALYST, Accounts
from everhold.ledger.gates import GateAccount, Gates
from everhold.ledger.open_challenges import OpenChallenges
from everhold.queries.query import ExecutionResult, Outdated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.asking.query_executor import QueryExecutor
    from everhold.gates.cases.open_challenge import OpenChallenge
    from everhold.gates.cases.shares import VarianceShares
    from everhold.gates.history import GateHistory
    from everhold.ledger.open_challenges import Opened
    from everhold.sealing.result_store import ResultStore

__all__ = ["CaseGate", "another_is_open", "groups_of"]


class CaseGate(SeesArrivals):
    """A champion, a baseline, and claims about cases; made by `Holdout.gate(better=...)`."""

    def __init__(self, executor: QueryExecutor, store: ResultStore, name: str) -> None:
        """Use `Holdout.gate` instead."""
        self._executor, self._store, self._name = executor, store, name
        self._folder = store.folder
        self._units = units_of(executor, self._now().metric)

    def _see_arrivals(self) -> None:
        super()._see_arrivals()
        self._units = units_of(self._executor, self._now().metric)

    def _check_arrivals(self) -> None:
        """Check that no cases came since they were counted.

        Raises:
            RowsArrived: If some came, which `current` mends.
        """
        self._executor.state()

    def __repr__(self) -> str:
        return f"CaseGate({self._name!r}, {self._size()})"

    @property
    def name(self) -> str:
        """The gate's name."""
        return self._name

    @property
    def champion(self) -> str:
        """The present champion: SHA-256 of its name at this gate."""
        return self._now().champion

    @property
    @current
    def suite(self) -> CaseSuite:
        """The cases and claims."""
        self._check_arrivals()
        return self._units.suite

    @property
    def _results(self) -> ChampionResults:
        return ChampionResults(self._executor, self._store, self._units.suite)

    @current
    def challenge(
        self, results: Any, *, challenger: str | None = None, champion: Any = None, baseline: Any = None,
        strict: bool = False,
    ) -> Verdict:  # fmt: skip
        """Compare a challenger with the champion and the baseline; if all claims are proved, it is the champion.

        Args:
            results: A table with the column ``case`` and a column for each metric, or a mapping from case ids to
                numbers or mappings of metrics. Rows of a case that a column ``run`` numbers, or a list, are its runs.
            challenger: Its name, such as a commit. The same name against the same champion has the same verdict and is
                free, whatever the results. Without one, it is a new challenger each time.
            champion: New results of the champion, run after the challenger was finished. They take the place of the
                stored ones, which makers of challengers must not know (see docs/theory/gates.md, known runs).
            baseline: The same for the baseline; needed with ``champion`` where there are guards.
            strict: Raise `BudgetExhausted` instead of returning a refused verdict.

        Raises:
            CaseRejected: If a case is missing, unknown, doubled, crashed or has no number. Nothing was charged.
            BudgetExhausted: If it was refused, where that was requested.
        """
        self._check_arrivals()
        values = self._units.suite.values(results)
        reran = rerun(self._units.suite, champion, baseline)
        name = f"run {secrets.token_hex(4)}" if challenger is None else checked_challenger(challenger)
        while True:
            data = self._executor.ledger.head().state
            gate = self._now(data)
            if challenger_digest(gate.name, name) == gate.champion:
                return self._itself(gate, name)
            if (opened := Accounts.from_state(data).of(OpenChallenges).by_gate.get(gate.name)) is not None:
                raise another_is_open(gate.name, opened, self._executor.analyst)
            known = self._results.whole(gate)
            identity = challenger_digest(gate.name, name)
            evidence = self._results.evidence(self._units, identity, [values, *(known if reran is None else reran)])
            plan = CaseChallenge(
                gate, self._units.suite, self._units, name, self._executor.mechanism,  # type: ignore[arg-type]
                self._results.keeping(identity), evidence.proves, values,
                self._executor.schema.about,
            )  # fmt: skip
            try:
                return self._executor.ask(plan, strict=strict)
            except Outdated:  # somebody else's challenger was promoted meanwhile
                continue

    @current
    def open(self, challenger: str, *, batch: int | None = None, futility: bool = False) -> OpenChallenge:
        """Open a challenge that is decided as early as possible; it costs two queries, and a surprise if promoted.

        Opening takes one place among the queries and the verdict another, however the challenge ends. An analyst's
        allotment pays for both, and for a surprise, when the challenge is opened; the surprise comes back unless it is
        charged. Until it ends, the gate answers no other challenge, and only the analyst who opened it and the steward
        can read it, report for it or withdraw it.

        Cases are handed out in an order that is shuffled anew with the steward's key. The challenger must be finished
        now: what becomes of it may not depend on anything that is told from here on.

        Args:
            challenger: Its name, such as a commit. A challenge that is open under this name goes on.
            batch: Cases to hand out at a time; by default a twentieth of the suite, at least one.
            futility: Also stop where nothing will hardly be proved. Such a stop costs a surprise, as a promotion does,
                since it tells something about the sealed results; `OpenChallenge.withdraw` costs none.

        Raises:
            QueryRejected: If another challenge of this gate is open. Nothing was charged.
            BudgetExhausted: If no results could prove the claims any more, or the allotment is too small. Nothing was
                charged.
        """
        from everhold.gates.cases.open_challenge import open_challenge

        self._check_arrivals()
        return open_challenge(self, checked_challenger(challenger), batch=batch, futility=futility)

    @current
    def find_open(self, challenger: str) -> OpenChallenge | None:
        """The challenge that is open under this name, or ended under it against this champion; None if there is none.

        The name of the challenge that is open is in `status`.

        Args:
            challenger: Its name.

        Raises:
            QueryRejected: If another analyst opened it, and it is open.
        """
        from everhold.gates.cases.open_challenge import OpenChallenge

        self._check_arrivals()
        found = OpenChallenge(self, checked_challenger(challenger))
        return found if found.next_cases() or found.verdict is not None else None

    @current
    def cases_left(self) -> list[Any]:
        """Ids of cases without results of the champion, as it was promoted early or cases were added; see `complete`.

        Those without results of the baseline are among them.

        Raises:
            QueryRejected: If neither this analyst nor the steward promoted the champion.
        """
        self._check_arrivals()
        self._check_may_complete()
        return self._results.left(self._now())

    def check_addition(self, baseline: Any) -> None:
        """Check that cases can be added with results of the champion and, where guards need it, of the baseline.

        Args:
            baseline: Results of the baseline on the added cases; None without.

        Raises:
            QueryRejected: If not. Nothing was changed.
        """
        self._results.whole(self._now())
        if (baseline is None) == bool(self._units.suite.not_worse):
            raise QueryRejected(
                "the baseline's results on the added cases belong to guards against it; expected "
                f"{'baseline=...' if baseline is None else 'no baseline='}; nothing was changed"
            )

    @current
    def complete(self, results: Any, *, baseline: Any = None) -> None:
        """Add the champion's results on `cases_left`; a gate answers no challenge before.

        The analyst whose challenge promoted the champion can do it, and the steward.

        Args:
            results: As for `challenge`, of exactly these cases.
            baseline: The same for the baseline; needed for cases that were added, where there are guards against it.

        Raises:
            CaseRejected: If a case is missing, unknown, doubled, crashed or has no number. Nothing was changed.
            QueryRejected: If results of the baseline are needed and not given, or the other way round; or if the
                champion is that of another analyst.
        """
        self._check_arrivals()
        self._check_may_complete()
        self._results.complete(self._now(), results, baseline)

    def _check_may_complete(self) -> None:
        """Check that the champion is one of this analyst, or that it is the steward who asks.

        Raises:
            QueryRejected: If it is not. Nothing was changed.
        """
        executor = self._executor
        if executor.analyst is None:
            return
        promotion = self.promotions()[-1:]
        (entry,) = executor.ledger.entries(promotion[0]["sequence"] - 1, 1) if promotion else (None,)
        if entry is None or entry.description.get(ANALYST) != executor.analyst:
            raise QueryRejected(
                f"The champion of gate {self._name!r} is not yours. The steward, or the analyst who promoted it, adds "
                "its results."
            )

    @current
    def shares(self, results: Any) -> VarianceShares:
        """Shares of variance between cases and between runs of a case, from these results alone; nothing is asked."""
        from everhold.gates.cases.shares import variance_shares

        self._check_arrivals()
        return variance_shares(self._units.suite, self._units.suite.values(results), nats=self._nats())

    @current
    def status(self) -> Facts:
        """The gate in public facts: claims, population, champion, challenges, what is left, the smallest step.

        ``open`` says whether a challenge is open; the steward and the analyst who opened it are also told its name and
        how far it is. ``sees`` is the smallest gain in the first metric that the next challenge could prove if no unit
        spread at all; None for a ratio, and where not even a perfect challenger could be proved (then ``provable`` is
        False).
        """
        data = self._executor.ledger.head().state
        gate, remaining = self._now(data), self._executor.remaining(data)  # checks arrivals, too
        limits = {} if gate.limit is None else {"challenges": gate.left}
        opened = Accounts.from_state(data).of(OpenChallenges).by_gate.get(gate.name)
        told = {} if opened is None or not opened.belongs_to(self._executor.analyst) else {
            "challenger": opened.name, "analyst": opened.analyst, "looks": len(opened.results), "of": opened.looks,
        }  # fmt: skip
        return Facts({
            **described_gate(gate),
            "holdout": self._executor.record.name,
            "cases": len(self._units.suite.ids),
            "runs": self._units.suite.runs,
            "results": self._size(),
            "population": self._units.suite.population,
            "open": opened is not None,
            **({"open_challenge": told} if told else {}),
            "provable": self._units.can_prove(self._nats()),
            "sees": _smallest_step(self._units, self._nats()),
            "remaining": {**remaining, **limits},
            "statement": self._executor.promise.statement,
            "confidence": self._executor.promise.confidence,
        })  # fmt: skip

    def promotions(self) -> list[dict[str, Any]]:
        """All promotions in order: the ledger's entry, the challenger, and over whom it is proved to be better."""
        return promotions_of(self._executor, self._name)

    @current
    def history(self) -> GateHistory:
        """All champions with the intervals of their gains, and what was spent."""
        return history_of(self._executor, self._name)

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()

    def _size(self) -> str:
        return cases_and_runs(len(self._units.suite.ids), self._units.suite.runs)

    def _nats(self) -> float:
        executor = self._executor
        return next_nats(executor.mechanism, executor.state_from(executor.ledger.head().state))  # type: ignore[arg-type]

    def _itself(self, gate: GateAccount, name: str) -> Verdict:
        """The verdict that made it the champion; kept if it always was."""
        executor = self._executor
        remaining = executor.remaining(executor.ledger.head().state)
        told = ExecutionResult([], remaining, executor.promise.statement, executor.analyst)
        shown = f"gate {gate.name!r}: {name}, the champion"
        decision = Decision.of_champion(gate, query=gate.champion, shown=shown)
        return case_verdict(
            decision, self._units.suite, told, confidence=executor.mechanism.confidence, challenger=name
        )

    def _now(self, data: dict[str, Any] | None = None) -> GateAccount:
        state = self._executor.ledger.head().state if data is None else data
        return Accounts.from_state(state).of(Gates).by_name[self._name]


def another_is_open(gate: str, opened: Opened, analyst: str | None) -> QueryRejected:
    """The refusal of a gate that has an open challenge; only those to whom it belongs are told its name."""
    if not opened.belongs_to(analyst):
        return QueryRejected(
            f"A challenge of another analyst is open at gate {gate!r}. Try again when it has ended, or ask the steward "
            "to end it."
        )
    return QueryRejected(f"The challenge {opened.name!r} of gate {gate!r} is open. Report its results, or withdraw it.")


def _smallest_step(units: UnitPlan, nats: float) -> float | None:
    """The smallest gain in the first metric that can be proved; None where there is none."""
    from everhold.gates.cases.steps import smallest_step

    if (first := units.suite.first) is None:
        return None
    step = smallest_step(units.all_at_once, units.suite.claims[0].floor, nats)
    return None if step is None else step * first.width


def units_of(executor: QueryExecutor, described: Mapping[str, Any]) -> UnitPlan:
    suite = CaseSuite.read(described, tuple(executor.sealed.row_ids(executor.schema.row_id or "")))
    return UnitPlan(suite, groups_of(executor, suite.population))


def groups_of(executor: QueryExecutor, population: str) -> NDArray[np.int64]:
    """The unit of each case; the secret part is which cases are of one group."""
    dependence, rows = executor.mechanism.dependence, executor.schema.rows
    if isinstance(dependence, Groups) and dependence.group_column is not None:
        column = executor.sealed.table([dependence.group_column])[dependence.group_column]
        return np.unique(np.asarray(column).astype(str), return_inverse=True)[1].astype(np.int64)
    if not isinstance(dependence, Independent) and population != NEW_RUNS:
        raise QueryRejected(
            "a gate about cases needs independent cases or groups of them; expected eh.Independent() or "
            "eh.Groups(...); nothing was changed"
        )
    return np.arange(rows, dtype=np.int64)
