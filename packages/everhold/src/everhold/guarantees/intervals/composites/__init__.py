"""Intervals of scores that are computed from several parts.

Read `parts` splits the level, `boxes` bounds the score over the parts' intervals.
"""
