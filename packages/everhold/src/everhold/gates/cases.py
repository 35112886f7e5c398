"""Evidence of cases: a version reports results, and is promoted if all guards and one of its successes are proved.

Rows are cases, each with an id. Results of champion and baseline are stored beside the sealed rows. Results of a
challenger are passed with the challenge. If a challenger of the same name, such as a commit, comes with the same
results again, the verdict is the same. Numbers of claims stay sealed until the study is unsealed, which reveals the
gain in the first success.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.arguments import brief
from everhold.asking.session import growth_of
from everhold.errors import QueryRejected
from everhold.gates import challenge
from everhold.gates.challenge import Challenge, Verdict, Version
from everhold.gates.records import GateAccount, Gates, OpenChallenges, Opened, ResultStore, baseline_file, result_names
from everhold.gates.results import CaseSuite, cases_and_runs, runs_by_case, warn_of_copies
from everhold.gates.steps import ChallengeWorth, worth_asking
from everhold.gates.units import PairedResults, UnitPlan, with_runs_shuffled
from everhold.ledger import Head, Outcome
from everhold.ledger.acts import ANALYST, KEPT, OPENED, PROMOTED, told_as
from everhold.queries.query import Pricing
from everhold.sealing.sealed_files import sealed_note, write_note
from everhold.strict_json import digest
from everhold.values.units import GAIN_WIDTH

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.asking.query_executor import QueryExecutor
    from everhold.ledger.chain import Numbers
    from everhold.mechanisms import State
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows

    Both = tuple[NDArray[np.float64], NDArray[np.float64]]


OPEN_FILE = "open-cases.json"
"""Note beside the sealed rows: the open cases, and results of champions and of named versions on them."""

RESULTS = "results"
"""Field of the description of a verdict: keyed digest of the results that it is about."""

_REMEMBERED = 20  # versions that are no champions


@dataclass(frozen=True, slots=True)
class OpenCases:
    """The cases of a suite that are not sealed, with results of recent versions on them.

    Attributes:
        ids: Ids of the open cases.
        results: Results of each version by its digest, shape (cases, runs, metrics); the latest version is last.
    """

    ids: tuple[Any, ...]
    results: Mapping[str, NDArray[np.float64]] = field(repr=False, default_factory=dict)

    @classmethod
    def of(cls, folder: Path, key: bytes) -> OpenCases:
        """Read the open cases of a suite from its folder. The result has no cases if all cases are sealed.

        Args:
            folder: Private folder of the suite.
            key: The steward's `notes_key`, with which the note about the open cases is checked.

        Raises:
            IntegrityError: If the note about the open cases was altered.
        """
        note = sealed_note(folder / OPEN_FILE, key=key)
        if note is None:
            return cls(())
        told = json.loads(note)
        return cls(
            tuple(told["ids"]),
            {version: np.asarray(results, dtype=np.float64) for version, results in told["results"].items()},
        )

    def remembering(self, version: str, results: NDArray[np.float64], keep: Collection[str] = ()) -> OpenCases:
        """Return the same cases with the results of one more version. The oldest results are dropped."""
        known = {name: each for name, each in self.results.items() if name != version}
        latest = {*[*known][-_REMEMBERED:], *keep}
        return replace(self, results={name: known[name] for name in known if name in latest} | {version: results})

    def save(self, folder: Path, key: bytes) -> None:
        """Write the open cases and the results to the folder."""
        ids = [case.item() if isinstance(case, np.generic) else case for case in self.ids]
        told = {"ids": ids, "results": {version: results.tolist() for version, results in self.results.items()}}
        write_note(folder / OPEN_FILE, json.dumps(told).encode(), key=key)

    def sealed_part(self, results: Any) -> Any:
        """Return the results on sealed cases alone.

        Raises:
            QueryRejected: If there are no results on sealed cases. Nothing was charged.
        """
        if not self.ids or results is None:
            return results
        opened = set(self.ids)
        sealed = {case: runs for case, runs in runs_by_case(results).items() if case not in opened}
        if not sealed:
            raise QueryRejected("These results are of open cases alone. Pass results of all sealed cases.")
        return sealed

    def open_part(self, suite: CaseSuite, results: Any) -> NDArray[np.float64] | None:
        """Return results on the open cases as an array (cases, runs, metrics), or None if some are missing."""
        by_case = runs_by_case(results)
        if any(case not in by_case for case in self.ids):
            return None
        return suite.over(self.ids).values({case: by_case[case] for case in self.ids})


@dataclass(frozen=True, slots=True)
class CaseVersion(Version):
    """A version that a gate about cases compares, with its results.

    Attributes:
        results: Results on all cases, shape (cases, runs, metrics). Secret.
        rerun: New results of champion and baseline; None if the stored results are used. Secret.
    """

    results: NDArray[np.float64] = field(repr=False)
    rerun: Both | None = field(repr=False)


def _other_results(version: Version, verdict: str) -> QueryRejected:
    """Return the error for results of a version that already has a verdict on other results."""
    return QueryRejected(
        f"The version {version.name!r} has a verdict ({verdict}), which is about other results than these. Pass those "
        "results to get the stored verdict, or give these results another name."
    )


@dataclass(frozen=True)
class CaseEvidence(challenge.Evidence[CaseVersion]):
    """Evidence of a gate about cases: the sealed cases, stored results, and claims about results.

    Attributes:
        described: The claims, as the ledger holds them.
    """

    described: Mapping[str, Any]

    about_cases: ClassVar[bool] = True

    @cached_property
    def units(self) -> UnitPlan:
        """Plan of the independent units from which claims are proved: cases, or groups of cases."""
        ids = tuple(self.executor.sealed.row_ids(self.executor.schema.row_id or ""))
        suite = CaseSuite.read(self.described, ids)
        return UnitPlan(suite, groups_of(self.executor, suite.population))

    @property
    def open_cases(self) -> OpenCases:
        """The cases that are not sealed, with stored results of versions on them."""
        return OpenCases.of(self.folder, self.executor.key.notes_key)

    @cached_property
    def store(self) -> ResultStore:
        """Store of the files with results."""
        executor = self.executor
        return ResultStore.of(self.folder, holdout=executor.record.id, seal_key=executor.key.seal_key)

    @property
    def size(self) -> str:
        """The numbers of cases and runs, in words."""
        return cases_and_runs(len(self.units.suite.ids), self.units.suite.runs)

    def next_nats(self, head: Head) -> float:
        """Return ln(1 / level) of the next query."""
        return challenge.next_nats(self.executor.mechanism, self.executor.state_from(head))

    def named(self, name: Any) -> Version:
        """Return the version that a name identifies, after checking the name.

        Raises:
            QueryRejected: If ``name`` cannot be used as the name of a version.
        """
        if not (isinstance(name, str) and 1 <= len(name) <= 100 and name.isprintable() and name == name.strip()):
            raise QueryRejected(
                f"The challenger's name {brief(name)} cannot be used. Pass 1 to 100 printable characters, such as a "
                "commit."
            )
        known_by = digest({"kind": "cases", "gate": self.name, "challenger": name})
        shown = f"{', '.join(self.units.suite.better)} of {name}"
        return Version(known_by, shown, challenge.about_runs(self.described), name)

    def version(
        self, given: Any, *, challenger: str | None = None, champion: Any = None, baseline: Any = None
    ) -> CaseVersion:  # fmt: skip
        """Return the challenger as a version, after checking its name and its results."""
        named = self.named(f"run {secrets.token_hex(4)}" if challenger is None else challenger)
        opened = self.open_cases
        results = self.units.suite.values(opened.sealed_part(given))
        champion, baseline = map(opened.sealed_part, (champion, baseline))
        warn_of_copies(results)
        return CaseVersion(**asdict(named), results=results, rerun=self.rerun(champion, baseline))

    def rerun(self, champion: Any, baseline: Any, cases: Sequence[Any] | None = None) -> Both | None:
        """Return new results of champion and baseline as arrays, or None to use the stored results.

        Args:
            champion: New results of the champion, as for `Gate.challenge`; None to use the stored results.
            baseline: New results of the baseline, as for `Gate.challenge`; None to use the stored results.
            cases: The only cases to read; None for all cases.

        Raises:
            QueryRejected: If both results are needed and only one of them is given. Nothing was charged.
        """
        if champion is None and baseline is None:
            return None
        suite = self.units.suite
        if champion is None or (baseline is None) == bool(suite.not_worse):
            raise QueryRejected(
                "champion= and baseline= do not fit this gate: new runs of both are passed together if it has "
                "guards (not_worse=), else new runs of the champion alone. Pass "
                f"champion={'..., baseline=...' if suite.not_worse else '...'}."
            )
        first = suite.values(champion, cases)
        return first, first if baseline is None else suite.values(baseline, cases)

    def challenge(self, gate: GateAccount, version: CaseVersion, head: Head) -> tuple[QueryExecutor, Challenge]:
        """Return a challenge of the gate's champion that is ready to be asked."""
        self.check_none_is_open(head)
        stored = self.whole(gate)
        paired = self.paired(version.digest, [version.results, *(stored if version.rerun is None else version.rerun)])
        keep = partial(self.keep, version.digest, version.results)
        return self.executor, self.claimed(gate, version, paired.proves, keep, unsealed=paired.unsealed)

    def check_none_is_open(self, head: Head) -> None:
        """Raise QueryRejected if the gate has an open challenge. Only its owner and the steward are told its name."""
        opened = head.accounts.of(OpenChallenges).by_gate.get(self.name)
        if opened is None:
            return
        if not opened.belongs_to(self.executor.analyst):
            raise QueryRejected(
                f"A challenge of another analyst is open at gate {self.name!r}. Try again when it has ended, or ask "
                "the steward to end it."
            )
        raise QueryRejected(
            f"The challenge {opened.name!r} of gate {self.name!r} is open. Report its results, or withdraw it."
        )

    def told_of(self, version: CaseVersion) -> dict[str, Any]:
        """Return what the ledger's entry of a verdict contains about the results: their keyed digest."""
        given = [version.results, *(version.rerun or ())]
        return {RESULTS: self.store.digest_of(np.concatenate([each.ravel() for each in given]))}

    def check_repeated(self, plan: Challenge) -> None:
        """Raise QueryRejected if the stored verdict of a repeated challenge is about other results than these."""
        stored = self.executor.ledger.find(plan.query)
        if stored is None or stored.description.get(RESULTS) == plan.described[RESULTS]:
            return
        if RESULTS in stored.description:
            raise _other_results(plan.version, told_as(stored.answer))
        raise QueryRejected(
            f"The version {plan.version.name!r} has a verdict ({told_as(stored.answer)}) of an open challenge that "
            "ended before all cases were reported. Give these results another name."
        )

    def verdict_of_champion(self, gate: GateAccount, champion: Version) -> Verdict:
        """Return the stored verdict on the present champion, after a check that its results are the stored ones.

        Raises:
            QueryRejected: If the results differ from the stored ones. Nothing was charged.
        """
        known = self.stored(gate)[0]
        if isinstance(champion, CaseVersion):
            given = np.where(np.isnan(known), known, champion.results)  # of later cases it may have none
            if not np.array_equal(given, known, equal_nan=True):
                raise _other_results(champion, PROMOTED if gate.promotions else "the first champion")
        return super().verdict_of_champion(gate, champion)

    def claimed(
        self, gate: GateAccount, version: Version, proves: Callable[[float], bool], keep: Callable[[], None],
        opened: Opened | None = None, **more: Any,
    ) -> ClaimChallenge:  # fmt: skip
        """Build a challenge that the claims decide. The arguments after ``version`` are attributes of `ClaimChallenge`.

        Its ledger entry has the width of the gain's range if this is not 1. For an open challenge it also has the
        number of the entry that opened it.
        """
        identity = challenge.challenge_of(gate, gate.champion, version.digest, self.executor.schema)
        first = self.units.suite.first
        described: dict[str, Any] = {} if first is None or first.width == 1.0 else {GAIN_WIDTH: first.width}
        if opened is not None:
            described[OPENED] = opened.entry
        if isinstance(version, CaseVersion):
            described |= self.told_of(version)
        return ClaimChallenge(
            gate, version, identity, described, version.about, self.executor.mechanism, self.units, proves, keep,
            opened, **more,
        )  # fmt: skip

    def paired(self, challenger: str, results: Sequence[NDArray[np.float64]]) -> PairedResults:
        """Put results of challenger, champion and baseline side by side, with runs shuffled if each run is a unit.

        Args:
            challenger: Digest of the challenger's name.
            results: Results of challenger, champion and baseline, each of shape (cases, runs, metrics).
        """
        if self.units.suite.population == challenge.NEW_RUNS:  # else a unit has the mean of its runs
            results = with_runs_shuffled(self.executor.key.order_key, challenger, results)
        return PairedResults(self.units, *results)

    def keep(self, name: str, values: NDArray[np.float64]) -> None:
        """Write results on all cases to the file of a champion or baseline."""
        self.store.keep(self._files(name)[0], values)

    def _files(self, name: str) -> list[str]:
        """Return names of files that may hold a version's results, newest first: one for each arrival of cases."""
        growth = growth_of(self.executor)
        return result_names(name, [] if growth is None else growth.rows.facts())

    def stored(self, gate: GateAccount) -> Both:
        """Return the stored results of champion and baseline, shape (cases, runs, metrics), nan where missing."""
        found = []
        for name in (gate.champion, baseline_file(gate.name)):
            files = self._files(name)
            values = self.store.find(next(filter(self.store.has, files), files[-1]))
            added = np.full((len(self.units.suite.ids) - len(values), *values.shape[1:]), np.nan)
            found.append(np.concatenate([values, added]))
        return found[0], found[1]

    def whole(self, gate: GateAccount) -> Both:
        """Return the stored results as `stored` does, and refuse a champion that did not run all cases.

        Raises:
            QueryRejected: If the champion has cases without results. Nothing was charged.
        """
        values, fixed = self.stored(gate)
        if left := len(self._left(values, fixed)):
            raise QueryRejected(
                f"The champion has no results for {left} cases, as it was promoted early or cases were added. Run the "
                "cases of cases_left and pass their results to complete."
            )
        return values, fixed

    def _left(self, champion: NDArray[np.float64], baseline: NDArray[np.float64]) -> list[int]:
        return sorted({*_unknown(champion), *(_unknown(baseline) if self.units.suite.not_worse else [])})

    def left(self, gate: GateAccount) -> list[Any]:
        """Return the ids of cases without results of the champion, or of the baseline if there are guards.

        Raises:
            QueryRejected: If the asker is neither the steward nor the analyst who promoted the champion.
        """
        self._check_may_complete(gate)
        return [self.units.suite.ids[place] for place in self._left(*self.stored(gate))]

    def check_addition(self, gate: GateAccount, baseline: Any) -> None:
        """Raise QueryRejected unless the champion has all results, and the baseline results that guards need."""
        self.whole(gate)
        if (baseline is None) == bool(self.units.suite.not_worse):
            raise QueryRejected(
                "A gate with guards (not_worse=) needs the baseline's results on the added cases, and a gate "
                f"without guards takes none. Pass {'baseline=...' if baseline is None else 'no baseline='}."
            )

    def complete(self, gate: GateAccount, given: Any, *, baseline: Any = None) -> None:
        """Store results of the champion, and of the baseline if needed, on cases without results."""
        self._check_may_complete(gate)
        (values, fixed), suite = self.stored(gate), self.units.suite
        left = self._left(values, fixed)
        added = _unknown(fixed) if suite.not_worse else []
        if added and baseline is None:
            raise QueryRejected(
                "Cases were added, and the guards need the baseline's results on them. Pass baseline=... (the same "
                "results again if the champion is the baseline)."
            )
        cases = [suite.ids[place] for place in left]
        if baseline is not None and not added:  # unless a call that was killed kept these very results
            again = left and suite.not_worse and np.array_equal(suite.values(baseline, cases), fixed[left])
            if not again:
                raise QueryRejected("The baseline has results on all cases. Leave out baseline=.")
        made = suite.values(given, cases)
        if baseline is not None and added:
            fixed[added] = suite.values(baseline, [suite.ids[place] for place in added])
            self.keep(baseline_file(gate.name), fixed)
        values[left] = made
        self.keep(gate.champion, values)

    def _check_may_complete(self, gate: GateAccount) -> None:
        """Raise QueryRejected unless the steward asks, or the analyst who promoted the champion.

        Only they may supply results that the champion lacks.
        """
        analyst = self.executor.analyst
        if analyst is None:
            return
        promoted = challenge.promotions_of(self.executor, gate.name)[-1:]
        if not promoted or promoted[0].description.get(ANALYST) != analyst:
            raise QueryRejected(
                f"The champion of gate {gate.name!r} is not yours. The steward, or the analyst who promoted it, adds "
                "its results."
            )

    def worth_asking(
        self, gate: GateAccount, head: Head, results: Any, *, champion: Any, name: str | None
    ) -> ChallengeWorth:  # fmt: skip
        """Forecast from open cases whether a challenge is worth its cost, for `Gate.worth_asking`."""
        opened, suite = self.open_cases, self.units.suite
        if not opened.ids:
            raise QueryRejected(
                "All cases of this suite are sealed, and a forecast needs open cases. Seal a suite with open=0.5."
            )
        own = opened.open_part(suite, results)
        known = opened.results.get(gate.champion)
        theirs = known if champion is None else opened.open_part(suite, champion)
        if own is None or theirs is None:
            whose = "the version" if own is None else "the champion"
            raise QueryRejected(
                f"The results of {whose} do not have all {len(opened.ids)} open cases. Run all cases that "
                f"gate.open_cases lists{'' if own is None else ', and pass them as champion='}."
            )
        if name is not None:
            self._remember(self.named(name).digest, own, head)
        left = None if gate.limit is None else gate.left
        return worth_asking(self.units, own, theirs, nats=self.next_nats(head), left=left)

    def remember_open(self, head: Head, results: Any) -> None:
        """Store a new champion's results on open cases, if they were handed in with the challenge."""
        opened = self.open_cases
        if opened.ids and (own := opened.open_part(self.units.suite, results)) is not None:
            self._remember(self.gate_at(head).champion, own, head)

    def _remember(self, version: str, results: NDArray[np.float64], head: Head) -> None:
        champions = [gate.champion for gate in head.accounts.of(Gates).by_name.values()]
        noted = self.open_cases.remembering(version, results, keep=champions)
        noted.save(self.folder, self.executor.key.notes_key)

    def facts(self, gate: GateAccount, head: Head) -> dict[str, Any]:
        """Return the facts of `Gate.status` about cases, runs and the open challenge."""
        suite, nats = self.units.suite, self.next_nats(head)
        opened = head.accounts.of(OpenChallenges).by_gate.get(gate.name)
        told = {} if opened is None or not opened.belongs_to(self.executor.analyst) else {
            "challenger": opened.name, "analyst": opened.analyst, "looks": len(opened.results), "of": opened.looks,
        }  # fmt: skip
        return {
            "cases": len(suite.ids),
            **({"open_cases": len(ids)} if (ids := self.open_cases.ids) else {}),
            "runs": suite.runs,
            "results": self.size,
            "missing": suite.missing,
            "population": suite.population,
            "open": opened is not None,
            **({"open_challenge": told} if told else {}),
            "provable": self.units.can_prove(nats),
            "sees": self.units.smallest_step(nats),
            "sees_open": self.units.smallest_step(self.units.last_nats(nats, self.units.looks()), looks=True),
        }


