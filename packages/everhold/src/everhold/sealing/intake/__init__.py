"""Rows on their way in.

Read `reading` brings them in, `checks` refuses what cannot be meant, `files` and `create` seal them.
"""
