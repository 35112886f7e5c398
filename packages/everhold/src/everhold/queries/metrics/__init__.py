"""Metrics of models.

Read `registry`, which lists them, then `query`, about one model or two, `measures`, and `slices`.
"""
