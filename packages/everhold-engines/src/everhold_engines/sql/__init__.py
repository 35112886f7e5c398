"""Expressions as SQL. Begin with `compiler`.

`branching` compiles one expression, and `dialects` has the engines' spellings.
"""
