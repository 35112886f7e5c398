"""A suite of cases with a gate in one step: what a repository with tests or evaluations needs."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from everhold.errors import SmallHoldoutWarning, VacuousGuaranteeWarning
from everhold.holdout import DEFAULT_STORAGE, Holdout
from everhold.queries.case_results import CASE, ids_in
from everhold.sealing.settings import Planning, Rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["seal_cases"]

_GROUP = "group"


def seal_cases(
    storage: str | Path = DEFAULT_STORAGE, name: str = "suite", *, results: Any, challenges: int = 200,
    gate: str = "main", groups: Mapping[Any, Any] | None = None, confidence: float = 0.95, surprises: int | None = None,
    allow_resealing: bool = False, **claims: Any,
) -> Holdout:  # fmt: skip
    """Seal the cases of a suite, with the results of their first champion, and open a gate for them.

    Args:
        storage: As for `Holdout.create`.
        name: Name of the holdout.
        results: Results of the first champion, as for `CaseGate.challenge`; its ids are the cases.
        challenges: Planned challenges; the level of each follows from it, and more are answered.
        gate: Name of the gate.
        groups: Case id to group, where cases of one group may depend on each other, such as those of one document.
        confidence: Probability with which all promotions hold at once.
        surprises: Planned promotions; ten by default.
        allow_resealing: Seal cases of another suite again, for promises about new runs: all runs have to be new.
        **claims: ``better`` or ``any_of``, ``not_worse``, ``margin``, ``baseline``, ``units``, ``ranges`` and
            ``lower``, ``at_most`` and ``at_least``, as for `Holdout.gate`.

    Returns:
        The holdout; its gate is ``holdout.gate(name=gate)``.

    Raises:
        QueryRejected: If the results or the claims cannot be used. The cases are sealed without a gate.

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

    ids = ids_in(results)
    table: dict[str, Any] = {CASE: ids, "position": list(range(len(ids)))}
    if groups is not None:
        table[_GROUP] = [str(groups[case]) for case in ids]
    with warnings.catch_warnings():  # means over few cases say little, and a gate does not tell any
        warnings.simplefilter("ignore", SmallHoldoutWarning)
        warnings.simplefilter("ignore", VacuousGuaranteeWarning)
        holdout = Holdout.create(
            storage, name, holdout=table, rows=Rows(row_id=CASE), mechanism="guess_and_check", queries=challenges,
            surprises=surprises, confidence=confidence, planning=Planning(allow_vacuous=True),
            allow_resealing=allow_resealing, dependence=None if groups is None else Groups(_GROUP),
        )  # fmt: skip
    holdout.gate(name=gate, champion=results, **claims)
    return holdout
