"""Noise and what it costs: exact integer noise, and hockey-stick curves with composition."""

from everhold.privacy.bounded_range import BoundedRangeCurve
from everhold.privacy.composition import (
    AdvancedCompositionCurve,
    ComposedCurve,
    GroupCurve,
    basic_composition,
    composed,
)
from everhold.privacy.curves import ApproximateCurve, GaussianCurve, PrivacyCurve, PureCurve, ZeroConcentratedCurve
from everhold.privacy.discrete import (
    discrete_gaussian_exceedance,
    discrete_gaussian_pmf,
    discrete_laplace_exceedance,
    discrete_laplace_pmf,
)
from everhold.privacy.noise import LARGEST_SCALE, KeyedNoise, Noise, SecureNoise, SeededNoise
from everhold.privacy.subsampling import Scheme, SubsampledBitsCurve, SubsampledCurve

__all__ = [
    "LARGEST_SCALE",
    "AdvancedCompositionCurve",
    "ApproximateCurve",
    "BoundedRangeCurve",
    "ComposedCurve",
    "GaussianCurve",
    "GroupCurve",
    "KeyedNoise",
    "Noise",
    "PrivacyCurve",
    "PureCurve",
    "Scheme",
    "SecureNoise",
    "SeededNoise",
    "SubsampledBitsCurve",
    "SubsampledCurve",
    "ZeroConcentratedCurve",
    "basic_composition",
    "composed",
    "discrete_gaussian_exceedance",
    "discrete_gaussian_pmf",
    "discrete_laplace_exceedance",
    "discrete_laplace_pmf",
]
