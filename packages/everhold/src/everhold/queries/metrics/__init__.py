"""Metrics of models.

Read `scores` has the names, `score_query` one model, `difference` two, `slices` parts of the rows.
"""
