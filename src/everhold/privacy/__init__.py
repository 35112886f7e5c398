"""Noise and what it costs: exact integer noise, and hockey-stick curves with composition."""

from everhold.privacy.curves import ApproximateCurve, GaussianCurve, PrivacyCurve, PureCurve, ZeroConcentratedCurve
from everhold.privacy.noise import Noise, SecureNoise, SeededNoise

__all__ = [
    "ApproximateCurve",
    "GaussianCurve",
    "Noise",
    "PrivacyCurve",
    "PureCurve",
    "SecureNoise",
    "SeededNoise",
    "ZeroConcentratedCurve",
]
