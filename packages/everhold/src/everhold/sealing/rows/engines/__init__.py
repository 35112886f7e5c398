"""Stores and engines of rows: one protocol, one file for each engine."""
