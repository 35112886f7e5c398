"""Interval procedures: what the sealed rows leave possible for one fixed query (S8)."""
