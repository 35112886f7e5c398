"""One file for each algorithm, everything about it; all of them pure steps. `MECHANISMS` is the only list of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from everhold.mechanisms.averages import Empirical, SampleSplitting
from everhold.mechanisms.base import Mechanism, Promise, Quote, Replies, Source, State
from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.mechanisms.ladder import Ladder
from everhold.mechanisms.privacy_budget import PrivacyBudget
from everhold.mechanisms.silent import Silent
from everhold.mechanisms.subsampling import RandomRows, Subsampling
from everhold.mechanisms.thresholdout import Thresholdout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.dependence import DependenceModel

__all__ = [
    "MECHANISMS",
    "Empirical",
    "GaussianMechanism",
    "GuessAndCheck",
    "Ladder",
    "LaplaceMechanism",
    "Mechanism",
    "PrivacyBudget",
    "Promise",
    "Quote",
    "RandomRows",
    "Replies",
    "SampleSplitting",
    "Silent",
    "Source",
    "State",
    "Subsampling",
    "Thresholdout",
    "answering",
    "mechanism_from_dict",
]

MECHANISMS: dict[str, type[Mechanism]] = {
    kind.name: kind
    for kind in (
        GaussianMechanism,
        Thresholdout,
        GuessAndCheck,
        SampleSplitting,
        LaplaceMechanism,
        Empirical,
        PrivacyBudget,
        Subsampling,
        RandomRows,
        Ladder,
        Silent,
    )
}
"""All mechanisms by name, in the order in which they are listed; nothing else has to know that there is another."""


def answering() -> dict[str, type[Mechanism]]:
    """Those that answer before a study is unsealed, by name: what a plan for answers chooses among."""
    return {name: kind for name, kind in MECHANISMS.items() if not kind.only_silent}


def mechanism_from_dict(described: Mapping[str, Any], dependence: DependenceModel) -> Mechanism:
    """The inverse of `Mechanism.to_dict`.

    Raises:
        KeyError: If there is no mechanism of that name, or something is missing.
        ValueError: If its parameters make no sense, or are those of another version of it.
    """
    shared = {name: described[name] for name in ("rows", "queries", "confidence", "unit")}
    made = MECHANISMS[described["mechanism"]](**shared, **described["parameters"], dependence=dependence)
    if made.parameters().keys() != described["parameters"].keys():
        raise ValueError(
            f"{made.name} has the parameters {', '.join(made.parameters())}, and {', '.join(described['parameters'])} "
            "are given: another version of everhold made it, with another promise"
        )
    return made
