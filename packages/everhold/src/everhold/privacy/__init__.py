"""Hockey-stick curves of differential privacy, and their composition."""

from __future__ import annotations

from everhold.privacy.composition import ComposedCurve, GroupCurve, composed
from everhold.privacy.curves import BoundedRangeCurve, GaussianCurve, PrivacyCurve, PureCurve, ZeroConcentratedCurve

__all__ = [
    "BoundedRangeCurve",
    "ComposedCurve",
    "GaussianCurve",
    "GroupCurve",
    "PrivacyCurve",
    "PureCurve",
    "ZeroConcentratedCurve",
    "composed",
]
