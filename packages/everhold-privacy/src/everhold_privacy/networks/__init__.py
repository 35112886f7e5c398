"""Rows on a graph: Bayesian and Markov networks, pedigrees, quilts and influences."""
