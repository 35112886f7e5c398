"""A suite of cases with a gate, sealed in one step and enlarged in one, for repositories with tests or evaluations."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from everhold.arguments import brief, names_keywords
from everhold.asking.session import USUAL_SUITE, SuiteTerms
from everhold.errors import CaseWarning, QueryRejected, SmallHoldoutWarning, VacuousGuaranteeWarning
from everhold.gates.cases import OpenCases
from everhold.gates.gate import checked_name
from everhold.gates.opening import deal_cases, often_disagrees, open_case_gate, suite_of, with_champion
from everhold.gates.results import CASE, runs_by_case
from everhold.holdout import DEFAULT_STORAGE, Holdout
from everhold.sealing.intake.request import Planning, Rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from everhold.asking.arrivals.appending import Arrived
    from everhold.gates.gate import Gate

_GROUP = "group"
_PLANNED = ("challenges", "surprises", "confidence", "allow_resealing")


@names_keywords(SuiteTerms, USUAL_SUITE)
def seal_cases(
    storage: str | Path = DEFAULT_STORAGE, name: str = "suite", *, results: Any, gate: str = "main",
    groups: Mapping[Any, Any] | None = None, **terms: Unpack[SuiteTerms],
) -> Holdout:  # fmt: skip
    """Seal the cases of a test suite, with results of a first version, and make a gate that compares later versions.

    The first version is the champion. A later one replaces it only if its results are proved to be better.

    Args:
        storage: Storage of the holdout, as for `Holdout.create`.
        name: Name of the holdout.
        results: Results of the first champion, as for `Gate.challenge`; the ids in it are the cases.
        gate: Name of the gate.
        groups: Group of each case by its id, if cases of one group may depend on each other, such as those of one
            document.
        **terms: ``challenges``: planned number of challenges, 200 by default; more are answered. ``surprises``: planned
            promotions, ten by default. ``confidence``: probability with which all promotions hold at once.
            ``allow_resealing``: seal cases again that another suite has sealed. The promise must then be about new
            runs, and all runs have to be new. ``open``: share of the cases that stay open, drawn at random, with whole
            groups, and the same share of each stratum if ``strata`` names the stratum of each case; see
            `Gate.open_cases` and `Gate.worth_asking`. The others are sealed. The claims are ``better`` or ``any_of``,
            ``not_worse``, ``margin``, ``baseline``, ``units``, ``ranges``, ``lower``, ``at_most``, ``at_least`` and
            ``missing``, as for `Holdout.gate`.

    Returns:
        The holdout; its gate is ``holdout.gate(name=gate)``.

    Raises:
        QueryRejected: If the results or the claims cannot be used. Nothing was sealed.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> passed = {f"test_{n}": n % 3 > 0 for n in range(60)}
        >>> suite = seal_cases(f"{folder.name}/suite.db", results=passed, better="passed")
        >>> suite.gate(name="main").challenge(dict.fromkeys(passed, True)).promoted
        True
        >>> suite.close(); folder.cleanup()
    """
    from everhold.dependence import Groups

    claims: dict[str, Any] = {**terms}
    share, strata = claims.pop("open", None), claims.pop("strata", None)
    if strata is not None and share is None:
        raise QueryRejected("strata= is given without open=, the share of open cases. Pass open=0.5 with it.")
    ids = list(runs_by_case(results))
    for case in ids:
        if isinstance(case, (bool, np.bool_)) or not isinstance(case, (str, int, float, np.integer, np.floating)):
            raise QueryRejected(f"Case id {brief(case)} is neither text nor a number. Pass ids such as str(id).")
    rng = np.random.default_rng()
    halves = OpenCases(tuple([] if share is None else deal_cases(ids, share, groups=groups, strata=strata, rng=rng)))
    opened = set(halves.ids)
    table = _table([case for case in ids if case not in opened], groups, first=0)
    planned = {term: claims.pop(term, USUAL_SUITE[term]) for term in _PLANNED}
    baseline = halves.sealed_part(claims.pop("baseline", None))
    everything, results = results, halves.sealed_part(results)
    checked_name(gate)  # before anything is sealed
    claimed = with_champion(suite_of(table[CASE], **claims), results)
    if baseline is not None:
        claimed.values(baseline)
    shown = halves.open_part(claimed, everything) if halves.ids else None
    if shown is not None:
        claims["tail"] = often_disagrees(claimed, shown)
    with warnings.catch_warnings():  # means over few cases say little, and a gate does not tell any
        warnings.simplefilter("ignore", SmallHoldoutWarning)
        warnings.simplefilter("ignore", VacuousGuaranteeWarning)
        holdout = Holdout.create(
            storage, name, holdout=table, rows=Rows(row_id=CASE), mechanism="guess_and_check",
            queries=planned.pop("challenges"), planning=Planning(allow_vacuous=True),
            dependence=None if groups is None else Groups(_GROUP), **planned,
        )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaseWarning)  # of these very results it was told
        session = holdout._session("seal_cases")
        first = open_case_gate(
            session.executor, session.folder, gate, champion=results, baseline=baseline, **claims
        )  # fmt: skip
    if shown is not None:
        halves.remembering(first.champion, shown).save(session.folder, session.executor.key.notes_key)
    return holdout


def add_cases(
    holdout: Holdout, results: Any, *, gate: str = "main", baseline: Any = None, groups: Mapping[Any, Any] | None = None
) -> Arrived:
    """Add cases to a suite that `seal_cases` sealed, with the results of the present champion on them.

    The champion is the best version so far.

    Earlier verdicts stay true of the cases that they were about. Later challenges need results of all cases. The choice
    of new cases, and of the time, may depend on all verdicts, but on no other fact about the sealed results. If the
    call was interrupted, the same call again completes it and returns the same arrival.

    Args:
        holdout: Holdout of the suite.
        results: Results of the champion, as for `Gate.challenge`; those of cases that are there, sealed or open, are
            left out.
        gate: Name of the gate. Other gates need `Gate.complete` before their next challenge.
        baseline: Results of the baseline on the new cases. Needed if the gate has guards (claims that nothing else
            became worse) that compare with a baseline.
        groups: Group of each new case by its id, as for `seal_cases`. All cases of a group must arrive together.

    Returns:
        The arrival: its number, and the numbers of cases.

    Raises:
        QueryRejected: If no case is new, a challenge is open, or the results cannot be used. Nothing was changed.
        HoldoutRejected: If the cases cannot be appended. Nothing was changed.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> passed = {f"test_{n}": n % 3 > 0 for n in range(90)}
        >>> first = {case: passed[case] for case in list(passed)[:60]}
        >>> suite = seal_cases(f"{folder.name}/suite.db", results=first, better="passed")
        >>> add_cases(suite, passed).total
        90
        >>> suite.close(); folder.cleanup()
    """
    found = holdout.gate(name=gate)
    if (repeated := _repeated(holdout, found, results, baseline, groups)) is not None:
        return repeated
    cases, added = _added(found, results, "The champion")
    _, fixed = ([], None) if baseline is None else _added(found, baseline, "The baseline", cases)
    found.check_addition(fixed)
    if not is_suite(holdout):
        raise QueryRejected(
            "The holdout has columns that seal_cases does not make. Append the rows with append(), and pass the "
            "champion's results to complete()."
        )
    arrived = holdout.append(_table(cases, groups, first=len(found.suite.ids)))
    found.complete(added, baseline=fixed)
    return arrived


def is_suite(holdout: Holdout) -> bool:
    """Return whether a holdout has the columns of a suite of `seal_cases`."""
    return {CASE, "position"} == set(holdout.schema.columns) - {_GROUP}


def _repeated(
    holdout: Holdout, gate: Gate, results: Any, baseline: Any, groups: Mapping[Any, Any] | None
) -> Arrived | None:
    """Return the latest arrival if the results repeat exactly its cases, else None.

    The results then belong to a request that was sent again: missing results of the champion are completed.
    """
    arrivals, ids, runs = holdout.arrivals.listed().rows, gate.suite.ids, runs_by_case(results)
    if not arrivals or runs.keys() - {*ids, *gate.open_cases}:
        return None
    latest = arrivals[-1]
    cases = ids[len(ids) - latest["rows"] :]
    if not cases or any(case not in runs for case in cases):
        return None
    arrived = holdout.append(_table(cases, groups, first=len(ids) - len(cases)))
    promoted = gate.history().champions[-1]["entry"] or 0
    left = gate.cases_left() if promoted < latest["entry"] else []  # a later champion has results of its own
    if left:
        fixed = None if baseline is None else {case: of for case, of in runs_by_case(baseline).items() if case in left}
        gate.complete({case: runs[case] for case in left}, baseline=fixed)
    return arrived


def _added(
    gate: Gate, results: Any, whose: str, cases: Sequence[Any] | None = None
) -> tuple[list[Any], dict[Any, list[Any]]]:
    """Check the results of cases that a suite lacks, and return them. Other cases are left out."""
    known = {*gate.suite.ids, *gate.open_cases}
    added = {case: runs for case, runs in runs_by_case(results).items() if case not in known}
    if not added:
        raise QueryRejected(f"{whose} has no result of a new case. Pass the results of at least one new case.")
    wanted = list(added) if cases is None else list(cases)
    gate.suite.values(added, wanted)
    return wanted, added


def _table(ids: Sequence[Any], groups: Mapping[Any, Any] | None, *, first: int) -> dict[str, Any]:
    """Return the rows of cases as columns by name."""
    table: dict[str, Any] = {CASE: list(ids), "position": list(range(first, first + len(ids)))}
    if groups is not None:
        if missing := [case for case in ids if case not in groups]:
            raise QueryRejected(
                f"groups names no group of case {brief(missing[0])}. Name one for each of {len(ids)} cases."
            )
        table[_GROUP] = [str(groups[case]) for case in ids]
    return table
