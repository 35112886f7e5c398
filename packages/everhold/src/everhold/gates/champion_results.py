"""Results of a gate's champion and baseline on all cases, beside the sealed rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.gates.cases.evidence import Evidence, UnitPlan
from everhold.gates.cases.order import with_runs_shuffled
from everhold.gates.cases.results import NEW_RUNS
from everhold.sealing.result_store import ResultStore, baseline_file, result_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.asking.query_executor import QueryExecutor
    from everhold.gates.cases.results import CaseSuite
    from everhold.ledger.gates import GateAccount

    Both = tuple[NDArray[np.float64], NDArray[np.float64]]

__all__ = ["ChampionResults", "rerun", "result_files", "result_store_of"]


@dataclass(frozen=True, slots=True)
class ChampionResults:
    """Results of champion and baseline on the cases that are there now, as far as they are known. Secret.

    Attributes:
        executor: That of the holdout.
        store: Files of results.
        suite: Cases and claims of the gate.
    """

    executor: QueryExecutor
    store: ResultStore
    suite: CaseSuite

    def keeping(self, champion: str) -> Callable[[NDArray[np.float64]], None]:
        """Keeps results of a challenger on all cases, for the case that it is promoted.

        Args:
            champion: Digest of its name, or the name of the baseline's file.
        """
        return partial(self.store.keep, result_files(self.executor, champion)[0])

    def stored(self, gate: GateAccount) -> Both:
        """Results of champion and baseline, each of shape (cases, runs, metrics); nan where there are none."""
        return self._stored(gate.champion), self._stored(baseline_file(gate.name))

    def _stored(self, name: str) -> NDArray[np.float64]:
        files = result_files(self.executor, name)
        values = self.store.find(next(filter(self.store.has, files), files[-1]))
        added = np.full((len(self.suite.ids) - len(values), *values.shape[1:]), np.nan)
        return np.concatenate([values, added])

    def left(self, gate: GateAccount) -> list[Any]:
        """Ids of cases without results of the champion, or of the baseline where there are guards against it."""
        return [self.suite.ids[place] for place in self._left(*self.stored(gate))]

    def _left(self, champion: NDArray[np.float64], baseline: NDArray[np.float64]) -> list[int]:
        return sorted({*_unknown(champion), *(_unknown(baseline) if self.suite.not_worse else [])})

    def whole(self, gate: GateAccount) -> Both:
        """The same as `stored`; refuses those of a champion that did not run all cases.

        Raises:
            QueryRejected: If cases are left. Nothing was charged.
        """
        values, fixed = self.stored(gate)
        if left := len(self._left(values, fixed)):
            raise QueryRejected(
                f"The champion has no results for {left} cases, as it was promoted early or cases were added. Run the "
                "cases of cases_left and pass their results to complete."
            )
        return values, fixed

    def evidence(self, units: UnitPlan, challenger: str, results: Sequence[NDArray[np.float64]]) -> Evidence:
        """Evidence from results of challenger, champion and baseline, whose runs may come sorted by outcome.

        Args:
            units: Cases, or groups of cases.
            challenger: Digest of its name at its gate.
            results: Shape (cases, runs, metrics) each.
        """
        if self.suite.population != NEW_RUNS:  # a unit has the mean of its runs
            return Evidence(units, *results)
        return Evidence(units, *with_runs_shuffled(self.executor.key.order_key, challenger, results))

    def complete(self, gate: GateAccount, results: Any, baseline: Any) -> None:
        """Add results on the cases that are left; see `everhold.gates.cases.gate.CaseGate.complete`."""
        values, fixed = self.stored(gate)
        left, ids = self._left(values, fixed), self.suite.ids
        added = _unknown(fixed) if self.suite.not_worse else []
        if added and baseline is None:
            raise QueryRejected(
                "cases were added and the guards need the baseline's results on them; expected baseline=..., the same "
                "results again where the champion is the baseline; nothing was changed"
            )
        if baseline is not None and not added and not self._is_stored(baseline, left, fixed):
            raise QueryRejected("the baseline has results on all cases; expected no baseline=; nothing was changed")
        made = self.suite.values(results, [ids[place] for place in left])
        if baseline is not None and added:
            fixed[added] = self.suite.values(baseline, [ids[place] for place in added])
            self.keeping(baseline_file(gate.name))(fixed)
        values[left] = made
        self.keeping(gate.champion)(values)

    def _is_stored(self, baseline: Any, left: list[int], fixed: NDArray[np.float64]) -> bool:
        """True if a call that was killed kept these results of the baseline already."""
        if not (left and self.suite.not_worse):
            return False
        return np.array_equal(self.suite.values(baseline, [self.suite.ids[place] for place in left]), fixed[left])


def rerun(suite: CaseSuite, champion: Any, baseline: Any, cases: Sequence[Any] | None = None) -> Both | None:
    """New results of champion and baseline as numbers; None where the stored ones are used.

    Args:
        suite: Cases and claims.
        champion: As for `everhold.gates.cases.gate.CaseGate.challenge`.
        baseline: The same.
        cases: Of only these cases.

    Raises:
        QueryRejected: If only one of them is there where both are needed. Nothing was charged.
    """
    if champion is None and baseline is None:
        return None
    if champion is None or (baseline is None) == bool(suite.not_worse):
        raise QueryRejected(
            "new runs of the champion and of the baseline belong together, and the baseline only to guards; "
            f"expected champion={'..., baseline=...' if suite.not_worse else '...'}; nothing was charged"
        )
    first = suite.values(champion, cases)
    return first, first if baseline is None else suite.values(baseline, cases)


def _unknown(values: NDArray[np.float64]) -> list[int]:
    """Places of cases without results."""
    return np.flatnonzero(np.isnan(values).any(axis=(1, 2))).tolist()


def result_files(executor: QueryExecutor, name: str) -> list[str]:
    """Names of files that may have results, the newest first."""
    return result_names(name, [] if executor.growth is None else executor.growth.rows.facts())


def result_store_of(executor: QueryExecutor, folder: Path) -> ResultStore:
    """The results of a holdout's gates."""
    return ResultStore.of(folder, holdout=executor.record.id, seal_key=executor.key.seal_key)
