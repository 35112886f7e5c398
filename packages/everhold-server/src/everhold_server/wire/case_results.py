"""Results of cases as JSON: pairs of an id and its runs, or an object by id; a number that is none travels as a text.

>>> results_from({"t1": [{"passed": 1}]})
{'t1': [{'passed': 1}]}
>>> written_results({7: True, 8: float("nan")})
[[7, [True]], [8, ['nan']]]
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from everhold.arguments import brief
from everhold.errors import CaseRejected, QueryRejected
from everhold.gates.cases.results import runs_by_case

_PAIR = 2


def results_from(written: Any) -> dict[Any, list[Any]]:
    """Read results."""
    pairs = list(written.items()) if isinstance(written, dict) else written
    if not isinstance(pairs, list) or not all(isinstance(pair, (list, tuple)) and len(pair) == _PAIR for pair in pairs):
        raise QueryRejected(
            f"the results are {brief(written)}; expected an object from case id to runs, or a list of pairs"
        )
    found: dict[Any, list[Any]] = {}
    for case, runs in pairs:
        if not isinstance(case, (str, int)):
            raise QueryRejected(f"a case is named {brief(case)}; expected a text or a number")
        if case in found:
            raise CaseRejected(
                f"The case {brief(case)} is there twice. Give its runs as one list, and other cases other names.",
                case=case, fault="doubled",
            )  # fmt: skip
        found[case] = runs if isinstance(runs, list) else [runs]
    return found


def written_results(results: Any) -> list[list[Any]]:
    """Results as plain data, from all that `Gate.challenge` takes."""
    return [
        [_plain(case), [{str(name): _plain(value) for name, value in run.items()} if isinstance(run, dict)
                        else _plain(run) for run in runs]]
        for case, runs in runs_by_case(results).items()
    ]  # fmt: skip


def _plain(value: Any) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return str(plain)
    return plain if plain is None or isinstance(plain, (str, int, float)) else str(plain)
