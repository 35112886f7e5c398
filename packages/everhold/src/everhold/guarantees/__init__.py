"""Guarantees: each theorem is a pure function with its number."""