@dataclass(frozen=True)
class ClaimChallenge(Challenge):
    """Challenge that is decided by the claims of a gate about cases, from results of the versions.

    Attributes:
        units: Cases, or groups of cases.
        proves: Function of ln(1 / level) that returns True if the claims are proved at this level. Secret.
        keep: Function that stores the challenger's results as those of a champion.
        opened: The open challenge that this verdict closes. None if all results were passed at once.
        futile: True if the results ended the challenge early, with the champion kept, before all cases were handed out.
        unsealed: Function from ln(1 / level) to the numbers that an unsealing reveals, or None. Secret.
    """

    units: UnitPlan
    proves: Callable[[float], bool] = field(repr=False)
    keep: Callable[[], None] = field(repr=False)
    opened: Opened | None = None
    futile: bool = False
    unsealed: Callable[[float], Numbers | None] | None = field(repr=False, default=None)

    def is_short(self, rows: int) -> bool:
        """Return True, because no sealed rows are read."""
        return True

    @property
    def pricing(self) -> Pricing:  # type: ignore[override]
        """The price of the challenge: at most one surprise. It is refused if no results could prove the claims."""

        def sure(state: State, count: int) -> int:
            provable = self.opened is not None or self.units.can_prove(challenge.next_nats(self.mechanism, state))
            return min(count, 1) if provable else 0  # the place of an open one was taken when it was opened

        return Pricing(1, sure, reserved=self.opened is not None)

    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> None:
        """Do nothing, because no sealed rows are read."""

    def answer(self, state: State, seen: None, rows: list[int], noise: Noise) -> tuple[State, list[Outcome]]:
        """Decide the challenge. Results of a promoted challenger are stored before the verdict is returned."""
        nats = challenge.next_nats(self.mechanism, state) if self.opened is None else self.opened.nats
        promoted = not self.futile and self.proves(nats)
        if promoted:
            self.keep()
        answer = {
            "value": None, "low": self.gate.margin if promoted else None, "high": None,
            "source": PROMOTED if promoted else KEPT, "node": {"by": "claims", "nats": nats, "one_sided": True},
        }  # fmt: skip
        kept = None if self.unsealed is None else self.unsealed(nats)
        mark = promoted or self.futile
        label = interim_label(self.opened.marks) if mark and self.opened is not None else 0
        return state.after(charged=int(mark), labels=label), [Outcome(answer, int(mark), kept)]


def interim_label(looks: int) -> int:
    """Return the cost of a label that tells one of equally likely looks, in millionths of a nat.

    Examples:
        >>> interim_label(20)
        2995733
    """
    return math.ceil(1e6 * math.log(looks))


def groups_of(executor: QueryExecutor, population: str) -> NDArray[np.int64]:
    """Return the number of each case's unit, a case or a group of cases. Groups are secret."""
    dependence, rows = executor.mechanism.dependence, executor.schema.rows
    if dependence.group_column is not None:
        column = executor.sealed.table([dependence.group_column])[dependence.group_column]
        return np.unique(np.asarray(column).astype(str), return_inverse=True)[1].astype(np.int64)
    if not dependence.independent and population != challenge.NEW_RUNS:
        raise QueryRejected(
            "A gate about cases needs independent cases or groups of cases. Seal the rows "
            "with eh.Independent() or eh.Groups(...)."
        )
    return np.arange(rows, dtype=np.int64)


def _unknown(values: NDArray[np.float64]) -> list[int]:
    """Return the positions of cases that lack a result."""
    return np.flatnonzero(np.isnan(values).any(axis=(1, 2))).tolist()
