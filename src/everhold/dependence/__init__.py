"""How sealed rows hang together."""

from everhold.dependence.base import DependenceModel
from everhold.dependence.independent import Independent

__all__ = ["DependenceModel", "Independent"]
