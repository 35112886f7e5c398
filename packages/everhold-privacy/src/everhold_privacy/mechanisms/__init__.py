"""Mechanisms with noise.

Begin with `additive`, the simplest case of S1; `privacy_budget` answers all kinds of queries.
"""
