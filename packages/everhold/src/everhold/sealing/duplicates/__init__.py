"""Finds rows that are sealed already, or that stand on both sides of a split."""
