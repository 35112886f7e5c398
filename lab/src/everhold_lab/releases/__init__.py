"""One-shot releases of the literature: told once, outside of any budget, also for rows that depend on each other."""

from everhold_lab.releases.gaussian_field import GaussianFieldMechanism
from everhold_lab.releases.ladder_free import ParameterFreeLadder
from everhold_lab.releases.laplace_mwem import LaplaceMWEM
from everhold_lab.releases.markov_quilt import MarkovQuiltMechanism, composed_epsilon
from everhold_lab.releases.multiplicative_weights import MultiplicativeWeights, PrivateMultiplicativeWeights
from everhold_lab.releases.one_shot import Release
from everhold_lab.releases.synthetic_tables import TableRelease, tuned_blr, tuned_mwem

__all__ = [
    "GaussianFieldMechanism",
    "LaplaceMWEM",
    "MarkovQuiltMechanism",
    "MultiplicativeWeights",
    "ParameterFreeLadder",
    "PrivateMultiplicativeWeights",
    "Release",
    "TableRelease",
    "composed_epsilon",
    "tuned_blr",
    "tuned_mwem",
]
