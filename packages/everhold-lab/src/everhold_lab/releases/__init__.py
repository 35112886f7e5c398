"""Releases of the literature that no holdout uses: numbers told once, other choices, published constants."""

from everhold_lab.releases.gaussian_field import GaussianFieldMechanism
from everhold_lab.releases.ladder_free import ParameterFreeLadder
from everhold_lab.releases.laplace_mwem import LaplaceMWEM
from everhold_lab.releases.markov_quilt import MarkovQuiltMechanism, composed_epsilon
from everhold_lab.releases.multiplicative_weights import MultiplicativeWeights, PrivateMultiplicativeWeights
from everhold_lab.releases.one_shot import Release
from everhold_lab.releases.selection import PermuteAndFlip, QuantileRelease
from everhold_lab.releases.sparse_vector import SparseVector
from everhold_lab.releases.synthetic_tables import TableRelease, tuned_blr, tuned_mwem
from everhold_lab.releases.thresholdout import thresholdout_dwork2015, thresholdout_numeric, thresholdout_zhao2017

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
