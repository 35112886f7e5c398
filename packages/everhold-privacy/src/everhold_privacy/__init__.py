"""Mechanisms that add noise, budgets of privacy, and networks over rows, for everhold.

Begin with `guarantees`, which turns the noise of answers into intervals for the population (S1, S2). `mechanisms` has
one module for each way to answer, `queries` what a privacy budget pays for, `synthetic` tables that are queried for
ever, and `networks` rows whose dependence is a graph. In `without_curator` nobody is trusted with the rows.
"""
