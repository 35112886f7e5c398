"""Mechanisms that add noise, budgets of privacy, and networks over rows, for everhold.

Begin with `guarantees`, which turns the noise of answers into intervals for the population (S1, S2). `mechanisms` has
one module for each way to answer, `queries` the queries that a privacy budget pays for, `synthetic` tables that may be
queried without limit, and `networks` models of rows whose dependence is a graph. `without_curator` has mechanisms in
which nobody is trusted with the rows.
"""
