"""How sealed rows hang together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.dependence.base import DependenceModel
from everhold.dependence.independent import Independent
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DependenceModel", "Independent", "dependence_from_dict"]


def dependence_from_dict(data: Mapping[str, Any]) -> DependenceModel:
    """The inverse of `DependenceModel.to_dict`.

    Raises:
        DependenceError: If the kind is unknown.
    """
    if data.get("kind") != "independent":
        raise DependenceError(f"the dependence model {data.get('kind')!r} is unknown; expected 'independent'")
    return Independent()
