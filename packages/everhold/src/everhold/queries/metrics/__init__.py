"""Metrics of models: their registry, their queries, and how each is computed row by row.

Read `registry`, which lists them, then `query`, about one model or two, `measures`, and `slices`.
"""
