"""Requests that several tests of the planner share."""

import itertools

ROWS = (300, 3_000, 30_000, 300_000, 3_000_000)
QUERIES = (1, 10, 100, 2_000, 50_000)
FAILURES = (0.001, 0.01, 0.05, 0.3)

GRID = list(itertools.product(ROWS, QUERIES, FAILURES))


def wanted(rows, queries, failure, **others):
    return {"rows": rows, "queries": queries, "surprises": min(10, queries), "confidence": 1 - failure, **others}
