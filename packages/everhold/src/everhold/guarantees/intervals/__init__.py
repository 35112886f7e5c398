"""Interval procedures: what the sealed rows leave possible for one fixed query (S8).

`means` has exact tails of one mean. `joint` explains bets and how they exclude values, and `betting` has the procedures
of rows and of groups. `parts` splits the level of scores that are made of several parts, and `boxes` bounds them.
`gains`, `claims`, `arms` and `disagreement` compare two models or two arms.
"""
