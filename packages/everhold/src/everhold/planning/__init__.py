"""Planning: the best parameters for a request, all mechanisms compared, and rows or queries for a radius."""

from everhold.planning.inverse import queries_allowed, rows_needed
from everhold.planning.plan import Plan, PlanLine, PublishedLine, plan
from everhold.planning.request import PlanRequest, PlanTerms, best_mechanism, tuned_mechanism
from everhold.planning.widths import Steps, Widths, least_step

__all__ = [
    "Plan",
    "PlanLine",
    "PlanRequest",
    "PlanTerms",
    "PublishedLine",
    "Steps",
    "Widths",
    "best_mechanism",
    "least_step",
    "plan",
    "queries_allowed",
    "rows_needed",
    "tuned_mechanism",
]
