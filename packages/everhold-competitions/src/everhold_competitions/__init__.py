"""Everhold competitions."""
