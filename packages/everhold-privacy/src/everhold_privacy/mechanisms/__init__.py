"""Mechanisms with noise: begin with `additive`, the base of S1; `privacy_budget` pays for a mix of queries."""
