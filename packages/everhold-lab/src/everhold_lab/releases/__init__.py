"""Private releases from the literature that no holdout uses: single numbers and choices."""

from everhold_lab.releases.markov_quilt import MarkovQuiltMechanism
from everhold_lab.releases.one_shot import GaussianFieldMechanism, Release
from everhold_lab.releases.selection import PermuteAndFlip
from everhold_lab.theory.classical import ParameterFreeLadder
from everhold_lab.theory.thresholdout import thresholdout_dwork2015, thresholdout_zhao2017
from everhold_privacy.mechanisms.sparse_vector import SparseVector

__all__ = [
    "GaussianFieldMechanism",
    "MarkovQuiltMechanism",
    "ParameterFreeLadder",
    "PermuteAndFlip",
    "Release",
    "SparseVector",
    "thresholdout_dwork2015",
    "thresholdout_zhao2017",
]
