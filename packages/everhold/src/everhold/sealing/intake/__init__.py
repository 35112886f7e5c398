"""Intake of rows: reading, checking, splitting and writing them before they are sealed.

Read `reading` brings them in, `checks` refuses what cannot be meant, `files` and `create` seal them.
"""
