"""The best parameters for a wish, all mechanisms side by side, and the wish the other way round."""

from everhold.planning.candidates import Candidate, best_radius
from everhold.planning.inverse import queries_allowed, rows_needed
from everhold.planning.plan import Plan, PlanLine, PublishedLine, plan
from everhold.planning.tuning import best_mechanism, tuned_mechanism

__all__ = [
    "Candidate",
    "Plan",
    "PlanLine",
    "PublishedLine",
    "best_mechanism",
    "best_radius",
    "plan",
    "queries_allowed",
    "rows_needed",
    "tuned_mechanism",
]
