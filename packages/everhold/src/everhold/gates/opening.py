"""How gates are opened: `HoldoutGates`, which is `holdout.gates`, and the claims of a gate about cases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from everhold.arguments import as_float, brief
from everhold.asking.accessor import HoldoutAccessor
from everhold.asking.session import CaseClaims, GateTerms
from everhold.errors import NotFound, QueryRejected, VacuousGuaranteeWarning, warn_caller
from everhold.gates import challenge
from everhold.gates.cases import CaseEvidence
from everhold.gates.gate import Gate, check_may_open, checked_limit, checked_name, record_gate
from everhold.gates.records import COMPLETED, GateAccount, Gates, baseline_file
from everhold.gates.results import CaseSuite, limits_for, metrics_for, runs_by_case, warn_of_copies
from everhold.gates.rows import open_row_gate, rows_left
from everhold.ledger.store import all_entries
from everhold.sealing.configuration import GROWS

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.asking.query_executor import QueryExecutor
    from everhold.ledger import Head
    from everhold.ledger.acts import EntryCounts


class HoldoutGates(HoldoutAccessor):
    """The gates of a holdout: `holdout.gates`."""

    def named(self, name: str, metric: Any, *, champion: Any, **terms: Unpack[GateTerms]) -> Gate:
        """Return the gate called ``name``. A gate that does not exist yet is opened first."""
        given: dict[str, Any] = {**terms}
        ledger, claimed = self._executor.ledger, given.get("better") is not None or given.get("any_of") is not None
        heads = (read() for read in (ledger.latest, ledger.head))
        known = (gate for head in heads if (gate := head.accounts.of(Gates).by_name.get(name)) is not None)
        if metric is None and (claimed or not all(gate.about_rows for gate in islice(known, 1))):
            if given.pop("training", None) is not None:
                raise TypeError("training is only for gates about rows. Leave it out.")
            return open_case_gate(self._executor, self._folder, name, champion=champion, **given)
        claims = {claim: given.pop(claim) for claim in CaseClaims.__annotations__ if claim in given}
        if others := [claim for claim, value in claims.items() if value is not None]:
            raise TypeError(f"{others[0]} is only for gates about cases. Pass better= or any_of= with it.")
        return open_row_gate(self._executor, self._folder, name, metric, champion=champion, **given)

    def status_facts(self, head: Head) -> dict[str, Any]:
        """Return the public facts of all gates, for `Holdout.status`."""
        gates = [
            {
                **challenge.described_gate(gate),
                **({"rows_left": rows_left(gate, self._executor)} if self._executor.growth and gate.about_rows else {}),
            }
            for gate in head.accounts.of(Gates).by_name.values()
        ]
        return {"gates": gates} if gates else {}

    def certificate_facts(self, head: Head, counts: EntryCounts) -> dict[str, Any]:
        """Return all gates with their promotions, for the certificate. Margins and gains are in the metric's units."""
        known, completed = head.accounts.of(Gates).by_name, dict[str, list[dict[str, Any]]]()
        if any(gate.completions for gate in known.values()):
            for entry in all_entries(self._executor.ledger):
                if entry.answer["source"] == COMPLETED:
                    facts = {"entry": entry.sequence, **{name: entry.description[name] for name in ("arrived", "rows")}}
                    completed.setdefault(entry.description["gate"], []).append(facts)
        gates = []
        for gate in known.values():
            said, about = challenge.described_gate(gate), challenge.about_runs(gate.metric)
            promotions = enumerate(counts.promotions.get(gate.name, []), 1)
            gates.append({
                "gate": gate.name, "metric": said["metric"] + (f"; about {about}" if about else ""),
                "margin": said["margin"], "limit": gate.limit, "challenges": gate.challenges, "first": gate.first,
                "promotions": [
                    {**step, **challenge.bounds_of(gate, number, head.accounts)} for number, step in promotions
                ],
                **({"completed": completed[gate.name]} if gate.name in completed else {}),
                **({"checks": {"made": gate.checks, "charged": gate.marks}} if gate.checks else {}),
            })  # fmt: skip
        return {"gates": gates} if gates else {}


