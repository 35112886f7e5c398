"""Intake of rows: reading, checking, splitting and writing them before they are sealed.

`reading` reads tables, `checks` refuses rows with mistakes, and `files` seals the rows.
"""
