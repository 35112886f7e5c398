"""Queries about many candidates or cells: the best one, those above a threshold, quantiles and tables."""