_POPULATIONS = {"cases": challenge.NEW_CASES, "runs": challenge.NEW_RUNS}


def suite_of(
    ids: Sequence[Any], *, better: str | None = None, any_of: Sequence[str] | None = None,
    not_worse: Mapping[str, float] | None = None, margin: float = 0.0, units: str = "cases",
    ranges: Mapping[str, tuple[float, float]] | None = None, lower: Iterable[str] | None = None,
    at_most: Mapping[str, float] | None = None, at_least: Mapping[str, float] | None = None, tail: bool = False,
    missing: str = "refuse",
) -> CaseSuite:  # fmt: skip
    """Build the suite of cases and claims, before there are results. `everhold.Holdout.gate` explains the claims.

    Args:
        ids: Ids of all cases of the suite.
        better: The success.
        any_of: Several successes, of which any one is enough.
        not_worse: Guards against the baseline, with their slacks.
        margin: A success has to be better by more than this.
        units: What the promise is about, ``"cases"`` or ``"runs"``.
        ranges: Least and largest number of columns, by name.
        lower: Metrics of which less is better.
        at_most: Guards against fixed numbers from above.
        at_least: Guards against fixed numbers from below.
        tail: True if the binomial tail proves successes about yes-or-no runs (Lemma Y); False if bets prove them.
        missing: What becomes of runs without a result, a key of `everhold.gates.challenge.MISSING`.

    Raises:
        QueryRejected: If the claims are not possible. Nothing was changed.
    """
    not_worse, ranges, at_most, at_least = not_worse or {}, ranges or {}, at_most or {}, at_least or {}
    limits = (*map(str, at_most), *map(str, at_least))
    if (better is None) == (any_of is None) or (any_of is not None and not list(any_of)):
        raise QueryRejected(
            "better and any_of are both given, both missing, or empty. Pass one of "
            "better='metric' and any_of=['metric', ...]."
        )
    if units not in _POPULATIONS:
        raise QueryRejected(f"units is {brief(units)}. Pass 'cases' or 'runs'.")
    successes = (better,) if better is not None else tuple(any_of or ())
    metrics, ratios = metrics_for(successes, not_worse, ranges=ranges, lower=lower, limits=limits)
    width = {metric.name: metric.width for metric in metrics} | dict.fromkeys(ratios, math.inf)
    if set(successes) & set(not_worse):
        raise QueryRejected(
            f"{', '.join(sorted(set(successes) & set(not_worse)))} is in not_worse= and also in better= or "
            "any_of=. Name it in one of them."
        )
    if not all(0.0 <= as_float(margin) < width[name] for name in successes):
        raise QueryRejected(
            f"margin is {brief(margin)}. Pass a number of at least 0 that is less than the range of each success."
        )
    if not all(0.0 < as_float(slack) < width[name] for name, slack in not_worse.items()):
        raise QueryRejected(
            "A number in not_worse= is outside the range of its metric. Pass a number above 0 and below the "
            "width of this range, by which the metric may be worse."
        )
    if missing not in challenge.MISSING or (missing != "refuse" and ratios):
        raise QueryRejected(
            f"missing is {brief(missing)}. Pass one of {', '.join(map(repr, challenge.MISSING))}, and only "
            "'refuse' where a ratio is compared, which has no worst value."
        )
    slacks = {name: float(slack) for name, slack in not_worse.items()}
    fixed, numbers = limits_for(at_most, at_least, ranges=ranges)
    return CaseSuite(
        ids, (*metrics, *fixed), successes, float(margin), slacks, 1, _POPULATIONS[units], numbers, ratios, tail,
        missing,
    )  # fmt: skip


def check_terms(gate: str, **terms: Any) -> None:
    """Check the arguments of `everhold.seal_cases` before results are read.

    Raises:
        QueryRejected: If a gate cannot claim what these arguments describe. Nothing was sealed.
    """
    share, planned = terms.pop("open", None), terms.pop("challenges", None)
    if share is not None:
        checked_share(share)
    checked_limit(planned)
    checked_name(gate)
    suite_of((), **terms)


