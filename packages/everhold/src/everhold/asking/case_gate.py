"""A gate about cases: challengers report results, and are promoted if all claims about them are proved.

Rows are cases, each with an id. The results of champion and baseline lie beside the sealed rows; those of a challenger
come with the challenge. A challenger is known by its name, such as a commit: named again, it has the verdict it had.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float, as_whole, brief
from everhold.asking.query_executor import CLOSED_STUDY
from everhold.dependence import Groups, Independent
from everhold.display import Facts
from everhold.errors import QueryRejected
from everhold.ledger import EntryDraft, Outcome
from everhold.ledger.allotments import Accounts
from everhold.ledger.gates import GATE, LONGEST_GATE, MOST_CHALLENGES, GateAccount, Gates
from everhold.ledger.open_challenges import OpenChallenges
from everhold.ledger.tally import Tally
from everhold.queries.case_challenge import (
    CaseChallenge,
    case_verdict,
    challenger_digest,
    checked_challenger,
    claims_in_words,
    next_nats,
)
from everhold.queries.case_evidence import Evidence, UnitPlan
from everhold.queries.case_results import NEW_CASES, NEW_RUNS, CaseSuite, metrics_for, runs_in
from everhold.queries.challenge import Verdict, check_gates
from everhold.queries.question import MOST_SHOWN, ExecutionResult, Outdated, digest
from everhold.sealing.result_store import ResultStore

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.asking.open_challenge import OpenChallenge
    from everhold.asking.query_executor import QueryExecutor
    from everhold.queries.case_shares import VarianceShares

__all__ = ["CaseGate", "open_case_gate", "promotions_of", "result_store_of"]

_POPULATIONS = {"cases": NEW_CASES, "runs": NEW_RUNS}


class CaseGate:
    """A champion, a baseline, and claims about cases; made by `Holdout.gate(better=...)`."""

    def __init__(self, executor: QueryExecutor, store: ResultStore, name: str) -> None:
        """Use `Holdout.gate` instead."""
        self._executor, self._store, self._name = executor, store, name
        self._units = _units(executor, self._now().metric)

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

    def challenge(self, results: Any, *, challenger: str | None = None, strict: bool = False) -> Verdict:
        """Compare a challenger with the champion and the baseline; if all claims are proved, it is the champion.

        Args:
            results: A table with the column ``case`` and a column for each metric, or a mapping from case ids to
                numbers or mappings of metrics; several rows of a case, or a list, are its runs.
            challenger: Its name, such as a commit. The same name against the same champion has the same verdict and is
                free, whatever the results. Without one, it is a new challenger each time.
            strict: Raise `BudgetExhausted` instead of returning a refused verdict.

        Raises:
            CaseRejected: If a case is missing, unknown, doubled, crashed or has no number. Nothing was charged.
            BudgetExhausted: If it was refused, where that was wished for.
        """
        values = self.suite.values(results)
        name = f"run {secrets.token_hex(4)}" if challenger is None else checked_challenger(challenger)
        while True:
            data = self._executor.data()
            gate = self._now(data)
            if challenger_digest(gate.name, name) == gate.champion:
                return self._itself(gate, name)
            self._check_none_open(data)
            self.check_complete(gate)
            evidence = Evidence(self._units, values, self._store.find(gate.champion), self._baseline(gate))
            plan = CaseChallenge(
                gate, self.suite, self._units, name, self._executor.mechanism, self._store,  # type: ignore[arg-type]
                evidence.proves, values,
            )  # fmt: skip
            try:
                return self._executor.ask(plan, strict=strict)
            except Outdated:  # somebody else's challenger was promoted meanwhile
                continue

    def open(self, challenger: str, *, batch: int | None = None) -> OpenChallenge:
        """Open a challenge that is decided as early as possible; it takes one place among the queries.

        Cases are handed out in an order that is shuffled anew with the steward's key. The challenger must be finished
        now: what becomes of it may not depend on anything that is told from here on.

        Args:
            challenger: Its name, such as a commit. A challenge that is open under this name goes on.
            batch: Cases to hand out at a time; by default a twentieth of the suite, at least one.

        Raises:
            QueryRejected: If another challenge of this gate is open. Nothing was charged.
            BudgetExhausted: If no results could prove the claims any more. Nothing was charged.
        """
        from everhold.asking.open_challenge import open_challenge

        return open_challenge(self, self._executor, self._store, checked_challenger(challenger), batch=batch)

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
            **described_case_gate(gate),
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


def promotions_of(executor: QueryExecutor, name: str) -> list[dict[str, Any]]:
    """All promotions of a gate in order."""
    tally = Tally()
    for entry in executor.charged_entries():  # as every promotion was
        tally.take(entry.sequence, entry.description, entry.answer)
    return tally.promotions.get(name, [])


def described_case_gate(gate: GateAccount) -> dict[str, Any]:
    """A gate about cases in public facts."""
    return {
        "gate": gate.name,
        "metric": f"cases: {claims_in_words(gate.metric)}",
        "margin": gate.metric["margin"],
        "champion": gate.champion,
        "first_champion": gate.first,
        "challenges": gate.challenges,
        "promotions": gate.promotions,
        "limit": gate.limit,
    }


def open_case_gate(
    executor: QueryExecutor, folder: Path, *, name: str, better: str | None = None,
    any_of: Sequence[str] | None = None, not_worse: Mapping[str, float] | None = None, margin: float = 0.0,
    champion: Any = None, baseline: Any = None, challenges: int | None = None, units: str = "cases",
    ranges: Mapping[str, tuple[float, float]] | None = None, lower: Iterable[str] | None = None,
) -> CaseGate:  # fmt: skip
    """Open a gate about cases; the first time that is an act of the steward, kept in the ledger.

    See `Holdout.gate` for the arguments.

    Raises:
        QueryRejected: If there can be no such gate, or the one of that name is another one. Nothing was changed.
    """
    check_gates(executor.mechanism)
    store = result_store_of(executor, folder)
    known = Accounts.from_state(executor.data()).of(Gates).by_name.get(name)
    if better is None and any_of is None:
        if known is None:
            raise QueryRejected(f"there is no gate named {brief(name)}; expected better=...; nothing was changed")
        return CaseGate(executor, store, name)
    suite = _suite(executor, better, any_of, not_worse or {}, margin, units, ranges or {}, lower)
    if known is None:
        if champion is None:
            raise QueryRejected(
                "a new gate needs a champion; expected champion=..., the results to beat; nothing was changed"
            )
        suite = _with_champion(suite, champion)
        _open(executor, store, name, suite, champion, baseline, _checked_limit(challenges))
        return CaseGate(executor, store, name)
    _check_same(known, suite)
    return CaseGate(executor, store, name)


def _suite(
    executor: QueryExecutor, better: str | None, any_of: Sequence[str] | None, not_worse: Mapping[str, float],
    margin: float, units: str, ranges: Mapping[str, tuple[float, float]], lower: Iterable[str] | None,
) -> CaseSuite:  # fmt: skip
    if executor.schema.row_id is None:
        raise QueryRejected(
            "the holdout has no row ids, and results are joined with cases by their ids; expected "
            "rows=eh.Rows(row_id='case'); nothing was changed"
        )
    if (better is None) == (any_of is None) or (any_of is not None and not list(any_of)):
        raise QueryRejected("expected one of better='metric' and any_of=['metric', ...]; nothing was changed")
    if units not in _POPULATIONS:
        raise QueryRejected(f"units is {brief(units)}; expected 'cases' or 'runs'; nothing was changed")
    successes = (better,) if better is not None else tuple(any_of or ())
    metrics = metrics_for(successes, not_worse, ranges=ranges, lower=lower)
    width = {metric.name: metric.width for metric in metrics}
    if set(successes) & set(not_worse):
        raise QueryRejected("a metric is a success and a guard at once; expected one of them; nothing was changed")
    if not all(0.0 <= as_float(margin) < width[name] for name in successes):
        raise QueryRejected(f"the margin is {brief(margin)}; expected 0 or more, within the range; nothing was changed")
    if not all(0.0 < as_float(slack) < width[name] for name, slack in not_worse.items()):
        raise QueryRejected("a guard's slack has to be above 0 and within its range; nothing was changed")
    slacks = {name: float(slack) for name, slack in not_worse.items()}
    ids = tuple(executor.sealed.row_ids(executor.schema.row_id))
    return CaseSuite(ids, tuple(metrics), successes, float(margin), slacks, 1, _POPULATIONS[units])


def _with_champion(suite: CaseSuite, champion: Any) -> CaseSuite:
    """The suite with as many runs as the champion has; metrics that are 0 or 1 throughout are so from now on."""
    suite = replace(suite, runs=runs_in(champion))
    values = suite.values(champion)
    yes_no = [bool(np.isin(values[:, :, place], (0.0, 1.0)).all()) for place in range(len(suite.metrics))]
    metrics = [
        replace(metric, yes_no=found and (metric.low, metric.high) == (0.0, 1.0))
        for metric, found in zip(suite.metrics, yes_no, strict=True)
    ]
    return replace(suite, metrics=tuple(metrics))


def _open(
    executor: QueryExecutor, store: ResultStore, name: str, suite: CaseSuite, champion: Any, baseline: Any,
    limit: int | None,
) -> None:  # fmt: skip
    """Write champion and baseline, then the entry that names them."""
    if executor.analyst is not None:
        raise QueryRejected("an analyst cannot open a new gate; expected the steward; nothing was changed")
    if not (isinstance(name, str) and 1 <= len(name) <= LONGEST_GATE and name.isprintable() and name == name.strip()):
        raise ValueError(f"the gate's name {brief(name)} cannot be used; choose a plain name such as 'main'")
    first = suite.values(champion)
    fixed = first if baseline is None else suite.values(baseline)
    _groups(executor, suite.population)
    identity = challenger_digest(name, "the first champion")
    margin = suite.margin / suite.metrics[0].width
    public = {
        "kind": GATE, "gate": name, "metric": suite.describe(), "margin": margin, "challenges": limit,
        "champion": identity,
    }  # fmt: skip
    shown = f"gate {name!r}: {claims_in_words(suite.describe())} of the first champion is the champion"
    act = EntryDraft(digest({"kind": GATE, "gate": name}), {**public, "shown": shown[:MOST_SHOWN]})

    def step(data: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], list[Outcome | None]]:
        accounts = Accounts.from_state(data)
        if accounts.closed:
            raise QueryRejected(CLOSED_STUDY)
        accounts.of(Gates).replay(public, GATE)
        store.keep(identity, first)
        store.keep(baseline_file(name), fixed)
        return accounts.into(data), [Outcome({"value": None, "low": None, "high": None, "source": GATE}, 0)]

    executor.ledger.commit([act], step)


def _check_same(known: GateAccount, suite: CaseSuite) -> None:
    """Check that a gate that is there is the one that was described.

    Raises:
        QueryRejected: If it is another one.
    """
    if known.metric.get("kind") == "cases":
        there = CaseSuite.read(known.metric, suite.ids)
        metrics = tuple(replace(metric, yes_no=False) for metric in there.metrics)
        if replace(there, metrics=metrics, runs=suite.runs) == suite:
            return
    raise QueryRejected(
        f"there is another gate named {known.name!r}; expected the same claims again, another name for a new gate, or "
        "no claims to open the one that is there; nothing was changed"
    )


def _units(executor: QueryExecutor, described: Mapping[str, Any]) -> UnitPlan:
    suite = CaseSuite.read(described, tuple(executor.sealed.row_ids(executor.schema.row_id or "")))
    return UnitPlan(suite, _groups(executor, suite.population))


def _groups(executor: QueryExecutor, population: str) -> NDArray[np.int64]:
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


def _checked_limit(challenges: Any) -> int | None:
    number = None if challenges is None else as_whole(challenges)
    if challenges is not None and (number is None or not 1 <= number <= MOST_CHALLENGES):
        raise ValueError(f"challenges is {brief(challenges)}; expected a whole number of at least 1, or None")
    return number
