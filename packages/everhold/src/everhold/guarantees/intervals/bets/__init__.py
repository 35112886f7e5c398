"""Intervals by betting.

Read `capital` is what a bet is, `hedge` the stakes, `betting` the procedure for rows and for groups.
"""
