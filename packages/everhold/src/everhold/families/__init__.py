"""Declared families: sets of queries that are fixed before anybody asks, so that their answers are free (S10)."""
