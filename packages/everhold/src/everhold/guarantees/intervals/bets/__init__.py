"""Intervals by betting: as narrow as the values spread.

Read `joint` for what a bet is and how values are excluded, then `betting` for the procedures of rows and of groups.
"""
