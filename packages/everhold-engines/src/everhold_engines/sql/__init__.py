"""Expressions as SQL: begin with `compiler`; `branching` compiles one expression, `dialects` has the engines' words."""
