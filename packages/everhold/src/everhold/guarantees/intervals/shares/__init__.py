"""Intervals of one mean, from exact tails: read `means` first."""