def open_case_gate(
    executor: QueryExecutor, folder: Path, name: str, *, champion: Any, baseline: Any = None,
    challenges: int | None = None, **claims: Any,
) -> Gate:  # fmt: skip
    """Open a gate about cases. Opening it for the first time is an act of the steward, which is recorded in the ledger.

    Args:
        executor: Executor of the open holdout.
        folder: Private folder of the holdout's rows.
        name: Name of the gate.
        champion: Results of the first champion. None if the gate exists already.
        baseline: Results with which guards compare. None for those of the first champion.
        challenges: Largest number of challenges that the gate answers. None if only the holdout's budget limits them.
        claims: Claims, as `suite_of` takes them. They may be left out if the gate exists already.

    Raises:
        QueryRejected: If the gate cannot be opened with these claims, or a gate of this name has other claims. Nothing
            was changed.
    """
    challenge.check_gates(executor.mechanism)
    if executor.growth is not None and executor.record.configuration.get(GROWS):
        raise QueryRejected(
            "Rows have arrived in this holdout with grows=True, and gates about cases do "
            "not support that. Use a holdout without grows=True."
        )
    head = executor.ledger.head()
    executor.state_from(head)
    known = head.accounts.of(Gates).by_name.get(name)
    if claims.get("better") is None and claims.get("any_of") is None:
        if known is None:
            raise NotFound(f"There is no gate named {brief(name)}. Pass better=... to open a new one.")
        return Gate(CaseEvidence(name, executor, folder, known.metric))
    if executor.schema.row_id is None:
        raise QueryRejected(
            "The holdout has no row ids, by which results are matched with cases. Create "
            "it with rows=eh.Rows(row_id='case')."
        )
    checked_name(name)
    limit, suite = checked_limit(challenges), suite_of(tuple(executor.sealed.row_ids(executor.schema.row_id)), **claims)
    if known is not None:
        _check_same(known, suite)
        return Gate(CaseEvidence(name, executor, folder, known.metric))
    if champion is None:
        raise QueryRejected("A new gate needs a champion. Pass champion=..., the results to beat.")
    suite = with_champion(suite, champion)
    evidence = CaseEvidence(name, executor, folder, suite.describe())
    first = suite.values(champion)
    fixed = first if baseline is None else suite.values(baseline)
    identity = evidence.named("the first champion").digest
    margin = 0.0 if suite.first is None else suite.margin / suite.first.width
    account = GateAccount(name, evidence.described, margin, limit, identity, identity)

    def keep() -> None:
        evidence.keep(identity, first)
        evidence.keep(baseline_file(name), fixed)

    shown = f"{challenge.claims_in_words(evidence.described)} of the first champion"
    check_may_open(executor)
    record_gate(executor, account, shown, keep)
    units = evidence.units
    for guard, least in units.least_slacks(evidence.next_nats(head)).items():
        warn_caller(VacuousGuaranteeWarning(
            f"The guard {guard!r} allows {suite.not_worse[guard]:g}, which {units.all_at_once} units cannot prove even "
            f"of a version that is equal. Allow more than {least:.2g}, choose a smaller range, or add cases or runs."
        ))  # fmt: skip
    return Gate(evidence)


def with_champion(suite: CaseSuite, champion: Any) -> CaseSuite:
    """Return the suite with the champion's number of runs. Metrics that are always 0 or 1 are marked as yes-or-no."""
    suite = replace(suite, runs=len(next(iter(runs_by_case(champion).values()))))
    values = suite.values(champion)
    warn_of_copies(values)
    yes_no = [bool(np.isin(values[:, :, place], (0.0, 1.0, metric.worst)).all())
              for place, metric in enumerate(suite.metrics)]  # fmt: skip
    metrics = [
        replace(metric, yes_no=found and (metric.low, metric.high) == (0.0, 1.0) and not metric.parts)
        for metric, found in zip(suite.metrics, yes_no, strict=True)
    ]
    return replace(suite, metrics=tuple(metrics))


