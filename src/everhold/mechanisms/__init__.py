"""One file for each algorithm; all of them pure steps."""

from everhold.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from everhold.mechanisms.averages import Empirical, SampleSplitting
from everhold.mechanisms.base import Mechanism, Promise, Quote, Replies, Source, State
from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.mechanisms.ladder import Ladder
from everhold.mechanisms.privacy_budget import PrivacyBudget
from everhold.mechanisms.subsampling import RandomRows, Subsampling
from everhold.mechanisms.thresholdout import Thresholdout

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
    "Source",
    "State",
    "Subsampling",
    "Thresholdout",
]

MECHANISMS: dict[str, type[Mechanism]] = {
    mechanism.name: mechanism
    for mechanism in (
        Thresholdout,
        GuessAndCheck,
        GaussianMechanism,
        PrivacyBudget,
        LaplaceMechanism,
        SampleSplitting,
        Empirical,
        Ladder,
        Subsampling,
        RandomRows,
    )
}
"""All mechanisms by name."""
