"""One file for each algorithm; all of them pure steps."""

from everhold.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from everhold.mechanisms.averages import Empirical, SampleSplitting
from everhold.mechanisms.base import Mechanism, Promise, Quote, Replies, Source, State
from everhold_lab.releases.gaussian_field import GaussianFieldMechanism
from everhold.mechanisms.guess_and_check import GuessAndCheck
from everhold.mechanisms.ladder import Ladder
from everhold_lab.releases.ladder_free import ParameterFreeLadder
from everhold_lab.releases.markov_quilt import MarkovQuiltMechanism, composed_epsilon
from everhold_lab.releases.one_shot import Release
from everhold.mechanisms.privacy_budget import PrivacyBudget
from everhold.mechanisms.sparse_vector import SparseVector
from everhold.mechanisms.subsampling import RandomRows, Subsampling
from everhold.mechanisms.thresholdout import Thresholdout

__all__ = [
    "MECHANISMS",
    "Empirical",
    "GaussianFieldMechanism",
    "GaussianMechanism",
    "GuessAndCheck",
    "Ladder",
    "LaplaceMechanism",
    "MarkovQuiltMechanism",
    "Mechanism",
    "ParameterFreeLadder",
    "PrivacyBudget",
    "Promise",
    "Quote",
    "RandomRows",
    "Release",
    "Replies",
    "SampleSplitting",
    "Source",
    "SparseVector",
    "State",
    "Subsampling",
    "Thresholdout",
    "composed_epsilon",
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
