"""Intervals of one mean from exact tails. Start with `means`."""
