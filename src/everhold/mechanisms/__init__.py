"""One file for each algorithm; all of them pure steps."""

from everhold.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from everhold.mechanisms.averages import Empirical, SampleSplitting
from everhold.mechanisms.base import Mechanism, Promise, Quote, Replies, Source, State
from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.mechanisms.thresholdout import Thresholdout

__all__ = [
    "MECHANISMS",
    "Empirical",
    "GaussianMechanism",
    "GuessAndCheck",
    "LaplaceMechanism",
    "Mechanism",
    "Promise",
    "Quote",
    "Replies",
    "SampleSplitting",
    "Source",
    "State",
    "Thresholdout",
]

MECHANISMS: dict[str, type[Mechanism]] = {
    mechanism.name: mechanism
    for mechanism in (Thresholdout, GuessAndCheck, GaussianMechanism, LaplaceMechanism, SampleSplitting, Empirical)
}
"""All mechanisms by name."""
