"""Interval procedures: what the sealed rows leave possible for one fixed question (S8)."""
