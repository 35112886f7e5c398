"""Noise and what it costs: exact integer noise, and hockey-stick curves with composition."""

from everhold.privacy.composition import ComposedCurve, GroupCurve, composed
from everhold.privacy.curves import BoundedRangeCurve, GaussianCurve, PrivacyCurve, PureCurve, ZeroConcentratedCurve
from everhold.privacy.noise import LARGEST_SCALE, KeyedNoise, Noise, SecureNoise, SeededNoise

__all__ = [
    "LARGEST_SCALE",
    "BoundedRangeCurve",
    "ComposedCurve",
    "GaussianCurve",
    "GroupCurve",
    "KeyedNoise",
    "Noise",
    "PrivacyCurve",
    "PureCurve",
    "SecureNoise",
    "SeededNoise",
    "ZeroConcentratedCurve",
    "composed",
]
