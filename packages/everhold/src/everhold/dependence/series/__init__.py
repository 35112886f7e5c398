"""Rows in order: chains and autoregressions, known or fitted."""
