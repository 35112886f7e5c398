"""Hockey-stick curves of differential privacy, and their composition."""

from __future__ import annotations

from everhold.privacy.curves import (
    BoundedRangeCurve,
    ComposedCurve,
    GaussianCurve,
    GroupCurve,
    PrivacyCurve,
    PureCurve,
    ZeroConcentratedCurve,
    composed,
)

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
