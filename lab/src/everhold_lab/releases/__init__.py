"""One-shot releases of the literature: a number that is told once, with noise for rows that depend on each other."""

from everhold_lab.releases.gaussian_field import GaussianFieldMechanism
from everhold_lab.releases.ladder_free import ParameterFreeLadder
from everhold_lab.releases.markov_quilt import MarkovQuiltMechanism, composed_epsilon
from everhold_lab.releases.one_shot import Release

__all__ = ["GaussianFieldMechanism", "MarkovQuiltMechanism", "ParameterFreeLadder", "Release", "composed_epsilon"]
