"""A metric that everhold does not have: the share of the rows with label 0 that are predicted 0."""

from everhold.queries.metrics.measures import PartsMeasure, average_of
from everhold.queries.metrics.registry import Metric
from everhold.queries.metrics.score_parts import rate_part

__all__ = ["SPECIFICITY", "specificity"]

SPECIFICITY = Metric("specificity", "classes", ("binary",), "everhold_example.specificity:specificity")
"""Promised for one model and two, for all rows and some, in groups, and by gates."""


def specificity(metric: Metric) -> PartsMeasure:
    """Its computation: the recall of label 0, whose denominator no model decides."""
    return average_of(metric, lambda rows, _: [rate_part(rows, 0.0, "recall")])
