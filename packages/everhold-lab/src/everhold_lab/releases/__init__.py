"""Private releases from the literature that no holdout uses: single numbers and choices."""

from everhold_lab.releases.markov_quilt import MarkovQuiltMechanism
from everhold_lab.releases.one_shot import GaussianFieldMechanism, PermuteAndFlip, Release

__all__ = ["GaussianFieldMechanism", "MarkovQuiltMechanism", "PermuteAndFlip", "Release"]
