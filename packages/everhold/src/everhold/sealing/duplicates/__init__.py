"""Rows that are sealed already, or stand on both sides of a split."""