def _check_same(known: GateAccount, suite: CaseSuite) -> None:
    """Raise QueryRejected if the gate of this name that exists has other claims, or is about rows."""
    if known.metric.get("kind") == "cases":
        there = CaseSuite.read(known.metric, suite.ids)
        metrics = tuple(replace(metric, yes_no=False) for metric in there.metrics)
        if replace(there, metrics=metrics, runs=suite.runs, tail=suite.tail) == suite:
            return
    raise QueryRejected(
        f"Another gate named {known.name!r} exists. Pass the same claims again, another "
        "name for a new gate, or no claims to open the one that exists."
    )


_OFTEN = 0.25  # share of pairs of runs of one version that differ, from which on the binomial tail is sharper


def deal_cases(
    ids: Sequence[Any], share: Any, *, groups: Mapping[Any, Any] | None, strata: Mapping[Any, Any] | None,
    rng: np.random.Generator,
) -> list[Any]:  # fmt: skip
    """Draw the open cases of a suite at random: whole groups, and nearly the same share of each stratum.

    Every group is open with the same probability, the share. The open groups of a stratum are its share rounded down or
    up, by a systematic sample with a random start.

    Args:
        ids: Ids of all cases.
        share: Share of the cases, or groups, that are open; above 0 and below 1.
        groups: Mapping from case to group, if cases of one group must stay together.
        strata: Mapping from case to stratum, if each stratum should have the same share.
        rng: Source of randomness, which alone decides which cases are open.

    Raises:
        QueryRejected: If the open or the sealed part would be empty, or a case has no group or stratum. Nothing was
            sealed.
    """
    part = checked_share(share)
    for what, named in (("group", groups), ("stratum", strata)):
        if named is not None and (missing := [case for case in ids if case not in named]):
            raise QueryRejected(f"Case {brief(missing[0])} has no {what}. Name the {what} of each of {len(ids)} cases.")
    members: dict[Any, list[Any]] = {}
    for case in ids:
        members.setdefault(case if groups is None else groups[case], []).append(case)
    if min(part, 1.0 - part) * len(members) < 1.0:
        raise QueryRejected(
            f"With open={part:g} none of {len(ids)} cases would be open, or none sealed. Use more cases or another "
            "share."
        )
    by_stratum: dict[Any, list[list[Any]]] = {}
    for cases in members.values():  # a group with cases of several strata is in a stratum of its own
        by_stratum.setdefault(None if strata is None else frozenset(map(strata.get, cases)), []).append(cases)
    drawn: set[Any] = set()
    owed = rng.random()
    for units in by_stratum.values():
        owed += part * len(units)
        count = int(owed)
        owed -= count
        drawn.update(case for place in rng.permutation(len(units))[:count] for case in units[place])
    return [case for case in ids if case in drawn]


def checked_share(share: Any) -> float:
    """Return the share of cases to leave open, after checking that it is between 0 and 1.

    Raises:
        QueryRejected: If ``share`` is not a number between 0 and 1. Nothing was sealed.
    """
    part = as_float(share)
    if not 0.0 < part < 1.0:
        raise QueryRejected(f"open is {brief(share)}. Pass the share of cases that are open, such as 0.5.")
    return part


def often_disagrees(suite: CaseSuite, results: NDArray[np.float64]) -> bool:
    """Return whether runs of one version differ so often that binomial tails prove more than bets (Lemma Y).

    Args:
        suite: The suite with the claims.
        results: Results on open cases, shape (cases, runs, metrics).
    """
    first = suite.first
    if suite.population != challenge.NEW_RUNS or first is None or not first.yes_no or suite.runs < 2:
        return False
    passed = first.scaled(results[:, :, suite.metrics.index(first)]).mean(axis=1)
    differ = 2.0 * passed * (1.0 - passed) * suite.runs / (suite.runs - 1.0)
    return bool(differ.mean() >= _OFTEN)
