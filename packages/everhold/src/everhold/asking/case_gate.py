"""A gate about cases: challengers report results, and are promoted if all claims about them are proved.

Rows are cases, each with an id. The results of champion and baseline lie beside the sealed rows; those of a challenger
come with the challenge. A challenger is known by its name, such as a commit: named again, it has the verdict it had.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.asking.gate_facts import described_gate, history_of, promotions_of
from everhold.dependence import Groups, Independent
from everhold.display import Facts
from everhold.errors import QueryRejected
from everhold.ledger.allotments import Accounts
from everhold.ledger.gates import GateAccount, Gates
from everhold.ledger.open_challenges import OpenChallenges
from everhold.queries.case_challenge import (
    CaseChallenge,
    case_verdict,
    challenger_digest,
    checked_challenger,
    next_nats,
)
from everhold.queries.case_evidence import Evidence, UnitPlan
from everhold.queries.case_results import NEW_RUNS, CaseSuite
from everhold.queries.challenge import Verdict
from everhold.queries.question import ExecutionResult, Outdated, digest
from everhold.sealing.result_store import ResultStore

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.asking.open_challenge import OpenChallenge
    from everhold.asking.query_executor import QueryExecutor
    from everhold.queries.case_shares import VarianceShares
    from everhold.queries.gate_history import GateHistory

__all__ = ["CaseGate", "baseline_file", "groups_of", "result_store_of"]


class CaseGate:
    """A champion, a baseline, and claims about cases; made by `Holdout.gate(better=...)`."""

    def __init__(self, executor: QueryExecutor, store: ResultStore, name: str) -> None:
        """Use `Holdout.gate` instead."""
        self._executor, self._store, self._name = executor, store, name
        self._units = units_of(executor, self._now().metric)

    def __repr__(self) -> str:
        return f"CaseGate({self._name!r})"

    @property
    def name(self) -> str:
        """The gate's name."""
        return self._name

    @property
    def champion(self) -> str:
        """The present champion: SHA-256 of its name at this gate."""
        return self._now().champion

    @property
    def suite(self) -> CaseSuite:
        """The cases and claims."""
        return self._units.suite

    def challenge(
        self, results: Any, *, challenger: str | None = None, champion: Any = None, baseline: Any = None,
        strict: bool = False,
    ) -> Verdict:  # fmt: skip
        """Compare a challenger with the champion and the baseline; if all claims are proved, it is the champion.

        Args:
            results: A table with the column ``case`` and a column for each metric, or a mapping from case ids to
                numbers or mappings of metrics; several rows of a case, or a list, are its runs.
            challenger: Its name, such as a commit. The same name against the same champion has the same verdict and is
                free, whatever the results. Without one, it is a new challenger each time.
            champion: New results of the champion, run after the challenger was finished. They take the place of the
                stored ones, which makers of challengers must not know (see docs/theory/gates.md, known runs).
            baseline: The same for the baseline; needed with ``champion`` where there are guards.
            strict: Raise `BudgetExhausted` instead of returning a refused verdict.

        Raises:
            CaseRejected: If a case is missing, unknown, doubled, crashed or has no number. Nothing was charged.
            BudgetExhausted: If it was refused, where that was wished for.
        """
        values = self.suite.values(results)
        rerun = self.rerun(champion, baseline)
        name = f"run {secrets.token_hex(4)}" if challenger is None else checked_challenger(challenger)
        while True:
            data = self._executor.data()
            gate = self._now(data)
            if challenger_digest(gate.name, name) == gate.champion:
                return self._itself(gate, name)
            self._check_none_open(data)
            self.check_complete(gate)
            evidence = Evidence(
                self._units, values,
                self._store.find(gate.champion) if rerun is None else rerun[0],
                self._baseline(gate) if rerun is None else rerun[1],
            )  # fmt: skip
            plan = CaseChallenge(
                gate, self.suite, self._units, name, self._executor.mechanism, self._store,  # type: ignore[arg-type]
                evidence.proves, values,
            )  # fmt: skip
            try:
                return self._executor.ask(plan, strict=strict)
            except Outdated:  # somebody else's challenger was promoted meanwhile
                continue

    def open(self, challenger: str, *, batch: int | None = None, futility: bool = False) -> OpenChallenge:
        """Open a challenge that is decided as early as possible; it takes one place among the queries.

        Cases are handed out in an order that is shuffled anew with the steward's key. The challenger must be finished
        now: what becomes of it may not depend on anything that is told from here on.

        Args:
            challenger: Its name, such as a commit. A challenge that is open under this name goes on.
            batch: Cases to hand out at a time; by default a twentieth of the suite, at least one.
            futility: Also stop where nothing will hardly be proved. Such a stop costs a surprise, as a promotion does,
                since it tells something about the sealed results; `OpenChallenge.withdraw` is free.

        Raises:
            QueryRejected: If another challenge of this gate is open. Nothing was charged.
            BudgetExhausted: If no results could prove the claims any more. Nothing was charged.
        """
        from everhold.asking.open_challenge import open_challenge

        return open_challenge(
            self, self._executor, self._store, checked_challenger(challenger), batch=batch, futility=futility
        )

    def find_open(self, challenger: str) -> OpenChallenge | None:
        """The challenge that is open under this name, or ended under it against this champion; None if there is none.

        Args:
            challenger: Its name.
        """
        from everhold.asking.open_challenge import OpenChallenge

        found = OpenChallenge(self, self._executor, self._store, checked_challenger(challenger))
        return found if found.next_cases() or found.verdict is not None else None

    def rerun(
        self, champion: Any, baseline: Any, cases: Sequence[Any] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:  # fmt: skip
        """New results of champion and baseline as numbers; None where the stored ones are used.

        Args:
            champion: As for `challenge`.
            baseline: As for `challenge`.
            cases: Of only these cases.

        Raises:
            QueryRejected: If only one of them is there where both are needed. Nothing was charged.
        """
        if champion is None and baseline is None:
            return None
        if champion is None or (baseline is None) == bool(self.suite.not_worse):
            raise QueryRejected(
                "new runs of the champion and of the baseline belong together, and the baseline only to guards; "
                f"expected champion={'..., baseline=...' if self.suite.not_worse else '...'}; nothing was charged"
            )
        first = self.suite.values(champion, cases)
        return first, first if baseline is None else self.suite.values(baseline, cases)

    def cases_left(self) -> list[Any]:
        """Ids of cases that the champion has no results for, as it was promoted early; see `complete`."""
        return [self.suite.ids[place] for place in self._places_left(self._now())]

    def complete(self, results: Any) -> None:
        """Add the champion's results on `cases_left`; a gate answers no challenge before.

        Raises:
            CaseRejected: If a case is missing, unknown, doubled, crashed or has no number. Nothing was changed.
        """
        gate = self._now()
        places = self._places_left(gate)
        values = self._store.find(gate.champion).copy()
        values[places] = self.suite.values(results, [self.suite.ids[place] for place in places])
        self._store.keep(gate.champion, values)

    def check_complete(self, gate: GateAccount) -> None:
        """Refuse challenges of a champion that was promoted early and did not run all cases.

        Raises:
            QueryRejected: If cases are left. Nothing was charged.
        """
        if left := len(self._places_left(gate)):
            raise QueryRejected(
                f"the champion was promoted early and has no results for {left} cases; expected them first; run "
                "cases_left() and pass the results to complete(); nothing was charged"
            )

    def _places_left(self, gate: GateAccount) -> list[int]:
        values = self._store.find(gate.champion)
        return np.flatnonzero(np.isnan(values).any(axis=(1, 2))).tolist()

    def shares(self, results: Any) -> VarianceShares:
        """Shares of variance between cases and between runs of a case, from these results alone; nothing is asked."""
        from everhold.queries.case_shares import variance_shares

        return variance_shares(self.suite, self.suite.values(results), nats=self._nats())

    def status(self) -> Facts:
        """The gate in public facts: claims, population, champion, challenges, what is left, the smallest step.

        ``sees`` is the smallest gain in the first metric that the next challenge could prove if no unit spread at all;
        None where not even a perfect challenger could be proved.
        """
        data = self._executor.data()
        gate, remaining = self._now(data), self._executor.remaining(data)
        limits = {} if gate.limit is None else {"challenges": gate.left}
        opened = Accounts.from_state(data).of(OpenChallenges).by_gate.get(gate.name)
        return Facts({
            **described_gate(gate),
            "holdout": self._executor.record.name,
            "cases": len(self.suite.ids),
            "runs": self.suite.runs,
            "population": self.suite.population,
            "open": opened is not None,
            "sees": self._sees(),
            "remaining": {**remaining, **limits},
            "statement": self._executor.promise.statement,
            "confidence": self._executor.promise.confidence,
        })  # fmt: skip

    def promotions(self) -> list[dict[str, Any]]:
        """All promotions in order: the ledger's entry, the challenger, and over whom it is proved to be better."""
        return promotions_of(self._executor, self._name)

    def history(self) -> GateHistory:
        """All champions with the intervals of their gains, and what was spent."""
        return history_of(self._executor, self._name)

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()

    def _nats(self) -> float:
        executor = self._executor
        return next_nats(executor.mechanism, executor.state_from(executor.data()))  # type: ignore[arg-type]

    def _sees(self) -> float | None:
        from everhold.planning.case_steps import smallest_step

        first = self.suite.claims[0]
        step = smallest_step(self._units.all_at_once, first.floor, self._nats())
        return None if step is None else step * self.suite.metrics[0].width

    def _check_none_open(self, data: dict[str, Any]) -> None:
        opened = Accounts.from_state(data).of(OpenChallenges).by_gate.get(self._name)
        if opened is not None:
            raise QueryRejected(
                f"a challenge of gate {self._name!r} is open; expected its report first; report it, or withdraw it; "
                "nothing was charged"
            )

    def _itself(self, gate: GateAccount, name: str) -> Verdict:
        """The verdict that made it the champion; kept if it always was."""
        executor = self._executor
        told = ExecutionResult([], executor.remaining(executor.data()), executor.promise.statement, executor.analyst)
        return case_verdict(
            gate, self.suite, told, promoted=bool(gate.before), question=gate.champion, repeated=True,
            confidence=executor.mechanism.confidence, shown=f"gate {gate.name!r}: {name}, the champion",
        )  # fmt: skip

    def _baseline(self, gate: GateAccount) -> NDArray[np.float64]:
        return self._store.find(baseline_file(gate.name))

    def _now(self, data: dict[str, Any] | None = None) -> GateAccount:
        state = self._executor.data() if data is None else data
        return Accounts.from_state(state).of(Gates).by_name[self._name]


def baseline_file(gate: str) -> str:
    """Name of the file of a gate's baseline."""
    return f"baseline-{digest({'gate': gate})}"


def result_store_of(executor: QueryExecutor, folder: Path) -> ResultStore:
    """The results of a holdout's gates."""
    return ResultStore.of(folder, holdout=executor.record.id, seal_key=executor.key.seal_key)


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
