"""Hockey-stick curves of differential privacy, and their composition."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from everhold import randomness
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


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The sources of noise by the place they had before `everhold.randomness`; for one version."""
        if name not in ("LARGEST_SCALE", "KeyedNoise", "Noise", "SecureNoise", "SeededNoise"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warnings.warn(f"everhold.privacy.{name} is now everhold.randomness.{name}", FutureWarning, stacklevel=2)
        return getattr(randomness, name)
