"""Private releases from the literature that no holdout uses: single numbers, choices and tables."""

from everhold_lab.releases.markov_quilt import MarkovQuiltMechanism, composed_epsilon
from everhold_lab.releases.one_shot import GaussianFieldMechanism, Release
from everhold_lab.releases.selection import PermuteAndFlip, QuantileRelease
from everhold_lab.releases.synthetic_tables import (
    LaplaceMWEM,
    MultiplicativeWeights,
    PrivateMultiplicativeWeights,
    TableRelease,
    tuned_blr,
    tuned_mwem,
)
from everhold_lab.theory.classical import ParameterFreeLadder
from everhold_lab.theory.thresholdout import thresholdout_dwork2015, thresholdout_numeric, thresholdout_zhao2017
from everhold_privacy.mechanisms.sparse_vector import SparseVector

__all__ = [
    "GaussianFieldMechanism",
    "LaplaceMWEM",
    "MarkovQuiltMechanism",
    "MultiplicativeWeights",
    "ParameterFreeLadder",
    "PermuteAndFlip",
    "PrivateMultiplicativeWeights",
    "QuantileRelease",
    "Release",
    "SparseVector",
    "TableRelease",
    "composed_epsilon",
    "thresholdout_dwork2015",
    "thresholdout_numeric",
    "thresholdout_zhao2017",
    "tuned_blr",
    "tuned_mwem",
]
